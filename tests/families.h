/* What tests that go over all families ask of one. */
#ifndef TEST_FAMILIES_H
#define TEST_FAMILIES_H

#include "family.h"

/* Whether the family computes f32. Those for matrix instructions know 16 bits alone; their tests
 * are in test_fused_mma.c. name NULL, the library's choice: yes; unknown: no. */
int family_takes_f32(const char *name);

#endif
