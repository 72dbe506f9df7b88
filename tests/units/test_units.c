/* SPDX-License-Identifier: Apache-2.0 */
/* Results of the units that multiply pairs, tiles, fragments and a warpgroup's tiles: the
 * programs of unit_programs.c. They use the device's instruction where it has one, and are
 * emulated elsewhere. The sweeps draw more; CLATTN_TEST_FAMILY="fused_cpu UNIT=amx" leaves the
 * other families out. */
#include "bench/judge/row.h"
#include "context/context.h"
#include "tests/support/families.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial_data.h"
#include "tests/units/unit_trials.h"
#include "tune/measurer.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(units, .init = unoptimised, .timeout = 300);

/* ---- programs -------------------------------------------------------------------------------- */

/* No pointers: it crosses processes. */
struct part {
    size_t unit, program;
    int emulated; /* whatever the processor has */
};

static int of_cpu(const struct unit *unit)
{
    return strstr(unit->family, "_cpu") != NULL;
}

/* A program takes seconds to compile: each nightly run takes one in 24, and of a CPU's as many emulated besides. */
ParameterizedTestParameters(units, programs) {
    static struct part parts[256];
    const char *only = getenv("CLATTN_TEST_FAMILY");
    size_t count = 0, number = 0;

    for (size_t u = 0; u < num_units; u++)
        for (size_t n = 0; n < units[u].count; n++) {
            if (only && only[0] && strcmp(only, units[u].family) != 0)
                continue;
            if (run_takes(number, 24))
                parts[count++] = (struct part){u, n, 0};
            if (of_cpu(&units[u]) && run_takes(number + 12, 24))
                parts[count++] = (struct part){u, n, 1};
            number++;
        }
    return cr_make_param_array(struct part, parts, count);
}

/* Returns whether key j of batch b is row j of batch b: neither pages nor packed batches. */
static int has_plain_rows(const struct trial *t)
{
    return !t->problem.total_q && !t->problem.total_kv && !t->problem.page_size;
}

/* Inf and NaN in V, which some rows see and others do not: kernels compute tiles with them a second time. */
static void set_infinities(struct trial *t)
{
    for (size_t h = 0; h < t->problem.kv_heads; h++) {
        trial_set(t, TENSOR_V, 0, h, 11, 3, INFINITY);
        trial_set(t, TENSOR_V, 0, h, 36, 5, NAN);
        trial_set(t, TENSOR_V, t->problem.batch - 1, h, 66, 4, -INFINITY);
    }
}

/* Subnormal operands. Instructions for bf16 may take their products for 0. */
static void set_subnormals(struct trial *t)
{
    for (size_t n = 0; n < 8; n++) {
        trial_set(t, TENSOR_Q, 0, 0, n, n, 0x1p-130);
        trial_set(t, TENSOR_K, 0, 0, n, n, 16.0);
        trial_set(t, TENSOR_V, 0, 0, n, n, -0x1p-128);
    }
}

/* Scores of all keys far below 0: a 0 among them, of a key that is not there, would leave no weight. */
static void set_low_scores(struct trial *t)
{
    for (size_t b = 0; b < t->problem.batch; b++) {
        for (size_t h = 0; h < t->problem.heads; h++)
            for (size_t i = 0; i < t->problem.seq_q; i++)
                trial_set(t, TENSOR_Q, b, h, i, 0, 64.0);
        for (size_t h = 0; h < t->problem.kv_heads; h++)
            for (size_t j = 0; j < t->problem.seq_kv; j++)
                trial_set(t, TENSOR_K, b, h, j, 0, -64.0);
    }
}

/* NaN that some pairs see and others do not, though they share a tile with them, and subnormal operands. */
static void set_nans(struct trial *t)
{
    for (size_t h = 0; h < t->problem.kv_heads; h++) {
        trial_set(t, TENSOR_K, 1, h, 12, 3, NAN);
        trial_set(t, TENSOR_V, 1, h, 40, 2, NAN);
    }
    for (size_t h = 0; h < t->problem.heads; h++) {
        trial_set(t, TENSOR_DO, 1, h, 17, 5, NAN);
        trial_set(t, TENSOR_Q, 1, h, 44, 4, NAN);
        trial_set(t, TENSOR_Q, 1, h, 52, 1, 0x1p-130);
        trial_set(t, TENSOR_DO, 1, h, 53, 2, -0x1p-128);
    }
}

static void pass_with(struct fixture *f, const struct unit *unit, size_t program, const char *shape,
                      void (*change)(struct trial *t))
{
    struct trial t = unit_trial(unit, program, shape);

    if (!has_plain_rows(&t))
        return;
    trial_fill(&t);
    change(&t);
    trial_run(f, &t);
    trial_check(&t);
    trial_free(&t);
}

static void pass_with_values(struct fixture *f, const struct unit *unit, size_t program)
{
    const char *shape = unit->values ? unit->values : unit->shapes[0];

    if (ca_family_find(unit->family)->operation == CLATTN_FORWARD)
        pass_with(f, unit, program, shape, set_infinities);
    if (!of_cpu(unit))
        return;
    if (ca_family_find(unit->family)->operation == CLATTN_BACKWARD) {
        pass_with(f, unit, program, shape, set_nans);
        pass_with(f, unit, program, unit->shapes[3], set_nans);
    } else {
        pass_with(f, unit, program, shape, set_subnormals);
        pass_with(f, unit, program, shape, set_low_scores);
    }
}

/* False where there are too few keys to split; skips the test where the device has another instruction. */
static int is_taken(struct fixture *f, const clattn_problem *p, const char *family,
                    const char *tunables)
{
    const clattn_plan_options options = {
        .struct_size = sizeof options, .family = family, .tunables = tunables};

    if (clattn_plan_supports(f->context, p, &options) == CLATTN_SUCCESS)
        return 1;
    const char *reason = clattn_context_last_error(f->context);
    if (strstr(reason, "instruction"))
        cr_skip_test("the device has another matrix instruction");
    cr_assert(strstr(reason, "more groups than tiles"), "%s", reason);
    return 0;
}

/* A NaN in x and an infinity in w must not spread; what they would hide is computed without them. */
static void pass_projection(struct fixture *f, const struct unit *unit, size_t program,
                            const char *shape)
{
    for (int poisoned = 0; poisoned < 2; poisoned++) {
        struct trial t = unit_trial(unit, program, shape);
        t.poisoned = poisoned;
        t.aligned |= !poisoned;
        if (is_taken(f, &t.problem, t.family, t.tunables))
            trial_pass(f, &t);
    }
}

static void pass_attention(struct fixture *f, const struct unit *unit, size_t program,
                           const char *shape)
{
    struct trial t = unit_trial(unit, program, shape);

    if (is_taken(f, &t.problem, t.family, t.tunables))
        trial_pass(f, &t);
}

ParameterizedTest(struct part *part, units, programs) {
    const struct unit *unit = &units[part->unit];
    const int projects = ca_family_find(unit->family)->operation == CLATTN_PROJECTION;
    struct fixture f;

    unit_open(&f, part->emulated);
    if (of_cpu(unit))
        fixture_need_cpu(&f);
    fixture_need_groups_of(&f, unit->family);
    if (unit->tunables && strstr(unit->tunables, "EMULATE=1"))
        unit_need_emulation(&f);
    for (size_t n = 0; n < MOST_UNIT_SHAPES && unit->shapes[n]; n++)
        (projects ? pass_projection : pass_attention)(&f, unit, part->program, unit->shapes[n]);
    if (!projects)
        pass_with_values(&f, unit, part->program);
    fixture_close(&f);
}

/* ---- values ---------------------------------------------------------------------------------- */

static struct trial trial_of(const char *family, const char *problem, const char *tunables,
                             uint64_t seed)
{
    struct trial t = {.family = family, .problem = fixture_problem(problem), .seed = seed};

    snprintf(t.tunables, sizeof t.tunables, "%s", tunables);
    return t;
}

/* Inf and NaN in rows of q, k, v and do that some see, or are seen by, and others not: where nothing is seen of them
 * results are as without. */
Test(units, infinities_in_gradients) {
    static const struct {
        const char *family, *tunables, *problem;
    } cases[] = {
        {"backward_gpu UNIT=mma", "INSTRUCTION=1 SUB_GROUPS=1 DIM_GROUPS=1 BLOCK_STREAMED=16",
         "bwd f16 h2 q40 k70 d16 window=8,4"},
        {"backward_gpu UNIT=mma", "INSTRUCTION=1 SUB_GROUPS=1 DIM_GROUPS=1 BLOCK_STREAMED=16",
         "bwd bf16 h2 q40 k70 d16 causal=br dropout=0.2"},
        {"backward_gpu UNIT=mma", "INSTRUCTION=4 SUB_GROUPS=1 DIM_GROUPS=2 BLOCK_STREAMED=16",
         "bwd f16 h2 q40 k70 d16 window=8,4"},
        {"backward_gpu UNIT=mma", "INSTRUCTION=4 SUB_GROUPS=1 DIM_GROUPS=2 BLOCK_STREAMED=16",
         "bwd bf16 h2 q40 k70 d16 causal=br dropout=0.2"},
        {"backward_gpu UNIT=mma",
         "INSTRUCTION=1 SUB_GROUPS=2 DIM_GROUPS=1 M_FRAGMENTS=2 BLOCK_STREAMED=16",
         "bwd f16 h2 q40 k70 d16 window=8,4"},
        {"backward_gpu UNIT=mma", "INSTRUCTION=1 SUB_GROUPS=1 DIM_GROUPS=1 BLOCK_STREAMED=16",
         "bwd f32 h2 q40 k70 d16 window=8,4"},
        {"backward_gpu UNIT=mma", "INSTRUCTION=4 SUB_GROUPS=1 DIM_GROUPS=2 BLOCK_STREAMED=16",
         "bwd f32 h2 q40 k70 d16 causal=br dropout=0.2"},
        {"backward_gpu UNIT=warpgroup", "SUB_GROUPS=4 BLOCK_STREAMED=32 EXP=2 EMULATE=1",
         "bwd f32 h2 q70 k80 d64 window=8,4"},
        {"backward_gpu UNIT=warpgroup",
         "SUB_GROUPS=4 BLOCK_STREAMED=32 STAGES=2 PRODUCER=1 EXP=2 EMULATE=1",
         "bwd f32 h2 q70 k80 d64 window=8,4"},
        {"backward_gpu UNIT=warpgroup", "SUB_GROUPS=4 BLOCK_STREAMED=32 EXP=2 EMULATE=1",
         "bwd f16 h2 q70 k80 d64 window=8,4"},
        {"backward_gpu UNIT=warpgroup",
         "SUB_GROUPS=4 BLOCK_STREAMED=32 STAGES=2 PRODUCER=1 EXP=2 EMULATE=1",
         "bwd f16 h2 q70 k80 d64 window=8,4"}};
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups(&f);
    unit_need_emulation(&f);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        if (!run_takes_of(n, sizeof cases / sizeof *cases, 4)) /* the others in the next runs */
            continue;
        struct trial t = trial_of(cases[n].family, cases[n].problem, cases[n].tunables, 3);
        trial_fill(&t);
        trial_set(&t, TENSOR_DO, 0, 0, 21, 3, INFINITY);
        trial_set(&t, TENSOR_DO, 0, 1, 11, 5, NAN);
        trial_set(&t, TENSOR_Q, 0, 1, t.problem.seq_q - 4, 2, NAN);
        trial_set(&t, TENSOR_K, 0, 0, 37, 7, NAN);
        trial_set(&t, TENSOR_V, 0, 1, 50, 1, -INFINITY);
        trial_data_fill_results(&t);
        trial_run(&f, &t);
        trial_check(&t);
        trial_free(&t);
    }
    fixture_close(&f);
}

/* Where a key is infinite, all scores of that key are. Some are -Inf with a weight of 0, and 0
 * times Inf is NaN. Queries that do not see the key have finite gradients. */
Test(units, infinite_key) {
    static const char *const problems[] = {"bwd f16 h1 q40 k70 d16 window=8,4",
                                           "bwd f32 h1 q40 k70 d16 window=8,4"};
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups(&f);
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        if (!run_takes_of(n, sizeof problems / sizeof *problems, 2)) /* the other in the next run */
            continue;
        struct trial t = trial_of("backward_gpu UNIT=mma", problems[n],
                                  "INSTRUCTION=1 SUB_GROUPS=1 DIM_GROUPS=1 BLOCK_STREAMED=16", 3);
        if (!is_taken(&f, &t.problem, t.family, t.tunables))
            cr_assert_fail();
        trial_fill(&t);
        trial_set_ordinary(&t, TENSOR_K, 5);
        trial_set(&t, TENSOR_K, 0, 0, 20, 4, INFINITY);
        trial_data_fill_results(&t);
        trial_run(&f, &t);
        for (size_t i = 0; i < 40; i++)
            cr_assert(isnan(trial_value(&t, TENSOR_DQ, 0, 0, i, 4)) == (i >= 16 && i <= 28),
                      "row %zu", i);
        trial_free(&t);
    }
    fixture_close(&f);
}

/* An infinite key of which every query that sees it makes a score of -Inf has a weight of 0 and gradients of 0. In f32
 * the parts of its products with q are infinities and NaNs. */
Test(units, infinite_key_without_weight) {
    static const struct {
        const char *family, *tunables, *problem;
    } cases[] = {{"backward_gpu UNIT=mma",
                  "INSTRUCTION=1 SUB_GROUPS=1 DIM_GROUPS=1 BLOCK_STREAMED=16",
                  "bwd f32 h1 q40 k70 d16"},
                 {"backward_gpu UNIT=warpgroup", "SUB_GROUPS=4 BLOCK_STREAMED=32 EXP=2 EMULATE=1",
                  "bwd f32 h1 q40 k70 d64"},
                 {"backward_gpu UNIT=warpgroup",
                  "SUB_GROUPS=4 BLOCK_STREAMED=32 STAGES=2 PRODUCER=1 EXP=2 EMULATE=1",
                  "bwd f32 h1 q40 k70 d64"}};
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups(&f);
    unit_need_emulation(&f);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        if (!run_takes_of(n, sizeof cases / sizeof *cases, 3)) /* the others in the next runs */
            continue;
        struct trial t = trial_of(cases[n].family, cases[n].problem, cases[n].tunables, 3);
        trial_fill(&t);
        trial_set_ordinary(&t, TENSOR_Q, 4);
        trial_set_ordinary(&t, TENSOR_K, 5);
        for (size_t i = 0; i < 40; i++)
            trial_set(&t, TENSOR_Q, 0, 0, i, 4, -1.0 - 0.1 * (double)i);
        trial_set(&t, TENSOR_K, 0, 0, 20, 4, INFINITY);
        trial_data_fill_results(&t);
        trial_run(&f, &t);
        for (size_t j = 0; j < 70; j++)
            for (size_t d = 0; d < 16; d++) {
                const double x = trial_value(&t, TENSOR_DK, 0, 0, j, d);
                cr_assert(j == 20 ? x == 0.0 : isfinite(x), "case %zu, dk[%zu, %zu] is %g", n, j, d,
                          x);
            }
        trial_free(&t);
    }
    fixture_close(&f);
}

/* A mask that hides a block of keys from the first 16 of the 32 queries that are multiplied together, and from no
 * other: what these have of NaN stays with the keys that they see. */
Test(units, queries_before_a_range) {
    static const enum tensor_id ids[] = {TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_DO};
    struct trial t = trial_of("backward_cpu UNIT=amx", "bwd bf16 q64 k128 d24 mask=qk",
                              "SPLIT_K=1 BLOCK_VECTORS=2 BLOCK_M=64 BLOCKS_PER_TILE=2", 3);
    struct fixture f;

    fixture_open(&f);
    fixture_need_cpu(&f);
    trial_fill(&t);
    const struct host_tensor *mask = &t.tensor[TENSOR_MASK];
    for (size_t n = 0; n < sizeof ids / sizeof *ids; n++)
        trial_set_ordinary(&t, ids[n], 31 + n);
    for (size_t i = 0; i < 64; i++)
        for (size_t j = 0; j < 128; j++)
            mask->bytes[mask->offset + tensor_index(&mask->shape, 0, 0, i, j)] = i >= 16 || j >= 32;
    trial_set(&t, TENSOR_Q, 0, 0, 3, 5, NAN);
    trial_set(&t, TENSOR_DO, 0, 0, 7, 2, NAN);
    trial_run(&f, &t);
    trial_check(&t);
    trial_free(&t);
    fixture_close(&f);
}

/* Outputs that are all of small weights, strict and, of quantized values, rounded once; scales of values with which
 * weights would exceed f16. */
Test(units, weights_far_apart) {
    static const char *const problems[] = {
        "fwd f16 h2/1 q3 k40 d16/32 scale=0.01 bias=f32:qk odtype=f32 strict",
        "fwd f16 h2/1 q3 k40 d16/32 scale=0.01 bias=f32:qk odtype=f32 vcache=q4_0 strict",
        "fwd f16 h2/1 q3 k40 d16/32 scale=0.01 bias=f32:qk odtype=f32 vcache=q8_0"};
    static const char *const families[] = {"fused_gpu UNIT=mma", "split_gpu UNIT=mma"};
    struct fixture f;

    fixture_open(&f);
    for (size_t n = 0; n < 6; n++) {
        if (!run_takes_of(n, 6, 3)) /* the others in the next runs */
            continue;
        struct trial t = trial_of(families[n / 3], problems[(n + n / 3) % 3], "", 3 + n % 3);
        trial_pass_with_small_weights(&f, &t);
    }
    for (size_t n = 0; n < 2; n++) {
        if (!run_takes_of(n, 2, 2))
            continue;
        struct trial t = trial_of(families[n], problems[2], "", 7);
        trial_fill(&t);
        for (int id = TENSOR_Q; id <= TENSOR_V; id++)
            trial_set_ordinary(&t, id, t.seed);
        for (size_t j = 0; j < t.problem.seq_kv; j += 2)
            trial_set(&t, TENSOR_V, 0, 0, j, 0, 2000.0 + 1500.0 * (double)j);
        trial_run(&f, &t);
        trial_check(&t);
        trial_free(&t);
    }
    fixture_close(&f);
}

/* An infinity reaches what it is multiplied with and nothing else, also where its product with a part of 0 would be NaN. */
Test(units, infinities_beside_parts) {
    enum { ROWS = 40 };
    static const char *const families[] = {"fused_cpu UNIT=amx", "split_cpu UNIT=amx"};
    static const char *const problems[] = {"fwd f16 q40 k70 d40/24 causal=br lse",
                                           "fwd f16 q40 k70 d64/32 lse",
                                           "fwd f16 q40 k70 d64 kcache=q8_0 vcache=q5_1"};
    enum { PROBLEMS = sizeof problems / sizeof *problems };
    struct fixture f;

    fixture_open(&f);
    fixture_need_cpu(&f);
    for (size_t c = 0; c < 2 * PROBLEMS; c++) {
        const size_t n = c % PROBLEMS;
        struct trial t = trial_of(families[c / PROBLEMS], problems[n], "", 5 + n);
        const int plain = t.problem.v_cache == CLATTN_CACHE_PLAIN;
        trial_fill(&t);
        for (int id = TENSOR_Q; id <= (plain ? TENSOR_V : TENSOR_Q); id++)
            trial_set_ordinary(&t, id, t.seed + (uint64_t)id);
        for (size_t i = 0; i < ROWS; i++) /* the first queries' scores of the key are -Inf */
            trial_set(&t, TENSOR_Q, 0, 0, i, 4, i < 35 ? -0.5 : 0.25);
        if (plain) {
            trial_set(&t, TENSOR_K, 0, 0, 33, 4, INFINITY);
            trial_set(&t, TENSOR_V, 0, 0, 10, 3, -INFINITY);
        }
        trial_set(&t, TENSOR_Q, 0, 0, 38, 7, NAN);
        trial_run(&f, &t);
        for (size_t i = 0; i < ROWS; i++)
            for (size_t d = 0; d < t.problem.dim_v; d++) {
                const double o = trial_value(&t, TENSOR_O, 0, 0, i, d);
                if (i == 38 || (plain && i >= 35))
                    cr_expect(isnan(o), "%s, %s: o[%zu, %zu] is %g", t.family, problems[n], i, d,
                              o);
                else
                    cr_expect(plain && d == 3 ? o == -INFINITY : isfinite(o),
                              "%s, %s: o[%zu, %zu] is %g", t.family, problems[n], i, d, o);
            }
        trial_free(&t);
    }
    fixture_close(&f);
}

/* A query that sees no key may hold anything, also where a tile has fewer keys than its products are made for. */
Test(units, hidden_infinite_queries) {
    static const char *const families[] = {"split_cpu UNIT=amx", "split_cpu UNIT=pairs",
                                           "fused_cpu UNIT=amx", "fused_cpu UNIT=pairs"};
    struct fixture f;

    fixture_open(&f);
    fixture_need_cpu(&f);
    for (size_t n = 0; n < sizeof families / sizeof *families; n++) {
        struct trial t = trial_of(families[n], "fwd bf16 q8 k5 d24 causal=br lse", "", 7);
        trial_fill(&t);
        trial_set(&t, TENSOR_Q, 0, 0, 0, 3, INFINITY);
        trial_set(&t, TENSOR_Q, 0, 0, 1, 4, NAN);
        trial_run(&f, &t);
        trial_check(&t);
        trial_free(&t);
    }
    fixture_close(&f);
}

/* The scales of keys that some rows do not see are infinite or NaN: those rows are as if these keys were not there. */
Test(units, hidden_infinite_scales) {
    enum { ROWS = 4 }; /* that see none of these keys */
    static const char *const families[] = {"split_cpu UNIT=amx", "split_cpu UNIT=pairs",
                                           "fused_cpu UNIT=amx", "fused_cpu UNIT=pairs"};
    struct fixture f;

    fixture_open(&f);
    fixture_need_cpu(&f);
    for (size_t n = 0; n < sizeof families / sizeof *families; n++) {
        struct trial t = trial_of(families[n],
                                  n % 2 ? "fwd bf16 q8 k40 d32 causal=br kcache=int8 vcache=e4m3 "
                                          "kscales=bhk vscales=bhk lse"
                                        : "fwd bf16 q8 k40 d32 causal=br kcache=e4m3 vcache=int8 "
                                          "kscales=bhk vscales=bhk lse",
                                  "", 7);
        double before[ROWS * 32];
        trial_fill(&t);
        for (int infinite = 0; infinite < 2; infinite++) {
            trial_set(&t, TENSOR_K_SCALES, 0, 0, 36, 0, infinite ? INFINITY : 1.0);
            trial_set(&t, TENSOR_V_SCALES, 0, 0, 37, 0, infinite ? INFINITY : 2.0);
            trial_set(&t, TENSOR_V_SCALES, 0, 0, 39, 0, infinite ? NAN : 3.0);
            trial_run(&f, &t);
            for (size_t at = 0; at < ROWS * 32; at++) {
                const double o = trial_value(&t, TENSOR_O, 0, 0, at / 32, at % 32);
                cr_expect(!infinite || fabs(o - before[at]) <= 0.01,
                          /* in bf16 */ "%s: o[%zu, %zu] is %g, not %g", t.family, at / 32, at % 32,
                          o, before[at]);
                before[at] = o;
            }
        }
        trial_free(&t);
    }
    fixture_close(&f);
}

/* A range of which rows see nothing, by window and by length, and rows that see nothing at all. */
Test(units, ranges_without_a_visible_key) {
    static const char *const problems[] = {"fwd f16 b2 h8/1 q1 k300 d16 klen lse",
                                           "fwd f16 h8/1 q9 k300 d16 causal=br lse",
                                           "fwd f16 h8/1 q9 k300 d16 window=20,* lse",
                                           "fwd f16 b3 h8/1 q3 k300 d16 klen qlen causal=br lse",
                                           "fwd f16 h8/1 q2 k300 d16 mask=k sinks lse"};
    struct fixture f;

    fixture_open(&f);
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct trial t = trial_of(
            "split_gpu UNIT=mma", problems[n],
            "SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=0 SPLIT_K=4", 11 + n);
        trial_pass(&f, &t);
    }
    fixture_close(&f);
}

/* ---- the emulation is the instruction -------------------------------------------------------- */

static const struct unit *unit_of(const char *family)
{
    size_t n = 0;

    while (strcmp(units[n].family, family) != 0)
        n++;
    return &units[n];
}

/* Sums of any size, and of gradients products that are flushed, which would count otherwise. */
static struct trial attend(const char *family, size_t program, const char *shape, int emulated)
{
    struct trial t = unit_trial(unit_of(family), program, shape);
    const int backward = t.problem.operation == CLATTN_BACKWARD;
    struct fixture f;

    unit_open(&f, emulated);
    trial_fill(&t);
    for (size_t n = 0; n < 16; n++)
        trial_set(&t, TENSOR_K, 0, 0, n, n, ldexp(1.0, n % 2 && !backward ? (int)n - 127 : (int)n));
    for (size_t n = 0; backward && n < 2; n++) {
        trial_set(&t, TENSOR_Q, 0, 0, 41 + n, n, 0x1p-130);
        trial_set(&t, TENSOR_K, 0, 0, 5 + n, n, 0x1p127);
        trial_set(&t, TENSOR_K, 0, 0, 7 + n, 2 + n, 0x1p-130);
        trial_set(&t, TENSOR_Q, 0, 0, 43 + n, 2 + n, 0x1p127);
    }
    trial_run(&f, &t);
    fixture_close(&f);
    return t;
}

static void expect_the_same_bits(const char *family, size_t program, const char *shape)
{
    struct trial one = attend(family, program, shape, 0);
    struct trial other = attend(family, program, shape, 1);

    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct host_tensor *x = &one.tensor[id], *y = &other.tensor[id];
        cr_expect(!x->bytes || memcmp(x->got, y->got, x->num_bytes) == 0, "%s of %s", x->shape.name,
                  family);
    }
    trial_free(&one);
    trial_free(&other);
}

static struct trial project(size_t program, int emulated)
{
    struct trial t = unit_trial(unit_of("projection_cpu UNIT=amx"), program, "");
    struct fixture f;

    unit_open(&f, emulated);
    trial_fill(&t);
    for (size_t n = 0; n < 16; n++) { /* sums of any size, and products that are flushed */
        trial_set_nth(&t, PROJECTION_X, n, ldexp(1.0, n % 2 ? (int)n - 127 : (int)n));
        trial_set_nth(&t, PROJECTION_W, 3 * n, ldexp(1.0, n % 3 ? -20 : 7));
    }
    trial_run(&f, &t);
    fixture_close(&f);
    return t;
}

Test(units, emulated_pairs_have_the_instructions_bits) {
    unit_need_pairs();
    expect_the_same_bits("fused_cpu UNIT=pairs", 0, "h2 q97 k140");
    expect_the_same_bits("split_cpu UNIT=pairs", 0, "h2 q97 k140");
}

Test(units, emulated_bytes_have_the_instructions_bits) {
    unit_need_bytes();
    for (size_t n = 0; n < 2; n++)
        expect_the_same_bits("fused_cpu UNIT=bytes", n, "h2 q97 k140");
}

Test(units, emulated_tiles_have_the_instructions_bits) {
    unit_need_tiles();
    const size_t programs[] = {0, 13, 15, 18}; /* of pairs, of sums of parts, and of bytes */
    for (size_t n = 0; n < 4; n++)
        if (run_takes_of(n, 4, 1)) /* the others in the next runs */
            expect_the_same_bits("fused_cpu UNIT=amx", programs[n], "h2 q97 k140");
    expect_the_same_bits("split_cpu UNIT=amx", 0, "h2 q97 k140");
    expect_the_same_bits("backward_cpu UNIT=amx", 7, "b2 h4/2 q70 k91");
    for (size_t n = 0; n < 2; n++) {
        struct trial one = project(n, 0), other = project(n, 1);
        const struct host_tensor *x = &one.tensor[PROJECTION_Y], *y = &other.tensor[PROJECTION_Y];
        cr_expect(memcmp(x->got, y->got, x->num_bytes) == 0, "projection %zu", n);
        trial_free(&one);
        trial_free(&other);
    }
}

/* ---- precision ------------------------------------------------------------------------------- */

/* Elements of o that lie outside of the bounds of a problem that is strict, or not. */
static size_t outside(struct trial *t, const int strict)
{
    const struct tensor_view view = trial_sent(t);
    clattn_problem p = t->problem;
    struct reference_row row;
    size_t count = 0;

    p.strict = strict;
    cr_assert(reference_row_open(&p, PRECISION_SINGLE, &row));
    for (size_t i = 0; i < p.seq_q; i++) {
        reference_row_compute(&p, &view, 0, 0, i, &row);
        for (size_t d = 0; d < p.dim_v; d++)
            count += !within(trial_value(t, TENSOR_O, 0, 0, i, d), row.o[d]);
    }
    reference_row_close(&row);
    return count;
}

/* Weights that are rounded are seen by the strict bounds, and what strict problems get is within them. */
Test(units, standard_is_not_strict) {
    static const char *const families[] = {"fused_cpu UNIT=pairs", "fused_cpu UNIT=vector"};

    for (size_t n = 0; n < 2; n++) {
        struct trial t = trial_of(families[n], "fwd bf16 q33 k65 d16 odtype=f32", "", 4);
        struct fixture f;
        unit_open(&f, 1);
        trial_fill(&t);
        trial_run(&f, &t);
        cr_expect(outside(&t, 0) == 0, "%s", families[n]);
        cr_expect((outside(&t, 1) == 0) == (n == 1), "%s", families[n]);
        trial_free(&t);
        fixture_close(&f);
    }
}

/* Problems of real size that are judged by the library: its bound has room for what standard rounds. */
Test(units, the_self_check_allows_what_standard_rounds) {
    static const char *const cases[][2] = {
        {"fused_cpu UNIT=pairs", "fwd bf16 h2 q65 k130 d64 odtype=f32"},
        {"split_cpu UNIT=pairs", "fwd bf16 h8/1 q4 k230 d64 odtype=f32"},
        {"fused_cpu UNIT=amx", "fwd f16 h2 q65 k130 d64 odtype=f32"},
        {"split_cpu UNIT=amx", "fwd f16 h8/1 q4 k230 d64 odtype=f32 kcache=q8_0 vcache=q4_1"},
        {"backward_cpu UNIT=amx", "bwd bf16 h2 q130 k200 d64"}};

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const struct ca_problem p = fixture_checked(cases[n][1]);
        struct ca_candidate candidate = {.family = ca_family_find(cases[n][0])};
        struct ca_reading reading;
        struct ca_measurer m;
        struct fixture f;
        fixture_open_checked(&f, "");
        ca_family_suggest(candidate.family, &p, clattn_context_device(f.context), candidate.values);
        cr_assert(ca_measurer_create(f.context, &p, 1, &m) == CLATTN_SUCCESS, "%s", f.log.last);
        m.build(m.user, &candidate, &reading);
        cr_assert(reading.outcome == CA_CORRECT, "%s", reading.reason);
        m.measure(m.user, 0, &candidate, 0.0, &reading);
        cr_assert(reading.outcome == CA_CORRECT, "%s", reading.reason);
        cr_expect(reading.error <= 1.0 && reading.error > 0.0);
        m.close(m.user);
        fixture_close(&f);
    }
}
