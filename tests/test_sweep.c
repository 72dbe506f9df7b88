/* The randomised sweep: options x shapes x dtypes x layouts x families x tunables against the
 * reference. CLATTN_TEST_SCALE=10 makes it ten times as long, CLATTN_TEST_SEED=2 another one,
 * CLATTN_TEST_FAMILY=backward_lanes leaves the others out. Families for matrix instructions, and
 * split_tiles, are left out unless named: their programs take long to compile where they are not for
 * (test_fused_mma.c and test_split_tiles.c have some). */
#include "families.h"
#include "random_problem.h"
#include "trial.h"
#include "unoptimised.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_PER_FAMILY = 8 };

/* A program takes a second or more to compile, one for gradients several: few, on many shapes, and
 * optimised in every fourth part alone: without, it takes a third of the time. */
static const struct {
    uint64_t kinds, shapes;
} part_sizes[] = {[CLATTN_FORWARD] = {2, 16}, [CLATTN_BACKWARD] = {1, 16}};

TestSuite(sweep, .timeout = 900);

/* Which family (by index) and which part of its sweep. */
struct part {
    size_t family, number;
};

static uint64_t from_environment(const char *name, const uint64_t otherwise)
{
    const char *text = getenv(name);

    return text && text[0] ? strtoull(text, NULL, 10) : otherwise;
}

ParameterizedTestParameters(sweep, part) {
    static struct part parts[16 * PARTS_PER_FAMILY];
    const char *only = getenv("CLATTN_TEST_FAMILY");
    size_t count = 0;

    for (size_t number = 0; number < PARTS_PER_FAMILY; number++)
        for (size_t family = 0; ca_family_at(family) && family < 16; family++)
            if (ca_family_at(family)->operation <= CLATTN_BACKWARD &&
                (only ? strcmp(only, ca_family_at(family)->name) == 0
                      : family_takes_f32(ca_family_at(family)->name)))
                parts[count++] = (struct part){family, number};
    return cr_make_param_array(struct part, parts, count);
}

ParameterizedTest(struct part *part, sweep, part) {
    const uint64_t base = from_environment("CLATTN_TEST_SEED", 1);
    const uint64_t scale = from_environment("CLATTN_TEST_SCALE", 1);
    struct rng r = rng_seed(base * 1000003 + part->number * 101 + part->family);
    const struct ca_family *family = ca_family_at(part->family);
    const uint64_t kinds = part_sizes[family->operation].kinds * scale;
    const uint64_t shapes = part_sizes[family->operation].shapes;
    struct fixture f;
    size_t passed = 0;

    if (part->number % 4 != 0)
        unoptimised();
    fixture_open(&f);
    const clattn_device_info *device = clattn_context_device(f.context);
    for (uint64_t k = 0; k < kinds; k++) {
        const struct problem_kind kind = random_kind(&r, family, device);
        for (uint64_t n = 0; n < shapes; n++) {
            struct trial t = {
                .problem = random_shape(&r, &kind), .family = family->name, .seed = rng_next(&r)};
            const clattn_plan_options options = {
                .struct_size = sizeof options, .family = t.family, .tunables = kind.tunables};
            memcpy(t.tunables, kind.tunables, sizeof t.tunables);
            if (clattn_plan_supports(f.context, &t.problem, &options, NULL, 0) != CLATTN_SUCCESS)
                continue;
            trial_pass(&f, &t);
            passed++;
        }
    }
    cr_assert(passed >= kinds * shapes / 2, "%s took only %zu of the problems", family->name,
              passed);
    fixture_close(&f);
}

/* What split_lanes keeps in registers and how: rows in every kind of vector, some of them not in
 * use, columns that no vector divides, keys that end in the middle of everything. */
static const struct {
    const char *problem, *tunables;
} splits[] = {
    {"fwd f32 h8/2 q5 k77 d64/48 causal=br",
     "WIDTH=16 ROWS=32 SCORE_ROWS=16 SCORE_COLUMNS=4 VALUE_ROWS=2 VALUE_VECTORS=3 BN=16 SPLITS=2"},
    {"fwd f16 h4/1 q3 k70 d40/21 window=9,3 klen lse",
     "WIDTH=16 ROWS=16 SCORE_ROWS=8 SCORE_COLUMNS=4 VALUE_ROWS=4 VALUE_VECTORS=4 BN=32 SPLITS=1"},
    {"fwd bf16 h6/2 q3 k45 d24 mask=qk alibi",
     "WIDTH=8 ROWS=8 SCORE_ROWS=4 SCORE_COLUMNS=4 VALUE_ROWS=2 VALUE_VECTORS=3 BN=16 SPLITS=1"},
    {"fwd f32 h4/1 q1 k90 d64 kcache=q8_0 vcache=q4_0 klen",
     "WIDTH=16 ROWS=4 SCORE_ROWS=4 SCORE_COLUMNS=4 VALUE_ROWS=4 VALUE_VECTORS=4 BN=32 SPLITS=2"},
    {"fwd f32 h2 q2 k50 d19 sinks lse k=90.3000.50.1",
     "WIDTH=8 ROWS=2 SCORE_ROWS=2 SCORE_COLUMNS=8 VALUE_ROWS=2 VALUE_VECTORS=2 BN=16 SPLITS=2"},
};

Test(sweep, splits) {
    struct fixture f;

    fixture_open(&f);
    for (size_t n = 0; n < sizeof splits / sizeof *splits; n++) {
        struct trial t = {
            .problem = fixture_problem(splits[n].problem), .family = "split_lanes", .seed = n + 1};
        snprintf(t.tunables, sizeof t.tunables, "%s", splits[n].tunables);
        trial_pass(&f, &t);
    }
    fixture_close(&f);
}

/* Rows of halves at odd places: PoCL's vload_half faults there in optimised code. */
Test(sweep, halves_anywhere) {
    static const struct {
        const char *problem, *family, *tunables;
    } cases[] = {
        {"fwd f16 h3 q2 k17 d257", "split_lanes", ""},
        {"fwd f16 h3 q2 k17 d257", "split_lanes",
         "WIDTH=8 ROWS=2 SCORE_ROWS=2 SCORE_COLUMNS=8 VALUE_ROWS=2 VALUE_VECTORS=2 BN=16"},
        {"fwd f16 h3 q33 k65 d59/17", "fused_lanes", ""},
    };
    struct fixture f;

    fixture_open(&f);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct trial t = {
            .problem = fixture_problem(cases[n].problem), .family = cases[n].family, .seed = n + 1};
        snprintf(t.tunables, sizeof t.tunables, "%s", cases[n].tunables);
        trial_pass(&f, &t);
    }
    fixture_close(&f);
}

/* One problem of the user's, or of a failure's message. */
Test(sweep, one) {
    const char *text = getenv("CLATTN_TEST_PROBLEM"), *family = getenv("CLATTN_TEST_FAMILY");
    const char *tunables = getenv("CLATTN_TEST_TUNABLES");
    struct trial t = {.family = family && family[0] ? family : NULL,
                      .seed = from_environment("CLATTN_TEST_SEED", 1)};
    struct fixture f;

    t.problem = fixture_problem(text ? text : "fwd f32 b2 h4/2 q33 k65 d40 causal=br klen lse");
    if (tunables && strlen(tunables) < sizeof t.tunables)
        memcpy(t.tunables, tunables, strlen(tunables) + 1);
    fixture_open(&f);
    trial_pass(&f, &t);
    fixture_close(&f);
}
