/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/random_problem.h"
#include "families/registry.h"
#include "problem/chosen_keys.h"
#include "problem/layout.h"
#include "problem/problem.h"

#include <math.h>
#include <string.h>

static size_t draw_dim(struct rng *r)
{
    return RNG_PICK(r, 1, 2, 3, 5, 8, 9, 16, 20, 24, 32, 32, 40, 59, 64, 64, 64, 72, 80, 96, 111,
                    128, 128, 160, 192, 256, 257, 512);
}

static clattn_dtype draw_dtype(struct rng *r)
{
    return (clattn_dtype)rng_below(r, 3);
}

/* Rarely; blocks only where the dim takes them. */
static clattn_cache draw_cache(struct rng *r, const size_t dim)
{
    if (!rng_one_in(r, 4))
        return CLATTN_CACHE_PLAIN;
    return dim % 32 == 0 && rng_one_in(r, 2) ? ca_block_caches[rng_below(r, CA_NUM_BLOCK_FORMATS)]
                                             : ca_cache_of_dtype(draw_dtype(r));
}

static int is_quantized(const clattn_cache cache)
{
    return ca_format_of(cache)->is_blocks;
}

void random_block_sizes(struct rng *r, const int large, clattn_problem *p)
{
    p->block_q = large ? RNG_PICK(r, 32, 48, 64, 100, 128, 1000) : RNG_PICK(r, 1, 2, 7, 16, 20);
    p->block_kv = large ? RNG_PICK(r, 32, 64, 65, 70, 99, 1000) : RNG_PICK(r, 1, 3, 8, 17, 30);
    p->max_blocks = 1;
}

/* Draws options that only one of the operations has. */
static void draw_results(struct rng *r, clattn_problem *p)
{
    if (rng_one_in(r, 4) && p->block_q == 0) {
        p->total_q = rng_one_in(r, 2);
        p->total_kv = rng_one_in(r, 2);
    }
    p->o_f32 = p->dtype != CLATTN_F32 && rng_one_in(r, 4);
    if (p->operation == CLATTN_BACKWARD) {
        p->dbias = p->bias && p->total_q == 0 && p->total_kv == 0 && rng_one_in(r, 2);
        p->dslopes = p->alibi && rng_one_in(r, 2);
        p->dsinks = p->sinks && rng_one_in(r, 2);
        p->dlse = rng_one_in(r, 4);
        p->topk = !p->block_q && rng_one_in(r, 6);
        p->topk_heads = p->topk && rng_one_in(r, 2);
    } else {
        p->lse = rng_one_in(r, 2);
        p->k_cache = draw_cache(r, p->dim_qk);
        p->v_cache = draw_cache(r, p->dim_v);
        p->k_scales = ca_has_scales(p->k_cache) && rng_one_in(r, 2);
        p->v_scales = ca_has_scales(p->v_cache) && rng_one_in(r, 2);
        /* Seldom with block lists, which few families walk in pages. */
        if (rng_one_in(r, 5) && p->dropout == 0.0f && p->total_kv == 0 &&
            (p->block_q == 0 || rng_one_in(r, 4)))
            p->page_size = RNG_PICK(r, 1, 2, 3, 8, 13, 16, 16, 32, 48, 64, 100, 256);
        p->pages = p->page_size != 0;
        const int may_show = p->total_q == 0 && p->total_kv == 0;
        p->scores = rng_one_in(r, 3) && may_show ? (clattn_scores)(1 + rng_below(r, 4))
                                                 : CLATTN_SCORES_NONE;
        if (rng_one_in(r, 8)) {
            p->lse = 1;
            p->key_sums = !may_show || rng_one_in(r, 2);
            p->scores = p->key_sums ? p->scores : CLATTN_SCORES_MEAN;
        }
        p->topk = !p->block_q && !p->scores && !p->key_sums && rng_one_in(r, 6);
        p->topk_heads = p->topk && rng_one_in(r, 2);
        p->invariant = !p->topk && p->dropout == 0.0f && !p->block_q && !p->mask_keys &&
                       !p->scores && !p->key_sums && rng_one_in(r, 3);
    }
}

/* Options that change the program. */
static clattn_problem draw_options(struct rng *r, const clattn_operation operation)
{
    clattn_problem p;

    clattn_problem_init(&p);
    p.operation = operation;
    p.dtype = draw_dtype(r);
    p.dim_qk = draw_dim(r);
    p.dim_v = rng_one_in(r, 2) ? p.dim_qk : draw_dim(r);
    if (rng_one_in(r, 4))
        p.softcap = (float)rng_uniform(r, 0.5, 30);
    p.causal = rng_one_in(r, 2);
    p.diagonal = (clattn_diagonal)rng_below(r, 3);
    if (rng_one_in(r, 4))
        p.window_left = 0;
    if (rng_one_in(r, 6))
        p.window_right = 0;
    p.bias = rng_one_in(r, 3);
    p.bias_dtype = p.bias ? draw_dtype(r) : CLATTN_F32;
    p.mask = rng_one_in(r, 3);
    p.mask_keys = p.mask && rng_one_in(r, 3);
    p.alibi = rng_one_in(r, 5);
    p.alibi_symmetric = p.alibi && rng_one_in(r, 2);
    p.sinks = rng_one_in(r, 5);
    p.q_lengths = rng_one_in(r, 5);
    p.kv_lengths = rng_one_in(r, 4);
    if (rng_one_in(r, 5))
        p.dropout = (float)rng_uniform(r, 0.02, 0.9);
    if (rng_one_in(r, 5))
        random_block_sizes(r, rng_one_in(r, 2), &p);
    draw_results(r, &p);
    p.strict = rng_one_in(r, 4);
    return p;
}

/* The options as they are: layouts, which make a problem normal, are drawn with the shapes. */
static struct ca_problem drawn(const clattn_problem *base)
{
    return (struct ca_problem){*base, *base};
}

/* Returns whether the family takes the options. */
static int takes(const struct ca_family *family, const clattn_problem *base,
                 const clattn_device_info *device)
{
    const struct ca_problem given = drawn(base), p = ca_problem_chosen(&given);

    return ca_family_unsupported(family, &p, device) == NULL;
}

/* Some of the tunables changed at random; values are left alone where nothing passes. */
static int draw_tunables(struct rng *r, struct problem_kind *kind, const clattn_device_info *device)
{
    const struct ca_family *family = kind->family;
    const struct ca_problem given = drawn(&kind->base), base = ca_problem_chosen(&given);

    for (int attempt = 0; attempt < 50; attempt++) {
        size_t values[CA_MAX_TUNABLES];
        memcpy(values, kind->values, sizeof values);
        for (size_t n = 0; n < family->num_tunables; n++) {
            const struct ca_tunable *t = &family->tunables[n];
            if (rng_one_in(r, 2))
                values[n] = t->candidates[rng_below(r, t->num_candidates)];
        }
        if (family->reject(&base, device, values) == NULL) {
            memcpy(kind->values, values, sizeof values);
            return 1;
        }
    }
    return 0;
}

void random_tunables(struct rng *r, struct problem_kind *kind, const clattn_device_info *device,
                     const int others)
{
    const struct ca_family *family = kind->family;
    const struct ca_problem given = drawn(&kind->base), base = ca_problem_chosen(&given);

    ca_tunables_default(family->tunables, family->num_tunables, kind->values);
    family->adapt(&base, device, kind->values);
    if (family->num_tunables > 0 && others && draw_tunables(r, kind, device))
        ca_tunables_print(family->tunables, family->num_tunables, kind->values, kind->tunables,
                          sizeof kind->tunables);
}

/* Problems of bytes are those that ask for them, a third of those of a family that computes others too, and lack some
 * options. */
static clattn_problem draw_for(struct rng *r, const struct ca_family *family)
{
    clattn_problem p = draw_options(r, family->operation);

    if (family->multiplies_bytes == CA_BYTES_ALONE ||
        (family->multiplies_bytes && rng_one_in(r, 3))) {
        p.int8 = 1;
        p.topk = 0;
        p.scores = CLATTN_SCORES_NONE;
        p.topk_heads = p.key_sums = p.invariant = 0;
    }
    return p;
}

struct problem_kind random_kind(struct rng *r, const struct ca_family *family,
                                const clattn_device_info *device)
{
    struct problem_kind kind = {.family = family};

    kind.base = draw_for(r, family);
    for (int n = 0; n < 100 && !takes(family, &kind.base, device); n++)
        kind.base = draw_for(r, family);
    for (int n = 0; n < NUM_UNITS; n++)
        kind.unit[n] = !rng_one_in(r, 8);
    kind.unit[1] = kind.unit[1] || is_quantized(kind.base.k_cache);
    kind.unit[2] = kind.unit[2] || is_quantized(kind.base.v_cache);
    random_tunables(r, &kind, device, rng_one_in(r, 2));
    return kind;
}

/* ---- shapes -------------------------------------------------------------------------------- */

/* Ragged, empty, or around one of the kind's tile sizes. */
static size_t draw_seq(struct rng *r, const struct problem_kind *kind)
{
    if (rng_one_in(r, 25))
        return 0;
    if (kind->family && kind->family->num_tunables > 0 && rng_one_in(r, 2)) {
        const size_t tile = kind->values[rng_below(r, kind->family->num_tunables)];
        const size_t around = (1 + rng_below(r, 2)) * tile + rng_below(r, 3);
        if (around > 1 && around <= 260)
            return around - 1;
    }
    return RNG_PICK(r, 1, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 47, 48, 49, 63, 64, 65, 80, 95,
                    97, 127, 129, 130, 150, 200, 257);
}

/* A tensor of the given sizes in any order, with gaps; inputs may broadcast over batch or heads. */
static clattn_layout draw_layout(struct rng *r, const size_t sizes[4], const int unit,
                                 const int written)
{
    static const int orders[][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {2, 0, 1, 3},
                                    {1, 0, 2, 3}, {0, 1, 3, 2}, {3, 2, 1, 0}};
    clattn_layout layout = {{0, 0, 0, 0}};

    if (unit && rng_one_in(r, 3))
        return layout;
    const int *order = orders[rng_below(r, unit ? 4 : 6)];
    size_t step = unit ? 1 : 1 + rng_below(r, 3);
    if (!unit && order[3] == 3 && step == 1)
        step = 2;
    for (int n = 3; n >= 0; n--) {
        layout.stride[order[n]] = step;
        step = step * (sizes[order[n]] ? sizes[order[n]] : 1);
        if (rng_one_in(r, 4))
            step += rng_below(r, 20);
    }
    if (!written && rng_one_in(r, 6))
        layout.stride[0] = 0;
    if (!written && rng_one_in(r, 10))
        layout.stride[1] = 0;
    return layout;
}

/* Rounds all strides but the innermost up to whole blocks. */
static void in_blocks(clattn_layout *layout)
{
    for (int n = 0; n < 3; n++)
        layout->stride[n] = (layout->stride[n] + 31) / 32 * 32;
}

/* A layout over (batch, heads, queries, columns) that broadcasts some axes and is packed, or has random strides. */
static clattn_layout draw_pair_layout(struct rng *r, const clattn_problem *p, const size_t columns)
{
    const size_t sizes[4] = {p->batch, p->heads, p->seq_q, columns};
    const size_t rank = rng_one_in(r, 12) ? 0 : 1 + rng_below(r, 4);
    size_t shape[4];
    clattn_layout layout;

    if (rng_one_in(r, 4))
        return draw_layout(r, sizes, 0, 0);
    for (size_t n = 0; n < rank; n++)
        shape[n] = rng_one_in(r, 4) ? 1 : sizes[4 - rank + n];
    clattn_layout_broadcast(p, rank, shape, &layout);
    return layout;
}

/* A layout of scales: packed for some of the axes, or random strides. */
static clattn_layout draw_scales_layout(struct rng *r, const clattn_problem *p)
{
    const size_t sizes[4] = {ca_cache_batch(p), p->kv_heads, ca_cache_rows(p), 1};
    clattn_layout layout;

    if (rng_one_in(r, 4))
        return draw_layout(r, sizes, 0, 0);
    ca_layout_spread(rng_one_in(r, 2) ? 7 : (unsigned)rng_below(r, 8), sizes, &layout);
    return layout;
}

static void draw_sizes(struct rng *r, const struct problem_kind *kind, clattn_problem *p)
{
    const int backward = p->operation == CLATTN_BACKWARD;
    const double most = backward ? 4000000 : 6000000; /* 2.5 times the operations */
    double work;

    do {
        p->batch = rng_one_in(r, 30) ? 0 : RNG_PICK(r, 1, 1, 2, 3);
        p->kv_heads = RNG_PICK(r, 1, 1, 2, 3);
        p->heads = p->kv_heads * RNG_PICK(r, 1, 1, 2, 3, 4);
        p->seq_q = draw_seq(r, kind);
        p->seq_kv = draw_seq(r, kind);
        work = (double)p->batch * (double)p->heads * (double)p->seq_q * (double)p->seq_kv *
               (double)(p->dim_qk + p->dim_v + (backward ? 32 : 0));
    } while (work > most);
}

/* Rows of a packed batch: fewer than the longest sequences would take, or some more. */
static size_t draw_total(struct rng *r, size_t batch, size_t longest)
{
    return batch && longest ? 1 + rng_below(r, batch * longest + 5) : 0;
}

clattn_problem random_shape(struct rng *r, const struct problem_kind *kind)
{
    clattn_problem p = kind->base;

    draw_sizes(r, kind, &p);
    if (p.page_size > 0) /* as many as there are entries, or fewer, or more */
        p.pages = 1 + rng_below(r, p.batch * (p.seq_kv / p.page_size + 1) + 2);
    if (p.whole_q) {
        p.whole_batch = p.batch + WHOLE_MORE;
        p.whole_heads = (p.kv_heads + WHOLE_MORE) * (p.heads / p.kv_heads);
        p.whole_q = p.seq_q + WHOLE_MORE;
        p.whole_kv = p.seq_kv + WHOLE_MORE;
    }
    p.total_q = p.total_q ? draw_total(r, p.batch, p.seq_q) : 0;
    p.total_kv = p.total_kv ? draw_total(r, p.batch, p.seq_kv) : 0;
    const size_t q[4] = {ca_query_batch(&p), p.heads, ca_query_rows(&p), p.dim_qk};
    const size_t k[4] = {ca_cache_batch(&p), p.kv_heads, ca_cache_rows(&p), p.dim_qk};
    const size_t v[4] = {ca_cache_batch(&p), p.kv_heads, ca_cache_rows(&p), p.dim_v};
    const size_t o[4] = {ca_query_batch(&p), p.heads, ca_query_rows(&p), p.dim_v};
    p.q = draw_layout(r, q, kind->unit[0], 0);
    p.k = draw_layout(r, k, kind->unit[1], 0);
    p.v = draw_layout(r, v, kind->unit[2], 0);
    if (is_quantized(p.k_cache))
        in_blocks(&p.k);
    if (is_quantized(p.v_cache))
        in_blocks(&p.v);
    p.o = draw_layout(r, o, kind->unit[3], 1);
    if (p.operation == CLATTN_BACKWARD) {
        p.d_o = draw_layout(r, o, kind->unit[4], 0);
        p.dq = draw_layout(r, q, kind->unit[5], 1);
        p.dk = draw_layout(r, k, kind->unit[6], 1);
        p.dv = draw_layout(r, v, kind->unit[7], 1);
    }
    if (p.bias)
        p.bias_layout = draw_pair_layout(r, &p, p.seq_kv);
    if (p.seq_kv == 0)
        p.mask_keys = 0;
    if (p.mask_keys)
        p.mask_keys =
            1 + rng_below(r, rng_one_in(r, 2) && p.seq_q < p.seq_kv ? p.seq_q + 1 : p.seq_kv);
    if (p.mask)
        p.mask_layout = draw_pair_layout(r, &p, ca_mask_keys(&p));
    if (p.k_scales)
        p.k_scales_layout = draw_scales_layout(r, &p);
    if (p.v_scales)
        p.v_scales_layout = draw_scales_layout(r, &p);
    if (p.topk)
        p.topk = RNG_PICK(r, 1, 2, 5, 16, 33, 100);
    if (p.block_q) {
        p.max_blocks = 1 + rng_below(r, (p.seq_q / p.block_q + 1) * (p.seq_kv / p.block_kv + 1));
        p.block_batches = rng_one_in(r, 2);
        p.block_heads = rng_one_in(r, 2);
    }
    if (rng_one_in(r, 3))
        p.scale = (float)rng_uniform(r, -0.5, 1.5);
    if (p.diagonal == CLATTN_OFFSET)
        p.diagonal_offset = (int64_t)rng_below(r, p.seq_kv + 20) - 10;
    if (p.window_left == 0)
        p.window_left = (int64_t)rng_below(r, rng_one_in(r, 2) ? 8 : p.seq_kv + 1);
    if (p.window_right == 0)
        p.window_right = (int64_t)rng_below(r, rng_one_in(r, 2) ? 8 : p.seq_kv + 1);
    return p;
}

clattn_problem random_problem(struct rng *r)
{
    struct problem_kind kind = {
        .base = draw_options(r, rng_one_in(r, 3) ? CLATTN_BACKWARD : CLATTN_FORWARD)};

    for (int n = 0; n < NUM_UNITS; n++)
        kind.unit[n] = !rng_one_in(r, 4);
    kind.unit[1] = kind.unit[1] || is_quantized(kind.base.k_cache);
    kind.unit[2] = kind.unit[2] || is_quantized(kind.base.v_cache);
    return random_shape(r, &kind);
}
