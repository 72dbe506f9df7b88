/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the caller's (clattn/function.h), interpreted in double precision. */
#ifndef CLATTN_REFERENCE_FUNCTION_H
#define CLATTN_REFERENCE_FUNCTION_H

#include "bench/judge/bounded.h"

#include <clattn/function.h>
#include <stddef.h>
#include <stdint.h>

struct function_program;

/* The function's source, read; NULL for NULL, or without memory. It lives as long as the process. */
const struct function_program *function_program_of(const clattn_function *function);

/* Returns what of a source cannot be interpreted, with its line, or NULL. */
const char *function_mistake(const struct function_program *program);

/* A pair for which a function is called. */
struct function_pair {
    int32_t members[12]; /* as struct pair of the source has them */
    size_t own[5];       /* batch, head, kv head, query and key of the call */
    size_t sizes[5];     /* batch, heads, kv_heads, seq_q and seq_kv */
    const void *operands[CLATTN_FUNCTION_OPERANDS]; /* the function's own */
    const int32_t *ints; /* values of its parameters; NULL: those of the source */
    const float *floats;
};

/* The number of its operands and parameters. */
struct function_counts {
    size_t operands, ints, floats;
};
struct function_counts function_counts_of(const struct function_program *program);

/* The score after the function, and its derivative by s; u: unit roundoff of the arithmetic. -INFINITY without an error hides
 * the pair. Where errors leave it open which way a comparison goes, the results' bounds hold what either gives. If the source
 * has a derivative of its own, its error is added. */
struct bounded function_score(const struct function_program *program,
                              const struct function_pair *pair, double u, struct bounded s,
                              struct bounded *slope);

/* An element that a score function loads, and the derivative of its score by it. */
struct function_load {
    size_t operand, element;
    struct bounded slope;
};

/* Finds the elements of floats that the score function loads for a pair; returns how many, at most `most`. One that some
 * decisions load and others do not has a bound that holds both. */
size_t function_loads(const struct function_program *program, const struct function_pair *pair,
                      double u, struct bounded s, struct function_load *loads, size_t most);

bool function_visible(const struct function_program *program, const struct function_pair *pair);

#endif
