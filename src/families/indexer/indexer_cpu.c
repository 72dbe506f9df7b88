/* SPDX-License-Identifier: Apache-2.0 */
/* Indexers on CPUs, with keys in SIMD lanes; src/families/indexer/indexer_cpu.cl says how. */
#include "base/sizes.h"
#include "families/family_units.h"
#include "families/indexer/indexer_cpu_sizes.h"
#include "families/registry.h"

#define TUNABLES_DEF "families/indexer/indexer_cpu.def"
#define TUNABLES_UNIT UNIT_VECTOR
#include "families/expand.h"
#undef TUNABLES_UNIT
#define TUNABLES_UNIT UNIT_PAIRS
#define TUNABLES_TABLE tunables_of_pairs
#include "families/table.h"
#undef TUNABLES_UNIT
#define TUNABLES_UNIT UNIT_AMX
#define TUNABLES_TABLE tunables_of_amx
#include "families/table.h"

static struct ca_ndrange choose_ndrange(const struct ca_problem *p, const size_t *values)
{
    (void)p;
    return ca_single_items(values[GROUPS_INDEX], 1, 1);
}

static struct ca_ndrange merge_ndrange(const struct ca_problem *p, const size_t *values)
{
    const clattn_indexer_problem *x = &p->normal.indexer;

    return ca_single_items(values[SPLITS_INDEX] > 1 ? x->seq_q : 0, x->batch, 1);
}

#include "families/indexer/indexer_stages.h"

static const char *unsupported_by_pairs(const struct ca_problem *p, const clattn_device_info *dev)
{
    const char *why = unsupported(p, dev);

    return why ? why : ca_bf16_pairs_refusal(p);
}

static size_t tasks(const struct ca_problem *p, const size_t *values)
{
    const clattn_indexer_problem *x = &p->normal.indexer;

    return x->batch * ca_divide_up(x->seq_q, values[QUERIES_INDEX]) * values[SPLITS_INDEX];
}

/* Queries share packed keys while each unit still has tasks; then units share the keys of a query. */
static void share(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t units = dev->compute_units ? dev->compute_units : 1;
    enum { LEAST_KEYS = 1024 };

    while (values[QUERIES_INDEX] > 1 &&
           (tasks(p, values) < 2 * units || private_bytes(p, values) > ca_private_limit(dev) / 2))
        values[QUERIES_INDEX] /= 2;
    while (values[BLOCK_PANELS_INDEX] > 1 && private_bytes(p, values) > ca_private_limit(dev))
        values[BLOCK_PANELS_INDEX] /= 2;
    while (values[SPLITS_INDEX] < 32 && tasks(p, values) < units &&
           p->normal.indexer.seq_kv >= 2 * LEAST_KEYS * values[SPLITS_INDEX])
        values[SPLITS_INDEX] *= 2;
    values[GROUPS_INDEX] = 1;
    while (values[GROUPS_INDEX] < 1024 && values[GROUPS_INDEX] < 4 * units &&
           values[GROUPS_INDEX] < tasks(p, values))
        values[GROUPS_INDEX] *= 2;
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const int wide = ca_vector_lanes(dev) == 16;

    values[SIMD_WIDTH_INDEX] = ca_vector_lanes(dev);
    values[REGISTER_VECTORS_INDEX] = 3;
    values[REGISTER_ROWS_INDEX] = wide ? 8 : 4;
    share(p, dev, values);
}

static void adapt_pairs(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    share(p, dev, values);
}

static void adapt_amx(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    values[REGISTER_VECTORS_INDEX] = 2;
    values[REGISTER_ROWS_INDEX] = 16;
    values[QUERIES_INDEX] = 16; /* packing costs more beside the products of tiles */
    share(p, dev, values);
}

#define INDEXER_MEMBERS                                                                            \
    .operation = CLATTN_INDEXER, .source = ca_source_indexer_cpu, CA_STAGES(INDEXER_STAGES),       \
    .reject = reject, .workspace_bytes = workspace_bytes, .private_bytes = private_bytes

static const struct ca_family vector = {
    CA_UNIT_OF("indexer", "vector"), INDEXER_MEMBERS, CA_TUNABLES(tunables),
    .unsupported = unsupported,      .adapt = adapt,  .preference = ca_vector_preference,
};

static const struct ca_family pairs = {
    CA_UNIT_OF("indexer", "pairs"),         INDEXER_MEMBERS,      CA_TUNABLES(tunables_of_pairs),
    .unsupported = unsupported_by_pairs,    .adapt = adapt_pairs, .options = ca_bf16_pairs_options,
    .preference = ca_bf16_pairs_preference,
};

static const struct ca_family amx = {
    CA_UNIT_OF("indexer", "amx"),
    INDEXER_MEMBERS,
    CA_TUNABLES(tunables_of_amx),
    .unsupported = unsupported_by_pairs,
    .adapt = adapt_amx,
    .options = ca_amx_options,
    .preference = ca_amx_preference,
    .refused_by_system = ca_amx_refused_by_system,
};

const struct ca_family *const ca_indexer[] = {&vector, &pairs, &amx, &ca_indexer_item, NULL};
