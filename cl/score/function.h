/* SPDX-License-Identifier: Apache-2.0 */
/* The step of functions of the caller's (clattn/function.h) in scores: score_function() and mask_function(), which the
 * host writes before the source (src/program/program_function.h). */
#pragma once
#include "common/common.h"
#include "families/function_sums.h"

#define HAS_FUNCTIONS (HAS_SCORE_FUNCTION || HAS_MASK_FUNCTION)

/* How many arrays of sums of dfunction there are at most, and where they lie in the workspace, in floats. */
struct load_sums {
    long most, begin;
};

/* A problem without such a function has one that does nothing: steps name it without asking, and compilers leave it out. */
#if HAS_SCORE_FUNCTION
/* A loop over lanes takes the operands from here once: its stores might change what `args` points to, as far as
 * compilers know. */
INLINE struct score_function_operands score_operands(const struct arguments *args)
{
    const struct score_function_operands o = SCORE_FUNCTION_OPERANDS(args);

    return o;
}
#else
enum { SCORE_OF_DISTANCE = 0, SCORE_HIDES_DISTANCES = 0, SCORE_LOADS_OF_DISTANCE = 0 };

struct score_function_operands {
    int none;
};

INLINE struct score_function_operands score_operands(const struct arguments *args)
{
    const struct score_function_operands o = {0};

    return o;
}

INLINE float score_function(const float s, const struct function_pair p,
                            const struct score_function_operands o)
{
    return s;
}

INLINE float score_function_derivative(const float s, const struct function_pair p,
                                       const struct score_function_operands o)
{
    return 1.0f;
}
#endif

#if !HAS_DFUNCTION
enum { SCORE_FUNCTION_LOADS = 1 };

INLINE int score_function_place(const int load, const float s, const struct function_pair p,
                                const struct score_function_operands o)
{
    return -1;
}

INLINE float score_function_by_load(const int load, const float s, const struct function_pair p,
                                    const struct score_function_operands o)
{
    return 0.0f;
}

INLINE long score_function_gradients(const struct score_function_operands o)
{
    return 0;
}
#endif

#if HAS_MASK_FUNCTION
INLINE struct mask_function_operands mask_operands(const struct arguments *args)
{
    const struct mask_function_operands o = MASK_FUNCTION_OPERANDS(args);

    return o;
}
#else
enum { MASK_FUNCTION_OF_BATCHES = 0, MASK_FUNCTION_OF_HEADS = 0 };

struct mask_function_operands {
    int none;
};

INLINE struct mask_function_operands mask_operands(const struct arguments *args)
{
    const struct mask_function_operands o = {0};

    return o;
}

INLINE bool mask_function(const struct function_pair p, const struct mask_function_operands o)
{
    return true;
}
#endif

/* The pair of query i and key j of head h of batch b. Its position is that in the whole attention
 * (clattn_dropout_place), and so are its places in operands of the whole. */
INLINE struct function_pair function_pair_within(const struct arguments *args,
                                                 const struct extent e, const long b, const long h,
                                                 const long i, const long j)
{
    const long place_bh = (long)args->call->dropout_bh, heads = (long)args->call->dropout_heads;
    struct function_pair p;

    p.batch = (int)(b + place_bh / heads);
    p.head = (int)(h + place_bh % heads);
    p.kv_head = (int)(p.head / args->shape->group);
    p.query = (int)(i + (long)args->call->dropout_i);
    p.key = (int)(j + (long)args->call->dropout_j);
    p.queries = HAS_WHOLE_Q ? args->call->whole_queries : (int)e.queries;
    p.keys = HAS_WHOLE_Q ? args->call->whole_keys : (int)e.keys;
    p.own_batch = HAS_WHOLE_Q ? p.batch : (int)b;
    p.own_head = HAS_WHOLE_Q ? p.head : (int)h;
    p.own_kv_head = (int)(p.own_head / args->shape->group);
    p.own_query = HAS_WHOLE_Q ? p.query : (int)i;
    p.own_key = HAS_WHOLE_Q ? p.key : (int)j;
    return p;
}

/* The same in its batch, whose extent a kernel that computes a part of it may have cut. */
INLINE struct function_pair function_pair_of(const struct arguments *args, const long b,
                                             const long h, const long i, const long j)
{
    return function_pair_within(args, extent_of(args, b), b, h, i, j);
}

/* The pair that lies so many queries and keys behind this one. */
INLINE struct function_pair function_pair_after(struct function_pair p, const int queries,
                                                const int keys)
{
    p.query += queries;
    p.own_query += queries;
    p.key += keys;
    p.own_key += keys;
    return p;
}

/* 1 if the score function adds what depends on the distance alone (src/problem/function_distance.h). */
#define HAS_DISTANCE_FUNCTION SCORE_OF_DISTANCE

/* The score of a pair from its score s after softcap. */
INLINE float function_score(const struct arguments *args, const struct function_pair p,
                            const float s)
{
    return score_function(s, p, score_operands(args));
}

/* The derivative of the score of a pair at its score s after softcap. Forward, a function need not have one. */
INLINE float derivative_of_function(const float s, const struct function_pair p,
                                    const struct score_function_operands o)
{
#if IS_BACKWARD
    return score_function_derivative(s, p, o);
#else
    return 1.0f;
#endif
}

INLINE float function_derivative(const struct arguments *args, const struct function_pair p,
                                 const float s)
{
    return derivative_of_function(s, p, score_operands(args));
}

/* The element of dfunction that load number `load` of the score function has loaded for a pair at its score s after softcap, -1
 * if none; and the derivative of the pair's score by it. */
INLINE int function_place(const struct arguments *args, const int load,
                          const struct function_pair p, const float s)
{
    return score_function_place(load, s, p, score_operands(args));
}

INLINE float function_by_load(const struct arguments *args, const int load,
                              const struct function_pair p, const float s)
{
    return score_function_by_load(load, s, p, score_operands(args));
}

/* The elements of dfunction. */
INLINE long function_gradients(const struct arguments *args)
{
    return score_function_gradients(score_operands(args));
}

/* In the workspace there are as many arrays of sums as work-groups share the pairs, each of all elements of dfunction: at most
 * `items` of them. */
INLINE long function_sums(const struct arguments *args, const long items)
{
    return FUNCTION_SUMS(items, function_gradients(args));
}

/* Returns whether the mask function leaves a pair visible. */
INLINE bool function_visible(const struct arguments *args, const struct function_pair p)
{
    return mask_function(p, mask_operands(args));
}

#if HAS_FUNCTIONS && defined(PARAMETERS_function_values)
#include "score/function_values.h"
#endif
