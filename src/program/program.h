/* Building a family's program for a problem, once per context. */
#ifndef CA_PROGRAM_H
#define CA_PROGRAM_H

#include "candidate.h"
#include "context.h"

/* The program of a candidate for a normal problem, from the context or built now. Borrowed: it
 * lives as long as the context. On failure *program is NULL and the log says why. */
clattn_status ca_program_get(clattn_context *ctx, const struct ca_candidate *candidate,
                             const clattn_problem *p, cl_program *program);

/* The compiler's options for a normal problem and the candidate's tunables. False if they do not fit,
 * which the number of tunables rules out. */
enum { CA_OPTIONS_TEXT = 2048 };
int ca_program_options(const struct ca_candidate *candidate, const clattn_problem *p, char *text,
                       size_t text_bytes);

/* Releases a context's list of programs. */
void ca_programs_release(struct ca_program *programs);

#endif
