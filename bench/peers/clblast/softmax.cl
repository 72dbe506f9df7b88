/* SPDX-License-Identifier: Apache-2.0 */
/* The softmax between two matrix products, in the place of the scores: one work-group per row.
 *
 * scores (entries, rows, stride): q k^T scaled; row says which query they are of.
 *        Columns are keys from first_key on. Afterwards every column below `keys` holds its weight.
 * NDRange local (L, 1, 1), global (L, rows, entries).
 *
 * LANES      elements at a time: 1 on GPUs, where neighbours read neighbours; 16 on CPUs, whose
 *            work-groups are one work-item. Strides of rows are multiples of it.
 * CACHED     0, or room in local memory for a row of so many floats
 * HALF       scores are f16
 * SEQ_Q, SEQ_KV  sizes
 * LEFT, RIGHT keys that are visible before and after the diagonal
 * DIAGONAL   what that counts from */
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#if LANES == 1
typedef float real;
typedef int whole;
#define NUMBERS 0
#define READ(from) (*(from))
#define WRITE(value, to) (*(to) = (value))
#define READ_HALF(from) vload_half(0, from)
#define WRITE_HALF(value, to) vstore_half(value, 0, to)
#else
typedef PASTE(float, LANES) real;
typedef PASTE(int, LANES) whole;
#define NUMBERS (whole)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define READ(from) PASTE(vload, LANES)(0, from)
#define WRITE(value, to) PASTE(vstore, LANES)(value, 0, to)
#define READ_HALF(from) PASTE(vload_half, LANES)(0, from)
#define WRITE_HALF(value, to) PASTE(vstore_half, LANES)(value, 0, to)
#endif

#if HALF
typedef half storage;
#define READ_SCORES READ_HALF
#define WRITE_SCORES WRITE_HALF
#else
typedef float storage;
#define READ_SCORES READ
#define WRITE_SCORES WRITE
#endif

/* Values that the passes over a row keep between them. */
#if CACHED
#define KEEP(value, j) WRITE(value, kept + (j))
#define KEPT(j) READ(kept + (j))
#else
#define KEEP(value, j) WRITE_SCORES(value, s + (j))
#define KEPT(j) READ_SCORES(s + (j))
#endif

float fold_max(const real x)
{
    float part[LANES], most = -INFINITY;

    WRITE(x, part);
    for (uint n = 0; n < LANES; n++)
        most = fmax(most, part[n]);
    return most;
}

float fold_sum(const real x)
{
    float part[LANES], sum = 0.0f;

    WRITE(x, part);
    for (uint n = 0; n < LANES; n++)
        sum += part[n];
    return sum;
}

__kernel void softmax(__global storage *scores, const uint rows, const uint keys, const uint stride,
                      const uint first_row, const uint first_key, __local float *shared)
{
    const uint lid = get_local_id(0), width = get_local_size(0);
    const uint row = get_global_id(1), entry = get_global_id(2);
    const uint i = (first_row + row) % SEQ_Q;
    __global storage *s = scores + ((size_t)entry * rows + row) * stride;
#if CACHED
    __local float *kept = shared + width;
#endif

    /* Visible columns. */
    const long now = (long)i + DIAGONAL - (long)first_key;
    const long end = min(min(now + RIGHT + 1, (long)SEQ_KV - (long)first_key), (long)keys);
    const int low = (int)min(max(now - LEFT, 0L), (long)keys), high = (int)max(end, 0L);
    const uint from = (uint)low / LANES * LANES + lid * LANES, step = width * LANES;
    real top = -INFINITY, sum = 0.0f;

    for (uint j = from; (int)j < high; j += step) {
        const whole place = (whole)((int)j) + NUMBERS;
        real x = READ_SCORES(s + j);
        x = place >= low && place < high ? x : (real)(-INFINITY);
        top = fmax(top, x);
        KEEP(x, j);
    }
    float most = fold_max(top);
    for (uint half_width = width / 2; half_width > 0; half_width /= 2) {
        shared[lid] = most;
        barrier(CLK_LOCAL_MEM_FENCE);
        most = fmax(most, shared[lid ^ half_width]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const bool nothing = most == -INFINITY;
    for (uint j = from; (int)j < high; j += step) {
        const real x = KEPT(j);
        const real p = nothing ? (real)(0.0f) : exp(x - most);
        sum += p;
        KEEP(p, j);
    }
    float total = fold_sum(sum);
    for (uint half_width = width / 2; half_width > 0; half_width /= 2) {
        shared[lid] = total;
        barrier(CLK_LOCAL_MEM_FENCE);
        total += shared[lid ^ half_width];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float share = nothing ? 0.0f : 1.0f / total;
    for (uint j = lid * LANES; j < (uint)low / LANES * LANES; j += step)
        WRITE_SCORES((real)(0.0f), s + j);
    uint j = from;
    for (; (int)j < high; j += step)
        WRITE_SCORES(KEPT(j) * share, s + j);
    for (; j < keys; j += step)
        WRITE_SCORES((real)(0.0f), s + j);
}
