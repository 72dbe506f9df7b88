/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses between clattn and ggml's CPU backend for an operation, by their times on the operations
 * themselves. Copies to a device that has memory of its own count in its times.
 *
 * Operations of a kind differ by their multiply-adds alone, and clattn is expected to gain with more.
 * The first of a kind is computed both ways. So is one of more than twice the multiply-adds that ggml is
 * known to compute faster, or of less than half of those that clattn is. A growing context therefore has a
 * trial at each doubling until clattn wins one, and none after that. */
#ifndef CLATTN_GGML_TRIALS_H
#define CLATTN_GGML_TRIALS_H

#include "attention.h"
#include "rest.h"

#define MOST_KINDS 64

/* Numbers without gaps between them: two are compared as bytes. */
struct kind {
    size_t batch, heads, kv_heads, dim_qk, dim_v, k_cache, v_cache, mask;
    size_t generation; /* Few queries, and a plan for all of a cache. */
    size_t threads;    /* Of ggml's. */
};

struct record {
    struct kind kind;
    double lost; /* The most multiply-adds that ggml computed faster; 0: none yet. */
    double won;  /* The fewest that clattn did; INFINITY: none yet. */
};

struct trials {
    double least;     /* Multiply-adds from which on clattn computes, untried; NAN: as measured. */
    double launch_ms; /* What a command takes that does next to nothing. */
    struct record record[MOST_KINDS]; /* A ring. */
    size_t count;
};

/* Measures a launch; CLATTN_GGML_LEAST is read here. */
void trials_open(struct trials *trials, const struct attention *attention);

enum trial_end {
    TRIAL_COMPUTED, /* The node has its result. */
    TRIAL_LEFT,     /* It is ggml's to compute, which is faster. */
    TRIAL_FAILED    /* It is ggml's to compute, since clattn could not. */
};

/* Computes the node with clattn if that is faster, or is not known yet. */
enum trial_end trials_compute(struct trials *trials, struct attention *attention, struct rest *rest,
                              const struct ggml_tensor *node);

#endif
