/* The bound. u = 2^-24 is the error of one f32 operation, relative to its result. A sum of n
 * products in any order, fused or not, with the bias and what was there before, is off by at most
 * (n + 8) u of the sum of the magnitudes; beyond n = 256 errors of either sign cancel, and 16
 * sqrt(n) takes the place of n. FLT_MIN per term allows for subnormal products that a device
 * flushes to 0. Storing adds half an ulp of the dtype. */
#include "tests/reference/reference_projection.h"

#include "tests/support/storage.h"
#include <float.h>
#include <math.h>
#include <string.h>

static void resolve(const clattn_layout *layout, const size_t sizes[4], size_t strides[4])
{
    size_t step = 1;

    memcpy(strides, layout->stride, 4 * sizeof *strides);
    if (strides[0] || strides[1] || strides[2] || strides[3])
        return;
    for (int n = 3; n >= 0; n--) {
        strides[n] = step;
        step *= sizes[n] ? sizes[n] : 1;
    }
}

struct projection_strides reference_projection_strides(const clattn_problem *p)
{
    struct projection_strides s;

    resolve(&p->q, (size_t[]){p->batch, p->kv_heads, p->seq_q, p->dim_qk}, s.x);
    resolve(&p->k, (size_t[]){p->kv_heads, p->dim_qk, p->heads, p->dim_v}, s.w);
    resolve(&p->o, (size_t[]){p->batch, p->heads, p->seq_q, p->dim_v}, s.y);
    return s;
}

static double load(clattn_dtype dtype, const void *base, const size_t strides[4], size_t a,
                   size_t b, size_t c, size_t d)
{
    return value_get(dtype, base,
                     a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]);
}

struct bounded reference_projection(const clattn_problem *p, const struct projection_view *view,
                                    size_t b, size_t g, size_t i, size_t e)
{
    const struct projection_strides s = reference_projection_strides(p);
    const double n = (double)p->kv_heads * (double)p->dim_qk + 2.0;
    const double roundings = n <= 256.0 ? n : 16.0 * sqrt(n);
    double sum = 0.0, magnitude = 0.0;

    for (size_t h = 0; h < p->kv_heads; h++)
        for (size_t d = 0; d < p->dim_qk; d++) {
            const double product =
                load(p->dtype, view->x, s.x, b, h, i, d) * load(p->dtype, view->w, s.w, h, d, g, e);
            sum += product;
            magnitude += fabs(product);
        }
    if (p->bias) {
        const double bias = value_get(p->bias_dtype, view->bias, g * p->dim_v + e);
        sum += bias;
        magnitude += fabs(bias);
    }
    if (p->accumulate) {
        const double before = load(p->dtype, view->before, s.y, b, g, i, e);
        sum += before;
        magnitude += fabs(before);
    }
    const double error = (roundings + 8.0) * 0x1p-24 * magnitude + n * (double)FLT_MIN;
    return (struct bounded){
        sum, isfinite(sum) ? error + storage_rounding(p->dtype, fabs(sum) + error) : 0.0};
}
