/* SPDX-License-Identifier: Apache-2.0 */
/* One program of a context. */
#ifndef CA_PROGRAM_MADE_H
#define CA_PROGRAM_MADE_H

#include "families/family.h"
#include "program/verdict.h"

/* What making a program took, in seconds of the host's clock; 0 for what was not done. */
struct ca_build_seconds {
    double loading;         /* from the cache on disk, or finding that it has none */
    double front_end;       /* clBuildProgram() of the source */
    double code_generation; /* the first launch of its kernels, where many drivers compile on */
    double self_check;      /* its data, right answers and comparison */
    double storing;         /* getting the binary, where some compile once more, and writing it */
};

enum ca_program_state {
    CA_BEING_MADE,
    CA_MADE,     /* works, or has a verdict that lasts */
    CA_TAKEN_OUT /* of the list: a failure that may pass, or a verdict that was to be forgotten */
};

/* Only the thread that makes it touches it while it is being made, but for state, waiters and next,
 * which the context's lock guards, as it guards all afterwards. */
struct ca_program {
    struct ca_program *next;
    enum ca_program_state state;
    size_t waiters; /* the last of them frees one that was taken out */
    const struct ca_family *family;
    cl_program cl;             /* NULL unless status is CLATTN_SUCCESS */
    clattn_status status;      /* of having made it */
    struct ca_verdict verdict; /* its status is that above, or CLATTN_SUCCESS: there is none */
    struct ca_build_seconds seconds;
    size_t users;           /* who got it and has not put it back */
    size_t used;            /* when it was put back: the context's count of that */
    int wanted;             /* a plan of the caller's uses it */
    int unstored;           /* its binary is not on disk, but could be */
    const char *parameters; /* the text before the source; behind the options */
    char options[];
};

#endif
