/* SPDX-License-Identifier: Apache-2.0 */
/* Merges: each element against double precision, what is exact to the bit, and the whole attention. */
#include "tests/support/fixture.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/random_operation.h"
#include "tests/trials/trial.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(merge, .timeout = 120, .init = unoptimised);

/* A trial whose states all count: lse and values within 2. */
static struct trial fill(const char *text, uint64_t seed)
{
    struct trial t = {.problem = fixture_problem(text), .seed = seed};

    trial_fill(&t);
    for (int id = MERGE_PARTS; id <= MERGE_PARTS_LSE; id++)
        trial_set_ordinary(&t, id, seed + (uint64_t)id);
    for (int id = MERGE_O; id <= MERGE_LSE && t.problem.merge.accumulate; id++)
        trial_set_ordinary(&t, id, seed + (uint64_t)id);
    return t;
}

/* Runs it and compares each element. */
static void run(struct fixture *f, struct trial *t)
{
    trial_run(f, t);
    trial_check(t);
}

/* The elements of a packed tensor, as they were sent and as they came back, and their bytes. */
static const void *sent(const struct trial *t, int id)
{
    return trial_sent(t).at[id];
}

static const void *got(const struct trial *t, int id)
{
    return trial_got(t).at[id];
}

static size_t bytes_of(const struct trial *t, int id)
{
    return tensor_bytes(&t->tensor[id].shape, tensor_count(&t->tensor[id].shape));
}

/* Each element of random problems, in each dtype, with rows' ends of every kind. */
DeviceTest(merge, random)
{
    static const char small[] = "SIMD_WIDTH=4 ITEM_VECTORS=2 ITEM_ROWS=4";
    static const struct trial_base bases[] = {
        {"merge f32 q1 d8 n2", NULL, NULL},
        {"merge f32 q1 d8 n2 accumulate", "merge_rows", small},
        {"merge f16 q1 d8 n2 accumulate", NULL, NULL},
        {"merge f16 q1 d8 n2", "merge_rows", small},
        {"merge bf16 q1 d8 n2", NULL, NULL},
        {"merge bf16 q1 d8 n2 accumulate", "merge_rows", small},
        {"merge f16 q1 d8 n2 sinks accumulate", NULL, NULL},
        {"merge f32 q1 d8 n2 sinks", "merge_rows", small},
        {"merge f32 q1 d8 n2 accumulate", NULL, NULL},
        {"merge bf16 q1 d8 n2 accumulate", NULL, NULL},
    };

    trials_pass_of(f, bases, sizeof bases / sizeof *bases, 2, 40, 10);
}

/* As on GPUs: items that share a row, of which the last may have no columns. */
DeviceTest(merge, items_that_share_a_row)
{
    static const char *const problems[] = {
        "merge f32 b2 h3 q5 d70 n5 accumulate", "merge f16 b1 h3 q7 d128 n2 parts=bshd",
        "merge bf16 h2 q3 d9 n9 sinks", "merge f32 h2 q3 d33 n4 parts=1000.200.66.2 accumulate"};

    fixture_need_groups(f);
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct trial t = {.problem = fixture_problem(problems[n]),
                          .family = "merge_rows",
                          .tunables =
                              "SIMD_WIDTH=4 ITEM_VECTORS=1 ROW_ITEMS=8 GROUP_ROWS=4 ITEM_ROWS=1",
                          .seed = n + 1};
        trial_pass(f, &t);
    }
}

/* ---- states that are special ---------------------------------------------------------------- */

/* Gives each row of a state this lse: of what o held, if s is the number of states. */
static void set_lse(const struct trial *t, size_t s, double lse)
{
    const size_t rows = tensor_count(&t->tensor[MERGE_LSE].shape);
    const int own = s == t->problem.merge.states;

    for (size_t row = 0; row < rows; row++)
        trial_set_nth(t, own ? MERGE_LSE : MERGE_PARTS_LSE, own ? row : s * rows + row, lse);
}

/* Makes all elements NaN. */
static void spoil(const struct trial *t, int id)
{
    memset(t->tensor[id].bytes, 0xff, t->tensor[id].num_bytes);
}

/* A state is returned to the bit if it is the only one that is not empty, or if the others
 * vanish beside it. The contents of an empty state are not read. */
DeviceTest(merge, a_single_state_stays_as_it_is)
{
    static const double others[] = {-INFINITY, -300.0};
    static const char *const dtypes[] = {"f32", "f16", "bf16"};

    for (int n = 0; n < 6; n++) {
        char text[64];
        snprintf(text, sizeof text, "merge %s h2 q3 d37 n5", dtypes[n / 2]);
        struct trial t = fill(text, 11);
        const size_t bytes = bytes_of(&t, MERGE_O), lse_bytes = bytes_of(&t, MERGE_LSE);
        for (size_t s = 0; s < 5; s++)
            if (s != 3)
                set_lse(&t, s, others[n % 2]);
        if (n % 2 == 0)
            for (size_t at = 0; at < 3 * 2 * 3 * 37; at++)
                trial_set_nth(&t, MERGE_PARTS, at, NAN);
        run(f, &t);
        cr_expect(
            memcmp(got(&t, MERGE_O), (const char *)sent(&t, MERGE_PARTS) + 3 * bytes, bytes) == 0,
            "%s", text);
        cr_expect(memcmp(got(&t, MERGE_LSE),
                         (const char *)sent(&t, MERGE_PARTS_LSE) + 3 * lse_bytes, lse_bytes) == 0,
                  "%s", text);
        trial_free(&t);
    }
}

/* In place: an empty state leaves the other as it is, whichever it is. */
DeviceTest(merge, in_place_with_an_empty_state)
{
    for (int n = 0; n < 2; n++) {
        struct trial t = fill("merge f32 h2 q3 d37 n1 accumulate", 12);
        set_lse(&t, n ? 0 : 1, -INFINITY);
        spoil(&t, n ? MERGE_PARTS : MERGE_O);
        run(f, &t);
        cr_expect(memcmp(got(&t, MERGE_O), sent(&t, n ? MERGE_O : MERGE_PARTS),
                         bytes_of(&t, MERGE_O)) == 0);
        cr_expect(memcmp(got(&t, MERGE_LSE), sent(&t, n ? MERGE_LSE : MERGE_PARTS_LSE),
                         bytes_of(&t, MERGE_LSE)) == 0);
        trial_free(&t);
    }
}

DeviceTest(merge, only_empty_states_stay_empty)
{
    static const char *const problems[] = {
        "merge f32 h2 q3 d5 n1 accumulate", "merge f16 h2 q3 d5 n4", "merge f32 h2 q3 d5 n0",
        "merge f32 h2 q3 d5 n2 sinks", "merge bf16 h2 q3 d5 n0 accumulate"};

    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct trial t = fill(problems[n], 13);
        const clattn_merge_problem *p = &t.problem.merge;
        for (size_t s = 0; s < p->states + (p->accumulate != 0); s++)
            set_lse(&t, s, -INFINITY);
        if (p->states)
            spoil(&t, MERGE_PARTS);
        run(f, &t);
        for (size_t row = 0; row < 6; row++)
            cr_expect(trial_value_nth(&t, MERGE_LSE, row) == -INFINITY, "%s: lse %zu is %g",
                      problems[n], row, trial_value_nth(&t, MERGE_LSE, row));
        trial_free(&t);
    }
}

/* NaN shows in its row and nowhere else; +inf outweighs what is finite. */
DeviceTest(merge, nan_and_infinity)
{
    struct trial t = fill("merge f32 h1 q4 d9 n3", 14);

    trial_set_nth(&t, MERGE_PARTS_LSE, 1 * 4 + 0, NAN);
    trial_set_nth(&t, MERGE_PARTS_LSE, 2 * 4 + 1, INFINITY);
    trial_set(&t, MERGE_PARTS, 0, 0, 2, 5, NAN);
    run(f, &t);
    for (size_t d = 0; d < 9; d++) {
        const float *o = got(&t, MERGE_O);
        cr_expect(isnan(o[d]));
        cr_expect(o[9 + d] == ((const float *)sent(&t, MERGE_PARTS))[2 * 36 + 9 + d]);
        cr_expect((isnan(o[18 + d]) != 0) == (d == 5));
        cr_expect(!isnan(o[27 + d]));
    }
    const float *lse = got(&t, MERGE_LSE);
    cr_expect(isnan(lse[0]) && lse[1] == INFINITY && isfinite(lse[2]));
    trial_free(&t);
}

/* A sink shares with states that are not empty; one of -inf changes no bit, a NaN shows in its head alone. */
DeviceTest(merge, special_sinks)
{
    static const double sinks[] = {-INFINITY, NAN, INFINITY, 0.5};
    struct trial t = fill("merge f32 h4 q3 d9 n2 sinks", 15);
    struct trial without = fill("merge f32 h4 q3 d9 n2", 15);

    for (size_t h = 0; h < 4; h++) {
        trial_set_nth(&t, MERGE_SINKS, h, sinks[h]);
        for (size_t s = 0; s < 2; s++) /* the last query of each head sees nothing */
            trial_set_nth(&t, MERGE_PARTS_LSE, (s * 4 + h) * 3 + 2, -INFINITY);
    }
    run(f, &t);
    run(f, &without);
    const float *lse = got(&t, MERGE_LSE);
    cr_expect(memcmp(got(&t, MERGE_O), got(&without, MERGE_O), 2 * 9 * sizeof(float)) == 0);
    cr_expect(memcmp(lse, got(&without, MERGE_LSE), 2 * sizeof(float)) == 0);
    cr_expect(isnan(lse[3]) && lse[6] == INFINITY && isfinite(lse[9]));
    for (size_t h = 0; h < 4; h++)
        cr_expect(lse[h * 3 + 2] == -INFINITY);
    trial_free(&t);
    trial_free(&without);
}

/* ---- the whole attention -------------------------------------------------------------------- */

/* Keys are cut at these places; first and last are 0 and KEYS. */
enum { HEADS = 4, KV_HEADS = 2, QUERIES = 6, KEYS = 40, DIM = 24, MOST_PARTS = 7 };
struct cut {
    const char *name;
    size_t parts, at[MOST_PARTS + 1];
    float factor; /* of the keys of odd parts: large ones drive lse apart */
};

static const struct cut cuts[] = {
    {"equal halves", 2, {0, 20, 40}, 1.0f},
    {"unequal parts", 2, {0, 33, 40}, 1.0f},
    {"one key on the left", 2, {0, 1, 40}, 1.0f},
    {"empty on the left", 2, {0, 0, 40}, 1.0f},
    {"empty on the right", 2, {0, 40, 40}, 1.0f},
    {"n equal parts", 4, {0, 10, 20, 30, 40}, 1.0f},
    {"n parts, some of them empty", 7, {0, 0, 7, 7, 8, 39, 40, 40}, 1.0f},
    {"far apart", 2, {0, 20, 40}, 40.0f},
    {"n parts far apart", 4, {0, 3, 20, 30, 40}, 90.0f},
};

/* Attention of all queries over some keys; scores are sums of small numbers. */
static void attend(struct fixture *f, const float *q, const float *k, const float *v, size_t begin,
                   size_t end, const char *rest, const float *sinks, float *o, float *lse)
{
    char text[192];

    snprintf(text, sizeof text, "fwd f32 h%d/%d q%d k%zu d%d k=%d.%d.%d.1 v=%d.%d.%d.1 lse%s%s",
             HEADS, KV_HEADS, QUERIES, end - begin, DIM, KV_HEADS * KEYS * DIM, KEYS * DIM, DIM,
             KV_HEADS * KEYS * DIM, KEYS * DIM, DIM, rest, sinks ? " sinks" : "");
    const clattn_problem p = fixture_problem(text);
    const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = q,
                                                 .k = k + begin * DIM,
                                                 .v = v + begin * DIM,
                                                 .sinks = sinks,
                                                 .o = o,
                                                 .lse = lse};
    cr_assert(clattn_attention_forward_host(f->context, &p, NULL, &tensors) == CLATTN_SUCCESS, "%s",
              f->log.last);
}

/* Which keys a query sees: all; those up to its own, where the last query is the last key, whichever part of
 * the keys is seen; of these the last four, so that queries see nothing of some parts, and a sink. */
enum sight { ALL_KEYS, CAUSAL, WINDOW_AND_SINKS, NUM_SIGHTS };
static const char *const sights[] = {"", ", causal", ", window and sinks"};

static void diagonal(size_t begin, enum sight sight, char text[64])
{
    text[0] = '\0';
    if (sight != ALL_KEYS)
        snprintf(text, 64, " causal=%d%s", KEYS - QUERIES - (int)begin,
                 sight == CAUSAL ? "" : " window=3,*");
}

static void check_cut(struct fixture *f, const struct cut *cut, enum sight sight)
{
    enum { O = HEADS * QUERIES * DIM, ROWS = HEADS * QUERIES, KV = KV_HEADS * KEYS * DIM };
    static float q[O], k[KV], v[KV], whole[O], whole_lse[ROWS], parts[MOST_PARTS * O],
        parts_lse[MOST_PARTS * ROWS], o[O], lse[ROWS];
    static const float of_heads[HEADS] = {2.0f, -1.0f, 0.0f, 5.0f};
    const float *sinks = sight == WINDOW_AND_SINKS ? of_heads : NULL;
    struct rng r = rng_seed(5);
    char text[64], rest[64];

    for (size_t n = 0; n < O; n++)
        q[n] = (float)rng_uniform(&r, -1, 1);
    for (size_t n = 0; n < KV; n++) {
        const size_t j = n / DIM % KEYS;
        size_t part = 0;
        while (j >= cut->at[part + 1])
            part++;
        k[n] = (float)rng_uniform(&r, -1, 1) * (part % 2 ? cut->factor : 1.0f);
        v[n] = (float)rng_uniform(&r, -1, 1);
    }
    diagonal(0, sight, rest);
    attend(f, q, k, v, 0, KEYS, rest, sinks, whole, whole_lse);
    for (size_t s = 0; s < cut->parts; s++) {
        diagonal(cut->at[s], sight, rest);
        attend(f, q, k, v, cut->at[s], cut->at[s + 1], rest, NULL, parts + s * O,
               parts_lse + s * ROWS);
    }
    snprintf(text, sizeof text, "merge f32 h%d q%d d%d n%zu%s", HEADS, QUERIES, DIM, cut->parts,
             sinks ? " sinks" : "");
    const clattn_problem p = fixture_problem(text);
    const clattn_host_merge_tensors tensors = {.struct_size = sizeof tensors,
                                               .parts = parts,
                                               .parts_lse = parts_lse,
                                               .sinks = sinks,
                                               .o = o,
                                               .lse = lse};
    cr_assert(clattn_merge_host(f->context, &p, NULL, &tensors) == CLATTN_SUCCESS);
    for (size_t n = 0; n < O; n++)
        cr_expect(fabsf(o[n] - whole[n]) < 4e-6f * cut->factor, "%s%s: o[%zu] is %.9g, not %.9g",
                  cut->name, sights[sight], n, (double)o[n], (double)whole[n]);
    for (size_t n = 0; n < ROWS; n++)
        cr_expect(fabsf(lse[n] - whole_lse[n]) < 1e-6f * fmaxf(4.0f, fabsf(whole_lse[n])),
                  "%s: lse[%zu] is %.9g, not %.9g", cut->name, n, (double)lse[n],
                  (double)whole_lse[n]);
}

DeviceTest(merge, parts_of_the_keys_become_the_whole)
{
    for (size_t n = 0; n < sizeof cuts / sizeof *cuts; n++)
        for (int sight = 0; sight < NUM_SIGHTS; sight++)
            check_cut(f, &cuts[n], (enum sight)sight);
}
