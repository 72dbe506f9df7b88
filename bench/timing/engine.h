/* SPDX-License-Identifier: Apache-2.0 */
/* The library's answer to a job: a plan, or that of a layer. */
#ifndef CLATTN_BENCH_ENGINE_H
#define CLATTN_BENCH_ENGINE_H

#include "bench/cases/case.h"
#include "bench/timing/target.h"

/* The tensors of one execution. */
struct tensor_set {
    clattn_buffer in[INPUT_COUNT], out[OUTPUT_COUNT], workspace;
};

struct engine {
    const struct target *target;
    enum job_kind kind;
    clattn_plan *plan; /* Either plan or layer is set. */
    clattn_multihead_plan *layer;
    const char *job, *reason; /* The text form; why it is this plan. They belong to it. */
    char *configuration;      /* "FAMILY NAME=value ...", as the duel takes it; owned. */
    size_t workspace_bytes;
    size_t reserve_bytes; /* Bytes of a trained layer's reserve; else 0. */
};

/* False, with the reason, if the library says that nothing, or not what is forced, can do it. */
bool engine_supports(const struct target *target, const struct job *job,
                     const clattn_plan_options *options, struct message *why);

/* The options may be NULL; of them a layer knows the flags alone. On failure *engine is closed. */
bool engine_open(struct engine *engine, const struct target *target, const struct job *job,
                 const clattn_plan_options *options, struct message *why);

void engine_close(struct engine *engine);

/* The arguments of calls that compute attention, or its gradients, on the set. */
clattn_forward_tensors engine_forward(const struct tensor_set *set);
clattn_backward_tensors engine_backward(const struct tensor_set *set);

/* Enqueues one execution on the target's queue. */
bool engine_run(const struct engine *engine, const struct tensor_set *set, cl_event *done,
                struct message *why);

#endif
