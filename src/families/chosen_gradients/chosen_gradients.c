/* SPDX-License-Identifier: Apache-2.0 */
/* The program around each execution of gradients by copies of listed keys
 * (src/families/chosen_gradients/chosen_gradients.cl). */
#include "families/chosen_gradients/chosen_gradients.h"
#include "device/capacity.h"
#include "families/chosen_gradients/chosen_gradients_sizes.h"
#include "families/family_units.h"
#include "problem/chosen_keys.h"

#define TUNABLES_DEF "families/chosen_gradients/chosen_gradients.def"
#include "families/expand.h"

/* groups: along x; by lists: for each kv head of an execution and each of its lists, else for each head of keys. */
static struct ca_ndrange ndrange(const struct ca_problem *p, const size_t *values, size_t groups,
                                 int by_lists)
{
    struct ca_chosen_keys chosen;

    if (!ca_chosen_keys(&p->normal, &chosen) || chosen.way != CA_BY_COPIES)
        return ca_groups(0, values[ITEMS_INDEX]);
    const size_t heads = by_lists ? (size_t)chosen.copies.kv_heads : p->normal.kv_heads;
    const size_t lists = by_lists ? (size_t)chosen.copies.lists : ca_cache_batch(&p->normal);
    struct ca_ndrange range = ca_groups(groups, values[ITEMS_INDEX]);
    range.global[1] = heads;
    range.global[2] = lists;
    return range;
}

static struct ca_ndrange copy_ndrange(const struct ca_problem *p, const size_t *values)
{
    return ndrange(p, values, values[PARTS_INDEX], 1);
}

static struct ca_ndrange store_ndrange(const struct ca_problem *p, const size_t *values)
{
    return ndrange(p, values, 1, 1);
}

static struct ca_ndrange add_ndrange(const struct ca_problem *p, const size_t *values)
{
    return ndrange(p, values, values[RANGES_INDEX], 0);
}

static struct ca_ndrange sink_ndrange(const struct ca_problem *p, const size_t *values)
{
    struct ca_ndrange range = ndrange(p, values, p->normal.dsinks ? p->normal.heads : 0, 0);

    range.global[1] = range.global[2] = 1;
    return range;
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    (void)dev;
    return NULL;
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    (void)p;
    values[ITEMS_INDEX] = ca_fills_vectors(dev) || dev->max_work_group_size < 64 ? 1 : 64;
    values[PARTS_INDEX] = values[ITEMS_INDEX] > 1 ? 16 : 4;
    values[RANGES_INDEX] = dev->compute_units > 32 ? 256 : dev->compute_units > 4 ? 64 : 16;
}

void ca_chosen_gradients_suggest(const clattn_device_info *dev, size_t *values)
{
    ca_tunables_default(tunables, NUM_TUNABLES, values);
    adapt(NULL, dev, values);
}

const struct ca_family ca_family_chosen_gradients = {
    CA_FAMILY("chosen_gradients"),
    .operation = CLATTN_BACKWARD,
    .source = ca_source_chosen_gradients,
    OWN_MEMBERS,
    CA_STAGES({"copy_lists",
               CA_BIT(CA_Q) | CA_BIT(CA_K) | CA_BIT(CA_V) | CA_BIT(CA_O) | CA_BIT(CA_DO) |
                   CA_BIT(CA_LSE) | CA_BIT(CA_DLSE) | CA_BIT(CA_Q_STARTS) | CA_BIT(CA_WORKSPACE),
               copy_ndrange},
              {"store_queries", CA_BIT(CA_DQ) | CA_BIT(CA_Q_STARTS) | CA_BIT(CA_WORKSPACE),
               store_ndrange},
              {"add_keys",
               CA_BIT(CA_DK) | CA_BIT(CA_DV) | CA_BIT(CA_KV_STARTS) | CA_BIT(CA_WORKSPACE),
               add_ndrange},
              {"add_sinks",
               CA_BIT(CA_O) | CA_BIT(CA_DO) | CA_BIT(CA_LSE) | CA_BIT(CA_DLSE) | CA_BIT(CA_SINKS) |
                   CA_BIT(CA_Q_STARTS) | CA_BIT(CA_DSINKS),
               sink_ndrange}),
    .local_bytes = local_bytes,
    .preference = ca_forced_preference,
};
