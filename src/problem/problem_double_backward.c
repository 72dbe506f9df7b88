/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of operation CLATTN_DOUBLE_BACKWARD: the functions that problem.c and problem_class.c call
 * for them. */
#include "base/log.h"
#include "base/sizes.h"
#include "problem/classes/class_size.h"
#include "problem/operations.h"
#include "problem/problem.h"
#include "problem/text/problem_words.h"

#include <math.h>
#include <string.h>

/* Sizes in a representative. */
enum { MOST_HEADS = 1024, MOST_ROWS = 1 << 20 };

const clattn_double_backward_problem ca_double_backward_initial = {.batch = 1,
                                                                   .heads = 1,
                                                                   .kv_heads = 1,
                                                                   .seq_q = 1,
                                                                   .seq_kv = 1,
                                                                   .dim_qk = 1,
                                                                   .dim_v = 1,
                                                                   .window_left = CLATTN_UNLIMITED,
                                                                   .window_right = CLATTN_UNLIMITED,
                                                                   .scale = NAN};

struct ca_size_words ca_double_backward_sizes(clattn_problem *p)
{
    return (struct ca_size_words){.dtype = &p->double_backward.dtype,
                                  .b = &p->double_backward.batch,
                                  .h = &p->double_backward.heads,
                                  .second_h = &p->double_backward.kv_heads,
                                  .q = &p->double_backward.seq_q,
                                  .k = &p->double_backward.seq_kv,
                                  .d = &p->double_backward.dim_qk,
                                  .second_d = &p->double_backward.dim_v};
}

const struct ca_layout_word ca_double_backward_layouts[] = {
    {CA_DOUBLE_BACKWARD_Q, "q"},     {CA_DOUBLE_BACKWARD_K, "k"},
    {CA_DOUBLE_BACKWARD_V, "v"},     {CA_DOUBLE_BACKWARD_GDO, "o"},
    {CA_DOUBLE_BACKWARD_DO, "do"},   {CA_DOUBLE_BACKWARD_GQ, "dq"},
    {CA_DOUBLE_BACKWARD_GK, "dk"},   {CA_DOUBLE_BACKWARD_GV, "dv"},
    {CA_DOUBLE_BACKWARD_GGQ, "ggq"}, {CA_DOUBLE_BACKWARD_GGK, "ggk"},
    {CA_DOUBLE_BACKWARD_GGV, "ggv"}, {0, NULL},
};

struct double_backward_shape ca_double_backward_shape(const clattn_double_backward_problem *p)
{
    return (struct double_backward_shape){
        .batch = (cl_long)p->batch,
        .heads = (cl_long)p->heads,
        .kv_heads = (cl_long)p->kv_heads,
        .seq_q = (cl_long)p->seq_q,
        .seq_kv = (cl_long)p->seq_kv,
        .diagonal = ca_diagonal(p->diagonal, p->diagonal_offset, p->seq_q, p->seq_kv),
        .window_left = p->window_left,
        .window_right = p->window_right,
        .group = (cl_int)(p->heads / p->kv_heads),
        .scale = p->scale,
        CA_DOUBLE_BACKWARD_OPERANDS(CA_SHAPE_STRIDES, )};
}

clattn_dtype ca_double_backward_dtype(const clattn_problem *p, unsigned argument)
{
    (void)argument; /* lengths are no floating-point numbers */
    return p->double_backward.dtype;
}

clattn_status ca_double_backward_check(const clattn_problem *problem, char *reason, size_t bytes)
{
    const clattn_double_backward_problem *p = &problem->double_backward;
    const struct ca_enum_value choices[] = {{"dtype", (int)p->dtype, CA_NUM_DTYPES - 1},
                                            {"diagonal", (int)p->diagonal, CLATTN_OFFSET}};
    const struct ca_size sizes[] = {
        {"batch", p->batch, 0}, {"heads", p->heads, 1},   {"kv_heads", p->kv_heads, 1},
        {"seq_q", p->seq_q, 0}, {"seq_kv", p->seq_kv, 0}, {"dim_qk", p->dim_qk, 1},
        {"dim_v", p->dim_v, 1},
    };
    const struct ca_rule rules[] = {
        {"scale must be finite, or NaN for the default", isinf(p->scale)},
        {"no_ggq, no_ggk and no_ggv exclude each other all three: nothing would be derived",
         p->no_ggq && p->no_ggk && p->no_ggv},
    };
    clattn_status status = ca_check_members(choices, sizeof choices / sizeof *choices, sizes,
                                            sizeof sizes / sizeof *sizes, reason, bytes);

    if (status == CLATTN_SUCCESS)
        status =
            ca_check_window(p->window_left, p->window_right,
                            p->diagonal == CLATTN_OFFSET ? p->diagonal_offset : 0, reason, bytes);
    if (status == CLATTN_SUCCESS)
        status = ca_check_groups(p->heads, p->kv_heads, reason, bytes);
    return status == CLATTN_SUCCESS
               ? ca_keep_rules(rules, sizeof rules / sizeof *rules, reason, bytes)
               : status;
}

void ca_double_backward_normal(clattn_double_backward_problem *p)
{
    if (isnan(p->scale))
        p->scale = (float)(1.0 / sqrt((double)p->dim_qk));
    if (p->causal)
        p->window_right = 0;
}

double ca_double_backward_flops(const clattn_problem *problem)
{
    const clattn_double_backward_problem *p = &problem->double_backward;
    const struct ca_visible visible = {
        .batch = p->batch,
        .heads = p->heads,
        .seq_q = p->seq_q,
        .seq_kv = p->seq_kv,
        .window_left = p->window_left,
        .window_right = p->causal ? 0 : p->window_right,
        .diagonal = ca_diagonal(p->diagonal, p->diagonal_offset, p->seq_q, p->seq_kv),
        .most = INFINITY};
    const double pairs = ca_visible_pairs(&visible);
    /* Products of pairs: S, two of t, four of gq and gk; dP, u, gv and two of gdo. */
    return pairs * (14.0 * (double)p->dim_qk + 10.0 * (double)p->dim_v);
}

/* A side of a window, rounded. */
static int64_t rounded_step(int64_t step)
{
    return step > 0 ? (int64_t)ca_size_rounded((size_t)step, MOST_ROWS) : step;
}

static void set_layouts(clattn_double_backward_problem *r, const clattn_double_backward_problem *p)
{
    r->q = ca_class_layout(&p->q, r->heads, r->seq_q, r->dim_qk);
    r->ggq = ca_class_layout(&p->ggq, r->heads, r->seq_q, r->dim_qk);
    r->gq = ca_class_layout(&p->gq, r->heads, r->seq_q, r->dim_qk);
    r->d_o = ca_class_layout(&p->d_o, r->heads, r->seq_q, r->dim_v);
    r->gdo = ca_class_layout(&p->gdo, r->heads, r->seq_q, r->dim_v);
    r->k = ca_class_layout(&p->k, r->kv_heads, r->seq_kv, r->dim_qk);
    r->ggk = ca_class_layout(&p->ggk, r->kv_heads, r->seq_kv, r->dim_qk);
    r->gk = ca_class_layout(&p->gk, r->kv_heads, r->seq_kv, r->dim_qk);
    r->v = ca_class_layout(&p->v, r->kv_heads, r->seq_kv, r->dim_v);
    r->ggv = ca_class_layout(&p->ggv, r->kv_heads, r->seq_kv, r->dim_v);
    r->gv = ca_class_layout(&p->gv, r->kv_heads, r->seq_kv, r->dim_v);
}

clattn_problem ca_double_backward_representative(const clattn_problem *problem)
{
    const clattn_double_backward_problem *p = &problem->double_backward;
    const size_t ratio = ca_size_rounded(p->heads / p->kv_heads, MOST_HEADS);
    clattn_problem made;
    clattn_double_backward_problem *r = &made.double_backward;

    clattn_problem_init_operation(&made, CLATTN_DOUBLE_BACKWARD);
    r->dtype = p->dtype;
    r->dim_qk = p->dim_qk;
    r->dim_v = p->dim_v;
    r->no_ggq = p->no_ggq != 0;
    r->no_ggk = p->no_ggk != 0;
    r->no_ggv = p->no_ggv != 0;
    r->q_lengths = p->q_lengths != 0;
    r->kv_lengths = p->kv_lengths != 0;
    r->causal = p->window_right == 0;
    r->window_left = rounded_step(p->window_left);
    r->window_right = r->causal ? CLATTN_UNLIMITED : rounded_step(p->window_right);
    r->diagonal = p->diagonal == CLATTN_BOTTOM_RIGHT ? CLATTN_BOTTOM_RIGHT : CLATTN_TOP_LEFT;
    r->heads =
        ca_size_rounded(ca_smaller(p->batch ? p->batch : 1, MOST_HEADS) * p->heads, MOST_HEADS);
    r->seq_q = ca_size_rounded(p->seq_q, MOST_ROWS);
    r->seq_kv = ca_size_rounded(p->seq_kv, MOST_ROWS);
    for (;;) {
        r->kv_heads = r->heads / ca_smaller(ratio, r->heads);
        set_layouts(r, p);
        if ((r->heads == 1 && r->seq_q == 1 && r->seq_kv == 1) ||
            clattn_problem_check(&made, NULL, 0) == CLATTN_SUCCESS)
            return made;
        ca_halve_largest(&r->seq_q, &r->seq_kv, &r->heads);
    }
}
