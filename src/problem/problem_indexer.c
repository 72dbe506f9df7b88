/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of operation CLATTN_INDEXER: the functions that problem.c and problem_class.c call for
 * them. */
#include "base/log.h"
#include "base/sizes.h"
#include "problem/classes/class_size.h"
#include "problem/operations.h"
#include "problem/problem.h"
#include "problem/text/problem_words.h"

#include <math.h>

/* Sizes in a representative. */
enum { MOST_HEADS = 1024, MOST_ROWS = 1 << 20 };

size_t ca_indexer_blocks(const clattn_indexer_problem *p)
{
    return p->page_size ? p->pages : p->total_kv ? 1 : p->batch;
}

size_t ca_indexer_rows(const clattn_indexer_problem *p)
{
    return p->page_size ? p->page_size : p->total_kv ? p->total_kv : p->seq_kv;
}

size_t ca_indexer_table_pages(const clattn_indexer_problem *p)
{
    return p->page_size ? ca_divide_up(p->seq_kv, p->page_size) : 0;
}

const clattn_indexer_problem ca_indexer_initial = {
    .batch = 1, .heads = 1, .seq_q = 1, .seq_kv = 1, .dim = 1, .topk = 1};

struct ca_size_words ca_indexer_sizes(clattn_problem *p)
{
    return (struct ca_size_words){.dtype = &p->indexer.dtype,
                                  .b = &p->indexer.batch,
                                  .h = &p->indexer.heads,
                                  .q = &p->indexer.seq_q,
                                  .k = &p->indexer.seq_kv,
                                  .d = &p->indexer.dim,
                                  .page_size = &p->indexer.page_size,
                                  .pages = &p->indexer.pages};
}

const struct ca_layout_word ca_indexer_layouts[] = {
    {CA_INDEXER_Q, "q"},   {CA_INDEXER_K, "k"},   {CA_INDEXER_W, "w"}, {CA_INDEXER_DQ, "dq"},
    {CA_INDEXER_DK, "dk"}, {CA_INDEXER_DW, "dw"}, {0, NULL},
};

struct indexer_shape ca_indexer_shape(const clattn_indexer_problem *p)
{
    return (struct indexer_shape){
        .batch = (cl_long)p->batch,
        .seq_q = (cl_long)p->seq_q,
        .seq_kv = (cl_long)p->seq_kv,
        .total_q = (cl_long)p->total_q,
        .total_kv = (cl_long)p->total_kv,
        .topk = (cl_long)p->topk,
        .pages = (cl_long)p->pages,
        .diagonal = ca_diagonal(p->diagonal, p->diagonal_offset, p->seq_q, p->seq_kv),
        CA_INDEXER_OPERANDS(CA_SHAPE_STRIDES, )};
}

clattn_dtype ca_indexer_dtype(const clattn_problem *p, unsigned argument)
{
    return argument == CA_INDEXER_Q || argument == CA_INDEXER_K || argument == CA_INDEXER_DQ ||
                   argument == CA_INDEXER_DK
               ? p->indexer.dtype
               : CLATTN_F32;
}

clattn_status ca_indexer_check(const clattn_problem *problem, char *reason, size_t bytes)
{
    const clattn_indexer_problem *p = &problem->indexer;
    const struct ca_enum_value choices[] = {{"dtype", (int)p->dtype, CA_NUM_DTYPES - 1},
                                            {"diagonal", (int)p->diagonal, CLATTN_OFFSET}};
    const struct ca_size sizes[] = {
        {"batch", p->batch, 0},     {"heads", p->heads, 1},       {"seq_q", p->seq_q, 0},
        {"seq_kv", p->seq_kv, 0},   {"dim", p->dim, 1},           {"topk", p->topk, 1},
        {"total_q", p->total_q, 0}, {"total_kv", p->total_kv, 0}, {"page_size", p->page_size, 0},
    };
    const struct ca_rule rules[] = {
        {"topk exceeds 2^31 - 1", p->topk > INT32_MAX},
        {"seq_kv exceeds 2^31 - 1, the most that an entry of a list can say",
         p->seq_kv > INT32_MAX},
        {"diagonal is given, but the problem is not causal",
         !p->causal && (p->diagonal != CLATTN_TOP_LEFT || p->diagonal_offset != 0)},
        {"total_q exceeds 2^31 - 1, the most that q_starts can say", p->total_q > INT32_MAX},
        {"total_kv exceeds 2^31 - 1, the most that kv_starts can say", p->total_kv > INT32_MAX},
        {"total_q is given, but batch or seq_q is 0", p->total_q && !(p->batch && p->seq_q)},
        {"total_kv is given, but batch or seq_kv is 0", p->total_kv && !(p->batch && p->seq_kv)},
        {"page_size and total_kv exclude each other: keys lie in pages or follow each other",
         p->page_size && p->total_kv},
        {"gradients and scores exclude each other: scores are what an indexer without gradients "
         "writes",
         p->gradients && p->scores},
        {"gradients with respect to keys in pages are not computed", p->gradients && p->page_size},
    };
    clattn_status status = ca_check_members(choices, sizeof choices / sizeof *choices, sizes,
                                            sizeof sizes / sizeof *sizes, reason, bytes);

    if (status == CLATTN_SUCCESS)
        status = ca_check_pages(p->pages, p->page_size, reason, bytes);
    if (status == CLATTN_SUCCESS)
        status =
            ca_check_window(CLATTN_UNLIMITED, CLATTN_UNLIMITED,
                            p->diagonal == CLATTN_OFFSET ? p->diagonal_offset : 0, reason, bytes);
    return status == CLATTN_SUCCESS
               ? ca_keep_rules(rules, sizeof rules / sizeof *rules, reason, bytes)
               : status;
}

/* Two for each value of a visible pair and head; three products of each entry and head with gradients. */
double ca_indexer_flops(const clattn_problem *problem)
{
    const clattn_indexer_problem *p = &problem->indexer;
    const struct ca_visible visible = {
        .batch = p->batch,
        .heads = p->heads,
        .seq_q = p->seq_q,
        .seq_kv = p->seq_kv,
        .total_q = p->total_q,
        .total_kv = p->total_kv,
        .window_left = CLATTN_UNLIMITED,
        .window_right = p->causal ? 0 : CLATTN_UNLIMITED,
        .diagonal = ca_diagonal(p->diagonal, p->diagonal_offset, p->seq_q, p->seq_kv),
        .most = INFINITY};

    if (p->gradients)
        return 6.0 * (double)(p->total_q ? p->total_q : p->batch * p->seq_q) *
               (double)ca_smaller(p->topk, p->seq_kv) * (double)p->heads * (double)p->dim;
    return ca_visible_pairs(&visible) * 2.0 * (double)p->dim;
}

clattn_problem ca_indexer_representative(const clattn_problem *problem)
{
    const clattn_indexer_problem *p = &problem->indexer;
    const double rows = (double)(p->batch ? p->batch : 1) * (double)p->seq_q;
    clattn_problem made;
    clattn_indexer_problem *r = &made.indexer;

    clattn_problem_init_operation(&made, CLATTN_INDEXER);
    r->dtype = p->dtype;
    r->dim = p->dim;
    r->scores = p->scores != 0;
    r->gradients = p->gradients != 0;
    r->q_lengths = p->q_lengths != 0;
    r->kv_lengths = p->kv_lengths != 0;
    r->causal = p->causal != 0;
    r->diagonal =
        p->causal && p->diagonal == CLATTN_BOTTOM_RIGHT ? CLATTN_BOTTOM_RIGHT : CLATTN_TOP_LEFT;
    r->heads = ca_size_rounded(p->heads, MOST_HEADS);
    r->topk = ca_size_rounded(p->topk, MOST_ROWS);
    r->seq_q = ca_size_rounded(rows < MOST_ROWS ? (size_t)rows : MOST_ROWS, MOST_ROWS);
    r->seq_kv = ca_size_rounded(p->seq_kv, MOST_ROWS);
    for (;;) {
        r->page_size = p->page_size ? ca_size_rounded(p->page_size, MOST_ROWS) : 0;
        r->pages = r->page_size ? ca_divide_up(r->seq_kv, r->page_size) : 0;
        r->total_q = p->total_q ? r->seq_q : 0;
        r->total_kv = p->total_kv ? r->seq_kv : 0;
        r->q = ca_class_layout(&p->q, r->heads, r->seq_q, r->dim);
        r->k = ca_class_layout(&p->k, 1, ca_indexer_rows(r), r->dim);
        r->dq = r->gradients ? ca_class_layout(&p->dq, r->heads, r->seq_q, r->dim) : r->dq;
        r->dk = r->gradients ? ca_class_layout(&p->dk, 1, ca_indexer_rows(r), r->dim) : r->dk;
        if ((r->heads == 1 && r->seq_q <= 1 && r->seq_kv <= 1) ||
            clattn_problem_check(&made, NULL, 0) == CLATTN_SUCCESS)
            return made;
        ca_halve_largest(&r->seq_q, &r->seq_kv, &r->heads);
    }
}
