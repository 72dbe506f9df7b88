/* SPDX-License-Identifier: Apache-2.0 */
/* A problem with its data in host memory and, from a file, the answer. */
#ifndef CLATTN_BENCH_CASE_H
#define CLATTN_BENCH_CASE_H

#include "bench/cases/view.h"
#include "bench/judge/layer.h"
#include "cli/job.h"
#include "cli/message.h"

#define CASE_DROPOUT_SEED 1 /* The dropout seed of every execution; the offset is 0. */
#define CASE_HELD 0x3f      /* Value of every byte of outputs that are accumulated into. */

struct block {
    void *data; /* Owned; NULL if the problem has no such tensor. */
    size_t bytes;
};

/* The expected result, packed in the order of the file's tensor. */
struct answer {
    void *data; /* Owned; NULL if there is none. */
    clattn_dtype dtype;
    size_t count; /* Number of elements. */
    size_t row;   /* Elements of the innermost dimension. */
};

struct attention_case {
    char name[128];
    struct job job;
    struct block in[INPUT_COUNT];
    struct answer o, scores;
    struct layer_answers *
        answers; /* PRECISION_COUNT, by precision, since their first check; owned. NULL: not kept. */
};

/* An operand of a problem in peers/README.md's words, and which dimensions of its
 * view count. */
struct case_words {
    const char *name, *dimensions;
};
struct case_words case_input_words(const struct job *job, enum input input);

/* Whether the elements of an operand of a problem are 32-bit integers. */
bool case_input_is_ints(const struct job *job, enum input input);

/* What one of INPUT_FUNCTION_0 .. 5 is of the functions of an attention that has it. */
clattn_function_operand case_function_operand(const struct job *job, enum input input);

/* The job has passed the library's check. The reserve has no elements: its bytes are the plan's. */
struct view case_input_view(const struct job *job, enum input input);
struct view case_output_view(const struct job *job, enum output output);

/* Returns whether the job has such a tensor. */
bool case_has_input(const struct job *job, enum input input);
bool case_has_output(const struct job *job, enum output output);

/* Returns whether the job reads what its outputs hold: then every byte of them is CASE_HELD. */
bool case_holds(const struct job *job);

/* Room for `count` * `size` bytes, and one byte more so that it is never NULL for lack of any. */
void *case_allocate(size_t count, size_t size, struct message *why);

void case_free(struct attention_case *attention);

/* Random data, never all zeros. Q, K, V, X and gradients are uniform in +-2, and a layer's
 * weights are such that its q, k and v are like these. Masks hide a quarter, lengths are at
 * least half, and block lists are full. Of backward, o and lse have a plausible size, but are
 * not those of q, k and v. A layer's reserve is missing: see case_forward.h. The same seed gives
 * the same data on every machine. */
bool case_random(struct attention_case *attention, const struct job *job, unsigned seed,
                 struct message *why);

#endif
