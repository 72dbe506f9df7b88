/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of chosen keys by number: their queries, and what families/chosen_keys makes of them in the workspace. */
#pragma once
#include "common/chosen_part.h"
#include "common/common.h"
#include "common/sequence.h"

/* The query of a list: query i of batch b, and the kv head whose keys the list names, 0 where heads share lists. */
struct query {
    long b, kv_head, i;
};

/* The queries of a kv head whose lists follow each other. */
INLINE long queries_together(const struct arguments *args)
{
    return HAS_TOTAL_Q ? args->shape->total_q : args->shape->seq_q;
}

/* Finds the query of list number `list`. Returns false for a row of no sequence. */
INLINE bool find_query(const struct arguments *args, const long list, struct query *to)
{
    const long own = HAS_TOPK_HEADS ? args->shape->kv_heads : 1;

    to->i = list % queries_together(args);
    to->kv_head = list / queries_together(args) % own;
    to->b = list / queries_together(args) / own;
#if HAS_TOTAL_Q
    for (long b = 0, first, rows; b < args->shape->batch; b++) {
        find_rows_of(args->q_starts, b, args->shape->total_q, args->shape->seq_q, &first, &rows);
        if (to->i < first || to->i >= first + rows)
            continue;
        to->i -= first;
        to->b = b;
        return true;
    }
    return false;
#else
    return true;
#endif
}

INLINE struct made_lists made_lists(const struct arguments *args)
{
    return made_lists_of((HAS_TOPK_HEADS ? args->shape->kv_heads : 1) * queries_together(args) *
                             (HAS_TOTAL_Q ? 1 : args->shape->batch),
                         min(args->shape->topk, args->shape->seq_kv));
}
