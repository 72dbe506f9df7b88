/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of rows whose lse is so large that one float holds too little of it: weights sum to 1 all the same
 * (cl/common/backward.h). Every family, whose kernels add up a row's weights each in their own way. */
#include "bench/judge/gradients.h"
#include "tests/support/families.h"
#include "tests/support/storage.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include "tests/trials/trial_data.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(large_lse, .init = unoptimised, .timeout = 300);

/* Every family in five runs. */
#define FOR_EACH_FAMILY(name) FAMILY_TEST(large_lse, name, CLATTN_BACKWARD, NULL, 8)

/* Numbers that are no NaN in all inputs. */
static struct trial make(const char *family, const char *problem, const uint64_t seed)
{
    static const enum tensor_id ids[] = {TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_DO, TENSOR_BIAS};
    struct trial t = {
        .problem = fixture_problem(family_text(family, problem)), .family = family, .seed = seed};

    if (strcmp(family, "backward_gpu UNIT=item") ==
        0) /* what 256 items hold unoptimised exceeds a thread's stack */
        snprintf(t.tunables, sizeof t.tunables, "BLOCK_OWNED=32");
    trial_fill(&t);
    for (size_t n = 0; n < sizeof ids / sizeof *ids; n++)
        if (t.tensor[ids[n]].shape.present)
            trial_set_ordinary(&t, ids[n], seed + 41 + n);
    return t;
}

/* A bias that is the same for all keys of each third query. */
static void set_rows(const struct trial *t, const double bias)
{
    const size_t *size = t->tensor[TENSOR_BIAS].shape.size;

    for (size_t b = 0; b < size[0]; b++)
        for (size_t h = 0; h < size[1]; h++)
            for (size_t i = 1; i < size[2]; i += 3)
                for (size_t j = 0; j < size[3]; j++)
                    trial_set(t, TENSOR_BIAS, b, h, i, j, bias);
}

static void run(struct fixture *f, struct trial *t)
{
    trial_data_fill_results(t);
    trial_run(f, t);
    trial_check(t);
}

/* Weights of a row that sum to 1 make the sum of dv over keys that of do over queries, for each head and column. */
static void expect_sums(const struct trial *t)
{
    const clattn_problem *p = &t->problem;
    const size_t group = p->heads / p->kv_heads;
    const double most = 2.0 * value_roundoff(p->dtype) + 2e-6;

    for (size_t n = 0; n < p->batch * p->kv_heads * p->dim_v; n++) {
        const size_t d = n % p->dim_v, b = n / p->dim_v / p->kv_heads;
        const size_t head = n / p->dim_v % p->kv_heads;
        double dv = 0.0, d_o = 0.0, far = 0.0;
        for (size_t j = 0; j < p->seq_kv; j++)
            dv += trial_value(t, TENSOR_DV, b, head, j, d);
        for (size_t h = head * group; h < (head + 1) * group; h++)
            for (size_t i = 0; i < p->seq_q; i++) {
                const double x = trial_value(t, TENSOR_DO, b, h, i, d);
                d_o += x;
                far += fabs(x);
            }
        cr_assert(fabs(dv - d_o) <= most * far, "column %zu of head %zu: %.9g, not %.9g", d, head,
                  dv, d_o);
    }
}

/* ---- biases -------------------------------------------------------------------------------------- */

/* A bias so low in all of a row that it is all that f32 keeps of the scores: weights are those of a mean. A run takes a
 * third of the biases where the family is slow. */
static void check_biases(const char *family, const char *problem)
{
    const size_t step = family_is_slow(family) ? 3 : 1;
    static const double biases[] = {-1e30, -(double)FLT_MAX, -1e9, -1e6, -1e4, 3e5};
    struct trial t = make(family, problem, 3);
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups_of(&f, family);
    for (size_t n = run_seed() % step; n < sizeof biases / sizeof *biases; n += step) {
        for (size_t h = 0; h < 4; h++)
            trial_set(&t, TENSOR_SINKS, 0, 0, 0, h, n == 0 ? -1e30 : -INFINITY);
        set_rows(&t, biases[n]);
        run(&f, &t);
        if (n > 0)
            expect_sums(&t);
    }
    trial_free(&t);
    fixture_close(&f);
}

FOR_EACH_FAMILY(of_low_biases)
{
    check_biases(clattn_family_name(CLATTN_BACKWARD, *family),
                 "bwd f32 b2 h4/2 q21 k70 d64 bias=f32:hqk sinks dbias dsinks");
}

Test(large_lse, of_low_biases_by_warpgroups) {
    check_biases("backward_gpu UNIT=warpgroup",
                 "bwd f16 b2 h4/2 q21 k70 d64 bias=f32:hqk sinks dsinks");
}

/* The same beside all that decides which pairs there are; a run has one of the problems of each family. */
FOR_EACH_FAMILY(of_low_biases_beside_options)
{
    static const char *const problems[] = {
        "bwd f32 b2 h4/2 q40 k70 d24/16 bias=f32:qk causal=br klen qlen softcap=3 dropout=0.2",
        "bwd f32 b2 h4/2 q40 k90 d24/16 bias=f32:bhqk mask=qk alibi dslopes window=30,9 "
        "diagonal=20",
        "bwd f32 b3 h4/2 q40 k70 d24/16 bias=f32:hqk totalq=100 totalkv=130 causal=br sinks dsinks",
        "bwd f32 b2 h4/2 q40 k70 d24/16 bias=bf16:hqk blocks=8x16:20:h mask=k dbias strict "
        "odtype=f32",
        "bwd f32 b2 h4/2 q40 k150 d24/16 bias=f16:qk layout=bshd mask=bqk dbias",
    };
    const char *name = clattn_family_name(CLATTN_BACKWARD, *family);
    const clattn_plan_options options = {.struct_size = sizeof options, .family = name};
    const size_t count = sizeof problems / sizeof *problems;
    const size_t first = (size_t)(run_seed() + *family) % count;
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups_of(&f, name);
    for (size_t n = 0; n < count; n++) {
        struct trial t = make(name, problems[(first + n) % count], run_seed() % 1000);
        const int takes = clattn_plan_supports(f.context, &t.problem, &options) == CLATTN_SUCCESS;
        for (size_t m = 0; takes && m < 2; m++) {
            set_rows(&t, m ? -60000.0 : -3000.0);
            run(&f, &t);
        }
        trial_free(&t);
        if (takes)
            break;
    }
    fixture_close(&f);
}

/* ---- scores of large q and k ----------------------------------------------------------------------- */

static void multiply(const struct trial *t, const enum tensor_id id, const double factor)
{
    const struct tensor_shape *s = &t->tensor[id].shape;

    for (size_t n = 0; n < tensor_count(s); n++) {
        const size_t d = n % s->size[3], i = n / s->size[3] % s->size[2];
        const size_t h = n / s->size[3] / s->size[2] % s->size[1];
        const size_t b = n / s->size[3] / s->size[2] / s->size[1];
        const unsigned char *at = t->tensor[id].bytes + tensor_bytes(s, t->tensor[id].offset);
        trial_set(t, id, b, h, i, d, factor * value_get(s->dtype, at, tensor_index(s, b, h, i, d)));
    }
}

/* The largest distance from the reference as a share of the largest element. */
static double distance(const struct trial *t, const enum tensor_id id)
{
    const struct tensor_view view = trial_sent(t);
    const struct tensor_shape *s = &t->tensor[id].shape;
    struct reference_gradients want;
    double off = 0.0, largest = 0.0;

    cr_assert(reference_gradients_open(&t->problem, &view, &want), "out of memory");
    for (size_t n = 0; n < tensor_count(s); n++) {
        const double value = want.at[id][n].value;
        const double got = trial_value(t, id, 0, n / s->size[3] / s->size[2],
                                       n / s->size[3] % s->size[2], n % s->size[3]);
        off = fmax(off, fabs(got - value));
        largest = fmax(largest, fabs(value));
    }
    reference_gradients_close(&want);
    return off / largest;
}

/* Where scores are large one weight of a row is nearly 1, and is as exact: by lse alone it is off by 3e-5 with
 * factor 8 and 3e-4 with factor 24. */
FOR_EACH_FAMILY(of_large_scores)
{
    static const double factors[] = {1.0, 8.0, 24.0};
    const char *name = clattn_family_name(CLATTN_BACKWARD, *family);
    struct fixture f;

    fixture_open(&f);
    for (size_t n = 0; family_takes_f32(name) && n < sizeof factors / sizeof *factors; n++) {
        struct trial t = make(name, "bwd f32 h2 q73 d16", 7);
        if (t.problem.dtype == CLATTN_F32) {
            multiply(&t, TENSOR_Q, factors[n]);
            multiply(&t, TENSOR_K, factors[n]);
            run(&f, &t);
            expect_sums(&t);
            cr_expect(distance(&t, TENSOR_DV) <= 1e-5, "%s, factor %g: %.2g", name, factors[n],
                      distance(&t, TENSOR_DV));
        }
        trial_free(&t);
    }
    fixture_close(&f);
}

/* An lse of more keys than there are is taken as it is. */
FOR_EACH_FAMILY(of_more_keys)
{
    const char *name = clattn_family_name(CLATTN_BACKWARD, *family);
    struct trial t = make(name, "bwd f32 h2 q73 d16", 9);
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups_of(&f, name);
    multiply(&t, TENSOR_Q, 60.0);
    multiply(&t, TENSOR_K, 20.0);
    trial_data_fill_results(&t);
    for (size_t n = 0; n < 2 * 73; n++) {
        const unsigned char *at = t.tensor[TENSOR_LSE].bytes + 4 * t.tensor[TENSOR_LSE].offset;
        trial_set(&t, TENSOR_LSE, 0, n / 73, 0, n % 73, 0.7 + value_get(CLATTN_F32, at, n));
    }
    trial_run(&f, &t);
    trial_check(&t);
    cr_expect(distance(&t, TENSOR_DV) <= (t.problem.dtype == CLATTN_F32 ? 1e-3 : 2e-2), "%s: %.2g",
              name, distance(&t, TENSOR_DV));
    trial_free(&t);
    fixture_close(&f);
}
