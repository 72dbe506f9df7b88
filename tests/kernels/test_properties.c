/* SPDX-License-Identifier: Apache-2.0 */
/* Properties that hold for every family whatever the numbers are. The reference is not used. */
#include "tests/support/families.h"
#include "tests/support/storage.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(properties, .timeout = 600);

/* A property has one family in eight in a run. */
#define FOR_EACH_FAMILY(name) FAMILY_TEST(properties, name, CLATTN_FORWARD, family_takes_f32, 8)

/* In each run the programs of one family are optimised, which takes three times as long to compile. */
static void open(struct fixture *f, const size_t family)
{
    mostly_unoptimised(family, 8);
    fixture_open(f);
}

static struct trial make(const size_t family, const char *problem)
{
    struct trial t = {.problem = fixture_problem(problem),
                      .family = clattn_family_name(CLATTN_FORWARD, family),
                      .seed = 11};

    trial_fill(&t);
    return t;
}

static unsigned char *first(const struct trial *t, const enum tensor_id id)
{
    return (unsigned char *)trial_sent(t).at[id];
}

static struct trial make_plain(const size_t family, const char *problem)
{
    struct trial t = make(family, problem);

    for (int id = TENSOR_Q; id <= TENSOR_V; id++)
        trial_set_ordinary(&t, (enum tensor_id)id, 23 + (uint64_t)id);
    return t;
}

static unsigned char *copy_of(const struct trial *t, const enum tensor_id id)
{
    unsigned char *copy = malloc(t->tensor[id].num_bytes);

    cr_assert(copy != NULL);
    memcpy(copy, t->tensor[id].got, t->tensor[id].num_bytes);
    return copy;
}

/* ---- storage -------------------------------------------------------------------------------- */

/* Gives b's tensor the values of a's, whatever dtypes they are stored in. */
static void give_values(const struct trial *a, const struct trial *b, const enum tensor_id id)
{
    const struct tensor_shape *s = &a->tensor[id].shape;

    for (size_t n = 0; n < s->size[0]; n++)
        for (size_t h = 0; h < s->size[1]; h++)
            for (size_t i = 0; i < s->size[2]; i++)
                for (size_t d = 0; d < s->size[3]; d++)
                    trial_set(b, id, n, h, i, d,
                              value_get(s->dtype, first(a, id), tensor_index(s, n, h, i, d)));
}

/* Arithmetic is f32 whatever the dtypes are: k, v and o of others beside q give what their values in f32
 * do. Families that read f32 where it lies, and copies of the others, need not sum in one order. Matrix instructions
 * take two operands of one dtype. */
FOR_EACH_FAMILY(mixed_storage)
{
    if (strcmp(clattn_family_name(CLATTN_FORWARD, *family), "fused_gpu UNIT=mma") == 0)
        return;
    struct trial mixed = make_plain(*family, "fwd bf16 b2 h4/2 q9 k37 d20/9 kcache=f16 vcache=f32 "
                                             "odtype=f32 klen lse");
    struct trial plain = make_plain(*family, "fwd f32 b2 h4/2 q9 k37 d20/9 klen lse");
    struct fixture f;

    open(&f, *family);
    for (int id = TENSOR_Q; id <= TENSOR_V; id++)
        give_values(&mixed, &plain, (enum tensor_id)id);
    memcpy(plain.tensor[TENSOR_KV_LENGTHS].bytes + 4 * plain.tensor[TENSOR_KV_LENGTHS].offset,
           first(&mixed, TENSOR_KV_LENGTHS), 2 * sizeof(cl_int));
    trial_run(&f, &mixed);
    trial_check(&mixed);
    trial_run(&f, &plain);
    for (size_t b = 0; b < 2; b++)
        for (size_t h = 0; h < 4; h++)
            for (size_t i = 0; i < 9; i++) {
                const double lse = trial_value(&plain, TENSOR_LSE, b, h, 0, i);
                cr_assert(fabs(trial_value(&mixed, TENSOR_LSE, b, h, 0, i) - lse) <= 2e-6);
                for (size_t d = 0; d < 9; d++) {
                    const double want = trial_value(&plain, TENSOR_O, b, h, i, d);
                    const double o = trial_value(&mixed, TENSOR_O, b, h, i, d);
                    cr_assert(fabs(o - want) <= 2e-6, "%.9g, not %.9g", o, want);
                }
            }
    trial_free(&plain);
    trial_free(&mixed);
    fixture_close(&f);
}

/* ---- averages ------------------------------------------------------------------------------- */

/* A weighted mean of equal values is that value. */
FOR_EACH_FAMILY(constant_v)
{
    struct trial t = make_plain(*family, "fwd f32 b2 h3 q37 k70 d20/9 causal=br");
    struct fixture f;

    open(&f, *family);
    for (size_t b = 0; b < 2; b++)
        for (size_t h = 0; h < 3; h++)
            for (size_t j = 0; j < 70; j++)
                for (size_t d = 0; d < 9; d++)
                    trial_set(&t, TENSOR_V, b, h, j, d, 3.25 + (double)d);
    trial_run(&f, &t);
    for (size_t b = 0; b < 2; b++)
        for (size_t h = 0; h < 3; h++)
            for (size_t i = 0; i < 37; i++)
                for (size_t d = 0; d < 9; d++) {
                    const double o = trial_value(&t, TENSOR_O, b, h, i, d), want = 3.25 + (double)d;
                    cr_assert(fabs(o - want) <= 70 * 0x1p-24 * want, "%.9g, not %.9g", o, want);
                }
    trial_free(&t);
    fixture_close(&f);
}

/* With one visible key the weight is exactly 1: the last row of V comes through bit by bit. */
FOR_EACH_FAMILY(one_visible_key)
{
    struct trial t = make_plain(*family, "fwd bf16 h2 q33 k65 d16 window=0,0");
    struct fixture f;

    open(&f, *family);
    trial_run(&f, &t);
    const struct tensor_shape *v = &t.tensor[TENSOR_V].shape;
    for (size_t h = 0; h < 2; h++)
        for (size_t i = 0; i < 33; i++)
            for (size_t d = 0; d < 16; d++)
                cr_assert(trial_value(&t, TENSOR_O, 0, h, i, d) ==
                              value_get(v->dtype, first(&t, TENSOR_V), tensor_index(v, 0, h, i, d)),
                          "query %zu", i);
    trial_free(&t);
    fixture_close(&f);
}

/* The order of the keys only changes roundings; the reference bounds both. */
FOR_EACH_FAMILY(permuted_keys)
{
    enum { KEYS = 130, DIM = 24 };
    struct trial t = make_plain(*family, "fwd f32 q35 k130 d24 lse");
    struct fixture f;
    double o[35][DIM], lse[35];

    open(&f, *family);
    trial_run(&f, &t);
    for (size_t i = 0; i < 35; i++) {
        lse[i] = trial_value(&t, TENSOR_LSE, 0, 0, 0, i);
        for (size_t d = 0; d < DIM; d++)
            o[i][d] = trial_value(&t, TENSOR_O, 0, 0, i, d);
    }
    for (int id = TENSOR_K; id <= TENSOR_V; id++) { /* reversed: j <-> 129 - j */
        float *rows = (float *)(void *)first(&t, (enum tensor_id)id);
        for (size_t j = 0; j < KEYS / 2; j++)
            for (size_t d = 0; d < DIM; d++) {
                const float kept = rows[j * DIM + d];
                rows[j * DIM + d] = rows[(KEYS - 1 - j) * DIM + d];
                rows[(KEYS - 1 - j) * DIM + d] = kept;
            }
    }
    trial_run(&f, &t);
    for (size_t i = 0; i < 35; i++) {
        cr_assert(fabs(trial_value(&t, TENSOR_LSE, 0, 0, 0, i) - lse[i]) <= 1e-5);
        for (size_t d = 0; d < DIM; d++)
            cr_assert(fabs(trial_value(&t, TENSOR_O, 0, 0, i, d) - o[i][d]) <= 1e-5);
    }
    trial_free(&t);
    fixture_close(&f);
}

/* A constant added to a row of scores moves lse by as much and leaves o where it was. */
FOR_EACH_FAMILY(constant_bias)
{
    struct trial t = make_plain(*family, "fwd f32 h2 q19 k50 d32 bias=f32:0.0.1.0 lse");
    struct fixture f;
    double o[2][19][32], lse[2][19];

    open(&f, *family);
    for (int run = 0; run < 2; run++) {
        for (size_t i = 0; i < 19; i++)
            trial_set(&t, TENSOR_BIAS, 0, 0, i, 0, run ? (double)i - 7 : 0.0);
        trial_run(&f, &t);
        for (size_t h = 0; h < 2; h++)
            for (size_t i = 0; i < 19; i++) {
                const double sum = trial_value(&t, TENSOR_LSE, 0, h, 0, i), c = (double)i - 7;
                cr_assert(!run || fabs(sum - c - lse[h][i]) <= 1e-5, "lse %g", sum);
                lse[h][i] = sum;
                for (size_t d = 0; d < 32; d++) {
                    cr_assert(!run ||
                              fabs(trial_value(&t, TENSOR_O, 0, h, i, d) - o[h][i][d]) <= 1e-5);
                    o[h][i][d] = trial_value(&t, TENSOR_O, 0, h, i, d);
                }
            }
    }
    trial_free(&t);
    fixture_close(&f);
}

/* Two halves of the keys, merged by their lse, are the whole. */
FOR_EACH_FAMILY(merge_of_split_keys)
{
    const cl_int cut = 41;
    struct trial whole = make_plain(*family, "fwd f32 q21 k100 d16 lse");
    struct trial part = make_plain(*family, "fwd f32 q21 k100 d16 klen lse");
    struct fixture f;
    double o[21][16], lse[21];

    open(&f, *family);
    memcpy(first(&part, TENSOR_KV_LENGTHS), &cut, sizeof cut);
    trial_run(&f, &whole);
    trial_run(&f, &part);
    for (size_t i = 0; i < 21; i++) {
        lse[i] = trial_value(&part, TENSOR_LSE, 0, 0, 0, i);
        for (size_t d = 0; d < 16; d++)
            o[i][d] = trial_value(&part, TENSOR_O, 0, 0, i, d);
    }
    const cl_int rest = 100 - cut;
    memcpy(first(&part, TENSOR_KV_LENGTHS), &rest, sizeof rest);
    for (int id = TENSOR_K; id <= TENSOR_V; id++)
        memmove(first(&part, (enum tensor_id)id), first(&part, (enum tensor_id)id) + cut * 16 * 4,
                (size_t)rest * 16 * 4);
    trial_run(&f, &part);
    for (size_t i = 0; i < 21; i++) {
        const double other = trial_value(&part, TENSOR_LSE, 0, 0, 0, i), most = fmax(lse[i], other);
        const double a = exp(lse[i] - most), b = exp(other - most);
        cr_assert(fabs(most + log(a + b) - trial_value(&whole, TENSOR_LSE, 0, 0, 0, i)) <= 1e-5);
        for (size_t d = 0; d < 16; d++) {
            const double merged =
                (a * o[i][d] + b * trial_value(&part, TENSOR_O, 0, 0, i, d)) / (a + b);
            cr_assert(fabs(merged - trial_value(&whole, TENSOR_O, 0, 0, i, d)) <= 1e-5);
        }
    }
    trial_free(&part);
    trial_free(&whole);
    fixture_close(&f);
}

/* ---- what is hidden ------------------------------------------------------------------------- */

/* Each problem hides keys 40 and up from the queries below 8 (or from all). */
static const char *const hiding[] = {
    "fwd f32 h2 q20 k70 d16 causal=32",
    "fwd f32 h2 q20 k70 d16 causal=32 softcap=3",
    "fwd f32 h2 q20 k70 d16 window=*,32",
    "fwd f32 h2 q20 k70 d16 klen",
    "fwd f32 h2 q20 k70 d16 mask=qk",
    "fwd f32 h2 q20 k70 d16 bias=f32:qk",
    "fwd f16 h2 q20 k70 d16 mask=qk",
    "fwd bf16 h2 q20 k70 d16 causal=32 alibi sinks",
    "fwd f32 h2 q20 k70 d16 bias=f16:qk softcap=3",
};

static void hide(const struct trial *t)
{
    const cl_int length = 40;

    if (t->problem.kv_lengths)
        memcpy(first(t, TENSOR_KV_LENGTHS), &length, sizeof length);
    for (size_t i = 0; i < 20; i++)
        for (size_t j = 0; j < 70; j++) {
            if (t->problem.mask)
                first(t, TENSOR_MASK)[i * 70 + j] = j < 40 || i >= 8;
            if (t->problem.bias)
                trial_set(t, TENSOR_BIAS, 0, 0, i, j, j < 40 || i >= 8 ? 0.25 : -INFINITY);
        }
}

/* Queries that cannot see a key give the same bits whatever it holds. A run takes every third way to
 * hide: each is a program. */
FOR_EACH_FAMILY(hidden_keys_change_nothing)
{
    const double poison[] = {NAN, INFINITY, -INFINITY, 1e30};
    struct fixture f;

    open(&f, *family);
    for (size_t c = run_seed() % 3; c < sizeof hiding / sizeof *hiding; c += 3) {
        struct trial t = make_plain(*family, hiding[c]);
        hide(&t);
        trial_run(&f, &t);
        unsigned char *before = copy_of(&t, TENSOR_O);
        for (size_t n = 0; n < sizeof poison / sizeof *poison; n++)
            for (int id = TENSOR_K; id <= TENSOR_V; id++) {
                struct trial p = make_plain(*family, hiding[c]);
                const size_t row = 16 * p.tensor[TENSOR_O].shape.element_bytes;
                hide(&p);
                for (size_t h = 0; h < 2; h++)
                    for (size_t d = 0; d < 16; d++)
                        trial_set(&p, (enum tensor_id)id, 0, h, 45 + d, d, poison[n]);
                trial_run(&f, &p);
                const unsigned char *now = p.tensor[TENSOR_O].got;
                const size_t start = p.tensor[TENSOR_O].offset * row / 16;
                for (size_t h = 0; h < 2; h++)
                    cr_assert(memcmp(now + start + h * 20 * row, before + start + h * 20 * row,
                                     8 * row) == 0,
                              "%g in %s shows through '%s'", poison[n], id == TENSOR_K ? "k" : "v",
                              hiding[c]);
                trial_free(&p);
            }
        free(before);
        trial_free(&t);
    }
    fixture_close(&f);
}

/* ---- what is visible ------------------------------------------------------------------------ */

/* A NaN in q spoils its query, in k all queries, in v its column; a huge -score is no NaN. */
FOR_EACH_FAMILY(visible_nan_reaches_the_output)
{
    static const char *const problems[] = {
        "fwd f32 q20 k70 d16 lse",
        "fwd f32 q20 k70 d16 softcap=2 mask=k lse", /* which hides nothing */
        "fwd f16 q20 k70 d16 alibi lse",
        "fwd bf16 q20 k70 d16 sinks klen lse",
    };
    struct fixture f;

    open(&f, *family);
    for (size_t c = 0; c < sizeof problems / sizeof *problems; c++)
        for (int id = TENSOR_Q; id <= TENSOR_V; id++) {
            struct trial t = make_plain(*family, problems[c]);
            const cl_int all = 70;
            if (t.problem.kv_lengths)
                memcpy(first(&t, TENSOR_KV_LENGTHS), &all, sizeof all);
            if (t.problem.mask)
                memset(first(&t, TENSOR_MASK), 1, 70);
            trial_set(&t, (enum tensor_id)id, 0, 0, 13, 5, NAN);
            trial_run(&f, &t);
            trial_check(&t);
            for (size_t i = 0; i < 20; i++) {
                const int row = id == TENSOR_K || (id == TENSOR_Q && i == 13);
                cr_assert((isnan(trial_value(&t, TENSOR_LSE, 0, 0, 0, i)) != 0) == row);
                for (size_t d = 0; d < 16; d++)
                    cr_assert((isnan(trial_value(&t, TENSOR_O, 0, 0, i, d)) != 0) ==
                              (row || (id == TENSOR_V && d == 5)));
            }
            trial_free(&t);
        }
    fixture_close(&f);
}

/* A score of +inf gives NaN, like the formula; one of -inf has weight 0 and its finite V is not
 * felt; a row of only those gives 0. An infinite V comes through. */
FOR_EACH_FAMILY(visible_infinities)
{
    struct trial t = make_plain(*family, "fwd f32 q3 k40 d1/4 scale=1 lse");
    struct fixture f;

    open(&f, *family);
    trial_set(&t, TENSOR_Q, 0, 0, 0, 0, 1);
    trial_set(&t, TENSOR_Q, 0, 0, 1, 0, -1);
    trial_set(&t, TENSOR_Q, 0, 0, 2, 0, 0.5);
    trial_set(&t, TENSOR_K, 0, 0, 7, 0, -INFINITY);
    trial_set(&t, TENSOR_V, 0, 0, 20, 3, INFINITY);
    trial_run(&f, &t);
    trial_check(&t);
    cr_assert(isnan(trial_value(&t, TENSOR_O, 0, 0, 1, 0)) &&
              isnan(trial_value(&t, TENSOR_LSE, 0, 0, 0, 1)));
    cr_assert(isfinite(trial_value(&t, TENSOR_O, 0, 0, 0, 0)) &&
              isfinite(trial_value(&t, TENSOR_LSE, 0, 0, 0, 0)));
    cr_assert(trial_value(&t, TENSOR_O, 0, 0, 0, 3) == INFINITY);
    trial_set_ordinary(&t, TENSOR_V, 1);
    for (size_t j = 0; j < 40; j++)
        trial_set(&t, TENSOR_K, 0, 0, j, 0, -INFINITY);
    trial_run(&f, &t);
    for (size_t d = 0; d < 4; d++)
        cr_assert(trial_value(&t, TENSOR_O, 0, 0, 0, d) == 0.0, "%g",
                  trial_value(&t, TENSOR_O, 0, 0, 0, d));
    cr_assert(trial_value(&t, TENSOR_LSE, 0, 0, 0, 0) == -INFINITY);
    trial_free(&t);
    fixture_close(&f);
}

/* ---- extremes ------------------------------------------------------------------------------- */

/* Scores of several hundreds: exp() of a difference underflows, never overflows. */
FOR_EACH_FAMILY(large_scores)
{
    struct trial t = make_plain(*family, "fwd f32 h2 q33 k97 d64 scale=4 lse");
    struct fixture f;

    open(&f, *family);
    trial_run(&f, &t);
    trial_check(&t);
    trial_free(&t);
    fixture_close(&f);
}

/* A sink beside which all weights vanish: no difference to it overflows, and rows that see keys are
 * no rows of hidden ones. */
FOR_EACH_FAMILY(a_sink_far_above_all_scores)
{
    struct trial t = make_plain(*family, "fwd f32 h3 q9 k33 d16 sinks lse");
    struct fixture f;

    open(&f, *family);
    for (size_t h = 0; h < 3; h++)
        trial_set(&t, TENSOR_SINKS, 0, 0, 0, h, h == 0 ? 95 : h == 1 ? 300 : -300);
    trial_run(&f, &t);
    trial_check(&t);
    trial_free(&t);
    fixture_close(&f);
}

/* ALiBi's distance, of which softmax shows nothing where it is off by the same for all keys: lse and
 * sinks do. */
FOR_EACH_FAMILY(alibi_counts_from_the_diagonal)
{
    static const char *const problems[] = {
        "fwd f32 b2 h2 q20 k37 d16 alibi sinks lse diagonal=br",
        "fwd f32 b2 h2 q20 k37 d16 alibi sinks lse diagonal=-9",
        "fwd f32 b3 h2 q20 k37 d16 alibi sinks lse causal=br klen qlen",
        "fwd f32 b2 h2 q20 k37 d16 alibi symmetric sinks lse diagonal=9",
    };
    struct fixture f;

    open(&f, *family);
    for (size_t c = 0; c < sizeof problems / sizeof *problems; c++) {
        struct trial t = make(*family, problems[c]);
        trial_run(&f, &t);
        trial_check(&t);
        trial_free(&t);
    }
    fixture_close(&f);
}

/* Nothing to compute, or no key to see, with every result asked for. */
FOR_EACH_FAMILY(empty_sizes)
{
    static const char *const problems[] = {
        "fwd f32 b0 q3 k4 d8 lse",
        "fwd f32 b2 q0 k4 d8 lse",
        "fwd f32 b2 h2 q3 k0 d8 lse",
        "fwd f16 b2 h2 q3 k0 d8 sinks lse",
        "fwd f32 b0 q0 k0 d8 lse",
        "fwd f32 q3 k0 d5 bias=f32:qk mask=bhqk klen qlen lse",
        "fwd f32 q3 k5 d5 causal=-9 sinks lse",
    };
    struct fixture f;

    open(&f, *family);
    for (size_t c = 0; c < sizeof problems / sizeof *problems; c++) {
        struct trial t = {.problem = fixture_problem(problems[c]),
                          .family = clattn_family_name(CLATTN_FORWARD, *family),
                          .seed = 5};
        trial_pass(&f, &t);
    }
    fixture_close(&f);
}
