/* SPDX-License-Identifier: Apache-2.0 */
/* Merges, on CPUs and GPUs, a row at a time; src/families/merge_rows/merge_rows.cl says how. */
#include "base/sizes.h"
#include "families/family_units.h"
#include "families/registry.h"

#define TUNABLES_DEF "families/merge_rows/merge_rows.def"
#include "families/expand.h"

static size_t rows_of(const struct ca_problem *p)
{
    return p->normal.merge.batch * p->normal.merge.heads * p->normal.merge.seq_q;
}

static struct ca_ndrange ndrange(const struct ca_problem *p, const size_t *values)
{
    const size_t rows = values[GROUP_ROWS_INDEX], runs = values[ITEM_ROWS_INDEX];

    return (struct ca_ndrange){
        {values[ROW_ITEMS_INDEX], ca_divide_up(rows_of(p), rows * runs) * rows, 1},
        {values[ROW_ITEMS_INDEX], rows, 1}};
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)dev;
    return p->normal.merge.dim > CL_INT_MAX / 2 ? "a row has more than 2^30 elements" : NULL;
}

/* On CPUs an item has whole rows. They are enough for a work-group to be worth starting, but not so
 * many that units are idle. On GPUs neighbouring items read four columns each. */
static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t units = dev->compute_units ? dev->compute_units : 1;
    const size_t most = dev->max_work_group_size;

    if (ca_fills_vectors(dev)) {
        values[SIMD_WIDTH_INDEX] = ca_vector_lanes(dev);
        values[ITEM_ROWS_INDEX] = 256;
        while (values[ITEM_ROWS_INDEX] > 1 && rows_of(p) < 4 * units * values[ITEM_ROWS_INDEX])
            values[ITEM_ROWS_INDEX] /= 4;
        return;
    }
    values[SIMD_WIDTH_INDEX] = 4;
    values[ITEM_VECTORS_INDEX] = 1;
    values[ITEM_ROWS_INDEX] = 1;
    values[ROW_ITEMS_INDEX] = 8;
    while (values[ROW_ITEMS_INDEX] < 64 && values[ROW_ITEMS_INDEX] * 4 < p->normal.merge.dim)
        values[ROW_ITEMS_INDEX] *= 2;
    if (values[ROW_ITEMS_INDEX] > ca_smaller(most, dev->max_work_item_sizes[0]))
        values[ROW_ITEMS_INDEX] = 1;
    while (values[GROUP_ROWS_INDEX] * 2 <= ca_smaller(32, dev->max_work_item_sizes[1]) &&
           values[GROUP_ROWS_INDEX] * values[ROW_ITEMS_INDEX] * 2 <= ca_smaller(most, 128))
        values[GROUP_ROWS_INDEX] *= 2;
}

static const struct ca_family family = {
    CA_FAMILY("merge_rows"),
    .operation = CLATTN_MERGE,
    .source = ca_source_merge_rows,
    OWN_MEMBERS,
    CA_STAGES({"merge_rows",
               CA_BIT(CA_MERGE_PARTS) | CA_BIT(CA_MERGE_PARTS_LSE) | CA_BIT(CA_MERGE_SINKS) |
                   CA_BIT(CA_MERGE_O) | CA_BIT(CA_MERGE_LSE),
               ndrange}),
    .preference = ca_only_preference,
};

const struct ca_family *const ca_merge_rows[] = {&family, NULL};
