/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing results with right answers. */
#include "base/log.h"
#include "problem/layout.h"
#include "problem/operations.h"
#include "problem/problem.h"
#include "selfcheck/answer_row.h"
#include "selfcheck/case_parts.h"
#include "selfcheck/values.h"

#include <math.h>

/* The worst element so far. */
struct worst {
    double error; /* over its bound */
    const char *name;
    size_t index, last; /* its place: the row or key as it is counted, and d or j */
    size_t heads, seq;  /* by which it is counted */
    double got;
    struct ca_bounded want;
};

static double over_bound(double got, struct ca_bounded want)
{
    if (got == want.value || (isnan(got) && isnan(want.value)))
        return 0.0;
    const double error = fabs(got - want.value) / want.bound; /* infinite if the bound is 0 */
    return error < CA_TRUST_WORST ? error : CA_TRUST_WORST;   /* a NaN is as bad */
}

static void compare(struct worst *worst, const struct worst *place, size_t last, double got,
                    struct ca_bounded want)
{
    const double error = over_bound(got, want);

    if (error > worst->error) {
        *worst = *place;
        worst->error = error;
        worst->last = last;
        worst->got = got;
        worst->want = want;
    }
}

/* Elements (index, 0 .. count - 1) of a tensor whose rows are counted in that order. */
static void compare_vector(const struct ca_trust_case *c, unsigned argument, size_t index,
                           const struct ca_bounded *want, size_t count, struct worst *worst)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(&c->problem, tensors);
    const struct ca_tensor *t = &tensors[argument];
    const struct worst place = {
        .name = t->name, .index = index, .heads = t->sizes[1], .seq = t->sizes[2]};
    const size_t first = index / t->sizes[2] / t->sizes[1] * t->layout.stride[0] +
                         index / t->sizes[2] % t->sizes[1] * t->layout.stride[1] +
                         index % t->sizes[2] * t->layout.stride[2];
    for (size_t d = 0; d < count; d++)
        compare(worst, &place, d,
                ca_value_load(c->bytes[argument] + CA_TRUST_GUARD,
                              ca_problem_dtype(&c->problem, argument),
                              first + d * t->layout.stride[3]),
                want[d]);
}

static void compare_scores(const struct ca_trust_case *c, size_t row, struct worst *worst)
{
    const clattn_problem *p = &c->problem;
    const size_t index = c->rows[row];
    const struct worst place = {
        .name = "score", .index = index, .heads = p->heads, .seq = p->seq_q};

    for (size_t j = 0; j < p->seq_kv; j++) {
        const struct ca_bounded want = c->scores[row * p->seq_kv + j];
        /* Raw scores of hidden values may overflow f32. */
        if (!(fabs(want.value) < 1e20) && p->scores <= CLATTN_SCORES_SOFTCAP)
            continue;
        compare(
            worst, &place, j,
            ca_value_load(c->bytes[CA_SCORES] + CA_TRUST_GUARD, CLATTN_F32, index * p->seq_kv + j),
            want);
    }
}

/* A row that is counted (batch, head, query or key) as it is counted in a tensor, which differs in packed
 * batches; 0 if its sequence is shorter. */
static int packed_row(const struct ca_trust_case *c, unsigned starts, size_t index, size_t *row)
{
    const clattn_problem *p = &c->problem;
    const int queries = starts == CA_Q_STARTS;
    const size_t longest = queries ? p->seq_q : p->seq_kv, heads = queries ? p->heads : p->kv_heads;
    size_t block, place;

    *row = index;
    if (queries ? !p->total_q : !p->total_kv)
        return 1;
    const size_t b = index / longest / heads, h = index / longest % heads, i = index % longest;
    if (!(queries ? ca_trust_locate_query(c, b, i, &block, &place)
                  : ca_trust_locate_key(c, b, i, &block, &place)))
        return 0;
    *row = h * (queries ? p->total_q : p->total_kv) + place;
    return 1;
}

/* One of lse, of so many heads and rows. */
static void compare_lse(const struct ca_trust_case *c, unsigned argument, size_t index,
                        const size_t sizes[2], const struct ca_bounded *want, struct worst *worst)
{
    const struct worst place = {.name = "lse", .index = index, .heads = sizes[0], .seq = sizes[1]};

    compare(worst, &place, 0, ca_value_load(c->bytes[argument] + CA_TRUST_GUARD, CLATTN_F32, index),
            *want);
}

static void compare_projection(const struct ca_trust_case *c, size_t row, struct worst *worst)
{
    const size_t columns = c->problem.projection.y_dim;

    compare_vector(c, CA_PROJECTION_Y, c->rows[row], c->o + row * columns, columns, worst);
}

static void compare_merge(const struct ca_trust_case *c, size_t row, struct worst *worst)
{
    const clattn_merge_problem *p = &c->problem.merge;

    compare_vector(c, CA_MERGE_O, c->rows[row], c->o + row * p->dim, p->dim, worst);
    compare_lse(c, CA_MERGE_LSE, c->rows[row], (size_t[]){p->heads, p->seq_q}, &c->lse[row], worst);
}

static void compare_attention(const struct ca_trust_case *c, size_t row, struct worst *worst)
{
    const clattn_problem *p = &c->problem;
    size_t index;

    if (!packed_row(c, CA_Q_STARTS, c->rows[row], &index))
        return;
    compare_vector(c, CA_O, index, c->o + row * p->dim_v, p->dim_v, worst);
    if (p->lse)
        compare_lse(c, CA_LSE, index, (size_t[]){p->heads, ca_query_rows(p)}, &c->lse[row], worst);
    if (c->scores)
        compare_scores(c, row, worst);
}

static void compare_gradients(const struct ca_trust_case *c, struct worst *worst)
{
    const clattn_problem *p = &c->problem;
    const struct ca_gradients *g = c->gradients;

    for (size_t n = 0; n < c->num_rows; n++) {
        size_t row;
        if (!packed_row(c, CA_Q_STARTS, c->rows[n], &row))
            continue;
        compare_vector(c, CA_DQ, row, g->dq + n * p->dim_qk, p->dim_qk, worst);
        if (g->dbias)
            compare_vector(c, CA_DBIAS, c->rows[n], g->dbias + n * p->seq_kv, p->seq_kv, worst);
    }
    for (size_t n = 0; n < g->num_keys; n++) {
        size_t row;
        if (!packed_row(c, CA_KV_STARTS, g->keys[n], &row))
            continue;
        compare_vector(c, CA_DK, row, g->dk + n * p->dim_qk, p->dim_qk, worst);
        compare_vector(c, CA_DV, row, g->dv + n * p->dim_v, p->dim_v, worst);
    }
    if (g->dslopes)
        compare_vector(c, CA_DSLOPES, 0, g->dslopes, p->heads, worst);
    if (g->dsinks)
        compare_vector(c, CA_DSINKS, 0, g->dsinks, p->heads, worst);
}

static void describe(const struct worst *worst, char *text, size_t text_bytes)
{
    const size_t b = worst->index / worst->seq / worst->heads;
    const size_t h = worst->index / worst->seq % worst->heads, i = worst->index % worst->seq;

    if (isnan(worst->got))
        ca_reason(text, text_bytes, "%s(%zu, %zu, %zu, %zu) is NaN or was not written", worst->name,
                  b, h, i, worst->last);
    else
        ca_reason(text, text_bytes, "%s(%zu, %zu, %zu, %zu) is %.7g, should be %.7g within %.2g",
                  worst->name, b, h, i, worst->last, worst->got, worst->want.value,
                  worst->want.bound);
}

static int guards_intact(const unsigned char *bytes, size_t size)
{
    for (size_t n = 0; n < CA_TRUST_GUARD; n++)
        if (bytes[n] != CA_TRUST_FILL || bytes[size - 1 - n] != CA_TRUST_FILL)
            return 0;
    return 1;
}

/* Whether something was written between the elements. */
static int gaps_intact(const struct ca_trust_case *c, unsigned argument, const struct ca_tensor *t)
{
    const unsigned char *bytes = c->bytes[argument] + CA_TRUST_GUARD;
    const size_t count = (c->sizes[argument] - 2 * CA_TRUST_GUARD) / t->element_bytes;

    for (size_t n = 0; n < count; n++)
        if (bytes[n * t->element_bytes] != CA_TRUST_FILL &&
            !ca_layout_holds(&t->layout, t->sizes, n))
            return 0;
    return 1;
}

/* No result is a NaN, as no visible number is one; an element that was not written is. Scores that
 * show what is hidden are left out. */
static int find_nan(const struct ca_trust_case *c, unsigned argument, const struct ca_tensor *t,
                    char *text, size_t text_bytes)
{
    const clattn_dtype dtype = ca_problem_dtype(&c->problem, argument);

    if (c->problem.total_q > c->problem.batch * c->problem.seq_q ||
        c->problem.total_kv > c->problem.batch * c->problem.seq_kv)
        return 0; /* rows of no sequence keep what they hold */
    for (size_t b = 0; b < t->sizes[0]; b++)
        for (size_t h = 0; h < t->sizes[1]; h++)
            for (size_t s = 0; s < t->sizes[2]; s++) {
                const size_t first =
                    b * t->layout.stride[0] + h * t->layout.stride[1] + s * t->layout.stride[2];
                const size_t d = ca_values_find_nan(c->bytes[argument] + CA_TRUST_GUARD, dtype,
                                                    first, t->layout.stride[3], t->sizes[3]);
                if (d < t->sizes[3]) {
                    ca_reason(text, text_bytes, "%s(%zu, %zu, %zu, %zu) is NaN or was not written",
                              t->name, b, h, s, d);
                    return 1;
                }
            }
    return 0;
}

const char *ca_trust_case_judge(const struct ca_trust_case *c, double *error, char *text,
                                size_t text_bytes)
{
    const int shows_hidden =
        c->problem.scores == CLATTN_SCORES_RAW || c->problem.scores == CLATTN_SCORES_SOFTCAP;
    struct ca_tensor tensors[CA_WORKSPACE];
    struct worst worst = {.error = 0.0};

    if (c->problem.operation == CLATTN_APPEND)
        return ca_append_case_judge(c, error, text, text_bytes);
    if (c->gradients)
        compare_gradients(c, &worst);
    for (size_t row = 0; !c->gradients && row < c->num_rows; row++) {
        if (c->problem.operation == CLATTN_PROJECTION)
            compare_projection(c, row, &worst);
        else if (c->problem.operation == CLATTN_MERGE)
            compare_merge(c, row, &worst);
        else
            compare_attention(c, row, &worst);
    }
    *error = worst.error;
    ca_problem_tensors(&c->problem, tensors);
    for (unsigned out = 0; out < CA_WORKSPACE; out++) {
        if (tensors[out].written && c->bytes[out] &&
            (!guards_intact(c->bytes[out], c->sizes[out]) ||
             (c->hostile && !gaps_intact(c, out, &tensors[out])))) {
            ca_reason(text, text_bytes, "it writes outside of its output %s", tensors[out].name);
            return text;
        }
    }
    if (worst.error > 1.0) {
        describe(&worst, text, text_bytes);
        return text;
    }
    if (!ca_is_attention(&c->problem) && c->hostile)
        return NULL; /* every element was judged, and some are NaN */
    for (unsigned out = 0; out < CA_WORKSPACE; out++) {
        if (tensors[out].written && c->bytes[out] && !(out == CA_SCORES && shows_hidden) &&
            find_nan(c, out, &tensors[out], text, text_bytes))
            return text;
    }
    return NULL;
}
