/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a family of projections whose work-groups own tiles of y, for the C file of one:
 *
 *   PROJECTION_STAGES(kernel)   for struct ca_family
 *   workspace_bytes()            likewise
 *   num_tiles()                  of y
 *
 * Before including this: block_m(values), the rows of a tile, work_items(values), those of a group, and the tunables
 * BLOCK_N and SPLIT_K. */
#include "families/projection_sizes.h"

static size_t num_tiles(const struct ca_problem *p, const size_t *values)
{
    return ca_divide_up(ca_projection_rows(p), block_m(values)) *
           ca_divide_up(ca_projection_columns(p), values[BLOCK_N_INDEX]);
}

static struct ca_ndrange tiles_ndrange(const struct ca_problem *p, const size_t *values)
{
    struct ca_ndrange range = ca_groups(num_tiles(p, values), work_items(values));

    range.global[1] = values[SPLIT_K_INDEX];
    return range;
}

static struct ca_ndrange sum_ndrange(const struct ca_problem *p, const size_t *values)
{
    return ca_any_groups(
        values[SPLIT_K_INDEX] > 1 ? ca_projection_rows(p) * ca_projection_columns(p) : 0);
}

#if TUNABLES_UNIT == UNIT_ITEM
static size_t workspace_bytes(const struct ca_problem *p, const size_t *values)
{
    return ca_projection_split_bytes(p, values[SPLIT_K_INDEX]);
}
#else
/* Units of matrix instructions compute f32 from parts (cl/mma/projection_parts.h). */
#include "families/f32_parts.h"

static size_t workspace_bytes(const struct ca_problem *p, const size_t *values)
{
    const size_t rows = ca_projection_rows(p), columns = ca_projection_columns(p),
                 depth = ca_projection_depth(p);
#include "families/names.h"

    if (DTYPE != DTYPE_F32)
        return ca_projection_split_bytes(p, SPLIT_K);
    return PARTS_ALIGNMENT + SPLIT_SUM_BYTES(rows, columns) + PARTS_BYTES(rows, PART_DEPTH(depth)) +
           PARTS_BYTES(columns, PART_DEPTH(depth)) + W_FLAG_BYTES;
}

static struct ca_ndrange parts_ndrange(const struct ca_problem *p, const size_t *values)
{
    const size_t lines = ca_larger(ca_projection_rows(p), ca_projection_columns(p));

    (void)values;
    return p->normal.projection.dtype == CLATTN_F32
               ? ca_f32_parts_ndrange(lines, ca_projection_depth(p), 2)
               : ca_groups(0, 1);
}

/* Each group computes eight rows, and some take others after those. */
static struct ca_ndrange flagged_ndrange(const struct ca_problem *p, const size_t *values)
{
    const size_t most = 512, rows = ca_projection_rows(p);

    (void)values;
    return p->normal.projection.dtype == CLATTN_F32
               ? ca_groups(ca_smaller(ca_divide_up(rows, FLAGGED_ROWS), most), PART_ITEMS)
               : ca_groups(0, 1);
}

/* The unit's preference, which is `with` for 16 bits. The stage that splits x and w moves ten bytes
 * for each element, so a product of few rows or columns does not pay. Its launches take as long as
 * a product of 2^30 terms. */
static int preference_with(const struct ca_problem *p, const clattn_device_info *dev, int with)
{
    enum { BEHIND_OTHERS = 40 };
    const double rows = (double)ca_projection_rows(p), columns = (double)ca_projection_columns(p),
                 depth = (double)ca_projection_depth(p);
    const int is_large =
        rows * columns >= 256.0 * (rows + columns) && rows * columns * depth >= (double)(1 << 30);

    if (p->normal.projection.dtype != CLATTN_F32 || with == CA_ONLY_IF_FORCED)
        return with;
    return is_large && ca_f32_parts_pay(dev) ? with : BEHIND_OTHERS;
}
#endif

/* The list of stages, with the name of the first kernel in cl/. */
#define PROJECTION_STAGES(kernel)                                                                  \
    {kernel, CA_PROJECTION_ARGUMENTS, tiles_ndrange},                                              \
    {                                                                                              \
        "projection_sum", CA_PROJECTION_SUM_ARGUMENTS, sum_ndrange                                 \
    }
/* The stages of a unit of matrix instructions. */
#define PROJECTION_MMA_STAGES(kernel)                                                              \
    {"projection_parts", CA_PROJECTION_PARTS_ARGUMENTS, parts_ndrange}, PROJECTION_STAGES(kernel), \
    {                                                                                              \
        "projection_flagged", CA_PROJECTION_ARGUMENTS | CA_READ_ONLY, flagged_ndrange              \
    }
