/* SPDX-License-Identifier: Apache-2.0 */
/* The common parts of families of gradients for GPUs: the number of groups of each stage
 * (backward_stages.h), and the workspace. Groups own `owned` rows, of keys or of queries, stream
 * the others in tiles of `streamed`, and have `items` work-items. */
#ifndef CA_BACKWARD_SIZES_H
#define CA_BACKWARD_SIZES_H

#include "families/block_bits.h"
#include "families/pair_marks.h"

struct ca_backward_blocks {
    size_t owned, streamed, items;
};

struct ca_ndrange ca_backward_marks_ndrange(const clattn_problem *p,
                                            struct ca_backward_blocks blocks);
struct ca_ndrange ca_backward_rows_ndrange(const clattn_problem *p,
                                           struct ca_backward_blocks blocks);
struct ca_ndrange ca_backward_keys_ndrange(const clattn_problem *p,
                                           struct ca_backward_blocks blocks);
struct ca_ndrange ca_backward_queries_ndrange(const clattn_problem *p,
                                              struct ca_backward_blocks blocks);
struct ca_ndrange ca_backward_bias_ndrange(const clattn_problem *p,
                                           struct ca_backward_blocks blocks);
struct ca_ndrange ca_backward_sums_ndrange(const clattn_problem *p,
                                           struct ca_backward_blocks blocks);

size_t ca_backward_workspace_bytes(const clattn_problem *p, struct ca_backward_blocks blocks);

#endif
