/* SPDX-License-Identifier: Apache-2.0 */
/* A projection as races.c runs attention. */
#ifndef TEST_RACE_PROJECTION_H
#define TEST_RACE_PROJECTION_H

#include <clattn/clattn.h>

/* Computes the problem and compares; true if all went well. Tensors have exactly their size. */
int race_projection(clattn_context *context, const clattn_problem *p,
                    const clattn_plan_options *options);

#endif
