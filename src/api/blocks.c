/* Block lists of patterns, made on the host. */
#include "problem/problem.h"
#include "problem/tensors.h"
#include <clattn/blocks.h>

/* Queries i .. i_end - 1 and keys j .. j_end - 1 of a row and a column. */
struct block {
    int64_t i, i_end, j, j_end;
    size_t row, column;
};

/* How much of a block a pattern sees. */
enum seen { NONE, SOME, ALL };

typedef enum seen pattern_sees(const clattn_problem *p, const void *pattern, const struct block *b);

static clattn_status list_blocks(const clattn_problem *p, pattern_sees *sees, const void *pattern,
                                 int32_t *offsets, int32_t *entries, size_t *needed)
{
    size_t count = 0;

    if (!p || !pattern || !offsets != !entries)
        return CLATTN_INVALID_ARGUMENT;
    if (clattn_problem_check(p, NULL, 0) != CLATTN_SUCCESS || !p->block_q)
        return CLATTN_INVALID_PROBLEM;
    const size_t rows = ca_block_rows(p), columns = ca_block_columns(p), most = p->max_blocks;
    for (size_t row = 0; row < rows; row++) {
        if (offsets)
            offsets[row] = (int32_t)(count < most ? count : most);
        for (size_t column = 0; column < columns; column++) {
            const size_t i = row * p->block_q, j = column * p->block_kv;
            const struct block b = {
                .i = (int64_t)i,
                .i_end = (int64_t)(p->seq_q - i < p->block_q ? p->seq_q : i + p->block_q),
                .j = (int64_t)j,
                .j_end = (int64_t)(p->seq_kv - j < p->block_kv ? p->seq_kv : j + p->block_kv),
                .row = row,
                .column = column};
            const enum seen seen = sees(p, pattern, &b);
            if (seen == NONE)
                continue;
            if (entries && count < most)
                entries[count] = (int32_t)column | (seen == ALL ? CLATTN_BLOCK_FULL : 0);
            count++;
        }
    }
    if (offsets)
        offsets[rows] = (int32_t)(count < most ? count : most);
    *needed = count;
    return offsets && count > most ? CLATTN_BUFFER_TOO_SMALL : CLATTN_SUCCESS;
}

/* needed may be the problem's own max_blocks, so it is written last. */
static clattn_status make(const clattn_problem *p, pattern_sees *sees, const void *pattern,
                          int32_t *offsets, int32_t *entries, size_t *needed)
{
    size_t count = 0;
    const clattn_status status = list_blocks(p, sees, pattern, offsets, entries, &count);

    if (needed)
        *needed = count;
    return status;
}

/* ---- windows and global tokens --------------------------------------------------------------- */

struct window {
    int64_t left, right;
    size_t globals, random;
    uint64_t seed;
};

/* SplitMix64: a number of a number. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int is_drawn(const clattn_problem *p, const struct window *w, const struct block *b)
{
    const size_t columns = ca_block_columns(p);

    for (size_t n = 0; n < w->random && n < columns; n++)
        if (mix(mix(w->seed ^ b->row) + n) % columns == b->column)
            return 1;
    return 0;
}

static enum seen window_sees(const clattn_problem *p, const void *pattern, const struct block *b)
{
    const struct window *w = pattern;
    const int64_t globals = (int64_t)w->globals, d = ca_problem_diagonal(p);
    const int64_t first = b->j - (b->i_end - 1) - d; /* keys less now: from there on, */
    const int64_t last = b->j_end - 1 - b->i - d;    /* and up to there */
    const int left = w->left == CLATTN_UNLIMITED, right = w->right == CLATTN_UNLIMITED;

    if (((left || first >= -w->left) && (right || last <= w->right)) || b->i_end <= globals ||
        b->j_end <= globals || is_drawn(p, w, b))
        return ALL;
    return ((left || last >= -w->left) && (right || first <= w->right)) || b->i < globals ||
                   b->j < globals
               ? SOME
               : NONE;
}

clattn_status clattn_blocks_window(const clattn_problem *problem, int64_t left, int64_t right,
                                   size_t globals, size_t random, uint64_t seed, int32_t *offsets,
                                   int32_t *entries, size_t *needed)
{
    const struct window window = {left, right, globals < CA_MAX_SIZE ? globals : CA_MAX_SIZE,
                                  random, seed};
    const int64_t most = (int64_t)CA_MAX_SIZE;
    const int sound =
        left >= CLATTN_UNLIMITED && right >= CLATTN_UNLIMITED && left <= most && right <= most;

    return make(problem, window_sees, sound ? &window : NULL, offsets, entries, needed);
}

/* ---- strides --------------------------------------------------------------------------------- */

static enum seen strided_sees(const clattn_problem *p, const void *pattern, const struct block *b)
{
    const int64_t stride = *(const int64_t *)pattern, d = ca_problem_diagonal(p);
    const int64_t least = b->i + d - (b->j_end - 1), most = b->i_end - 1 + d - b->j;
    const int64_t from = least > 0 ? least : 0;

    if (most < 0)
        return NONE;
    if (least >= 0 && (most < stride || stride == 1 || (least == most && least % stride == 0)))
        return ALL;
    return from < stride || most / stride * stride >= from ? SOME : NONE;
}

clattn_status clattn_blocks_strided(const clattn_problem *problem, size_t stride, int32_t *offsets,
                                    int32_t *entries, size_t *needed)
{
    const int64_t step = (int64_t)(stride < CA_MAX_SIZE ? stride : CA_MAX_SIZE);

    return make(problem, strided_sees, stride ? &step : NULL, offsets, entries, needed);
}

/* ---- documents ------------------------------------------------------------------------------- */

struct documents {
    const int32_t *starts;
    size_t count;
};

static enum seen documents_see(const clattn_problem *p, const void *pattern, const struct block *b)
{
    const struct documents *documents = pattern;

    (void)p;
    for (size_t n = 0; n < documents->count; n++) {
        const int64_t begin = documents->starts[n], end = documents->starts[n + 1];
        if (begin <= b->i && begin <= b->j && b->i_end <= end && b->j_end <= end)
            return ALL;
        if (begin < end && begin < b->i_end && begin < b->j_end && b->i < end && b->j < end)
            return SOME;
    }
    return NONE;
}

clattn_status clattn_blocks_documents(const clattn_problem *problem, const int32_t *starts,
                                      size_t documents, int32_t *offsets, int32_t *entries,
                                      size_t *needed)
{
    const struct documents pattern = {starts, documents};
    int sound = starts || !documents;

    for (size_t n = 0; sound && n < documents; n++)
        sound = starts[n] >= 0 && starts[n] <= starts[n + 1];
    return make(problem, documents_see, sound ? &pattern : NULL, offsets, entries, needed);
}

/* ---- masks ----------------------------------------------------------------------------------- */

static enum seen mask_sees(const clattn_problem *p, const void *pattern, const struct block *b)
{
    const unsigned char *mask = pattern;
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
    if (!has_mask || batch >= p->batch || head >= p->heads)
        mask = NULL;
    return make(p, mask_sees,
                mask ? mask + batch * p->mask_layout.stride[0] + head * p->mask_layout.stride[1]
                     : NULL,
                offsets, entries, needed);
}
