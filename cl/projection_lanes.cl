/* projection_lanes: y = x w with heads in its addressing, for CPUs. Formula: clattn/problem.h.
 *
 * Words      a row of y is (batch, row), a column (head of y, dim_v), the depth that is summed over
 *            (head of x, dim_qk). Each is a pair of indices with a step for each.
 * Stages     projection_lanes   local (1, 1, 1), global (groups of columns, groups of rows, SPLITS):
 *                               one work-item has a block of y and one of SPLITS parts of the depth
 *            projection_sum     with SPLITS > 1: y from the parts, one row of at most SUM_RUN columns
 *                               in a work-item
 *            The order in which an element is summed depends on the depth and the tunables alone.
 * Lanes      are columns: an element of x is broadcast and multiplied with vectors of w. ROWS x MV
 *            vectors of sums stay in registers over DEPTH of the depth.
 * Packing    DEPTH of w, as wide as the block, becomes panels of MV vectors (turned around where w lies
 *            along the depth), and ROWS of x become a strip: both f32, both read one after the other.
 * Ragged     Rows and columns beyond the last repeat the last and are not stored.
 * Speed      as fused_lanes.cl: never build it with fast-math options.
 * Workspace  with SPLITS > 1: [SPLITS][rows][columns] sums
 * Tunables   src/tunables/projection_lanes.def, all defined by the host; no fallbacks here. */
#include "projection.h"

#if !defined(WIDTH) || !defined(MV) || !defined(ROWS) || !defined(DEPTH) || !defined(BLOCK_ROWS) ||  \
    !defined(BLOCK_COLUMNS) || !defined(SPLITS)
#error "projection_lanes.cl must be built with all of its tunables defined"
#endif

#include "lanes.h"

#define PANEL (WIDTH * MV)
/* A group has whole strips and panels, at most so many rows and columns. */
#define MOST_ROWS ((BLOCK_ROWS + ROWS - 1) / ROWS * ROWS)
#define MOST_COLUMNS ((BLOCK_COLUMNS + PANEL - 1) / PANEL * PANEL)
/* Steps in a strip of x: as x lies, so that packing copies vectors. */
#if UNIT_X_COLUMN
#define STRIP_ROW (DEPTH + WIDTH) /* not a power of two: the rows of a column go to different sets */
#define STRIP_COLUMN 1
#else
#define STRIP_ROW 1
#define STRIP_COLUMN ROWS
#endif
#define SUM_RUN 256
#define FEW_ROWS 4 /* in the last strip */

/* ---- places --------------------------------------------------------------------------------- */

/* An index n counts n / size outer and n % size inner ones. */
struct pair {
    long size, outer_step, inner_step;
};

/* Where count indices from n on lie. */
INLINE void list_places(const struct pair p, const long n, const int count, long *places)
{
    long outer = n / p.size, inner = n % p.size;

    for (int c = 0; c < count; c++) {
        places[c] = outer * p.outer_step + inner * p.inner_step;
        if (++inner == p.size) {
            inner = 0;
            outer++;
        }
    }
}

/* Whether a vector of neighbours lies at these places, of which there are left. unit: the step of
 * inner indices is 1, without which the first and the last do not tell. */
INLINE bool contiguous(const bool unit, const long *places, const int left)
{
    return unit && left >= WIDTH && places[WIDTH - 1] - places[0] == WIDTH - 1;
}

/* ---- packing -------------------------------------------------------------------------------- */

/* One vector of columns of w, at most left of them, for count of the depth, into a panel. */
INLINE void pack_columns(const __global storage *w, const long *columns, const int left,
                         const long *depths, const int count, lanes *panel)
{
    if (contiguous(UNIT_W_COLUMN, columns, left)) {
        for (int k = 0; k < count; k++)
            panel[k * MV] = LOAD_VECTOR(w + columns[0] + depths[k]);
        return;
    }
    for (int k = 0; k < count;) {
        lanes x[WIDTH];
        if (contiguous(UNIT_W_ROW, depths + k, count - k)) {
            UNROLL
            for (int c = 0; c < WIDTH; c++)
                x[c] = LOAD_VECTOR(w + columns[min(c, left - 1)] + depths[k]);
            transpose(x);
            UNROLL
            for (int c = 0; c < WIDTH; c++)
                panel[(k + c) * MV] = x[c];
            k += WIDTH;
        } else {
            float *element = (float *)x;
            for (int c = 0; c < WIDTH; c++)
                element[c] = LOAD(w, columns[min(c, left - 1)] + depths[k]);
            panel[k * MV] = x[0];
            k++;
        }
    }
}

/* At most ROWS rows of x, for count of the depth, into a strip. */
INLINE void pack_rows(const __global storage *x, const long *rows, const int left,
                      const long *depths, const int count, float *strip)
{
#if UNIT_X_COLUMN
    for (int r = 0; r < min(left, ROWS); r++) {
        float *to = strip + r * STRIP_ROW;
        for (int k = 0; k < count;) {
            if (contiguous(true, depths + k, count - k)) {
                VECTOR(vstore)(LOAD_VECTOR(x + rows[r] + depths[k]), 0, to + k);
                k += WIDTH;
            } else {
                to[k] = LOAD(x, rows[r] + depths[k]);
                k++;
            }
        }
    }
#else
    const bool vectors = ROWS <= WIDTH && contiguous(UNIT_X_ROW, rows, left);
    for (int k = 0; k < count; k++) {
        float *to = strip + k * STRIP_COLUMN;
        if (vectors) { /* what is beyond ROWS is overwritten by what follows */
            VECTOR(vstore)(LOAD_VECTOR(x + rows[0] + depths[k]), 0, to);
        } else {
            for (int r = 0; r < ROWS; r++)
                to[r] = LOAD(x, rows[min(r, left - 1)] + depths[k]);
        }
    }
#endif
}

/* ---- products ------------------------------------------------------------------------------- */

/* sums[r][v] (+)= strip[r] . panel[v], for rows and vectors (constants, at most ROWS and MV). */
INLINE void multiply(const int rows, const int vectors, const bool first, const float *strip,
                     const lanes *panel, const int depth, lanes *sums)
{
    lanes sum[ROWS][MV];

    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++)
            sum[r][v] = first ? (lanes)(0.0f) : sums[r * MV + v];
    }
    for (int k = 0; k < depth; k++) {
        lanes y[MV];
        UNROLL
        for (int v = 0; v < vectors; v++)
            y[v] = panel[k * MV + v];
        UNROLL
        for (int r = 0; r < rows; r++) {
            const lanes z = strip[r * STRIP_ROW + k * STRIP_COLUMN];
            UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r][v] = fma(y[v], z, sum[r][v]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++)
            sums[r * MV + v] = sum[r][v];
    }
}

/* A strip of any number of rows. */
INLINE void multiply_strip(const int rows, const int vectors, const bool first, const float *strip,
                           const lanes *panel, const int depth, lanes *sums)
{
    if (rows >= ROWS) {
        multiply(ROWS, vectors, first, strip, panel, depth, sums);
        return;
    }
    int r = 0;
#if ROWS > FEW_ROWS
    for (; r + FEW_ROWS <= rows; r += FEW_ROWS)
        multiply(FEW_ROWS, vectors, first, strip + r * STRIP_ROW, panel, depth, sums + r * MV);
#endif
#if ROWS > 1
    for (; r < rows; r++)
        multiply(1, vectors, first, strip + r * STRIP_ROW, panel, depth, sums + r * MV);
#endif
}

/* ---- storing -------------------------------------------------------------------------------- */

/* count sums of a row, whose columns lie at places, to y. */
INLINE void store_sums(const float *sums, const int count, const long *places, const float *biases,
                       __global storage *row)
{
    for (int c = 0; c < count;) {
        if (contiguous(UNIT_Y_COLUMN, places + c, count - c)) {
            __global storage *to = row + places[c];
            lanes z = VECTOR(vload)(0, sums + c);
#if HAS_BIAS
            z += VECTOR(vload)(0, biases + c);
#endif
#if HAS_ACCUMULATE
            z += LOAD_VECTOR(to);
#endif
            STORE_VECTOR(z, to);
            c += WIDTH;
        } else {
            float z = sums[c];
#if HAS_BIAS
            z += biases[c];
#endif
            STORE(z + BEFORE(row, places[c]), row, places[c]);
            c++;
        }
    }
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* The first unit of part n of so many equal parts. */
INLINE long part(const long units, const long n, const long parts)
{
    return units * n / parts;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void projection_lanes(PROJECTION_PARAMS, __global float *restrict workspace)
{
    lanes panels[MOST_COLUMNS / PANEL * DEPTH * MV];
    lanes sums[MOST_ROWS * MOST_COLUMNS / WIDTH];
    float strip[ROWS * (DEPTH + WIDTH) + WIDTH];
    float biases[MOST_COLUMNS];
    long x_rows[MOST_ROWS], y_rows[MOST_ROWS], w_columns[MOST_COLUMNS], y_columns[MOST_COLUMNS];
    long x_depths[DEPTH], w_depths[DEPTH];

    const long all_rows = a.batch * a.seq_q, all_columns = a.heads * a.dim_v;
    const long all_depth = a.kv_heads * a.dim_qk;
    const long strips = (all_rows + ROWS - 1) / ROWS, num_panels = (all_columns + PANEL - 1) / PANEL;
    const long group_x = get_group_id(0), groups_x = get_num_groups(0);
    const long group_y = get_group_id(1), groups_y = get_num_groups(1), split = get_group_id(2);
    const long row = part(strips, group_y, groups_y) * ROWS;
    const long column = part(num_panels, group_x, groups_x) * PANEL;
    const int rows = min(part(strips, group_y + 1, groups_y) * ROWS, all_rows) - row;
    const int columns = min(part(num_panels, group_x + 1, groups_x) * PANEL, all_columns) - column;
    const long begin = part(all_depth, split, SPLITS), end = part(all_depth, split + 1, SPLITS);
    const struct pair depths_of_x = {a.dim_qk, a.q_stride[1], X_COLUMN_STEP};
    const struct pair depths_of_w = {a.dim_qk, a.k_stride[0], W_ROW_STEP};

    list_places((struct pair){a.seq_q, a.q_stride[0], X_ROW_STEP}, row, rows, x_rows);
    list_places((struct pair){a.dim_v, a.k_stride[2], W_COLUMN_STEP}, column, columns, w_columns);
#if SPLITS == 1
    list_places((struct pair){a.seq_q, a.o_stride[0], a.o_stride[2]}, row, rows, y_rows);
    list_places((struct pair){a.dim_v, a.o_stride[1], Y_COLUMN_STEP}, column, columns, y_columns);
    for (int c = 0; c < columns; c++)
        biases[c] = BIAS_OF(0, column + c);
#endif
    for (long k = begin; k < end; k += DEPTH) {
        const int depth = min((long)DEPTH, end - k);
        list_places(depths_of_x, k, depth, x_depths);
        list_places(depths_of_w, k, depth, w_depths);
        for (int c = 0; c < columns; c += WIDTH)
            pack_columns(w + at.k, w_columns + c, columns - c, w_depths, depth,
                         panels + c / PANEL * (DEPTH * MV) + c % PANEL / WIDTH);
        for (int r = 0; r < rows; r += ROWS) {
            const int rows_here = min(ROWS, rows - r);
            pack_rows(x + at.q, x_rows + r, rows - r, x_depths, depth, strip);
            for (int c = 0; c < columns; c += PANEL) {
                const int columns_here = min(PANEL, columns - c);
                const lanes *panel = panels + c / PANEL * (DEPTH * MV);
                /* Sums that are complete at once need no more than one tile. */
                lanes *tile =
                    sums + (end - begin <= DEPTH ? 0 : (r * MOST_COLUMNS + c * ROWS) / WIDTH);
                if (columns_here > PANEL - WIDTH) {
                    multiply_strip(rows_here, MV, k == begin, strip, panel, depth, tile);
                } else {
                    for (int v = 0; v * WIDTH < columns_here; v++)
                        multiply_strip(rows_here, 1, k == begin, strip, panel + v, depth, tile + v);
                }
                if (k + depth < end)
                    continue;
                for (int n = 0; n < rows_here; n++) {
                    const float *from = (const float *)(tile + n * MV);
#if SPLITS == 1
                    store_sums(from, columns_here, y_columns + c, biases + c,
                               y + at.o + y_rows[r + n]);
#else
                    __global float *to = workspace + at.workspace +
                                         (split * all_rows + row + r + n) * all_columns + column + c;
                    for (int m = 0; m < columns_here; m++)
                        to[m] = from[m];
#endif
                }
            }
        }
    }
}

#if SPLITS > 1
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void projection_sum(SHAPE_PARAMS, __global storage *restrict y BIAS_PARAM,
                    const __global float *restrict workspace)
{
    const long all_columns = a.heads * a.dim_v, parts = a.batch * a.seq_q * all_columns;
    const long row = get_group_id(1), first = (long)get_group_id(0) * SUM_RUN;
    const int columns = min((long)SUM_RUN, all_columns - first);
    float sums[SUM_RUN], biases[SUM_RUN];
    long places[SUM_RUN];

    list_places((struct pair){a.dim_v, a.o_stride[1], Y_COLUMN_STEP}, first, columns, places);
    for (int c = 0; c < columns; c++) {
        sums[c] = 0.0f;
        biases[c] = BIAS_OF(0, first + c);
    }
    for (int n = 0; n < SPLITS; n++) {
        const __global float *from =
            workspace + at.workspace + n * parts + row * all_columns + first;
        for (int c = 0; c < columns; c++)
            sums[c] += from[c];
    }
    store_sums(sums, columns, places, biases,
               y + at.o + row / a.seq_q * a.o_stride[0] + row % a.seq_q * a.o_stride[2]);
}
#endif
