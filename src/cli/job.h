/* SPDX-License-Identifier: Apache-2.0 */
/* A line of the benchmark computes a job: a problem, or a layer of several problems. */
#ifndef CLATTN_BENCH_JOB_H
#define CLATTN_BENCH_JOB_H

#include "problem/operations.def"

#include <clattn/multihead.h>
#include <clattn/problem.h>
#include <stdbool.h>
#include <stddef.h>

/* Kinds of jobs: first the operations, in the order of clattn_operation, then layers. */
enum job_kind {
#define OPERATION(ID, ...) JOB_##ID = CLATTN_##ID,
    CA_OPERATIONS(OPERATION)
#undef OPERATION
        JOB_LAYER_FORWARD,
    JOB_LAYER_BACKWARD,
    JOB_KINDS
};

struct job {
    clattn_problem problem; /* The problem; for a layer, the problem of its attention. */
    bool is_layer;
    clattn_multihead layer; /* The layer; set if is_layer. */
};

enum job_kind job_kind(const struct job *job);

/* The beginning of the text form: "fwd", "layer bwd". */
const char *job_kind_name(enum job_kind kind);

/* Reads either text form. On failure the reason is that of a layer if the text begins like one. */
bool job_parse(const char *text, struct job *job, char *reason, size_t reason_bytes);

/* The job of a problem. */
struct job job_of(const clattn_problem *problem);

/* The text form, for free(); NULL without memory. */
char *job_text(const struct job *job);

/* Floating-point operations, as clattn_problem_flops() and clattn_multihead_flops() have them. */
double job_flops(const struct job *job);

#endif
