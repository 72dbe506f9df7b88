/* SPDX-License-Identifier: Apache-2.0 */
/* quantize: rows of f32, f16 or bf16 become blocks of 32 values (clattn/quantize.h says how,
 * src/problem/formats.def what they look like).
 *
 * NDRange   One dimension, local of any size: a work-item makes a block, those of a row after each
 *           other; work-items past the last block have nothing to do.
 * Exact     The bits are the same on every device (formats/make_blocks.h).
 * One program serves all dtypes and formats: it is bound by memory, and built only once. */
#include "common/arguments.h"
#include "formats/make_blocks.h"

#define DTYPE_F32 0
#define DTYPE_F16 1
#define VALUES BLOCK_VALUES

static inline float load(const int dtype, const __global void *values, const long n)
{
    if (dtype == DTYPE_F32)
        return ((const __global float *)values)[n];
    if (dtype == DTYPE_F16)
        return vload_half((size_t)n, (const __global half *)values);
    return as_float((uint)((const __global ushort *)values)[n] << 16);
}

__kernel void quantize(const long4 size, const long4 from_stride, const long4 to_stride,
                       const long from, const long to, const int dtype, const int format,
                       const __global void *values, __global uchar *blocks)
{
    const long per_row = size.w / VALUES;
    const long n = get_global_id(0), row = n / per_row, bh = row / size.z;
    const long d = (n - row * per_row) * VALUES, s = row - bh * size.z;
    const long b = bh / size.y, h = bh - b * size.y;
    const long first =
        from + b * from_stride.x + h * from_stride.y + s * from_stride.z + d * from_stride.w;
    const long place = to + b * to_stride.x + h * to_stride.y + s * to_stride.z + d;
    __global uchar *const block = blocks + (place >> 5) * BLOCK_BYTES(format);
    __global uchar *const codes = block + codes_at(format);
    const struct block_layout layout = layout_of(format);
    float x[VALUES], as_read[VALUES], most = 0.0f, peak = 0.0f, least = INFINITY,
                                      greatest = -INFINITY;
    bool finite = true;

    if (b >= size.x)
        return;
    for (int c = 0; c < VALUES; c++) {
        x[c] = as_read[c] = load(dtype, values, first + c * from_stride.w);
        finite = finite && x[c] - x[c] == 0.0f;
        peak = fabs(x[c]) > most ? x[c] : peak;
        most = fmax(most, fabs(x[c]));
        least = fmin(least, x[c]);
        greatest = fmax(greatest, x[c]);
    }
    if (layout.scale < 0) {
        for (int c = 0; c < VALUES; c++)
            codes[c] = (uchar)code_of_value(format, x[c]);
        return;
    }
    const struct range range = range_of(least, greatest);
    float scale = scale_of_block(format, layout.offset          ? range.above
                                         : made_of_peak(format) ? peak
                                                                : most);
    const bool zeros = !finite || fabs(scale) < LEAST_SCALE;
    const float factor = zeros ? 0.0f : reciprocal(scale);
    for (int c = 0; c < VALUES; c++)
        x[c] = zeros ? 0.0f : less_offset(layout, x[c], range) * factor;
    if (layout.fits && !zeros) {
        struct fit fit = begin_fit(most);
        for (int c = 0; c < VALUES; c++)
            add_to_fit(&fit, as_read[c] * fit.down,
                       number_of_code(format, (uchar)code_of_value(format, x[c]), 0, 0));
        scale = fitted_scale(fit);
    }
    if (layout.offset)
        vstore_half_rte(finite ? range.least : 0.0f, 0, (__global half *)(block + layout.offset));
    if (finite)
        vstore_half_rte(scale, 0, (__global half *)(block + layout.scale));
    else
        *(__global ushort *)(block + layout.scale) = 0x7e00;
    if (bits_of_codes(format) == 8) {
        for (int c = 0; c < VALUES; c++)
            codes[c] = (uchar)code_of_value(format, x[c]);
        return;
    }
    uint fifth = 0;
    for (int c = 0; c < VALUES / 2; c++) {
        const int low = code_of_value(format, x[c]);
        const int high = code_of_value(format, x[c + VALUES / 2]);
        codes[c] = (uchar)((low & 15) | high << 4);
        fifth |= (uint)(low >> 4 | high >> 4 << 16) << c;
    }
    store_fifth_bits(format, fifth, block);
}
