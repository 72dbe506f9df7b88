/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of a family for CPUs that finds the means of keys (cl/cpu/key_bytes.h), and its part of the workspace. */
#ifndef CA_KEY_MEANS_H
#define CA_KEY_MEANS_H

#include "families/family.h"
#include "families/key_mean_sizes.h"

static inline size_t ca_key_means_bytes(const struct ca_problem *p)
{
    const size_t DIM_QK = p->normal.dim_qk;

    return ca_has_key_means(p)
               ? p->normal.batch * p->normal.kv_heads * MEAN_FLOATS * sizeof(cl_float)
               : 0;
}

static inline struct ca_ndrange ca_key_means_ndrange(const struct ca_problem *p,
                                                     const size_t *values)
{
    (void)values;
    return ca_single_items(ca_has_key_means(p) ? p->normal.kv_heads : 0, p->normal.batch, 1);
}

#define CA_KEY_MEANS                                                                               \
    {                                                                                              \
        "key_means",                                                                               \
            CA_SCALED_K | CA_BIT(CA_Q_LENGTHS) | CA_BIT(CA_KV_LENGTHS) | CA_BIT(CA_PAGE_TABLE) |   \
                CA_STARTS | CA_BIT(CA_WORKSPACE) | CA_OF_MEANS,                                    \
            ca_key_means_ndrange                                                                   \
    }

#endif
