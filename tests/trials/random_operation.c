/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/random_operation.h"

#include "bench/judge/values.h"
#include "problem/layout.h"
#include "tests/trials/random_layout.h"
#include <stdio.h>
#include <stdlib.h>

static clattn_problem random_merge(struct rng *r, const clattn_problem *base)
{
    clattn_problem made = *base;
    clattn_merge_problem *p = &made.merge;

    p->batch = RNG_PICK(r, 1, 1, 2, 3);
    p->heads = RNG_PICK(r, 1, 2, 3, 8);
    p->seq_q = RNG_PICK(r, 0, 1, 1, 2, 5, 17);
    p->states = RNG_PICK(r, 0, 1, 2, 2, 3, 4, 7, 8, 9, 16, 17, 33);
    p->dim = RNG_PICK(r, 1, 3, 4, 8, 20, 31, 64, 65, 100, 128, 200, 256, 300);
    p->parts = random_layout(r, (size_t[]){p->states * p->batch, p->heads, p->seq_q, p->dim}, 1);
    p->o = random_layout(r, (size_t[]){p->batch, p->heads, p->seq_q, p->dim}, 1);
    return made;
}

static clattn_problem random_append(struct rng *r, const clattn_problem *base)
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
    p->pages =
        p->page_size
            ? 1 + rng_below(r, p->batch * ((p->capacity + p->page_size - 1) / p->page_size) + 3)
            : 0;
    const size_t blocks = p->page_size ? p->pages : p->batch;
    const size_t rows = p->page_size ? p->page_size : p->capacity;
    p->k_cache = random_layout(r, (size_t[]){blocks, p->kv_heads, rows, p->dim_qk},
                               p->k_format ? VALUE_BLOCK : 1);
    p->v_cache = random_layout(r, (size_t[]){blocks, p->kv_heads, rows, p->dim_v},
                               p->v_format ? VALUE_BLOCK : 1);
    if (p->k_scaled)
        ca_layout_spread((unsigned)rng_below(r, 8), (size_t[]){blocks, p->kv_heads, rows, 1},
                         &p->k_scales);
    if (p->v_scaled)
        ca_layout_spread(7, (size_t[]){blocks, p->kv_heads, rows, 1}, &p->v_scales);
    return made;
}

/* Packed in either order, or with gaps after each axis but the last. */
static clattn_layout layout_of_units(struct rng *r, size_t heads, size_t rows, size_t dim)
{
    const size_t gap = RNG_PICK(r, 0, 0, 3), row = dim + gap;
    const clattn_layout by_heads = {{heads * (rows * row + gap), rows * row + gap, row, 1}};
    const clattn_layout by_rows = {{rows * (heads * row + gap), row, heads * row + gap, 1}};

    return rng_one_in(r, 2) ? by_heads : by_rows;
}

/* Dims and heads of a group are base's, too, and so are innermost strides of 1. */
static clattn_problem random_double_backward(struct rng *r, const clattn_problem *base)
{
    clattn_problem made = *base;
    clattn_double_backward_problem *p = &made.double_backward;
    clattn_layout *const of_queries[] = {&p->q, &p->ggq, &p->gq, &p->d_o, &p->gdo};
    clattn_layout *const of_keys[] = {&p->k, &p->ggk, &p->gk, &p->v, &p->ggv, &p->gv};

    p->batch = RNG_PICK(r, 1, 1, 2, 3);
    p->seq_q = RNG_PICK(r, 0, 1, 2, 5, 9, 17, 33);
    p->seq_kv = RNG_PICK(r, 0, 1, 3, 9, 16, 17, 40);
    for (size_t n = 0; n < 5; n++)
        *of_queries[n] = layout_of_units(r, p->heads, p->seq_q, n < 3 ? p->dim_qk : p->dim_v);
    for (size_t n = 0; n < 6; n++)
        *of_keys[n] = layout_of_units(r, p->kv_heads, p->seq_kv, n < 3 ? p->dim_qk : p->dim_v);
    return made;
}

/* Heads and dims are base's, too. */
static clattn_problem random_indexer(struct rng *r, const clattn_problem *base)
{
    clattn_problem made = *base;
    clattn_indexer_problem *p = &made.indexer;

    p->batch = RNG_PICK(r, 1, 1, 2, 3);
    p->seq_q = RNG_PICK(r, 1, 1, 2, 5, 9, 17);
    p->seq_kv = RNG_PICK(r, 1, 3, 16, 33, 100, 300, 700);
    p->topk = RNG_PICK(r, 1, 2, 5, 16, 40, 400);
    if (!base->indexer.total_q && rng_one_in(r, 8))
        p->seq_q = 0;
    if (!base->indexer.total_kv && rng_one_in(r, 8))
        p->seq_kv = 0;
    p->total_q = p->total_q ? p->batch * p->seq_q - rng_below(r, p->seq_q) : 0;
    p->total_kv = p->total_kv ? p->batch * p->seq_kv - rng_below(r, p->seq_kv) : 0;
    if (p->page_size)
        p->pages = 1 + rng_below(r, p->batch * ((p->seq_kv + p->page_size - 1) / p->page_size) + 3);
    const size_t rows = p->total_q ? p->total_q : p->seq_q;
    const size_t keys = p->page_size ? p->page_size : p->total_kv ? p->total_kv : p->seq_kv;
    p->q = layout_of_units(r, p->heads, rows, p->dim);
    p->k = layout_of_units(r, 1, keys, p->dim);
    p->w = layout_of_units(r, p->heads, rows, 1);
    if (p->gradients) {
        p->dq = layout_of_units(r, p->heads, rows, p->dim);
        p->dk = layout_of_units(r, 1, keys, p->dim);
        p->dw = layout_of_units(r, p->heads, rows, 1);
    }
    return made;
}

enum { MOST_BASES = 3 };
static const struct {
    clattn_problem (*draw)(struct rng *r, const clattn_problem *base);
    const char *bases[MOST_BASES];
} operations[] = {
    [CLATTN_MERGE] = {random_merge,
                      {"merge f32 q1 d8 n2", "merge f16 q1 d8 n2 sinks accumulate",
                       "merge bf16 q1 d8 n2 accumulate"}},
    [CLATTN_APPEND] = {random_append,
                       {"append f32 q1 k1 d8 cache=f16 klen slots",
                        "append f16 q1 k1 d64 kcache=q8_0 vcache=q4_0 klen rope=halves:30:10000 "
                        "queries",
                        "append bf16 q1 k1 d32/8 kcache=e4m3 kscales page=16 pages=1 klen pos "
                        "rope=pairs:8:500"}},
    [CLATTN_DOUBLE_BACKWARD] = {random_double_backward,
                                {"bwd2 f32 h4/2 q1 k1 d19/9 causal=br qlen klen",
                                 "bwd2 f16 h2 q1 k1 d40/16 window=5,3 ggk=none",
                                 "bwd2 bf16 q1 k1 d16/33 ggq=none"}},
    [CLATTN_INDEXER] = {random_indexer,
                        {"indexer f32 h3 q1 k1 d19 topk=1 causal=br qlen klen scores",
                         "indexer bf16 h16 q1 k1 d32 topk=1 page=16",
                         "indexer bf16 h5 q1 k1 d20 topk=1 causal=br gradients"}},
};

clattn_problem random_of(struct rng *r, const clattn_problem *base)
{
    return operations[base->operation].draw(r, base);
}

clattn_problem random_of_operation(struct rng *r, clattn_operation operation)
{
    const char *text = operations[operation].bases[rng_below(r, MOST_BASES)];
    char reason[200];
    clattn_problem base;

    if (clattn_problem_parse(text, &base, reason, sizeof reason) != CLATTN_SUCCESS) {
        fprintf(stderr, "%s: %s\n", text, reason);
        abort();
    }
    return random_of(r, &base);
}
