/* SPDX-License-Identifier: Apache-2.0 */
/* Merges in double precision by plain loops, written from the formula in <clattn/problem.h>. It shares no
 * code with the library. */
#ifndef CLATTN_REFERENCE_MERGE_H
#define CLATTN_REFERENCE_MERGE_H

#include "bench/judge/judge.h"

/* Strides of parts (states * batch, heads, seq_q, dim_v) and o (batch, heads, seq_q, dim_v). */
struct merge_strides {
    size_t parts[4], o[4];
};

struct merge_strides reference_merge_strides(const clattn_merge_problem *p);

/* Pointers to element (0, 0, 0, 0). sinks: looked at if the problem has them. o and lse: what they hold
 * before, looked at if the problem accumulates. */
struct merge_view {
    const void *parts;
    const float *parts_lse;
    const float *sinks;
    const void *o;
    const float *lse;
};

/* Row (b, h, i): dim_v elements of o, and lse, each with the largest error that f32 may leave on it. */
void reference_merge(const clattn_merge_problem *p, const struct merge_view *view, size_t b,
                     size_t h, size_t i, struct bounded *o, struct bounded *lse);

/* Rows of both outputs; at[] of lse is (b, h, i, 0). */
enum { MERGED_O, MERGED_LSE };
bool judge_merge(const clattn_merge_problem *p, const struct merge_view *view, double budget,
                 judge_row *row, void *user);

#endif
