/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/merge_trial.h"

#include "bench/judge/tensors.h"
#include "tests/support/storage.h"
#include "tests/trials/random_layout.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
        tensor_extent((size_t[]){p->states * p->batch, p->heads, p->seq_q, p->dim}, s.parts);
    t->o_extent = tensor_extent((size_t[]){p->batch, p->heads, p->seq_q, p->dim}, s.o);
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

struct comparing {
    const struct merge_trial *t;
    unsigned char *is_element; /* of o */
    size_t wrong;
};

static void compare(void *user, int output, const size_t at[4], const struct bounded *want,
                    size_t count)
{
    struct comparing *c = user;
    const clattn_merge_problem *p = &c->t->problem.merge;

    if (output == MERGED_LSE) {
        const size_t row = (at[0] * p->heads + at[1]) * p->seq_q + at[2];
        c->wrong += !within((double)c->t->lse[row], *want);
        return;
    }
    for (size_t d = 0; d < count; d++) {
        const size_t place = place_of(c->t, p->states, at[0], at[1], at[2], d);
        c->is_element[place] = 1;
        c->wrong += !within(value_get(p->dtype, c->t->o, place), want[d]);
    }
}

size_t merge_trial_compare(const struct merge_trial *t)
{
    const clattn_merge_problem *p = &t->problem.merge;
    const struct merge_view view = {t->parts, t->parts_lse, t->sinks, t->before, t->lse_before};
    const size_t bytes = value_bytes(p->dtype);
    struct comparing c = {.t = t, .is_element = calloc(t->o_extent + 1, 1)};

    if (!c.is_element || !judge_merge(p, &view, INFINITY, compare, &c))
        c.wrong++;
    for (size_t n = 0; c.is_element && n < t->o_extent; n++)
        c.wrong += !c.is_element[n] && memcmp(t->o + n * bytes, t->before + n * bytes, bytes) != 0;
    free(c.is_element);
    return c.wrong;
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
    p->parts = random_layout(r, (size_t[]){p->states * p->batch, p->heads, p->seq_q, p->dim}, 1);
    p->o = random_layout(r, (size_t[]){p->batch, p->heads, p->seq_q, p->dim}, 1);
    return made;
}
