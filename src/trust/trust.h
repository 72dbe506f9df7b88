/* Trust is earned: OpenCL compilers miscompile, so a program computes a small, hostile problem and
 * is compared with double precision on the host before its first use. */
#ifndef CA_TRUST_H
#define CA_TRUST_H

#include "candidate.h"
#include "context.h"

/*
 * Checks a program that was built for a candidate and a normal problem: ragged sizes, every option
 * of the problem, rows that see nothing, NaN and huge values behind masks, guard bands.
 * CLATTN_SUCCESS if what it computes is right; CLATTN_MISCOMPILED, logged as a warning, if not;
 * another status if the check could not run.
 */
clattn_status ca_trust_check(clattn_context *ctx, const struct ca_candidate *candidate,
                             const clattn_problem *p, cl_program program);

#endif
