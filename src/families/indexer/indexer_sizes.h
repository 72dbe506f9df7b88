/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of lists and candidates of families of indexers, for kernels and, with the names of families/names.h, for the host.
 *
 * Before including this: LANES, entries that are read together; BLOCK_KEYS, keys that are scored before candidates leave;
 * GROUP_ROWS, queries of a work-group; GROUPS and SPLITS, tunables. */
#ifndef CLATTN_INDEXER_SIZES_H
#define CLATTN_INDEXER_SIZES_H
#include "families/sizes.h"

/* The candidates of a query that are kept at a time, before some leave; and the room for them. */
#define CANDIDATES(topk, seq_kv) MIN((topk) + MAX(topk, 256), seq_kv)
#define CANDIDATE_ROOM(topk, seq_kv)                                                               \
    (ROUND_UP(CANDIDATES(topk, seq_kv) + BLOCK_KEYS, LANES) + LANES)
/* The entries of a list that can be keys, and the room for those of all parts of a query's keys. */
#define LISTED(topk, seq_kv) MIN(topk, seq_kv)
#define PARTS_ROOM(topk, seq_kv) (ROUND_UP(SPLITS * LISTED(topk, seq_kv), LANES) + LANES)

/* Ints of the workspace: the room of each group, ranks and numbers of each row; behind them those of the parts of each row
 * of the lists. */
#define GROUPS_ROOM(topk, seq_kv) (2 * GROUPS * GROUP_ROWS * CANDIDATE_ROOM(topk, seq_kv))
#define ALL_PARTS_ROOM(topk, seq_kv, rows) (SPLITS > 1 ? 2 * (rows)*PARTS_ROOM(topk, seq_kv) : 0)

#endif
