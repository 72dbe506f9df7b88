/* Errors are carried along from step to step (bounded.c). u = 2^-24.
 *
 * Score       as score.c derives it, from the errors that q and k have.
 * Softmax     as row.c derives it: exp(s - m) is off by slack = expm1(e + (8 + 3 |s - m|) u) of itself,
 *             the quotient by slack, by the mean slack of the row, and by 2 gather.
 * Backward    computes p = exp(s - lse) anew from q, k and lse as they were stored. */
#include "tests/reference/reference_multihead.h"

#include "bench/reference/bounded.h"
#include "bench/reference/dropout.h"
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

static const double u = 0x1p-24;

static struct bounded *allocate(const size_t elements)
{
    struct bounded *values = calloc(elements + 1, sizeof *values);

    cr_assert(values != NULL);
    return values;
}

/* ---- the layer ------------------------------------------------------------------------------- */

struct pass {
    const clattn_multihead *layer;
    const clattn_problem *p;
    const struct layer_inputs *in;
    struct layer_outputs *out;
    struct bounded *made[4]; /* q, k, v as rows of columns, and y */
    struct bounded *gradient[4];
    struct bounded *o, *d_o, *lse;
    struct reference reference; /* Of what is stored: mask, lengths. */
    struct bounded_sum *dbias, *dslopes, *dsinks;
};

static double input(const struct pass *pass, const enum layer_tensor id, const size_t n)
{
    return pass->in->at[id][n];
}

/* The row of x's order that batch b and position s have. */
static size_t row_of(const struct pass *pass, const size_t b, const size_t s, const size_t seq)
{
    return pass->layer->seq_first ? s * pass->p->batch + b : b * seq + s;
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

/* Sums over queries: of dk and dv for each kv head, the rest for the layer. */
struct sums {
    struct bounded_sum *dq, *dk, *dv;
};

static void attend_backward(struct pass *pass, const size_t b, const size_t h, const size_t i,
                            const struct row *row, struct sums *sums)
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
            bounded_add(&sums->dv[v_at(pass, b, h, j) + d],
                        arithmetic_operand(a, dropped(again, row->factor[j])), d_o[d]);
        }
        const struct bounded through = dropped(bounded_total(&dot), row->factor[j]);
        const struct bounded ds =
            bounded_times(again, bounded_minus(through, bounded_total(&delta)));
        const struct bounded dt =
            bounded_times(arithmetic_operand(a, bounded_times(ds, row->slope[j])), factor);
        for (size_t d = 0; d < p->dim_qk; d++) {
            const size_t q = q_at(pass, b, h, i) + d, k = k_at(pass, b, h, j) + d;
            bounded_add(&sums->dq[q], dt, pass->made[1][k]);
            bounded_add(&sums->dk[k], dt, pass->made[0][q]);
        }
        if (p->bias)
            bounded_add(&pass->dbias[bias_at(pass, b, h, i, j)], ds, bounded_exactly(1.0));
        if (p->alibi)
            bounded_add(&pass->dslopes[h], ds,
                        bounded_exactly(reference_distance(&pass->reference, &query, j)));
    }
}

static void for_all_rows(struct pass *pass, struct sums *sums)
{
    const clattn_problem *p = pass->p;
    struct row row = {.seen = calloc(p->seq_kv + 1, 1),
                      .s = allocate(p->seq_kv),
                      .slope = allocate(p->seq_kv),
                      .p = allocate(p->seq_kv),
                      .factor = calloc(p->seq_kv + 1, sizeof *row.factor)};

    cr_assert(row.seen && row.factor);
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->heads; h++)
            for (size_t i = 0; i < p->seq_q; i++) {
                look(pass, b, h, i, &row);
                if (sums)
                    attend_backward(pass, b, h, i, &row, sums);
                else
                    attend(pass, b, h, i, &row);
            }
    free(row.factor);
    free(row.p);
    free(row.slope);
    free(row.s);
    free(row.seen);
}

static struct bounded_sum *allocate_sums(const size_t count)
{
    struct bounded_sum *sums = calloc(count + 1, sizeof *sums);

    cr_assert(sums != NULL);
    return sums;
}

/* Stores sums as values of a tensor and frees them. */
static void finish(struct bounded_sum *sums, const size_t count, const clattn_dtype dtype,
                   struct bounded *to)
{
    for (size_t n = 0; to && n < count; n++)
        to[n] = bounded_stored(dtype, bounded_total(&sums[n]));
    free(sums);
}

static void backward(struct pass *pass)
{
    const clattn_multihead *layer = pass->layer;
    const clattn_problem *p = pass->p;
    const size_t dbias = layer_elements(layer, LAYER_BIAS);
    size_t sizes[3];
    struct sums sums;

    for (int n = 0; n < 3; n++) {
        const struct layer_part part = layer_part_of(layer, n);
        sizes[n] = part.rows * part.columns;
    }
    for (size_t n = 0; n < layer_elements(layer, LAYER_DY); n++)
        pass->gradient[3][n] = bounded_exactly(input(pass, LAYER_DY, n));
    project_backward(pass, 3, pass->d_o);
    sums = (struct sums){allocate_sums(sizes[0]), allocate_sums(sizes[1]), allocate_sums(sizes[2])};
    pass->dbias = allocate_sums(dbias);
    pass->dslopes = allocate_sums(p->heads);
    pass->dsinks = allocate_sums(p->heads);
    for_all_rows(pass, &sums);
    finish(sums.dq, sizes[0], p->dtype, pass->gradient[0]);
    finish(sums.dk, sizes[1], p->dtype, pass->gradient[1]);
    finish(sums.dv, sizes[2], p->dtype, pass->gradient[2]);
    finish(pass->dbias, dbias, p->bias_dtype, pass->out->at[LAYER_DBIAS]);
    finish(pass->dslopes, p->heads, CLATTN_F32, pass->out->at[LAYER_DSLOPES]);
    finish(pass->dsinks, p->heads, CLATTN_F32, pass->out->at[LAYER_DSINKS]);
    for (int n = 0; n < 3; n++) {
        const enum layer_tensor source = layer_part_of(layer, n).source;
        project_backward(pass, n, pass->out->at[source - LAYER_X + LAYER_DX]);
    }
}

void reference_layer_open(const clattn_multihead *layer, const struct layer_inputs *in,
                          struct layer_outputs *out)
{
    const clattn_problem *p = &layer->attention;
    const size_t merged = p->batch * p->seq_q * p->heads * p->dim_v;
    struct pass pass = {.layer = layer,
                        .p = p,
                        .in = in,
                        .out = out,
                        .reference = reference_of(p, &in->options, PRECISION_SINGLE),
                        .o = allocate(merged),
                        .d_o = allocate(merged)};

    for (int id = 0; id < NUM_LAYER_TENSORS; id++) {
        const size_t elements = layer_elements(layer, (enum layer_tensor)id);
        out->at[id] = id > LAYER_DY && elements > 0 ? allocate(elements) : NULL;
    }
    for (int n = 0; n < 4; n++) {
        const struct layer_part part = layer_part_of(layer, n);
        pass.made[n] = allocate(part.rows * part.columns);
        pass.gradient[n] = allocate(part.rows * part.columns);
    }
    for (int n = 0; n < 3; n++)
        project(&pass, n);
    for_all_rows(&pass, NULL);
    project(&pass, 3);
    for (size_t n = 0; n < layer_elements(layer, LAYER_Y); n++)
        out->at[LAYER_Y][n] = pass.made[3][n];
    backward(&pass);
    for (int n = 0; n < 4; n++) {
        free(pass.gradient[n]);
        free(pass.made[n]);
    }
    free(pass.d_o);
    free(pass.o);
}

void reference_layer_close(struct layer_outputs *out)
{
    for (int id = 0; id < NUM_LAYER_TENSORS; id++)
        free(out->at[id]);
}
