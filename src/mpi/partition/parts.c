/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/partition/parts.h"

#include <clattn/function.h>
#include <string.h>

/* Returns whether masking depends on the positions of queries and keys; else the diagonal is 0 for
 * all parts. */
static bool depends_on_places(const clattn_problem *whole)
{
    return whole->causal || whole->alibi || whole->window_left != CLATTN_UNLIMITED ||
           whole->window_right != CLATTN_UNLIMITED;
}

/* Returns whether functions may tell sequences of other lengths: their sources have the word. */
static bool depends_on_lengths(const clattn_problem *whole)
{
    const clattn_function *functions[] = {whole->score_function, whole->mask_function};
    bool depends = false;

    for (size_t n = 0; n < sizeof functions / sizeof *functions; n++)
        if (functions[n])
            depends = depends || strstr(clattn_function_source(functions[n]), "queries") ||
                      strstr(clattn_function_source(functions[n]), "keys");
    return depends;
}

static size_t at_most(const size_t x, const size_t limit)
{
    return x < limit ? x : limit;
}

static size_t at_least(const size_t x, const size_t limit)
{
    return x > limit ? x : limit;
}

static size_t clamped(const cl_int x, const size_t limit)
{
    return x < 0 ? 0 : at_most((size_t)x, limit);
}

/* The rows of a sequence, in `total` rows in which sequences follow each other, or in its own batch
 * if `total` is 0. */
static struct span sequence_rows(const cl_int *starts, const size_t total, const cl_int *lengths,
                                 const size_t longest, const size_t b)
{
    struct span rows = {0, longest};

    if (total) {
        const size_t end = clamped(starts[b + 1], total);
        rows.first = clamped(starts[b], total);
        rows.count = end > rows.first ? at_most(end - rows.first, longest) : 0;
    }
    if (lengths)
        rows.count = at_most(rows.count, clamped(lengths[b], longest));
    return rows;
}

struct span sequence_queries(const clattn_problem *whole, const struct lengths *lengths,
                             const size_t b)
{
    return sequence_rows(lengths->q_starts, whole->total_q, lengths->q_lengths, whole->seq_q, b);
}

struct span sequence_keys(const clattn_problem *whole, const struct lengths *lengths,
                          const size_t b)
{
    return sequence_rows(lengths->kv_starts, whole->total_kv, lengths->kv_lengths, whole->seq_kv,
                         b);
}

/* Key i + diagonal is on the diagonal at query i; both count from the first row of the sequence. */
static int64_t diagonal_of(const clattn_problem *whole, const struct span queries,
                           const struct span keys)
{
    switch (whole->diagonal) {
    case CLATTN_BOTTOM_RIGHT:
        return (int64_t)keys.count - (int64_t)queries.count;
    case CLATTN_OFFSET:
        return whole->diagonal_offset;
    default:
        return 0;
    }
}

/* The part of sequence b in two ranges; false if none of its queries sees one of its keys there. */
static bool part_of(const clattn_problem *whole, const struct lengths *lengths, const size_t b,
                    const struct span q, const struct span kv, struct part *part)
{
    const struct span queries = sequence_queries(whole, lengths, b);
    const struct span keys = sequence_keys(whole, lengths, b);
    const struct span used_q = span_common(q, queries), used_kv = span_common(kv, keys);

    *part = (struct part){.batch = b, .batches = 1, .q = q, .kv = kv};
    if (whole->total_q)
        part->q = used_q;
    if (whole->total_kv)
        part->kv = used_kv;
    if (used_q.count == 0 || used_kv.count == 0)
        return false;
    part->query = part->q.first - queries.first;
    part->key = part->kv.first - keys.first;
    part->queries = queries.count;
    part->keys = keys.count;
    if (!depends_on_places(whole))
        return true;
    part->diagonal = diagonal_of(whole, queries, keys) + (int64_t)part->query - (int64_t)part->key;

    const int64_t last_i = (int64_t)(span_end(used_q) - part->q.first) - 1;
    const int64_t last_j = (int64_t)(span_end(used_kv) - part->kv.first) - 1;
    if (whole->causal && part->diagonal + last_i < 0)
        return false;
    if (whole->window_right != CLATTN_UNLIMITED && part->diagonal + last_i < -whole->window_right)
        return false;
    return whole->window_left == CLATTN_UNLIMITED || last_j >= part->diagonal - whole->window_left;
}

size_t parts_room(const clattn_problem *whole)
{
    return at_least(whole->batch, 1);
}

/* Parts of several packed sequences that have one diagonal are one execution: all rows between the
 * first and the last sequence belong to them, or see nothing. */
static size_t packed_together(const clattn_problem *whole, const struct lengths *lengths,
                              const struct span q, const struct span kv, struct part *parts,
                              const size_t count)
{
    const bool functions = whole->score_function || whole->mask_function;

    if (count < 2 || !whole->total_q || !whole->total_kv || lengths->q_lengths ||
        lengths->kv_lengths || depends_on_lengths(whole))
        return count;
    for (size_t b = 0; b < whole->batch; b++) {
        const struct span queries = sequence_queries(whole, lengths, b);
        const struct span keys = sequence_keys(whole, lengths, b);
        struct part part;
        (void)part_of(whole, lengths, b, q, kv, &part);
        if (part.q.count > 0 && part.kv.count > 0 &&
            (part.diagonal != parts[0].diagonal || (functions && (part.query || part.key))))
            return count;
        /* Starts that decrease, leave rows out or have too long a sequence. */
        if (lengths->q_starts[b] != (cl_int)queries.first ||
            lengths->kv_starts[b] != (cl_int)keys.first ||
            lengths->q_starts[b + 1] != (cl_int)span_end(queries) ||
            lengths->kv_starts[b + 1] != (cl_int)span_end(keys))
            return count;
    }
    parts[0] = (struct part){.batch = 0,
                             .batches = whole->batch,
                             .q = q,
                             .kv = kv,
                             .diagonal = parts[0].diagonal,
                             .packed = true};
    return 1;
}

size_t parts_of(const clattn_problem *whole, const struct lengths *lengths, const struct span q,
                const struct span kv, struct part *parts)
{
    const bool packed = whole->total_q || whole->total_kv;
    const bool by_lengths = depends_on_lengths(whole);
    size_t count = 0;

    if (q.count == 0 || kv.count == 0)
        return 0;
    for (size_t b = 0; b < whole->batch; b++) {
        struct part part;
        if (!part_of(whole, lengths, b, q, kv, &part))
            continue;
        struct part *last = count ? &parts[count - 1] : NULL;
        const bool alike =
            last && last->diagonal == part.diagonal &&
            (!by_lengths || (last->queries == part.queries && last->keys == part.keys));
        if (!packed && alike && last->batch + last->batches == b)
            last->batches++;
        else
            parts[count++] = part;
    }
    return packed ? packed_together(whole, lengths, q, kv, parts, count) : count;
}

/* ---- shards ------------------------------------------------------------------------------------- */

/* Returns whether masking depends on the order of rows alone, and nothing else on their positions.
 * */
static bool only_order_counts(const clattn_problem *whole)
{
    const bool from_first =
        whole->diagonal == CLATTN_TOP_LEFT ||
        (whole->diagonal == CLATTN_BOTTOM_RIGHT && whole->seq_q == whole->seq_kv) ||
        (whole->diagonal == CLATTN_OFFSET && whole->diagonal_offset == 0);
    const bool counts = whole->alibi || whole->bias || whole->mask || whole->dropout > 0.0f ||
                        whole->q_lengths || whole->kv_lengths || whole->total_q ||
                        whole->total_kv || whole->score_function || whole->mask_function;

    return whole->causal && from_first && !counts && whole->window_left == CLATTN_UNLIMITED &&
           whole->window_right == CLATTN_UNLIMITED;
}

/* Returns the chunks that have rows, as bits. */
static unsigned chunks_in_use(const struct span chunks[CHUNKS])
{
    return (chunks[0].count > 0 ? 1u : 0) | (chunks[1].count > 0 ? 2u : 0);
}

static bool same_rows(const struct span a[CHUNKS], const struct span b[CHUNKS])
{
    for (int n = 0; n < CHUNKS; n++)
        if (a[n].first != b[n].first || a[n].count != b[n].count)
            return false;
    return true;
}

/* Finds the chunks of queries and of keys for which every chunk sees each other fully, while all
 * other pairs see nothing; false otherwise. */
static bool visible_chunks(const struct shard *q, const struct shard *kv, unsigned *seeing,
                           unsigned *seen)
{
    bool visible[CHUNKS][CHUNKS];

    *seeing = *seen = 0;
    for (unsigned n = 0; n < CHUNKS * CHUNKS; n++) {
        const struct span rows = q->q[n / CHUNKS], keys = kv->kv[n % CHUNKS];
        visible[n / CHUNKS][n % CHUNKS] = span_end(keys) <= rows.first + 1;
        if (rows.count == 0 || keys.count == 0)
            continue;
        if (visible[n / CHUNKS][n % CHUNKS]) {
            *seeing |= 1u << n / CHUNKS;
            *seen |= 1u << n % CHUNKS;
        } else if (keys.first < span_end(rows)) {
            return false; /* some of them */
        }
    }
    for (unsigned n = 0; n < CHUNKS * CHUNKS; n++)
        if ((*seeing >> n / CHUNKS & 1u) && (*seen >> n % CHUNKS & 1u) &&
            !visible[n / CHUNKS][n % CHUNKS])
            return false;
    return true;
}

/* The rows of the chunks whose bits are set, from the first chunk on. */
static struct span joined_rows(const struct span chunks[CHUNKS], const unsigned bits, int *first)
{
    *first = bits == 2u;
    return (struct span){chunks[*first].first,
                         (bits & 1u ? chunks[0].count : 0) + (bits & 2u ? chunks[1].count : 0)};
}

int chunk_pairs(const clattn_problem *whole, const struct shard *q, const struct shard *kv,
                struct chunk_pair pairs[CHUNKS * CHUNKS])
{
    unsigned seeing = chunks_in_use(q->q), seen = chunks_in_use(kv->kv);
    const bool own = same_rows(q->q, kv->kv);
    struct chunk_pair *all = &pairs[0];

    if (!only_order_counts(whole) || chunks_count(q->q) > MOST_JOINED_QUERIES ||
        (!own && !visible_chunks(q, kv, &seeing, &seen))) {
        for (int n = 0; n < CHUNKS * CHUNKS; n++)
            pairs[n] = (struct chunk_pair){.q = n / CHUNKS, .kv = n % CHUNKS};
        return CHUNKS * CHUNKS;
    }
    *all = (struct chunk_pair){.joined = true, .part = {.batches = whole->batch}};
    all->part.q = joined_rows(q->q, seeing, &all->q);
    all->part.kv = joined_rows(kv->kv, seen, &all->kv);
    all->part.diagonal = own ? 0 : (int64_t)all->part.kv.count; /* all keys of another place */
    return all->part.q.count > 0 && all->part.kv.count > 0 && whole->batch > 0;
}

clattn_problem part_shape(const clattn_problem *whole, const size_t heads, const size_t kv_heads,
                          const struct part *part)
{
    clattn_problem p = *whole;

    p.batch = part->batches;
    p.heads = heads;
    p.kv_heads = kv_heads;
    p.seq_q = part->q.count;
    p.seq_kv = part->kv.count;
    p.total_q = p.total_kv = 0;
    p.q_lengths = p.q_lengths && !whole->total_q;
    p.kv_lengths = p.kv_lengths && !whole->total_kv;
    if (part->packed) {
        p.total_q = p.seq_q;
        p.total_kv = p.seq_kv;
        p.seq_q = at_most(whole->seq_q, p.seq_q);
        p.seq_kv = at_most(whole->seq_kv, p.seq_kv);
    }
    p.diagonal = depends_on_places(whole) ? CLATTN_OFFSET : CLATTN_TOP_LEFT;
    p.diagonal_offset = p.diagonal == CLATTN_OFFSET ? part->diagonal : 0;
    p.sinks = p.dsinks = 0; /* these count once, at the end */
    if (whole->score_function || whole->mask_function) {
        p.whole_batch = whole->batch;
        p.whole_heads = whole->heads;
        p.whole_q = whole->seq_q;
        p.whole_kv = whole->seq_kv;
    }
    return p;
}

bool state_in_o(const clattn_problem *whole, const bool travels)
{
    return whole->operation == CLATTN_FORWARD && whole->dtype == CLATTN_F32 && !whole->sinks &&
           !travels;
}

bool shards_see(const clattn_problem *whole, const struct lengths *lengths, const struct shard *q,
                const struct shard *kv, struct part *parts)
{
    for (int n = 0; n < CHUNKS * CHUNKS; n++)
        if (parts_of(whole, lengths, q->q[n / CHUNKS], kv->kv[n % CHUNKS], parts) > 0)
            return true;
    return false;
}
