#include "bench/peers/products.h"
#include "bench/judge/values.h"

#include <string.h>

struct product product_of(const clattn_problem *p)
{
    return (struct product){.rows = p->batch * p->seq_q,
                            .inner = p->kv_heads * p->dim_qk,
                            .columns = p->heads * p->dim_v};
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
    const clattn_problem *p = &data->problem;

    swap(x, data->q, p->batch, p->kv_heads, p->seq_q, p->dim_qk * value_bytes(p->dtype));
}

void product_scatter(const clattn_problem *p, const void *y, void *packed)
{
    swap(packed, y, p->batch, p->seq_q, p->heads, p->dim_v * value_bytes(p->dtype));
}
