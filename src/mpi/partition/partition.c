/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/partition/partition.h"

#include <math.h>
#include <stdlib.h>

size_t span_end(const struct span span)
{
    return span.first + span.count;
}

struct span span_common(const struct span a, const struct span b)
{
    const size_t first = a.first > b.first ? a.first : b.first;
    const size_t end = span_end(a) < span_end(b) ? span_end(a) : span_end(b);

    return (struct span){first, end > first ? end - first : 0};
}

size_t chunks_count(const struct span chunks[CHUNKS])
{
    return chunks[0].count + chunks[1].count;
}

size_t chunk_row(const struct span chunks[CHUNKS], const int chunk)
{
    return chunk == 0 ? 0 : chunks[0].count;
}

size_t whole_queries(const clattn_problem *whole)
{
    return whole->total_q ? whole->total_q : whole->seq_q;
}

size_t whole_keys(const clattn_problem *whole)
{
    return whole->total_kv ? whole->total_kv : whole->seq_kv;
}

size_t whole_batches(const clattn_problem *whole, const bool of_keys)
{
    return (of_keys ? whole->total_kv : whole->total_q) ? 1 : whole->batch;
}

struct span *shard_chunks(struct shard *shard, const bool of_keys)
{
    return of_keys ? shard->kv : shard->q;
}

/* Returns the end of a share of n rows, a multiple of `grain`; all rows for a share of 1. */
static size_t boundary(const size_t n, const double share, const size_t grain)
{
    if (share >= 1.0)
        return n;
    const size_t at = (size_t)(floor((double)n * share / (double)grain + 0.5)) * grain;
    return at < n ? at : n;
}

/* Boundaries between pieces are multiples of this number of rows, with dropout always of four. */
static size_t grain_of(const size_t rows, const int pieces, const bool drops)
{
    const size_t each = rows / (size_t)pieces;

    return each >= 32 ? 16 : each >= 8 || drops ? 4 : 1;
}

static double sum_of(const double *x, const int count)
{
    double sum = 0;

    for (int n = 0; n < count; n++)
        sum += x[n];
    return sum;
}

/* The number of rows before each of `count` pieces whose lengths are proportional to weights;
 * at[count]: all rows. */
static void cut(const size_t rows, const double *weights, const int count, const size_t grain,
                size_t *at)
{
    const double all = sum_of(weights, count);

    at[0] = 0;
    for (int n = 0; n < count; n++)
        at[n + 1] = n + 1 == count ? rows : boundary(rows, sum_of(weights, n + 1) / all, grain);
}

/* Returns the mirror image of a boundary of the first half in the second half. */
static size_t mirrored(const size_t rows, const size_t at, const size_t grain,
                       const size_t first_half)
{
    const size_t image = (rows - at + grain - 1) / grain * grain;

    return image > rows ? rows : image < first_half ? first_half : image;
}

/* The chunks of each place: one range, or with zigzag one of the first half and its mirror image in the
 * second. Causal work grows with the row, so that a pair of equal lengths l has l * rows of it wherever
 * it lies. */
static void cut_places(struct partition *partition, const size_t rows, const bool of_keys,
                       const bool drops, const double *weights, size_t *at)
{
    const int places = partition->places;
    const size_t grain = grain_of(rows, 2 * partition->ranks, drops);
    const size_t first_half = partition->zigzag ? boundary(rows, 0.5, grain) : rows;

    cut(first_half, weights, places, grain, at);
    for (int n = 0; n < places; n++) {
        struct span *chunks = shard_chunks(&partition->place[n], of_keys);
        chunks[0] = (struct span){at[n], at[n + 1] - at[n]};
        const size_t end = mirrored(rows, at[n], grain, first_half);
        const size_t begin =
            n + 1 == places ? first_half : mirrored(rows, at[n + 1], grain, first_half);
        chunks[1] =
            partition->zigzag ? (struct span){begin, end - begin} : (struct span){at[n + 1], 0};
    }
}

/* Each chunk of a place is cut among its members. */
static void cut_members(struct partition *partition, const bool of_keys, const double *speeds,
                        size_t *at)
{
    const int members = partition->heads_ranks;

    for (int place = 0; place < partition->places; place++)
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            const struct span whole = shard_chunks(&partition->place[place], of_keys)[chunk];
            cut(whole.count, speeds + place * members, members,
                grain_of(whole.count, members, false), at);
            for (int n = 0; n < members; n++)
                shard_chunks(&partition->rank[place * members + n], of_keys)[chunk] =
                    (struct span){whole.first + at[n], at[n + 1] - at[n]};
        }
}

/* Gives all queries to each of `count` shards. */
static void give_all_queries(struct shard *shards, const int count, const size_t queries)
{
    for (int n = 0; n < count; n++) {
        shards[n].q[0] = (struct span){0, queries};
        shards[n].q[1] = (struct span){queries, 0};
    }
}

/* Returns whether the work of a query grows so much along the sequence that equal ranges would be
 * unbalanced. */
static bool work_grows(const clattn_problem *whole)
{
    const bool narrow =
        whole->window_left != CLATTN_UNLIMITED && (uint64_t)whole->window_left < whole->seq_kv / 2;

    return whole->causal && !narrow && !whole->total_q && !whole->total_kv;
}

bool partition_make(const clattn_problem *whole, const int ranks, const int heads_ranks,
                    const bool split_kv, const double *speeds, struct partition *partition)
{
    const int places = ranks / heads_ranks;
    const size_t queries = whole_queries(whole);
    double *weights = calloc((size_t)places, sizeof *weights);
    size_t *at = calloc((size_t)ranks + 1, sizeof *at);

    *partition = (struct partition){.ranks = ranks,
                                    .heads_ranks = heads_ranks,
                                    .places = places,
                                    .zigzag = places > 1 && !split_kv && work_grows(whole),
                                    .rank = calloc((size_t)ranks, sizeof *partition->rank),
                                    .place = calloc((size_t)places, sizeof *partition->place)};
    const bool ok = weights && at && partition->rank && partition->place;
    for (int n = 0; ok && n < places; n++)
        weights[n] = sum_of(speeds + n * heads_ranks, heads_ranks);
    /* Keys are cut as the queries of the same tokens are; keys of other sequences are cut by the
     * same rule. */
    for (int of_keys = 0; ok && of_keys < 2; of_keys++) {
        cut_places(partition, of_keys ? whole_keys(whole) : queries, of_keys, whole->dropout > 0.0f,
                   weights, at);
        cut_members(partition, of_keys, speeds, at);
    }
    if (ok && split_kv) {
        give_all_queries(partition->place, places, queries);
        give_all_queries(partition->rank, ranks, queries);
    }
    free(weights);
    free(at);
    if (!ok)
        partition_free(partition);
    return ok;
}

void partition_free(struct partition *partition)
{
    free(partition->rank);
    free(partition->place);
    *partition = (struct partition){0};
}
