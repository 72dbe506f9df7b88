/* SPDX-License-Identifier: Apache-2.0 */
/* An append as races.c runs attention. */
#ifndef TEST_RACE_APPEND_H
#define TEST_RACE_APPEND_H

#include <clattn/clattn.h>

/* 0 if the call fails or a number is wrong. */
int race_append(clattn_context *context, const clattn_problem *p,
                const clattn_plan_options *options);

#endif
