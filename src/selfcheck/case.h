/* SPDX-License-Identifier: Apache-2.0 */
/* Data and expected results for a program. A case is a small, hostile problem that the program must
 * solve before it is trusted, or an ordinary one of real size. */
#ifndef CA_TRUST_CASE_H
#define CA_TRUST_CASE_H

#include "context/context.h"
#include "execute/buffers.h"
#include "execute/execute.h"
#include "families/candidate.h"
#include "families/family.h"

/* Half a distance between neighbours of f32, relative to the number. */
#define CA_TRUST_ROUNDOFF 0x1p-24

/* A right answer and how far a result may lie from it. NaN and infinities are expected as such. */
struct ca_bounded {
    double value, bound;
};

/* The right values of some elements of a result: of element (at, 0) and those behind it along the last axis. */
struct ca_answer {
    unsigned argument;
    size_t at[3], first, step, count; /* first: the place of the first element, in elements */
    struct ca_bounded *want;          /* NULL: only whether the values are written is checked */
};

struct ca_trust_case {
    clattn_problem problem; /* the case's problem in normal form */
    /* One block of bytes per tensor, of its span between two guard bands of CA_TRUST_GUARD
     * bytes (see ca_trust_guard()); NULL if the problem has no such tensor. Outputs are filled with CA_TRUST_FILL. */
    unsigned char *bytes[CA_WORKSPACE];
    size_t sizes[CA_WORKSPACE]; /* bytes of each block; 0 if the problem has no such tensor */
    /* Contents before the execution of outputs that are read as well; else NULL. */
    unsigned char *before[CA_WORKSPACE];
    cl_program
        program; /* that computes functions of the caller's; NULL: one that does nothing else */
    struct ca_function_calls *calls; /* of a problem with functions (function_calls.h); else NULL */
    clattn_status failure; /* why it could not be made; CLATTN_SUCCESS: there was no memory */
    int hostile; /* nothing but elements may be written within the outputs' strides either */
    struct ca_answer *answers;
    size_t num_answers;
    struct ca_bounded *room; /* memory for the values of all answers */
    size_t room_used;
};

/* A guard band keeps the alignment of a whole allocation. A fill is NaN in every dtype. */
enum { CA_TRUST_GUARD = 4096, CA_TRUST_FILL = 0xff };

/* Dropout's seed and stream in a case. */
enum { CA_TRUST_SEED = 20240229, CA_TRUST_STREAM = 7 };

/* The bytes before the elements of a tensor: of a quantized one whole blocks, so that it has an
 * offset, and part of its guard band follows it. (src/selfcheck/answer_row.c) */
size_t ca_trust_guard(const clattn_problem *p, unsigned argument);

/* Bytes of the blocks of a normal problem, each into sizes (0: no such tensor). */
void ca_trust_case_sizes(const clattn_problem *p, size_t sizes[CA_WORKSPACE]);

/* The hostile case for a normal problem: small and ragged, with all of its options, rows that see
 * nothing, NaN and huge values behind masks. Its memory is bounded, a workspace for the candidate
 * (NULL: none) included, unless ca_trust_refuses() the problem. ctx: whose device computes functions of the
 * caller's, with the candidate's program; both may be NULL without. False, with everything freed but `failure`, if it
 * cannot be made. */
int ca_trust_case_make(struct ca_trust_case *c, clattn_context *ctx, const clattn_problem *p,
                       const struct ca_candidate *candidate, cl_program program);

/* Returns whether kernels may copy the problem in pieces of 16 bytes: a projection whose steps are
 * whole pieces (src/selfcheck/case_projection.c). The hostile case is ragged, so there is a second
 * one in pieces; false without memory. */
int ca_trust_has_pieces(const clattn_problem *p);
int ca_trust_case_make_in_pieces(struct ca_trust_case *c, const clattn_problem *p);

/* Not 0 with a reason if the dims of a normal problem are too large for any case.
 * (src/selfcheck/case_size.c) */
int ca_trust_refuses(const clattn_problem *p, char *reason, size_t reason_bytes);

/* The problem itself, which is normal and not empty: random data, a quarter of the mask hidden,
 * lengths of at least a half. Some 64 rows are judged, the first and the last among them, fewer
 * where the answers would take too long. */
int ca_trust_case_make_ordinary(struct ca_trust_case *c, clattn_context *ctx,
                                const clattn_problem *p);

/* Writes the answers of a forward problem, but for sums of weights, as its program would have written them. */
void ca_trust_case_give(struct ca_trust_case *c);

/* Frees the inputs' blocks, which are not needed after the upload. */
void ca_trust_case_drop_inputs(struct ca_trust_case *c);

void ca_trust_case_free(struct ca_trust_case *c);

/* NULL if the results in bytes[] are right, every element was written and nothing outside of them
 * was, else what is wrong, as a sentence in text. *error is the worst judged element's distance
 * from its answer over its bound, at most CA_TRUST_WORST. (src/selfcheck/compare.c) */
#define CA_TRUST_WORST 1e30
const char *ca_trust_case_judge(const struct ca_trust_case *c, double *error, char *text,
                                size_t text_bytes);

/* ---- on the device (src/selfcheck/case_device.c) ------------------------------------------------ */

/* Makes a buffer of each block. On failure those made so far are there, to be released. */
clattn_status ca_trust_case_upload(const clattn_context *ctx, const struct ca_trust_case *c,
                                   cl_mem buffers[CA_WORKSPACE]);

/* Fills the outputs with CA_TRUST_FILL again, or with what they held before. */
clattn_status ca_trust_case_clear(const clattn_context *ctx, const struct ca_trust_case *c,
                                  cl_command_queue queue, const cl_mem buffers[CA_WORKSPACE]);

/* Reads the outputs' blocks, waiting for all that the queue holds. */
clattn_status ca_trust_case_download(const clattn_context *ctx, struct ca_trust_case *c,
                                     cl_command_queue queue, const cl_mem buffers[CA_WORKSPACE]);

/* The case's tensors, between the guards of their buffers. The workspace is not set. */
struct ca_tensors ca_trust_case_tensors(const struct ca_trust_case *c,
                                        const cl_mem buffers[CA_WORKSPACE]);

/* Releases all existing buffers and clears them. */
void ca_trust_case_release(cl_mem buffers[CA_WORKSPACE]);

#endif
