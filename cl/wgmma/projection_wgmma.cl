/* projection_wgmma: y = x w as in projection_mma.cl, whose tiles, splits and stores it has, with products of warpgroups
 * (cl/mma/warpgroup_tile.h): NVIDIA's wgmma, of Hopper.
 *
 * Sub-groups SUB_GROUPS of them share the tile's rows, 16 for each, and have the sums of all its columns in registers.
 * Local      a stage of x in rows, from which a sub-group loads its operands, and of w as it lies, along the depth or
 *            across, which the tensor cores read. It is copied in the background, of which other work-groups of the
 *            multiprocessor make use: local memory has room for one stage of each.
 * Depth      where a stage is part of one head of x, and heads, rows and columns are whole pieces of 16 bytes, which
 *            is when the family takes a problem, pieces are copied; else, in problems that share the program, elements.
 * Ragged     Rows beyond the last repeat it, columns too or are 0, and are not stored; the depth ends with zeros.
 * Tunables   src/families/tunables/projection_wgmma.def, all defined by the host; no fallbacks here. */
#define INSTRUCTION 7
#define SUB_GROUPS_M SUB_GROUPS
#define SUB_GROUPS_N 1
#define BLOCK_M (16 * SUB_GROUPS)
#define BLOCK_K 64
#define STAGES 1
#include "kernels/projection_mma.cl"
#include "mma/warpgroup_tile.h"

#define X_STRIDE (BLOCK_K + ROW_PADDING)
#define W_ELEMENTS (BLOCK_N * BLOCK_K)

/* Whether x and w can be copied in pieces, a stage's from places that are so far from its first one's as in local
 * memory. */
INLINE bool has_pieces(const struct attention_shape a, const __global storage *x,
                       const __global storage *w)
{
#if !UNIT_X_COLUMN || !(UNIT_W_COLUMN || UNIT_W_ROW)
    return false;
#else
    const long x_steps = a.q_stride[0] | a.q_stride[1] | a.q_stride[2];
#if UNIT_W_COLUMN
    const long w_steps = a.k_stride[0] | a.k_stride[1] | a.k_stride[2] | a.dim_v;
#else
    const long w_steps = a.k_stride[0] | a.k_stride[2] | a.k_stride[3];
#endif

    return ((x_steps | w_steps | a.dim_qk) & 7) == 0 &&
           (a.kv_heads == 1 || a.dim_qk % BLOCK_K == 0) && (((size_t)x | (size_t)w) & 15) == 0;
#endif
}

/* Where a stage begins: its depth, in its head of x, and the places of that in x and w. */
struct stage {
    long k, inner, x, w;
};

INLINE struct stage first_stage(const struct attention_shape a, const struct task *t)
{
    const struct stage s = {t->begin, t->begin % a.dim_qk, place(t->depths_of_x, t->begin),
                            place(t->depths_of_w, t->begin)};

    return s;
}

INLINE struct stage next_stage(const struct attention_shape a, const struct task *t,
                               struct stage s)
{
    s.k += BLOCK_K;
    s.inner += BLOCK_K;
    s.x += BLOCK_K * t->depths_of_x.inner_step;
    s.w += BLOCK_K * t->depths_of_w.inner_step;
    if (s.inner >= a.dim_qk) { /* the next head of x */
        s.inner -= a.dim_qk;
        s.x += t->depths_of_x.outer_step - a.dim_qk * t->depths_of_x.inner_step;
        s.w += t->depths_of_w.outer_step - a.dim_qk * t->depths_of_w.inner_step;
    }
    return s;
}

/* `lines` lines of a stage along the depth to rows of a tile, swizzled or not: of x its rows, of w its columns. left:
 * depth that there is; places: of lines; at: of the stage's first depth, `depths` of any. */
INLINE void copy_along(const __global storage *matrix, const __local long *places, const int lines,
                       const long at, const struct pair depths, const long k, const long left,
                       const bool pieces, __local ushort *tile, const int stride)
{
    const uint thread = THIS_THREAD, column = thread % (BLOCK_K / 8) * 8;

    if (pieces) {
        UNROLL
        for (int n = 0; n < lines; n += THREADS / (BLOCK_K / 8)) {
            const int line = n + thread / (BLOCK_K / 8);
            copy_chunk(tile + row_at(stride, lines, line, column),
                       matrix + at + places[line] + column, column < left);
        }
        return;
    }
    _Pragma("unroll 1")
    for (int x = thread; x < lines * BLOCK_K; x += THREADS) {
        const int line = x / BLOCK_K, d = x % BLOCK_K;
        tile[row_at(stride, lines, line, d)] =
            d < left ? load_element(matrix + places[line] + place(depths, k + d)) : (ushort)0;
    }
}

#if UNIT_W_COLUMN
/* A stage of w across the depth, to rows of as many columns as the tile has, of which there are `columns`. */
INLINE void copy_across(const __global storage *matrix, const __local long *places,
                        const long at, const long row_step, const struct pair depths, const long k,
                        const long left, const long columns, const bool pieces,
                        __local ushort *tile)
{
    const uint thread = THIS_THREAD, column = thread % (BLOCK_N / 8) * 8;

    if (pieces) {
        UNROLL
        for (int n = 0; n < BLOCK_K; n += THREADS / (BLOCK_N / 8)) {
            const int row = n + thread / (BLOCK_N / 8);
            copy_chunk(tile + row_at(BLOCK_N, BLOCK_K, row, column),
                       matrix + at + places[column] + row * row_step,
                       row < left && column < columns);
        }
        return;
    }
    _Pragma("unroll 1")
    for (int x = thread; x < BLOCK_K * BLOCK_N; x += THREADS) {
        const int row = x / BLOCK_N, n = x % BLOCK_N;
        tile[row_at(BLOCK_N, BLOCK_K, row, n)] =
            row < left ? load_element(matrix + places[n] + place(depths, k + row)) : (ushort)0;
    }
}
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE
void projection_wgmma(PARAMETERS_projection_wgmma)
{
    __local uint4 tiles[(W_ELEMENTS + BLOCK_M * X_STRIDE) / 8] __attribute__((aligned(1024)));
    __local long x_rows[BLOCK_M], w_columns[BLOCK_N];
#if EMULATE
    __local float exchanges[SUB_GROUPS * EXCHANGE_WORDS];
    __local float *const exchange = exchanges + THIS_THREAD / FRAGMENT_LANES * EXCHANGE_WORDS;
#endif
    __local ushort *const w_tile = (__local ushort *)tiles, *const x_tile = w_tile + W_ELEMENTS;
    const int lane = THIS_THREAD % FRAGMENT_LANES;
    const int first_row = THIS_THREAD / FRAGMENT_LANES * FRAGMENT_QUERIES;
    const struct task t = find_task(a, at, x, w);
    const bool pieces = has_pieces(a, x + at.q, w + at.k);
    struct stage s = first_stage(a, &t);
    float sums[M_FRAGMENTS][SUMS];

    REGISTERS_FOR_GROUPS();
    x += at.q;
    w += at.k;
    find_rows_and_columns(a, &t, x_rows, w_columns);
    UNROLL
    for (int n = 0; n < SUMS; n++)
        sums[0][n] = 0.0f;
    for (; s.k < t.end; s = next_stage(a, &t, s)) {
        uint operands[BLOCK_K / FRAGMENT_DEPTH][QUERY_WORDS];
        LOCAL_BARRIER(); /* the places are complete, what was there may be overwritten */
        copy_along(x, x_rows, BLOCK_M, s.x, t.depths_of_x, s.k, t.end - s.k, pieces, x_tile,
                   X_STRIDE);
#if UNIT_W_COLUMN
        copy_across(w, w_columns, s.w, W_ROW_STEP, t.depths_of_w, s.k, t.end - s.k,
                    t.columns - t.column, pieces, w_tile);
#else
        copy_along(w, w_columns, BLOCK_N, s.w, t.depths_of_w, s.k, t.end - s.k, pieces, w_tile,
                   BLOCK_K);
#endif
        copies_wait();
        LOCAL_BARRIER(); /* the stage is complete */
        UNROLL
        for (int d = 0; d < BLOCK_K; d += FRAGMENT_DEPTH)
            load_query(operands[d / FRAGMENT_DEPTH], x_tile + first_row * X_STRIDE + d, X_STRIDE,
                       lane);
        if (UNIT_W_COLUMN)
            add_rows_of_tile(operands, 1, BLOCK_K, w_tile, BLOCK_N, sums[0] FRAGMENT_ARG);
        else
            multiply_rows_of_tile(operands, BLOCK_K, w_tile, BLOCK_N, true, sums[0] FRAGMENT_ARG);
    }
    STORE_SUMS(first_row, 0);
}
