/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of softmax.cl for one problem. */
#ifndef CLATTN_BENCH_PEER_SOFTMAX_PROGRAM_H
#define CLATTN_BENCH_PEER_SOFTMAX_PROGRAM_H

#include "bench/peers/steps.h"
#include "bench/timing/target.h"

struct softmax_program {
    cl_kernel kernel;
    size_t width; /* Work-items of a work-group. */
    size_t local_bytes;
};

bool softmax_program_open(struct softmax_program *softmax, const struct target *target,
                          const clattn_problem *problem, const struct steps *steps,
                          struct message *why);

/* Over the scores of one step. */
bool softmax_program_enqueue(const struct softmax_program *softmax, cl_command_queue queue,
                             cl_mem scores, const struct step *step, struct message *why);

/* Allowed on one that is all zeros. */
void softmax_program_close(struct softmax_program *softmax);

#endif
