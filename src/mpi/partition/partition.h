/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the sequence that each rank has. Pure: no MPI, no OpenCL. */
#ifndef MPI_PARTITION_H
#define MPI_PARTITION_H

#include <clattn/problem.h>
#include <stdbool.h>

/* Consecutive rows. */
struct span {
    size_t first, count;
};

/* Ranges of rows that a shard is made of, one behind the other in its tensors. */
#define CHUNKS 2
struct shard {
    struct span q[CHUNKS], kv[CHUNKS];
};

/* Ranks are numbered place by place: rank = place * heads_ranks + member. The shard of a place is that of
 * its members, chunk by chunk. */
struct partition {
    int ranks, heads_ranks, places;
    bool zigzag;
    struct shard *rank;  /* one shard for each rank */
    struct shard *place; /* one shard for each place */
};

size_t span_end(struct span span);
struct span span_common(struct span a, struct span b);

/* Rows of all chunks, and of those before one. */
size_t chunks_count(const struct span chunks[CHUNKS]);
size_t chunk_row(const struct span chunks[CHUNKS], int chunk);

/* The ranges of queries of a shard, or of keys. */
struct span *shard_chunks(struct shard *shard, bool of_keys);

/* The rows of queries and keys of the whole problem that are cut: those of packed batches, if there
 * are some; and the batches of their tensors, one if packed. */
size_t whole_queries(const clattn_problem *whole);
size_t whole_keys(const clattn_problem *whole);
size_t whole_batches(const clattn_problem *whole, bool of_keys);

/* Cuts the whole in proportion to the ranks' speeds, all over 0; with split_kv only its keys, and all ranks
 * have all queries. Boundaries are multiples of 16, of 4 where chunks are short, or of 1 where they are shorter
 * and there is no dropout, whose counters four keys share. False without memory. */
bool partition_make(const clattn_problem *whole, int ranks, int heads_ranks, bool split_kv,
                    const double *speeds, struct partition *partition);
void partition_free(struct partition *partition);

#endif
