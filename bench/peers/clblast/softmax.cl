/* SPDX-License-Identifier: Apache-2.0 */
/* The softmax between two matrix products, in the place of the scores: one work-group per row.
 *
 * scores (entries, rows, stride): q k^T scaled; entry and row say which head and query they are of.
 *        Columns are keys from first_key on. Afterwards every column below `keys` holds its weight.
 * NDRange local (L, 1, 1), global (L, rows, entries).
 *
 * LANES      elements at a time: 1 on GPUs, where neighbours read neighbours; 16 on CPUs, whose
 *            work-groups are one work-item. Strides of rows are multiples of it.
 * CACHED     0, or room in local memory for a row of so many floats
 * HALF       scores are f16
 * BATCHES, HEADS, KV_HEADS, SEQ_Q, SEQ_KV  sizes
 * SOFTCAP    where scores are capped: by so much
 * LEFT, RIGHT keys that are visible before and after the diagonal
 * DIAGONAL   that offset, or BOTTOM_RIGHT instead
 * ADDEND_B, ADDEND_H, ADDEND_I strides of the addend, where there is one
 * ALIBI, SINKS, Q_LENGTHS, KV_LENGTHS where there are some */
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

/* What the passes over a row keep between them. */
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
                      const uint slice, const uint same_slice, const uint first_row,
                      const uint first_key, __global const float *addend,
                      __global const float *slopes, __global const float *sinks,
                      __global const int *q_lengths, __global const int *kv_lengths,
                      __local float *shared)
{
    const uint lid = get_local_id(0), width = get_local_size(0);
    const uint row = get_global_id(1), entry = get_global_id(2);
    const uint kv_head = slice + (same_slice ? 0 : entry);
    const uint r = first_row + row + (same_slice ? entry * SEQ_Q : 0);
    const uint b = kv_head / KV_HEADS, i = r % SEQ_Q;
    const uint h = kv_head % KV_HEADS * (HEADS / KV_HEADS) + r / SEQ_Q;
    __global storage *s = scores + ((size_t)entry * rows + row) * stride;
#if CACHED
    __local float *kept = shared + width;
#endif
    long keys_used = SEQ_KV, queries_used = SEQ_Q;

#ifdef Q_LENGTHS
    queries_used = clamp((long)q_lengths[b], 0L, (long)SEQ_Q);
#endif
#ifdef KV_LENGTHS
    keys_used = clamp((long)kv_lengths[b], 0L, (long)SEQ_KV);
#endif
#ifdef BOTTOM_RIGHT
    const long diagonal = keys_used - queries_used;
#else
    const long diagonal = DIAGONAL;
#endif
    /* Visible columns; none of rows that are not in use. */
    const long now = (long)i + diagonal - (long)first_key;
    const long end = min(min(now + RIGHT + 1, keys_used - (long)first_key), (long)keys);
    const long begin = i < queries_used ? max(now - LEFT, 0L) : end;
    const int low = (int)min(begin, (long)keys), high = (int)max(end, 0L);
    const uint from = (uint)low / LANES * LANES + lid * LANES, step = width * LANES;
    real top = -INFINITY, sum = 0.0f;

    for (uint j = from; (int)j < high; j += step) {
        const whole place = (whole)((int)j) + NUMBERS;
        real x = READ_SCORES(s + j);
#ifdef SOFTCAP
        x = SOFTCAP * tanh(x / SOFTCAP);
#endif
#ifdef ADDEND_B
        x += READ(addend + (b * (size_t)ADDEND_B + h * (size_t)ADDEND_H + i * (size_t)ADDEND_I) +
                  first_key + j);
#endif
#ifdef ALIBI
#if LANES == 1
        x += slopes[h] * (float)((long)j - now);
#else
        x += slopes[h] * (PASTE(convert_float, LANES)(NUMBERS) + (float)((long)j - now));
#endif
#endif
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
#ifdef SINKS
    most = fmax(most, sinks[h]);
#endif
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
#ifdef SINKS
    total += exp(sinks[h] - most);
#endif
    const float share = nothing ? 0.0f : 1.0f / total;
    for (uint j = lid * LANES; j < (uint)low / LANES * LANES; j += step)
        WRITE_SCORES((real)(0.0f), s + j);
    uint j = from;
    for (; (int)j < high; j += step)
        WRITE_SCORES(KEPT(j) * share, s + j);
    for (; j < keys; j += step)
        WRITE_SCORES((real)(0.0f), s + j);
}
