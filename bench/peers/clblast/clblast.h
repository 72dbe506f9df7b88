/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of clattn-peer-clblast: attention and projections share a device, tensors and time. */
#ifndef CLATTN_BENCH_PEER_CLBLAST_H
#define CLATTN_BENCH_PEER_CLBLAST_H

#include "bench/peers/clblast/softmax_program.h"
#include "bench/peers/peer_main.h"

#include <clblast_c.h>

/* One set of tensors; of a projection x, w, no v, and y. */
struct clblast_set {
    cl_mem q, k, v, o;
};

struct clblast {
    struct target target;
    const struct problem_data *data;
    struct clblast_set *sets;
    size_t copies, turn;
    double last; /* Seconds of one computation; 0 before the first sample. */
    double enqueueing;

    /* The open operation's; the last kernel's event goes to `end` unless that is NULL. */
    bool (*enqueue)(struct clblast *c, const struct clblast_set *set, cl_event *end,
                    struct message *why);

    cl_mem scores; /* Of attention. */
    struct softmax_program softmax;
    struct steps steps;
    bool by_vectors; /* Each row by GEMV. */

    cl_mem bias; /* Of a projection: a y that has nothing but it in every row; NULL without one. */
};

/* NULL and a reason on failure. `data` may be NULL. */
cl_mem clblast_buffer(const struct clblast *c, size_t bytes, const void *data, struct message *why);

/* Refuses what CLBlast does not compute on this device, then makes the sets. */
enum peer_status clblast_open(struct clblast *c, const struct problem_data *data, size_t copies,
                              bool (*make_set)(const struct clblast *c, struct clblast_set *set,
                                               struct message *why),
                              struct message *why);

/* Functions of a peer_library. */
bool clblast_hello(void *self, const char *device, unsigned threads, struct peer_greeting *greeting,
                   struct message *why);
bool clblast_compute(void *self, size_t set, struct message *why);
bool clblast_sample(void *self, double busy, struct peer_sample *sample, struct message *why);
bool clblast_poison(void *self, struct message *why);
bool clblast_read(void *self, void *results, struct message *why);
void clblast_close(void *self);

extern const struct peer_library clblast_attention, clblast_projection;

#endif
