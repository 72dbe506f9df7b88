/* Other people's libraries, each in a process of its own that speaks JSON (peers/README.md). */
#ifndef CLATTN_BENCH_PEER_H
#define CLATTN_BENCH_PEER_H

#include "case.h"
#include "check.h"
#include "worker_process.h"

#define PEER_MOST 8

/* What the program knows of a peer before it is started. */
struct peer_kind {
    const char *key;     /* For --peers: "clblast". */
    const char *name;    /* "CLBlast". */
    const char *program; /* Beside clattn-bench; ends in .py for the Python script. */
    const char *argument;
    bool on_cpu;         /* Beside CPU devices only. */
    const char *install; /* What makes it available, as a command. */
};

extern const struct peer_kind peer_kinds[]; /* Ends with a null key. */

struct peer {
    const struct peer_kind *kind;
    struct ca_process process;
    char name[32], version[32], method[128];
    char folder[256]; /* Its files, until it ends. */
    bool open;
    double first_seconds;    /* Of the open problem. */
    char configuration[256]; /* Likewise; "" if it says none. */
    double seconds;          /* Of one execution, as last seen. */
};

enum peer_answer {
    PEER_OK,
    PEER_MISSING,     /* Its program or its library is not there; *why ends with the command. */
    PEER_UNSUPPORTED, /* It cannot compute this problem. */
    PEER_FAILED       /* It crashed, hung or talked nonsense; it is ended and can be started anew. */
};

/* Starts the process and says hello. `device` is what clattn_device_select() takes. */
enum peer_answer peer_start(struct peer *peer, const struct peer_kind *kind, const char *device,
                            unsigned threads, struct message *why);

/* Hands over the case's tensors, packed, in so many copies (at least 1). */
enum peer_answer peer_open(struct peer *peer, const struct attention_case *attention, size_t copies,
                           struct message *why);

/* The time of one execution out of about `busy` seconds of them, and the host's part, or -1. A time
 * limit grows with what one execution took before. */
enum peer_answer peer_sample(struct peer *peer, double busy, double *seconds, double *host,
                             struct message *why);

/* Has it compute once more and compares o with the case's answer or with double precision. */
enum peer_answer peer_check(struct peer *peer, const struct attention_case *attention,
                            enum precision precision, struct worst *worst, struct message *why);

void peer_close(struct peer *peer);

/* Ends the process; allowed on one that is not running. */
void peer_end(struct peer *peer);

#endif
