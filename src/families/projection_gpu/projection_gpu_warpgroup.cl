/* SPDX-License-Identifier: Apache-2.0 */
/* projection_gpu_warpgroup: y = x w with the tiles, splits and stores of projection_gpu_mma.cl, and products of warpgroups
 * (cl/mma/warpgroup_tile.h): NVIDIA's wgmma, of Hopper.
 *
 * Sub-groups SUB_GROUPS of them share the tile's rows, 16 for each, and have the sums of all its columns in registers.
 * Local      The tensor cores read STAGES tiles of x, in rows, and of w in its own layout, along the depth or across.
 *            Copies run in the background while earlier tiles are multiplied; with one stage only other work-groups
 *            of the multiprocessor profit from that.
 * Depth      The family takes a problem if a stage is part of one head of x, and heads, rows and columns are whole
 *            pieces of 16 bytes: these are copied. Other problems that share the program copy elements.
 * Ragged     Rows beyond the last repeat it, columns do so or are 0; none is stored. The depth ends with zeros.
 * Tunables   src/families/projection_gpu/projection_gpu_warpgroup.def, all defined by the host; no fallbacks here. */
#define INSTRUCTION 7
#define SUB_GROUPS_M SUB_GROUPS
#define SUB_GROUPS_N 1
#define BLOCK_M (16 * SUB_GROUPS)
#define BLOCK_K 64
#define COPIES 0
#include "mma/fragment_wgmma.h"
#include "mma/projection_tile.h"
#include "mma/projection_stages.h"
#include "mma/warpgroup_tile.h"

/* Lines of a stage, along the depth or rows across it, that the work-group copies at once in pieces. */
#define LINES_AT_ONCE (THREADS / (BLOCK_K / 8))
#define ROWS_AT_ONCE (THREADS / (BLOCK_N / 8))
/* Loops over a thread's lines go to the larger count of x and w: see MAX_DIM_TILES in
 * cl/mma/fragment_gradients.h. */
#define MOST_LINES ((BLOCK_M > BLOCK_N ? BLOCK_M : BLOCK_N) / LINES_AT_ONCE)

/* A thread's addresses of its pieces of a stage at depth 0: one for each line along the depth of x
 * and w, or w's first row if w lies across. They stay in registers: with addresses in local memory
 * each stage would wait for them. */
struct pieces {
    const __global element *x[BLOCK_M / LINES_AT_ONCE];
#if UNIT_W_COLUMN
    const __global element *w;
#else
    const __global element *w[BLOCK_N / LINES_AT_ONCE];
#endif
    int inside; /* whether w has the columns of a row across the depth */
};

INLINE void find_lines(const __global element **lines, const int count,
                       const __global element *matrix, const __local long *places)
{
    UNROLL
    for (int n = 0; n < MOST_LINES; n++)
        if (n < count)
            lines[n] = matrix + places[n * LINES_AT_ONCE + THIS_THREAD / (BLOCK_K / 8)] +
                       THIS_THREAD % (BLOCK_K / 8) * 8;
}

INLINE void find_pieces(const struct projection_arguments *args, const struct task *t,
                        const __local long *x_rows, const __local long *w_columns,
                        struct pieces *from)
{
    find_lines(from->x, BLOCK_M / LINES_AT_ONCE, ELEMENTS_OF_X(args), x_rows);
#if UNIT_W_COLUMN
    const int column = THIS_THREAD % (BLOCK_N / 8) * 8;

    from->w = ELEMENTS_OF_W(args) + w_columns[column] + THIS_THREAD / (BLOCK_N / 8) * W_ROW_STEP;
    from->inside = t->column + column < t->columns;
#else
    find_lines(from->w, BLOCK_N / LINES_AT_ONCE, ELEMENTS_OF_W(args), w_columns);
#endif
}

/* Copies the thread's pieces of `count` lines along the depth to rows of a tile; at: the offset of
 * the stage's first depth; `left` of the depth remain. Rows eight apart have the same swizzle. */
INLINE void copy_lines(const __global element **lines, const int count, const long at,
                       const long left, __local ushort *tile)
{
    const uint line = THIS_THREAD / (BLOCK_K / 8), column = THIS_THREAD % (BLOCK_K / 8) * 8;
    const bool inside = column < left;
    __local ushort *const to = tile + row_at(BLOCK_K, 0, line, column);

    UNROLL
    for (int n = 0; n < MOST_LINES; n++)
        if (n < count)
            copy_chunk(to + n * LINES_AT_ONCE * BLOCK_K, lines[n] + at, inside);
}

#if UNIT_W_COLUMN
/* Copies the thread's pieces of the stage's rows of w across the depth. */
INLINE void copy_rows_across(const struct pieces *from, const long at, const long row_step,
                             const long left, __local ushort *tile)
{
    const uint row = THIS_THREAD / (BLOCK_N / 8), column = THIS_THREAD % (BLOCK_N / 8) * 8;
    const long rows = from->inside ? left - row : 0;
    const __global element *p = from->w + at;

    UNROLL
    for (int n = 0; n < BLOCK_K; n += ROWS_AT_ONCE) {
        copy_chunk(tile + (ROWS_AT_ONCE % 8 == 0 ? row_at(BLOCK_N, BLOCK_K, row, column) + n * 64
                                                 : row_at(BLOCK_N, BLOCK_K, n + row, column)),
                   p, left >= BLOCK_K ? from->inside : n < rows);
        p += ROWS_AT_ONCE * row_step;
    }
}
#endif

/* Loads the elements of a stage one by one, for problems that do not have pieces: `lines` lines
 * along the depth. places: the offsets of the lines; depths: those of the depth, from k on. */
INLINE void load_along(const __global element *matrix, const __local long *places, const int lines,
                       const struct pair depths, const long k, const long left,
                       __local ushort *tile)
{
    _Pragma("unroll 1") for (int x = THIS_THREAD; x < lines * BLOCK_K; x += THREADS)
    {
        const int line = x / BLOCK_K, d = x % BLOCK_K;
        tile[row_at(BLOCK_K, lines, line, d)] =
            d < left ? load_element(matrix + places[line] + place(depths, k + d)) : (ushort)0;
    }
}

#if UNIT_W_COLUMN
INLINE void load_across(const __global element *matrix, const __local long *places,
                        const struct pair depths, const long k, const long left,
                        __local ushort *tile)
{
    _Pragma("unroll 1") for (int x = THIS_THREAD; x < BLOCK_K * BLOCK_N; x += THREADS)
    {
        const int row = x / BLOCK_N, n = x % BLOCK_N;
        tile[row_at(BLOCK_N, BLOCK_K, row, n)] =
            row < left ? load_element(matrix + places[n] + place(depths, k + row)) : (ushort)0;
    }
}
#endif

/* The number of stages that are copied ahead. With at least three STAGES one stage is multiplied
 * while the products of the next are started. */
#define AHEAD (STAGES > 2 ? STAGES - 2 : STAGES - 1)

/* Copies the stage `ahead`, if there is one, to buffer n, and advances `ahead` by a stage. */
#define COPY_STAGE(n)                                                                              \
    if (ahead.k < t.end) {                                                                         \
        __local ushort *const to = (__local ushort *)tiles + (n)*STAGE_ELEMENTS;                   \
        const long left = t.end - ahead.k;                                                         \
        if (pieces) {                                                                              \
            copy_lines(from.x, BLOCK_M / LINES_AT_ONCE, ahead.x, left, to);                        \
            COPY_W(to + BLOCK_M * BLOCK_K);                                                        \
        } else {                                                                                   \
            load_along(ELEMENTS_OF_X(args), x_rows, BLOCK_M, t.depths_of_x, ahead.k, left, to);    \
            LOAD_W(to + BLOCK_M * BLOCK_K);                                                        \
        }                                                                                          \
        ahead = next_stage(args, &t, ahead);                                                       \
    }
#if UNIT_W_COLUMN
#define COPY_W(to) copy_rows_across(&from, ahead.w, W_ROW_STEP, left, to)
#define LOAD_W(to) load_across(ELEMENTS_OF_W(args), w_columns, t.depths_of_w, ahead.k, left, to)
#else
#define COPY_W(to) copy_lines(from.w, BLOCK_N / LINES_AT_ONCE, ahead.w, left, to)
#define LOAD_W(to)                                                                                 \
    load_along(ELEMENTS_OF_W(args), w_columns, BLOCK_N, t.depths_of_w, ahead.k, left, to)
#endif

/* ---- store ----------------------------------------------------------------------------------- */

/* Whole rows of y pass through local memory, in rows with an extra piece: a lane's sums are pairs
 * of columns, and a direct store would fill a quarter of each sector. */
#define Y_STRIDE (BLOCK_N + 8)
#define STORES_ROWS                                                                                \
    (SPLIT_K == 1 && UNIT_Y_COLUMN && !HAS_ACCUMULATE && !BY_PARTS &&                              \
     BLOCK_M * Y_STRIDE <= STAGES * STAGE_ELEMENTS)

#if STORES_ROWS
INLINE bool y_has_pieces(const struct projection_arguments *args)
{
    return ((args->shape->y_stride[0] | args->shape->y_stride[1] | args->shape->y_stride[2] |
             args->shape->y_dim) &
            7) == 0 &&
           ((size_t)args->y & 15) == 0;
}

INLINE void store_through(const struct projection_arguments *args, const struct task *t,
                          const int first_row, const int lane, const float sums[SUMS],
                          const __local long *y_rows, const __local long *y_columns,
                          __local ushort *tile)
{
    UNROLL
    for (int x = 0; x < SUMS; x += 2) {
        const int column = COLUMN(0, x);
        float more[2] = {0.0f, 0.0f};
#if HAS_BIAS
        if (t->column + column < t->columns) {
            more[0] = BIAS_OF(0, t->column + column);
            more[1] = BIAS_OF(0, t->column + column + 1);
        }
#endif
        *(__local uint *)(tile + ROW(first_row, x) * Y_STRIDE + column) =
            pack_pair(sums[x] + more[0], sums[x + 1] + more[1]);
    }
    LOCAL_BARRIER(); /* the rows are complete */
    for (int n = THIS_THREAD; n < BLOCK_M * (BLOCK_N / 8); n += THREADS) {
        const int row = n / (BLOCK_N / 8), column = n % (BLOCK_N / 8) * 8;
        if (t->row + row < t->rows && t->column + column < t->columns)
            *(__global uint4 *)(args->y + y_rows[row] + y_columns[column]) =
                *(const __local uint4 *)(tile + row * Y_STRIDE + column);
    }
}
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE void
projection_gpu_warpgroup(PARAMETERS_projection_gpu_warpgroup)
{
    DECLARE_ARGUMENTS(ARGUMENTS_projection_gpu_warpgroup);
    const struct projection_arguments *const args = &arguments;
    __local uint4 tiles[STAGES * STAGE_ELEMENTS / 8] TILES_ATTRIBUTE;
    __local long x_rows[BLOCK_M], w_columns[BLOCK_N];
    DECLARE_EXCHANGE(SUB_GROUPS);
    const int lane = THIS_THREAD % FRAGMENT_LANES;
    const int first_row = THIS_THREAD / FRAGMENT_LANES * FRAGMENT_QUERIES;
    const struct task t = find_output_task(args);
    const bool pieces = has_pieces(args);
    struct stage ahead = first_stage(args, &t);
    struct pieces from;
    float sums[M_FRAGMENTS][SUMS];
    const int rows = warpgroup_rows(first_row);
    int now = 0; /* the number of the current stage */

    registers_for_groups();
    LEAVE_FIRST_ASSEMBLY();
    find_rows_and_columns(args, &t, x_rows, w_columns);
    clear_block_sums(sums);
    LOCAL_BARRIER(); /* the places are complete */
    find_pieces(args, &t, x_rows, w_columns, &from);
    UNROLL
    for (int n = 0; n < AHEAD; n++) {
        COPY_STAGE(n);
        copies_begin();
    }
    for (long k = t.begin; k < t.end; k += BLOCK_K) {
        __local ushort *const x_tile = (__local ushort *)tiles + now * STAGE_ELEMENTS;
        if (AHEAD == 0) {
            LOCAL_BARRIER(); /* all have read the old contents */
            COPY_STAGE(0);
            copies_begin();
        }
        COPIES_WAIT_BUT(AHEAD > 1 ? AHEAD - 1 : 0);
        LOCAL_BARRIER(); /* the stage is complete, the one before the last may be overwritten */
        if (UNIT_W_COLUMN)
            begin_tile_sums(x_tile, rows, BLOCK_M, BLOCK_K, x_tile + BLOCK_M * BLOCK_K, BLOCK_N,
                            sums[0], lane, exchange);
        else
            begin_tile_products(x_tile, rows, BLOCK_M, BLOCK_K, x_tile + BLOCK_M * BLOCK_K, BLOCK_N,
                                true, sums[0], lane, exchange);
        if (AHEAD > 0) {
            COPY_STAGE((now + AHEAD) % STAGES);
            copies_begin();
        }
        products_wait(STAGES > 2 ? 1 : 0);
        now = now + 1 == STAGES ? 0 : now + 1;
    }
    products_wait(0);
    sums_here(sums[0], SUMS);
#if STORES_ROWS
    if (y_has_pieces(args)) {
        LOCAL_BARRIER(); /* the offsets and the stages of x and w are no longer read */
        find_results(args, &t, x_rows, w_columns);
        LOCAL_BARRIER(); /* places of y are complete */
        store_through(args, &t, first_row, lane, sums[0], x_rows, w_columns,
                      (__local ushort *)tiles);
        return;
    }
#endif
    STORE_SUMS(first_row, 0);
}
