/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a pair of a range of queries and a range of keys; each is a rectangle and one
 * execution. Pure: no MPI, no OpenCL. */
#ifndef MPI_PARTS_H
#define MPI_PARTS_H

#include "mpi/partition/partition.h"

/* Host copies of the tensors that give the lengths of sequences; NULL where the problem lacks one.
 * All ranks have the same, so that all find the same parts. */
struct lengths {
    cl_int *q_lengths, *kv_lengths; /* batch */
    cl_int *q_starts, *kv_starts;   /* batch + 1 */
};

struct part {
    size_t batch, batches; /* The first batch and their number; of a packed batch, sequences. */
    struct span q, kv;     /* Rows in the tensors of the whole problem. */
    int64_t diagonal;      /* The diagonal of the part's own problem. */
    bool packed;           /* The part has several sequences, each with rows in both ranges. */
    size_t query, key;     /* Its first ones, counted in the sequence. */
    size_t queries,
        keys; /* Those in use in the sequence; of several sequences, as functions may see them. */
};

/* Rows in use of sequence b: queries or keys of the whole's tensors. Unpacked: from 0 on. */
struct span sequence_queries(const clattn_problem *whole, const struct lengths *lengths, size_t b);
struct span sequence_keys(const clattn_problem *whole, const struct lengths *lengths, size_t b);

/* The largest number of parts of a pair of ranges. */
size_t parts_room(const clattn_problem *whole);

/* Lists the parts of a pair of ranges in which a query may see a key, and returns their number.
 * Masks and biases are not considered. */
size_t parts_of(const clattn_problem *whole, const struct lengths *lengths, struct span q,
                struct span kv, struct part *parts);

/* A pair of chunks: queries of one shard and keys of another. Chunks that lie one behind the
 * other in the tensors are joined to one part, whatever lies between them in the sequence. */
struct chunk_pair {
    int q, kv;   /* the first chunk of queries, and of keys */
    bool joined; /* `part` is the whole pair; else parts_of() lists the chunks' parts */
    struct part part;
};

/* Chunks of a place with more queries are not joined: they take long enough each, and a part's results are memory. */
#define MOST_JOINED_QUERIES 8192

/* The pairs that two shards are computed as, at most CHUNKS * CHUNKS; how many. Chunks are joined where causality alone hides
 * keys: a place's own keys, of which its queries see those up to their own, however the rows are counted, and in a zigzag those
 * of another place, of which some chunks see all of some (as in ring-flash-attention by Zilin Zhu: one call a step). */
int chunk_pairs(const clattn_problem *whole, const struct shard *q, const struct shard *kv,
                struct chunk_pair pairs[CHUNKS * CHUNKS]);

/* Makes the problem of a part of some heads, with the layouts of the whole problem. */
clattn_problem part_shape(const clattn_problem *whole, size_t heads, size_t kv_heads,
                          const struct part *part);

/* Returns whether forward keeps its running output in the caller's o, in f32. travels: the running output is sent to other
 * ranks, for which it is packed elsewhere. */
bool state_in_o(const clattn_problem *whole, bool travels);

/* Returns whether the queries of one place see keys of another. */
bool shards_see(const clattn_problem *whole, const struct lengths *lengths, const struct shard *q,
                const struct shard *kv, struct part *parts);

#endif
