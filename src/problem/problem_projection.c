/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of operation CLATTN_PROJECTION: the functions that problem.c calls for them. */
#include "base/log.h"
#include "problem/layout.h"
#include "problem/operations.h"
#include "problem/problem.h"
#include "problem/tensors.h"
#include "problem/text/problem_words.h"

/* ---- operands -------------------------------------------------------------------------------- */

const clattn_projection_problem ca_projection_initial = {
    .batch = 1, .x_heads = 1, .y_heads = 1, .rows = 1, .x_dim = 1, .y_dim = 1};

struct ca_size_words ca_projection_sizes(clattn_problem *p)
{
    return (struct ca_size_words){.dtype = &p->projection.dtype,
                                  .b = &p->projection.batch,
                                  .h = &p->projection.y_heads,
                                  .second_h = &p->projection.x_heads,
                                  .q = &p->projection.rows,
                                  .d = &p->projection.x_dim,
                                  .second_d = &p->projection.y_dim};
}

const struct ca_layout_word ca_projection_layouts[] = {
    {CA_PROJECTION_X, "x"},
    {CA_PROJECTION_Y, "y"},
    {0, NULL},
};

struct projection_shape ca_projection_shape(const clattn_projection_problem *p)
{
    return (struct projection_shape){.batch = (cl_long)p->batch,
                                     .rows = (cl_long)p->rows,
                                     .x_heads = (cl_long)p->x_heads,
                                     .x_dim = (cl_long)p->x_dim,
                                     .y_heads = (cl_long)p->y_heads,
                                     .y_dim = (cl_long)p->y_dim,
                                     CA_PROJECTION_OPERANDS(CA_SHAPE_STRIDES, )};
}

clattn_dtype ca_projection_dtype(const clattn_problem *p, unsigned argument)
{
    return argument == CA_PROJECTION_BIAS ? p->projection.bias_dtype : p->projection.dtype;
}

/* ---- the normal form ------------------------------------------------------------------------- */

/* Returns whether an outer axis continues where an inner one ends; then *step becomes that of the
 * merged axis. */
static int goes_on(size_t outer_step, size_t inner, size_t *step)
{
    if (inner == 1) {
        *step = outer_step;
        return 1;
    }
    return outer_step == inner * *step;
}

/* Makes axis `outer` of two tensors part of axis `inner` if it goes on in both. steps: where each
 * tensor has the step of the outer axis, and of the inner one. */
static void merge(size_t *outer, size_t *inner, size_t *const steps[2][2])
{
    size_t merged[2] = {*steps[0][1], *steps[1][1]};

    if (*outer == 1 || *outer > CA_MAX_SIZE / *inner)
        return;
    for (int n = 0; n < 2; n++)
        if (!goes_on(*steps[n][0], *inner, &merged[n]))
            return;
    *inner *= *outer;
    *outer = 1; /* keeps its strides: four zero strides would mean a packed layout */
    for (int n = 0; n < 2; n++) {
        if (merged[n] == 0)
            *steps[n][0] = *steps[n][1];
        *steps[n][1] = merged[n];
    }
}

void ca_projection_join_axes(clattn_problem *problem)
{
    clattn_projection_problem *p = &problem->projection;
    size_t *const x = p->x.stride, *const w = p->w.stride, *const y = p->y.stride;

    if (ca_problem_empty(problem))
        return;
    merge(&p->batch, &p->rows, (size_t *const[2][2]){{&x[0], &x[2]}, {&y[0], &y[2]}});
    merge(&p->x_heads, &p->x_dim, (size_t *const[2][2]){{&x[1], &x[3]}, {&w[0], &w[1]}});
    merge(&p->y_heads, &p->y_dim, (size_t *const[2][2]){{&w[2], &w[3]}, {&y[1], &y[3]}});
}

/* ---- checks ---------------------------------------------------------------------------------- */

clattn_status ca_projection_check(const clattn_problem *problem, char *reason, size_t bytes)
{
    const clattn_projection_problem *p = &problem->projection;
    const struct ca_enum_value choices[] = {
        {"dtype", (int)p->dtype, CA_NUM_DTYPES - 1},
        {"bias_dtype", p->bias ? (int)p->bias_dtype : 0, CA_NUM_DTYPES - 1},
    };
    const struct ca_size sizes[] = {
        {"batch", p->batch, 0}, {"x_heads", p->x_heads, 1}, {"y_heads", p->y_heads, 1},
        {"rows", p->rows, 0},   {"x_dim", p->x_dim, 1},     {"y_dim", p->y_dim, 1},
    };
    clattn_status status = ca_check_members(choices, sizeof choices / sizeof *choices, sizes,
                                            sizeof sizes / sizeof *sizes, reason, bytes);

    if (status == CLATTN_SUCCESS && p->x_heads > CA_MAX_SIZE / p->x_dim)
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes, "x_heads * x_dim is over %zu",
                              CA_MAX_SIZE);
    return status;
}

double ca_projection_flops(const clattn_problem *problem)
{
    const clattn_projection_problem *p = &problem->projection;

    return 2.0 * (double)p->batch * (double)p->rows * (double)p->x_heads * (double)p->x_dim *
           (double)p->y_heads * (double)p->y_dim;
}

int ca_projection_x_in_pairs(const clattn_projection_problem *p)
{
    return p->dtype == CLATTN_BF16 && p->x_dim % 2 == 0 && ca_layout_in_pieces(&p->x, 3, 2);
}
