/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file quantize.h  Quantized caches of keys and values: how they are made.
 * @ingroup serving
 * A tensor (batch, kv_heads, seq, dim) of f32, f16 or bf16 becomes blocks of 32 values, neighbours
 * along dim, in a format that problems read as k or v (clattn_cache in clattn/problem.h). With x
 * the 32 values, in f32 with every operation rounded to nearest even:
 *
 *     q8_0    d = max |x| / 127              byte n   = round(x[n] * (1 / d))
 *     q4_0    d = m / -8                     nibble n = min(15, trunc(x[n] * (1 / d) + 8.5))
 *     iq4_nl  d = m / -127, then fitted      nibble n = that of the number nearest to x[n] * (1 / d)
 *     q5_0    d = m / -16                    five bits n = min(31, trunc(x[n] * (1 / d) + 16.5))
 *     q4_1    d = (max x - min x) / 15       nibble n = min(15, trunc((x[n] - min x) * (1 / d) + 0.5))
 *     q5_1    d = (max x - min x) / 31       five bits n = min(31, trunc((x[n] - min x) * (1 / d) + 0.5))
 *     e4m3    none                           byte n = x[n] rounded to nearest even, at most 448 in magnitude
 *     e5m2    none                           byte n = x[n] rounded to nearest even
 *     int8    none                           byte n = x[n] rounded to nearest even, from -128 to 127
 *
 * where m is the first of the values whose magnitude is the largest, and round() goes away from
 * zero at ties. The numbers of iq4_nl are those of CLATTN_CACHE_IQ4_NL; half way the greater one is
 * nearest. Its d is then the sum of x[n]^3 w[n] divided by the sum of x[n]^2 w[n]^2, with w the numbers
 * of the codes, sums from n = 0 on. d is stored in binary16, rounded to nearest even; bytes and bits are made with
 * the d before that. These are the bits of ggml's reference (quantize_row_q8_0_ref and so on), the
 * same on every device. The offset of q4_1 and q5_1 is min x, where a zero has no sign. e4m3 and e5m2 have the bits of
 * PyTorch's float8_e4m3fn and float8_e5m2: an infinity is 448 in e4m3, e5m2 has infinities, which magnitudes from 61440 on
 * become, and a NaN is 127, with its sign; in int8 it is 0. Values of these three are divided by their scales before
 * (clattn_problem.k_scales). Besides, in the others:
 *
 *     zeros            where |d| < 2^-100, all zeros included (m = 0), x / d counts as 0, and a 0 of d's
 *                      sign is stored: bytes are 0, nibbles 8, five bits 16, those of iq4_nl 8, and of q4_1 and q5_1 0, whose
 *                      offset stays. So d is -0, the bytes 00 80, unless m is below 0, as ggml's is, but in q8_0, q4_1 and q5_1
 *     too large        where d is beyond binary16 (65504) it is infinite, and so are the values
 *                      that read as more than 0; the others read as NaN. In q4_1 and q5_1 an offset beyond it is
 *                      infinite as well
 *     NaN, infinities  a block with one of them has a NaN for d, so that each of its values reads
 *                      as NaN, and bytes like zeros; the offset is 0
 *
 * A cache grows by rows that are quantized to their place: the layout is then that of the whole
 * cache, the sizes those of the new rows, and the offset leads to the first of them.
 */
#ifndef CLATTN_QUANTIZE_H
#define CLATTN_QUANTIZE_H

#include <clattn/attention.h>
#include <clattn/context.h>
#include <clattn/problem.h>

CLATTN_BEGIN

/** What is to be quantized, and to what. Nothing about memory is in it but layouts. */
typedef struct clattn_quantization {
    size_t struct_size; /**< sizeof(clattn_quantization). */
    clattn_dtype from;  /**< Dtype of the values that are read. */
    clattn_cache to;    /**< A format of blocks, such as CLATTN_CACHE_Q8_0. */
    size_t size[4];     /**< batch, kv_heads, seq, dim: dim a multiple of 32, others from 0 on. */
    /** Layout of the values that are read: any strides, four zeros for packed ones. */
    clattn_layout values;
    clattn_layout cache; /**< What is written, counted in values: an innermost stride of 1, the
                               others multiples of 32, no two elements in one place; four zeros for
                               packed ones. */
} clattn_quantization;

/**
 * Bytes of the blocks that hold a number of values.
 *
 * @param cache   A format of blocks, such as CLATTN_CACHE_Q8_0.
 * @param values  Such as batch * kv_heads * seq * dim; rounded up to whole blocks.
 * @return        0 for another @p cache, or where a size_t cannot hold it.
 */
CLATTN_API size_t clattn_quantized_bytes(clattn_cache cache, size_t values);

/**
 * Quantizes on the host.
 *
 * @param what    Not null.
 * @param values  Element (0, 0, 0, 0) of what is read; not null unless there is none.
 * @param cache   Receives the blocks from that of element (0, 0, 0, 0) on; not null unless there is
 *                none. Bytes between the blocks keep their values. Must not overlap @p values.
 *                Untouched on failure.
 * @retval CLATTN_SUCCESS           Quantized.
 * @retval CLATTN_INVALID_ARGUMENT  A null, or a struct_size of none of this library's versions.
 * @retval CLATTN_INVALID_PROBLEM   A format, a size or a layout outside of what is said above, or
 *                                  one that reaches over more than 2^58 elements.
 */
CLATTN_API clattn_status clattn_quantize_host(const clattn_quantization *what, const void *values,
                                              void *cache);

/**
 * Enqueues the same on the device. The first call on a context compiles a program, and checks it
 * like those of plans.
 *
 * @param context   Not null.
 * @param what      Not null; read during the call only.
 * @param queue     On the context's device and OpenCL context; in-order or out-of-order.
 * @param values    Not null. What is read, with its offset in elements; its buffer may be NULL if
 *                  there is nothing. Borrowed, like the next one: the caller keeps the buffer until
 *                  the work has finished.
 * @param cache     Not null. What is written, with its offset in values, a multiple of 32. Bytes
 *                  between the blocks keep their values. Must not overlap @p values.
 * @param num_wait  Events to wait for before anything is read or written.
 * @param wait      @p num_wait events of the same OpenCL context; NULL if and only if it is 0.
 * @param done      NULL, or receives an event for the end of the work, which the caller releases;
 *                  NULL again on failure.
 * @retval CLATTN_SUCCESS           Enqueued, not finished.
 * @retval CLATTN_INVALID_ARGUMENT  A null, a struct_size of none of this library's versions, a
 *                                  queue, buffer or event of another context or device, a buffer
 *                                  that kernels may not read or write, an overlap, an offset into a
 *                                  block, an event that has failed.
 * @retval CLATTN_INVALID_PROBLEM   As for clattn_quantize_host().
 * @retval CLATTN_BUFFER_TOO_SMALL  Values or cache reach past the end of their buffers.
 * @retval CLATTN_BUILD_FAILED      The program does not compile.
 * @retval CLATTN_NO_COMPILER       The device has no compiler, and the cache directory no program.
 * @retval CLATTN_MISCOMPILED       The program failed its self-check.
 * @retval CLATTN_OUT_OF_MEMORY     No host or device memory.
 * @retval CLATTN_OPENCL_ERROR      An OpenCL call failed.
 */
CLATTN_API clattn_status clattn_quantize(clattn_context *context, const clattn_quantization *what,
                                         cl_command_queue queue, const clattn_buffer *values,
                                         const clattn_buffer *cache, cl_uint num_wait,
                                         const cl_event *wait, cl_event *done);

CLATTN_END

#endif
