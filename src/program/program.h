/* Building a family's program for a problem, once per context. */
#ifndef CA_PROGRAM_H
#define CA_PROGRAM_H

#include "context/context.h"
#include "families/candidate.h"
#include "program/verdict.h"

/*
 * The program of a candidate for a normal problem, from the context, from the cache on disk or built
 * now. Borrowed: it lives as long as the context. On failure *program is NULL and the log says why.
 *
 * It is built without a lock: other threads get their programs meanwhile, and those that want the
 * same one wait for it. That a program does not build or is miscompiled is kept for the context's
 * life, and on disk; what may pass, such as a lack of memory, is tried again by the next call.
 */
clattn_status ca_program_get(clattn_context *ctx, const struct ca_candidate *candidate,
                             const clattn_problem *p, cl_program *program);

/* A plan of the caller's uses this program: its binary is worth keeping for the next process. */
void ca_program_keep(clattn_context *ctx, cl_program program);

/* Writes the binaries of the programs above that are not on disk yet. */
void ca_programs_store(clattn_context *ctx);

/* What making a program took, in seconds of the host's clock; 0 for what was not done. */
struct ca_build_seconds {
    double loading;         /* from the cache on disk, or finding that it has none */
    double front_end;       /* clBuildProgram() of the source */
    double code_generation; /* the first launch of its kernels, where many drivers compile on */
    double self_check;      /* its data, right answers and comparison */
    double storing;         /* getting the binary, where some compile once more, and writing it */
};

/* Of one program of the context. */
void ca_program_seconds(clattn_context *ctx, cl_program program, struct ca_build_seconds *seconds);

/* Of all programs that the context has made so far, together. */
void ca_programs_seconds(clattn_context *ctx, struct ca_build_seconds *seconds);

/* The compiler's options for a normal problem and the candidate's tunables. False if they do not fit,
 * which the number of tunables rules out. (src/program/program_options.c) */
enum { CA_OPTIONS_TEXT = 2048 };
int ca_program_options(const struct ca_candidate *candidate, const clattn_problem *p, char *text,
                       size_t text_bytes);

/* Their beginning, which the problem alone shapes. Its length, or what it would be. */
size_t ca_program_problem_options(const clattn_problem *p, char *text, size_t text_bytes);

/* Why the last build failed that did in this context; false if none has. */
int ca_program_last_failure(clattn_context *ctx, char reason[CA_REASON_BYTES]);

/* Whether the context keeps a bad verdict on a program: it does where every later process would find
 * the same. */
int ca_program_condemned(clattn_context *ctx, const struct ca_candidate *candidate,
                         const clattn_problem *p, struct ca_verdict *verdict);

/* Forgets bad verdicts, in the context and in its cache on disk: on the programs of a normal problem,
 * or of all if it is NULL. Returns how many programs they were. */
size_t ca_programs_forget_verdicts(clattn_context *ctx, const clattn_problem *p);

/* Releases a context's list of programs. */
void ca_programs_release(struct ca_program *programs);

#endif
