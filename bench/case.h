/* A problem with its data in host memory and, from a file, the answer. */
#ifndef CLATTN_BENCH_CASE_H
#define CLATTN_BENCH_CASE_H

#include "message.h"
#include <clattn/problem.h>

enum input {
    INPUT_Q,
    INPUT_K,
    INPUT_V,
    INPUT_BIAS,
    INPUT_MASK,
    INPUT_SLOPES,
    INPUT_SINKS,
    INPUT_Q_LENGTHS,
    INPUT_KV_LENGTHS,
    INPUT_O, /* From here on: of backward alone. */
    INPUT_LSE,
    INPUT_DO,
    INPUT_COUNT
};

enum output {
    OUTPUT_O,
    OUTPUT_LSE,
    OUTPUT_SCORES,
    OUTPUT_DQ,
    OUTPUT_DK,
    OUTPUT_DV,
    OUTPUT_DBIAS,
    OUTPUT_DSLOPES,
    OUTPUT_DSINKS,
    OUTPUT_COUNT
};

struct block {
    void *data; /* Owned; NULL if the problem has no such tensor. */
    size_t bytes;
};

/* What a result must be, packed in the order of the file's tensor. */
struct answer {
    void *data; /* Owned; NULL if there is none. */
    clattn_dtype dtype;
    size_t count; /* Elements. */
    size_t row;   /* Elements of the innermost dimension. */
};

struct attention_case {
    char name[128];
    clattn_problem problem;
    struct block in[INPUT_COUNT];
    struct answer o, scores;
};

/* Where the elements of a tensor of a problem lie. Those of fewer than four dimensions have sizes of
 * 1 in front, but lse a last one of 1. */
struct view {
    clattn_dtype dtype; /* Meaningless for the mask and lengths. */
    size_t element;     /* Bytes. */
    size_t size[4];
    size_t stride[4];
    size_t extent; /* One past the last element's place; 0 if there is none, or no such tensor. */
};

/* The problem has passed clattn_problem_check(). */
struct view case_input_view(const clattn_problem *problem, enum input input);
struct view case_output_view(const clattn_problem *problem, enum output output);

/* The place of element (b, h, s, d) of what has the view. */
size_t view_place(const struct view *view, size_t b, size_t h, size_t s, size_t d);

/* Whether the problem has such a tensor. */
bool case_has_input(const clattn_problem *problem, enum input input);
bool case_has_output(const clattn_problem *problem, enum output output);

/* Room for `count` * `size` bytes, and one byte more so that it is never NULL for lack of any. */
void *case_allocate(size_t count, size_t size, struct message *why);

void case_free(struct attention_case *attention);

/* Random data for a problem, never all zeros: Q, K, V and dO uniform in +-2, masks that hide a
 * quarter, lengths of at least half. Of backward o and lse are of a plausible size, but not those of
 * q, k and v: see case_forward.h. The same seed gives the same data on every machine. */
bool case_random(struct attention_case *attention, const clattn_problem *problem, unsigned seed,
                 struct message *why);

#endif
