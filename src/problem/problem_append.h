/* SPDX-License-Identifier: Apache-2.0 */
/* Values that programs and plans of appends derive from their problems. */
#ifndef CA_PROBLEM_APPEND_H
#define CA_PROBLEM_APPEND_H

#include <clattn/problem.h>

/* rotary_base^(-2 / rotary_dim) as the sum of two floats. */
void ca_append_rotation(const clattn_append_problem *p, float *high, float *low);

/* Returns whether all innermost strides of what is read, or written, are 1. */
int ca_append_reads_units(const clattn_problem *p);
int ca_append_writes_units(const clattn_problem *p);

#endif
