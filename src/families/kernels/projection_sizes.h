/* What the families of projections share: the sizes of the product, and the sums of parts of the
 * depth that wait in the workspace when SPLIT_K groups share it. */
#ifndef CA_PROJECTION_SIZES_H
#define CA_PROJECTION_SIZES_H

#include "families/family.h"

/* Arguments of the two stages: the product, and the sum of its parts. */
#define CA_PROJECTION_ARGUMENTS                                                                    \
    (CA_BIT(CA_Q) | CA_BIT(CA_K) | CA_BIT(CA_O) | CA_BIT(CA_BIAS) | CA_BIT(CA_WORKSPACE))
#define CA_PROJECTION_SUM_ARGUMENTS                                                                \
    (CA_BIT(CA_O) | CA_BIT(CA_BIAS) | CA_BIT(CA_WORKSPACE) | CA_READ_ONLY)

static inline size_t ca_projection_rows(const clattn_problem *p)
{
    return p->batch * p->seq_q;
}

static inline size_t ca_projection_columns(const clattn_problem *p)
{
    return p->heads * p->dim_v;
}

static inline size_t ca_projection_depth(const clattn_problem *p)
{
    return p->kv_heads * p->dim_qk;
}

/* Of the workspace; none without splits. */
static inline size_t ca_projection_split_bytes(const clattn_problem *p, size_t splits)
{
    return splits > 1 ? splits * ca_projection_rows(p) * ca_projection_columns(p) * sizeof(cl_float)
                      : 0;
}

#endif
