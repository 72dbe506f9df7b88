/* SPDX-License-Identifier: Apache-2.0 */
/* Other people's libraries, each in a process of its own that speaks JSON (peers/README.md). */
#ifndef CLATTN_BENCH_PEER_H
#define CLATTN_BENCH_PEER_H

#include "bench/cases/case.h"
#include "bench/peer/peer_process.h"
#include "bench/verify/check.h"

#include <clattn/device.h>

#define PEER_MOST 8
#define PEER_MOST_VARIABLES 2

/* Facts of a peer that are known before it is started. */
struct peer_kind {
    const char *key;      /* Its name in --peers, such as "clblast". */
    const char *name;     /* Its name for people, such as "CLBlast". */
    const char *program;  /* A name that peer_kind_program() finds, or a path; ".py" for Python. */
    const char *argument; /* NULL: none. */
    const char *variable[PEER_MOST_VARIABLES]; /* "NAME=VALUE" of its environment, each unless that
                                                * has a NAME; NULL: no more. */
    bool on_cpu;                               /* The peer is run beside CPU devices only. */
    const char *install; /* The command that makes it available; "" if none is known. */
    double patience;     /* Factor of the usual time limits; 0 means 1. */
};

extern const struct peer_kind peer_kinds[]; /* Ends with a null key. */

/* The kind of that key, or NULL. */
const struct peer_kind *peer_kind_find(const char *key);

/* A program of the user's own, known by the slash in its path, which is borrowed. */
struct peer_kind peer_kind_path(const char *path);

/* Returns whether it is worth starting beside devices of this type. */
bool peer_kind_suits(const struct peer_kind *kind, cl_device_type type);

/* Where its program is: in $CLATTN_PEERS, beside clattn-bench, in peers/ there (a build folder), or
 * in ../libexec/clattn. False and "" if there is none, or the path is longer than fits. */
bool peer_kind_program(const struct peer_kind *kind, char *path, size_t bytes);

struct peer {
    const struct peer_kind *kind; /* Borrowed. */
    struct peer_process process;
    char name[32], version[32], method[128];
    unsigned operations; /* A bit for each job_kind that it computes. */
    unsigned options;    /* A bit for each of those in peer_options.h that it takes. */
    bool open;
    double first_seconds; /* Seconds of the open problem's first execution. */
    /* Configuration used for the open problem; "" if the peer says none. */
    char configuration[256];
    double seconds; /* Seconds of one execution, as last measured. */
};

/* Every sentence in *why has the peer as its subject. */
enum peer_answer {
    PEER_OK,
    PEER_MISSING,     /* Its program or its library is not there; *why ends with the command. */
    PEER_UNSUPPORTED, /* It cannot compute this problem, or not beside this device. */
    PEER_FAILED /* It crashed, hung, talked nonsense, or ca_interrupted(); it is ended and can be
                 * started anew. */
};

/* Starts the process and says hello, after ca_interrupt_catch(): who writes to a peer that died
 * gets SIGPIPE. `device` is what clattn_device_select() takes to choose the device of `info`. */
enum peer_answer peer_start(struct peer *peer, const struct peer_kind *kind, const char *device,
                            const clattn_device_info *info, unsigned threads, struct message *why);

/* Returns whether it was started and has not ended. */
bool peer_runs(const struct peer *peer);

/* Hands over the case's tensors, packed, in so many copies (at least 1). What was open is
 * closed. */
enum peer_answer peer_open(struct peer *peer, const struct attention_case *attention, size_t copies,
                           struct message *why);

/* The time of one execution out of about `busy` seconds of them, and the host's part, or -1. A time
 * limit grows with what one execution took before. */
enum peer_answer peer_sample(struct peer *peer, double busy, double *seconds, double *host,
                             struct message *why);

/* Has it compute once more and compares its results with double precision, even if the case
 * has an answer: that may be less exact than the peer. */
enum peer_answer peer_check(struct peer *peer, const struct attention_case *attention,
                            enum precision precision, struct worst *worst, struct message *why);

void peer_close(struct peer *peer);

/* Ends the process; allowed on one that is not running or was never started, but cleared. */
void peer_end(struct peer *peer);

#endif
