/* SPDX-License-Identifier: Apache-2.0 */
/* Double backward, on CPUs and GPUs; src/families/double_backward/double_backward.cl says how. */
#include "base/sizes.h"
#include "device/capacity.h"
#include "families/double_backward/double_backward_sizes.h"
#include "families/family_units.h"
#include "families/registry.h"

#define TUNABLES_DEF "families/double_backward/double_backward.def"
#include "families/expand.h"

static struct ca_ndrange tiles(const size_t *values, size_t rows, size_t heads)
{
    const size_t groups = ca_divide_up(rows, values[OWNED_INDEX] * values[GROUP_TILES_INDEX]);

    return (struct ca_ndrange){{values[ROW_ITEMS_INDEX], groups * values[GROUP_TILES_INDEX], heads},
                               {values[ROW_ITEMS_INDEX], values[GROUP_TILES_INDEX], 1}};
}

static struct ca_ndrange queries_ndrange(const struct ca_problem *p, const size_t *values)
{
    const clattn_double_backward_problem *d = &p->normal.double_backward;

    return tiles(values, d->seq_q, d->batch * d->heads);
}

static struct ca_ndrange keys_ndrange(const struct ca_problem *p, const size_t *values)
{
    const clattn_double_backward_problem *d = &p->normal.double_backward;

    return tiles(values, d->seq_kv, d->batch * d->kv_heads);
}

static size_t workspace_bytes(const struct ca_problem *p, const size_t *values)
{
    const clattn_double_backward_problem *d = &p->normal.double_backward;

    (void)values;
    return NUM_SUMS * d->batch * d->heads * d->seq_q * sizeof(cl_float);
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)dev;
    return p->normal.double_backward.dim_qk > 4096 || p->normal.double_backward.dim_v > 4096
               ? "rows of more than 4096 elements do not fit what a work-item keeps"
               : NULL;
}

/* The vectors of owned rows that an item of a GPU keeps of each tensor without spilling registers; tests/offline.sh
 * shows it. */
static size_t most_vectors(const clattn_device_info *dev)
{
    return ca_has_many_registers(dev) ? 4 : 1;
}

/* On CPUs an item has a tile. On GPUs items share its columns, and 64 of them form a group. */
static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const clattn_double_backward_problem *d = &p->normal.double_backward;
    const size_t most = ca_smaller(dev->max_work_group_size, dev->max_work_item_sizes[0]);
    const size_t dim = ca_larger(d->dim_qk, d->dim_v);

    if (ca_fills_vectors(dev)) {
        values[SIMD_WIDTH_INDEX] = ca_vector_lanes(dev);
        return;
    }
    values[SIMD_WIDTH_INDEX] = 4;
    values[ROW_ITEMS_INDEX] = dim > 64 ? 32 : dim > 32 ? 16 : 8;
    while (values[ROW_ITEMS_INDEX] > 4 && values[ROW_ITEMS_INDEX] > most)
        values[ROW_ITEMS_INDEX] /= 2;
    if (values[ROW_ITEMS_INDEX] > most) {
        values[ROW_ITEMS_INDEX] = 1;
        return;
    }
    while (values[OWNED_INDEX] > 1 &&
           values[OWNED_INDEX] *
                   ca_divide_up(dim, values[ROW_ITEMS_INDEX] * values[SIMD_WIDTH_INDEX]) >
               most_vectors(dev))
        values[OWNED_INDEX] /= 2;
    while (values[GROUP_TILES_INDEX] < 8 &&
           values[GROUP_TILES_INDEX] < dev->max_work_item_sizes[1] &&
           values[GROUP_TILES_INDEX] * values[ROW_ITEMS_INDEX] * 2 <= ca_smaller(most, 64))
        values[GROUP_TILES_INDEX] *= 2;
    while (values[GROUP_TILES_INDEX] > 1 && local_bytes(p, values) > dev->local_memory_bytes)
        values[GROUP_TILES_INDEX] /= 2;
}

#define INPUTS                                                                                     \
    (CA_BIT(CA_DOUBLE_BACKWARD_Q) | CA_BIT(CA_DOUBLE_BACKWARD_K) | CA_BIT(CA_DOUBLE_BACKWARD_V) |  \
     CA_BIT(CA_DOUBLE_BACKWARD_DO) | CA_BIT(CA_DOUBLE_BACKWARD_GGQ) |                              \
     CA_BIT(CA_DOUBLE_BACKWARD_GGK) | CA_BIT(CA_DOUBLE_BACKWARD_GGV) |                             \
     CA_BIT(CA_DOUBLE_BACKWARD_Q_LENGTHS) | CA_BIT(CA_DOUBLE_BACKWARD_KV_LENGTHS) |                \
     CA_BIT(CA_WORKSPACE))

static const struct ca_family family = {
    CA_FAMILY("double_backward"),
    .operation = CLATTN_DOUBLE_BACKWARD,
    .source = ca_source_double_backward,
    OWN_MEMBERS,
    CA_STAGES(
        {"double_backward_rows", INPUTS, queries_ndrange},
        {"double_backward_queries",
         INPUTS | CA_BIT(CA_DOUBLE_BACKWARD_GQ) | CA_BIT(CA_DOUBLE_BACKWARD_GDO) | CA_READ_ONLY,
         queries_ndrange},
        {"double_backward_keys",
         INPUTS | CA_BIT(CA_DOUBLE_BACKWARD_GK) | CA_BIT(CA_DOUBLE_BACKWARD_GV) | CA_READ_ONLY,
         keys_ndrange}),
    .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .preference = ca_only_preference,
};

const struct ca_family *const ca_double_backward[] = {&family, NULL};
