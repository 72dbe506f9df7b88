/* What a device can do at best: fused multiply-adds in registers, reading and copying memory.
 *
 * MULTIPLY_ADD fma or mad: which one is the machine's own differs, and FP_FAST_FMAF does not tell
 *            (PoCL 3.1 leaves it undefined, and its mad is a multiplication and an addition)
 * LANES      floats per vector: 1, 4, 8 or 16
 * CHAINS     independent accumulators, enough to hide the latency of one
 * SEQUENTIAL 1: a work-item walks through memory of its own (CPUs); 0: neighbours read neighbours
 */
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#if LANES == 1
typedef float real;
#else
typedef PASTE(float, LANES) real;
#endif

/* 2 * LANES * CHAINS * 16 * rounds operations per work-item; a converges to y / (1 - x), so it
 * never becomes subnormal or infinite. */
__kernel void peak_fma(__global real *out, const uint rounds, const float x, const float y)
{
    const real slope = (real)(x), shift = (real)(y);
    real a[CHAINS];

    for (uint c = 0; c < CHAINS; c++)
        a[c] = (real)(1.0f + 0.001f * (float)(c + (uint)get_local_id(0)));
    for (uint r = 0; r < rounds; r++) {
#pragma unroll
        for (uint repeat = 0; repeat < 16; repeat++) {
#pragma unroll
            for (uint c = 0; c < CHAINS; c++)
                a[c] = MULTIPLY_ADD(a[c], slope, shift);
        }
    }
    for (uint c = 1; c < CHAINS; c++)
        a[0] += a[c];
    out[get_global_id(0)] = a[0];
}

#if SEQUENTIAL
#define PLACE(n) (get_global_id(0) * (size_t)count + (n))
#else
#define PLACE(n) ((n) * get_global_size(0) + get_global_id(0))
#endif

/* Each work-item reads count vectors, a multiple of 4. */
__kernel void peak_read(__global real *out, const __global real *in, const uint count)
{
    real a = (real)(0.0f), b = a, c = a, d = a;

    for (size_t n = 0; n < count; n += 4) {
        a += in[PLACE(n)];
        b += in[PLACE(n + 1)];
        c += in[PLACE(n + 2)];
        d += in[PLACE(n + 3)];
    }
    out[get_global_id(0)] = (a + b) + (c + d);
}

__kernel void peak_copy(__global real *out, const __global real *in, const uint count)
{
    for (size_t n = 0; n < count; n++)
        out[PLACE(n)] = in[PLACE(n)];
}

/* Values that no memory compresses. */
__kernel void peak_fill(__global real *out, const uint count)
{
    for (size_t n = 0; n < count; n++) {
        uint u = (uint)PLACE(n) * 2654435761u;
        u = (u ^ u >> 15) * 2246822519u;
        out[PLACE(n)] = (real)((float)(u >> 8) * 0x1p-24f);
    }
}
