/* SPDX-License-Identifier: Apache-2.0 */
/* Spaces and times that tests of the tuner make up. */
#ifndef TEST_TUNER_FIXTURE_H
#define TEST_TUNER_FIXTURE_H

#include "search/search.h"

/* tile (1 2 4 8 16 32), vector (1 2 4 8), kind (three texts), flag (1 0); not all of it. */
struct ca_space *made_up_space(void);

/* Adds every combination of a space's values that `allows` accepts (NULL: all), the last parameter
 * changing fastest. */
void allow_all(struct ca_space *space,
               bool (*allows)(const struct ca_space *space, const uint16_t *choices));

/* A smooth function with interactions; 5 configurations or more of made_up_space() fail. */
double made_up_time(const struct ca_space *space, size_t config);

/* The fastest configuration. */
size_t made_up_optimum(const struct ca_space *space);

#endif
