/* SPDX-License-Identifier: Apache-2.0 */
/* Block lists of patterns, made on the host. */
#include "base/log.h"
#include "problem/problem.h"
#include "problem/tensors.h"
#include <clattn/blocks.h>

#include <stdlib.h>

/* Queries i .. i_end - 1 of a row and keys j .. j_end - 1 of a column. */
struct block {
    int64_t i, i_end, j, j_end;
    size_t row, column;
};

/* The part of a block that a pattern sees. */
enum seen { NONE, SOME, ALL };

/* next() returns, for a row of blocks, the first column from `column` on that the pattern may see.
 * It may name a few columns that are not seen, so that a list takes as many steps as it has
 * entries. j and j_end have no meaning there. Columns are asked for in rising order, rows one after
 * the other. */
struct pattern {
    size_t (*next)(const clattn_problem *p, void *data, const struct block *row, size_t column);
    enum seen (*sees)(const clattn_problem *p, const void *data, const struct block *b);
    void *data; /* NULL: the caller's arguments are invalid */
};

static clattn_status list_blocks(const clattn_problem *p, const struct pattern *pattern,
                                 int32_t *offsets, int32_t *entries, size_t *needed)
{
    size_t count = 0;

    if (!p || !pattern->data || !offsets != !entries)
        return ca_refuse(
            CLATTN_INVALID_ARGUMENT,
            "problem is null, only one of offsets and entries is, or the pattern has an "
            "argument that cannot be");
    if (clattn_problem_check(p, NULL, 0) != CLATTN_SUCCESS)
        return CLATTN_INVALID_PROBLEM;
    if (!p->block_q)
        return ca_refuse(CLATTN_INVALID_PROBLEM, "the problem has no block lists (block_q is 0)");
    const size_t rows = ca_block_rows(p), columns = ca_block_columns(p), most = p->max_blocks;
    for (size_t row = 0; row < rows; row++) {
        const size_t i = row * p->block_q;
        struct block b = {.i = (int64_t)i,
                          .i_end = (int64_t)(p->seq_q - i < p->block_q ? p->seq_q : i + p->block_q),
                          .row = row};
        if (offsets)
            offsets[row] = (int32_t)(count < most ? count : most);
        for (size_t c = 0; (c = pattern->next(p, pattern->data, &b, c)) < columns; c++) {
            const size_t j = c * p->block_kv;
            b.column = c;
            b.j = (int64_t)j;
            b.j_end = (int64_t)(p->seq_kv - j < p->block_kv ? p->seq_kv : j + p->block_kv);
            const enum seen seen = pattern->sees(p, pattern->data, &b);
            if (seen == NONE)
                continue;
            if (entries && count < most)
                entries[count] = (int32_t)c | (seen == ALL ? CLATTN_BLOCK_FULL : 0);
            count++;
        }
    }
    if (offsets)
        offsets[rows] = (int32_t)(count < most ? count : most);
    *needed = count;
    return offsets && count > most ? CLATTN_BUFFER_TOO_SMALL : CLATTN_SUCCESS;
}

/* needed may be the problem's own max_blocks, so it is written last. */
static clattn_status make(const clattn_problem *p, const struct pattern pattern, int32_t *offsets,
                          int32_t *entries, size_t *needed)
{
    size_t count = 0;
    const clattn_status status = list_blocks(p, &pattern, offsets, entries, &count);

    if (needed)
        *needed = count;
    return status;
}

/* The first column from `column` on that has one of the keys from begin to before end; SIZE_MAX if none has. */
static size_t column_of_keys(const clattn_problem *p, size_t column, int64_t begin, int64_t end)
{
    const int64_t first = begin > 0 ? begin : 0;
    const int64_t stop = end < (int64_t)p->seq_kv ? end : (int64_t)p->seq_kv;

    if (first >= stop || column > (size_t)(stop - 1) / p->block_kv)
        return SIZE_MAX;
    return (size_t)first / p->block_kv > column ? (size_t)first / p->block_kv : column;
}

/* ---- windows and global tokens --------------------------------------------------------------- */

struct window {
    int64_t left, right; /* no pair exceeds these distances: they stand for no limit */
    size_t globals, random, row, at;
    uint64_t seed;
    uint32_t *drawn; /* the columns of `row`, in order; the first `at` of them were passed */
};

/* The distance is beyond any between two positions and a diagonal, each within 2^48. */
#define FARTHEST ((int64_t)CA_MAX_SIZE * 4)

/* SplitMix64: hashes a number to a number. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int compare_columns(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* The first drawn column from `column` on; SIZE_MAX if there is none. */
static size_t next_drawn(const clattn_problem *p, struct window *w, size_t row, size_t column)
{
    if (w->row != row) {
        for (size_t n = 0; n < w->random; n++)
            w->drawn[n] = (uint32_t)(mix(mix(w->seed ^ row) + n) % ca_block_columns(p));
        if (w->random > 0)
            qsort(w->drawn, w->random, sizeof *w->drawn, compare_columns);
        w->row = row;
        w->at = 0;
    }
    while (w->at < w->random && w->drawn[w->at] < column)
        w->at++;
    return w->at < w->random ? w->drawn[w->at] : SIZE_MAX;
}

static size_t next_in_window(const clattn_problem *p, void *data, const struct block *row,
                             size_t column)
{
    struct window *w = data;
    const int64_t d = ca_problem_diagonal(p), globals = (int64_t)w->globals;
    const size_t global = column_of_keys(p, column, 0, row->i < globals ? FARTHEST : globals);
    const size_t near = column_of_keys(p, column, row->i + d - w->left, row->i_end + d + w->right);
    const size_t drawn = next_drawn(p, w, row->row, column);
    const size_t nearer = near < drawn ? near : drawn;

    return global < nearer ? global : nearer;
}

static enum seen window_sees(const clattn_problem *p, const void *data, const struct block *b)
{
    const struct window *w = data;
    const int64_t globals = (int64_t)w->globals, d = ca_problem_diagonal(p);
    /* smallest key minus the query's own, over the block */
    const int64_t first = b->j - (b->i_end - 1) - d;
    const int64_t last = b->j_end - 1 - b->i - d; /* and the largest */
    const int drawn = w->at < w->random && w->drawn[w->at] == b->column;

    if ((first >= -w->left && last <= w->right) || b->i_end <= globals || b->j_end <= globals ||
        drawn)
        return ALL;
    return (last >= -w->left && first <= w->right) || b->i < globals || b->j < globals ? SOME
                                                                                       : NONE;
}

static int64_t side_of(int64_t side)
{
    return side == CLATTN_UNLIMITED || side > FARTHEST ? FARTHEST : side;
}

clattn_status clattn_blocks_window(const clattn_problem *problem, int64_t left, int64_t right,
                                   size_t globals, size_t random, uint64_t seed, int32_t *offsets,
                                   int32_t *entries, size_t *needed)
{
    const int sound = left >= CLATTN_UNLIMITED && right >= CLATTN_UNLIMITED;
    const int drawn = random > 0 && problem &&
                      clattn_problem_check(problem, NULL, 0) == CLATTN_SUCCESS && problem->block_q;
    const size_t columns = drawn ? ca_block_columns(problem) : 0;
    struct window window = {.left = side_of(left),
                            .right = side_of(right),
                            .globals = globals < CA_MAX_SIZE ? globals : CA_MAX_SIZE,
                            .random = random < columns ? random : columns,
                            .row = SIZE_MAX,
                            .seed = seed};

    if (window.random > 0 && !(window.drawn = malloc(window.random * sizeof *window.drawn))) {
        if (needed)
            *needed = 0;
        return CLATTN_OUT_OF_MEMORY;
    }
    const clattn_status status =
        make(problem, (struct pattern){next_in_window, window_sees, sound ? (void *)&window : NULL},
             offsets, entries, needed);
    free(window.drawn);
    return status;
}

/* ---- strides --------------------------------------------------------------------------------- */

/* The distances between the queries' own positions and the keys of a block; each value from least
 * to most occurs in a pair. */
struct distances {
    int64_t least, most;
};

static struct distances distances_of(const clattn_problem *p, const struct block *row, int64_t j,
                                     int64_t j_end)
{
    const int64_t d = ca_problem_diagonal(p);

    return (struct distances){row->i + d - (j_end - 1), row->i_end - 1 + d - j};
}

static enum seen strided_sees(const clattn_problem *p, const void *data, const struct block *b)
{
    const int64_t stride = *(const int64_t *)data;
    const struct distances x = distances_of(p, b, b->j, b->j_end);
    const int64_t from = x.least > 0 ? x.least : 0;

    if (x.most < 0)
        return NONE;
    if (x.least >= 0 &&
        (x.most < stride || stride == 1 || (x.least == x.most && x.least % stride == 0)))
        return ALL;
    return from < stride || x.most / stride * stride >= from ? SOME : NONE;
}

/* Returns the next column to test. If a column has no multiple of the stride, it is the one with
 * the multiple below. */
static size_t next_at_stride(const clattn_problem *p, void *data, const struct block *row,
                             size_t column)
{
    const int64_t stride = *(const int64_t *)data;

    if (column >= ca_block_columns(p))
        return SIZE_MAX;
    const int64_t j = (int64_t)(column * p->block_kv), j_end = j + (int64_t)p->block_kv;
    const struct distances x = distances_of(p, row, j, j_end);
    const int64_t multiple = x.most >= 0 ? x.most / stride * stride : 0;

    if (x.most < 0)
        return SIZE_MAX;
    if (x.least < stride || multiple >= x.least)
        return column;
    return (size_t)(x.least + (j_end - 1) - multiple) / p->block_kv;
}

clattn_status clattn_blocks_strided(const clattn_problem *problem, size_t stride, int32_t *offsets,
                                    int32_t *entries, size_t *needed)
{
    int64_t step = (int64_t)(stride < CA_MAX_SIZE ? stride : CA_MAX_SIZE);

    return make(problem,
                (struct pattern){next_at_stride, strided_sees, stride ? (void *)&step : NULL},
                offsets, entries, needed);
}

/* ---- documents ------------------------------------------------------------------------------- */

struct documents {
    const int32_t *starts;
    size_t count;
};

/* Returns the number of starts that are at most x. */
static size_t starts_up_to(const struct documents *documents, int64_t x)
{
    size_t low = 0, high = documents->starts ? documents->count + 1 : 0;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (documents->starts[middle] <= x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Documents follow each other, so the keys of all documents of some queries do, too. */
static size_t next_in_documents(const clattn_problem *p, void *data, const struct block *row,
                                size_t column)
{
    const struct documents *documents = data;
    const size_t first = starts_up_to(documents, row->i);
    const size_t last = starts_up_to(documents, row->i_end - 1);

    if (documents->count == 0 || last == 0)
        return SIZE_MAX;
    return column_of_keys(p, column, documents->starts[first > 0 ? first - 1 : 0],
                          documents->starts[last <= documents->count ? last : documents->count]);
}

static enum seen documents_see(const clattn_problem *p, const void *data, const struct block *b)
{
    const struct documents *documents = data;
    const size_t n = starts_up_to(documents, b->i);

    (void)p;
    if (n == 0 || n > documents->count)
        return SOME;
    const int64_t begin = documents->starts[n - 1], end = documents->starts[n];
    return b->i_end <= end && begin <= b->j && b->j_end <= end ? ALL : SOME;
}

clattn_status clattn_blocks_documents(const clattn_problem *problem, const int32_t *starts,
                                      size_t documents, int32_t *offsets, int32_t *entries,
                                      size_t *needed)
{
    struct documents all = {starts, documents};
    int sound = starts || !documents;

    for (size_t n = 0; sound && n < documents; n++)
        sound = starts[n] >= 0 && starts[n] <= starts[n + 1];
    return make(problem,
                (struct pattern){next_in_documents, documents_see, sound ? (void *)&all : NULL},
                offsets, entries, needed);
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* All of the mask is read, whatever it holds. */
static size_t next_of_mask(const clattn_problem *p, void *data, const struct block *row,
                           size_t column)
{
    (void)p;
    (void)data;
    (void)row;
    return column;
}

static enum seen mask_sees(const clattn_problem *p, const void *data, const struct block *b)
{
    const unsigned char *mask = *(const unsigned char *const *)data;
    int some = 0, all = 1;

    for (int64_t i = b->i; i < b->i_end && (all || !some); i++)
        for (int64_t j = b->j; j < b->j_end; j++) {
            const int sees =
                mask[(size_t)i * p->mask_layout.stride[2] + (size_t)j * p->mask_layout.stride[3]] !=
                0;
            some |= sees;
            all &= sees;
        }
    return all ? ALL : some ? SOME : NONE;
}

clattn_status clattn_blocks_mask(const clattn_problem *problem, const unsigned char *mask,
                                 size_t batch, size_t head, int32_t *offsets, int32_t *entries,
                                 size_t *needed)
{
    const clattn_problem *p = problem;
    const int is_problem = p && clattn_problem_check(p, NULL, 0) == CLATTN_SUCCESS;
    const int has_mask = is_problem && p->mask && !p->mask_keys;

    if (mask && is_problem && !has_mask) {
        if (needed)
            *needed = 0;
        return CLATTN_INVALID_PROBLEM;
    }
    const int sound = mask && has_mask && batch < p->batch && head < p->heads;
    if (sound)
        mask += batch * p->mask_layout.stride[0] + head * p->mask_layout.stride[1];
    return make(p, (struct pattern){next_of_mask, mask_sees, sound ? (void *)&mask : NULL}, offsets,
                entries, needed);
}
