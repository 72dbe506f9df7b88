/* Which rows and keys a work-item of split_lanes has. Needs BLOCK_M, BLOCK_N and SPLIT_K. */
#ifndef CLATTN_SPLIT_PLACE_H
#define CLATTN_SPLIT_PLACE_H
#include "cpu/lanes.h"

/* What a work-item computes; r counts its rows. */
struct place {
    long b, kv_head;
    struct extent e;
    int rows; /* in use, 1..BLOCK_M */
    long head[BLOCK_M], query[BLOCK_M];
    long first[BLOCK_M], end[BLOCK_M]; /* keys that a row may see */
    long all_begin, all_end;     /* keys that all of them may see */
};

/* Row n of block `block` of rows, for n up to BLOCK_M; the last one in use is repeated. */
INLINE void place_rows(const struct attention_shape a, const long block, struct place *place)
{
    const long all = a.group * a.seq_q, row = block * BLOCK_M;

    place->rows = (int)min(all - row, (long)BLOCK_M);
    place->all_begin = 0;
    place->all_end = LONG_MAX;
    for (int r = 0; r < BLOCK_M; r++) {
        const long n = row + min(r, place->rows - 1);
        place->head[r] = place->kv_head * a.group + n / a.seq_q;
        place->query[r] = n % a.seq_q;
        place->first[r] = first_key(a, place->e, place->query[r]);
        place->end[r] = end_key(a, place->e, place->query[r]);
        place->all_begin = max(place->all_begin, place->first[r]);
        place->all_end = min(place->all_end, place->end[r]);
    }
}

/* Keys that some row may see, of which this work-item has the part'th of SPLIT_K. */
INLINE void range_of(const struct place *place, const long part, long *begin, long *end)
{
    long first = LONG_MAX, last = 0;

    for (int r = 0; r < place->rows; r++) {
        if (place->first[r] >= place->end[r])
            continue;
        first = min(first, place->first[r]);
        last = max(last, place->end[r]);
    }
    first = min(first, last) & ~3L; /* dropout has the same random numbers for four keys */
    const long share = (last - first + SPLIT_K * BLOCK_N - 1) / (SPLIT_K * BLOCK_N) * BLOCK_N;
    *begin = min(first + part * share, last);
    *end = min(*begin + share, last);
}

#endif
