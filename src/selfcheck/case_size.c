/* SPDX-License-Identifier: Apache-2.0 */
/* The size of the hostile case of attention. A program knows its dims, so the case has the same;
 * rows, keys, heads and batches shrink until data, answers and workspace fit a memory limit, on
 * host and device, and the products a time limit. */
#include "base/log.h"
#include "families/candidate.h"
#include "families/family.h"
#include "problem/layout.h"
#include "problem/operations.h"
#include "selfcheck/case_parts.h"

#include <math.h>

enum { MOST_BYTES = 64 << 20, MOST_PRODUCTS = 1 << 28 };

/* The first is more than one tile of every family, and ragged in each dimension. */
static const struct {
    size_t batch, heads, seq_q, seq_kv;
} sizes[] = {{2, 2, 67, 149}, {1, 2, 37, 83}, {1, 1, 19, 41}, {1, 1, 5, 11}, {1, 1, 2, 3}};
enum { NUM_SIZES = sizeof sizes / sizeof *sizes };

/* Packed, but with the real one's kind of innermost stride: 1 or not. */
static clattn_layout keep_unit(const clattn_layout *real, size_t heads, size_t seq, size_t dim)
{
    const size_t step = real->stride[3] == 1 || dim == 1 ? 1 : 2;
    const clattn_layout layout = {{heads * seq * dim * step, seq * dim * step, dim * step, step}};

    return layout;
}

static void keep_units(const clattn_problem *real, clattn_problem *p)
{
    p->q = keep_unit(&real->q, p->heads, ca_query_rows(p), p->dim_qk);
    p->k = keep_unit(&real->k, p->kv_heads, ca_cache_rows(p), p->dim_qk);
    p->v = keep_unit(&real->v, p->kv_heads, ca_cache_rows(p), p->dim_v);
    p->o = keep_unit(&real->o, p->heads, ca_query_rows(p), p->dim_v);
    p->d_o = keep_unit(&real->d_o, p->heads, ca_query_rows(p), p->dim_v);
    p->dq = keep_unit(&real->dq, p->heads, ca_query_rows(p), p->dim_qk);
    p->dk = keep_unit(&real->dk, p->kv_heads, ca_cache_rows(p), p->dim_qk);
    p->dv = keep_unit(&real->dv, p->kv_heads, ca_cache_rows(p), p->dim_v);
}

/* The problem in size n of the list. */
static clattn_problem shrink(const clattn_problem *real, size_t n)
{
    const size_t spare = sizes[n].seq_kv - sizes[n].seq_q;
    clattn_problem p = *real;

    p.batch = sizes[n].batch;
    p.heads = sizes[n].heads;
    p.kv_heads = real->heads == real->kv_heads ? p.heads : 1;
    p.seq_q = sizes[n].seq_q;
    p.seq_kv = sizes[n].seq_kv;
    p.scale = (float)(1.0 / sqrt((double)p.dim_qk));
    if (p.softcap > 0.0f)
        p.softcap = 3.0f;
    if (p.dropout > 0.0f)
        p.dropout = 0.375f;
    /* a diagonal of 0 would hide that a kernel ignores it */
    if (p.diagonal != CLATTN_BOTTOM_RIGHT) {
        p.diagonal = CLATTN_OFFSET;
        p.diagonal_offset = spare > 5 ? (int64_t)spare - 5 : 0;
    }
    if (p.window_left != CLATTN_UNLIMITED)
        p.window_left = (int64_t)(p.seq_kv * 40 / 149);
    if (p.window_right != CLATTN_UNLIMITED)
        p.window_right = p.causal ? 0 : (int64_t)(p.seq_kv * 30 / 149);
    ca_layout_spread(15, (size_t[]){p.batch, p.heads, p.seq_q, p.seq_kv}, &p.bias_layout);
    if (p.block_q)
        p.max_blocks = ca_block_rows(&p) * ca_block_columns(&p);
    if (p.topk) /* some entries are no keys */
        p.topk = p.seq_kv / 2 + 3;
    if (p.mask_keys) /* the hidden key has a column */
        p.mask_keys = p.seq_kv - p.seq_kv / 3;
    ca_layout_spread(15, (size_t[]){p.batch, p.heads, p.seq_q, ca_mask_keys(&p)}, &p.mask_layout);
    if (p.whole_q) { /* whose operands have steps of their own */
        p.whole_batch = p.batch + 1;
        p.whole_heads = p.heads + 2 * (p.heads / p.kv_heads);
        p.whole_q = p.seq_q + 3;
        p.whole_kv = p.seq_kv + 5;
    }
    if (p.page_size) /* one page more than needed, for entries that must not be read */
        p.pages = p.batch * ca_table_pages(&p) + 1;
    if (p.total_q) /* the last sequence is shorter */
        p.total_q = p.batch * p.seq_q - p.seq_q / 3;
    if (p.total_kv)
        p.total_kv = p.batch * p.seq_kv - p.seq_q / 3;
    const size_t keys[4] = {ca_cache_batch(&p), p.kv_heads, ca_cache_rows(&p), 1};
    ca_layout_spread(7, keys, &p.k_scales_layout);
    ca_layout_spread(7, keys, &p.v_scales_layout);
    keep_units(real, &p);
    return p;
}

/* Bytes of a case: at most all elements are judged, each in double precision with a bound. */
static double bytes_of(const clattn_problem *p)
{
    const size_t rows = p->batch * p->heads * p->seq_q, keys = p->batch * p->kv_heads * p->seq_kv;
    const double dims = (double)p->dim_qk + (double)p->dim_v;
    const int backward = p->operation == CLATTN_BACKWARD;
    const size_t judged = ca_trust_judged(p, rows) + (backward ? ca_trust_judged(p, keys) : 0);
    size_t blocks[CA_WORKSPACE];
    double bytes = ((double)judged * sizeof(struct ca_bounded) + 8.0 * sizeof(double)) * dims;

    ca_trust_case_sizes(p, blocks);
    for (size_t n = 0; n < CA_WORKSPACE; n++)
        bytes += 2.0 * (double)blocks[n];
    return bytes;
}

static double products_of(const clattn_problem *p)
{
    return (double)(p->batch * p->heads * p->seq_q * p->seq_kv) *
           ((double)p->dim_qk + (double)p->dim_v);
}

static double workspace_of(const clattn_problem *p, const struct ca_candidate *candidate)
{
    if (!candidate || !candidate->family->workspace_bytes)
        return 0.0;
    const struct ca_problem own = ca_problem_own(p);
    return (double)candidate->family->workspace_bytes(&own, candidate->values);
}

clattn_problem ca_trust_shrink(const clattn_problem *real, const struct ca_candidate *candidate)
{
    clattn_problem p = shrink(real, 0);

    for (size_t n = 1; n < NUM_SIZES && (products_of(&p) > MOST_PRODUCTS ||
                                         bytes_of(&p) + workspace_of(&p, candidate) > MOST_BYTES);
         n++)
        p = shrink(real, n);
    return p;
}

int ca_trust_refuses(const clattn_problem *real, char *reason, size_t reason_bytes)
{
    if (!ca_is_attention(real))
        return 0; /* their programs know no dims */
    const clattn_problem least = shrink(real, NUM_SIZES - 1);
    const double bytes = bytes_of(&least);
    if (bytes <= MOST_BYTES)
        return 0;
    ca_reason(
        reason, reason_bytes,
        "dim_qk is %zu and dim_v %zu, but the self-check of a program, which has them too, may "
        "take %d MiB, not the %.0f MiB that these need",
        real->dim_qk, real->dim_v, MOST_BYTES >> 20, ceil(bytes / 1048576.0));
    return 1;
}
