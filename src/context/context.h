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

struct ca_program; /* src/program/program_build.h */
struct ca_store;   /* src/store/store.h */
struct ca_shipped; /* src/store/shipped.h */

struct clattn_context {
    atomic_size_t references; /* one for the caller and one for each plan */
    /* destructor of the layer that made the context and owns its parts */
    void (*destroy)(clattn_context *context);
    cl_context cl; /* NULL: a profile stands in for a device */
    clattn_device_info device;
    struct ca_pointers pointers; /* calls that pass pointers to kernels (SVM, USM) */
    int narrowed;                /* not 0: the device's facts were narrowed to a profile's */
    struct ca_log log;
    int skip_self_checks;
    unsigned forks;        /* ca_forks() when it was made */
    char *cache_directory; /* NULL: no cache */
    double end_seconds; /* seconds within which its release may begin to store further programs */
    /* the limit on the bytes of programs in the cache directory; 0: none */
    unsigned long long cache_bytes;
    atomic_size_t cache_writes; /* programs written to the cache directory so far */
    /* not 0: writing failed, and nothing more is written to the cache directory */
    atomic_int cache_unwritable;
    atomic_size_t builds; /* programs compiled so far */
    /* programs so far that did not build with cl/common/builtins.h alone */
    atomic_size_t builtins_refused;
    struct ca_mutex lock; /* guards the next four members; never held while a program is made */
    struct ca_program *programs;
    size_t uses;              /* how often programs were put back: the clock of least recent use */
    char last_failure[256];   /* reason of the last failed build, so that it is logged once */
    struct ca_condition made; /* broadcast when a program is made or its build has failed */
    struct ca_first_runs first_runs;
    int counts_kernels; /* not 0: its driver needs that (src/context/in_flight.h) */
    char *override; /* the configuration of CLATTN_OVERRIDE (src/store/override.h); NULL: none */
    struct ca_store *store; /* this and the next one have locks of their own */
    struct ca_shipped *shipped;
};

/* CLATTN_INVALID_ARGUMENT for NULL, and with a sentence in a process that was forked since the context was made;
 * else success. */
clattn_status ca_context_check(const clattn_context *context);

/* ca_context_check(); and CLATTN_NO_DEVICE, with a sentence, where a profile stands in for a device. */
clattn_status ca_context_need_device(const clattn_context *context);

/* Adds a reference for a plan, which clattn_context_release() gives up. */
void ca_context_retain(clattn_context *context);

#endif
