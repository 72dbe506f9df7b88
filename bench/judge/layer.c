/* SPDX-License-Identifier: Apache-2.0 */
/* Errors are carried along from step to step (bounded.c). u = 2^-24.
 *
 * Score       as score.c derives it, from the errors that q and k have.
 * Softmax     as row.c derives it: exp(s - m) is off by slack = expm1(e + (8 + 3 |s - m|) u) of itself,
 *             the quotient by slack, by the mean slack of the row, and by 2 gather.
 * Backward    computes p = exp(s - lse) anew from q, k and lse as they were stored. */
#include "bench/judge/layer.h"
#include "bench/judge/dropout.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static const double u = 0x1p-24;

/* ---- the layer ------------------------------------------------------------------------------- */

/* What the keys of a query have. */
struct row {
    unsigned char *seen;
    struct bounded *s, *slope; /* score; derivative of softcap */
    struct bounded *p;         /* as forward computes it */
    double *factor;            /* dropout's */
    double max;
    struct bounded lse;
    int nothing;
};

struct pass {
    const clattn_multihead *layer;
    const clattn_problem *p;
    const struct layer_inputs *in;
    struct layer_outputs *out;
    struct bounded *made[4]; /* q, k, v as rows of columns, and y */
    struct bounded *gradient[4];
    struct bounded *o, *d_o, *lse;
    struct reference reference;       /* Of what is stored: mask, lengths. */
    struct bounded_sum *dq, *dk, *dv; /* Sums over queries: of dk and dv for each kv head. */
    struct bounded_sum *dbias, *dslopes, *dsinks;
    struct row row;
    void *room[40]; /* All that is allocated but for the results. */
    size_t rooms;
    bool failed; /* There was no memory. */
};

/* Zeros that belong to the pass. */
static void *allocate(struct pass *pass, const size_t elements, const size_t bytes)
{
    void *room = calloc(elements + 1, bytes);

    pass->failed = pass->failed || room == NULL;
    pass->room[pass->rooms++] = room;
    return room;
}

static double input(const struct pass *pass, const enum layer_tensor id, const size_t n)
{
    return layer_input(pass->layer, pass->in, id, n);
}

/* The row of x's order that batch b and position s have. */
static size_t row_of(const struct pass *pass, const size_t b, const size_t s, const size_t seq)
{
    return layer_row(pass->layer, b, s, seq);
}

/* What part n reads: the merged heads if it is the output. */
static struct bounded source_of(const struct pass *pass, const struct layer_part *part, const int n,
                                const size_t at)
{
    return n == 3 ? pass->o[at] : bounded_exactly(input(pass, part->source, at));
}

static void project(struct pass *pass, const int n)
{
    const struct layer_part part = layer_part_of(pass->layer, n);
    const int biased = layer_elements(pass->layer, part.b) > 0;

    for (size_t r = 0; r < part.rows; r++)
        for (size_t c = 0; c < part.columns; c++) {
            struct bounded_sum sum = {0};
            for (size_t m = 0; m < part.inputs; m++)
                bounded_add(&sum, source_of(pass, &part, n, r * part.inputs + m),
                            bounded_exactly(
                                input(pass, part.w, layer_weight_at(pass->layer, &part, m, c))));
            if (biased)
                bounded_add(&sum, bounded_exactly(input(pass, part.b, part.first + c)),
                            bounded_exactly(1.0));
            pass->made[n][r * part.columns + c] =
                bounded_stored(pass->p->dtype, bounded_total(&sum));
        }
}

/* Whether this part is the last that adds to its source's gradient in one product. */
static int ends_product(const clattn_multihead *layer, const int n)
{
    if (!layer->packed || n == 3)
        return 1;
    return n == 2 || layer_part_of(layer, n + 1).source != layer_part_of(layer, n).source;
}

static void project_backward(struct pass *pass, const int n, struct bounded *dsource)
{
    const clattn_multihead *layer = pass->layer;
    const clattn_dtype dtype = pass->p->dtype;
    const struct layer_part part = layer_part_of(layer, n);
    const struct bounded *dy = pass->gradient[n];
    struct bounded *dw = pass->out->at[part.w - LAYER_W_Q + LAYER_DW_Q];
    struct bounded *db = pass->out->at[part.b - LAYER_B_Q + LAYER_DB_Q];

    for (size_t c = 0; c < part.columns; c++) {
        struct bounded_sum bias = {0};
        for (size_t r = 0; r < part.rows; r++)
            bounded_add(&bias, dy[r * part.columns + c], bounded_exactly(1.0));
        if (db)
            db[part.first + c] = bounded_stored(dtype, bounded_total(&bias));
        for (size_t m = 0; m < part.inputs; m++) {
            struct bounded_sum sum = {0};
            for (size_t r = 0; r < part.rows; r++)
                bounded_add(&sum, source_of(pass, &part, n, r * part.inputs + m),
                            dy[r * part.columns + c]);
            dw[layer_weight_at(layer, &part, m, c)] = bounded_stored(dtype, bounded_total(&sum));
        }
    }
    for (size_t r = 0; r < part.rows; r++)
        for (size_t m = 0; m < part.inputs; m++) {
            struct bounded *dx = &dsource[r * part.inputs + m];
            struct bounded_sum sum = {0};
            bounded_add(&sum, *dx, bounded_exactly(1.0));
            for (size_t c = 0; c < part.columns; c++)
                bounded_add(
                    &sum, dy[r * part.columns + c],
                    bounded_exactly(input(pass, part.w, layer_weight_at(layer, &part, m, c))));
            *dx = bounded_total(&sum);
            if (ends_product(layer, n))
                *dx = bounded_stored(dtype, *dx);
        }
}

/* ---- attention, one query at a time ---------------------------------------------------------- */

static size_t q_at(const struct pass *pass, const size_t b, const size_t h, const size_t i)
{
    const clattn_problem *p = pass->p;

    return (row_of(pass, b, i, p->seq_q) * p->heads + h) * p->dim_qk;
}

static size_t k_at(const struct pass *pass, const size_t b, const size_t h, const size_t j)
{
    const clattn_problem *p = pass->p;

    return (row_of(pass, b, j, p->seq_kv) * p->kv_heads + h / (p->heads / p->kv_heads)) * p->dim_qk;
}

static size_t v_at(const struct pass *pass, const size_t b, const size_t h, const size_t j)
{
    return k_at(pass, b, h, j) / pass->p->dim_qk * pass->p->dim_v;
}

static size_t o_at(const struct pass *pass, const size_t b, const size_t h, const size_t i)
{
    return q_at(pass, b, h, i) / pass->p->dim_qk * pass->p->dim_v;
}

static size_t bias_at(const struct pass *pass, const size_t b, const size_t h, const size_t i,
                      const size_t j)
{
    const size_t *stride = pass->p->bias_layout.stride;

    return b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3];
}

static void score(const struct pass *pass, const size_t b, const size_t h, const size_t i,
                  const size_t j, struct row *row)
{
    const clattn_problem *p = pass->p;
    const double scale = pass->reference.scale;
    const struct query query = reference_query(&pass->reference, b, h, i);
    const double bias = p->bias ? input(pass, LAYER_BIAS, bias_at(pass, b, h, i, j)) : 0.0;
    const double alibi =
        p->alibi ? input(pass, LAYER_SLOPES, h) * reference_distance(&pass->reference, &query, j)
                 : 0.0;
    struct bounded_sum dot = {0};

    for (size_t d = 0; d < p->dim_qk; d++)
        bounded_add(&dot, pass->made[0][q_at(pass, b, h, i) + d],
                    pass->made[1][k_at(pass, b, h, j) + d]);
    const struct bounded total = bounded_total(&dot);
    struct score score = {
        .raw = {scale * total.value, fabs(scale) * (total.bound + 4 * u * dot.magnitude)}};
    reference_score_add(&pass->reference, bias, alibi, &score);
    row->slope[j] = score.slope;
    row->s[j] = score.s;
}

static int sees(const struct pass *pass, const size_t b, const size_t h, const size_t i,
                const size_t j)
{
    const struct query query = reference_query(&pass->reference, b, h, i);

    if (pass->p->bias && input(pass, LAYER_BIAS, bias_at(pass, b, h, i, j)) == -INFINITY)
        return 0;
    return reference_sees(&pass->reference, &query, j);
}

/* exp(s - m) and its relative error. */
static double power(const struct bounded s, const double max, double *slack)
{
    *slack = expm1(s.bound + (8 + 3 * fabs(s.value - max) + 2 * fabs(s.value)) * u);
    return exp(s.value - max);
}

static void look(const struct pass *pass, const size_t b, const size_t h, const size_t i,
                 struct row *row)
{
    const clattn_problem *p = pass->p;
    const struct bounded sink = bounded_exactly(p->sinks ? input(pass, LAYER_SINKS, h) : -INFINITY);
    double denominator = 0.0, mean_slack = 0.0, slack;
    size_t count = 0;

    row->max = sink.value;
    for (size_t j = 0; j < p->seq_kv; j++) {
        row->p[j] = bounded_exactly(0.0);
        row->factor[j] = 0.0;
        row->seen[j] = (unsigned char)sees(pass, b, h, i, j);
        if (!row->seen[j])
            continue;
        score(pass, b, h, i, j, row);
        row->factor[j] = reference_dropout_factor(p, &pass->in->options, b, h, i, j);
        row->max = fmax(row->max, row->s[j].value);
        count++;
    }
    row->nothing = count == 0;
    row->lse = bounded_exactly(-INFINITY);
    if (row->nothing)
        return;
    const double gather = (double)(2 * count + 16) * u;
    if (p->sinks) {
        denominator += power(sink, row->max, &slack);
        mean_slack += denominator * slack;
    }
    for (size_t j = 0; j < p->seq_kv; j++) {
        if (!row->seen[j])
            continue;
        row->p[j].value = power(row->s[j], row->max, &slack);
        row->p[j].bound = slack;
        denominator += row->p[j].value;
        mean_slack += row->p[j].value * slack;
    }
    mean_slack /= denominator;
    for (size_t j = 0; j < p->seq_kv; j++) {
        row->p[j].value /= denominator;
        row->p[j].bound =
            row->p[j].value * (row->p[j].bound + mean_slack + 2 * gather) + 2 * FLT_MIN;
    }
    row->lse.value = row->max + log(denominator);
    row->lse.bound = mean_slack + gather + 8 * u * (1 + fabs(row->max) + fabs(row->lse.value));
}

static struct bounded dropped(const struct bounded p, const double factor)
{
    return bounded_times((struct bounded){factor, 2 * u * factor}, p);
}

static void attend(struct pass *pass, const size_t b, const size_t h, const size_t i,
                   const struct row *row)
{
    const clattn_problem *p = pass->p;
    const struct arithmetic *a = &pass->reference.arithmetic;
    struct bounded *weights = pass->out->at[LAYER_WEIGHTS];

    for (size_t d = 0; d < p->dim_v; d++) {
        struct bounded_sum sum = {0};
        for (size_t j = 0; j < p->seq_kv; j++)
            if (row->seen[j])
                bounded_add(&sum, arithmetic_operand(a, dropped(row->p[j], row->factor[j])),
                            pass->made[2][v_at(pass, b, h, j) + d]);
        pass->o[o_at(pass, b, h, i) + d] =
            row->nothing ? bounded_exactly(0.0) : bounded_stored(p->dtype, bounded_total(&sum));
    }
    for (size_t j = 0; weights && j < p->seq_kv; j++) {
        if (pass->layer->weights == CLATTN_WEIGHTS_HEADS) {
            weights[((b * p->heads + h) * p->seq_q + i) * p->seq_kv + j] = row->p[j];
            continue;
        }
        struct bounded *mean = &weights[(b * p->seq_q + i) * p->seq_kv + j];
        const double share = 1.0 / (double)p->heads;
        mean->value += row->p[j].value * share;
        mean->bound += row->p[j].bound * share +
                       (double)(p->heads + 4) * u * row->p[j].value * share + FLT_MIN;
    }
}

static void attend_backward(struct pass *pass, const size_t b, const size_t h, const size_t i,
                            const struct row *row)
{
    const clattn_problem *p = pass->p;
    const struct arithmetic *a = &pass->reference.arithmetic;
    const double scale = pass->reference.scale;
    const struct query query = reference_query(&pass->reference, b, h, i);
    const struct bounded factor = {scale, 2 * u * fabs(scale)};
    const struct bounded *d_o = &pass->d_o[o_at(pass, b, h, i)];
    struct bounded_sum delta = {0};

    if (row->nothing)
        return;
    for (size_t d = 0; d < p->dim_v; d++)
        bounded_add(&delta, d_o[d], pass->o[o_at(pass, b, h, i) + d]);
    if (p->sinks) {
        const struct bounded away =
            bounded_minus(bounded_exactly(input(pass, LAYER_SINKS, h)), row->lse);
        struct bounded weight = {-exp(away.value), 0.0};
        weight.bound = -weight.value * expm1(away.bound + (8 + 3 * fabs(away.value)) * u);
        bounded_add(&pass->dsinks[h], weight, bounded_total(&delta));
    }
    for (size_t j = 0; j < p->seq_kv; j++) {
        if (!row->seen[j])
            continue;
        const struct bounded *v = &pass->made[2][v_at(pass, b, h, j)];
        const double far = fabs(row->s[j].value) + fabs(row->lse.value);
        struct bounded again = {row->p[j].value, 0.0};
        struct bounded_sum dot = {0};
        again.bound = again.value * expm1(row->s[j].bound + row->lse.bound + (12 + 4 * far) * u) +
                      2 * FLT_MIN;
        for (size_t d = 0; d < p->dim_v; d++) {
            bounded_add(&dot, d_o[d], v[d]);
            bounded_add(&pass->dv[v_at(pass, b, h, j) + d],
                        arithmetic_operand(a, dropped(again, row->factor[j])), d_o[d]);
        }
        const struct bounded through = dropped(bounded_total(&dot), row->factor[j]);
        const struct bounded ds =
            bounded_times(again, bounded_minus(through, bounded_total(&delta)));
        const struct bounded dt =
            bounded_times(arithmetic_operand(a, bounded_times(ds, row->slope[j])), factor);
        for (size_t d = 0; d < p->dim_qk; d++) {
            const size_t q = q_at(pass, b, h, i) + d, k = k_at(pass, b, h, j) + d;
            bounded_add(&pass->dq[q], dt, pass->made[1][k]);
            bounded_add(&pass->dk[k], dt, pass->made[0][q]);
        }
        if (p->bias)
            bounded_add(&pass->dbias[bias_at(pass, b, h, i, j)], ds, bounded_exactly(1.0));
        if (p->alibi)
            bounded_add(&pass->dslopes[h], ds,
                        bounded_exactly(reference_distance(&pass->reference, &query, j)));
    }
}

static void for_all_rows(struct pass *pass, void (*visit)(struct pass *pass, size_t b, size_t h,
                                                          size_t i, const struct row *row))
{
    const clattn_problem *p = pass->p;

    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->heads; h++)
            for (size_t i = 0; i < p->seq_q; i++) {
                look(pass, b, h, i, &pass->row);
                visit(pass, b, h, i, &pass->row);
            }
}

/* Stores sums as values of a tensor. */
static void finish(const struct bounded_sum *sums, const size_t count, const clattn_dtype dtype,
                   struct bounded *to)
{
    for (size_t n = 0; to && n < count; n++)
        to[n] = bounded_stored(dtype, bounded_total(&sums[n]));
}

static size_t part_elements(const clattn_multihead *layer, const int n)
{
    const struct layer_part part = layer_part_of(layer, n);

    return part.rows * part.columns;
}

static void backward(struct pass *pass)
{
    const clattn_multihead *layer = pass->layer;
    const clattn_problem *p = pass->p;

    for (size_t n = 0; n < layer_elements(layer, LAYER_DY); n++)
        pass->gradient[3][n] = bounded_exactly(input(pass, LAYER_DY, n));
    project_backward(pass, 3, pass->d_o);
    for_all_rows(pass, attend_backward);
    finish(pass->dq, part_elements(layer, 0), p->dtype, pass->gradient[0]);
    finish(pass->dk, part_elements(layer, 1), p->dtype, pass->gradient[1]);
    finish(pass->dv, part_elements(layer, 2), p->dtype, pass->gradient[2]);
    finish(pass->dbias, layer_elements(layer, LAYER_BIAS), p->bias_dtype,
           pass->out->at[LAYER_DBIAS]);
    finish(pass->dslopes, p->heads, CLATTN_F32, pass->out->at[LAYER_DSLOPES]);
    finish(pass->dsinks, p->heads, CLATTN_F32, pass->out->at[LAYER_DSINKS]);
    for (int n = 0; n < 3; n++) {
        const enum layer_tensor source = layer_part_of(layer, n).source;
        project_backward(pass, n, pass->out->at[source - LAYER_X + LAYER_DX]);
    }
}

static void allocate_row(struct pass *pass)
{
    const size_t keys = pass->p->seq_kv;

    pass->row = (struct row){.seen = allocate(pass, keys, 1),
                             .s = allocate(pass, keys, sizeof(struct bounded)),
                             .slope = allocate(pass, keys, sizeof(struct bounded)),
                             .p = allocate(pass, keys, sizeof(struct bounded)),
                             .factor = allocate(pass, keys, sizeof(double))};
}

static void allocate_all(struct pass *pass)
{
    const clattn_multihead *layer = pass->layer;
    const clattn_problem *p = pass->p;
    const size_t merged = p->batch * p->seq_q * p->heads * p->dim_v;
    struct bounded_sum **const sums[] = {&pass->dq,    &pass->dk,      &pass->dv,
                                         &pass->dbias, &pass->dslopes, &pass->dsinks};
    const size_t sizes[] = {part_elements(layer, 0),
                            part_elements(layer, 1),
                            part_elements(layer, 2),
                            layer_elements(layer, LAYER_BIAS),
                            p->heads,
                            p->heads};

    for (int n = 0; n < 4; n++) {
        pass->made[n] = allocate(pass, part_elements(layer, n), sizeof(struct bounded));
        pass->gradient[n] = allocate(pass, part_elements(layer, n), sizeof(struct bounded));
    }
    pass->o = allocate(pass, merged, sizeof(struct bounded));
    pass->d_o = allocate(pass, merged, sizeof(struct bounded));
    for (size_t n = 0; n < sizeof sums / sizeof *sums; n++)
        *sums[n] = allocate(pass, sizes[n], sizeof(struct bounded_sum));
    allocate_row(pass);
    for (int id = LAYER_Y; id < NUM_LAYER_TENSORS; id++) {
        const size_t elements = layer_elements(layer, (enum layer_tensor)id);
        pass->out->at[id] = elements > 0 ? calloc(elements, sizeof(struct bounded)) : NULL;
        pass->failed = pass->failed || (elements > 0 && pass->out->at[id] == NULL);
    }
}

static void compute(struct pass *pass)
{
    for (int n = 0; n < 3; n++)
        project(pass, n);
    for_all_rows(pass, attend);
    project(pass, 3);
    for (size_t n = 0; n < layer_elements(pass->layer, LAYER_Y); n++)
        pass->out->at[LAYER_Y][n] = pass->made[3][n];
    backward(pass);
}

bool reference_layer_open(const clattn_multihead *layer, const struct layer_inputs *in,
                          struct layer_outputs *out)
{
    const clattn_problem *p = &layer->attention;
    struct pass pass = {.layer = layer,
                        .p = p,
                        .in = in,
                        .out = out,
                        .reference = reference_of(p, &in->options, PRECISION_SINGLE)};

    *out = (struct layer_outputs){{NULL}};
    allocate_all(&pass);
    if (!pass.failed)
        compute(&pass);
    for (size_t n = 0; n < pass.rooms; n++)
        free(pass.room[n]);
    return !pass.failed;
}

void reference_layer_close(struct layer_outputs *out)
{
    for (int id = 0; id < NUM_LAYER_TENSORS; id++)
        free(out->at[id]);
}
