/* SPDX-License-Identifier: Apache-2.0 */
/* The common parts of projections on CPUs (projection_cpu.cl, projection_cpu_amx.cl): offsets of
 * rows, columns and the depth, blocks of y, tiles of sums, and the sum of the parts of a split
 * depth.
 *
 * Tunables   SPLIT_K, BLOCK_M, BLOCK_N. A tile of sums has REGISTER_ROWS rows and PANEL columns. */
#pragma once
#include "common/projection.h"
#include "cpu/operands.h"

/* The largest number of columns of a row that a group of projection_sum adds up. */
#define SUM_RUN 256

/* The partial sums of a split depth wait in y, or in the workspace, if these are f32. */
#if SPLIT_K > 1
typedef float result;
#define LOAD_RESULTS(p) VECTOR(vload)(0, (p))
#define STORE_RESULTS(x, p) VECTOR(vstore)((x), 0, (p))
#define STORE_RESULTS_PAIR(x, y, p)                                                                \
    {                                                                                              \
        VECTOR(vstore)((x), 0, (p));                                                               \
        VECTOR(vstore)((y), 1, (p));                                                               \
    }
#define LOAD_RESULT(p, n) ((p)[n])
#define STORE_RESULT(x, p, n) ((p)[n] = (x))
#define UNIT_RESULT 1
#else
typedef storage result;
#define LOAD_RESULTS(p) load_lanes(DTYPE, p)
#if OPERAND_TILES
#define STORE_RESULTS STORE_SUMS
#define STORE_RESULTS_PAIR STORE_SUMS_PAIR
#else
#define STORE_RESULTS(x, p) store_lanes(DTYPE, x, p)
#endif
#define LOAD_RESULT(p, n) load1_of(DTYPE, p, n)
#define STORE_RESULT(x, p, n) store1_of(DTYPE, x, p, n)
#define UNIT_RESULT UNIT_Y_COLUMN
#endif

/* ---- offsets -------------------------------------------------------------------------------- */

/* Index n stands for a pair: the outer index n / size and the inner n % size, with a stride for
 * each. */
struct index_pair {
    long size, outer_stride, inner_stride;
};

INLINE long offset_of(const struct index_pair p, const long n)
{
    return n / p.size * p.outer_stride + n % p.size * p.inner_stride;
}

/* Lists the offsets of count indices from n on. */
INLINE void list_offsets(const struct index_pair p, const long n, const int count, long *offsets)
{
    long outer = n / p.size, inner = n % p.size;

    for (int c = 0; c < count; c++) {
        offsets[c] = outer * p.outer_stride + inner * p.inner_stride;
        if (++inner == p.size) {
            inner = 0;
            outer++;
        }
    }
}

/* Returns whether the first `count` of these offsets are neighbours; `left` of them exist. unit:
 * the stride of inner indices is 1; otherwise the first and last offset would not suffice. */
INLINE bool contiguous(const bool unit, const long *offsets, const int count, const int left)
{
    return unit && left >= count && offsets[count - 1] - offsets[0] == count - 1;
}

/* ---- tiles of sums: REGISTER_ROWS x PANEL ---------------------------------------------------- */

/* Is 1 if the sums of the first part of the depth start from zeros. */
#define START_WITH_ZEROS (SPLIT_K > 1 || (!HAS_BIAS && !HAS_ACCUMULATE))

/* Loads a tile of y; if `first`, the starting values: the bias and the old y. */
NOINLINE void load_register_tile(const int first, const __global result *y, const long *rows,
                                 const int num_rows, const long *columns, const int num_columns,
                                 const float *biases, float *tile)
{
    const bool held = HAS_ACCUMULATE || !first, biased = HAS_BIAS && first;

    if (contiguous(UNIT_RESULT, columns, PANEL, num_columns)) {
        for (int r = 0; r < num_rows; r++) {
            const __global result *from = y + rows[r] + columns[0];
            for (int c = 0; c < PANEL; c += SIMD_WIDTH) {
                const lanes x = held ? LOAD_RESULTS(from + c) : (lanes)(0.0f);
                const lanes bias = biased ? VECTOR(vload)(0, biases + c) : (lanes)(0.0f);
                VECTOR(vstore)(x + bias, 0, tile + r * PANEL + c);
            }
        }
        return;
    }
    for (int r = 0; r < num_rows; r++) {
        for (int c = 0; c < num_columns; c++)
            tile[r * PANEL + c] =
                (held ? LOAD_RESULT(y, rows[r] + columns[c]) : 0.0f) + (biased ? biases[c] : 0.0f);
    }
}

NOINLINE void store_register_tile(const float *tile, __global result *y, const long *rows,
                                  const int num_rows, const long *columns, const int num_columns)
{
    if (contiguous(UNIT_RESULT, columns, PANEL, num_columns)) {
        for (int r = 0; r < num_rows; r++) {
            __global result *to = y + rows[r] + columns[0];
            UNROLL
            for (int c = 0; c < PANEL; c += SIMD_WIDTH)
                STORE_RESULTS(VECTOR(vload)(0, tile + r * PANEL + c), to + c);
        }
        return;
    }
    for (int r = 0; r < num_rows; r++) {
        __global result *to = y + rows[r];
        for (int c = 0; c < num_columns;) {
            if (contiguous(UNIT_RESULT, columns + c, SIMD_WIDTH, num_columns - c)) {
                STORE_RESULTS(VECTOR(vload)(0, tile + r * PANEL + c), to + columns[c]);
                c += SIMD_WIDTH;
            } else {
                STORE_RESULT(tile[r * PANEL + c], to, columns[c]);
                c++;
            }
        }
    }
}

/* ---- blocks of y ------------------------------------------------------------------------------ */

/* Returns the first unit of part n of `parts` equal parts. */
INLINE long part(const long units, const long n, const long parts)
{
    return units * n / parts;
}

/* A work-item computes block (x, y), of groups_x * groups_y blocks of y, for part `split` of the
 * depth. */
struct group {
    long x, y, groups_x, groups_y, split;
};

INLINE struct group find_group(void)
{
    return (struct group){get_group_id(0), get_group_id(1), get_num_groups(0), get_num_groups(1),
                          get_group_id(2)};
}

/* A block of y: the offsets of its rows in x and in the results, and of its columns in w and in the results. */
struct block {
    int rows, columns;
    long begin, end; /* this block's part of the depth */
    struct index_pair depths_of_x, depths_of_w;
    long x_rows[MOST_ROWS], result_rows[MOST_ROWS];
    long w_columns[MOST_COLUMNS], result_columns[MOST_COLUMNS];
    float biases[MOST_COLUMNS];
};

/* Fills in b. Returns the results: y, or this part's share of the workspace. */
INLINE __global result *find_block(const struct projection_arguments *args,
                                   const struct group group, struct block *b)
{
    const long all_rows = args->shape->batch * args->shape->rows,
               all_columns = args->shape->y_heads * args->shape->y_dim;
    const long all_depth = args->shape->x_heads * args->shape->x_dim;
    const long num_strips = (all_rows + REGISTER_ROWS - 1) / REGISTER_ROWS;
    const long num_panels = (all_columns + PANEL - 1) / PANEL;
    const long row = part(num_strips, group.y, group.groups_y) * REGISTER_ROWS;
    const long column = part(num_panels, group.x, group.groups_x) * PANEL;
    const long rows_end = part(num_strips, group.y + 1, group.groups_y) * REGISTER_ROWS;
    const long columns_end = part(num_panels, group.x + 1, group.groups_x) * PANEL;

    b->rows = min(rows_end, all_rows) - row;
    b->columns = min(columns_end, all_columns) - column;
    b->begin = part(OPERANDS(all_depth), group.split, SPLIT_K) * VALUES_IN_OPERAND;
    b->end =
        min(part(OPERANDS(all_depth), group.split + 1, SPLIT_K) * VALUES_IN_OPERAND, all_depth);
    b->depths_of_x =
        (struct index_pair){args->shape->x_dim, args->shape->x_stride[1], X_COLUMN_STEP};
    b->depths_of_w = (struct index_pair){args->shape->x_dim, args->shape->w_stride[0], W_ROW_STEP};
    list_offsets((struct index_pair){args->shape->rows, args->shape->x_stride[0], X_ROW_STEP}, row,
                 b->rows, b->x_rows);
    list_offsets((struct index_pair){args->shape->y_dim, args->shape->w_stride[2], W_COLUMN_STEP},
                 column, b->columns, b->w_columns);
#if SPLIT_K == 1
    list_offsets(
        (struct index_pair){args->shape->rows, args->shape->y_stride[0], args->shape->y_stride[2]},
        row, b->rows, b->result_rows);
    list_offsets((struct index_pair){args->shape->y_dim, args->shape->y_stride[1], Y_COLUMN_STEP},
                 column, b->columns, b->result_columns);
    for (int c = 0; c < b->columns; c++)
        b->biases[c] = BIAS_OF(0, column + c);
    return args->y;
#else
    list_offsets((struct index_pair){all_rows, 0, all_columns}, row, b->rows, b->result_rows);
    list_offsets((struct index_pair){all_columns, 0, 1}, column, b->columns, b->result_columns);
    return args->workspace + group.split * all_rows * all_columns;
#endif
}

/* ---- the sum of the parts ----------------------------------------------------------------------- */

#if SPLIT_K > 1
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
projection_sum(PARAMETERS_projection_sum)
{
    const struct projection_arguments arguments = ARGUMENTS_projection_sum;
    const struct projection_arguments *const args = &arguments;
    const long all_columns = args->shape->y_heads * args->shape->y_dim,
               count = args->shape->batch * args->shape->rows * all_columns;
    const long row = get_group_id(1), first = (long)get_group_id(0) * SUM_RUN;
    const int columns = min((long)SUM_RUN, all_columns - first);
    float sums[SUM_RUN];
    long offsets[SUM_RUN];

    __global storage *const to =
        args->y + offset_of((struct index_pair){args->shape->rows, args->shape->y_stride[0],
                                                args->shape->y_stride[2]},
                            row);
    list_offsets((struct index_pair){args->shape->y_dim, args->shape->y_stride[1], Y_COLUMN_STEP},
                 first, columns, offsets);
    for (int c = 0; c < columns; c++)
        sums[c] = 0.0f;
    for (int n = 0; n < SPLIT_K; n++) {
        const __global float *from = args->workspace + n * count + row * all_columns + first;
        for (int c = 0; c < columns; c++)
            sums[c] += from[c];
    }
    for (int c = 0; c < columns; c++)
        STORE_Y(sums[c], to, offsets[c], 0, first + c);
}
#endif
