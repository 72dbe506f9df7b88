/* SPDX-License-Identifier: Apache-2.0 */
/* The choice without measuring: the order of clattn/tuning.h, what is passed over at every door,
 * and the flags of a plan. Only the last tests build programs. */
#include "create/choose.h"
#include "families/candidate.h"
#include "os/process.h"
#include "problem/classes/problem_class.h"
#include "problem/problem.h"
#include "store/shipped.h"
#include "store/store.h"
#include "tests/support/fixture.h"
#include "tests/support/tables.h"
#include <clattn/tuning.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char problem_text[] = "fwd f32 h2 q128 k128 d32";

/* A candidate that fits every device and is no default; tests tell them apart by THREADS_N. */
static struct ca_candidate candidate(const struct fixture *f, size_t group_x)
{
    const clattn_problem p = fixture_problem(problem_text);
    char text[128];

    snprintf(text, sizeof text,
             "unfused THREADS_N=%zu THREADS_M=1 THREAD_N=4 VECTOR_WIDTH=4 BLOCK_K=8", group_x);
    return table_candidate(text, &p, &f->context->device);
}

/* ---- filling the doors ----------------------------------------------------------------------- */

static void put(struct fixture *f, const char *problem, const struct ca_entry *entry)
{
    const clattn_problem p = fixture_problem(problem);
    char text[CA_CLASS_TEXT];

    clattn_problem_class(&p, text, CA_CLASS_TEXT, NULL);
    cr_assert(ca_store_put(f->context->store, text, entry, 1) == CLATTN_SUCCESS);
}

/* Puts a candidate into the store's class of a problem. */
static void store(struct fixture *f, const char *problem, size_t group_x, double seconds)
{
    const struct ca_candidate c = candidate(f, group_x);
    struct made_entry made;

    put(f, problem, table_entry_of(&made, &c, seconds));
}

static void store_stale(struct fixture *f, const char *problem, size_t group_x, double seconds)
{
    const struct ca_candidate c = candidate(f, group_x);
    struct made_entry made;

    table_entry_of(&made, &c, seconds);
    table_stale(&made);
    put(f, problem, &made.entry);
}

/* A table of this device with one class of one entry; the caller frees it. */
static struct ca_table small_table(struct fixture *f, const char *problem,
                                   const struct ca_candidate *c, const char *driver)
{
    const clattn_problem p = fixture_problem(problem);
    clattn_device_info info = f->context->device;
    struct ca_table table = {NULL, 0};
    struct made_entry made;
    char text[CA_CLASS_TEXT];

    snprintf(info.driver_version, sizeof info.driver_version, "%s", driver);
    clattn_problem_class(&p, text, CA_CLASS_TEXT, NULL);
    struct ca_device_table *device = ca_table_device(&table, &info, 1);
    cr_assert(
        ca_class_put(ca_device_table_make_class(device, text), table_entry_of(&made, c, 1.0)));
    return table;
}

/* Stores results of another driver of this device. */
static void store_of_driver(struct fixture *f, const char *problem, const struct ca_candidate *c,
                            const char *driver)
{
    struct ca_table table = small_table(f, problem, c, driver);
    size_t added;

    cr_assert(ca_store_merge(f->context->store, &table, &added) == CLATTN_SUCCESS && added == 1);
    ca_table_free(&table);
}

/* The shipped table; the text must live as long as the context. */
static char *ship(struct fixture *f, const char *problem, const struct ca_candidate *c)
{
    struct ca_table table = small_table(f, problem, c, "a driver elsewhere");
    char *document = ca_table_print(&table);

    ca_table_free(&table);
    cr_assert(document != NULL && !f->context->shipped->parsed);
    f->context->shipped->document = document;
    return document;
}

/* As CLATTN_OVERRIDE says for all problems when a context is made. */
static void override(struct fixture *f, size_t group_x)
{
    const struct ca_candidate c = candidate(f, group_x);

    free(f->context->override);
    f->context->override = malloc(CA_CANDIDATE_TEXT);
    cr_assert(f->context->override != NULL);
    ca_candidate_print(&c, f->context->override);
}

static void ban(struct fixture *f, const char *problem, const struct ca_candidate *c)
{
    const clattn_problem given = fixture_problem(problem), p = ca_problem_normal(&given);

    ca_store_ban_candidate(f->context->store, c, &p, CA_QUARANTINE_WRONG, "");
}

/* ---- looking at choices ---------------------------------------------------------------------- */

static clattn_status choose(const struct fixture *f, const char *problem, unsigned flags,
                            struct ca_choices *choices)
{
    const clattn_plan_options options = {.struct_size = sizeof options,
                                         .flags = flags,
                                         .measure_seconds =
                                             flags & CLATTN_PLAN_MEASURE ? 1.0 : 0.0};
    const clattn_problem p = fixture_problem(problem);
    char reason[512] = "?";
    const struct ca_problem made = ca_problem_own(&p);
    const clattn_status status =
        ca_choose(f->context, &made, &options, choices, reason, sizeof reason);

    cr_assert((status == CLATTN_SUCCESS) == (choices->count > 0));
    cr_assert((status == CLATTN_SUCCESS) == (reason[0] == '\0'), "'%s'", reason);
    cr_assert(clattn_plan_supports(f->context, &p, &options) == status);
    if (status != CLATTN_SUCCESS)
        cr_assert(strncmp(clattn_context_last_error(f->context), reason, strlen(reason)) == 0,
                  "'%s' does not begin with '%s'", clattn_context_last_error(f->context), reason);
    return status;
}

/* The choices as letters for their origins and THREADS_N of unfused: "O1 E2 D". */
static const char *chosen(const struct fixture *f, const char *problem, unsigned flags)
{
    static const char letters[] = {
        [CA_FORCED] = 'F',  [CA_OVERRIDE] = 'O', [CA_EXACT] = 'E',  [CA_EXACT_STALE] = 'T',
        [CA_NEAREST] = 'N', [CA_SHIPPED] = 'S',  [CA_DEFAULT] = 'D'};
    static char text[512];
    struct ca_choices choices;
    size_t length = 0;

    text[0] = '\0';
    const clattn_status status = choose(f, problem, flags, &choices);
    if (status != CLATTN_SUCCESS)
        return clattn_status_string(status);
    for (size_t n = 0; n < choices.count; n++) {
        const struct ca_choice *choice = &choices.list[n];
        if (choice->origin != CA_DEFAULT)
            length += (size_t)snprintf(text + length, sizeof text - length, "%c%zu ",
                                       letters[choice->origin], choice->candidate.values[0]);
        else if (n == 0 || choices.list[n - 1].origin != CA_DEFAULT)
            length += (size_t)snprintf(text + length, sizeof text - length, "D");
        for (size_t m = 0; m < n; m++)
            cr_assert(!ca_candidates_equal(&choices.list[m].candidate, &choice->candidate));
    }
    return text;
}

static size_t is_chosen(const struct fixture *f, const char *problem, const struct ca_candidate *c)
{
    struct ca_choices choices;
    size_t found = 0;

    choose(f, problem, CLATTN_PLAN_DEFAULT, &choices);
    for (size_t n = 0; n < choices.count; n++)
        found += (size_t)ca_candidates_equal(&choices.list[n].candidate, c);
    return found;
}

/* ---- the order ------------------------------------------------------------------------------- */

DeviceTest(choose, nothing_is_known)
{
    cr_expect_str_eq(chosen(f, problem_text, CLATTN_PLAN_DEFAULT), "D");
    cr_expect_str_eq(chosen(f, problem_text, CLATTN_PLAN_UNTUNED), "D");
    cr_expect_str_eq(chosen(f, problem_text, CLATTN_PLAN_MEASURE), "D");
    cr_expect_str_eq(chosen(f, problem_text, CLATTN_PLAN_KNOWN_ONLY), "CLATTN_NOT_TUNED");
}

Test(choose, every_door_in_order) {
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups(&f);
    const struct ca_candidate last = candidate(&f, 32);
    char *document = ship(&f, problem_text, &last);
    store_of_driver(&f, problem_text, &last, "another driver");
    store(&f, "fwd f32 h2 q128 k256 d32", 8, 0.001);
    store_stale(&f, problem_text, 4, 0.002);
    store(&f, problem_text, 2, 0.003);
    store(&f, problem_text, 16, 0.004);
    override(&f, 1);
    cr_expect_str_eq(chosen(&f, problem_text, CLATTN_PLAN_DEFAULT), "O1 E2 E16 T4 T32 N8 D");
    cr_expect_str_eq(chosen(&f, problem_text, CLATTN_PLAN_MEASURE), "O1 E2 E16 T4 T32 N8 D");
    cr_expect_str_eq(chosen(&f, problem_text, CLATTN_PLAN_KNOWN_ONLY), "O1 E2 E16 T4 T32 ");
    cr_expect_str_eq(chosen(&f, problem_text, CLATTN_PLAN_UNTUNED), "S32 D");
    /* Another size of the class, and the class that was the nearest. */
    cr_expect_str_eq(chosen(&f, "fwd f32 h2 q120 k140 d32", CLATTN_PLAN_DEFAULT),
                     "O1 E2 E16 T4 T32 N8 D");
    cr_expect_str_eq(chosen(&f, "fwd f32 h2 q128 k256 d32", CLATTN_PLAN_DEFAULT),
                     "O1 E8 N2 N16 N4 D");
    /* One that comes through several doors counts at the first. */
    override(&f, 8);
    cr_expect_str_eq(chosen(&f, problem_text, CLATTN_PLAN_DEFAULT), "O8 E2 E16 T4 T32 D");
    fixture_close(&f);
    free(document);
}

/* Where a family that suits bf16 better cannot compute f16, results of f16 have not compared it with others. */
Test(choose, what_was_not_compared_advises_no_family) {
    static const char f16[] = "fwd f16 h2 q128 k128 d32", bf16[] = "fwd bf16 h2 q128 k128 d32";
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups(&f);
    clattn_device_info *dev = &f.context->device;
    dev->type = CL_DEVICE_TYPE_CPU;
    dev->vector_width_float = 16;
    dev->architecture[0] = '\0';
    const struct ca_candidate shipped = candidate(&f, 32);
    char *document = ship(&f, f16, &shipped);
    cr_expect_str_eq(chosen(&f, bf16, CLATTN_PLAN_DEFAULT), "S32 D");
    snprintf(dev->architecture, sizeof dev->architecture, "avx512_bf16");
    cr_expect_str_eq(chosen(&f, bf16, CLATTN_PLAN_DEFAULT), "D");
    store(&f, f16, 8, 0.001);
    cr_expect_str_eq(chosen(&f, bf16, CLATTN_PLAN_DEFAULT), "D");
    cr_expect_str_eq(chosen(&f, f16, CLATTN_PLAN_DEFAULT), "E8 D");
    dev->architecture[0] = '\0';
    cr_expect_str_eq(chosen(&f, bf16, CLATTN_PLAN_DEFAULT), "N8 D");
    fixture_close(&f);
    free(document);
}

DeviceTest(choose, the_nearest_class)
{
    fixture_need_groups(f);
    store(f, "fwd f32 h2 q1024 k128 d32", 2, 1); /* too far */
    cr_expect_str_eq(chosen(f, problem_text, CLATTN_PLAN_DEFAULT), "D");
    store(f, "fwd f32 h2 q512 k128 d32", 1, 1); /* 2 away */
    cr_expect_str_eq(chosen(f, problem_text, CLATTN_PLAN_DEFAULT), "N1 D");
    store(f, "fwd f32 h2 q256 k128 d32", 4, 1); /* 1 */
    cr_expect_str_eq(chosen(f, problem_text, CLATTN_PLAN_DEFAULT), "N4 D");
    store(f, "fwd f32 h2 q128 k128 d32 lse", 8, 1); /* less */
    cr_expect_str_eq(chosen(f, problem_text, CLATTN_PLAN_DEFAULT), "N8 D");
    cr_expect_str_eq(chosen(f, "fwd f32 h2 q128 k128 d32 scores=raw", CLATTN_PLAN_DEFAULT), "D",
                     "nothing carries over to where scores are wanted");
    cr_expect_str_eq(chosen(f, problem_text, CLATTN_PLAN_KNOWN_ONLY), "CLATTN_NOT_TUNED");
}

/* From the nearest class only those tunables carry over that tuning changed. Here it changed none, so the choice is the
 * default of the problem's own size. */
DeviceTest(choose, the_nearest_class_changed_nothing)
{
    const char *smaller = "fwd f32 h2 q256 k128 d32", *larger = "fwd f32 h2 q512 k128 d32";
    const clattn_problem small = fixture_problem(smaller), large = fixture_problem(larger);
    struct ca_choices choices;
    struct made_entry made;

    f->context->device.vector_width_float = 16;
    f->context->device.compute_units = 2;
    const struct ca_candidate there =
        table_candidate("fused_cpu UNIT=vector", &small, &f->context->device);
    const struct ca_candidate here =
        table_candidate("fused_cpu UNIT=vector", &large, &f->context->device);
    cr_assert(!ca_candidates_equal(&there, &here));
    put(f, smaller, table_entry_of(&made, &there, 1.0));
    cr_assert(choose(f, larger, CLATTN_PLAN_DEFAULT, &choices) == CLATTN_SUCCESS);
    cr_expect(choices.list[0].origin == CA_NEAREST);
    cr_expect(ca_candidates_equal(&choices.list[0].candidate, &here));
}

/* However much is known, what suits the device without tuning is among the choices: all that is
 * known may fail. */
DeviceTest(choose, defaults_are_never_crowded_out)
{
    const clattn_problem p = fixture_problem(problem_text);
    struct ca_choices untuned, choices;

    fixture_need_groups(f);
    if (f->context->device.local_memory_bytes < 256 << 10)
        cr_skip_test("less local memory than the largest of 36 choices takes");
    cr_assert(choose(f, problem_text, CLATTN_PLAN_DEFAULT, &untuned) == CLATTN_SUCCESS);
    for (size_t n = 0; n < 36; n++) {
        char text[128], driver[16];
        snprintf(text, sizeof text,
                 "unfused THREADS_N=%d THREADS_M=1 THREAD_N=4 VECTOR_WIDTH=4 BLOCK_K=%d",
                 1 << n % 6, 8 << n / 6);
        snprintf(driver, sizeof driver, "%zu", n);
        const struct ca_candidate c = table_candidate(text, &p, &f->context->device);
        store_of_driver(f, problem_text, &c, driver);
    }
    cr_assert(choose(f, problem_text, CLATTN_PLAN_DEFAULT, &choices) == CLATTN_SUCCESS);
    cr_expect(choices.count > CA_MAX_CHOICES - 8);
    for (size_t n = 0; n < untuned.count; n++)
        cr_expect(is_chosen(f, problem_text, &untuned.list[n].candidate) == 1, "default %zu", n);
}

/* ---- what is passed over --------------------------------------------------------------------- */

/* Each door alone is enough, and what is in quarantine is no choice at any, for all problems with the
 * same programs. */
Test(choose, one_door_at_a_time) {
    enum door { BY_OVERRIDE, BY_CLASS, BY_STALE, BY_DRIVER, BY_NEAR, BY_SHIPPED };
    static const char *const found[][2] = {/* by default, and if only what is known counts */
                                           [BY_OVERRIDE] = {"O8 D", "O8 "},
                                           [BY_CLASS] = {"E8 D", "E8 "},
                                           [BY_STALE] = {"T8 D", "T8 "},
                                           [BY_DRIVER] = {"T8 D", "T8 "},
                                           [BY_NEAR] = {"N8 D", "CLATTN_NOT_TUNED"},
                                           [BY_SHIPPED] = {"S8 D", "CLATTN_NOT_TUNED"}};
    struct fixture f;

    for (int door = BY_OVERRIDE; door <= BY_SHIPPED; door++) {
        char *document = NULL;
        ca_variable_set("CLATTN_OVERRIDE",
                        door == BY_OVERRIDE
                            ? "unfused THREADS_N=8 THREADS_M=1 THREAD_N=4 VECTOR_WIDTH=4 BLOCK_K=8"
                            : "");
        fixture_open(&f);
        fixture_need_groups(&f);
        const struct ca_candidate c = candidate(&f, 8);
        if (door == BY_CLASS)
            store(&f, problem_text, 8, 1);
        if (door == BY_STALE)
            store_stale(&f, problem_text, 8, 1);
        if (door == BY_DRIVER)
            store_of_driver(&f, problem_text, &c, "another driver");
        if (door == BY_NEAR)
            store(&f, "fwd f32 h2 q128 k256 d32", 8, 1);
        if (door == BY_SHIPPED)
            document = ship(&f, problem_text, &c);
        cr_expect_str_eq(chosen(&f, problem_text, CLATTN_PLAN_KNOWN_ONLY), found[door][1], "%d",
                         door);
        cr_expect_str_eq(chosen(&f, problem_text, CLATTN_PLAN_DEFAULT), found[door][0], "%d", door);
        ban(&f, "fwd f32 h3 q40 k9 d64", &c); /* another dim: other programs */
        cr_expect_str_eq(chosen(&f, problem_text, CLATTN_PLAN_DEFAULT), found[door][0], "%d", door);
        ban(&f, "fwd f32 h3 q40 k9 d32", &c);
        cr_expect_str_eq(chosen(&f, problem_text, CLATTN_PLAN_DEFAULT), "D", "%d", door);
        fixture_close(&f);
        free(document);
    }
}

/* Defaults too; what a caller forces is the caller's own will. */
DeviceTest(choose, quarantine_of_defaults)
{
    struct ca_choices choices;
    const clattn_problem p = fixture_problem(problem_text);

    cr_assert(choose(f, problem_text, CLATTN_PLAN_DEFAULT, &choices) == CLATTN_SUCCESS);
    const struct ca_choices all = choices;
    for (size_t n = 0; n < all.count; n++) {
        cr_assert(choose(f, problem_text, CLATTN_PLAN_DEFAULT, &choices) == CLATTN_SUCCESS);
        cr_assert(choices.count == all.count - n);
        cr_assert(ca_candidates_equal(&choices.list[0].candidate, &all.list[n].candidate));
        ban(f, problem_text, &all.list[n].candidate);
    }
    cr_expect(choose(f, problem_text, CLATTN_PLAN_DEFAULT, &choices) == CLATTN_UNSUPPORTED);
    cr_expect(choose(f, problem_text, CLATTN_PLAN_UNTUNED, &choices) == CLATTN_UNSUPPORTED);
    const clattn_plan_options forced = {.struct_size = sizeof forced,
                                        .family = all.list[0].candidate.family->full_name};
    cr_expect(clattn_plan_supports(f->context, &p, &forced) == CLATTN_SUCCESS);
}

/* Entries of families and tunables that are not there (any more). */
DeviceTest(choose, what_means_nothing)
{
    static const struct {
        const char *family, *tunables;
    } wrong[] = {
        {"magic", "THREADS_N=8"},
        {"fused_cpu", "UNIT=vector THREADS_N=8 THREADS_M=1 THREAD_N=4"}, /* another family's */
        {"unfused",
         "THREADS_N=7 THREADS_M=1 THREAD_N=4 THREAD_M=4 VECTOR_WIDTH=4 BLOCK_K=8 SWEEPS=1 "
         "SOFTMAX_THREADS=1"}, /* not a candidate */
        {"unfused",
         "THREADS_N=8 THREADS_M=1 THREAD_N=4 THREAD_M=4 VECTOR_WIDTH=16 BLOCK_K=8 SWEEPS=1 "
         "SOFTMAX_THREADS=1"}, /* THREAD_N % VECTOR_WIDTH */
    };

    fixture_need_groups(f);
    const struct ca_candidate good = candidate(f, 8);
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        struct made_entry made;
        table_entry_of(&made, &good, 1);
        strcpy(made.texts.family, wrong[n].family);
        strcpy(made.texts.tunables, wrong[n].tunables);
        put(f, problem_text, &made.entry);
        cr_expect_str_eq(chosen(f, problem_text, CLATTN_PLAN_DEFAULT), "D", "%zu", n);
        cr_expect_str_eq(chosen(f, problem_text, CLATTN_PLAN_KNOWN_ONLY), "CLATTN_NOT_TUNED");
    }
}

/* Stored configurations that no longer fit, since the device has become smaller. */
Test(choose, what_does_not_fit_the_device) {
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups(&f);
    fixture_need_cpu(&f); /* GPUs have no choice with groups of one item */
    const struct ca_candidate large = candidate(&f, 32);
    char *document = ship(&f, problem_text, &large);
    override(&f, 16);
    store(&f, problem_text, 8, 1);
    store_stale(&f, problem_text, 4, 1);
    store(&f, "fwd f32 h2 q128 k256 d32", 2, 1);
    cr_expect_str_eq(chosen(&f, problem_text, CLATTN_PLAN_DEFAULT), "O16 E8 T4 N2 D");
    for (size_t most = 16; most >= 1; most /= 2) {
        static const char *const left[] = {
            [16] = "O16 E8 T4 N2 D", [8] = "E8 T4 N2 D", [4] = "T4 N2 D", [2] = "N2 D", [1] = "D"};
        f.context->device.max_work_group_size = most;
        cr_expect_str_eq(chosen(&f, problem_text, CLATTN_PLAN_DEFAULT), left[most], "%zu", most);
    }
    fixture_close(&f);
    free(document);
}

/* A family that cannot hand out scores, whatever the door. */
Test(choose, what_does_not_fit_the_problem) {
    static const char with_scores[] = "fwd f32 h2 q128 k128 d32 scores=raw";
    const clattn_problem p = fixture_problem(with_scores), plain = fixture_problem(problem_text);
    struct made_entry made;
    struct fixture f;

    ca_variable_set("CLATTN_OVERRIDE", "fused_cpu UNIT=vector");
    fixture_open(&f);
    const struct ca_candidate lanes =
        table_candidate("fused_cpu UNIT=vector", &plain, &f.context->device);
    put(&f, with_scores, table_entry_of(&made, &lanes, 1));
    char *document = ship(&f, with_scores, &lanes);
    cr_expect(is_chosen(&f, problem_text, &lanes) == 1);
    cr_expect(is_chosen(&f, with_scores, &lanes) == 0);
    cr_expect_str_eq(chosen(&f, with_scores, CLATTN_PLAN_DEFAULT), "D");
    const clattn_plan_options forced = {.struct_size = sizeof forced,
                                        .family = "fused_cpu UNIT=vector"};
    cr_expect(clattn_plan_supports(f.context, &p, &forced) == CLATTN_UNSUPPORTED);
    fixture_close(&f);
    free(document);
}

/* ---- flags ----------------------------------------------------------------------------------- */

DeviceTest(choose, contradicting_options)
{
    static const clattn_plan_options wrong[] = {
        {.struct_size = sizeof *wrong - 1},
        {.struct_size = sizeof *wrong, .tunables = "THREADS_N=8"},
        {.struct_size = sizeof *wrong, .flags = 8},
        {.struct_size = sizeof *wrong, .flags = 0x80000000u},
        {.struct_size = sizeof *wrong, .flags = CLATTN_PLAN_KNOWN_ONLY | CLATTN_PLAN_UNTUNED},
        {.struct_size = sizeof *wrong,
         .flags = CLATTN_PLAN_MEASURE | CLATTN_PLAN_UNTUNED,
         .measure_seconds = 1},
        {.struct_size = sizeof *wrong, .flags = CLATTN_PLAN_KNOWN_ONLY, .family = "unfused"},
        {.struct_size = sizeof *wrong,
         .flags = CLATTN_PLAN_MEASURE,
         .measure_seconds = 1,
         .family = "unfused"},
        {.struct_size = sizeof *wrong, .flags = CLATTN_PLAN_MEASURE},
        {.struct_size = sizeof *wrong, .flags = CLATTN_PLAN_MEASURE, .measure_seconds = -1},
        {.struct_size = sizeof *wrong, .flags = CLATTN_PLAN_MEASURE, .measure_seconds = HUGE_VAL},
        {.struct_size = sizeof *wrong, .flags = CLATTN_PLAN_MEASURE, .measure_seconds = NAN},
        {.struct_size = sizeof *wrong, .measure_seconds = 1},
        {.struct_size = sizeof *wrong, .flags = CLATTN_PLAN_UNTUNED, .measure_seconds = NAN},
    };
    const clattn_problem p = fixture_problem(problem_text);

    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        clattn_plan *plan = (clattn_plan *)(void *)f;
        cr_expect(clattn_plan_supports(f->context, &p, &wrong[n]) == CLATTN_INVALID_ARGUMENT, "%zu",
                  n);
        const char *reason = clattn_context_last_error(f->context);
        cr_expect(strncmp(reason, "options->", 9) == 0, "%zu: '%s'", n, reason);
        cr_expect(clattn_plan_create(f->context, &p, &wrong[n], &plan) == CLATTN_INVALID_ARGUMENT);
        cr_expect(plan == NULL && fixture_said(f, reason));
    }
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* A plan with these flags runs a candidate, or with NULL any, for that reason. */
static void expect_plan(struct fixture *f, unsigned flags, const struct ca_candidate *c,
                        const char *reason)
{
    const clattn_plan_options options = {.struct_size = sizeof options, .flags = flags};
    const clattn_problem p = fixture_problem(problem_text);
    clattn_plan_info info = {.struct_size = sizeof info};
    struct ca_candidate_texts texts;
    clattn_plan *plan;

    const clattn_status status = clattn_plan_create(f->context, &p, &options, &plan);
    cr_assert(status == CLATTN_SUCCESS, "%s, %s", clattn_status_string(status), f->log.last);
    cr_assert(clattn_plan_describe(plan, &info) == CLATTN_SUCCESS);
    cr_expect(strstr(info.reason, reason) != NULL, "'%s'", info.reason);
    if (c) {
        ca_candidate_texts(c, &texts);
        cr_expect_str_eq(info.family, texts.family);
        cr_expect_str_eq(info.tunables, texts.tunables);
    }
    clattn_plan_release(plan);
}

DeviceTest(choose, plans_follow, .timeout = 120)
{
    const clattn_plan_options known = {.struct_size = sizeof known,
                                       .flags = CLATTN_PLAN_KNOWN_ONLY};
    const clattn_problem p = fixture_problem(problem_text);
    clattn_plan *plan = (clattn_plan *)(void *)f;

    fixture_need_groups(f);
    const struct ca_candidate tuned = candidate(f, 8), wanted = candidate(f, 4);
    cr_expect(clattn_plan_create(f->context, &p, &known, &plan) == CLATTN_NOT_TUNED);
    cr_expect(plan == NULL && clattn_context_builds(f->context) == 0);
    cr_expect(fixture_said(f, "h2 q128 k128 d32"), "the sentence does not name the class");
    store(f, problem_text, 8, 1);
    expect_plan(f, CLATTN_PLAN_KNOWN_ONLY, &tuned, "tuned for this class");
    expect_plan(f, CLATTN_PLAN_UNTUNED, NULL, "untuned");
    override(f, 4);
    expect_plan(f, CLATTN_PLAN_DEFAULT, &wanted, "override");
    cr_expect(clattn_context_builds(f->context) == 3);
}
