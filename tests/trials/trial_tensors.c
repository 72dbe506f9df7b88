/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a trial in host memory. Nothing here needs a device or Criterion. */
#include "tests/trials/random_problem.h"
#include "tests/trials/trial.h"

#include "tests/support/rng.h"
#include "tests/support/storage.h"
#include "tests/trials/trial_data.h"
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256 }; /* elements kept free on either side */

static int has_functions(const clattn_problem *p)
{
    return (p->operation == CLATTN_FORWARD || p->operation == CLATTN_BACKWARD) &&
           (p->score_function || p->mask_function);
}

/* Returns whether any parameters suit a function: those of random_function.h. */
static int takes_any_values(const clattn_function *f)
{
    return !f || strncmp(clattn_function_name(f), "trial/", 6) == 0;
}

/* In half of the trials the functions have parameters of the call's. */
static void draw_values(struct trial *t)
{
    struct rng r = rng_seed(t->seed + 4);
    const clattn_problem *p = &t->problem;

    t->valued = has_functions(p) && takes_any_values(p->score_function) &&
                takes_any_values(p->mask_function) && rng_one_in(&r, 2);
    for (size_t n = 0; n < CLATTN_FUNCTION_PARAMETERS; n++) {
        t->values.ints[n] = (int32_t)rng_below(&r, 10);
        t->values.floats[n] = (float)rng_uniform(&r, 0.5, 2);
    }
}

void trial_fill(struct trial *t)
{
    struct rng r = rng_seed(t->seed);

    for (int id = 0; id < NUM_TENSORS; id++) {
        struct host_tensor *x = &t->tensor[id];
        memset(x, 0, sizeof *x);
        x->shape = tensor_shape_of(&t->problem, id);
        x->offset = GUARD + rng_below(&r, 33);
        if (t->aligned)
            x->offset = (x->offset + 7) / 8 * 8;
        if (x->shape.cache != CLATTN_CACHE_PLAIN)
            x->offset = x->offset / 32 * 32;
        if (!x->shape.present)
            continue;
        x->num_bytes = tensor_bytes(&x->shape, x->offset + x->shape.extent + GUARD);
        x->bytes = malloc(x->num_bytes);
        if (!x->bytes)
            abort();
        memset(x->bytes, 0xff, x->num_bytes);
    }
    draw_values(t);
    trial_data_fill(t, &r);
}

void trial_free(struct trial *t)
{
    for (int id = 0; id < NUM_TENSORS; id++) {
        free(t->tensor[id].bytes);
        free(t->tensor[id].got);
        t->tensor[id].bytes = t->tensor[id].got = NULL;
    }
}

/* The seeds of dropout: any number in each half. */
static uint64_t trial_dropout_seed(const struct trial *t)
{
    return rng_next(&(struct rng){t->seed + 1});
}

static uint32_t trial_dropout_offset(const struct trial *t)
{
    return (uint32_t)rng_next(&(struct rng){t->seed + 2});
}

/* In half of the trials the problem is a part of a larger attention; near its beginning where functions compute with
 * positions. */
static clattn_dropout_place trial_dropout_place(const struct trial *t)
{
    struct rng r = {t->seed + 3};
    const uint32_t most = t->problem.whole_q           ? WHOLE_MORE
                          : has_functions(&t->problem) ? 63
                                                       : UINT32_MAX;

    if (rng_one_in(&r, 2))
        return (clattn_dropout_place){.heads = 0};
    const uint32_t head = (uint32_t)rng_below(&r, 5);
    return (clattn_dropout_place){.query = (uint32_t)rng_next(&r) & most,
                                  .key = ((uint32_t)rng_next(&r) & most) / 4 * 4,
                                  .batch = (uint32_t)rng_next(&r) & most,
                                  .head = head,
                                  .heads = (uint32_t)(t->problem.heads + head + rng_below(&r, 3))};
}

struct tensor_view trial_sent(const struct trial *t)
{
    struct tensor_view view = {.dropout_seed = trial_dropout_seed(t),
                               .dropout_offset = trial_dropout_offset(t),
                               .dropout_place = trial_dropout_place(t),
                               .whole_queries = (uint32_t)(t->problem.whole_q + 1) / 2,
                               .whole_keys = (uint32_t)(t->problem.whole_kv + 1) / 2,
                               .function_values = t->valued ? &t->values : NULL};

    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct host_tensor *x = &t->tensor[id];
        if (x->bytes)
            view.at[id] = x->bytes + tensor_bytes(&x->shape, x->offset);
    }
    return view;
}

struct tensor_view trial_got(const struct trial *t)
{
    struct tensor_view view = trial_sent(t);

    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct host_tensor *x = &t->tensor[id];
        view.at[id] = NULL;
        if (x->got)
            view.at[id] = x->got + tensor_bytes(&x->shape, x->offset);
    }
    return view;
}

struct tensor_view trial_copy(struct trial *t)
{
    for (int id = 0; id < NUM_TENSORS; id++) {
        struct host_tensor *x = &t->tensor[id];
        if (!x->bytes)
            continue;
        x->got = malloc(x->num_bytes);
        if (!x->got)
            abort();
        memcpy(x->got, x->bytes, x->num_bytes);
    }
    return trial_got(t);
}

void trial_set(const struct trial *t, const int id, const size_t b, const size_t h, const size_t i,
               const size_t d, const double value)
{
    const struct host_tensor *x = &t->tensor[id];
    const size_t at = x->offset + tensor_index(&x->shape, b, h, i, d);
    struct rng r = rng_seed(at);

    if (x->shape.cache != CLATTN_CACHE_PLAIN)
        storage_store_block(x->shape.cache, x->bytes, at / 32, value, &r);
    else
        value_set(x->shape.dtype, x->bytes, at, value);
}

void trial_set_nth(const struct trial *t, const int id, const size_t n, const double value)
{
    const struct host_tensor *x = &t->tensor[id];

    value_set(x->shape.dtype, x->bytes, x->offset + tensor_nth(&x->shape, n), value);
}

double trial_value_nth(const struct trial *t, const int id, const size_t n)
{
    const struct host_tensor *x = &t->tensor[id];

    return value_get(x->shape.dtype, x->got, x->offset + tensor_nth(&x->shape, n));
}

double trial_value(const struct trial *t, const int id, const size_t b, const size_t h,
                   const size_t i, const size_t d)
{
    const struct host_tensor *x = &t->tensor[id];

    return value_get(x->shape.dtype, x->got, x->offset + tensor_index(&x->shape, b, h, i, d));
}

void trial_set_ordinary(const struct trial *t, const int id, const uint64_t seed)
{
    const size_t *size = t->tensor[id].shape.size;
    struct rng r = rng_seed(seed);

    for (size_t b = 0; b < size[0]; b++)
        for (size_t h = 0; h < size[1]; h++)
            for (size_t i = 0; i < size[2]; i++)
                for (size_t d = 0; d < size[3]; d++)
                    trial_set(t, id, b, h, i, d, rng_uniform(&r, -2, 2));
}
