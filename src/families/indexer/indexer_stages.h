/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of indexers, their workspace and what they do not compute, for the C file of a unit.
 *
 * Before including this: TUNABLES_DEF, as for families/names.h; the unit's sizes; choose_ndrange() and
 * merge_ndrange(). */
#include "families/family.h"

static size_t workspace_bytes(const struct ca_problem *p, const size_t *values)
{
#include "families/names.h"
    const clattn_indexer_problem *x = &p->normal.indexer;
    const size_t rows = x->total_q ? x->total_q : x->batch * x->seq_q;

    return (GROUPS_ROOM(x->topk, x->seq_kv) + ALL_PARTS_ROOM(x->topk, x->seq_kv, rows)) *
           sizeof(cl_int);
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)dev;
    return p->normal.indexer.gradients ? "gradients of indexers have a family of their own" : NULL;
}

#define INDEXER_LENGTHS                                                                            \
    (CA_BIT(CA_INDEXER_Q_LENGTHS) | CA_BIT(CA_INDEXER_KV_LENGTHS) | CA_BIT(CA_INDEXER_Q_STARTS) |  \
     CA_BIT(CA_INDEXER_KV_STARTS))
#define INDEXER_OUTPUTS                                                                            \
    (CA_BIT(CA_INDEXER_TOPK_INDICES) | CA_BIT(CA_INDEXER_SCORES) | CA_BIT(CA_WORKSPACE))
#define INDEXER_STAGES                                                                             \
    {"indexer_choose",                                                                             \
     CA_BIT(CA_INDEXER_Q) | CA_BIT(CA_INDEXER_K) | CA_BIT(CA_INDEXER_W) | INDEXER_LENGTHS |        \
         CA_BIT(CA_INDEXER_PAGE_TABLE) | INDEXER_OUTPUTS,                                          \
     choose_ndrange},                                                                              \
    {                                                                                              \
        "indexer_merge", INDEXER_LENGTHS | INDEXER_OUTPUTS, merge_ndrange                          \
    }
