/* SPDX-License-Identifier: Apache-2.0 */
#include "race_projection.h"

#include "bench/judge/projection.h"
#include "tests/support/rng.h"
#include "tests/support/storage.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { X, W, BIAS, Y, NUM };

static size_t extent(const size_t sizes[4], const size_t strides[4])
{
    size_t last = 0;

    for (int n = 0; n < 4; n++)
        last += (sizes[n] - 1) * strides[n];
    return last + 1;
}

static void *random_numbers(struct rng *r, clattn_dtype dtype, size_t count)
{
    void *bytes = malloc(count * value_bytes(dtype));

    for (size_t n = 0; bytes && n < count; n++)
        value_set(dtype, bytes, n, rng_uniform(r, -1, 1));
    return bytes;
}

/* How many elements of y are out of bounds. */
static size_t compare(const clattn_projection_problem *p, const struct projection_view *view,
                      const void *y, const size_t strides[4])
{
    size_t wrong = 0;

    for (size_t n = 0; n < p->batch * p->y_heads * p->rows * p->y_dim; n++) {
        const size_t e = n % p->y_dim, i = n / p->y_dim % p->rows;
        const size_t g = n / p->y_dim / p->rows % p->y_heads,
                     b = n / p->y_dim / p->rows / p->y_heads;
        const struct bounded want = reference_projection(p, view, PRECISION_SINGLE, b, g, i, e);
        const double got = value_get(
            p->dtype, y, b * strides[0] + g * strides[1] + i * strides[2] + e * strides[3]);
        if (!within(got, want) && wrong++ == 0)
            printf("  y (%zu, %zu, %zu, %zu): got %.9g, want %.9g +- %.2g\n", b, g, i, e, got,
                   want.value, want.bound);
    }
    return wrong;
}

int race_projection(clattn_context *context, const clattn_problem *problem,
                    const clattn_plan_options *options)
{
    const clattn_projection_problem *p = &problem->projection;
    const struct projection_strides s = reference_projection_strides(p);
    const size_t counts[NUM] = {extent((size_t[]){p->batch, p->x_heads, p->rows, p->x_dim}, s.x),
                                extent((size_t[]){p->x_heads, p->x_dim, p->y_heads, p->y_dim}, s.w),
                                p->y_heads * p->y_dim,
                                extent((size_t[]){p->batch, p->y_heads, p->rows, p->y_dim}, s.y)};
    struct rng r = rng_seed(1);
    void *bytes[NUM];
    int ok = 1;

    for (int n = 0; n < NUM; n++) {
        bytes[n] = random_numbers(&r, n == BIAS ? p->bias_dtype : p->dtype, counts[n]);
        ok = ok && bytes[n];
    }
    void *before = malloc(counts[Y] * value_bytes(p->dtype));
    ok = ok && before;
    if (ok) {
        const clattn_host_projection_tensors tensors = {.struct_size = sizeof tensors,
                                                        .x = bytes[X],
                                                        .w = bytes[W],
                                                        .bias = p->bias ? bytes[BIAS] : NULL,
                                                        .y = bytes[Y]};
        const struct projection_view view = {bytes[X], bytes[W], bytes[BIAS], before};
        memcpy(before, bytes[Y], counts[Y] * value_bytes(p->dtype));
        ok = clattn_project_host(context, problem, options, &tensors) == CLATTN_SUCCESS &&
             compare(p, &view, bytes[Y], s.y) == 0;
    }
    for (int n = 0; n < NUM; n++)
        free(bytes[n]);
    free(before);
    return ok;
}
