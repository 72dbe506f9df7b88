/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a family of projections for CPUs, whose work-items own blocks of y, for the C file of one:
 *
 *   PROJECTION_STAGES(kernel)   for struct ca_family
 *   workspace_bytes()            likewise
 *   row_blocks(), column_blocks()   of y, at most BLOCK_M rows and BLOCK_N columns each
 *   split_depth()                SPLIT_K, set so that units have work if blocks are few
 *
 * Before including this: register_rows(values) and panel(values), the rows and columns that are packed together, of
 * which blocks have whole numbers, and the tunables BLOCK_M, BLOCK_N and SPLIT_K. */
#include "families/projection_sizes.h"

/* The number of groups that share n rows or columns, in blocks of at most `block`, made of whole
 * units. */
static size_t blocks_of(size_t n, size_t unit, size_t block)
{
    return ca_divide_up(ca_divide_up(n, unit), ca_divide_up(block, unit));
}

static size_t row_blocks(const struct ca_problem *p, const size_t *values)
{
    return blocks_of(ca_projection_rows(p), register_rows(values), values[BLOCK_M_INDEX]);
}

static size_t column_blocks(const struct ca_problem *p, const size_t *values)
{
    return blocks_of(ca_projection_columns(p), panel(values), values[BLOCK_N_INDEX]);
}

static struct ca_ndrange blocks_ndrange(const struct ca_problem *p, const size_t *values)
{
    return (struct ca_ndrange){
        {column_blocks(p, values), row_blocks(p, values), values[SPLIT_K_INDEX]}, {1, 1, 1}};
}

static struct ca_ndrange sum_ndrange(const struct ca_problem *p, const size_t *values)
{
    enum { RUN = 256 }; /* columns of an item */

    return ca_single_items(values[SPLIT_K_INDEX] > 1 ? ca_divide_up(ca_projection_columns(p), RUN)
                                                     : 0,
                           ca_projection_rows(p), 1);
}

static size_t workspace_bytes(const struct ca_problem *p, const size_t *values)
{
    return ca_projection_split_bytes(p, values[SPLIT_K_INDEX]);
}

/* A part of the depth is at least 512 long. */
static void split_depth(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t blocks = row_blocks(p, values) * column_blocks(p, values);
    size_t *const splits = &values[SPLIT_K_INDEX];

    while (*splits < 16 && blocks * *splits < dev->compute_units &&
           ca_projection_depth(p) >= *splits * 2 * 512)
        *splits *= 2;
}

/* The list of stages, with the name of the first kernel in cl/. */
#define PROJECTION_STAGES(kernel)                                                                  \
    {kernel, CA_PROJECTION_ARGUMENTS, blocks_ndrange},                                             \
    {                                                                                              \
        "projection_sum", CA_PROJECTION_SUM_ARGUMENTS, sum_ndrange                                 \
    }
