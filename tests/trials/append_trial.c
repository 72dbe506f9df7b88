/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/append_trial.h"

#include "tests/support/storage.h"
#include <limits.h>
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

static size_t extent_of(const size_t sizes[4], const size_t strides[4])
{
    size_t extent = 1;

    for (int n = 0; n < 4; n++) {
        if (sizes[n] == 0)
            return 0;
        extent += (sizes[n] - 1) * strides[n];
    }
    return extent;
}

static void measure(struct append_trial *t, enum append_kind kind)
{
    const clattn_append_problem *p = &t->problem.append;
    const struct append_strides s = reference_append_strides(p, kind);
    const size_t to = extent_of((size_t[]){s.blocks, s.heads, s.rows, s.dim}, s.to);
    const clattn_cache cache = cache_of(p, kind);

    t->bytes[kind][0] =
        extent_of((size_t[]){p->batch, s.heads, p->tokens, s.dim}, s.from) * value_bytes(p->dtype);
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

/* A token's row of a head; marks its bytes. */
static size_t compare_row(const struct append_trial *t, const struct append_view *view,
                          enum append_kind kind, size_t b, size_t h, size_t i, struct bounded *want,
                          unsigned char *marks)
{
    const clattn_append_problem *p = &t->problem.append;
    const struct append_strides s = reference_append_strides(p, kind);
    const clattn_cache cache = cache_of(p, kind);
    const int64_t place =
        kind == APPEND_Q ? (int64_t)(b * p->tokens + i) : reference_append_place(p, view, b, i);
    size_t wrong = 0;

    if (place < 0)
        return 0;
    reference_append(p, view, kind, b, h, i, want);
    const size_t first =
        (size_t)place / s.rows * s.to[0] + h * s.to[1] + (size_t)place % s.rows * s.to[2];
    for (size_t d = 0; d < s.dim; d++) {
        const size_t n = first + d * s.to[3];
        const size_t bytes =
            cache == CLATTN_CACHE_PLAIN ? value_bytes(dtype_of(p, kind)) : value_block_bytes(cache);
        memset(marks + (cache == CLATTN_CACHE_PLAIN ? n : n / VALUE_BLOCK) * bytes, 1, bytes);
        wrong += !within(value_at(p, kind, t->to[kind], n), want[d]);
    }
    return wrong;
}

static size_t compare_kind(const struct append_trial *t, enum append_kind kind)
{
    const clattn_append_problem *p = &t->problem.append;
    const struct append_strides s = reference_append_strides(p, kind);
    const struct append_view view = {
        .from = {t->from[APPEND_K], t->from[APPEND_V], t->from[APPEND_Q]},
        .kv_lengths = p->kv_lengths ? t->kv_lengths : NULL,
        .positions = t->positions,
        .slots = t->slots,
        .page_table = t->page_table,
        .cos = t->cos,
        .sin = t->sin};
    struct bounded *want = malloc((s.dim + 1) * sizeof *want);
    unsigned char *marks = calloc(t->bytes[kind][1] + 1, 1);
    size_t wrong = want && marks ? 0 : 1;

    for (size_t n = 0; wrong == 0 && n < p->batch * s.heads * p->tokens; n++)
        wrong += compare_row(t, &view, kind, n / p->tokens / s.heads, n / p->tokens % s.heads,
                             n % p->tokens, want, marks);
    for (size_t n = 0; marks && n < t->bytes[kind][1]; n++)
        wrong += !marks[n] && t->to[kind][n] != t->before[kind][n];
    free(want);
    free(marks);
    return wrong;
}

size_t append_trial_compare(const struct append_trial *t)
{
    size_t wrong = 0;

    for (int kind = 0; kind < APPEND_KINDS; kind++)
        wrong += t->to[kind] ? compare_kind(t, (enum append_kind)kind) : 0;
    return wrong;
}

/* Any order of the outer axes, gaps after some; of quantized caches whole blocks. */
static clattn_layout draw_layout(struct rng *r, const size_t sizes[4], int quantized)
{
    const size_t unit = quantized ? VALUE_BLOCK : 1;
    int order[3] = {0, 1, 2};
    clattn_layout layout;
    size_t step = !quantized && rng_one_in(r, 4) ? 2 : 1;

    if (rng_one_in(r, 3))
        return (clattn_layout){{0}};
    for (size_t n = 2; n > 0; n--) {
        const size_t other = rng_below(r, n + 1);
        const int axis = order[n];
        order[n] = order[other];
        order[other] = axis;
    }
    layout.stride[3] = step;
    step = step * sizes[3] + rng_below(r, 3) * unit;
    for (int n = 2; n >= 0; n--) {
        layout.stride[order[n]] = step;
        step = step * (sizes[order[n]] ? sizes[order[n]] : 1) + rng_below(r, 3) * unit;
    }
    return layout;
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
    p->q = draw_layout(r, (size_t[]){p->batch, p->heads, p->tokens, p->dim_qk}, 0);
    p->k = draw_layout(r, (size_t[]){p->batch, p->kv_heads, p->tokens, p->dim_qk}, 0);
    p->v = draw_layout(r, (size_t[]){p->batch, p->kv_heads, p->tokens, p->dim_v}, 0);
    p->q_out = draw_layout(r, (size_t[]){p->batch, p->heads, p->tokens, p->dim_qk}, 0);
    p->pages = p->page_size ? 1 + rng_below(r, table_entries(p) + 3) : 0;
    const size_t blocks = p->page_size ? p->pages : p->batch;
    const size_t rows = p->page_size ? p->page_size : p->capacity;
    p->k_cache = draw_layout(r, (size_t[]){blocks, p->kv_heads, rows, p->dim_qk}, p->k_format != 0);
    p->v_cache = draw_layout(r, (size_t[]){blocks, p->kv_heads, rows, p->dim_v}, p->v_format != 0);
    return made;
}
