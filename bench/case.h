/* An attention problem with its data in host memory and, from a file, the answer. */
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
    INPUT_COUNT
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

/* Where the elements of a four-dimensional tensor of a problem lie. */
struct view {
    clattn_dtype dtype; /* Meaningless for the mask, which has bytes. */
    size_t size[4];
    size_t stride[4];
    size_t extent; /* One past the last element's place; 0 if there is none. */
};

/* The view of Q, K, V, BIAS or MASK. The problem has passed clattn_problem_check(). */
struct view case_input_view(const clattn_problem *problem, enum input input);

struct view case_output_view(const clattn_problem *problem);

/* Room for `count` * `size` bytes, and one byte more so that it is never NULL for lack of any. */
void *case_allocate(size_t count, size_t size, struct message *why);

void case_free(struct attention_case *attention);

/* Random data for a problem, never all zeros: Q, K and V uniform in +-2, masks that hide a quarter,
 * lengths of at least half. The same seed gives the same data on every machine. */
bool case_random(struct attention_case *attention, const clattn_problem *problem, unsigned seed,
                 struct message *why);

#endif
