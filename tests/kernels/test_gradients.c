/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of gradients that hold for every family: exact zeros, the smallest sizes, sums and
 * symmetries. Random problems are the sweep's. */
#include "tests/support/families.h"
#include "tests/support/storage.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include "tests/trials/trial_data.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(gradients, .timeout = 300);

/* A test has every other family in a run. */
#define FOR_EACH_FAMILY(name) FAMILY_TEST(gradients, name, CLATTN_BACKWARD, family_takes_f32, 4)

/* In each run the programs of one family are optimised, which takes three times as long to compile. */
static void open(struct fixture *f, const size_t family)
{
    mostly_unoptimised(family, 8);
    fixture_open(f);
}

static struct trial make(const size_t family, const char *problem, const uint64_t seed)
{
    struct trial t = {.problem = fixture_problem(problem),
                      .family = clattn_family_name(CLATTN_BACKWARD, family),
                      .seed = seed};

    trial_fill(&t);
    return t;
}

/* No NaN anywhere in q, k, v, do and bias. */
static struct trial make_plain(const size_t family, const char *problem)
{
    static const enum tensor_id ids[] = {TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_DO, TENSOR_BIAS};
    struct trial t = make(family, problem, 29);

    for (size_t n = 0; n < sizeof ids / sizeof *ids; n++)
        if (t.tensor[ids[n]].shape.present)
            trial_set_ordinary(&t, ids[n], 31 + n);
    trial_data_fill_results(&t);
    return t;
}

/* Runs and compares with the reference. */
static void run(struct fixture *f, struct trial *t)
{
    trial_run(f, t);
    trial_check(t);
}

static void near(const double got, const double want, const char *what)
{
    cr_assert(fabs(got - want) <= 2e-5 * (1 + fabs(want)), "%s: %.9g, not %.9g", what, got, want);
}

/* ---- what is hidden ------------------------------------------------------------------------- */

/* Returns whether rows first to end - 1 of a result of one batch hold nothing but 0. */
static int all_zero(const struct trial *t, const enum tensor_id id, const size_t first,
                    const size_t end)
{
    const size_t *size = t->tensor[id].shape.size;

    for (size_t h = 0; h < size[1]; h++)
        for (size_t i = first; i < end; i++)
            for (size_t d = 0; d < size[3]; d++)
                if (trial_value(t, id, 0, h, i, d) != 0.0)
                    return 0;
    return 1;
}

/* Queries that see nothing and keys that nobody sees have gradients of exactly 0, whatever lies
 * there and in do. */
FOR_EACH_FAMILY(zeros_where_nothing_is_seen)
{
    static const struct {
        const char *problem;
        size_t first_row, end_row, first_key, end_key; /* that are hidden */
    } cases[] = {
        {"bwd f32 h2 q40 k70 d24 causal=-9", 0, 9, 31, 70},
        {"bwd f32 h2 q40 k70 d24 causal=-45", 0, 40, 0, 70},
        {"bwd f32 h2 q40 k70 d24 window=3,* diagonal=40", 33, 40, 0, 37},
        {"bwd f32 h2 q40 k70 d24 window=3,* diagonal=90", 0, 40, 0, 70},
    };
    struct fixture f;

    open(&f, *family);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            struct trial t = make(*family, cases[c].problem, seed);
            run(&f, &t);
            cr_assert(all_zero(&t, TENSOR_DQ, cases[c].first_row, cases[c].end_row), "'%s'",
                      cases[c].problem);
            cr_assert(all_zero(&t, TENSOR_DK, cases[c].first_key, cases[c].end_key), "'%s'",
                      cases[c].problem);
            cr_assert(all_zero(&t, TENSOR_DV, cases[c].first_key, cases[c].end_key), "'%s'",
                      cases[c].problem);
            trial_free(&t);
        }
    fixture_close(&f);
}

/* Where all keys that a query sees have scores of -Inf, lse is -Inf. The query's gradients are
 * exactly 0 then, not the NaN of -Inf + Inf. One case is a bias, which hides them as a mask
 * does. The other is slopes of Inf with the diagonal hidden, whose scores are computed. */
FOR_EACH_FAMILY(zeros_where_all_scores_are_minus_infinity)
{
    static const size_t rows[] = {0, 17, 39};
    struct trial t =
        make_plain(*family, "bwd f32 h2 q40 k70 d24 causal=tl mask=qk bias=f32:hqk alibi dbias");
    const struct host_tensor *mask = &t.tensor[TENSOR_MASK];
    struct fixture f;

    open(&f, *family);
    trial_set(&t, TENSOR_SLOPES, 0, 0, 0, 0, INFINITY);
    trial_set(&t, TENSOR_SLOPES, 0, 1, 0, 0, 0.5);
    for (size_t i = 0; i < 40; i++)
        for (size_t j = 0; j < 70; j++)
            mask->bytes[mask->offset + tensor_index(&mask->shape, 0, 0, i, j)] = i != j;
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        for (size_t j = 0; j <= rows[n]; j++)
            trial_set(&t, TENSOR_BIAS, 0, 1, rows[n], j, -INFINITY);
    trial_data_fill_results(&t);
    run(&f, &t);
    for (size_t d = 0; d < 24; d++) {
        for (size_t i = 0; i < 40; i++)
            cr_assert(trial_value(&t, TENSOR_DQ, 0, 0, i, d) == 0.0, "dq of row %zu", i);
        for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
            cr_assert(trial_value(&t, TENSOR_DQ, 0, 1, rows[n], d) == 0.0, "of row %zu", rows[n]);
    }
    trial_free(&t);
    fixture_close(&f);
}

/* Rows of q, k, v and do that no pair uses may hold anything: the results are the same bits. */
FOR_EACH_FAMILY(hidden_values_change_nothing)
{
    static const double poison[] = {0, NAN, INFINITY, -INFINITY, 1e30};
    struct trial t = make_plain(*family, "bwd f32 h2 q40 k70 d24 causal=-9");
    unsigned char *before[NUM_TENSORS] = {NULL};
    struct fixture f;

    open(&f, *family);
    for (size_t n = 0; n < sizeof poison / sizeof *poison; n++) {
        for (size_t e = 0; e < 2 * 24; e++) {
            for (size_t i = 0; i < 9; i++) {
                trial_set(&t, TENSOR_Q, 0, e / 24, i, e % 24, poison[n]);
                trial_set(&t, TENSOR_DO, 0, e / 24, i, e % 24, poison[n]);
            }
            for (size_t j = 31; j < 70; j++) {
                trial_set(&t, TENSOR_K, 0, e / 24, j, e % 24, poison[n]);
                trial_set(&t, TENSOR_V, 0, e / 24, j, e % 24, poison[n]);
            }
        }
        run(&f, &t);
        for (int id = TENSOR_DQ; id < NUM_TENSORS; id++) {
            struct host_tensor *x = &t.tensor[id];
            if (!x->bytes)
                continue;
            cr_assert(n == 0 || memcmp(before[id], x->got, x->num_bytes) == 0,
                      "%g shows through in %s", poison[n], x->shape.name);
            free(before[id]);
            before[id] = x->got;
            x->got = NULL;
        }
    }
    for (int id = 0; id < NUM_TENSORS; id++)
        free(before[id]);
    trial_free(&t);
    fixture_close(&f);
}

/* A NaN in q spoils the gradients of its query and of all keys that it sees, and no others. */
FOR_EACH_FAMILY(visible_nan_reaches_what_it_must)
{
    struct trial t = make_plain(*family, "bwd f32 h2 q40 k70 d24 causal=-9");
    struct fixture f;

    open(&f, *family);
    trial_set(&t, TENSOR_Q, 0, 1, 20, 7, NAN);
    trial_data_fill_results(&t);
    run(&f, &t);
    for (size_t h = 0; h < 2; h++) {
        for (size_t i = 0; i < 40; i++)
            cr_assert((isnan(trial_value(&t, TENSOR_DQ, 0, h, i, 3)) != 0) == (h == 1 && i == 20));
        for (size_t j = 0; j < 70; j++) {
            const int hit = h == 1 && j <= 20 - 9;
            cr_assert((isnan(trial_value(&t, TENSOR_DK, 0, h, j, 3)) != 0) == hit);
            cr_assert((isnan(trial_value(&t, TENSOR_DV, 0, h, j, 3)) != 0) == hit);
        }
    }
    trial_free(&t);
    fixture_close(&f);
}

/* ---- the smallest sizes --------------------------------------------------------------------- */

/* Nothing to compute, no key to see, one key, one query; every gradient is written. */
FOR_EACH_FAMILY(smallest_sizes)
{
    static const char *const problems[] = {
        "bwd f32 b0 q3 k4 d8 alibi sinks dslopes dsinks",
        "bwd f32 b2 h2 q0 k4 d8 alibi sinks dslopes dsinks",
        "bwd f32 b2 h2 q3 k0 d8 alibi sinks dslopes dsinks",
        "bwd f32 b2 h2 q0 k0 d8 alibi sinks dslopes dsinks",
        "bwd f32 b2 h2 q1 k1 d8 alibi sinks dslopes dsinks",
        "bwd f32 b2 h2 q7 k1 d8 alibi sinks dslopes dsinks",
        "bwd f32 b2 h4/2 q1 k9 d8 alibi sinks dslopes dsinks dlse",
        "bwd f16 b2 h2 q3 k0 d5/1 bias=f32:q mask=bhqk klen qlen dbias",
        "bwd f16 b2 h2 q0 k5 d5/1 bias=f32:k mask=bhqk klen qlen dbias",
        "bwd f32 b2 h2 q0 k50 d8 bias=f32:k dbias",
        "bwd f32 b0 h2 q3 k5 d8 bias=f32:k dbias",
        "bwd f32 b0 h2 q3 k5 d8 bias=f32:0.64.10.2 dbias",
        "bwd f32 b2 h2 q0 k5 d8 bias=f32:0.9.0.2 dbias",
        "bwd f32 b2 h2 q3 k0 d8 bias=bf16:30.0.7.0 dbias alibi sinks dslopes dsinks dlse",
        "bwd f32 b0 q0 k0 d8 bias=f32:0.0.0.0 dbias",
        "bwd f16 b2 h2 q1 k1 d5/1 bias=f32:0.0.0.0 mask=bhqk klen qlen dbias",
        "bwd f16 b2 h2 q4 k1 d5/1 bias=f32:hq mask=bhqk klen qlen dbias",
    };
    struct fixture f;

    open(&f, *family);
    for (size_t c = 0; c < sizeof problems / sizeof *problems; c++)
        for (uint64_t seed = 1; seed <= 3 && run_takes_of(c, sizeof problems / sizeof *problems, 3);
             seed++) {
            struct trial t = make(*family, problems[c], seed);
            run(&f, &t);
            trial_free(&t);
        }
    fixture_close(&f);
}

/* ---- sums ----------------------------------------------------------------------------------- */

/* Makes an input what it is in another problem, for each head that of its group of heads there. */
static void copy_heads(const struct trial *from, const struct trial *to, const enum tensor_id id,
                       const size_t group)
{
    const struct host_tensor *x = &from->tensor[id];
    const size_t *size = to->tensor[id].shape.size;

    for (size_t b = 0; b < size[0]; b++)
        for (size_t h = 0; h < size[1]; h++)
            for (size_t i = 0; i < size[2]; i++)
                for (size_t d = 0; d < size[3]; d++)
                    trial_set(to, id, b, h, i, d,
                              value_get(x->shape.dtype, x->bytes,
                                        x->offset + tensor_index(&x->shape, b, h / group, i, d)));
}

/* A kv head's gradients are the sums over its query heads of what they would be with keys and
 * values of their own. */
FOR_EACH_FAMILY(grouped_heads_are_summed)
{
    struct trial grouped = make_plain(*family, "bwd f32 h6/2 q40 k70 d24 causal=br");
    struct trial own = make_plain(*family, "bwd f32 h6 q40 k70 d24 causal=br");
    struct fixture f;

    open(&f, *family);
    copy_heads(&grouped, &own, TENSOR_Q, 1);
    copy_heads(&grouped, &own, TENSOR_DO, 1);
    copy_heads(&grouped, &own, TENSOR_K, 3);
    copy_heads(&grouped, &own, TENSOR_V, 3);
    trial_data_fill_results(&own);
    trial_run(&f, &grouped);
    trial_run(&f, &own);
    for (int id = TENSOR_DK; id <= TENSOR_DV; id++)
        for (size_t n = 0; n < (size_t)2 * 70 * 24; n++) {
            const size_t h = n / 24 / 70, j = n / 24 % 70, d = n % 24;
            double sum = 0.0;
            for (size_t g = 0; g < 3; g++)
                sum += trial_value(&own, (enum tensor_id)id, 0, 3 * h + g, j, d);
            near(trial_value(&grouped, (enum tensor_id)id, 0, h, j, d), sum, "dk or dv");
        }
    trial_free(&own);
    trial_free(&grouped);
    fixture_close(&f);
}

/* Where the bias broadcasts, its gradient is the sum of those of a bias that does not, over each
 * choice of dimensions. */
FOR_EACH_FAMILY(bias_gradient_is_summed_over_what_broadcasts)
{
    enum { B = 2, H = 3, I = 20, J = 70 };
    struct trial full = make_plain(*family, "bwd f32 b2 h3 q20 k70 d24 bias=f32:bhqk dbias");
    struct fixture f;

    open(&f, *family);
    for (size_t n = 0; n < B * H * I * J; n++)
        trial_set(&full, TENSOR_BIAS, n / J / I / H, n / J / I % H, n / J % I, n % J, 0.5);
    trial_data_fill_results(&full);
    trial_run(&f, &full);
    for (unsigned spans = 0; spans < 16; spans++) { /* bit n: dimension n does not broadcast */
        struct trial t = make_plain(*family, "bwd f32 b2 h3 q20 k70 d24 bias=f32:bhqk dbias");
        const size_t sizes[4] = {B, H, I, J};
        const uint64_t seed = t.seed;
        clattn_problem p = t.problem;
        size_t shape[4];
        double *sums = calloc(B * H * I * J, sizeof *sums);
        cr_assert(sums != NULL);
        for (int n = 0; n < 4; n++)
            shape[n] = spans >> n & 1 ? sizes[n] : 1;
        cr_assert(clattn_layout_broadcast(&p, 4, shape, &p.bias_layout) == CLATTN_SUCCESS);
        trial_free(&t);
        t = (struct trial){.problem = p, .family = full.family, .seed = seed};
        trial_fill(&t);
        for (int id = TENSOR_Q; id <= TENSOR_V; id++)
            copy_heads(&full, &t, (enum tensor_id)id, 1);
        copy_heads(&full, &t, TENSOR_DO, 1);
        copy_heads(&full, &t, TENSOR_BIAS, 1);
        trial_data_fill_results(&t);
        run(&f, &t);
        for (size_t n = 0; n < B * H * I * J; n++) {
            const size_t b = n / J / I / H, h = n / J / I % H, i = n / J % I, j = n % J;
            sums[((b % shape[0] * shape[1] + h % shape[1]) * shape[2] + i % shape[2]) * shape[3] +
                 j % shape[3]] += trial_value(&full, TENSOR_DBIAS, b, h, i, j);
        }
        for (size_t n = 0; n < shape[0] * shape[1] * shape[2] * shape[3]; n++)
            near(trial_value(&t, TENSOR_DBIAS, n / shape[3] / shape[2] / shape[1],
                             n / shape[3] / shape[2] % shape[1], n / shape[3] % shape[2],
                             n % shape[3]),
                 sums[n], "dbias");
        free(sums);
        trial_free(&t);
    }
    trial_free(&full);
    fixture_close(&f);
}

/* ---- what is counted from the diagonal ------------------------------------------------------- */

/* ALiBi counts distances from the diagonal. If all of a row were off by the same number, softmax would hide it, but lse and
 * the gradients of slopes show it. All diagonals that do not depend on lengths share one program. */
FOR_EACH_FAMILY(alibi_counts_from_the_diagonal)
{
    static const char *const problems[] = {
        "bwd f32 b2 h2 q20 k37 d16 alibi dslopes diagonal=br",
        "bwd f32 b2 h2 q20 k37 d16 alibi dslopes diagonal=-9",
        "bwd f32 b2 h2 q20 k37 d16 alibi dslopes diagonal=tl",
        "bwd f32 b3 h2 q20 k37 d16 alibi dslopes causal=br klen qlen",
        "bwd f32 b2 h2 q20 k37 d16 alibi symmetric dslopes diagonal=9",
    };
    struct fixture f;

    open(&f, *family);
    for (size_t c = 0; c < sizeof problems / sizeof *problems; c++) {
        struct trial t = make(*family, problems[c], 3);
        run(&f, &t);
        trial_free(&t);
    }
    fixture_close(&f);
}

/* ---- symmetries ----------------------------------------------------------------------------- */

/* A row's weights always sum to 1: its score gradients sum to 0, and v's gradients to those of
 * o. */
FOR_EACH_FAMILY(weights_sum_to_one)
{
    struct trial t = make_plain(*family, "bwd f32 b2 h3 q20 k70 d24 bias=f32:bhqk dbias");
    struct fixture f;

    open(&f, *family);
    trial_run(&f, &t);
    for (size_t b = 0; b < 2; b++)
        for (size_t h = 0; h < 3; h++) {
            for (size_t i = 0; i < 20; i++) {
                double sum = 0.0;
                for (size_t j = 0; j < 70; j++)
                    sum += trial_value(&t, TENSOR_DBIAS, b, h, i, j);
                near(sum, 0, "sum of a row's ds");
            }
            for (size_t d = 0; d < 24; d++) {
                const struct host_tensor *x = &t.tensor[TENSOR_DO];
                double of_v = 0.0, of_o = 0.0;
                for (size_t j = 0; j < 70; j++)
                    of_v += trial_value(&t, TENSOR_DV, b, h, j, d);
                for (size_t i = 0; i < 20; i++)
                    of_o += value_get(CLATTN_F32, x->bytes,
                                      x->offset + tensor_index(&x->shape, b, h, i, d));
                near(of_v, of_o, "sum of dv");
            }
        }
    trial_free(&t);
    fixture_close(&f);
}

/* If all values are alike, no weight matters. */
FOR_EACH_FAMILY(constant_v)
{
    struct trial t = make_plain(*family, "bwd f32 h2 q40 k70 d24 causal=br");
    struct fixture f;

    open(&f, *family);
    for (size_t n = 0; n < (size_t)2 * 70 * 24; n++)
        trial_set(&t, TENSOR_V, 0, n / 24 / 70, n / 24 % 70, n % 24, 0.25 * (double)(n % 24));
    trial_data_fill_results(&t);
    run(&f, &t);
    for (size_t n = 0; n < (size_t)2 * 40 * 24; n++)
        near(trial_value(&t, TENSOR_DQ, 0, n / 24 / 40, n / 24 % 40, n % 24), 0, "dq");
    for (size_t n = 0; n < (size_t)2 * 70 * 24; n++)
        near(trial_value(&t, TENSOR_DK, 0, n / 24 / 70, n / 24 % 70, n % 24), 0, "dk");
    trial_free(&t);
    fixture_close(&f);
}

/* Gradients are linear in do: twice as much of it gives twice as much, bit by bit. */
FOR_EACH_FAMILY(linear_in_do)
{
    struct trial t = make_plain(*family, "bwd f32 h2 q40 k70 d24 causal=br");
    double *once = calloc((size_t)2 * 70 * 24 * 3, sizeof *once);
    struct fixture f;

    cr_assert(once != NULL);
    open(&f, *family);
    for (int turn = 0; turn < 2; turn++) {
        trial_run(&f, &t);
        for (int id = TENSOR_DQ; id <= TENSOR_DV; id++)
            for (size_t h = 0; h < 2; h++)
                for (size_t i = 0; i < t.tensor[id].shape.size[2]; i++)
                    for (size_t d = 0; d < 24; d++) {
                        double *kept =
                            &once[(((size_t)(id - TENSOR_DQ) * 2 + h) * 70 + i) * 24 + d];
                        const double now = trial_value(&t, (enum tensor_id)id, 0, h, i, d);
                        cr_assert(turn == 0 || now == 2 * *kept, "%.9g, not %.9g", now, 2 * *kept);
                        *kept = now;
                    }
        const struct host_tensor *x = &t.tensor[TENSOR_DO];
        float *d_o = (float *)(void *)x->bytes + x->offset;
        for (size_t n = 0; n < (size_t)2 * 40 * 24; n++)
            d_o[n] *= 2;
    }
    free(once);
    trial_free(&t);
    fixture_close(&f);
}

/* ---- forward, then backward ----------------------------------------------------------------- */

/* With o and lse as the library's own forward direction leaves them on the device. */
FOR_EACH_FAMILY(after_the_librarys_own_forward)
{
    static const char *const problems[] = {
        "bwd f32 h4/2 q40 k70 d24 causal=br",
        "bwd f32 h2 q40 k70 d24/20 bias=f16:hqk mask=qk alibi sinks klen softcap=3 window=50,* "
        "dropout=0.3 dbias dslopes dsinks dlse",
    };
    struct fixture f;

    open(&f, *family);
    for (size_t c = 0; c < sizeof problems / sizeof *problems; c++) {
        struct trial t = make(*family, problems[c], 2 + c);
        fixture_need_groups_of(&f, t.family);
        const clattn_plan_options options = {.struct_size = sizeof options, .family = t.family};
        struct tensor_arguments tensors = trial_send(&f, &t), only_forward = tensors;
        clattn_problem forward = t.problem;
        clattn_plan *plans[2];
        forward.operation = CLATTN_FORWARD;
        forward.lse = 1;
        forward.dbias = forward.dslopes = forward.dsinks = forward.dlse = 0;
        for (int id = TENSOR_DO; id < NUM_TENSORS; id++)
            only_forward.at[id].buffer = NULL;
        cr_assert(clattn_plan_create(f.context, &forward, NULL, &plans[0]) == CLATTN_SUCCESS);
        cr_assert(clattn_plan_create(f.context, &t.problem, &options, &plans[1]) == CLATTN_SUCCESS);
        cr_assert(tensor_execute(CLATTN_FORWARD, plans[0], f.queue, &only_forward, 0, NULL, NULL) ==
                      CLATTN_SUCCESS,
                  "%s", f.log.last);
        cr_assert(tensor_execute(CLATTN_BACKWARD, plans[1], f.queue, &tensors, 0, NULL, NULL) ==
                      CLATTN_SUCCESS,
                  "%s", f.log.last);
        trial_receive(&f, &t, &tensors);
        memcpy(t.tensor[TENSOR_O].bytes, t.tensor[TENSOR_O].got, t.tensor[TENSOR_O].num_bytes);
        memcpy(t.tensor[TENSOR_LSE].bytes, t.tensor[TENSOR_LSE].got,
               t.tensor[TENSOR_LSE].num_bytes);
        trial_check(&t);
        clattn_plan_release(plans[1]);
        clattn_plan_release(plans[0]);
        trial_free(&t);
    }
    fixture_close(&f);
}

/* With odtype=f32 o is read in f32: values around 16 leave little of dot(do, v) - dot(do, o), and nothing right if o is
 * rounded. */
FOR_EACH_FAMILY(of_an_o_of_f32)
{
    const char *const problems[] = {"bwd bf16 h2 q40 k70 d24 o=bshd odtype=f32 strict",
                                    "bwd bf16 h2 q40 k70 d24 o=bshd odtype=f32"};
    struct fixture f;
    size_t passed = 0;

    open(&f, *family);
    fixture_need_groups_of(&f, clattn_family_name(CLATTN_BACKWARD, *family));
    for (size_t n = 0; n < 2 && !passed; n++) {
        struct trial t = make_plain(*family, problems[n]);
        const clattn_plan_options options = {.struct_size = sizeof options, .family = t.family};
        for (size_t j = 0; j < 2 * 70 * 24; j++) {
            const size_t h = j / 24 / 70, i = j / 24 % 70;
            trial_set(&t, TENSOR_V, 0, h, i, j % 24, 16.0 + (double)(j % 17) / 16.0);
        }
        trial_data_fill_results(&t);
        if (clattn_plan_supports(f.context, &t.problem, &options) == CLATTN_SUCCESS) {
            run(&f, &t);
            passed++;
        }
        trial_free(&t);
    }
    cr_expect(passed, "%s takes neither", clattn_family_name(CLATTN_BACKWARD, *family));
    fixture_close(&f);
}
