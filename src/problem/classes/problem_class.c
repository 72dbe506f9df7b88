/* SPDX-License-Identifier: Apache-2.0 */
#include "problem/classes/problem_class.h"
#include "base/log.h"
#include "base/sizes.h"
#include "base/text.h"
#include "problem/chosen_keys.h"
#include "problem/classes/class_size.h"
#include "problem/layout.h"
#include "problem/operations.h"
#include "problem/problem.h"
#include "problem/tensors.h"
#include "problem/text/problem_words.h"
#include <clattn/problem.h>

enum { MOST_HEADS = 128, MOST_SEQ = 65536 };

/* Rounds a window's side. 0 is a class of its own, and a window beyond all keys ends there. */
static int64_t rounded_side(int64_t side, size_t seq_kv)
{
    if (side == CLATTN_UNLIMITED || side == 0)
        return side;
    return (int64_t)ca_size_rounded((size_t)side, seq_kv);
}

static int is_unit(const clattn_layout *layout, size_t dim)
{
    return layout->stride[3] == 1 || dim == 1;
}

/* The packed layout; or, if not unit, one whose innermost axis is not dim, so that dim's stride is not 1. */
static clattn_layout simple_layout(int unit, const size_t sizes[4])
{
    clattn_layout layout = {{0}};

    if (unit)
        return layout;
    if (sizes[2] > 1)
        ca_layout_pack("bhds", sizes, &layout);
    else if (sizes[1] > 1)
        ca_layout_pack("bsdh", sizes, &layout);
    else
        layout.stride[3] = 2; /* one row */
    return layout;
}

/* Returns whether the positions of queries among the keys matter. */
static int has_positions(const clattn_problem *p)
{
    return p->causal || p->alibi || p->window_left != CLATTN_UNLIMITED ||
           p->window_right != CLATTN_UNLIMITED;
}

/* All diagonals become the bottom-right one, which caches of keys have too. One that must not
 * follow the lengths, which costs the kernels' source a few lines, becomes an offset. */
static void set_diagonal(clattn_problem *r, const clattn_problem *p)
{
    const int lengths = p->q_lengths || p->kv_lengths;

    r->diagonal = CLATTN_TOP_LEFT;
    r->diagonal_offset = 0;
    if (lengths ? p->diagonal == CLATTN_BOTTOM_RIGHT : has_positions(r)) {
        r->diagonal = CLATTN_BOTTOM_RIGHT;
    } else if (has_positions(r)) {
        r->diagonal = CLATTN_OFFSET;
        r->diagonal_offset = (int64_t)r->seq_kv - (int64_t)r->seq_q;
    }
}

static void set_gradient_layouts(clattn_problem *r, const clattn_problem *p)
{
    const size_t queries[4] = {1, r->heads, r->seq_q, r->dim_qk};
    const size_t keys[4] = {1, r->kv_heads, r->seq_kv, r->dim_qk};
    const size_t values[4] = {1, r->kv_heads, r->seq_kv, r->dim_v};
    const size_t outputs[4] = {1, r->heads, r->seq_q, r->dim_v};

    r->d_o = simple_layout(is_unit(&p->d_o, p->dim_v), outputs);
    r->dq = simple_layout(is_unit(&p->dq, p->dim_qk), queries);
    r->dk = simple_layout(is_unit(&p->dk, p->dim_qk), keys);
    r->dv = simple_layout(is_unit(&p->dv, p->dim_v), values);
}

/* The share of p's blocks that may be listed, rounded to a power of two, of r's blocks. */
static size_t rounded_blocks(const clattn_problem *r, const clattn_problem *p)
{
    double all = (double)ca_block_rows(p) * (double)ca_block_columns(p);
    double blocks = (double)ca_block_rows(r) * (double)ca_block_columns(r);

    for (; all >= 1.5 * (double)p->max_blocks && blocks >= 2.0; all /= 2.0)
        blocks /= 2.0;
    return blocks < 1.0 ? 1 : blocks > (double)INT32_MAX ? INT32_MAX : (size_t)blocks;
}

/* Everything that depends on r's sizes; p is normal. */
static void set_layouts(clattn_problem *r, const clattn_problem *p)
{
    char letters[5];

    r->mask_keys = ca_smaller(r->mask_keys, r->seq_kv);
    r->window_left = rounded_side(p->window_left, r->seq_kv);
    r->window_right = r->causal ? CLATTN_UNLIMITED : rounded_side(p->window_right, r->seq_kv);
    set_diagonal(r, p);
    r->pages = ca_table_pages(r) ? ca_table_pages(r) : r->page_size != 0;
    r->total_q = p->total_q ? r->seq_q : 0; /* the one sequence of the one batch */
    r->total_kv = p->total_kv ? r->seq_kv : 0;
    const size_t keys[4] = {ca_cache_batch(r), r->kv_heads, ca_cache_rows(r), 1};
    r->q = simple_layout(is_unit(&p->q, p->dim_qk), (size_t[]){1, r->heads, r->seq_q, r->dim_qk});
    r->k = simple_layout(is_unit(&p->k, p->dim_qk),
                         (size_t[]){ca_cache_batch(r), r->kv_heads, ca_cache_rows(r), r->dim_qk});
    r->v = simple_layout(is_unit(&p->v, p->dim_v),
                         (size_t[]){ca_cache_batch(r), r->kv_heads, ca_cache_rows(r), r->dim_v});
    r->o = simple_layout(is_unit(&p->o, p->dim_v), (size_t[]){1, r->heads, r->seq_q, r->dim_v});
    if (p->operation == CLATTN_BACKWARD)
        set_gradient_layouts(r, p);
    if (p->bias)
        ca_spanning_layout(r, r->seq_kv, 15, letters, &r->bias_layout);
    if (p->mask)
        ca_spanning_layout(r, ca_mask_keys(r), 15, letters, &r->mask_layout);
    if (p->k_scales)
        ca_layout_spread(7, keys, &r->k_scales_layout);
    if (p->v_scales)
        ca_layout_spread(7, keys, &r->v_scales_layout);
    if (p->block_q)
        r->max_blocks = rounded_blocks(r, p);
}

clattn_problem ca_problem_representative(const clattn_problem *normal)
{
    static clattn_problem (*const of[])(const clattn_problem *) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = ca_##name##_representative,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    return of[normal->operation](normal);
}

clattn_problem ca_attention_representative(const clattn_problem *p)
{
    struct ca_chosen_keys chosen;
    clattn_problem r;

    if (ca_has_chosen_keys(p)) { /* the problem without lists is the one that is tuned */
        ca_chosen_keys(p, &chosen);
        p = &chosen.problem;
    }
    clattn_problem_init(&r);
    r.operation = p->operation;
    r.dtype = p->dtype;
    r.dim_qk = p->dim_qk;
    r.dim_v = p->dim_v;
    r.k_cache = p->k_cache;
    r.v_cache = p->v_cache;
    r.page_size = p->page_size ? ca_size_rounded(p->page_size, MOST_SEQ) : 0;
    r.softcap = p->softcap > 0.0f ? 30.0f : 0.0f;
    r.causal = p->window_right == 0;
    r.bias = p->bias != 0;
    r.bias_dtype = p->bias ? p->bias_dtype : CLATTN_F32;
    r.mask = p->mask != 0;
#define FLAG(ID, member, word, OF, difference) r.member = p->member != 0;
    CA_FLAGS(FLAG)
#undef FLAG
    r.key_sums = 0; /* a program of its own writes these sums, and means (ca_problem_chosen()) */
    r.block_q = p->block_q;
    r.block_kv = p->block_kv;
    r.block_heads = p->block_batches || p->block_heads;
    r.mask_keys = p->mask_keys ? ca_size_rounded(p->mask_keys, MOST_SEQ) : 0;
    r.scores = p->scores == CLATTN_SCORES_MEAN ? CLATTN_SCORES_NONE : p->scores;
    r.score_function = p->score_function;
    r.mask_function = p->mask_function;
    r.dropout = p->dropout > 0.0f ? 0.125f : 0.0f;
    r.seq_q = ca_size_rounded(p->seq_q, MOST_SEQ);
    r.seq_kv = ca_size_rounded(p->seq_kv, MOST_SEQ);
    r.heads =
        ca_size_rounded(ca_smaller(p->batch ? p->batch : 1, MOST_HEADS) * p->heads, MOST_HEADS);
    const size_t ratio = ca_size_rounded(p->heads / p->kv_heads, MOST_HEADS);
    for (;;) {
        r.kv_heads = r.heads / ca_smaller(ratio, r.heads);
        set_layouts(&r, p);
        if (clattn_problem_check(&r, NULL, 0) == CLATTN_SUCCESS)
            return r;
        /* Rounding up took dims of a huge problem past the limits of indexing. It ends: with all
         * three at 1 no tensor is longer than a row of the problem's own. */
        size_t *largest = r.seq_q > r.seq_kv ? &r.seq_q : &r.seq_kv;
        largest = *largest > r.heads ? largest : &r.heads;
        *largest /= 2;
    }
}

clattn_status clattn_problem_class(const clattn_problem *problem, char *text, size_t text_bytes,
                                   size_t *needed)
{
    if (!ca_text_begin(text, text_bytes, needed))
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "text is null, but text_bytes is %zu",
                         text_bytes);
    struct ca_problem made;
    const clattn_status status = ca_problem_make(problem, &made, NULL, 0);
    if (status != CLATTN_SUCCESS)
        return status;
    const clattn_problem r = ca_problem_representative(&made.normal);
    return clattn_problem_print(&r, text, text_bytes, needed);
}

int ca_class_read(const char *text, struct ca_problem *representative)
{
    clattn_problem read;

    if (clattn_problem_parse(text, &read, NULL, 0) != CLATTN_SUCCESS)
        return 0;
    const struct ca_problem given = ca_problem_own(&read);
    const clattn_problem rounded = ca_problem_representative(&given.normal);
    *representative = ca_problem_own(&rounded);
    return 1;
}

void ca_problem_class(const clattn_problem *normal, char text[CA_CLASS_TEXT])
{
    const clattn_problem r = ca_problem_representative(normal);

    clattn_problem_print(&r, text, CA_CLASS_TEXT, NULL);
}
