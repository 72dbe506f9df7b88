/* SPDX-License-Identifier: Apache-2.0 */
/* The score of a query and a key on its way from their product to the softmax. */
#ifndef CLATTN_REFERENCE_SCORE_H
#define CLATTN_REFERENCE_SCORE_H

#include "bench/judge/bounded.h"
#include "bench/judge/function.h"
#include "bench/judge/tensors.h"

/* A problem with its data, and the arithmetic that is allowed for. */
struct reference {
    const clattn_problem *problem;
    const struct tensor_view *view;
    struct arithmetic arithmetic;
    struct tensor_shape shape[NUM_TENSORS];
    double scale;
    const struct function_program *score_function, *mask_function; /* NULL: none */
};

/* Both pointers are borrowed. */
struct reference reference_of(const clattn_problem *p, const struct tensor_view *view,
                              enum precision precision);

/* A query, and what counts in its batch. */
struct query {
    size_t b, h, i, kv_head;
    long double queries, keys, diagonal; /* Exact: 64 bits of integers fit. */
    const struct key_mean *mean;         /* NULL: none is taken from its keys */
};

struct query reference_query(const struct reference *r, size_t b, size_t h, size_t i);

/* Returns whether the query may use key j by mask, bias, causality, window and lengths. A bias or
 * mask that the view leaves out hides nothing. */
bool reference_sees(const struct reference *r, const struct query *query, size_t j);

/* The distance by which ALiBi multiplies a slope: j - i - diagonal, or -|j - i - diagonal|. */
double reference_distance(const struct reference *r, const struct query *query, size_t j);

/* A pair's score at each point, before masks. */
struct score {
    struct bounded raw, capped, mapped, s; /* mapped: after the score function */
    struct bounded slope; /* the derivative of softcap and score function; 1 without them */
};

/* The score of a query with key j, from the rows of q and k as doubles. */
struct score reference_score(const struct reference *r, const struct query *query, size_t j,
                             const double *q, const double *k);

/* The elements that the score function loads for a pair of this score, as function_loads(). */
size_t reference_loads(const struct reference *r, const struct query *query, size_t j,
                       const struct score *score, struct function_load *loads, size_t most);

/* All that follows from score->raw; and with what is added to it, by the bias and by distance, where
 * that is not the view's. */
void reference_score_finish(const struct reference *r, const struct query *query, size_t j,
                            struct score *score);
void reference_score_add(const struct reference *r, const struct query *query, size_t j,
                         double bias, double by_distance, struct score *score);

/* The sink of the query's head; -inf without sinks. */
double reference_sink(const struct reference *r, const struct query *query);

#endif
