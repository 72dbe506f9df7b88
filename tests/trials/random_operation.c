/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/random_operation.h"

#include "bench/judge/values.h"
#include "tests/trials/random_layout.h"

clattn_problem random_merge(struct rng *r, const clattn_problem *base)
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

clattn_problem random_append(struct rng *r, const clattn_problem *base)
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
    return made;
}
