/* SPDX-License-Identifier: Apache-2.0 */
/* Divides a problem into pairs of batched matrix products, so that the scores of each fit the
 * memory for them. Columns that causality and windows hide are left out where that is possible. */
#ifndef CLATTN_BENCH_PEER_STEPS_H
#define CLATTN_BENCH_PEER_STEPS_H

#include "bench/peers/problem_data.h"

/* A batch of equal products. The heads / kv_heads heads of a key head lie one below the other, as
 * (heads / kv_heads) * seq_q rows of q and o: a key head's slice. */
struct step {
    size_t slice;     /* Index of the first slice, of batch * kv_heads. */
    size_t entries;   /* Number of products in the batch. */
    bool same_slice;  /* Entries are heads of one slice; otherwise each is a slice. */
    size_t row, rows; /* First row and number of rows in the first entry's slice. */
    size_t key, keys; /* First key and number of keys, at least one: the columns of scores. */
    size_t stride;    /* Elements from one row of scores to the next: a multiple of 32. */
};

struct steps {
    struct step *step; /* Owned. */
    size_t count;
    size_t most_scores; /* Most scores of a step, in elements, with padding. */
    size_t most_rows;   /* Most rows of a step, all its entries together. */
    size_t most_keys;
};

struct step_limits {
    size_t rows;         /* Rows per entry; only a wish where keys are masked. */
    size_t entries;      /* Entries per step. */
    size_t scores;       /* Scores per step; a single row may exceed this. */
    bool always_by_rows; /* Splits by rows even where no key is masked. */
};

bool steps_make(struct steps *steps, const clattn_problem *problem,
                const struct step_limits *limits, struct message *why);

void steps_free(struct steps *steps);

/* The head, of batch * heads, and the query whose row of scores that is. */
struct row_place {
    size_t head, i;
};
struct row_place step_row(const struct step *step, const clattn_problem *problem, size_t entry,
                          size_t row);

/* Steps from one entry to the next, in rows of q and o, and in kv heads. */
size_t step_row_stride(const struct step *step, const clattn_problem *problem);
size_t step_slice_stride(const struct step *step);

/* The first entry's first row of q and o, counted over the whole tensor. */
size_t step_first_row(const struct step *step, const clattn_problem *problem);

#endif
