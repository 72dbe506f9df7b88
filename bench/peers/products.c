/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/products.h"
#include "bench/judge/values.h"

#include <string.h>

struct product product_of(const clattn_problem *problem)
{
    const clattn_projection_problem *p = &problem->projection;

    return (struct product){.rows = p->batch * p->rows,
                            .inner = p->x_heads * p->x_dim,
                            .columns = p->y_heads * p->y_dim};
}

/* From (batch, a, b, bytes) to (batch, b, a, bytes). */
static void swap(unsigned char *to, const unsigned char *from, size_t batch, size_t a, size_t b,
                 size_t bytes)
{
    for (size_t n = 0; n < batch; n++)
        for (size_t y = 0; y < b; y++)
            for (size_t x = 0; x < a; x++, to += bytes)
                memcpy(to, from + ((n * a + x) * b + y) * bytes, bytes);
}

void product_gather(const struct problem_data *data, void *x)
{
    const clattn_projection_problem *p = &data->problem.projection;

    swap(x, data->q, p->batch, p->x_heads, p->rows, p->x_dim * value_bytes(p->dtype));
}

void product_scatter(const clattn_problem *problem, const void *y, void *packed)
{
    const clattn_projection_problem *p = &problem->projection;

    swap(packed, y, p->batch, p->rows, p->y_heads, p->y_dim * value_bytes(p->dtype));
}
