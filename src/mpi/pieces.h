/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of an attention: the parts of a block of keys, the tensors of their queries and keys, and
 * the sums of this rank's queries that they are added to. */
#ifndef MPI_PIECES_H
#define MPI_PIECES_H

#include "mpi/part_plan.h"
#include "mpi/rows.h"

/* A part with the tensors of its rectangle. */
struct piece {
    const struct part *part;
    size_t row;     /* the part's first row among the place's queries */
    size_t key_row; /* the part's first row in the block of keys */
    /* packed batch: one tensor has all sequences' rows, total_q or total_kv */
    bool whole_q, whole_kv;
};

struct piece piece_of(const clattn_mpi_plan *plan, const int chunk, const struct block *block,
                      const struct part *part);

struct tensor piece_queries(const struct piece *piece, const struct tensor all);

struct tensor piece_keys(const struct piece *piece, const struct tensor all);

/* The piece's part of a bias or mask whose rows are the shard's, without gaps between its chunks. */
clattn_buffer piece_pairs(const struct piece *piece, const clattn_buffer all,
                          const clattn_layout *layout);

clattn_buffer own_heads(const clattn_mpi_plan *plan, const clattn_buffer all);

clattn_dropout_place piece_dropout_place(const clattn_mpi_plan *plan, const struct part *part);

/* Writes the parts of a block to plan->parts and returns how many there are. */
size_t block_parts(clattn_mpi_plan *plan, const struct lengths *lengths, const int chunk,
                   const struct block *block);

/* Batches of a part's tensors of queries and of keys. */
size_t piece_query_batches(const struct piece *piece);

size_t piece_key_batches(const struct piece *piece);

/* The batches and rows of tensors that hold all of the place's queries. They are contiguous, and have one batch if sequences
 * are packed. */
size_t place_batches(const clattn_mpi_plan *plan);

size_t place_queries(const clattn_mpi_plan *plan);

/* Rows of the place's queries, over all heads that this rank computes. */
size_t place_rows(const clattn_mpi_plan *plan);

struct tensor packed_in_pool(clattn_mpi_plan *plan, const enum pool_id id, const size_t batches,
                             const size_t heads, const size_t rows, const size_t dim,
                             const size_t bytes);

/* Returns whether a piece has all of the place's queries. Its contiguous lse is then the lse of the place. */
bool piece_has_all_queries(const clattn_mpi_plan *plan, const struct piece *piece);

struct tensor part_lse(clattn_mpi_plan *plan, const struct piece *piece);

/* The f32 sums of o or dq for the place's queries. */
struct tensor place_sums(clattn_mpi_plan *plan, const size_t dim);

struct tensor place_lse(clattn_mpi_plan *plan);

/* Finds the next range of rows, from *row on and within `limits`, that belong to a sequence. Other rows of packed batches keep
 * what they hold. Returns false if there is no further range. */
bool next_rows(const clattn_mpi_plan *plan, const struct lengths *lengths, const bool of_keys,
               const struct span limits, size_t *row, struct span *rows);

/* The operands of a part that forward and backward take alike: `of` has those of the whole, and p is
 * the problem of the part. */
#define PIECE_OPERANDS(plan, piece, of, p, ints, made)                                             \
    .bias = (p).bias ? piece_pairs(piece, (of)->bias, &(p).bias_layout) : (of)->bias,              \
    .mask = (p).mask ? piece_pairs(piece, (of)->mask, &(p).mask_layout) : (of)->mask,              \
    .slopes = own_heads(plan, (of)->slopes), .q_lengths.buffer = (ints).at[0],                     \
    .kv_lengths.buffer = (ints).at[1], .q_starts.buffer = (ints).at[2],                            \
    .kv_starts.buffer = (ints).at[3], .workspace = part_workspace(plan, made),                     \
    .function_0 = (of)->function_0, .function_1 = (of)->function_1,                                \
    .function_2 = (of)->function_2, .function_3 = (of)->function_3,                                \
    .function_4 = (of)->function_4, .function_5 = (of)->function_5,                                \
    .function_values = (of)->function_values, .function_version = (of)->function_version,          \
    .dropout_seed = (of)->dropout_seed, .dropout_offset = (of)->dropout_offset,                    \
    .dropout_place = piece_dropout_place(plan, (piece)->part),                                     \
    .whole_queries = (p).whole_q ? (cl_uint)(piece)->part->queries : 0,                            \
    .whole_keys = (p).whole_q ? (cl_uint)(piece)->part->keys : 0

/* Returns whether the piece is the first of its queries in this execution. Its result then needs
 * no merge with another. */
bool piece_begins_queries(clattn_mpi_plan *plan, const struct piece *piece);

#endif
