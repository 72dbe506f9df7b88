/* SPDX-License-Identifier: Apache-2.0 */
/* What a device can do at best: fused multiply-adds in registers, reading and copying memory.
 *
 * REAL, HALF    float and 0, or half and 1
 * PAIRS         1: MULTIPLY_ADD is dot_pairs, two multiply-adds of bf16 pairs in each lane
 * TILES         1: tiles of bf16 are multiplied, four of them in turns (AMX)
 * LANES         of a vector: 1, 2, 4, 8 or 16
 * CHAINS        independent accumulators, enough to hide the latency of one
 * MULTIPLY_ADD  fma or mad: which one is the machine's own differs, and FP_FAST_FMAF does not tell
 *               (PoCL 3.1 leaves it undefined, and its mad is a multiplication and an addition)
 * ACCUMULATE    1: a = x * y + a, as in a product of matrices; the only one that some machines do
 *               two of at once (AMD's dual-issue FMAC). 0: a = a * x + y, the one to be used with
 *               mad, out of which a compiler could take x * y
 * SEQUENTIAL    1: a work-item walks through memory of its own (CPUs); 0: neighbours read neighbours
 */
#if PAIRS
/* As in cl/bf16/pairs.h. */
static inline float16 dot_pairs(const float16 x, const float16 y, float16 sum)
{
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
    return sum;
}
#endif
#if HALF
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#if LANES == 1
typedef REAL real;
#else
typedef PASTE(REAL, LANES) real;
#endif

#if ACCUMULATE
#define STEP(a) MULTIPLY_ADD(x, y, a)
#else
#define STEP(a) MULTIPLY_ADD(a, x, y)
#endif

#if TILES
/* As in cl/bf16/tiles.h. */
#define MULTIPLY(c) __asm__ volatile("tdpbf16ps %%tmm5, %%tmm4, %%tmm" #c : : : "memory")

/* 4 * 16 * rounds products of tiles per work-item. */
__kernel void peak_fma(__global float *out, const uint rounds, const float multiplier,
                       const float addend)
{
    uchar configuration[64] = {1};
    float x[256], y[256];
    const long row = 64;

    for (uint n = 0; n < 256; n++) {
        x[n] = multiplier;
        y[n] = addend;
    }
    for (uint t = 0; t < 8; t++) {
        configuration[16 + 2 * t] = 64;
        configuration[48 + t] = 16;
    }
    __asm__ volatile("ldtilecfg %0\n\ttilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\t"
                     "tilezero %%tmm3\n\ttileloadd (%1,%3,1), %%tmm4\n\t"
                     "tileloadd (%2,%3,1), %%tmm5"
                     :
                     : "m"(configuration), "r"(x), "r"(y), "r"(row)
                     : "memory");
    for (uint r = 0; r < rounds; r++) {
#pragma unroll
        for (uint repeat = 0; repeat < 16; repeat++) {
            MULTIPLY(0);
            MULTIPLY(1);
            MULTIPLY(2);
            MULTIPLY(3);
        }
    }
    __asm__ volatile("tilestored %%tmm0, (%0,%1,1)\n\ttilerelease" : : "r"(x), "r"(row) : "memory");
    out[get_global_id(0)] = x[0];
}
#else
/* 2 * LANES * CHAINS * 16 * rounds operations per work-item. With x just below 1 and y = 1 - x no
 * accumulator becomes subnormal or infinite: it goes to 1, or grows until y is lost in rounding. */
__kernel void peak_fma(__global real *out, const uint rounds, const float multiplier,
                       const float addend)
{
    const real x = (real)((REAL)multiplier), y = (real)((REAL)addend);
    real a[CHAINS];

    for (uint c = 0; c < CHAINS; c++)
        a[c] = (real)((REAL)(1.0f + 0.001f * (float)(c + (uint)get_local_id(0))));
    for (uint r = 0; r < rounds; r++) {
#pragma unroll
        for (uint repeat = 0; repeat < 16; repeat++) {
#pragma unroll
            for (uint c = 0; c < CHAINS; c++)
                a[c] = STEP(a[c]);
        }
    }
    for (uint c = 1; c < CHAINS; c++)
        a[0] += a[c];
    out[get_global_id(0)] = a[0];
}
#endif

/* Below 2^32: the host's buffers are small enough, and 64 bits are slow on some devices. */
#if SEQUENTIAL
#define PLACE(n) ((uint)get_global_id(0) * count + (n))
#else
#define PLACE(n) ((n) * (uint)get_global_size(0) + (uint)get_global_id(0))
#endif

/* Each work-item reads count vectors, a multiple of 4. */
__kernel void peak_read(__global real *out, const __global real *in, const uint count)
{
    real a = (real)(0.0f), b = a, c = a, d = a;

    for (uint n = 0; n < count; n += 4) {
        a += in[PLACE(n)];
        b += in[PLACE(n + 1)];
        c += in[PLACE(n + 2)];
        d += in[PLACE(n + 3)];
    }
    out[get_global_id(0)] = (a + b) + (c + d);
}

__kernel void peak_copy(__global real *out, const __global real *in, const uint count)
{
    for (uint n = 0; n < count; n++)
        out[PLACE(n)] = in[PLACE(n)];
}

/* Values that no memory compresses. */
__kernel void peak_fill(__global real *out, const uint count)
{
    for (uint n = 0; n < count; n++) {
        uint u = PLACE(n) * 2654435761u;
        u = (u ^ u >> 15) * 2246822519u;
        out[PLACE(n)] = (real)((REAL)((float)(u >> 8) * 0x1p-24f));
    }
}
