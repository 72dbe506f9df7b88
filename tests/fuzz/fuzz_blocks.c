/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: block lists of any sizes, patterns and starts of documents. They are
 * refused, or they list exactly the blocks in which the pattern sees a pair. No block is listed
 * as full unless the pattern sees all of its pairs. Nothing is written beside the arrays. */
#include "problem/problem.h"
#include <clattn/blocks.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 24, MOST_DOCUMENTS = 6 };

struct input {
    uint8_t seq_q, seq_kv, block_q, block_kv, max_blocks, causal, pattern, documents;
    int64_t left, right;
    uint64_t globals, random, seed, stride;
    int32_t starts[MOST_DOCUMENTS + 1];
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static clattn_status make(const struct input *in, const clattn_problem *p, int32_t *offsets,
                          int32_t *entries, size_t *needed)
{
    switch (in->pattern % 3) {
    case 0:
        return clattn_blocks_window(p, in->left, in->right, in->globals, in->random, in->seed,
                                    offsets, entries, needed);
    case 1:
        return clattn_blocks_strided(p, in->stride, offsets, entries, needed);
    default:
        return clattn_blocks_documents(p, in->starts, in->documents, offsets, entries, needed);
    }
}

/* By the sentences of clattn/blocks.h, without what is drawn. */
static int sees(const struct input *in, const clattn_problem *p, int64_t i, int64_t j)
{
    const int64_t distance = i + ca_problem_diagonal(p) - j; /* of key j from now */

    if (in->pattern % 3 == 0)
        return (uint64_t)i < in->globals || (uint64_t)j < in->globals ||
               ((in->left == CLATTN_UNLIMITED || distance <= in->left) &&
                (in->right == CLATTN_UNLIMITED || -distance <= in->right));
    if (in->pattern % 3 == 1)
        return distance >= 0 &&
               ((uint64_t)distance < in->stride || (uint64_t)distance % in->stride == 0);
    for (size_t n = 0; n < in->documents; n++)
        if (i >= in->starts[n] && j >= in->starts[n] && i < in->starts[n + 1] &&
            j < in->starts[n + 1])
            return 1;
    return 0;
}

/* Returns how many pairs of the block it sees; all of them in *pairs. */
static size_t seen_of_block(const struct input *in, const clattn_problem *p, size_t row,
                            size_t column, size_t *pairs)
{
    size_t seen = 0;

    *pairs = 0;
    for (size_t i = row * p->block_q; i < (row + 1) * p->block_q && i < p->seq_q; i++)
        for (size_t j = column * p->block_kv; j < (column + 1) * p->block_kv && j < p->seq_kv;
             j++) {
            seen += sees(in, p, (int64_t)i, (int64_t)j) != 0;
            ++*pairs;
        }
    return seen;
}

static void check(const struct input *in, const clattn_problem *p, const int32_t *offsets,
                  const int32_t *entries)
{
    const size_t rows = ca_block_rows(p), columns = ca_block_columns(p);
    const int draws = in->pattern % 3 == 0 && in->random > 0;

    require(offsets[0] == 0);
    for (size_t row = 0; row < rows; row++) {
        int32_t at = offsets[row];
        require(at <= offsets[row + 1]);
        for (size_t column = 0; column < columns; column++) {
            size_t pairs;
            const size_t seen = seen_of_block(in, p, row, column, &pairs);
            const int listed =
                at < offsets[row + 1] && (entries[at] & ~CLATTN_BLOCK_FULL) == (int32_t)column;
            const int full = listed && (entries[at] & CLATTN_BLOCK_FULL);
            at += listed;
            require(draws ? listed >= (seen > 0) : listed == (seen > 0));
            require(!full || draws || seen == pairs);
        }
        require(at == offsets[row + 1]); /* nothing twice, nothing else */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct input in = {0};
    char text[160];
    clattn_problem p;
    size_t needed = 0, again = 0;

    memcpy(&in, bytes, size < sizeof in ? size : sizeof in);
    in.documents %= MOST_DOCUMENTS + 1;
    snprintf(text, sizeof text, "fwd f32 q%d k%d d8 blocks=%dx%d:%d%s", 1 + in.seq_q % MOST,
             1 + in.seq_kv % MOST, 1 + in.block_q % MOST, 1 + in.block_kv % MOST, in.max_blocks,
             in.causal % 3 == 0   ? ""
             : in.causal % 3 == 1 ? " causal=tl"
                                  : " causal=br");
    if (clattn_problem_parse(text, &p, NULL, 0) != CLATTN_SUCCESS)
        return 0;
    if (make(&in, &p, NULL, NULL, &needed) != CLATTN_SUCCESS)
        return 0;
    const size_t rows = ca_block_rows(&p);
    int32_t *offsets = malloc((rows + 1) * sizeof *offsets);
    int32_t *entries =
        malloc(p.max_blocks * sizeof *entries + 1); /* AddressSanitizer has an eye on both */
    require(offsets && entries);
    const clattn_status status = make(&in, &p, offsets, entries, &again);
    require(again == needed);
    require(status == (needed > p.max_blocks ? CLATTN_BUFFER_TOO_SMALL : CLATTN_SUCCESS));
    if (status == CLATTN_SUCCESS)
        check(&in, &p, offsets, entries);
    free(offsets);
    free(entries);
    return 0;
}
