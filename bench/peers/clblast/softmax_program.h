/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of softmax.cl for one problem. */
#ifndef CLATTN_BENCH_PEER_SOFTMAX_PROGRAM_H
#define CLATTN_BENCH_PEER_SOFTMAX_PROGRAM_H

#include "bench/peers/steps.h"
#include "bench/timing/target.h"

/* A buffer of the bytes and some room after them, filled with the data unless that is NULL. On
 * failure *buffer may hold one all the same. */
bool device_copy(const struct target *target, const void *data, size_t bytes, size_t room,
                 cl_mem *buffer, struct message *why);

enum { NUM_SOFTMAX_BUFFERS = 5 };

struct softmax_program {
    cl_kernel kernel;
    cl_mem buffer[NUM_SOFTMAX_BUFFERS]; /* Addend, slopes, sinks and lengths; NULL: none. Owned. */
    size_t width;                       /* Of a work-group. */
    size_t local_bytes;
};

/* On failure what was made is for softmax_program_close() to release. */
bool softmax_program_open(struct softmax_program *softmax, const struct target *target,
                          const struct problem_data *data, const struct steps *steps,
                          struct message *why);

/* Over the scores of one step. */
bool softmax_program_enqueue(const struct softmax_program *softmax, cl_command_queue queue,
                             cl_mem scores, const struct step *step, struct message *why);

/* Allowed on one that is all zeros. */
void softmax_program_close(struct softmax_program *softmax);

#endif
