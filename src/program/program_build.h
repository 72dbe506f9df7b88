/* SPDX-License-Identifier: Apache-2.0 */
/* Making a program of a context, without the context's lock. */
#ifndef CA_PROGRAM_BUILD_H
#define CA_PROGRAM_BUILD_H

#include "context/context.h"
#include "families/candidate.h"
#include "problem/problem.h"
#include "program/program_made.h"

/*
 * Whether a program that was built for a candidate and a problem computes what is right:
 * CLATTN_SUCCESS if so; CLATTN_MISCOMPILED, with the reason in why, if not; another status, which was
 * logged, if the check could not run. Adds to *launch_seconds what the kernels took from being enqueued
 * to their end, most of which is compiling on some drivers.
 */
typedef clattn_status ca_self_check(clattn_context *ctx, const struct ca_candidate *candidate,
                                    const struct ca_problem *p, cl_program program,
                                    double *launch_seconds, char why[CA_REASON_BYTES]);

/* Takes the program from the cache on disk, or builds and checks it: fills in cl, status, verdict,
 * seconds and unstored. */
void ca_program_make(clattn_context *ctx, const struct ca_candidate *candidate,
                     const struct ca_problem *p, ca_self_check *check, struct ca_program *program);

#endif
