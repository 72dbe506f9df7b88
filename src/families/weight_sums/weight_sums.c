/* SPDX-License-Identifier: Apache-2.0 */
/* The second program of forward plans that hand out sums of weights (src/families/weight_sums/weight_sums.cl). */
#include "base/sizes.h"
#include "device/capacity.h"
#include "families/block_bits.h"
#include "families/family_units.h"
#include "families/weight_sums/weight_sums.h"
#include "families/weight_sums/weight_sums_sizes.h"

#define TUNABLES_DEF "families/weight_sums/weight_sums.def"
#include "families/expand.h"

static struct ca_ndrange groups(const size_t *values, size_t seq_kv, size_t y, size_t z)
{
    const size_t items = values[ITEMS_INDEX];
    const size_t keys = items * values[KEY_VECTORS_INDEX] * values[SIMD_WIDTH_INDEX];

    return (struct ca_ndrange){{ca_divide_up(seq_kv, keys) * items, y, z}, {items, 1, 1}};
}

static struct ca_ndrange key_sums_ndrange(const struct ca_problem *p, const size_t *values)
{
    return groups(values, p->normal.key_sums ? p->normal.seq_kv : 0, p->normal.kv_heads,
                  p->normal.batch);
}

static struct ca_ndrange mean_ndrange(const struct ca_problem *p, const size_t *values)
{
    return groups(values, p->normal.scores == CLATTN_SCORES_MEAN ? p->normal.seq_kv : 0,
                  ca_divide_up(p->normal.seq_q, MEAN_ROWS), p->normal.batch);
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    (void)dev;
    return NULL;
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    values[SIMD_WIDTH_INDEX] = ca_fills_vectors(dev) ? ca_vector_lanes(dev) : 1;
    values[ITEMS_INDEX] = 1;
    while (values[SIMD_WIDTH_INDEX] > 1 && values[KEY_VECTORS_INDEX] > 1 && reject(p, dev, values))
        values[KEY_VECTORS_INDEX] /= 2;
    if (values[SIMD_WIDTH_INDEX] == 1 || reject(p, dev, values)) {
        values[SIMD_WIDTH_INDEX] = values[KEY_VECTORS_INDEX] = 1;
        values[ITEMS_INDEX] = dev->max_work_group_size >= 64 ? 64 : 1;
    }
}

void ca_weight_sums_plain(const clattn_device_info *dev, size_t *values)
{
    values[SIMD_WIDTH_INDEX] = values[KEY_VECTORS_INDEX] = 1;
    values[ITEMS_INDEX] = dev->max_work_group_size >= 64 ? 64 : 1;
}

#define WEIGHTS_ARGUMENTS                                                                          \
    (CA_BIT(CA_Q) | CA_SCALED_K | CA_SCORE_ARGUMENTS | CA_BIT(CA_PAGE_TABLE) | CA_STARTS |         \
     CA_BIT(CA_LSE) | CA_BLOCK_BITS)

static size_t workspace_bytes(const struct ca_problem *p, const size_t *values)
{
    (void)values;
    return ca_block_bits_bytes(p);
}

const struct ca_family ca_weight_sums = {
    CA_FAMILY("weight_sums"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_weight_sums,
    OWN_MEMBERS,
    CA_STAGES(CA_MARK_BLOCKS,
              {"key_sums", WEIGHTS_ARGUMENTS | CA_BIT(CA_KEY_SUMS), key_sums_ndrange},
              {"mean_weights", WEIGHTS_ARGUMENTS | CA_BIT(CA_SCORES), mean_ndrange}),
    .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .preference = ca_forced_preference,
};
