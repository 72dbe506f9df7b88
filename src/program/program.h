/* SPDX-License-Identifier: Apache-2.0 */
/* Building a family's program for a problem, once per context. */
#ifndef CA_PROGRAM_H
#define CA_PROGRAM_H

#include "families/candidate.h"
#include "program/program_build.h"
#include "program/verdict.h"

/* Programs that nobody uses are kept for those who may want them again, so many of them. */
enum { CA_PROGRAMS_UNUSED = 128 };

/*
 * The program of a candidate for a problem, or of one that serves all with NULL, from the context, from the cache on disk or built
 * now. It stays as it is until ca_program_put_back(), or as long as the context. On failure *program is NULL and
 * the log says why.
 *
 * It is built without a lock: other threads get their programs meanwhile, and those that want the
 * same one wait for it. That a program does not build or is miscompiled is kept for the context's
 * life, and on disk; what may pass, such as a lack of memory, is tried again by the next call.
 */
clattn_status ca_program_get(clattn_context *ctx, const struct ca_candidate *candidate,
                             const struct ca_problem *p, ca_self_check *check, cl_program *program);

/* Gives back what ca_program_get() gave: the context lets programs go that nobody uses, those first that were put back
 * longest ago. NULL is allowed. */
void ca_program_put_back(clattn_context *ctx, cl_program program);

/* Lets all but `most` of the programs that nobody uses go. What was never stored is not; a later process compiles
 * it again. Returns how many went. */
size_t ca_programs_trim(clattn_context *ctx, size_t most);

/* A plan of the caller's uses this program: its binary is worth keeping for the next process. */
void ca_program_keep(clattn_context *ctx, cl_program program);

/* Writes the binaries of the programs above that are not on disk yet, at least one. After so many seconds it begins
 * no further one: what is left costs a later process a compilation, and nobody waits for hundreds. Returns how many
 * are left. */
size_t ca_programs_store(clattn_context *ctx, double seconds);

/* Build times of one program of the context. */
void ca_program_seconds(clattn_context *ctx, cl_program program, struct ca_build_seconds *seconds);

/* Build times of all programs that the context has made and still holds, added up. */
void ca_programs_seconds(clattn_context *ctx, struct ca_build_seconds *seconds);

/* Why the last build failed that did in this context; false if none has. */
int ca_program_last_failure(clattn_context *ctx, char reason[CA_REASON_BYTES]);

/* Whether the context keeps a bad verdict on a program: it does where every later process would find
 * the same. */
int ca_program_condemned(clattn_context *ctx, const struct ca_candidate *candidate,
                         const struct ca_problem *p, struct ca_verdict *verdict);

/* Forgets bad verdicts, in the context and in its cache on disk: on the programs of a problem,
 * or of all if it is NULL. Returns how many programs they were. */
size_t ca_programs_forget_verdicts(clattn_context *ctx, const struct ca_problem *p);

/* Releases a context's list of programs. */
void ca_programs_release(struct ca_program *programs);

#endif
