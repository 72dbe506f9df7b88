/* SPDX-License-Identifier: Apache-2.0 */
/* One program of a context. */
#ifndef CA_PROGRAM_MADE_H
#define CA_PROGRAM_MADE_H

#include "families/family.h"
#include "program/verdict.h"

/* The duration of each stage of making a program, in seconds of the host's clock; 0 for a stage
 * that was not done. */
struct ca_build_seconds {
    double loading; /* looking the program up in the cache on disk, and loading it if it is there */
    double front_end; /* clBuildProgram() of the source */
    /* the first launch of its kernels, at which many drivers finish compiling */
    double code_generation;
    double self_check; /* the self-check's data, reference answers and comparison */
    double storing; /* getting the binary, for which some drivers compile again, and writing it */
};

enum ca_program_state {
    CA_BEING_MADE,
    CA_MADE, /* built and right, or failed with a verdict that lasts */
    /* no longer in the context's list: its failure may pass, or its verdict was forgotten */
    CA_TAKEN_OUT
};

extern const char
    *const ca_source_builtins[]; /* cl/common/builtins.h, which PoCL's programs begin with */

/* Only the thread that makes it touches it while it is being made, but for state, waiters and next,
 * which the context's lock guards, as it guards all afterwards. */
struct ca_program {
    struct ca_program *next;
    enum ca_program_state state;
    size_t waiters; /* threads that wait for the program; the last frees one that was taken out */
    const struct ca_family *family;
    cl_program cl;        /* NULL unless status is CLATTN_SUCCESS */
    clattn_status status; /* outcome of making the program */
    /* verdict.status is the status above, or CLATTN_SUCCESS where there is no verdict */
    struct ca_verdict verdict;
    struct ca_build_seconds seconds;
    size_t users;           /* how many plans have got the program and not put it back yet */
    size_t used;            /* context->uses when the program was last put back */
    int wanted;             /* not 0: a plan of the caller's uses it */
    int unstored;           /* not 0: its binary is not on disk, but could be stored */
    const char *parameters; /* the text that precedes the source; stored behind the options */
    const char *functions; /* the text between these and the source; stored behind the parameters */
    char options[];
};

#endif
