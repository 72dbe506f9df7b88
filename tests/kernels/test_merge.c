/* SPDX-License-Identifier: Apache-2.0 */
/* Merges: each element against double precision, what is exact to the bit, and the whole attention. */
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/merge_trial.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(merge, .timeout = 120, .init = unoptimised);

static struct merge_trial fill(const char *text, uint64_t seed, double spread, size_t empty)
{
    const clattn_problem p = fixture_problem(text);
    struct rng r = rng_seed(seed);
    struct merge_trial t;

    cr_assert(merge_trial_fill(&t, &p, &r, spread, empty), "out of memory");
    return t;
}

static void run(struct fixture *f, struct merge_trial *t, const char *tunables)
{
    const clattn_plan_options options = {
        .struct_size = sizeof options, .family = "merge_rows", .tunables = tunables};

    cr_assert(merge_trial_run(t, f->context, tunables ? &options : NULL) == CLATTN_SUCCESS, "%s",
              f->log.last);
}

/* Each element of random problems, in each dtype, with rows' ends of every kind; a tenth in each run. */
static const char *const bases[] = {
    "merge f32 q1 d8 n2",       "merge f32 q1 d8 n2 accumulate",
    "merge f16 q1 d8 n2",       "merge f16 q1 d8 n2 accumulate",
    "merge bf16 q1 d8 n2",      "merge bf16 q1 d8 n2 accumulate",
    "merge f32 q1 d8 n2 sinks", "merge f16 q1 d8 n2 sinks accumulate"};

ParameterizedTestParameters(merge, random) {
    static size_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};

    return cr_make_param_array(size_t, numbers, sizeof numbers / sizeof *numbers);
}

ParameterizedTest(size_t *number, merge, random) {
    const clattn_problem base = fixture_problem(bases[*number]);
    struct rng r = rng_seed(*number);
    struct fixture f;

    fixture_open(&f);
    for (int n = 0; n < 40; n++) {
        const clattn_problem p = merge_trial_draw(&r, &base);
        if (!run_takes((uint64_t)n, 10))
            continue;
        const double spread = (double[]){1.0, 10.0, 500.0}[n % 3];
        struct merge_trial t;
        char problem[256] = "";
        clattn_problem_print(&p, problem, sizeof problem, NULL);
        cr_assert(merge_trial_fill(&t, &p, &r, spread, n % 2 ? 3 : 0));
        run(&f, &t, n % 4 ? NULL : "SIMD_WIDTH=4 ITEM_VECTORS=2 ITEM_ROWS=4");
        cr_expect(merge_trial_compare(&t) == 0, "%s: %zu numbers are wrong", problem,
                  merge_trial_compare(&t));
        merge_trial_free(&t);
    }
    fixture_close(&f);
}

/* As on GPUs: items that share a row, of which the last may have no columns. */
DeviceTest(merge, items_that_share_a_row)
{
    static const char *const problems[] = {
        "merge f32 b2 h3 q5 d70 n5 accumulate", "merge f16 b1 h3 q7 d128 n2 parts=bshd",
        "merge bf16 h2 q3 d9 n9 sinks", "merge f32 h2 q3 d33 n4 parts=1000.200.66.2 accumulate"};

    fixture_need_groups(f);
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct merge_trial t = fill(problems[n], n + 1, 3.0, 4);
        run(f, &t, "SIMD_WIDTH=4 ITEM_VECTORS=1 ROW_ITEMS=8 GROUP_ROWS=4 ITEM_ROWS=1");
        cr_expect(merge_trial_compare(&t) == 0, "%s: %zu numbers are wrong", problems[n],
                  merge_trial_compare(&t));
        merge_trial_free(&t);
    }
}

/* ---- states that are special ---------------------------------------------------------------- */

/* Gives each row of a state this lse. */
static void set_lse(struct merge_trial *t, size_t s, float lse)
{
    for (size_t row = 0; row < t->rows; row++)
        *(s == t->problem.merge.states ? &t->lse[row] : &t->parts_lse[s * t->rows + row]) = lse;
}

/* The only state that is not empty, or beside which the others vanish, is handed out to the bit, and
 * what an empty one holds is not looked at. */
DeviceTest(merge, a_single_state_stays_as_it_is)
{
    static const float others[] = {-INFINITY, -300.0f};
    static const char *const dtypes[] = {"f32", "f16", "bf16"};

    for (int n = 0; n < 6; n++) {
        char text[64];
        snprintf(text, sizeof text, "merge %s h2 q3 d37 n5", dtypes[n / 2]);
        struct merge_trial t = fill(text, 11, 2.0, 0);
        const size_t bytes = t.o_extent * (n / 2 ? 2 : 4);
        for (size_t s = 0; s < 5; s++)
            if (s != 3)
                set_lse(&t, s, others[n % 2]);
        if (n % 2 == 0)
            memset(t.parts, 0xff, bytes);
        run(f, &t, NULL);
        cr_expect(memcmp(t.o, t.parts + 3 * bytes, bytes) == 0, "%s", text);
        cr_expect(memcmp(t.lse, t.parts_lse + 3 * t.rows, t.rows * sizeof(float)) == 0, "%s", text);
        merge_trial_free(&t);
    }
}

/* In place: an empty state leaves the other as it is, whichever it is. */
DeviceTest(merge, in_place_with_an_empty_state)
{
    for (int n = 0; n < 2; n++) {
        struct merge_trial t = fill("merge f32 h2 q3 d37 n1 accumulate", 12, 2.0, 0);
        set_lse(&t, n ? 0 : 1, -INFINITY);
        memset(n ? t.parts : t.o, 0xff, t.o_extent * sizeof(float));
        run(f, &t, NULL);
        cr_expect(memcmp(t.o, n ? t.before : t.parts, t.o_extent * sizeof(float)) == 0);
        cr_expect(memcmp(t.lse, n ? t.lse_before : t.parts_lse, t.rows * sizeof(float)) == 0);
        merge_trial_free(&t);
    }
}

DeviceTest(merge, only_empty_states_stay_empty)
{
    static const char *const problems[] = {
        "merge f32 h2 q3 d5 n1 accumulate", "merge f16 h2 q3 d5 n4", "merge f32 h2 q3 d5 n0",
        "merge f32 h2 q3 d5 n2 sinks", "merge bf16 h2 q3 d5 n0 accumulate"};

    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct merge_trial t = fill(problems[n], 13, 2.0, 1);
        run(f, &t, NULL);
        cr_expect(merge_trial_compare(&t) == 0, "%s", problems[n]);
        for (size_t row = 0; row < t.rows; row++)
            cr_expect(t.lse[row] == -INFINITY, "%s: lse %zu is %g", problems[n], row,
                      (double)t.lse[row]);
        merge_trial_free(&t);
    }
}

/* NaN shows in its row and nowhere else; +inf outweighs what is finite. */
DeviceTest(merge, nan_and_infinity)
{
    struct merge_trial t = fill("merge f32 h1 q4 d9 n3", 14, 2.0, 0);

    t.parts_lse[1 * 4 + 0] = NAN;
    t.parts_lse[2 * 4 + 1] = INFINITY;
    merge_trial_set(&t, 0, 0, 0, 2, 5, NAN);
    run(f, &t, NULL);
    cr_expect(merge_trial_compare(&t) == 0);
    for (size_t d = 0; d < 9; d++) {
        const float *o = (const float *)(void *)t.o;
        cr_expect(isnan(o[d]));
        cr_expect(o[9 + d] == ((const float *)(void *)t.parts)[2 * 36 + 9 + d]);
        cr_expect(isnan(o[18 + d]) == (d == 5));
        cr_expect(!isnan(o[27 + d]));
    }
    cr_expect(isnan(t.lse[0]) && t.lse[1] == INFINITY && isfinite(t.lse[2]));
    merge_trial_free(&t);
}

/* A sink shares with states that are not empty; one of -inf changes no bit, a NaN shows in its head alone. */
DeviceTest(merge, special_sinks)
{
    struct merge_trial t = fill("merge f32 h4 q3 d9 n2 sinks", 15, 2.0, 0);
    struct merge_trial without = fill("merge f32 h4 q3 d9 n2", 15, 2.0, 0);

    t.sinks[0] = -INFINITY;
    t.sinks[1] = NAN;
    t.sinks[2] = INFINITY;
    for (size_t h = 0; h < 4; h++) /* the last query of each head sees nothing */
        t.parts_lse[h * 3 + 2] = t.parts_lse[(4 + h) * 3 + 2] = -INFINITY;
    run(f, &t, NULL);
    run(f, &without, NULL);
    cr_expect(merge_trial_compare(&t) == 0);
    cr_expect(memcmp(t.o, without.o, 2 * 9 * sizeof(float)) == 0);
    cr_expect(memcmp(t.lse, without.lse, 2 * sizeof(float)) == 0);
    cr_expect(isnan(t.lse[3]) && t.lse[6] == INFINITY && isfinite(t.lse[9]));
    for (size_t h = 0; h < 4; h++)
        cr_expect(t.lse[h * 3 + 2] == -INFINITY);
    merge_trial_free(&t);
    merge_trial_free(&without);
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
