/* projection_wgmma: y = x w as in projection_mma.cl, whose tiles, splits and stores it has, with products of warpgroups
 * (cl/mma/warpgroup_tile.h): NVIDIA's wgmma, of Hopper.
 *
 * Sub-groups SUB_GROUPS of them share the tile's rows, 16 for each, and have the sums of all its columns in registers.
 * Local      STAGES tiles of x, in rows, and of w as it lies, along the depth or across, which the tensor cores read. They
 *            are copied in the background, while those before are multiplied; with one stage only other work-groups
 *            of the multiprocessor make use of that.
 * Depth      where a stage is part of one head of x, and heads, rows and columns are whole pieces of 16 bytes, which
 *            is when the family takes a problem, pieces are copied; else, in problems that share the program, elements.
 * Ragged     Rows beyond the last repeat it, columns too or are 0, and are not stored; the depth ends with zeros.
 * Tunables   src/families/tunables/projection_wgmma.def, all defined by the host; no fallbacks here. */
#define INSTRUCTION 7
#define SUB_GROUPS_M SUB_GROUPS
#define SUB_GROUPS_N 1
#define BLOCK_M (16 * SUB_GROUPS)
#define BLOCK_K 64
#include "kernels/projection_mma.cl"
#include "mma/warpgroup_tile.h"

#define STAGE_ELEMENTS ((BLOCK_M + BLOCK_N) * BLOCK_K)

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

/* `lines` lines of a stage along the depth to rows of a tile: of x its rows, of w its columns. left:
 * depth that there is; places: of lines; at: of the stage's first depth, `depths` of any. */
INLINE void copy_along(const __global storage *matrix, const __local long *places, const int lines,
                       const long at, const struct pair depths, const long k, const long left,
                       const bool pieces, __local ushort *tile)
{
    const uint thread = THIS_THREAD, column = thread % (BLOCK_K / 8) * 8;

    if (pieces) {
        UNROLL
        for (int n = 0; n < lines; n += THREADS / (BLOCK_K / 8)) {
            const int line = n + thread / (BLOCK_K / 8);
            copy_chunk(tile + row_at(BLOCK_K, lines, line, column),
                       matrix + at + places[line] + column, column < left);
        }
        return;
    }
    _Pragma("unroll 1")
    for (int x = thread; x < lines * BLOCK_K; x += THREADS) {
        const int line = x / BLOCK_K, d = x % BLOCK_K;
        tile[row_at(BLOCK_K, lines, line, d)] =
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

/* Stages that are copied ahead. With three and more one is multiplied while the next one's products are asked for. */
#define AHEAD (STAGES > 2 ? STAGES - 2 : STAGES - 1)
#if STAGES > 2
#define PRODUCTS_WAIT_ONE_STAGE() PRODUCTS_WAIT(1)
#else
#define PRODUCTS_WAIT_ONE_STAGE() PRODUCTS_WAIT(0)
#endif

/* The stage `ahead`, if there is one, to the n-th place; ahead is the next one then. */
#define COPY_STAGE(n)                                                                              \
    if (ahead.k < t.end) {                                                                         \
        __local ushort *const to = (__local ushort *)tiles + (n)*STAGE_ELEMENTS;                   \
        copy_along(x, x_rows, BLOCK_M, ahead.x, t.depths_of_x, ahead.k, t.end - ahead.k, pieces,   \
                   to);                                                                            \
        COPY_W(to + BLOCK_M * BLOCK_K);                                                            \
        ahead = next_stage(a, &t, ahead);                                                          \
    }
#if UNIT_W_COLUMN
#define COPY_W(to)                                                                                 \
    copy_across(w, w_columns, ahead.w, W_ROW_STEP, t.depths_of_w, ahead.k, t.end - ahead.k,        \
                t.columns - t.column, pieces, to)
#else
#define COPY_W(to)                                                                                 \
    copy_along(w, w_columns, BLOCK_N, ahead.w, t.depths_of_w, ahead.k, t.end - ahead.k, pieces,    \
               to)
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE
void projection_wgmma(PARAMETERS_projection_wgmma)
{
    __local uint4 tiles[STAGES * STAGE_ELEMENTS / 8] __attribute__((aligned(1024)));
    __local long x_rows[BLOCK_M], w_columns[BLOCK_N];
#if EMULATE
    __local float exchanges[SUB_GROUPS * EXCHANGE_WORDS];
    __local float *const exchange = exchanges + THIS_THREAD / FRAGMENT_LANES * EXCHANGE_WORDS;
#endif
    const int lane = THIS_THREAD % FRAGMENT_LANES;
    const int first_row = THIS_THREAD / FRAGMENT_LANES * FRAGMENT_QUERIES;
    const struct task t = find_task(a, at, x, w);
    const bool pieces = has_pieces(a, x + at.q, w + at.k);
    struct stage ahead = first_stage(a, &t);
    float sums[M_FRAGMENTS][SUMS];
    int now = 0; /* which of the stages */

    REGISTERS_FOR_GROUPS();
    x += at.q;
    w += at.k;
    find_rows_and_columns(a, &t, x_rows, w_columns);
    UNROLL
    for (int n = 0; n < SUMS; n++)
        sums[0][n] = 0.0f;
    LOCAL_BARRIER(); /* the places are complete */
    UNROLL
    for (int n = 0; n < AHEAD; n++) {
        COPY_STAGE(n);
        copies_begin();
    }
    for (long k = t.begin; k < t.end; k += BLOCK_K) {
        __local ushort *const x_tile = (__local ushort *)tiles + now * STAGE_ELEMENTS;
        if (AHEAD == 0) {
            LOCAL_BARRIER(); /* what was there may be overwritten */
            COPY_STAGE(0);
            copies_begin();
        }
        COPIES_WAIT_BUT(AHEAD > 1 ? AHEAD - 1 : 0);
        LOCAL_BARRIER(); /* the stage is complete, the one before the last may be overwritten */
        if (UNIT_W_COLUMN)
            begin_tile_sums(x_tile, first_row / 64 * 64, BLOCK_M, BLOCK_K, x_tile + BLOCK_M * BLOCK_K,
                            BLOCK_N, sums[0] FRAGMENT_ARG);
        else
            begin_tile_products(x_tile, first_row / 64 * 64, BLOCK_M, BLOCK_K,
                                x_tile + BLOCK_M * BLOCK_K, BLOCK_N, true, sums[0] FRAGMENT_ARG);
        if (AHEAD > 0) {
            COPY_STAGE((now + AHEAD) % STAGES);
            copies_begin();
        }
        PRODUCTS_WAIT_ONE_STAGE();
        now = now + 1 == STAGES ? 0 : now + 1;
    }
    PRODUCTS_WAIT(0);
    SUMS_HERE(sums[0], SUMS);
    STORE_SUMS(first_row, 0);
}
