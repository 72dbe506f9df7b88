/* SPDX-License-Identifier: Apache-2.0 */
/* Indexers on GPUs, a work-group a query; src/families/indexer/indexer_item.cl says how. */
#include "base/sizes.h"
#include "families/family_units.h"
#include "families/indexer/indexer_item_sizes.h"
#include "families/registry.h"

#define TUNABLES_DEF "families/indexer/indexer_item.def"
#define TUNABLES_UNIT UNIT_ITEM
#include "families/expand.h"

static struct ca_ndrange choose_ndrange(const struct ca_problem *p, const size_t *values)
{
    (void)p;
    return ca_groups(values[GROUPS_INDEX], values[ITEMS_INDEX]);
}

static struct ca_ndrange merge_ndrange(const struct ca_problem *p, const size_t *values)
{
    const clattn_indexer_problem *x = &p->normal.indexer;
    const size_t items = values[ITEMS_INDEX];

    return (struct ca_ndrange){{values[SPLITS_INDEX] > 1 ? x->seq_q * items : 0, x->batch, 1},
                               {items, 1, 1}};
}

#include "families/indexer/indexer_stages.h"

/* Several groups a unit hide each other's barriers. Where queries are few, groups share their keys. */
static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    enum { LEAST_KEYS = 4096, GROUPS_OF_UNIT = 4 };
    const clattn_indexer_problem *x = &p->normal.indexer;
    const size_t units = dev->compute_units ? dev->compute_units : 1;
    const size_t most = ca_smaller(dev->max_work_group_size, dev->max_work_item_sizes[0]);
    const size_t queries = x->batch * x->seq_q;

    while (values[ITEMS_INDEX] > 32 && values[ITEMS_INDEX] > most)
        values[ITEMS_INDEX] /= 2;
    while (values[SPLITS_INDEX] < 32 && queries * values[SPLITS_INDEX] < units &&
           x->seq_kv >= 2 * LEAST_KEYS * values[SPLITS_INDEX])
        values[SPLITS_INDEX] *= 2;
    values[GROUPS_INDEX] = 1;
    while (values[GROUPS_INDEX] < 1024 && values[GROUPS_INDEX] < GROUPS_OF_UNIT * units &&
           values[GROUPS_INDEX] < queries * values[SPLITS_INDEX])
        values[GROUPS_INDEX] *= 2;
}

/* On CPUs it is only used if forced: PoCL takes minutes to compile its barriers. */
static int preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return dev->type & CL_DEVICE_TYPE_GPU ? 90 : CA_ONLY_IF_FORCED;
}

const struct ca_family ca_indexer_item = {
    CA_UNIT_OF("indexer", "item"),    .operation = CLATTN_INDEXER,
    .source = ca_source_indexer_item, OWN_MEMBERS,
    CA_STAGES(INDEXER_STAGES),        .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,       .preference = preference,
};
