/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of a peer program (README.md): requests in, answers out. It owns the problem and its
 * tensors, poisons and reads results, times ways to compute; a library fills in the rest. */
#ifndef CLATTN_BENCH_PEER_MAIN_H
#define CLATTN_BENCH_PEER_MAIN_H

#include "bench/peers/problem_data.h"

#include <jansson.h>

/* The facts that a library states of itself. */
struct peer_greeting {
    char version[32];
    char method[128]; /* The functions that are called, in one line. */
};

/* Options that are refused unless a library takes them. Causality and windows are always taken. */
enum {
    PEER_TAKES_SOFTCAP = 1,
    PEER_TAKES_SINKS = 2,
    PEER_TAKES_ADDENDS = 4, /* Biases, masks and ALiBi. */
    PEER_TAKES_LENGTHS = 8,
    PEER_TAKES_NOTHING = 16 /* Problems without batches, queries or keys. */
};

struct peer_sample {
    double seconds; /* Median seconds of one computation. */
    size_t executions;
    /* Seconds of the calling thread for one computation; negative where it computes itself. */
    double host_seconds;
};

enum peer_status {
    PEER_DONE,
    PEER_UNSUPPORTED, /* There is no way to compute this. */
    PEER_FAILED
};

/* The problem that is open. */
struct peer_work {
    struct problem_data data;
    struct host_set *set;
    size_t sets;
    size_t copies; /* Copies asked for: as many as there are sets, or copies of one set. */
    size_t ways;   /* Number of ways to compute; 1 unless open() changes it. */
};

/* A library that computes some operations. Functions that fail say why in one sentence; those
 * that are NULL have nothing to do. `self` is the library's own state. */
struct peer_library {
    /* Where a program has several libraries, the members up to hello() are those of the first. */
    const char *name;
    const char *on;             /* "device" or "cpu". */
    const char *const *options; /* Words of README.md, NULL after the last. */
    bool (*hello)(void *self, const char *device, unsigned threads, struct peer_greeting *greeting,
                  struct message *why);

    unsigned operations; /* A bit for each job_kind that this one computes. */
    bool copies;         /* It makes its own copies of one set. */
    unsigned takes; /* Options that many libraries lack and this one takes: PEER_TAKES_... bits. */

    /* The work lives until close(), which follows in any case. */
    enum peer_status (*open)(void *self, struct peer_work *work, struct message *why);

    /* Compiling, which counts as part of the first computation. */
    enum peer_status (*build)(void *self, struct message *why);

    /* Chooses the way to compute from now on, of several. */
    void (*choose)(void *self, size_t way);

    /* Computes on one of the copies, to the end. */
    bool (*compute)(void *self, size_t copy, struct message *why);

    /* Describes the way that was chosen. */
    void (*describe)(const void *self, char configuration[256]);

    /* Computes for about `busy` seconds by the device's clock. NULL: the host's clock is right. */
    bool (*sample)(void *self, double busy, struct peer_sample *sample, struct message *why);

    /* Takes the first set's results, which hold NaN, to where they are computed, and back. */
    bool (*put_results)(void *self, struct message *why);
    bool (*get_results)(void *self, struct message *why);

    void (*close)(void *self);
};

struct peer_session {
    const struct peer_library *const *libraries; /* NULL after the last. */
    void *self;
    const struct peer_library *library; /* The library that has the problem open. */
    bool greeted, open;
    struct peer_work work; /* Valid while a problem is open. */
    size_t turn;           /* Index of the copy to compute on next. */
};

/* The answer to a line, by the first of the libraries that computes the operation; a new object. */
json_t *peer_session_answer(struct peer_session *session, const char *line);

/* Closes the open problem, if there is one. */
void peer_session_close(struct peer_session *session);

/* Answers requests until they end. The program's exit code. */
int peer_main(const struct peer_library *const *libraries, void *self);

#endif
