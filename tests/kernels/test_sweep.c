/* SPDX-License-Identifier: Apache-2.0 */
/* The sweep: options x shapes x dtypes x layouts x families x tunables against the reference. A run
 * takes some rows of each family's covering array of options (option_pairs.h), drawn by a seed that
 * it prints; the runs of a few seeds in a row take every pair of options that the family has. The
 * seed is the day's number: what one day's runs have compiled the next one has at hand.
 * CLATTN_TEST_SEED=2 chooses one, CLATTN_TEST_SCALE=10 takes ten times as many rows,
 * CLATTN_TEST_FAMILY="backward_cpu UNIT=vector" leaves the others out. */
#include "families/registry.h"
#include "problem/problem.h"
#include "tests/support/families.h"
#include "tests/support/profiles.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/option_pairs.h"
#include "tests/trials/random_function.h"
#include "tests/trials/random_problem.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 64, SHAPES = 16 };

/* The number of rows that a run takes of a family, and of those that it compiles with
 * optimisation as users do. A program takes a second to compile, optimised three, and one for
 * gradients or matrix instructions several. */
struct share {
    size_t rows, optimised;
};

/* One family in twelve of a nightly run has a row with optimised programs, and the others in the next runs. */
static struct share share_of(const struct ca_family *family, const size_t number)
{
    if (!family_takes_f32(family->full_name)) /* split_gpu UNIT=item, and what is emulated */
        return (struct share){1, 0};
    return (struct share){1 + run_takes(number, 12), run_takes(number, 12)};
}

TestSuite(sweep, .timeout = 900);

/* The part of the sweep that a test runs: a family (by index), and how its rows are drawn and compiled. */
struct part {
    size_t family;
    uint64_t seed;
    int optimised;
};

ParameterizedTestParameters(sweep, part) {
    static struct part parts[MOST_PARTS];
    const char *only = getenv("CLATTN_TEST_FAMILY");
    const uint64_t seed = run_seed();
    const struct ca_family *family;
    size_t count = 0;

    for (int optimised = 1; optimised >= 0; optimised--)
        for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++)
            if (family->operation <= CLATTN_BACKWARD && count < MOST_PARTS &&
                (!optimised || share_of(family, n).optimised > 0) &&
                (only && only[0] ? strcmp(only, family->full_name) == 0
                                 : optimised || run_takes(n, 2)))
                parts[count++] = (struct part){n, seed, optimised};
    fprintf(stderr, "sweep/part: CLATTN_TEST_SEED=%" PRIu64 " repeats it\n", seed);
    return cr_make_param_array(struct part, parts, count);
}

/* A row on some shapes, few where instructions are emulated; most of them must be what the family takes with the row's
 * tunables. */
static void sweep(struct fixture *f, struct rng *r, const struct problem_kind *kind)
{
    const size_t shapes = family_takes_f32(kind->family->full_name) ? SHAPES : SHAPES / 8;
    size_t passed = 0;

    for (size_t n = 0; n < SHAPES && passed < shapes; n++) {
        struct trial t = {.problem = random_shape(r, kind),
                          .family = kind->family->full_name,
                          .seed = rng_next(r)};
        const clattn_plan_options options = {
            .struct_size = sizeof options, .family = t.family, .tunables = kind->tunables};
        memcpy(t.tunables, kind->tunables, sizeof t.tunables);
        if (clattn_plan_supports(f->context, &t.problem, &options) != CLATTN_SUCCESS)
            continue;
        trial_pass(f, &t);
        passed++;
    }
    cr_assert(passed >= shapes / 2, "%s with '%s' took only %zu of the shapes",
              kind->family->full_name, kind->tunables, passed);
}

/* Returns whether PoCL, which without optimisation keeps every value of every item on a worker's
 * stack of 8 MiB, has room for the row's work-groups: it was seen to take up to 86 times what an
 * item keeps throughout. */
static int fits_unoptimised(const struct problem_kind *row, const clattn_device_info *device)
{
    const struct ca_problem p = ca_problem_own(&row->base);

    return !row->family->private_bytes ||
           fixture_group_items(row->family, &p, row->values, device) *
                   row->family->private_bytes(&p, row->values) <=
               (8 << 20) / 86;
}

ParameterizedTest(struct part *part, sweep, part) {
    static struct problem_kind rows[PAIRS_MOST_ROWS];
    const uint64_t scale = run_number("CLATTN_TEST_SCALE", 1);
    const struct ca_family *family = ca_family_at(part->family);
    const struct share share = share_of(family, part->family);
    struct rng r = rng_seed(part->seed * 1000003 + part->family * 2 + (uint64_t)part->optimised);
    struct fixture f;

    if (!part->optimised)
        unoptimised();
    fixture_open(&f);
    fixture_need_groups_of(&f, family->full_name);
    const clattn_device_info *device = clattn_context_device(f.context);
    const size_t runs =
        option_pairs_runs(option_pairs(family, device, 0, rows), share.rows * (size_t)scale);
    const size_t count = option_pairs(family, device, part->seed / runs * 101 + part->family, rows);
    for (size_t n = part->seed % runs, taken = 0; n < count; n += runs, taken++)
        if ((taken < share.optimised) == part->optimised &&
            (part->optimised || fits_unoptimised(&rows[n], device)))
            sweep(&f, &r, &rows[n]);
    fixture_close(&f);
}

/* Every pair of options that a family takes alone is in its array, whatever the seed. An array
 * is not much longer than it must be. No device is needed, only facts of several. */
Test(sweep, every_pair_has_its_row) {
    static const char *const profiles[] = {"sm_90", "minimum"};
    static struct problem_kind rows[PAIRS_MOST_ROWS];
    const struct ca_family *family;

    for (size_t d = 0; d < sizeof profiles / sizeof *profiles; d++) {
        const struct profile profile = profile_named(profiles[d]);
        for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++) {
            if (family->operation > CLATTN_BACKWARD || !run_takes(n + d, 1))
                continue;
            if (family->ptx_target && profile.info.max_work_group_size < 128)
                continue; /* a warpgroup */
            const size_t count = option_pairs(family, &profile.info, 7 + n, rows);
            const struct pairs_missing found =
                option_pairs_missing(family, &profile.info, rows, count);
            cr_expect(count > 0 && found.pairs > 500, "%s on %s: %zu rows, %zu pairs",
                      family->full_name, profiles[d], count, found.pairs);
            cr_expect(found.missing == 0, "%s on %s: %zu of %zu pairs in no row: %s",
                      family->full_name, profiles[d], found.missing, found.pairs, found.first);
            cr_expect(count <= 56, "%s on %s: %zu rows", family->full_name, profiles[d], count);
        }
    }
}

/* Problems for the ways in which split_cpu UNIT=vector holds rows in registers. There are rows
 * in every kind of vector, some of them not in use, and one row whose keys are read in place.
 * Columns are divided by no vector, and keys end inside tiles. One part has no keys (causal=tl):
 * only that fact of it may be read, since the workspace holds NaN. A run takes every third row,
 * as each is a program. */
static const struct {
    const char *problem, *tunables;
} splits[] = {
    {"fwd f32 h8/2 q5 k77 d64/48 causal=br",
     "SIMD_WIDTH=16 BLOCK_M=32 QK_ROWS=16 QK_DEPTH=4 PV_ROWS=2 PV_VECTORS=3 BLOCK_N=16 SPLIT_K=2"},
    {"fwd f32 h8/2 q5 k77 d64/48 causal=tl",
     "SIMD_WIDTH=16 BLOCK_M=32 QK_ROWS=16 QK_DEPTH=4 PV_ROWS=2 PV_VECTORS=3 BLOCK_N=16 SPLIT_K=2"},
    {"fwd f16 h4/1 q3 k70 d40/21 window=1,0 sinks klen lse",
     "SIMD_WIDTH=16 BLOCK_M=16 QK_ROWS=8 QK_DEPTH=4 STAGE_K=1 PV_ROWS=4 PV_VECTORS=4 BLOCK_N=32 "
     "SPLIT_K=1"},
    {"fwd bf16 h6/2 q3 k45 d24 mask=qk alibi",
     "SIMD_WIDTH=8 BLOCK_M=8 QK_ROWS=4 QK_DEPTH=4 STAGE_K=1 PV_ROWS=2 PV_VECTORS=3 BLOCK_N=16 "
     "SPLIT_K=1"},
    {"fwd f32 h4/1 q1 k90 d64 kcache=q8_0 vcache=q4_0 klen",
     "SIMD_WIDTH=16 BLOCK_M=4 QK_ROWS=4 QK_DEPTH=4 STAGE_K=1 PV_ROWS=4 PV_VECTORS=4 BLOCK_N=32 "
     "SPLIT_K=2"},
    {"fwd f32 h4/1 q2 k90 d40/21 kcache=f16 vcache=bf16 klen",
     "SIMD_WIDTH=8 BLOCK_M=8 QK_ROWS=4 QK_DEPTH=4 STAGE_K=1 PV_ROWS=4 PV_VECTORS=2 BLOCK_N=16 "
     "SPLIT_K=2"},
    {"fwd f16 h2 q2 k50 d19 kcache=f32 vcache=f32 lse",
     "SIMD_WIDTH=8 BLOCK_M=2 QK_ROWS=2 QK_DEPTH=8 PV_ROWS=2 PV_VECTORS=2 BLOCK_N=16 SPLIT_K=2"},
    {"fwd f32 h2 q1 k150 d40/21 klen lse",
     "SIMD_WIDTH=16 BLOCK_M=1 QK_ROWS=1 QK_DEPTH=16 PV_ROWS=1 PV_VECTORS=2 BLOCK_N=64 SPLIT_K=2"},
    {"fwd f32 h2 q1 k150 d64 page=32 pages=9 klen",
     "SIMD_WIDTH=8 BLOCK_M=1 QK_ROWS=1 QK_DEPTH=8 PV_ROWS=1 PV_VECTORS=8 BLOCK_N=32 SPLIT_K=2"},
    {"fwd f32 h2 q2 k50 d19 sinks lse k=90.3000.50.1",
     "SIMD_WIDTH=8 BLOCK_M=2 QK_ROWS=2 QK_DEPTH=8 PV_ROWS=2 PV_VECTORS=2 BLOCK_N=16 SPLIT_K=2"},
    /* Keys that are converted as they are read: by one register tile, by one row, by two register tiles, from
     * pages. */
    {"fwd f16 h4/1 q1 k90 d40/21 klen", "SIMD_WIDTH=8 BLOCK_M=4 QK_ROWS=4 QK_DEPTH=8 STAGE_K=0 "
                                        "PV_ROWS=4 PV_VECTORS=2 BLOCK_N=32 SPLIT_K=2"},
    {"fwd bf16 h2 q1 k150 d64 klen lse", "SIMD_WIDTH=8 BLOCK_M=1 QK_ROWS=1 QK_DEPTH=8 STAGE_K=0 "
                                         "PV_ROWS=1 PV_VECTORS=8 BLOCK_N=64 SPLIT_K=2"},
    {"fwd f16 b2 h4/1 q2 k96 d96/64 kcache=q4_0 vcache=q8_0 mask=bqk maskkeys=21",
     "SIMD_WIDTH=16 BLOCK_M=8 QK_ROWS=4 QK_DEPTH=16 STAGE_K=0 PV_ROWS=4 PV_VECTORS=4 BLOCK_N=32 "
     "SPLIT_K=2"},
    {"fwd f32 b3 h2 q1 k90 d64 kcache=q8_0 vcache=f16 page=16 pages=25 klen",
     "SIMD_WIDTH=8 BLOCK_M=1 QK_ROWS=1 QK_DEPTH=8 STAGE_K=0 PV_ROWS=1 PV_VECTORS=8 BLOCK_N=32 "
     "SPLIT_K=2"},
    /* Kv heads that take turns, the last work-item with fewer of them: staged and not, from pages with and without
     * lists, quantized. */
    {"fwd f16 b2 h6/3 q2 k90 d40/21 k=bshd v=bshd klen causal=br lse",
     "SIMD_WIDTH=8 BLOCK_M=4 QK_ROWS=4 QK_DEPTH=4 STAGE_K=1 PV_ROWS=2 PV_VECTORS=2 BLOCK_N=16 "
     "SPLIT_K=2 "
     "KV_HEADS=2"},
    {"fwd f32 h5 q1 k150 d64 k=bshd v=bshd alibi", "SIMD_WIDTH=8 BLOCK_M=1 QK_ROWS=1 QK_DEPTH=8 "
                                                   "PV_ROWS=1 PV_VECTORS=8 BLOCK_N=64 SPLIT_K=2 "
                                                   "KV_HEADS=5"},
    {"fwd f16 b3 h4/4 q1 k90 d64 k=bshd v=bshd page=16 pages=25 klen window=50,0 sinks",
     "SIMD_WIDTH=16 BLOCK_M=1 QK_ROWS=1 QK_DEPTH=16 STAGE_K=0 PV_ROWS=1 PV_VECTORS=4 BLOCK_N=32 "
     "SPLIT_K=2 KV_HEADS=3"},
    {"fwd bf16 b2 h8/4 q1 k96 d64 k=bshd v=bshd page=32 pages=9 klen",
     "SIMD_WIDTH=8 BLOCK_M=2 QK_ROWS=2 QK_DEPTH=8 STAGE_K=0 PV_ROWS=2 PV_VECTORS=4 BLOCK_N=32 "
     "PREFETCH_TILES=2 SPLIT_K=1 KV_HEADS=4"},
    {"fwd f32 h4/2 q2 k90 d64 kcache=q8_0 vcache=q4_0 k=bshd v=bshd klen",
     "SIMD_WIDTH=16 BLOCK_M=4 QK_ROWS=4 QK_DEPTH=4 STAGE_K=1 PV_ROWS=4 PV_VECTORS=4 BLOCK_N=32 "
     "SPLIT_K=2 KV_HEADS=2"},
    {"fwd f16 h4/4 q1 k300 d64 k=bshd v=bshd mask=bhqk",
     "SIMD_WIDTH=8 BLOCK_M=1 QK_ROWS=1 QK_DEPTH=8 "
     "STAGE_K=0 PV_ROWS=1 PV_VECTORS=8 BLOCK_N=16 SPLIT_K=2 KV_HEADS=4"},
    {"fwd f32 b2 h4/2 q1 k90 d64 k=bshd v=bshd page=16 pages=25 bias=f16:bhqk",
     "SIMD_WIDTH=8 BLOCK_M=2 QK_ROWS=2 QK_DEPTH=8 PV_ROWS=2 PV_VECTORS=4 BLOCK_N=16 SPLIT_K=2 "
     "KV_HEADS=2"},
};

Test(sweep, splits) {
    struct fixture f;

    fixture_open(&f);
    for (size_t n = run_seed() % 3; n < sizeof splits / sizeof *splits; n += 3) {
        struct trial t = {.problem = fixture_problem(splits[n].problem),
                          .family = "split_cpu UNIT=vector",
                          .seed = n + 1};
        snprintf(t.tunables, sizeof t.tunables, "%s", splits[n].tunables);
        trial_pass(&f, &t);
    }
    fixture_close(&f);
}

/* The mask of the last keys alone hides keys, without lengths or windows that would. */
Test(sweep, masks_of_the_last_keys) {
    struct fixture f;

    fixture_open(&f);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct trial t = {.problem = fixture_problem("fwd f32 h2 q6 k40 d16 mask=qk maskkeys=20"),
                          .family = "unfused_lanes",
                          .seed = seed};
        trial_pass(&f, &t);
    }
    fixture_close(&f);
}

/* Rows of halves at odd places: PoCL's vload_half faults there in optimised code. */
Test(sweep, halves_anywhere) {
    static const struct {
        const char *problem, *family, *tunables;
    } cases[] = {
        {"fwd f16 h3 q2 k17 d257", "split_cpu UNIT=vector", ""},
        {"fwd f16 h3 q2 k17 d257", "split_cpu UNIT=vector",
         "SIMD_WIDTH=8 BLOCK_M=2 QK_ROWS=2 QK_DEPTH=8 PV_ROWS=2 PV_VECTORS=2 BLOCK_N=16"},
        {"fwd f16 h3 q33 k65 d59/17", "fused_cpu UNIT=vector", ""},
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

/* Stages that are copied while others are multiplied (cl/gpu/tile_copy.h): rows that are aligned and not, tiles that
 * end within, in which infinities of V are hidden, and several tiles. */
Test(sweep, two_stages) {
    static const struct {
        const char *problem, *family, *tunables;
    } cases[] = {
        {"fwd f32 h2 q19 k70 d16 causal=tl lse", "fused_gpu UNIT=item",
         "STAGES=2 Q_RESIDENT=0 BLOCK_M=16 BLOCK_N=16 THREADS_N=4 THREAD_M=4 BLOCK_K=8 STAGE_N=8"},
        {"fwd f32 h2/1 q19 k70 d16 causal=tl lse v=2310.2310.33.2", "fused_gpu UNIT=item",
         "STAGES=2 Q_RESIDENT=0 BLOCK_M=16 BLOCK_N=16 THREADS_N=4 THREAD_M=4 BLOCK_K=8 STAGE_N=8"},
        {"bwd f32 h2/1 q35 k40 d12/16 klen", "backward_gpu UNIT=item",
         "STAGES=2 OWNED_RESIDENT=1 BLOCK_OWNED=16 BLOCK_STREAMED=16 THREADS_N=4 THREAD_M=4 "
         "BLOCK_K=8 STAGE_N=8"},
    };
    struct fixture f;

    unoptimised();
    fixture_open(&f);
    fixture_need_groups(&f);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct trial t = {
            .problem = fixture_problem(cases[n].problem), .family = cases[n].family, .seed = n + 1};
        snprintf(t.tunables, sizeof t.tunables, "%s", cases[n].tunables);
        if (t.problem.operation == CLATTN_FORWARD)
            trial_pass_with_infinities(&f, &t);
        else
            trial_pass(&f, &t);
    }
    fixture_close(&f);
}

/* One problem of the user's, or of a failure's message. */
Test(sweep, one) {
    const char *text = getenv("CLATTN_TEST_PROBLEM"), *family = getenv("CLATTN_TEST_FAMILY");
    const char *tunables = getenv("CLATTN_TEST_TUNABLES");
    struct trial t = {.family = family && family[0] ? family : NULL, .seed = run_seed()};
    struct fixture f;

    if (!text && t.family)
        cr_skip_test("CLATTN_TEST_FAMILY is given, but no CLATTN_TEST_PROBLEM for it");
    if (text)
        trial_functions_named(text);
    t.problem = fixture_problem(text ? text : "fwd f32 b2 h4/2 q33 k65 d40 causal=br klen lse");
    if (tunables && strlen(tunables) < sizeof t.tunables)
        memcpy(t.tunables, tunables, strlen(tunables) + 1);
    fixture_open(&f);
    trial_pass(&f, &t);
    fixture_close(&f);
}
