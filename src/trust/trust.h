/* Trust is earned: OpenCL compilers miscompile, so a program computes a small, hostile problem and
 * is compared with double precision on the host before its first use. */
#ifndef CA_TRUST_H
#define CA_TRUST_H

#include "context/context.h"
#include "families/candidate.h"

/*
 * Checks a program that was built for a candidate and a normal problem: ragged sizes, every option
 * of the problem, rows that see nothing, NaN and huge values behind masks, guard bands.
 * CLATTN_SUCCESS if what it computes is right; CLATTN_MISCOMPILED, with the reason in why, if not;
 * another status, which was logged, if the check could not run. Adds to *launch_seconds what the
 * kernels took from being enqueued to their end, most of which is compiling on some drivers.
 */
clattn_status ca_trust_check(clattn_context *ctx, const struct ca_candidate *candidate,
                             const clattn_problem *p, cl_program program, double *launch_seconds,
                             char why[CA_REASON_BYTES]);

#endif
