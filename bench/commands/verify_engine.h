/* SPDX-License-Identifier: Apache-2.0 */
/* The engine that computes the results for `clattn-bench verify`. Without an engine the device
 * that was asked for computes them. */
#ifndef CLATTN_BENCH_VERIFY_ENGINE_H
#define CLATTN_BENCH_VERIFY_ENGINE_H

#include "bench/cases/case.h"
#include "bench/timing/target.h"

/* Ranks of MPI (bench/mpi/verify.c). Each of them runs the whole command; calls are collective. */
struct verify_engine {
    bool (*open)(struct target *target, const char *selector, struct message *why);
    /* Returns whether it went well on all; if not, all have the same sentence. */
    bool (*agree)(bool ok, struct message *why);
    /* The exit status that all ranks agree on after reading their options; 0 to go on. */
    int (*agree_status)(int status);
    /* NULL, or what is wrong with --mode. */
    const char *(*refuse_mode)(const char *mode);
    /* O of a case without scores, on rank 0; *unsupported if that is why there is none. */
    bool (*execute)(const struct target *target, const struct attention_case *attention,
                    const char *mode, const clattn_plan_options *plan, void *o, bool *unsupported,
                    struct message *why);
    bool speaks; /* This process prints: true on rank 0 alone. */
};

int verify_on(const struct verify_engine *engine, int argc, char **argv);

#endif
