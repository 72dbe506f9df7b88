/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench compare: ratios of what was measured apart, devices and problems that belong
 * together, regressions. */
#include "bench/records/comparison.h"
#include "bench/records/shift.h"
#include "tests/bench/run_example.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BERT "fwd f32 b1 h12 q512 d64"
#define LLAMA "fwd f16 b1 h32/8 q512 d128 causal=br"

/* ---- ratios ---------------------------------------------------------------------------------- */

/* The ranks are one more than the critical values of the Mann-Whitney test for 5 % on both
 * sides. Those of tables are taken, and for longer series those of counting with whole numbers. */
Test(bench_compare, ranks_are_those_of_the_tables) {
    static const struct {
        size_t a, b, rank;
    } known[] = {{3, 3, 0},     {3, 4, 0},    {3, 5, 1},      {2, 7, 0},       {2, 8, 1},
                 {4, 4, 1},     {5, 5, 3},    {6, 6, 6},      {7, 7, 9},       {8, 8, 14},
                 {5, 20, 21},   {10, 10, 24}, {1, 40, 1},     {1, 38, 0},      {15, 15, 65},
                 {20, 20, 128}, {1, 1, 0},    {60, 80, 1935}, {100, 100, 4198}};

    for (size_t n = 0; n < sizeof known / sizeof *known; n++) {
        cr_assert(eq(sz, shift_rank(known[n].a, known[n].b), known[n].rank), "%zu, %zu", known[n].a,
                  known[n].b);
        cr_assert(eq(sz, shift_rank(known[n].b, known[n].a), known[n].rank), "%zu, %zu", known[n].b,
                  known[n].a);
    }
}

Test(bench_compare, a_ratio_is_the_middle_of_all_pairs) {
    const struct samples a = {{6.0, 3.0, 5.0, 4.0}, 4}, b = {{1.0, 1.0, 1.0, 2.0}, 4};
    const struct samples few = {{1.0, 2.0}, 2};
    struct ca_interval ratio;

    /* 1.5, 2, 2.5, 3 and three times each of 3, 4, 5, 6 */
    cr_assert(shift_ratio(&a, &b, &ratio));
    cr_assert(epsilon_eq(dbl, ratio.middle, 4.0, 1e-12));
    cr_assert(eq(dbl, ratio.low, 1.5));
    cr_assert(eq(dbl, ratio.high, 6.0));
    cr_assert(not(shift_ratio(&a, &few, &ratio)));
    cr_assert(eq(dbl, ratio.low, 1.5));
    cr_assert(eq(dbl, ratio.high, 6.0));
}

/* Times with a floor, a tail, and one in ten disturbed. */
static void draw(struct samples *samples, size_t count, double scale, struct rng *random)
{
    samples->count = 0;
    for (size_t n = 0; n < count; n++) {
        double time = 1.0 - 0.04 * log(rng_uniform(random, 1e-6, 1.0));
        if (rng_one_in(random, 10))
            time *= rng_uniform(random, 1.0, 3.0);
        samples_add(samples, time * scale);
    }
}

Test(bench_compare, alarms_are_false_in_five_of_a_hundred_cases_at_most) {
    static const size_t counts[][2] = {{4, 4}, {7, 7}, {7, 15}, {20, 20}};
    const size_t times = 2000;
    struct rng random = rng_seed(3);

    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        size_t alarms = 0, found = 0;
        for (size_t t = 0; t < times; t++) {
            struct samples a, b;
            struct ca_interval ratio;
            draw(&a, counts[n][0], 1.0, &random);
            draw(&b, counts[n][1], 1.0, &random);
            cr_assert(shift_ratio(&b, &a, &ratio));
            alarms += ratio.low > 1.0 || ratio.high < 1.0;
            for (size_t s = 0; s < b.count; s++)
                b.value[s] *= 1.1;
            cr_assert(shift_ratio(&b, &a, &ratio));
            found += ratio.low > 1.0;
        }
        cr_assert(le(sz, alarms, times * 5 / 100), "%zu of %zu with %zu and %zu samples", alarms,
                  times, counts[n][0], counts[n][1]);
        /* What is 10 % slower is seen, the more surely the more samples there are. */
        cr_assert(ge(sz, found,
                     times *
                         (counts[n][0] == 4   ? 40
                          : counts[n][1] < 20 ? 70
                                              : 95) /
                         100),
                  "%zu of %zu with %zu and %zu samples", found, times, counts[n][0], counts[n][1]);
    }
}

/* ---- what belongs together ------------------------------------------------------------------- */

static const struct comparison_options plain = {.implementation = "clattn", .threshold = 0.05};

static struct rng random_numbers = {5};

static void lose(struct outcome *outcome, enum outcome_state state)
{
    outcome_give_up(outcome, state, "for a reason");
    if (state != OUTCOME_WRONG)
        outcome->worst.results = 0;
}

/* The two files of a test, and what comes of them. */
static struct run_results files[2];
static struct comparison c;

static void free_all(void)
{
    comparison_free(&c);
    for (size_t n = 0; n < 2; n++)
        results_free(&files[n]);
}

TestSuite(bench_compare, .fini = free_all);

/* The only device of file f. */
static struct device_run *begin(size_t f)
{
    example_begin(&files[f]);
    return example_device(&files[f], "device", "platform");
}

/* Its rows. */
static const struct comparison_row *compare(const struct comparison_options *options)
{
    struct message why;

    comparison_free(&c);
    cr_assert(comparison_open(&c, files, 2, options, &why), "%s", why.text);
    return c.groups[0].rows;
}

Test(bench_compare, verdicts_need_the_whole_interval) {
    static const struct {
        double factor;
        enum verdict verdict;
    } cases[] = {
        {1.0, VERDICT_SAME},    {1.03, VERDICT_SAME},  {1.051, VERDICT_SAME},
        {1.1, VERDICT_SLOWER},  {0.953, VERDICT_SAME}, {0.85, VERDICT_FASTER},
        {30.0, VERDICT_SLOWER},
    };
    const size_t count = sizeof cases / sizeof *cases;
    char problem[32];

    for (size_t f = 0; f < 2; f++) {
        struct device_run *run = begin(f);
        for (size_t n = 0; n < count; n++) {
            snprintf(problem, sizeof problem, "fwd f32 q%zu d8", n + 1);
            example_solved(run, "", problem, 1e-3 * (f == 1 ? cases[n].factor : 1.0));
        }
    }
    strcpy(files[1].devices[0].info.driver_version, "a newer one");
    compare(&plain);
    cr_assert(eq(sz, c.num_groups, 1));
    cr_assert(eq(sz, c.groups[0].num_rows, count));
    double product = 1.0;
    for (size_t n = 0; n < count; n++) {
        const struct comparison_cell *cell = &c.groups[0].rows[n].cell[1];
        cr_assert(eq(int, cell->verdict, cases[n].verdict), "%g: %g from %g to %g", cases[n].factor,
                  cell->ratio.middle, cell->ratio.low, cell->ratio.high);
        cr_assert(epsilon_eq(dbl, cell->ratio.middle, cases[n].factor, 0.02 * cases[n].factor));
        product *= cell->ratio.middle;
    }
    cr_assert(eq(sz, comparison_regressions(&c), 2));
    const struct comparison_mean mean = comparison_mean(&c, NULL, 1);
    cr_assert(eq(sz, mean.count, count));
    cr_assert(epsilon_eq(dbl, mean.ratio, pow(product, 1.0 / (double)count), 1e-9));
    cr_assert(eq(sz, comparison_mean(&c, NULL, 0).count, 0));
}

Test(bench_compare, what_was_measured_and_is_no_more_is_a_regression) {
    static const struct {
        enum outcome_state state;
        enum verdict verdict;
    } lost[] = {{OUTCOME_UNSUPPORTED, VERDICT_UNSUPPORTED},
                {OUTCOME_WRONG, VERDICT_WRONG},
                {OUTCOME_FAILED, VERDICT_FAILED}};
    char problem[32];

    for (size_t f = 0; f < 2; f++) {
        struct device_run *run = begin(f);
        for (size_t n = 0; n < 3; n++) {
            snprintf(problem, sizeof problem, "fwd f32 q%zu d8", n + 1);
            struct outcome *outcome = example_solved(run, "", problem, 1e-3);
            if (f == 1)
                lose(outcome, lost[n].state);
        }
        struct outcome *outcome = example_solved(run, "", "fwd f16 q1 d8", 1e-3);
        if (f == 1)
            outcome->state = OUTCOME_LOOSE;
        outcome = example_solved(run, "", "fwd bf16 q1 d8",
                                 1e-3); /* failed before: it only gets better */
        if (f == 0)
            lose(outcome, OUTCOME_FAILED);
        example_solved(run, "", f == 0 ? "fwd f32 q99 d8" : "fwd f32 q100 d8", 1e-3);
    }
    const struct comparison_row *rows = compare(&plain);
    cr_assert(eq(sz, c.groups[0].num_rows, 7));
    for (size_t n = 0; n < 3; n++) {
        cr_assert(eq(int, rows[n].cell[1].verdict, lost[n].verdict));
        cr_assert(isnan(rows[n].cell[1].seconds));
    }
    cr_assert(eq(int, rows[3].cell[1].verdict, VERDICT_LOOSE));
    cr_assert(rows[3].cell[1].compared);
    cr_assert(eq(int, rows[4].cell[1].verdict, VERDICT_NONE));
    cr_assert(eq(int, rows[5].cell[1].verdict, VERDICT_MISSING));
    cr_assert(eq(int, rows[6].cell[1].verdict, VERDICT_NONE)); /* new */
    cr_assert(eq(sz, comparison_regressions(&c), 5));
}

Test(bench_compare, problems_belong_together_by_text_and_first_by_name) {
    for (size_t f = 0; f < 2; f++) {
        struct device_run *run = begin(f);
        example_solved(run, f == 0 ? "first" : "third", BERT, f == 0 ? 1e-3 : 3e-3);
        example_solved(run, f == 0 ? "second" : "first", BERT, f == 0 ? 2e-3 : 1e-3);
        example_solved(run, f == 0 ? "named" : "renamed", LLAMA, 1e-3);
    }
    const struct comparison_row *rows = compare(&plain);
    cr_assert(eq(sz, c.groups[0].num_rows, 3));
    cr_assert(eq(str, (char *)rows[0].cell[1].record->name, (char *)"first"));
    cr_assert(eq(str, (char *)rows[1].cell[1].record->name, (char *)"third"));
    cr_assert(epsilon_eq(dbl, rows[0].cell[1].ratio.middle, 1.0, 0.02));
    cr_assert(epsilon_eq(dbl, rows[1].cell[1].ratio.middle, 1.5, 0.03));
    cr_assert(eq(str, (char *)rows[2].name, (char *)"named"));
    cr_assert(eq(str, (char *)rows[2].cell[1].record->name, (char *)"renamed"));
}

/* The n-th device of a file; `name` NULL ends the list. */
struct machine {
    const char *name, *platform;
    unsigned units;
};

static void add_machines(struct run_results *results, const struct machine *machines,
                         double seconds)
{
    example_begin(results);
    for (; machines->name != NULL; machines++) {
        struct device_run *run = example_device(results, machines->name, machines->platform);
        run->info.compute_units = machines->units;
        example_solved(run, "", BERT, seconds);
    }
}

Test(bench_compare, devices_belong_together_by_name_platform_and_units) {
    static const struct {
        struct machine before[4], after[4];
        size_t groups, regressions; /* all is 20 % slower */
        bool other;
    } cases[] = {
        {{{"a", "x", 2}, {"b", "x", 2}}, {{"b", "x", 2}, {"a", "x", 2}}, 2, 2, false},
        {{{"a", "x", 2}, {"b", "x", 2}}, {{"b", "x", 2}}, 2, 2, false}, /* one is missing */
        {{{"a", "x", 2}}, {{"a", "x", 2}, {"b", "x", 2}}, 2, 1, false}, /* one is new */
        {{{"a", "x", 2}, {"a", "x", 2}}, {{"a", "x", 2}, {"a", "x", 2}}, 2, 2, false}, /* twins */
        {{{"a", "x", 2}}, {{"a", "x", 4}}, 1, 0, true},
        {{{"a", "x", 2}}, {{"b", "x", 2}}, 1, 0, true},
        {{{"a", "x", 2}}, {{"b", "y", 2}}, 1, 0, true}, /* the only ones */
        {{{"a", "x", 2}, {"b", "y", 2}}, {{"c", "y", 2}, {"d", "x", 2}}, 2, 0, true},
        {{{"a", "x", 2}, {"b", "y", 2}}, {{"c", "z", 2}}, 3, 2, false},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        add_machines(&files[0], cases[n].before, 1e-3);
        add_machines(&files[1], cases[n].after, 1.2e-3);
        compare(&plain);
        cr_assert(eq(sz, c.num_groups, cases[n].groups), "case %zu", n);
        cr_assert(eq(sz, comparison_regressions(&c), cases[n].regressions), "case %zu", n);
        cr_assert(eq(int, c.groups[0].other[1], cases[n].other), "case %zu", n);
        if (cases[n].other) { /* the ratio is shown all the same */
            const struct comparison_cell *cell = &c.groups[0].rows[0].cell[1];
            cr_assert(cell->compared);
            cr_assert(epsilon_eq(dbl, cell->ratio.middle, 1.2, 0.03));
            if (n != 6)
                cr_assert(strcmp(c.groups[0].run[0]->info.platform_name,
                                 c.groups[0].run[1]->info.platform_name) == 0);
        }
    }
}

/* The clock fell by a third for peaks and problems alike: times are longer, shares are not. */
Test(bench_compare, shares_do_not_see_what_slowed_the_whole_machine) {
    struct comparison_options options = plain;

    for (size_t f = 0; f < 2; f++) {
        struct device_run *run = begin(f);
        run->peaks.fma[PEAK_F32].value[0] = f == 0 ? 500.0 : 500.0 / 1.5;
        example_solved(run, "", BERT, f == 0 ? 4e-3 : 6e-3);
        struct record *record = &run->records[0];
        for (size_t n = 0; f == 1 && n < record->share.count; n++)
            record->share.value[n] *= 1.5;
        example_outcome(record, "CLBlast", f == 0 ? 8e-3 : 18e-3, 0.01, 9, &random_numbers);
        record->roof = ROOF_FMA;
        example_solved(run, "", LLAMA, f == 0 ? 4e-3 : 6e-3);
        run->records[1].roof = f == 0 ? ROOF_FMA : ROOF_READ; /* between the roofs */
    }
    compare(&plain);
    cr_assert(eq(sz, comparison_regressions(&c), 2));
    options.by_share = true;
    compare(&options);
    for (size_t n = 0; n < 2; n++) {
        const struct comparison_cell *cells = c.groups[0].rows[n].cell;
        cr_assert(epsilon_eq(dbl, cells[0].share, 0.5, 0.01));
        cr_assert(epsilon_eq(dbl, cells[1].share, 0.5, 0.01));
        cr_assert(epsilon_eq(dbl, cells[1].ratio.middle, 1.0, 0.02));
        cr_assert(eq(int, cells[1].verdict, VERDICT_SAME));
    }
    options.implementation = "CLBlast"; /* twice as slow as the clock says, then three times */
    compare(&options);
    cr_assert(eq(sz, c.groups[0].num_rows, 1)); /* it was asked for one problem only */
    cr_assert(epsilon_eq(dbl, c.groups[0].rows[0].cell[0].share, 0.25, 0.01));
    cr_assert(epsilon_eq(dbl, c.groups[0].rows[0].cell[1].ratio.middle, 1.5, 0.03));
    cr_assert(eq(int, c.groups[0].rows[0].cell[1].verdict, VERDICT_SLOWER));
}

Test(bench_compare, too_few_samples_are_no_verdict) {
    for (size_t f = 0; f < 2; f++) {
        struct device_run *run = begin(f);
        example_outcome(example_record(run, "", BERT), "clattn", f == 0 ? 1e-3 : 2e-3, 0.01,
                        f == 0 ? 9 : 1, &random_numbers);
    }
    compare(&plain);
    cr_assert(eq(int, c.groups[0].rows[0].cell[1].verdict, VERDICT_FEW));
    cr_assert(epsilon_eq(dbl, c.groups[0].rows[0].cell[1].ratio.middle, 2.0, 0.1));
    cr_assert(eq(sz, comparison_regressions(&c), 0));
}
