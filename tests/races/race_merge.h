/* SPDX-License-Identifier: Apache-2.0 */
/* A merge as races.c runs attention. */
#ifndef TEST_RACE_MERGE_H
#define TEST_RACE_MERGE_H

#include <clattn/clattn.h>

/* 0 if the call fails or a number is wrong. */
int race_merge(clattn_context *context, const clattn_problem *p,
               const clattn_plan_options *options);

#endif
