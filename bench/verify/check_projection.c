/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a projection. */
#include "bench/judge/judge.h"
#include "bench/judge/projection.h"
#include "bench/judge/values.h"
#include "bench/verify/sample.h"

#include <stdlib.h>

enum { FEWEST_ROWS = 8 };

static void check_row(const clattn_projection_problem *p, const struct projection_view *view,
                      const void *y, enum precision precision, size_t b, size_t i,
                      struct worst *worst)
{
    const struct projection_strides s = reference_projection_strides(p);

    for (size_t g = 0; g < p->y_heads; g++)
        for (size_t e = 0; e < p->y_dim; e++) {
            const struct bounded want = reference_projection(p, view, precision, b, g, i, e);
            const size_t place = b * s.y[0] + g * s.y[1] + i * s.y[2] + e * s.y[3];
            worst_add(worst, value_get(p->dtype, y, place), want.value, want.bound);
        }
}

bool check_projection(const struct attention_case *attention, const struct results *results,
                      enum precision precision, struct worst *worst, struct message *why)
{
    const clattn_projection_problem *p = &attention->job.problem.projection;
    const size_t all = p->batch * p->rows;
    const double row_work =
        (double)p->x_heads * (double)p->x_dim * (double)p->y_heads * (double)p->y_dim;
    const size_t rows = judge_affordable(SAMPLE_BUDGET, all, row_work, FEWEST_ROWS);
    void *before;
    const bool ok = sample_held(attention, OUTPUT_PROJECTION_Y, &before, why);
    const struct projection_view view = {.x = attention->in[INPUT_PROJECTION_X].data,
                                         .w = attention->in[INPUT_PROJECTION_W].data,
                                         .bias = attention->in[INPUT_PROJECTION_BIAS].data,
                                         .before = before};

    for (size_t n = 0; ok && n < rows; n++) {
        const size_t row = judge_spread(n, rows, all);
        check_row(p, &view, results->out[OUTPUT_PROJECTION_Y], precision, row / p->rows,
                  row % p->rows, worst);
    }
    free(before);
    return ok;
}
