/* SPDX-License-Identifier: Apache-2.0 */
/* Block lists of patterns: each block against its pairs. */
#include "tests/support/fixture.h"
#include "tests/support/rng.h"

#include <clattn/blocks.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

enum { ROOM = 4096, SEQ = 70 };

struct pattern {
    int64_t left, right;
    size_t globals, stride;
    const int32_t *starts;
    size_t documents;
    const unsigned char *mask;
};

static clattn_status make(const clattn_problem *p, const struct pattern *x, int32_t *offsets,
                          int32_t *entries, size_t *needed)
{
    if (x->mask)
        return clattn_blocks_mask(p, x->mask, 0, 0, offsets, entries, needed);
    if (x->starts)
        return clattn_blocks_documents(p, x->starts, x->documents, offsets, entries, needed);
    if (x->stride)
        return clattn_blocks_strided(p, x->stride, offsets, entries, needed);
    return clattn_blocks_window(p, x->left, x->right, x->globals, 0, 0, offsets, entries, needed);
}

/* The patterns by their definitions. d: the problem's diagonal. */
static int sees(const struct pattern *x, int64_t d, int64_t i, int64_t j)
{
    const int64_t past = i + d - j;

    if (x->mask)
        return x->mask[(size_t)i * SEQ + (size_t)j] != 0;
    for (size_t n = 0; x->starts && n < x->documents; n++)
        if (x->starts[n] <= i && i < x->starts[n + 1] && x->starts[n] <= j && j < x->starts[n + 1])
            return 1;
    if (x->starts)
        return 0;
    if (x->stride)
        return past >= 0 && (past < (int64_t)x->stride || past % (int64_t)x->stride == 0);
    return i < (int64_t)x->globals || j < (int64_t)x->globals ||
           ((x->left < 0 || past <= x->left) && (x->right < 0 || -past <= x->right));
}

static void compare(const clattn_problem *p, const struct pattern *x, const int32_t *offsets,
                    const int32_t *entries)
{
    const int64_t d = p->diagonal == CLATTN_OFFSET ? p->diagonal_offset : 0;
    size_t at = 0;

    for (size_t i0 = 0, row = 0; i0 < p->seq_q; i0 += p->block_q, row++) {
        cr_assert(eq(sz, (size_t)offsets[row], at));
        for (size_t j0 = 0, column = 0; j0 < p->seq_kv; j0 += p->block_kv, column++) {
            int some = 0, all = 1;
            for (size_t i = i0; i < i0 + p->block_q && i < p->seq_q; i++)
                for (size_t j = j0; j < j0 + p->block_kv && j < p->seq_kv; j++) {
                    const int seen = sees(x, d, (int64_t)i, (int64_t)j);
                    some |= seen;
                    all &= seen;
                }
            if (!some)
                continue;
            const int32_t entry = entries[at++];
            const int full = (entry & CLATTN_BLOCK_FULL) != 0;
            cr_expect(eq(int, entry & ~CLATTN_BLOCK_FULL, (int32_t)column));
            cr_expect(full ? all : !all || !(x->mask || x->starts), "row %zu, column %zu", row,
                      column);
        }
        cr_assert(eq(sz, (size_t)offsets[row + 1], at));
    }
}

Test(blocks, patterns) {
    static const int32_t starts[] = {0, 11, 11, 32, 69};
    static unsigned char mask[SEQ * SEQ];
    struct rng r = rng_seed(7);
    const struct pattern patterns[] = {{.left = 9, .right = 4},
                                       {.left = CLATTN_UNLIMITED, .right = 0, .globals = 3},
                                       {.left = INT64_MAX, .right = 2},
                                       {.left = 3, .right = INT64_MAX},
                                       {.left = 0, .right = 0, .globals = 17},
                                       {.stride = 1},
                                       {.stride = 6},
                                       {.stride = 40},
                                       {.starts = starts, .documents = 4},
                                       {.mask = mask}};
    const size_t sizes[][2] = {{1, 1}, {8, 8}, {7, 10}, {64, 3}, {100, 100}};

    for (size_t n = 0; n < sizeof mask; n++)
        mask[n] = n / SEQ / 20 % 2 || (n % SEQ > 30 && rng_one_in(&r, 2));
    for (size_t x = 0; x < sizeof patterns / sizeof *patterns; x++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int64_t d = -8; d <= 16; d += 8) {
                clattn_problem p = fixture_problem("fwd f32 q70 k70 d8 mask=qk blocks=1x1:1");
                int32_t offsets[SEQ + 1];
                static int32_t entries[SEQ * SEQ];
                p.diagonal = CLATTN_OFFSET;
                p.diagonal_offset = d;
                p.seq_kv = d == 16 ? 31 : SEQ; /* fewer keys than queries */
                p.block_q = sizes[s][0];
                p.block_kv = sizes[s][1];
                cr_assert(make(&p, &patterns[x], NULL, NULL, &p.max_blocks) == CLATTN_SUCCESS);
                if (p.max_blocks == 0)
                    continue;
                const size_t needed = p.max_blocks;
                cr_assert(make(&p, &patterns[x], offsets, entries, NULL) == CLATTN_SUCCESS);
                compare(&p, &patterns[x], offsets, entries);
                if (needed == 1)
                    continue;
                entries[needed - 1] = -77;
                p.max_blocks = needed - 1;
                size_t again;
                cr_expect(make(&p, &patterns[x], offsets, entries, &again) ==
                          CLATTN_BUFFER_TOO_SMALL);
                cr_expect(eq(sz, again, needed));
                cr_expect(eq(int, entries[needed - 1], -77));
            }
}

Test(blocks, random_columns) {
    clattn_problem p = fixture_problem("fwd f32 q64 k640 d8 blocks=8x8:64");
    int32_t offsets[9], first[64], second[64];

    cr_assert(clattn_blocks_window(&p, 0, 0, 0, 3, 5, offsets, first, NULL) == CLATTN_SUCCESS);
    for (int row = 0; row < 8; row++)
        cr_expect(offsets[row + 1] - offsets[row] >= 2 && offsets[row + 1] - offsets[row] <= 4);
    cr_assert(clattn_blocks_window(&p, 0, 0, 0, 3, 5, offsets, second, NULL) == CLATTN_SUCCESS);
    cr_expect(memcmp(first, second, 4 * (size_t)offsets[8]) == 0);
}

/* Lists of a million rows and columns: a loop over all pairs of these would take days. */
Test(blocks, take_as_long_as_their_entries) {
    enum { MANY = 1000000, FEW = 1000 };
    static int32_t starts[MANY / 100 + 1];
    clattn_problem p = fixture_problem("fwd f32 q1 k1 d8 blocks=1x1:1");
    size_t needed;

    for (size_t n = 0; n < sizeof starts / sizeof *starts; n++)
        starts[n] = (int32_t)n * 100;
    p.seq_q = p.seq_kv = MANY;
    cr_assert(clattn_blocks_window(&p, 1, 0, 0, 0, 0, NULL, NULL, &needed) == CLATTN_SUCCESS);
    cr_expect(needed == 2 * MANY - 1);
    cr_assert(clattn_blocks_window(&p, 0, 0, 0, 2, 5, NULL, NULL, &needed) == CLATTN_SUCCESS);
    cr_expect(needed > 3 * MANY - 100 && needed <= 3 * MANY); /* but for what is drawn twice */
    p.seq_q = FEW;
    p.diagonal = CLATTN_BOTTOM_RIGHT;
    cr_assert(clattn_blocks_strided(&p, FEW, NULL, NULL, &needed) == CLATTN_SUCCESS);
    cr_expect(needed == (size_t)FEW * (FEW + MANY / FEW - 1));
    p.seq_q = MANY;
    p.block_q = p.block_kv = 10;
    cr_assert(clattn_blocks_documents(&p, starts, MANY / 100, NULL, NULL, &needed) ==
              CLATTN_SUCCESS);
    cr_expect(needed == MANY);
}

/* Drawn columns, of which two may be the same, stand in order among the others. */
Test(blocks, random_columns_in_order) {
    const clattn_problem p = fixture_problem("fwd f32 q64 k640 d8 blocks=8x8:640");
    int32_t offsets[9], entries[640];

    cr_assert(clattn_blocks_window(&p, 9, 9, 3, 200, 5, offsets, entries, NULL) == CLATTN_SUCCESS);
    for (int row = 0; row < 8; row++)
        for (int n = offsets[row] + 1; n < offsets[row + 1]; n++) {
            const int before = entries[n - 1] & ~CLATTN_BLOCK_FULL;
            cr_expect(before < (entries[n] & ~CLATTN_BLOCK_FULL));
        }
}

Test(blocks, mistakes) {
    clattn_problem p = fixture_problem("fwd f32 q64 d8 blocks=8x8:64");
    const int32_t falling[] = {0, 9, 8}, negative[] = {-1, 9};
    const unsigned char mask[] = {1};
    int32_t offsets[9], entries[64];
    size_t needed = 5;

    cr_expect(clattn_blocks_strided(NULL, 1, offsets, entries, &needed) == CLATTN_INVALID_ARGUMENT);
    cr_expect(zero(sz, needed));
    cr_expect(clattn_blocks_strided(&p, 0, offsets, entries, NULL) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_blocks_strided(&p, 4, NULL, entries, NULL) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_blocks_strided(&p, 4, offsets, NULL, NULL) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_blocks_window(&p, -2, 0, 0, 0, 0, offsets, entries, NULL) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_blocks_documents(&p, falling, 2, offsets, entries, NULL) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_blocks_documents(&p, negative, 1, offsets, entries, NULL) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_blocks_documents(&p, NULL, 1, offsets, entries, NULL) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_blocks_mask(&p, mask, 0, 0, offsets, entries, NULL) == CLATTN_INVALID_PROBLEM);
    p.mask = 1;
    cr_expect(clattn_blocks_mask(&p, mask, 1, 0, offsets, entries, NULL) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_blocks_mask(&p, mask, 0, 0, offsets, entries, NULL) == CLATTN_SUCCESS);
    p.block_q = p.block_kv = p.max_blocks = 0;
    cr_expect(clattn_blocks_strided(&p, 4, offsets, entries, NULL) == CLATTN_INVALID_PROBLEM);
}
