/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of a peer program (README.md): requests in, answers out; a library fills in the rest. */
#ifndef CLATTN_BENCH_PEER_MAIN_H
#define CLATTN_BENCH_PEER_MAIN_H

#include "bench/peers/problem_data.h"

/* How a library presents itself. */
struct peer_greeting {
    char version[32];
    char method[128]; /* What is called, in one line. */
};

struct peer_sample {
    double seconds; /* Of one computation, the median. */
    size_t executions;
    double host_seconds; /* Of the calling thread for one; negative where it computes itself. */
};

enum peer_status {
    PEER_DONE,
    PEER_UNSUPPORTED, /* There is no way to compute this. */
    PEER_FAILED
};

/* What computes some operations. Functions that fail say why in one sentence. `self` is the
 * library's own state. */
struct peer_library {
    const char *name;           /* Of the first of several alone, as the next one and hello(). */
    const char *on;             /* "device" or "cpu". */
    unsigned operations;        /* A bit for each clattn_operation that this one computes. */
    const char *const *options; /* Of the first one: words of README.md, NULL after the last. */

    bool (*hello)(void *self, const char *device, unsigned threads, struct peer_greeting *greeting,
                  struct message *why);

    /* Makes `copies` sets of tensors. The data lives until close(), which follows in any case. */
    enum peer_status (*open)(void *self, const struct problem_data *data, size_t copies,
                             struct message *why);

    /* What counts as a part of the first computation: compiling. */
    enum peer_status (*build)(void *self, struct message *why);

    /* Computes on one of the sets, to the end. */
    bool (*compute)(void *self, size_t set, struct message *why);

    /* After the first computation: chooses the fastest way and describes it. */
    bool (*settle)(void *self, char configuration[256], struct message *why);

    /* Computes for about `busy` seconds by the device's clock. NULL: the host's clock is right. */
    bool (*sample)(void *self, double busy, struct peer_sample *sample, struct message *why);

    /* Fills the first set's results with NaN, and reads them, one after the other. */
    bool (*poison)(void *self, struct message *why);
    bool (*read_output)(void *self, void *results, struct message *why);

    void (*close)(void *self);
};

/* The least time of a computation on the first set: once to wake threads and compile, then up to
 * five times, fewer where one takes long. For settle(). */
bool peer_main_time(bool (*compute)(void *self, size_t set, struct message *why), void *self,
                    double *seconds, struct message *why);

/* Answers requests until they end, by the first of the libraries that computes the operation; NULL
 * after the last. The program's exit code. */
int peer_main(const struct peer_library *const *libraries, void *self);

#endif
