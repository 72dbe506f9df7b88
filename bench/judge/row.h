/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in double precision by plain loops, written from the formula in <clattn/problem.h>. It
 * shares no code with the library. Every value comes with the largest error that the given arithmetic
 * may leave on it; score.c and row.c derive the bounds. */
#ifndef CLATTN_REFERENCE_ROW_H
#define CLATTN_REFERENCE_ROW_H

#include "bench/judge/bounded.h"
#include "bench/judge/int8.h"
#include "bench/judge/tensors.h"

/* The results of one query. Arrays are the row's own. */
struct reference_row {
    enum precision precision;
    struct bounded *o; /* dim_v, as stored in the problem's dtype. */
    struct bounded lse;
    struct bounded *scores; /* seq_kv, at the point that the problem asks for. */
    struct bounded
        *weights; /* seq_kv: exp(s - lse) from the lse that was stored; with sums of weights. */
    struct bounded *s;         /* seq_kv: final scores; -inf where nothing is seen. */
    struct reference_key *key; /* seq_kv: what the softmax makes of them. */
    struct reference_sum *sum; /* dim_v: o while it is added up. */
    double *q, *x;             /* A row of q; one of k or v. */
    struct key_mean mean;      /* Of the row's keys, with int8. */
};

/* Room for a row; false if there is no memory. Close it in any case. */
bool reference_row_open(const clattn_problem *p, enum precision precision,
                        struct reference_row *row);
void reference_row_close(struct reference_row *row);

void reference_row_compute(const clattn_problem *p, const struct tensor_view *view, size_t b,
                           size_t h, size_t i, struct reference_row *row);

#endif
