/* The context: one OpenCL context and device, its facts, and the programs built for it. */
#ifndef CA_CONTEXT_H
#define CA_CONTEXT_H

#include "base/log.h"
#include "context/first_run.h"
#include "device/pointers.h"

#include <pthread.h>
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
    char *cache_directory;          /* NULL: no cache */
    atomic_int cache_unwritable;    /* nothing more is written there */
    atomic_size_t builds;           /* programs compiled so far */
    atomic_size_t builtins_refused; /* how often cl/common/builtins.h was not enough for one */
    pthread_mutex_t lock;           /* guards the next two; never held while a program is made */
    struct ca_program *programs;
    char last_failure[256]; /* to build one, so that it is said once */
    pthread_cond_t made;    /* a program, or it failed */
    struct ca_first_runs first_runs;
    struct ca_store *store; /* these three lock themselves */
    struct ca_overrides *overrides;
    struct ca_shipped *shipped;
};

/* CLATTN_NO_DEVICE, with a sentence, where a profile stands in for a device; else success. */
clattn_status ca_context_need_device(const clattn_context *context);

/* For plans: one more reference, given up by clattn_context_release(). */
void ca_context_retain(clattn_context *context);

#endif
