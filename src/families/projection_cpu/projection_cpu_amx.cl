/* SPDX-License-Identifier: Apache-2.0 */
/* projection_cpu_amx: y = x w with heads in its addressing, in bf16 by tiles of a processor's matrix unit
 * (cl/bf16/tiles.h). Formula: clattn/problem.h; matrices, stages and their sizes: projection_cpu.cl.
 *
 * Blocking   as in BLIS. A group packs w, as wide as its block and BLOCK_K deep, into panels of PANEL columns, which
 *            are to stay in L2: a row of a panel is pairs of neighbours of the depth. Then, for each strip of
 *            REGISTER_ROWS rows, x is multiplied with all panels, STRIP_K deep so that it stays in L1. x is read
 *            in place if tiles can be loaded from its rows (is_in_place()), else packed.
 * Registers  2 x 2 tiles of sums.
 * Ragged     Columns beyond the last repeat the last, rows and the depth beyond the last are 0; none is
 *            stored.
 * Workspace  with SPLIT_K > 1: [SPLIT_K][rows][columns] sums
 * Tunables   src/families/projection_cpu/projection_cpu_amx.def, all defined by the host; no fallbacks here. The host
 *            also defines EMULATE. */
#if !defined(STRIP_K) || !defined(BLOCK_K) || !defined(SPLIT_K) || !defined(BLOCK_M) ||            \
    !defined(BLOCK_N) || !defined(SUMS_M)
#error "projection_cpu_amx.cl must be built with all of its tunables defined"
#endif
#if !defined(EMULATE) || DTYPE != 2
#error "projection_cpu_amx.cl takes bf16 and must be built with EMULATE defined"
#endif
#include "families/units.h"
#define SIMD_WIDTH 16
#define REGISTER_VECTORS 1 /* one vector in a panel's row makes the rows of a tile contiguous */
#define REGISTER_ROWS (2 * SIMD_WIDTH)
#include "families/projection_cpu/projection_cpu_sizes.h"
#define STRIP_ROW TILE_STRIP_ROW
#include "common/projection.h"

#include "cpu/operands.h"
#include "cpu/prefetch.h"
#include "bf16/projection_strips.h"

#define STEP (2 * TILE) /* values of the depth in a tile */

/* The length of equal parts of at most `most`, rounded up to whole steps. */
INLINE int equal_part(const long depth, const int most)
{
    const long parts = (depth + most - 1) / most;

    return ((depth + parts - 1) / parts + STEP - 1) / STEP * STEP;
}

/* Zeros the panels' last step after the end of the depth. */
INLINE void pad_panels(const int num_columns, const int count, lanes *panels)
{
    for (int c = 0; c < num_columns; c += PANEL)
        for (int k = PAIRS_OF(count); k < ROUNDED_TO_TILES(PAIRS_OF(count)); k++)
            for (int v = 0; v < REGISTER_VECTORS; v++)
                panels[c / PANEL * PANEL_VECTORS + k * REGISTER_VECTORS + v] = 0.0f;
}

/* Adds strip . panels, of one panel or two, to the tiles; they start from zeros if `zero`. */
NOINLINE void multiply_panels(const int rows, const int columns, const bool zero, const int steps,
                              const uint *strip, const long strip_row, const lanes *panels,
                              lanes *tiles)
{
    const long row = sizeof(lanes);
    const long next_panel = PANEL_VECTORS * row, next_tile = REGISTER_ROWS * row;

    if (rows > TILE && columns > TILE)
        multiply_tiles_of(2, 2, zero, steps, one_part(), strip, strip_row, panels, row, next_panel,
                          tiles, row, next_tile);
    else if (columns > TILE)
        multiply_tiles_of(1, 2, zero, steps, one_part(), strip, strip_row, panels, row, next_panel,
                          tiles, row, next_tile);
    else if (rows > TILE)
        multiply_tiles_of(2, 1, zero, steps, one_part(), strip, strip_row, panels, row, 0, tiles,
                          row, 0);
    else
        multiply_tiles_of(1, 1, zero, steps, one_part(), strip, strip_row, panels, row, 0, tiles,
                          row, 0);
}

/* Returns whether tiles can be loaded from the strip in x, `count` of its depth: whole, with evenly
 * spaced rows that fit L1 together (lines 2 KB apart share 1 of 32 sets or less). */
INLINE bool is_in_place(const long *rows, const int num_rows, const long *depths, const int count)
{
    const long step = num_rows > 1 ? rows[1] - rows[0] : 0;
    bool even = TILES_FROM_BUFFERS && num_rows == REGISTER_ROWS && count % STEP == 0 &&
                step % 1024 != 0 && contiguous(UNIT_X_COLUMN, depths, count, count);

    for (int r = 2; even && r < REGISTER_ROWS; r++)
        even = rows[r] - rows[r - 1] == step;
    return even;
}

/* Stores the sums of one panel or two. */
NOINLINE void store_tiles(const lanes *tiles, __global result *results, const long *rows,
                          const int num_rows, const long *columns, const int num_columns)
{
    if (contiguous(UNIT_RESULT, columns, 2 * PANEL, num_columns)) {
        for (int r = 0; r < num_rows; r++)
            STORE_RESULTS_PAIR(tiles[r], tiles[r + REGISTER_ROWS], results + rows[r] + columns[0]);
        return;
    }
    for (int p = 0; p < num_columns; p += PANEL)
        store_register_tile((const float *)(tiles + p / PANEL * REGISTER_ROWS), results, rows,
                            num_rows, columns + p, min(PANEL, num_columns - p));
}

/* Computes the strip from row r of the block on, times the panels, over `depth` of the depth.
 * first, last: this part is the block's first, last one. */
NOINLINE void compute_strip(const struct block *b, const int r, const bool first, const bool last,
                            const __global ushort *x, const long *depths, const int depth,
                            const lanes *panels, __global result *results, lanes *sums)
{
    __attribute__((aligned(64))) uint packed[TILE_STRIP];
    const int rows = min(REGISTER_ROWS, b->rows - r), most = equal_part(depth, STRIP_K);
    const int num_panels = (b->columns + PANEL - 1) / PANEL;

    for (int k = 0; k < depth; k += most) {
        const int count = min(most, depth - k);
        const bool begins = first && k == 0, ends = last && k + count == depth;
        const bool wraps = k + count == depth; /* the next strip has the next rows */
        const int next_row = wraps ? r + REGISTER_ROWS : r, next = wraps ? 0 : k + count;
        const uint *strip = packed;
        long strip_row = ROW_BYTES_OF(TILE_STRIP_ROW);
#if TILES_FROM_BUFFERS
        if (is_in_place(b->x_rows + r, rows, depths + k, count)) {
            strip = IN_BUFFER(x + b->x_rows[r] + depths[k]);
            strip_row = (b->x_rows[r + 1] - b->x_rows[r]) * (long)sizeof(ushort);
        }
#endif
        if (strip == packed)
            pack_strip(x, b->x_rows + r, rows, depths + k, count, packed);
        for (int n = 0; n < num_panels; n += 2) {
            const int c = n * PANEL, columns = min(2 * PANEL, b->columns - c);
            lanes *tiles = sums + n * REGISTER_ROWS;
            if (strip == packed && next_row < b->rows)
                prefetch_strip(x, b->x_rows + next_row, min(REGISTER_ROWS, b->rows - next_row),
                               depths + next, min(most, depth - next), n / 2, (num_panels + 1) / 2);
            if (begins && !START_WITH_ZEROS)
                for (int p = 0; p < columns; p += PANEL)
                    load_register_tile(true, results, b->result_rows + r, rows,
                                       b->result_columns + c + p, min(PANEL, columns - p),
                                       b->biases + c + p,
                                       (float *)(tiles + p / PANEL * REGISTER_ROWS));
            multiply_panels(rows, columns, begins && START_WITH_ZEROS, TILES(PAIRS_OF(count)),
                            strip, strip_row, panels + n * PANEL_VECTORS + k / 2, tiles);
            if (ends)
                store_tiles(tiles, results, b->result_rows + r, rows, b->result_columns + c,
                            columns);
        }
    }
}

NOINLINE void compute_block_of_tiles(const struct projection_arguments *restrict args,
                                     const struct group group)
{
    lanes panels[PANELS_VECTORS];
    lanes sums[TILE_SUM_VECTORS];
    long x_depths[BLOCK_K], w_depths[BLOCK_K];
    struct block b;

    __global result *const results = find_block(args, group, &b);
    const int most = equal_part(b.end - b.begin, BLOCK_K);
    const bool whole = most >= b.end - b.begin;
    const int slab = whole ? b.rows : SUMS_M;
    configure_tiles();
    for (int first = 0; first < b.rows; first += slab) {
        for (long k = b.begin; k < b.end; k += most) {
            const int depth = min((long)most, b.end - k);
            list_offsets(b.depths_of_x, k, depth, x_depths);
            list_offsets(b.depths_of_w, k, depth, w_depths);
            pack_panels(args->w, b.w_columns, b.columns, w_depths, depth, panels);
            pad_panels(b.columns, depth, panels);
            for (int r = 0; r < min(slab, b.rows - first); r += REGISTER_ROWS)
                compute_strip(&b, first + r, k == b.begin, k + depth == b.end, args->x, x_depths,
                              depth, panels, results,
                              sums + (whole ? 0 : r * MOST_COLUMNS / SIMD_WIDTH));
        }
    }
    release_tiles();
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
projection_cpu_amx(PARAMETERS_projection_cpu_amx)
{
    const struct projection_arguments arguments = ARGUMENTS_projection_cpu_amx;

    compute_block_of_tiles(&arguments, find_group());
}
