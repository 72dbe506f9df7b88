/* SPDX-License-Identifier: Apache-2.0 */
/* The context: one OpenCL context and device, its facts, and the programs built for it. */
#ifndef CA_CONTEXT_H
#define CA_CONTEXT_H

#include "base/log.h"
#include "context/first_run.h"
#include "device/pointers.h"
#include "os/forks.h"
#include "os/thread.h"

#include <stdatomic.h>

struct ca_program;   /* src/program/program_build.h */
struct ca_store;     /* src/store/store.h */
struct ca_overrides; /* src/store/override.h */
struct ca_shipped;   /* src/store/shipped.h */

struct clattn_context {
    atomic_size_t references;                 /* the caller's and one for each plan */
    void (*destroy)(clattn_context *context); /* by whom it was made: layers above own its parts */
    cl_context cl;                            /* NULL: a profile stands in for a device */
    clattn_device_info device;
    struct ca_pointers pointers; /* how its kernels take addresses */
    int narrowed;                /* by a profile */
    struct ca_log log;
    int skip_self_checks;
    unsigned forks;                 /* ca_forks() when it was made */
    char *cache_directory;          /* NULL: no cache */
    double end_seconds;             /* in which its end begins to store programs */
    unsigned long long cache_bytes; /* what programs may take there; 0: any */
    atomic_size_t cache_writes;     /* of programs, so far */
    atomic_int cache_unwritable;    /* nothing more is written there */
    atomic_size_t builds;           /* programs compiled so far */
    atomic_size_t builtins_refused; /* how often cl/common/builtins.h was not enough for one */
    struct ca_mutex lock;           /* guards the next four; never held while a program is made */
    struct ca_program *programs;
    size_t uses;              /* of programs that were put back */
    char last_failure[256];   /* to build one, so that it is said once */
    struct ca_condition made; /* a program, or it failed */
    struct ca_first_runs first_runs;
    struct ca_store *store; /* these three lock themselves */
    struct ca_overrides *overrides;
    struct ca_shipped *shipped;
};

/* CLATTN_INVALID_ARGUMENT for NULL, and with a sentence in a process that was forked since the context was made;
 * else success. */
clattn_status ca_context_check(const clattn_context *context);

/* The same, and CLATTN_NO_DEVICE, with a sentence, where a profile stands in for a device. */
clattn_status ca_context_need_device(const clattn_context *context);

/* For plans: one more reference, given up by clattn_context_release(). */
void ca_context_retain(clattn_context *context);

#endif
