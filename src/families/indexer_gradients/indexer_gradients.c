/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of indexers, on CPUs and GPUs; src/families/indexer_gradients/indexer_gradients.cl says how. */
#include "base/sizes.h"
#include "families/family_units.h"
#include "families/indexer_gradients/indexer_gradients_sizes.h"
#include "families/registry.h"

#define TUNABLES_DEF "families/indexer_gradients/indexer_gradients.def"
#include "families/expand.h"

static size_t list_rows(const clattn_indexer_problem *x)
{
    return x->total_q ? x->total_q : x->batch * x->seq_q;
}

static size_t key_rows(const clattn_indexer_problem *x)
{
    return ca_indexer_blocks(x) * ca_indexer_rows(x);
}

static struct ca_ndrange in_groups(size_t items, size_t others, const size_t *values)
{
    struct ca_ndrange range =
        ca_groups(ca_divide_up(items, values[ITEMS_INDEX]), values[ITEMS_INDEX]);

    range.global[1] = others;
    return range;
}

static struct ca_ndrange queries_ndrange(const struct ca_problem *p, const size_t *values)
{
#include "families/names.h"
    return in_groups(list_rows(&p->normal.indexer), WORDS, values);
}

static struct ca_ndrange ranges_ndrange(const struct ca_problem *p, const size_t *values)
{
    (void)p;
    return in_groups(values[RANGES_INDEX], 1, values);
}

static struct ca_ndrange keys_ndrange(const struct ca_problem *p, const size_t *values)
{
    return in_groups(key_rows(&p->normal.indexer), 1, values);
}

static size_t workspace_bytes(const struct ca_problem *p, const size_t *values)
{
#include "families/names.h"
    const clattn_indexer_problem *x = &p->normal.indexer;

    return ALL_ROOM(key_rows(x), list_rows(x) * x->topk) * sizeof(cl_int);
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    const clattn_indexer_problem *x = &p->normal.indexer;

    (void)dev;
    if (!x->gradients)
        return "it has gradients of indexers alone";
    return x->topk > INT32_MAX / ca_larger(list_rows(x), 1)
               ? "all lists have more than 2^31 - 1 entries, whose numbers are ints"
               : NULL;
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    (void)p;
    if (ca_fills_vectors(dev)) {
        values[SIMD_WIDTH_INDEX] = ca_vector_lanes(dev);
        return;
    }
    values[SIMD_WIDTH_INDEX] = 4;
    if (dev->max_work_group_size < 64 || dev->max_work_item_sizes[0] < 64)
        return;
    values[ITEMS_INDEX] = 64;
    values[RANGES_INDEX] = 512;
}

#define LENGTHS                                                                                    \
    (CA_BIT(CA_INDEXER_CHOSEN) | CA_BIT(CA_INDEXER_Q_LENGTHS) | CA_BIT(CA_INDEXER_KV_LENGTHS) |    \
     CA_BIT(CA_INDEXER_Q_STARTS) | CA_BIT(CA_INDEXER_KV_STARTS) | CA_BIT(CA_WORKSPACE))
#define INPUTS (CA_BIT(CA_INDEXER_Q) | CA_BIT(CA_INDEXER_W) | CA_BIT(CA_INDEXER_DSCORES) | LENGTHS)

static const struct ca_family family = {
    CA_FAMILY("indexer_gradients"),
    .operation = CLATTN_INDEXER,
    .source = ca_source_indexer_gradients,
    OWN_MEMBERS,
    CA_STAGES({"gradients_of_queries",
               INPUTS | CA_BIT(CA_INDEXER_K) | CA_BIT(CA_INDEXER_DQ) | CA_BIT(CA_INDEXER_DW),
               queries_ndrange},
              {"count_entries", LENGTHS, ranges_ndrange},
              {"place_entries", LENGTHS, ranges_ndrange},
              {"gradients_of_keys", INPUTS | CA_BIT(CA_INDEXER_DK), keys_ndrange}),
    .workspace_bytes = workspace_bytes,
    .preference = ca_only_preference,
};

const struct ca_family *const ca_indexer_gradients[] = {&family, NULL};
