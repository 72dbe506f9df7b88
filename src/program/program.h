/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a family's program for a problem, once per context. */
#ifndef CA_PROGRAM_H
#define CA_PROGRAM_H

#include "families/candidate.h"
#include "program/program_build.h"
#include "program/verdict.h"

/* The number of unused programs that are kept for later plans. */
enum { CA_PROGRAMS_UNUSED = 128 };

/*
 * The program of a candidate for a problem, or of one that serves all with NULL, from the context, from the cache on disk or
 * built now. It stays as it is until ca_program_put_back(), or as long as the context. On failure *program is NULL and
 * the log says why.
 *
 * It is built without a lock: other threads get their programs meanwhile, and those that want the
 * same one wait for it. That a program does not build or is miscompiled is kept for the context's
 * life, and on disk; what may pass, such as a lack of memory, is tried again by the next call.
 */
clattn_status ca_program_get(clattn_context *ctx, const struct ca_candidate *candidate,
                             const struct ca_problem *p, ca_self_check *check, cl_program *program);

/* The self-check of programs that compute nothing but functions of the caller's, which nobody else can. */
ca_self_check ca_program_unchecked;

/* Returns a program of ca_program_get() to the context, which releases unused ones, the least
 * recently used first. NULL is allowed. */
void ca_program_put_back(clattn_context *ctx, cl_program program);

/* Releases all but `most` of the unused programs. Programs that were never stored are compiled
 * again by a later process. Returns how many were released. */
size_t ca_programs_trim(clattn_context *ctx, size_t most);

/* Marks a program that a caller's plan uses: its binary is worth storing for the next process. */
void ca_program_keep(clattn_context *ctx, cl_program program);

/* Writes the binaries of these programs that are not on disk yet, at least one. After that many
 * seconds it begins no further one: the rest costs a later process a compilation, but the release
 * does not take minutes. Returns how many are left. */
size_t ca_programs_store(clattn_context *ctx, double seconds);

/* The sum of the build times of all programs that the context has made and still holds. */
void ca_programs_seconds(clattn_context *ctx, struct ca_build_seconds *seconds);

/* Gives the reason of the context's last failed build; false if there is none. */
int ca_program_last_failure(clattn_context *ctx, char reason[CA_REASON_BYTES]);

/* Returns whether the context keeps a bad verdict on a program: it does if every later process
 * would come to the same. */
int ca_program_condemned(clattn_context *ctx, const struct ca_candidate *candidate,
                         const struct ca_problem *p, struct ca_verdict *verdict);

/* Forgets bad verdicts, in the context and in its cache on disk: on the programs of a problem,
 * or of all if it is NULL. *forgotten: how many programs they were. CLATTN_OUT_OF_MEMORY: more may be on disk. */
clattn_status ca_programs_forget_verdicts(clattn_context *ctx, const struct ca_problem *p,
                                          size_t *forgotten);

/* Releases a context's list of programs. */
void ca_programs_release(struct ca_program *programs);

#endif
