/* SPDX-License-Identifier: Apache-2.0 */
/* The common parts of backward_cpu with UNIT=vector, UNIT=pairs and UNIT=amx, which share
 * backward_cpu.cl. */
#ifndef CA_BACKWARD_LANES_H
#define CA_BACKWARD_LANES_H

#include "families/family.h"

struct ca_backward_lanes_sizes {
    size_t block_m, block_n; /* queries in a tile, keys in a block */
    size_t row, rows_after;  /* of the sums of dq: columns of a row, and rows after each head */
    size_t split_k;          /* groups that share the keys of a kv head */
};

size_t ca_backward_lanes_workspace_bytes(const clattn_problem *p,
                                         const struct ca_backward_lanes_sizes *sizes);

void ca_backward_lanes_bias_ndrange(const clattn_problem *p,
                                    const struct ca_backward_lanes_sizes *sizes,
                                    struct ca_ndrange *range);

void ca_backward_lanes_rows_ndrange(const clattn_problem *p,
                                    const struct ca_backward_lanes_sizes *sizes,
                                    struct ca_ndrange *range);

/* These implement ca_stage.ndrange. */
void ca_backward_lanes_sum_ndrange(const clattn_problem *p, const size_t *values,
                                   const clattn_device_info *dev, struct ca_ndrange *range);
void ca_backward_lanes_heads_ndrange(const clattn_problem *p, const size_t *values,
                                     const clattn_device_info *dev, struct ca_ndrange *range);
void ca_backward_lanes_marks_ndrange(const clattn_problem *p, const size_t *values,
                                     const clattn_device_info *dev, struct ca_ndrange *range);

/* The SPLIT_K that gives each compute unit some groups. */
size_t ca_backward_split(const clattn_problem *p, const clattn_device_info *dev);

/* The stages, with the ndrange() of those that depend on tunables. */
#define CA_BACKWARD_LANES_STAGES(rows_ndrange, lanes_ndrange, bias_ndrange)                        \
    {                                                                                              \
        CA_MARK_BLOCKS, CA_MARK_PAIRS(ca_backward_lanes_marks_ndrange),                            \
            {"backward_rows", CA_BACKWARD_ROWS_ARGUMENTS, rows_ndrange},                           \
            {"backward_cpu", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DK) | CA_BIT(CA_DV),                \
             lanes_ndrange},                                                                       \
            {"backward_bias", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DBIAS) | CA_READ_ONLY,             \
             bias_ndrange},                                                                        \
            {"backward_heads",                                                                     \
             CA_BIT(CA_SINKS) | CA_BIT(CA_LSE) | CA_BIT(CA_DSLOPES) | CA_BIT(CA_DSINKS) |          \
                 CA_STARTS | CA_BIT(CA_WORKSPACE) | CA_READ_ONLY,                                  \
             ca_backward_lanes_heads_ndrange},                                                     \
        {                                                                                          \
            "backward_sum", CA_BIT(CA_DQ) | CA_STARTS | CA_BIT(CA_WORKSPACE) | CA_READ_ONLY,       \
                ca_backward_lanes_sum_ndrange                                                      \
        }                                                                                          \
    }

#endif
