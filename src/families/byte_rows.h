/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a family for GPUs that make rows of bytes for precision=int8 (cl/gpu/byte_rows.h), and their part of the
 * workspace. */
#ifndef CA_BYTE_ROWS_H
#define CA_BYTE_ROWS_H

#include "base/sizes.h"
#include "families/byte_row_sizes.h"
#include "families/family.h"

/* Each sequence of a packed batch has lines for the longest one, since those that overlap share keys, but not their mean. */
static inline size_t ca_byte_rows_bytes(const struct ca_problem *p)
{
    const clattn_problem *n = &p->normal;
    const size_t DIM_QK = n->dim_qk;
    const size_t sums = ca_has_key_means(p) ? n->kv_heads * MEAN_PARTS * PART_FLOATS : 0;
    const size_t lines = n->heads * n->seq_q + n->kv_heads * n->seq_kv;

    return n->int8 ? FLOAT4_BYTES + n->batch * (sums + lines * LINE_FLOATS) * sizeof(cl_float) : 0;
}

static inline struct ca_ndrange ca_key_sums_ndrange(const struct ca_problem *p,
                                                    const size_t *values)
{
    (void)values;
    return (struct ca_ndrange){
        {MEAN_PARTS * BYTE_ITEMS, ca_has_key_means(p) ? p->normal.kv_heads : 0, p->normal.batch},
        {BYTE_ITEMS, 1, 1}};
}

static inline struct ca_ndrange ca_byte_rows_ndrange(const struct ca_problem *p,
                                                     const size_t *values)
{
    const clattn_problem *n = &p->normal;
    const size_t groups = n->heads * ca_divide_up(n->seq_q, BYTE_ROWS) +
                          n->kv_heads * ca_divide_up(n->seq_kv, BYTE_ROWS);

    (void)values;
    return (struct ca_ndrange){{n->int8 ? groups * BYTE_ITEMS : 0, n->batch, 1},
                               {BYTE_ITEMS, 1, 1}};
}

#define CA_BYTE_ROWS                                                                               \
    {"sum_keys",                                                                                   \
     CA_SCALED_K | CA_BIT(CA_Q_LENGTHS) | CA_BIT(CA_KV_LENGTHS) | CA_BIT(CA_PAGE_TABLE) |          \
         CA_STARTS | CA_BIT(CA_WORKSPACE) | CA_OF_MEANS,                                           \
     ca_key_sums_ndrange},                                                                         \
    {                                                                                              \
        "make_byte_rows",                                                                          \
            CA_BIT(CA_Q) | CA_SCALED_K | CA_BIT(CA_Q_LENGTHS) | CA_BIT(CA_KV_LENGTHS) |            \
                CA_BIT(CA_PAGE_TABLE) | CA_STARTS | CA_BIT(CA_WORKSPACE) | CA_OF_BYTES,            \
            ca_byte_rows_ndrange                                                                   \
    }

#endif
