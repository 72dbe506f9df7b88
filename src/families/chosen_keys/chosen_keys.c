/* SPDX-License-Identifier: Apache-2.0 */
/* The first program of plans with lists of chosen keys (src/families/chosen_keys/chosen_keys.cl). */
#include "families/chosen_keys/chosen_keys.h"
#include "base/sizes.h"
#include "device/capacity.h"
#include "families/chosen_keys/chosen_keys_sizes.h"
#include "families/family_units.h"
#include "problem/chosen_keys.h"

#define TUNABLES_DEF "families/chosen_keys/chosen_keys.def"
#include "families/expand.h"

enum { MOST_BITS = 64 << 20 }; /* bytes of all groups' bits */

static size_t bits_of_group(const struct ca_problem *p)
{
    return ca_divide_up(p->normal.seq_kv, 32) * sizeof(cl_uint);
}

static struct ca_ndrange list_ndrange(const struct ca_problem *p, const size_t *values)
{
    struct ca_chosen_keys chosen;
    const int reads = ca_chosen_keys(&p->normal, &chosen) && chosen.way != CA_BY_MASK;

    return ca_groups(reads ? ca_smaller(values[GROUPS_INDEX], chosen.lists) : 0,
                     values[ITEMS_INDEX]);
}

/* A group a row of the mask. */
static struct ca_ndrange mark_ndrange(const struct ca_problem *p, const size_t *values)
{
    struct ca_chosen_keys chosen;
    const int reads = ca_chosen_keys(&p->normal, &chosen) && chosen.way == CA_BY_MASK;
    const size_t rows = reads ? chosen.mask_bytes / p->normal.seq_kv : 0;

    return ca_groups(rows, values[ITEMS_INDEX]);
}

static size_t workspace_bytes(const struct ca_problem *p, const size_t *values)
{
    struct ca_chosen_keys chosen;

    if (!ca_chosen_keys(&p->normal, &chosen))
        return 0;
    return ca_chosen_keys_bytes(&chosen, values[GROUPS_INDEX] * bits_of_group(p));
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    (void)dev;
    return NULL;
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    struct ca_chosen_keys chosen;

    if (!ca_chosen_keys(&p->normal, &chosen)) /* a problem without keys has no bits either */
        return;
    values[ITEMS_INDEX] = ca_fills_vectors(dev) || dev->max_work_group_size < 64 ? 1 : 64;
    values[GROUPS_INDEX] = dev->compute_units > 32 ? 256 : dev->compute_units > 4 ? 64 : 16;
    while (values[GROUPS_INDEX] > 16 && values[GROUPS_INDEX] > MOST_BITS / bits_of_group(p))
        values[GROUPS_INDEX] /= 4;
    values[PACKED_INDEX] = chosen.packed != 0;
    values[COUNTS_BATCHES_INDEX] = chosen.counts_batches != 0;
    values[COUNTS_HEADS_INDEX] = chosen.counts_heads != 0;
}

void ca_chosen_keys_suggest(const struct ca_problem *p, const clattn_device_info *dev,
                            size_t *values)
{
    ca_tunables_default(tunables, NUM_TUNABLES, values);
    adapt(p, dev, values);
}

const struct ca_family ca_family_chosen_keys = {
    CA_FAMILY("chosen_keys"),
    .source = ca_source_chosen_keys,
    OWN_MEMBERS,
    CA_STAGES({"list_rows",
               CA_BIT(CA_TOPK_INDICES) | CA_BIT(CA_Q_LENGTHS) | CA_BIT(CA_KV_LENGTHS) |
                   CA_BIT(CA_PAGE_TABLE) | CA_STARTS | CA_BIT(CA_WORKSPACE),
               list_ndrange},
              {"mark_keys",
               CA_BIT(CA_TOPK_INDICES) | CA_BIT(CA_MASK) | CA_BIT(CA_Q_LENGTHS) |
                   CA_BIT(CA_KV_LENGTHS) | CA_STARTS | CA_BIT(CA_WORKSPACE),
               mark_ndrange}),
    .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,
    .preference = ca_forced_preference,
};
