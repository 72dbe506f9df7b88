#include "mpi/partition/parts.h"

bool depends_on_places(const clattn_problem *whole)
{
    return whole->causal || whole->alibi || whole->window_left != CLATTN_UNLIMITED ||
           whole->window_right != CLATTN_UNLIMITED;
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

/* Of `total` rows in which sequences follow each other, or of each batch if it is 0. */
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

static struct span common_rows(const struct span a, const struct span b)
{
    const size_t first = at_least(a.first, b.first), end = at_most(span_end(a), span_end(b));

    return (struct span){first, end > first ? end - first : 0};
}

/* Key i + diagonal is "now" for query i of the sequence, both counted from its first row. */
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
    const struct span used_q = common_rows(q, queries), used_kv = common_rows(kv, keys);

    *part = (struct part){.batch = b, .batches = 1, .q = q, .kv = kv};
    if (whole->total_q)
        part->q = used_q;
    if (whole->total_kv)
        part->kv = used_kv;
    if (used_q.count == 0 || used_kv.count == 0)
        return false;
    if (!depends_on_places(whole))
        return true;
    /* The first query and key of the part, counted in the sequence. */
    const int64_t i0 = (int64_t)(part->q.first - queries.first);
    const int64_t j0 = (int64_t)(part->kv.first - keys.first);
    part->diagonal = diagonal_of(whole, queries, keys) + i0 - j0;

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

/* Parts of several packed sequences that have one diagonal are one execution: between the first's and the
 * last's rows all belong to them, or see nothing. */
static size_t packed_together(const clattn_problem *whole, const struct lengths *lengths,
                              const struct span q, const struct span kv, struct part *parts,
                              const size_t count)
{
    if (count < 2 || !whole->total_q || !whole->total_kv || lengths->q_lengths ||
        lengths->kv_lengths)
        return count;
    for (size_t b = 0; b < whole->batch; b++) {
        const struct span queries = sequence_queries(whole, lengths, b);
        const struct span keys = sequence_keys(whole, lengths, b);
        struct part part;
        (void)part_of(whole, lengths, b, q, kv, &part);
        if (part.q.count > 0 && part.kv.count > 0 && part.diagonal != parts[0].diagonal)
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
    size_t count = 0;

    if (q.count == 0 || kv.count == 0)
        return 0;
    for (size_t b = 0; b < whole->batch; b++) {
        struct part part;
        if (!part_of(whole, lengths, b, q, kv, &part))
            continue;
        struct part *last = count ? &parts[count - 1] : NULL;
        if (!packed && last && last->batch + last->batches == b && last->diagonal == part.diagonal)
            last->batches++;
        else
            parts[count++] = part;
    }
    return packed ? packed_together(whole, lengths, q, kv, parts, count) : count;
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
    p.sinks = p.dsinks = 0; /* they count once, at the end */
    return p;
}

bool shards_see(const clattn_problem *whole, const struct lengths *lengths, const struct shard *q,
                const struct shard *kv, struct part *parts)
{
    for (int n = 0; n < CHUNKS * CHUNKS; n++)
        if (parts_of(whole, lengths, q->q[n / CHUNKS], kv->kv[n % CHUNKS], parts) > 0)
            return true;
    return false;
}
