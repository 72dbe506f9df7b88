/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/option_pairs.h"
#include "families/registry.h"

#include "problem/chosen_keys.h"
#include "problem/problem.h"
#include "tests/trials/random_function.h"
#include <stdio.h>
#include <string.h>

/* ---- options ---------------------------------------------------------------------------------- */

enum option {
    DTYPE,
    DIMS,
    SOFTCAP,
    CAUSAL,
    WINDOW_LEFT,
    WINDOW_RIGHT,
    DIAGONAL,
    BIAS,
    MASK,
    ALIBI,
    SINKS,
    Q_LENGTHS,
    KV_LENGTHS,
    DROPOUT,
    BLOCKS,
    STRICT,
    PACKED,
    SCORE_FUNCTION,
    MASK_FUNCTION,
    TUNABLES,
    STEP_Q, /* as NUM_UNITS counts them */
    STEP_K,
    STEP_V,
    STEP_O,
    STEP_DO,
    STEP_DQ,
    STEP_DK,
    STEP_DV,
    LSE, /* of forward */
    O_F32,
    K_CACHE,
    V_CACHE,
    SCORES,
    PAGES,
    TOPK,
    DBIAS, /* of backward */
    DSLOPES,
    DSINKS,
    DLSE,
    DFUNCTION,
    NUM_OPTIONS
};

/* Levels of a cache: 0, then one for each kind of formats of blocks, then another dtype. */
enum { SCALED_BYTES = 1, SCALED_HALF_BYTES, WITH_OFFSET, WITHOUT_SCALE, OTHER_DTYPE };
enum { MOST_LEVELS = 3 + OTHER_DTYPE, ATTEMPTS = 200, CANDIDATES = 8 };

/* The options, with the number of values of each; 0 is the plain one. Operations: bit n for
 * operation n. */
static const struct {
    const char *name;
    size_t levels;
    unsigned operations;
} options[NUM_OPTIONS] = {
    [DTYPE] = {"dtype", 3, 3},
    [DIMS] = {"dims", 4, 3}, /* in whole vectors; ragged; different; long */
    [SOFTCAP] = {"softcap", 2, 3},
    [CAUSAL] = {"causal", 2, 3},
    [WINDOW_LEFT] = {"left window", 2, 3},
    [WINDOW_RIGHT] = {"right window", 2, 3},
    [DIAGONAL] = {"diagonal", 3, 3},
    [BIAS] = {"bias", 4, 3}, /* none; of each dtype */
    [MASK] = {"mask", 2, 3},
    [ALIBI] = {"alibi", 3, 3}, /* none; signed; symmetric */
    [SINKS] = {"sinks", 2, 3},
    [Q_LENGTHS] = {"q_lengths", 2, 3},
    [KV_LENGTHS] = {"kv_lengths", 2, 3},
    [DROPOUT] = {"dropout", 2, 3},
    [BLOCKS] = {"block lists", 3, 3}, /* none; of small blocks; of large ones */
    [STRICT] = {"strict", 2, 3},
    [TUNABLES] = {"tunables", 2, 3}, /* the family's choice; others */
    [STEP_Q] = {"steps in q", 2, 3},
    [STEP_K] = {"steps in k", 2, 3},
    [STEP_V] = {"steps in v", 2, 3},
    [STEP_O] = {"steps in o", 2, 3},
    [STEP_DO] = {"steps in do", 2, 2},
    [STEP_DQ] = {"steps in dq", 2, 2},
    [STEP_DK] = {"steps in dk", 2, 2},
    [STEP_DV] = {"steps in dv", 2, 2},
    [LSE] = {"lse", 2, 1},
    [O_F32] = {"results in f32", 2, 3},
    [K_CACHE] = {"cache of k", OTHER_DTYPE + 1, 1}, /* as k; in blocks; in another dtype */
    [V_CACHE] = {"cache of v", OTHER_DTYPE + 1, 1},
    [SCORES] = {"scores", 5, 1},
    [PAGES] = {"pages", 3, 1},      /* none; pages that tiles may cross; pages of whole tiles */
    [TOPK] = {"chosen keys", 3, 3}, /* none; a list for all heads; one for each kv head */
    [PACKED] = {"packed batches", 4, 3}, /* none; packed queries; packed keys; both packed */
    [SCORE_FUNCTION] = {"score function", 2, 3},
    [MASK_FUNCTION] = {"mask function", 2, 3},
    [DBIAS] = {"dbias", 2, 2},
    [DSLOPES] = {"dslopes", 2, 2},
    [DSINKS] = {"dsinks", 2, 2},
    [DLSE] = {"dlse", 2, 2},
    [DFUNCTION] = {"dfunction", 2, 2},
};

/* A value of each option. */
struct row {
    size_t level[NUM_OPTIONS];
};

static size_t levels_of(const struct ca_family *family, const size_t option)
{
    return options[option].operations >> family->operation & 1u ? options[option].levels : 1;
}

static void draw_dims(struct rng *r, const size_t level, clattn_problem *p)
{
    switch (level) {
    case 0:
        p->dim_qk = p->dim_v = RNG_PICK(r, 32, 32, 64, 64, 64, 96, 128);
        break;
    case 1:
        p->dim_qk = p->dim_v =
            RNG_PICK(r, 1, 2, 3, 5, 8, 9, 16, 20, 24, 40, 40, 48, 59, 72, 72, 80, 80, 111);
        break;
    case 2:
        p->dim_qk = RNG_PICK(r, 3, 20, 32, 40, 64, 64, 64, 64, 80, 128, 128, 128);
        do
            p->dim_v = RNG_PICK(r, 5, 16, 32, 33, 64, 64, 64, 72, 128, 128, 128, 128);
        while (p->dim_v == p->dim_qk);
        break;
    default:
        p->dim_qk = RNG_PICK(r, 160, 192, 256, 256, 257, 512);
        p->dim_v = rng_one_in(r, 2) ? p->dim_qk : RNG_PICK(r, 64, 64, 128, 192, 256);
    }
}

static size_t cache_level(const clattn_cache cache)
{
    const struct ca_format *format = ca_format_of(cache);

    return cache == CLATTN_CACHE_PLAIN ? 0
           : !format->is_blocks        ? OTHER_DTYPE
           : format->offset            ? WITH_OFFSET
           : format->scale < 0         ? WITHOUT_SCALE
           : format->bits == 8         ? SCALED_BYTES
                                       : SCALED_HALF_BYTES;
}

/* A cache of the level. */
static clattn_cache draw_cache(struct rng *r, const size_t level, const clattn_dtype dtype)
{
    const size_t from = rng_below(r, CA_NUM_BLOCK_FORMATS);

    if (level == OTHER_DTYPE)
        return ca_cache_of_dtype((clattn_dtype)(((unsigned)dtype + 1) % CA_NUM_DTYPES));
    for (size_t n = from; n < from + CA_NUM_BLOCK_FORMATS; n++)
        if (cache_level(ca_block_caches[n % CA_NUM_BLOCK_FORMATS]) == level)
            return ca_block_caches[n % CA_NUM_BLOCK_FORMATS];
    return CLATTN_CACHE_PLAIN;
}

/* Returns whether a cache of the level has blocks, which no step fits. */
static int in_blocks(const size_t level)
{
    return level != 0 && level != OTHER_DTYPE;
}

static clattn_problem problem_of(const struct row *row, struct rng *r,
                                 const clattn_operation operation)
{
    const size_t *level = row->level;
    clattn_problem p;

    clattn_problem_init(&p);
    p.operation = operation;
    p.dtype = (clattn_dtype)level[DTYPE];
    draw_dims(r, level[DIMS], &p);
    p.softcap = level[SOFTCAP] ? (float)rng_uniform(r, 0.5, 30) : 0.0f;
    p.causal = level[CAUSAL] != 0;
    p.window_left = level[WINDOW_LEFT] ? 0 : CLATTN_UNLIMITED;
    p.window_right = level[WINDOW_RIGHT] ? 0 : CLATTN_UNLIMITED;
    p.diagonal = (clattn_diagonal)level[DIAGONAL];
    p.bias = level[BIAS] != 0;
    p.bias_dtype = level[BIAS] ? (clattn_dtype)(level[BIAS] - 1) : CLATTN_F32;
    p.mask = level[MASK] != 0;
    p.alibi = level[ALIBI] != 0;
    p.alibi_symmetric = level[ALIBI] == 2;
    p.sinks = level[SINKS] != 0;
    p.q_lengths = level[Q_LENGTHS] != 0;
    p.kv_lengths = level[KV_LENGTHS] != 0;
    p.dropout = level[DROPOUT] ? (float)rng_uniform(r, 0.02, 0.9) : 0.0f;
    if (level[BLOCKS])
        random_block_sizes(r, level[BLOCKS] > 1, &p);
    p.strict = level[STRICT] != 0;
    p.lse = level[LSE] != 0;
    p.o_f32 = level[O_F32] != 0;
    p.k_cache = draw_cache(r, level[K_CACHE], p.dtype);
    p.v_cache = draw_cache(r, level[V_CACHE], p.dtype);
    p.k_scales = level[K_CACHE] == WITHOUT_SCALE && !rng_one_in(r, 4); /* one of each row instead */
    p.v_scales = level[V_CACHE] == WITHOUT_SCALE && !rng_one_in(r, 4);
    p.scores = (clattn_scores)level[SCORES];
    if (level[PAGES])
        p.page_size = level[PAGES] == 1 ? RNG_PICK(r, 1, 2, 3, 8, 13, 100)
                                        : RNG_PICK(r, 16, 32, 64, 64, 128, 256);
    p.pages = p.page_size != 0; /* how many: with the shape */
    p.topk = level[TOPK] != 0;
    p.topk_heads = level[TOPK] == 2;
    p.total_q = level[PACKED] & 1; /* how many: with the shape */
    p.total_kv = level[PACKED] >> 1;
    p.dfunction =
        level[DFUNCTION] != 0; /* the first function has no operands, the second one has */
    p.score_function =
        level[SCORE_FUNCTION] ? trial_function(CLATTN_SCORE_FUNCTION, p.dfunction != 0) : NULL;
    p.mask_function = level[MASK_FUNCTION] ? trial_function(CLATTN_MASK_FUNCTION, 0) : NULL;
    p.dbias = level[DBIAS] != 0;
    p.dslopes = level[DSLOPES] != 0;
    p.dsinks = level[DSINKS] != 0;
    p.dlse = level[DLSE] != 0;
    return p;
}

/* Makes the row's kind, its tunables aside, with new dims until the family takes them; 0 if it takes
 * none. */
static int make(const struct row *row, struct rng *r, const struct ca_family *family,
                const clattn_device_info *device, struct problem_kind *kind)
{
    const int steps_in_k = row->level[STEP_K] && in_blocks(row->level[K_CACHE]);
    char reason[256];

    *kind = (struct problem_kind){.family = family};
    for (int n = 0; n < NUM_UNITS; n++)
        kind->unit[n] = !row->level[STEP_Q + n];
    for (int n = 0; n < 8 && !steps_in_k && !(row->level[STEP_V] && in_blocks(row->level[V_CACHE]));
         n++) {
        kind->base = problem_of(row, r, family->operation);
        kind->base.int8 = family->multiplies_bytes == CA_BYTES_ALONE ||
                          (family->multiplies_bytes && rng_one_in(r, 3));
        if (clattn_problem_check(&kind->base, NULL, 0) != CLATTN_SUCCESS)
            continue;
        const struct ca_problem given = ca_problem_own(&kind->base), p = ca_problem_chosen(&given);
        ca_family_suggest(family, &p, device, kind->values);
        if (!ca_family_refusal(family, &p, device, kind->values, reason, sizeof reason))
            return 1;
    }
    return 0;
}

static int is_taken(const struct row *row, struct rng *r, const struct ca_family *family,
                    const clattn_device_info *device)
{
    struct problem_kind kind;

    return make(row, r, family, device, &kind);
}

/* ---- pairs ------------------------------------------------------------------------------------ */

/* The pairs of values of two options, the first of them the smaller. */
struct table {
    unsigned char wanted[NUM_OPTIONS][MOST_LEVELS][NUM_OPTIONS][MOST_LEVELS];
    size_t count; /* of those that are wanted */
};

static void strike(struct table *t, const struct row *row)
{
    for (size_t a = 0; a < NUM_OPTIONS; a++)
        for (size_t b = a + 1; b < NUM_OPTIONS; b++) {
            unsigned char *wanted = &t->wanted[a][row->level[a]][b][row->level[b]];
            t->count -= *wanted;
            *wanted = 0;
        }
}

/* Returns how many pairs a value of one option would strike out together with the others of a row.
 * */
static size_t gain(const struct table *t, const struct row *row, const size_t option,
                   const size_t level)
{
    size_t sum = 0;

    for (size_t n = 0; n < option; n++)
        sum += t->wanted[n][row->level[n]][option][level];
    for (size_t n = option + 1; n < NUM_OPTIONS; n++)
        sum += t->wanted[option][level][n][row->level[n]];
    return sum;
}

/* A row with both values: plain in one of the dtypes if that is taken, with what they need beside, else
 * any. 0: none. */
static int witness(struct rng *r, const struct ca_family *family, const clattn_device_info *device,
                   const size_t a, const size_t a_level, const size_t b, const size_t b_level,
                   struct row *row)
{
    static const size_t needs[][2] = {
        {DBIAS, BIAS}, {DSLOPES, ALIBI}, {DSINKS, SINKS}, {DFUNCTION, SCORE_FUNCTION}};

    for (size_t attempt = 0; attempt < ATTEMPTS; attempt++) {
        const int plain = attempt < ATTEMPTS / 2; /* dims are drawn each time */
        for (size_t n = 0; n < NUM_OPTIONS; n++)
            row->level[n] = plain ? 0 : rng_below(r, levels_of(family, n));
        row->level[DTYPE] = plain ? attempt % options[DTYPE].levels : row->level[DTYPE];
        row->level[a] = a_level;
        row->level[b] = b_level;
        for (size_t n = 0; plain && n < sizeof needs / sizeof *needs; n++)
            if (row->level[needs[n][0]] && needs[n][1] != a && needs[n][1] != b)
                row->level[needs[n][1]] = 1;
        if (is_taken(row, r, family, device))
            return 1;
    }
    return 0;
}

/* Wants every pair that has a witness: none of a value that has none itself. */
static void want(struct rng *r, const struct ca_family *family, const clattn_device_info *device,
                 struct table *t)
{
    int alone[NUM_OPTIONS][MOST_LEVELS] = {{0}};
    struct row row;

    memset(t, 0, sizeof *t);
    for (size_t a = 0; a < NUM_OPTIONS; a++)
        for (size_t x = 0; x < levels_of(family, a); x++)
            alone[a][x] = witness(r, family, device, a, x, a, x, &row);
    for (size_t a = 0; a < NUM_OPTIONS; a++)
        for (size_t b = a + 1; b < NUM_OPTIONS; b++)
            for (size_t x = 0; x < levels_of(family, a); x++)
                for (size_t y = 0; y < levels_of(family, b); y++)
                    t->count += t->wanted[a][x][b][y] =
                        alone[a][x] && alone[b][y] && witness(r, family, device, a, x, b, y, &row);
}

/* ---- rows ------------------------------------------------------------------------------------- */

static void pick_wanted(const struct table *t, struct rng *r, size_t pair[4])
{
    size_t left = rng_below(r, t->count);

    for (size_t a = 0; a < NUM_OPTIONS; a++)
        for (size_t x = 0; x < MOST_LEVELS; x++)
            for (size_t b = a + 1; b < NUM_OPTIONS; b++)
                for (size_t y = 0; y < MOST_LEVELS; y++)
                    if (t->wanted[a][x][b][y] && left-- == 0) {
                        memcpy(pair, (size_t[]){a, x, b, y}, 4 * sizeof *pair);
                        return;
                    }
}

/* Gives the option the value that strikes out most, of those that the family takes with the rest. */
static void improve(const struct table *t, struct rng *r, const struct ca_family *family,
                    const clattn_device_info *device, const size_t option, struct row *row)
{
    const size_t count = levels_of(family, option), turn = rng_below(r, count);
    size_t most = gain(t, row, option, row->level[option]);

    for (size_t n = 0; n < count; n++) {
        struct row other = *row;
        other.level[option] = (turn + n) % count;
        const size_t sum = gain(t, row, option, other.level[option]);
        if (sum > most && is_taken(&other, r, family, device)) {
            most = sum;
            *row = other;
        }
    }
}

/* A row from a pair that is wanted, its other options improved in a random order, twice. Returns how
 * many pairs it strikes out. */
static size_t draw_row(const struct table *t, struct rng *r, const struct ca_family *family,
                       const clattn_device_info *device, struct row *row)
{
    size_t order[NUM_OPTIONS], pair[4], sum = 0;

    pick_wanted(t, r, pair);
    if (!witness(r, family, device, pair[0], pair[1], pair[2], pair[3], row))
        return 0;
    for (size_t n = 0; n < NUM_OPTIONS; n++) {
        const size_t at = rng_below(r, n + 1);
        order[n] = order[at];
        order[at] = n;
    }
    for (size_t n = 0; n < (size_t)2 * NUM_OPTIONS; n++)
        if (order[n % NUM_OPTIONS] != pair[0] && order[n % NUM_OPTIONS] != pair[2])
            improve(t, r, family, device, order[n % NUM_OPTIONS], row);
    for (size_t option = 0; option < NUM_OPTIONS; option++)
        sum += gain(t, row, option, row->level[option]);
    return sum / 2;
}

size_t option_pairs(const struct ca_family *family, const clattn_device_info *device, uint64_t seed,
                    struct problem_kind rows[PAIRS_MOST_ROWS])
{
    static struct table t;
    struct rng r = rng_seed(seed);
    size_t count = 0;

    want(&r, family, device, &t);
    while (t.count > 0 && count < PAIRS_MOST_ROWS) {
        struct row best, row;
        size_t most = 0;
        for (int n = 0; n < CANDIDATES; n++) {
            const size_t sum = draw_row(&t, &r, family, device, &row);
            if (sum > most) {
                most = sum;
                best = row;
            }
        }
        if (most == 0 || !make(&best, &r, family, device, &rows[count]))
            continue;
        strike(&t, &best);
        random_functions(&r, &rows[count].base);
        random_tunables(&r, &rows[count++], device, best.level[TUNABLES] != 0);
    }
    return count;
}

size_t option_pairs_runs(const size_t rows, const size_t rows_of_a_run)
{
    return (rows + rows_of_a_run - 1) / rows_of_a_run;
}

/* ---- what stands in rows ---------------------------------------------------------------------- */

static size_t dims_level(const clattn_problem *p)
{
    if (p->dim_qk > 128)
        return 3;
    return p->dim_qk != p->dim_v ? 2 : p->dim_qk % 32 != 0;
}

/* The values of a kind's options, but for its tunables, which may be the family's by chance. */
static struct row row_of(const struct problem_kind *kind)
{
    const clattn_problem *p = &kind->base;
    struct row row = {{[DTYPE] = (size_t)p->dtype,
                       [DIMS] = dims_level(p),
                       [SOFTCAP] = p->softcap > 0.0f,
                       [CAUSAL] = p->causal != 0,
                       [WINDOW_LEFT] = p->window_left == 0,
                       [WINDOW_RIGHT] = p->window_right == 0,
                       [DIAGONAL] = (size_t)p->diagonal,
                       [BIAS] = p->bias ? 1 + (size_t)p->bias_dtype : 0,
                       [MASK] = p->mask != 0,
                       [ALIBI] = (size_t)((p->alibi != 0) + (p->alibi_symmetric != 0)),
                       [SINKS] = p->sinks != 0,
                       [Q_LENGTHS] = p->q_lengths != 0,
                       [KV_LENGTHS] = p->kv_lengths != 0,
                       [DROPOUT] = p->dropout > 0.0f,
                       [BLOCKS] = p->block_q ? 1 + (p->block_q >= 32) : 0,
                       [STRICT] = p->strict != 0,
                       [LSE] = p->lse != 0,
                       [O_F32] = p->o_f32 != 0,
                       [K_CACHE] = cache_level(p->k_cache),
                       [V_CACHE] = cache_level(p->v_cache),
                       [SCORES] = (size_t)p->scores,
                       [PAGES] = p->page_size ? 1 + (p->page_size % 16 == 0) : 0,
                       [TOPK] = (size_t)((p->topk != 0) + (p->topk_heads != 0)),
                       [PACKED] = (p->total_q != 0) + 2 * (p->total_kv != 0),
                       [SCORE_FUNCTION] = p->score_function != NULL,
                       [MASK_FUNCTION] = p->mask_function != NULL,
                       [DBIAS] = p->dbias != 0,
                       [DSLOPES] = p->dslopes != 0,
                       [DSINKS] = p->dsinks != 0,
                       [DLSE] = p->dlse != 0,
                       [DFUNCTION] = p->dfunction != 0}};

    for (size_t n = 0; n < NUM_UNITS; n++)
        row.level[STEP_Q + n] = !kind->unit[n];
    return row;
}

struct pairs_missing option_pairs_missing(const struct ca_family *family,
                                          const clattn_device_info *device,
                                          const struct problem_kind *rows, size_t count)
{
    static struct table t;
    struct pairs_missing found = {.first = ""};
    struct rng r = rng_seed(1);

    want(&r, family, device, &t);
    for (size_t n = 0; n < NUM_OPTIONS; n++)
        for (size_t x = 0; x < MOST_LEVELS; x++)
            for (size_t y = 0; y < MOST_LEVELS; y++) {
                const size_t a = n < TUNABLES ? n : TUNABLES, b = n < TUNABLES ? TUNABLES : n;
                if (a == b)
                    continue;
                t.count -= t.wanted[a][x][b][y];
                t.wanted[a][x][b][y] = 0;
            }
    found.pairs = t.count;
    for (size_t n = 0; n < count; n++) {
        const struct row row = row_of(&rows[n]);
        strike(&t, &row);
    }
    found.missing = t.count;
    if (t.count > 0) {
        size_t pair[4];
        pick_wanted(&t, &r, pair);
        snprintf(found.first, sizeof found.first, "%s %zu with %s %zu", options[pair[0]].name,
                 pair[1], options[pair[2]].name, pair[3]);
    }
    return found;
}
