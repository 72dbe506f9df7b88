/* What families of gradients for GPUs share: their stages (cl/kernels/backward_tiles.cl says which), how
 * many groups each has, and the workspace. Groups own `owned` rows, of keys or of queries, stream the
 * others in tiles of `streamed`, and are of `items` work-items. */
#ifndef CA_BACKWARD_SIZES_H
#define CA_BACKWARD_SIZES_H

#include "families/kernels/block_bits.h"
#include "families/kernels/pair_marks.h"

struct ca_backward_blocks {
    size_t owned, streamed, items;
};

void ca_backward_marks_ndrange(const clattn_problem *p, struct ca_backward_blocks blocks,
                               struct ca_ndrange *range);
void ca_backward_rows_ndrange(const clattn_problem *p, struct ca_backward_blocks blocks,
                              struct ca_ndrange *range);
void ca_backward_keys_ndrange(const clattn_problem *p, struct ca_backward_blocks blocks,
                              struct ca_ndrange *range);
void ca_backward_queries_ndrange(const clattn_problem *p, struct ca_backward_blocks blocks,
                                 struct ca_ndrange *range);
void ca_backward_bias_ndrange(const clattn_problem *p, struct ca_backward_blocks blocks,
                              struct ca_ndrange *range);
void ca_backward_sums_ndrange(const clattn_problem *p, struct ca_backward_blocks blocks,
                              struct ca_ndrange *range);

size_t ca_backward_workspace_bytes(const clattn_problem *p, struct ca_backward_blocks blocks);

/* The list of stages, by what they are called in cl/kernels/, of a family whose functions these are. */
#define CA_BACKWARD_STAGES(marks, rows, keys, queries, bias, sums)                                 \
    {                                                                                              \
        CA_MARK_BLOCKS, CA_MARK_PAIRS(marks),                                                      \
            {"backward_rows",                                                                      \
             CA_BIT(CA_O) | CA_BIT(CA_LSE) | CA_BIT(CA_DO) | CA_STARTS | CA_BIT(CA_WORKSPACE),     \
             rows},                                                                                \
            {"backward_keys", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DK) | CA_BIT(CA_DV), keys},        \
            {"backward_queries", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DQ), queries},                  \
            {"backward_bias", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DBIAS) | CA_READ_ONLY, bias},      \
            {"backward_sums",                                                                      \
             CA_BIT(CA_SINKS) | CA_BIT(CA_LSE) | CA_BIT(CA_DBIAS) | CA_BIT(CA_DSLOPES) |           \
                 CA_BIT(CA_DSINKS) | CA_STARTS | CA_BIT(CA_WORKSPACE) | CA_READ_ONLY,              \
             sums},                                                                                \
    }
enum { CA_BACKWARD_NUM_STAGES = 7 };

#endif
