/* Comparing results with right answers. */
#include "log.h"
#include "problem.h"
#include "trust_case.h"
#include "trust_case_values.h"

#include <math.h>

/* The worst element so far. */
struct worst {
    double error; /* over its bound */
    const char *name;
    size_t row, last; /* its place: row of rows[], and d or j */
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

static void compare(struct worst *worst, const char *name, size_t row, size_t last, double got,
                    struct ca_bounded want)
{
    const double error = over_bound(got, want);

    if (error > worst->error)
        *worst = (struct worst){error, name, row, last, got, want};
}

static void compare_row(const struct ca_trust_case *c, size_t row, struct worst *worst)
{
    const clattn_problem *p = &c->problem;
    const size_t index = c->rows[row];
    const size_t first = index / p->seq_q / p->heads * p->o.stride[0] +
                         index / p->seq_q % p->heads * p->o.stride[1] +
                         index % p->seq_q * p->o.stride[2];

    for (size_t d = 0; d < p->dim_v; d++)
        compare(
            worst, "o", row, d,
            ca_value_load(c->bytes[CA_O] + CA_TRUST_GUARD, p->dtype, first + d * p->o.stride[3]),
            c->o[row * p->dim_v + d]);
    if (p->lse)
        compare(worst, "lse", row, 0,
                ca_value_load(c->bytes[CA_LSE] + CA_TRUST_GUARD, CLATTN_F32, index), c->lse[row]);
    for (size_t j = 0; c->scores && j < p->seq_kv; j++) {
        const struct ca_bounded want = c->scores[row * p->seq_kv + j];
        /* Raw scores of hidden values may overflow f32. */
        if (!(fabs(want.value) < 1e20) && p->scores <= CLATTN_SCORES_SOFTCAP)
            continue;
        compare(
            worst, "score", row, j,
            ca_value_load(c->bytes[CA_SCORES] + CA_TRUST_GUARD, CLATTN_F32, index * p->seq_kv + j),
            want);
    }
}

static void describe(const struct ca_trust_case *c, const struct worst *worst, char *text,
                     size_t text_bytes)
{
    const size_t index = c->rows[worst->row], b = index / c->problem.seq_q / c->problem.heads;
    const size_t h = index / c->problem.seq_q % c->problem.heads, i = index % c->problem.seq_q;

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

/* No result is a NaN, as no visible number is one; an element that was not written is. Scores that
 * show what is hidden are left out. */
static int find_nan(const struct ca_trust_case *c, enum ca_argument argument,
                    const struct ca_tensor *t, char *text, size_t text_bytes)
{
    const clattn_dtype dtype = argument == CA_O ? c->problem.dtype : CLATTN_F32;

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
    static const enum ca_argument outputs[] = {CA_O, CA_LSE, CA_SCORES};
    const int shows_hidden =
        c->problem.scores == CLATTN_SCORES_RAW || c->problem.scores == CLATTN_SCORES_SOFTCAP;
    struct ca_tensor tensors[CA_WORKSPACE];
    struct worst worst = {.error = 0.0};

    for (size_t row = 0; row < c->num_rows; row++)
        compare_row(c, row, &worst);
    *error = worst.error;
    ca_problem_tensors(&c->problem, tensors);
    for (size_t n = 0; n < sizeof outputs / sizeof *outputs; n++) {
        const enum ca_argument out = outputs[n];
        if (c->bytes[out] && !guards_intact(c->bytes[out], c->sizes[out])) {
            ca_reason(text, text_bytes, "it writes outside of its output %s", tensors[out].name);
            return text;
        }
    }
    if (worst.error > 1.0) {
        describe(c, &worst, text, text_bytes);
        return text;
    }
    for (size_t n = 0; n < sizeof outputs / sizeof *outputs; n++) {
        const enum ca_argument out = outputs[n];
        if (c->bytes[out] && !(out == CA_SCORES && shows_hidden) &&
            find_nan(c, out, &tensors[out], text, text_bytes))
            return text;
    }
    return NULL;
}
