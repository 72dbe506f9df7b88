/* SPDX-License-Identifier: Apache-2.0 */
/* How a problem is cut into pairs of batched matrix products: so that the scores of each fit where
 * they should, and so that what causality and windows hide is not multiplied at all where that can
 * be had by leaving out columns. */
#ifndef CLATTN_BENCH_PEER_STEPS_H
#define CLATTN_BENCH_PEER_STEPS_H

#include "bench/peers/problem_data.h"

/* A batch of equal products. The heads / kv_heads heads of a key head lie one below the other, as
 * (heads / kv_heads) * seq_q rows of q and o: a key head's slice. */
struct step {
    size_t slice;     /* The first one, of batch * kv_heads. */
    size_t entries;   /* Of the batch. */
    bool same_slice;  /* Entries are heads of one slice; otherwise each is a slice. */
    size_t row, rows; /* Of the first entry's slice. */
    size_t key, keys; /* Columns; at least one. */
    size_t stride;    /* From one row of scores to the next: a multiple of 32. */
};

struct steps {
    struct step *step; /* Owned. */
    size_t count;
    size_t most_scores; /* Elements, strides included, of the largest step. */
    size_t most_rows;   /* Of a step, those of all entries. */
    size_t most_keys;
};

struct step_limits {
    size_t rows;         /* Per entry, as a wish where keys are hidden. */
    size_t entries;      /* Per step. */
    size_t scores;       /* Elements per step; a single row may exceed it. */
    bool always_by_rows; /* Also where no key is hidden. */
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

/* From one entry to the next: rows of q and o, and key heads. */
size_t step_row_stride(const struct step *step, const clattn_problem *problem);
size_t step_slice_stride(const struct step *step);

/* The first entry's first row of q and o, counted over the whole tensor. */
size_t step_first_row(const struct step *step, const clattn_problem *problem);

#endif
