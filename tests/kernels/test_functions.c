/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the caller's (clattn/function.h) in every family: the sweep's rows meet them with every option, and here
 * are more of them with what each family takes. CLATTN_TEST_SEED, CLATTN_TEST_SCALE and CLATTN_TEST_FAMILY are as in the
 * sweep. */
#include "bench/judge/judge.h"
#include "families/registry.h"
#include "tests/support/families.h"
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/random_function.h"
#include "tests/trials/random_problem.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(functions, .timeout = 900);

enum { MOST_FAMILIES_HERE = 64 };

/* A run takes some of the families. */
ParameterizedTestParameters(functions, family) {
    static size_t families[MOST_FAMILIES_HERE];
    const char *only = getenv("CLATTN_TEST_FAMILY");
    const struct ca_family *family;
    size_t count = 0;

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++)
        if (family->operation <= CLATTN_BACKWARD && count < MOST_FAMILIES_HERE &&
            (only && only[0] ? strcmp(only, family->full_name) == 0 : run_takes(n, 5)))
            families[count++] = n;
    return cr_make_param_array(size_t, families, count);
}

/* Draws functions, nearly always one of scores. */
static struct problem_kind draw_kind(struct rng *r, const struct ca_family *family,
                                     const clattn_device_info *device)
{
    struct problem_kind kind = random_kind(r, family, device);

    kind.base.score_function = rng_one_in(r, 6) ? NULL : trial_function(CLATTN_SCORE_FUNCTION, 0);
    kind.base.mask_function = kind.base.score_function && rng_one_in(r, 2)
                                  ? NULL
                                  : trial_function(CLATTN_MASK_FUNCTION, 0);
    kind.base.dfunction =
        kind.base.operation == CLATTN_BACKWARD && kind.base.score_function && !rng_one_in(r, 3);
    random_functions(r, &kind.base);
    kind.base.whole_q = rng_one_in(r, 3);
    return kind;
}

ParameterizedTest(size_t *number, functions, family) {
    const struct ca_family *family = ca_family_at(*number);
    const uint64_t scale = run_number("CLATTN_TEST_SCALE", 1);
    const size_t shapes = family_takes_f32(family->full_name) ? 6 : 1; /* emulated ones take long */
    struct rng r = rng_seed(run_seed() * 1000003 + *number);
    struct fixture f;

    unoptimised();
    fixture_open(&f);
    fixture_need_groups_of(&f, family->full_name);
    for (uint64_t kinds = 0; kinds < scale; kinds++) {
        const struct problem_kind kind = draw_kind(&r, family, clattn_context_device(f.context));
        size_t passed = 0;
        for (size_t n = 0; n < 16 && passed < shapes; n++) {
            struct trial t = {.problem = random_shape(&r, &kind),
                              .family = family->full_name,
                              .seed = rng_next(&r)};
            snprintf(t.tunables, sizeof t.tunables, "%s", kind.tunables);
            if (!trial_is_supported(&f, &t))
                continue;
            trial_pass(&f, &t);
            passed++;
        }
        cr_assert(passed > 0, "%s took no problem", family->full_name);
    }
    fixture_close(&f);
}

/* Sequences of unlike lengths, and tiles that begin anywhere, where tiles are marked. */
DeviceTest(functions, marked_sequences_and_pages)
{
    static const char near[] = "bool visible(pair p, operands o)\n"
                               "{ return p.key <= p.query + 90 && p.query + 90 - p.key < 56; }\n";
    static const char *const problems[] = {
        "fwd f32 b3 h2 q150 k300 d8 totalq=300 totalkv=500",
        "fwd f32 b2 h2 q150 k300 d8 page=7 pages=90",
    };
    static const char *const families[] = {"fused_cpu UNIT=vector", "fused_gpu UNIT=item"};

    for (size_t n = 0; n < 4; n++) {
        if (!run_takes(n, 1)) /* the others in the next run */
            continue;
        struct trial t = {.problem = fixture_problem(problems[n / 2]),
                          .family = families[(n + n / 2) % 2],
                          .seed = run_seed() + n};
        cr_assert(clattn_function_create("near", near, &t.problem.mask_function, NULL, 0) ==
                  CLATTN_SUCCESS);
        trial_pass(f, &t);
    }
}

/* A function of the distance hides whole tiles, parts of others, and all keys of some queries. On CPUs a NaN in a key that
 * no query sees stays out of gradients, which is more than clattn/function.h promises. */
DeviceTest(functions, distances_that_hide)
{
    static const char source[] = "#pragma clattn operand float fall[h][8]\n"
                                 "float score(float s, pair p, operands o)\n"
                                 "{\n"
                                 "    const int ahead = p.key - p.query;\n"
                                 "    if (ahead > 20 || ahead < -150)\n"
                                 "        return -INFINITY;\n"
                                 "    return s + fall_at(o, 8 * p.own_head + clamp(ahead, 0, 7));\n"
                                 "}\n";
    static const char *const problems[] = {
        "bwd f32 h2 q200 k400 d8",
        "bwd f32 b2 h2/1 q400 k200 d8 klen",
        "bwd f32 h2 q400 k300 d8 causal=tl",
        "fwd f32 h2 q400 k300 d8 lse",
    };
    const clattn_function *score;

    cr_assert(clattn_function_create("hides", source, &score, NULL, 0) == CLATTN_SUCCESS);
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct trial t = {.problem = fixture_problem(problems[n]), .seed = run_seed() + n};
        t.problem.score_function = score;
        t.problem.dfunction = t.problem.operation == CLATTN_BACKWARD && t.problem.causal;
        trial_pass(f, &t);
    }
    struct trial t = {.problem = fixture_problem(problems[0]),
                      .family = "backward_cpu UNIT=vector",
                      .seed = run_seed()};
    t.problem.score_function = score;
    trial_fill(&t);
    trial_set(&t, TENSOR_K, 0, 1, 300, 3, NAN);
    trial_set(&t, TENSOR_V, 0, 1, 301, 5, NAN);
    trial_run(f, &t);
    for (size_t i = 0; i < t.problem.seq_q; i++)
        cr_expect(isfinite(trial_value(&t, TENSOR_DQ, 0, 1, i, 0)), "dq of query %zu", i);
    cr_expect(trial_value(&t, TENSOR_DK, 0, 1, 300, 0) == 0.0);
    cr_expect(trial_value(&t, TENSOR_DV, 0, 1, 301, 0) == 0.0);
    trial_free(&t);
}

/* ---- gradients of operands ------------------------------------------------------------------- */

/* The elements that t_index() names: the right ones, others, or none that exist. */
enum { RIGHT, OTHERS, BEYOND };

static const char by_hand[] =
    "#pragma clattn operand float t[2][8]\n"
    "#pragma clattn parameter int which = 0\n"
    "#pragma clattn parameter float factor = 1\n"
    "float score(float s, pair p, operands o)\n"
    "{ return s * t_at(o, 8 * p.head + p.key % 8); }\n"
    "int t_index(float s, pair p, operands o)\n"
    "{\n"
    "    if (o.which == 2)\n"
    "        return p.key % 8 ? -1 : 1 << 30;\n"
    "    return 8 * p.head + (o.which == 1 ? p.query : p.key) % 8;\n"
    "}\n"
    "float t_derivative(float s, pair p, operands o) { return o.factor * s; }\n";

/* Counts the elements of dfunction that are wrong. */
struct wrong {
    const struct trial *trial;
    size_t count;
};

static void count_wrong(void *user, int id, const size_t at[4], const struct bounded *want,
                        size_t count)
{
    struct wrong *wrong = user;

    for (size_t n = 0; id == TENSOR_DFUNCTION && n < count; n++)
        wrong->count +=
            !(fabs(trial_value_nth(wrong->trial, id, at[3] + n) - want[n].value) <= want[n].bound);
}

static size_t wrong_gradients(struct fixture *f, const char *family, int which, float factor)
{
    struct trial t = {
        .problem = fixture_problem("bwd f32 h2 q70 k40 d8 causal=br"), .family = family, .seed = 3};
    struct wrong wrong = {.trial = &t};

    cr_assert(clattn_function_create("by_hand", by_hand, &t.problem.score_function, NULL, 0) ==
              CLATTN_SUCCESS);
    t.problem.dfunction = 1;
    trial_fill(&t);
    t.values.ints[0] = which;
    t.values.floats[0] = factor;
    t.valued = 1;
    trial_run(f, &t);
    const struct tensor_view sent = trial_sent(&t);
    cr_assert(judge_results(&t.problem, &sent, PRECISION_SINGLE, INFINITY, count_wrong, &wrong));
    trial_free(&t);
    return wrong.count;
}

/* A derivative or an element that is wrong is found; an element that there is not is not written. */
DeviceTest(functions, wrong_gradients)
{
    static const char *const families[] = {"backward_cpu", "backward_gpu"};

    unoptimised();
    for (size_t n = 0; n < sizeof families / sizeof *families; n++) {
        cr_expect(wrong_gradients(f, families[n], RIGHT, 1.0f) == 0);
        cr_expect(wrong_gradients(f, families[n], RIGHT, 1.25f) == 16);
        cr_expect(wrong_gradients(f, families[n], OTHERS, 1.0f) == 16);
        cr_expect(wrong_gradients(f, families[n], BEYOND, 1.0f) == 16);
    }
}

/* More elements than there is room for in an array for each work-item. */
DeviceTest(functions, gradients_of_many_elements)
{
    struct trial t = {.problem = fixture_problem("bwd f32 b2 h6/3 q20 k40 d8"),
                      .family = "backward_cpu",
                      .seed = 4};

    unoptimised();
    cr_assert(
        clattn_function_create("many",
                               "#pragma clattn operand half t[h][q][k][800]\n"
                               "float score(float s, pair p, operands o)\n"
                               "{ return s + t_at(o, 64007 * p.key + 800 * p.query + p.head); }\n",
                               &t.problem.score_function, NULL, 0) == CLATTN_SUCCESS);
    t.problem.dfunction = 1;
    trial_pass(f, &t);
}
