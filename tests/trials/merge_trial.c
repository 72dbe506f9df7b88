/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/merge_trial.h"

#include "tests/support/storage.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t extent_of(const size_t sizes[4], const size_t strides[4])
{
    size_t extent = 1;

    for (int n = 0; n < 4; n++) {
        if (sizes[n] == 0)
            return 0;
        extent += (sizes[n] - 1) * strides[n];
    }
    return extent;
}

static size_t place_of(const struct merge_trial *t, size_t s, size_t b, size_t h, size_t i,
                       size_t d)
{
    const struct merge_strides m = reference_merge_strides(&t->problem.merge);
    const int is_o = s == t->problem.merge.states;
    const size_t *stride = is_o ? m.o : m.parts;

    return (is_o ? b : s * t->problem.merge.batch + b) * stride[0] + h * stride[1] + i * stride[2] +
           d * stride[3];
}

void merge_trial_set(struct merge_trial *t, size_t s, size_t b, size_t h, size_t i, size_t d,
                     double value)
{
    value_set(t->problem.merge.dtype, s == t->problem.merge.states ? t->o : t->parts,
              place_of(t, s, b, h, i, d), value);
}

static int allocate(struct merge_trial *t)
{
    const clattn_merge_problem *p = &t->problem.merge;
    const struct merge_strides s = reference_merge_strides(p);
    const size_t bytes = value_bytes(p->dtype);

    t->rows = p->batch * p->heads * p->seq_q;
    t->parts_extent =
        extent_of((size_t[]){p->states * p->batch, p->heads, p->seq_q, p->dim}, s.parts);
    t->o_extent = extent_of((size_t[]){p->batch, p->heads, p->seq_q, p->dim}, s.o);
    t->parts = malloc(t->parts_extent * bytes + 1);
    t->o = malloc(t->o_extent * bytes + 1);
    t->before = malloc(t->o_extent * bytes + 1);
    t->parts_lse = malloc((p->states * t->rows + 1) * sizeof(float));
    t->sinks = malloc(p->heads * sizeof(float));
    t->lse = malloc((t->rows + 1) * sizeof(float));
    t->lse_before = malloc((t->rows + 1) * sizeof(float));
    return t->parts && t->o && t->before && t->parts_lse && t->sinks && t->lse && t->lse_before;
}

/* A state's row. */
static void fill_row(struct merge_trial *t, struct rng *r, size_t s, size_t row, double lse)
{
    const clattn_merge_problem *p = &t->problem.merge;
    const size_t i = row % p->seq_q, h = row / p->seq_q % p->heads, b = row / p->seq_q / p->heads;

    for (size_t d = 0; d < p->dim; d++)
        merge_trial_set(t, s, b, h, i, d, lse == -HUGE_VAL ? (double)NAN : rng_uniform(r, -1, 1));
    if (s == p->states)
        t->lse[row] = (float)lse;
    else
        t->parts_lse[s * t->rows + row] = (float)lse;
}

int merge_trial_fill(struct merge_trial *t, const clattn_problem *problem, struct rng *r,
                     double spread, size_t empty)
{
    const clattn_merge_problem *p = &problem->merge;
    const size_t bytes = value_bytes(p->dtype);

    *t = (struct merge_trial){.problem = *problem};
    if (!allocate(t))
        return 0;
    memset(t->parts, 0xff, t->parts_extent * bytes);
    memset(t->o, 0xff, t->o_extent * bytes);
    memset(t->lse, 0xff, t->rows * sizeof(float));
    for (size_t s = 0; s < p->states + (p->accumulate != 0); s++)
        for (size_t row = 0; row < t->rows; row++)
            fill_row(t, r, s, row,
                     empty && rng_one_in(r, empty) ? -HUGE_VAL : rng_uniform(r, -spread, spread));
    for (size_t h = 0; h < p->heads; h++)
        t->sinks[h] = p->sinks ? (float)rng_uniform(r, -spread, spread) : NAN;
    return 1;
}

void merge_trial_free(struct merge_trial *t)
{
    free(t->parts);
    free(t->o);
    free(t->before);
    free(t->parts_lse);
    free(t->sinks);
    free(t->lse);
    free(t->lse_before);
}

clattn_status merge_trial_run(struct merge_trial *t, clattn_context *context,
                              const clattn_plan_options *options)
{
    const clattn_host_merge_tensors tensors = {.struct_size = sizeof tensors,
                                               .parts = t->parts,
                                               .parts_lse = t->parts_lse,
                                               .sinks = t->problem.merge.sinks ? t->sinks : NULL,
                                               .o = t->o,
                                               .lse = t->lse};

    memcpy(t->before, t->o, t->o_extent * value_bytes(t->problem.merge.dtype));
    memcpy(t->lse_before, t->lse, t->rows * sizeof(float));
    return clattn_merge_host(context, &t->problem, options, &tensors);
}

/* Compares a row, and puts what was there before into its place. */
static size_t compare_row(const struct merge_trial *t, size_t row, struct bounded *o)
{
    const clattn_merge_problem *p = &t->problem.merge;
    const struct merge_view view = {t->parts, t->parts_lse, t->sinks, t->before, t->lse_before};
    const size_t i = row % p->seq_q, h = row / p->seq_q % p->heads, b = row / p->seq_q / p->heads;
    struct bounded lse;
    size_t wrong = 0;

    reference_merge(p, &view, b, h, i, o, &lse);
    wrong += !within((double)t->lse[row], lse);
    for (size_t d = 0; d < p->dim; d++) {
        const size_t place = place_of(t, p->states, b, h, i, d);
        wrong += !within(value_get(p->dtype, t->o, place), o[d]);
    }
    return wrong;
}

size_t merge_trial_compare(const struct merge_trial *t)
{
    const clattn_merge_problem *p = &t->problem.merge;
    const size_t bytes = value_bytes(p->dtype);
    struct bounded *o = malloc(p->dim * sizeof *o);
    unsigned char *is_element = calloc(t->o_extent + 1, 1);
    size_t wrong = o && is_element ? 0 : 1;

    for (size_t row = 0; o && is_element && row < t->rows; row++) {
        const size_t h = row / p->seq_q % p->heads, b = row / p->seq_q / p->heads;
        wrong += compare_row(t, row, o);
        for (size_t d = 0; d < p->dim; d++)
            is_element[place_of(t, p->states, b, h, row % p->seq_q, d)] = 1;
    }
    for (size_t n = 0; is_element && n < t->o_extent; n++)
        wrong += !is_element[n] && memcmp(t->o + n * bytes, t->before + n * bytes, bytes) != 0;
    free(o);
    free(is_element);
    return wrong;
}

/* Any order of the outer axes, gaps after some; the innermost is dim, with a step of 1 or 2. */
static clattn_layout draw_layout(struct rng *r, const size_t sizes[4])
{
    int order[3] = {0, 1, 2};
    clattn_layout layout;
    size_t step = rng_one_in(r, 4) ? 2 : 1;

    if (rng_one_in(r, 3))
        return (clattn_layout){{0}};
    for (size_t n = 2; n > 0; n--) {
        const size_t other = rng_below(r, n + 1);
        const int axis = order[n];
        order[n] = order[other];
        order[other] = axis;
    }
    layout.stride[3] = step;
    step = step * sizes[3] + rng_below(r, 5);
    for (int n = 2; n >= 0; n--) {
        layout.stride[order[n]] = step;
        step = step * (sizes[order[n]] ? sizes[order[n]] : 1) + rng_below(r, 5);
    }
    return layout;
}

clattn_problem merge_trial_draw(struct rng *r, const clattn_problem *base)
{
    clattn_problem made = *base;
    clattn_merge_problem *p = &made.merge;

    p->batch = RNG_PICK(r, 1, 1, 2, 3);
    p->heads = RNG_PICK(r, 1, 2, 3, 8);
    p->seq_q = RNG_PICK(r, 0, 1, 1, 2, 5, 17);
    p->states = RNG_PICK(r, 0, 1, 2, 2, 3, 4, 7, 8, 9, 16, 17, 33);
    p->dim = RNG_PICK(r, 1, 3, 4, 8, 20, 31, 64, 65, 100, 128, 200, 256, 300);
    p->parts = draw_layout(r, (size_t[]){p->states * p->batch, p->heads, p->seq_q, p->dim});
    p->o = draw_layout(r, (size_t[]){p->batch, p->heads, p->seq_q, p->dim});
    return made;
}
