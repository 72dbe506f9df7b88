/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/append_trial.h"

#include "bench/judge/tensors.h"
#include "tests/support/storage.h"
#include "tests/trials/random_layout.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static clattn_cache cache_of(const clattn_append_problem *p, enum append_kind kind)
{
    return kind == APPEND_K ? p->k_format : kind == APPEND_V ? p->v_format : CLATTN_CACHE_PLAIN;
}

static clattn_dtype dtype_of(const clattn_append_problem *p, enum append_kind kind)
{
    return kind == APPEND_Q ? p->dtype : p->cache_dtype;
}

static void measure(struct append_trial *t, enum append_kind kind)
{
    const clattn_append_problem *p = &t->problem.append;
    const struct append_strides s = reference_append_strides(p, kind);
    const size_t to = tensor_extent((size_t[]){s.blocks, s.heads, s.rows, s.dim}, s.to);
    const clattn_cache cache = cache_of(p, kind);

    t->bytes[kind][0] = tensor_extent((size_t[]){p->batch, s.heads, p->tokens, s.dim}, s.from) *
                        value_bytes(p->dtype);
    t->bytes[kind][1] = cache == CLATTN_CACHE_PLAIN ? to * value_bytes(dtype_of(p, kind))
                                                    : to / VALUE_BLOCK * value_block_bytes(cache);
}

static int fill_kind(struct append_trial *t, enum append_kind kind, struct rng *r)
{
    const clattn_append_problem *p = &t->problem.append;
    const size_t count = (measure(t, kind), t->bytes[kind][0] / value_bytes(p->dtype));
    const int in_place = kind == APPEND_Q && p->queries == CLATTN_QUERIES_IN_PLACE;

    t->from[kind] = malloc(t->bytes[kind][0] + 1);
    t->to[kind] = malloc(t->bytes[kind][1] + 1);
    t->before[kind] = malloc(t->bytes[kind][1] + 1);
    if (!t->from[kind] || !t->to[kind] || !t->before[kind])
        return 0;
    for (size_t n = 0; n < count; n++)
        value_set(p->dtype, t->from[kind], n, rng_uniform(r, -2, 2));
    memset(t->to[kind], 0xff, t->bytes[kind][1]);
    if (in_place)
        memcpy(t->to[kind], t->from[kind], t->bytes[kind][0]);
    return 1;
}

static size_t table_entries(const clattn_append_problem *p)
{
    return p->page_size ? p->batch * ((p->capacity + p->page_size - 1) / p->page_size) : 0;
}

/* Each slot once, from a random one on; every third outside of the cache if hostile. */
static void fill_lists(struct append_trial *t, struct rng *r, int hostile)
{
    static const cl_int strange[] = {-1, INT_MIN, INT_MAX, -1000000};
    const clattn_append_problem *p = &t->problem.append;
    const struct append_strides s = reference_append_strides(p, APPEND_K);
    const size_t tokens = p->batch * p->tokens, places = s.blocks * s.rows;
    const size_t entries = table_entries(p);
    const size_t room = p->capacity > p->tokens ? p->capacity - p->tokens : 0;
    const size_t first = places ? rng_below(r, places) : 0;

    for (size_t b = 0; b < p->batch; b++) {
        const cl_int edges[] = {-2, (cl_int)p->capacity - 1, INT_MAX, INT_MIN};
        t->kv_lengths[b] = hostile ? edges[rng_below(r, 4)] : (cl_int)rng_below(r, room + 1);
    }
    for (size_t n = 0; n < tokens; n++) {
        t->slots[n] = (hostile && n % 3 == 1) || n >= places ? strange[rng_below(r, 4)]
                                                             : (cl_int)((first + n) % places);
        if (hostile && n % 3 == 2)
            t->slots[n] = (cl_int)(places + rng_below(r, 3));
        t->positions[n] = (cl_int)rng_below(r, 4000) - 1000;
    }
    for (size_t n = 0; n < entries; n++) { /* a page each, as long as there are some */
        const cl_int none[] = {-1, INT_MIN, INT_MAX, (cl_int)p->pages};
        const int has = n < p->pages && !(hostile && rng_one_in(r, 3));
        t->page_table[n] = has ? (cl_int)(p->pages - 1 - n) : none[rng_below(r, 4)];
    }
    for (size_t n = 0; n < p->rotary_length * (p->rotary_dim / 2); n++) {
        t->cos[n] = (float)rng_uniform(r, -1, 1);
        t->sin[n] = (float)rng_uniform(r, -1, 1);
    }
}

int append_trial_fill(struct append_trial *t, const clattn_problem *problem, struct rng *r,
                      int hostile)
{
    const clattn_append_problem *p = &problem->append;
    const size_t tokens = p->batch * p->tokens;
    const size_t table = p->rotary_length * (p->rotary_dim / 2);

    *t = (struct append_trial){.problem = *problem};
    for (int kind = 0; kind < APPEND_KINDS; kind++)
        if ((kind != APPEND_Q || p->queries) && !fill_kind(t, (enum append_kind)kind, r))
            return 0;
    t->kv_lengths = malloc((p->batch + 1) * sizeof(cl_int));
    t->positions = malloc((tokens + 1) * sizeof(cl_int));
    t->slots = malloc((tokens + 1) * sizeof(cl_int));
    t->page_table = malloc((table_entries(p) + 1) * sizeof(cl_int));
    t->cos = malloc((table + 1) * sizeof(float));
    t->sin = malloc((table + 1) * sizeof(float));
    if (!t->kv_lengths || !t->positions || !t->slots || !t->page_table || !t->cos || !t->sin)
        return 0;
    fill_lists(t, r, hostile);
    return 1;
}

void append_trial_free(struct append_trial *t)
{
    for (int kind = 0; kind < APPEND_KINDS; kind++) {
        free(t->from[kind]);
        free(t->to[kind]);
        free(t->before[kind]);
    }
    free(t->kv_lengths);
    free(t->positions);
    free(t->slots);
    free(t->page_table);
    free(t->cos);
    free(t->sin);
}

clattn_status append_trial_run(struct append_trial *t, clattn_context *context,
                               const clattn_plan_options *options)
{
    const clattn_append_problem *p = &t->problem.append;
    const int rotates = p->queries == CLATTN_QUERIES_ROTATED;
    const clattn_host_append_tensors tensors = {
        .struct_size = sizeof tensors,
        .k = t->from[APPEND_K],
        .v = t->from[APPEND_V],
        .k_cache = t->to[APPEND_K],
        .v_cache = t->to[APPEND_V],
        .q = rotates ? t->from[APPEND_Q] : NULL,
        .q_out = t->to[APPEND_Q],
        .kv_lengths = p->kv_lengths ? t->kv_lengths : NULL,
        .positions = p->positions ? t->positions : NULL,
        .slots = p->slots ? t->slots : NULL,
        .page_table = p->page_size && !p->slots ? t->page_table : NULL,
        .cos = p->rotary_length ? t->cos : NULL,
        .sin = p->rotary_length ? t->sin : NULL,
    };

    for (int kind = 0; kind < APPEND_KINDS; kind++)
        if (t->to[kind])
            memcpy(t->before[kind], t->to[kind], t->bytes[kind][1]);
    return clattn_append_host(context, &t->problem, options, &tensors);
}

static double value_at(const clattn_append_problem *p, enum append_kind kind, const void *data,
                       size_t n)
{
    const clattn_cache cache = cache_of(p, kind);

    return cache == CLATTN_CACHE_PLAIN ? value_get(dtype_of(p, kind), data, n)
                                       : value_get_quantized(cache, data, n);
}

struct comparing {
    const struct append_trial *t;
    unsigned char *marks[APPEND_KINDS]; /* of bytes that are a token's */
    size_t wrong;
};

static void compare(void *user, int output, const size_t at[4], const struct bounded *want,
                    size_t count)
{
    struct comparing *c = user;
    const enum append_kind kind = (enum append_kind)output;
    const clattn_append_problem *p = &c->t->problem.append;
    const struct append_strides s = reference_append_strides(p, kind);
    const clattn_cache cache = cache_of(p, kind);
    const size_t together = cache == CLATTN_CACHE_PLAIN ? 1 : VALUE_BLOCK;
    const size_t bytes = together == 1 ? value_bytes(dtype_of(p, kind)) : value_block_bytes(cache);

    for (size_t d = 0; d < count; d++) {
        const size_t n = at[0] * s.to[0] + at[1] * s.to[1] + at[2] * s.to[2] + d * s.to[3];
        memset(c->marks[kind] + n / together * bytes, 1, bytes);
        c->wrong += !within(value_at(p, kind, c->t->to[kind], n), want[d]);
    }
}

size_t append_trial_compare(const struct append_trial *t)
{
    const clattn_append_problem *p = &t->problem.append;
    const struct append_view view = {
        .from = {t->from[APPEND_K], t->from[APPEND_V], t->from[APPEND_Q]},
        .kv_lengths = p->kv_lengths ? t->kv_lengths : NULL,
        .positions = t->positions,
        .slots = t->slots,
        .page_table = t->page_table,
        .cos = t->cos,
        .sin = t->sin};
    struct comparing c = {.t = t};

    for (int kind = 0; kind < APPEND_KINDS; kind++)
        if ((c.marks[kind] = calloc(t->bytes[kind][1] + 1, 1)) == NULL)
            c.wrong++;
    if (c.wrong > 0 || !judge_append(p, &view, INFINITY, compare, &c))
        c.wrong++;
    for (int kind = 0; kind < APPEND_KINDS; kind++) {
        for (size_t n = 0; c.marks[kind] && n < t->bytes[kind][1]; n++)
            c.wrong += !c.marks[kind][n] && t->to[kind][n] != t->before[kind][n];
        free(c.marks[kind]);
    }
    return c.wrong;
}

clattn_problem append_trial_draw(struct rng *r, const clattn_problem *base)
{
    const size_t least = base->append.rotary_dim ? base->append.rotary_dim : 1;
    clattn_problem made = *base;
    clattn_append_problem *p = &made.append;

    p->batch = RNG_PICK(r, 1, 1, 2, 3);
    p->kv_heads = RNG_PICK(r, 1, 2, 3);
    p->heads = p->kv_heads * RNG_PICK(r, 1, 2, 4);
    p->tokens = RNG_PICK(r, 0, 1, 1, 2, 5, 9);
    p->capacity = RNG_PICK(r, 0, 1, 5, 9, 17, 33);
    p->dim_qk = least + RNG_PICK(r, 0, 0, 1, 7, 32, 65);
    p->dim_v = RNG_PICK(r, 1, 8, 31, 32, 64, 100, 128);
    if (p->k_format)
        p->dim_qk = (p->dim_qk + VALUE_BLOCK - 1) / VALUE_BLOCK * VALUE_BLOCK;
    if (p->v_format)
        p->dim_v = (p->dim_v + VALUE_BLOCK - 1) / VALUE_BLOCK * VALUE_BLOCK;
    p->q = random_layout(r, (size_t[]){p->batch, p->heads, p->tokens, p->dim_qk}, 1);
    p->k = random_layout(r, (size_t[]){p->batch, p->kv_heads, p->tokens, p->dim_qk}, 1);
    p->v = random_layout(r, (size_t[]){p->batch, p->kv_heads, p->tokens, p->dim_v}, 1);
    p->q_out = random_layout(r, (size_t[]){p->batch, p->heads, p->tokens, p->dim_qk}, 1);
    p->pages = p->page_size ? 1 + rng_below(r, table_entries(p) + 3) : 0;
    const size_t blocks = p->page_size ? p->pages : p->batch;
    const size_t rows = p->page_size ? p->page_size : p->capacity;
    p->k_cache = random_layout(r, (size_t[]){blocks, p->kv_heads, rows, p->dim_qk},
                               p->k_format ? VALUE_BLOCK : 1);
    p->v_cache = random_layout(r, (size_t[]){blocks, p->kv_heads, rows, p->dim_v},
                               p->v_format ? VALUE_BLOCK : 1);
    return made;
}
