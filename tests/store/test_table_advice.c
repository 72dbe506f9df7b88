/* SPDX-License-Identifier: Apache-2.0 */
/* Advice from a table of tuning results: the nearest entries, and a portfolio of seeds. */
#include "families/candidate.h"
#include "families/registry.h"
#include "problem/classes/problem_class.h"
#include "problem/problem.h"
#include "store/shipped.h"
#include "store/table_advice.h"
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/tables.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 3 };

/* Devices, and what is known of them. */
struct world {
    clattn_device_info infos[DEVICES];
    struct ca_table table;
};

/* Devices "A", "B", "C" of one vendor each, of which nothing is known. */
static struct world *world_open(void)
{
    static struct world w;

    ca_table_free(&w.table);
    for (size_t d = 0; d < DEVICES; d++) {
        clattn_device_info *info = &w.infos[d];
        *info = (clattn_device_info){.struct_size = sizeof *info,
                                     .type = CL_DEVICE_TYPE_GPU,
                                     .compute_units = 8,
                                     .vector_width_float = 1,
                                     .max_work_group_size = 256,
                                     .max_work_item_sizes = {256, 256, 256},
                                     .local_memory_bytes = 32768,
                                     .global_memory_bytes = (cl_ulong)1 << 32,
                                     .max_allocation_bytes = (cl_ulong)1 << 30};
        snprintf(info->name, sizeof info->name, "%c", (char)('A' + d));
        snprintf(info->vendor, sizeof info->vendor, "maker of %c", (char)('A' + d));
    }
    return &w;
}

/* Adds an entry to the class of a problem on a device; the entry, whose texts are the table's. */
static struct ca_entry add(struct world *w, size_t d, const char *problem, const char *candidate,
                           double seconds)
{
    const clattn_problem p = fixture_problem(problem);
    const struct ca_candidate of = table_candidate(candidate, &p, &w->infos[d]);
    struct made_entry made;
    char text[CA_CLASS_TEXT];

    clattn_problem_class(&p, text, CA_CLASS_TEXT, NULL);
    struct ca_device_table *device = ca_table_device(&w->table, &w->infos[d], 1);
    struct ca_class *class = ca_device_table_make_class(device, text);
    const struct ca_entry *entry = table_entry_of(&made, &of, seconds);
    cr_assert(ca_class_put(class, entry));
    return class->entries[ca_class_find(class, entry)];
}

/* The advice as texts, of the tunable THREADS_N alone: "8 16". */
static const char *said(const struct ca_candidate *candidates, size_t count)
{
    static char text[256];
    size_t length = 0;

    text[0] = '\0';
    for (size_t n = 0; n < count; n++) {
        cr_assert_str_eq(candidates[n].family->tunables[0].name, "THREADS_N");
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%zu", n ? " " : "",
                                   candidates[n].values[0]);
    }
    return text;
}

static const char *nearest(const struct world *w, const char *problem, size_t d, size_t most)
{
    const struct ca_problem p = fixture_checked(problem);
    struct ca_candidate candidates[8];
    size_t count;

    cr_expect(ca_table_nearest(&w->table, &p, &w->infos[d], candidates, most, &count) ==
              CLATTN_SUCCESS);
    return said(candidates, count);
}

static const char *portfolio(const struct world *w, const char *problem, size_t d, size_t most)
{
    const struct ca_problem p = fixture_checked(problem);
    struct ca_candidate candidates[8];

    return said(candidates, ca_table_portfolio(&w->table, &p, &w->infos[d], candidates, most));
}

static const char problem[] = "fwd f32 h4 q256 k256 d32";

/* ---- the nearest ----------------------------------------------------------------------------- */

Test(table_advice, nothing_is_known) {
    struct world *w = world_open();

    cr_expect_str_eq(nearest(w, problem, 0, 8), "");
    cr_expect_str_eq(portfolio(w, problem, 0, 8), "");
    cr_assert(ca_table_device(&w->table, &w->infos[0], 1) != NULL);
    cr_expect_str_eq(nearest(w, problem, 0, 8), "");
    cr_expect_str_eq(portfolio(w, problem, 0, 8), "");
}

Test(table_advice, the_class_then_nearer_ones) {
    struct world *w = world_open();

    add(w, 0, "fwd f32 h4 q512 k512 d32", "unfused THREADS_N=1", 1); /* 1.5 away */
    add(w, 0, problem, "unfused THREADS_N=2", 1);
    add(w, 0, problem, "unfused THREADS_N=4", 2);
    add(w, 0, "fwd f32 h4 q256 k512 d32", "unfused THREADS_N=8", 1); /* 0.5 */
    add(w, 0, "fwd f32 h4 q256 k512 d32", "unfused THREADS_N=2", 1); /* there already */
    add(w, 1, problem, "unfused THREADS_N=16", 1);                   /* another device */
    cr_expect_str_eq(nearest(w, problem, 0, 8), "2 4 8 1");
    cr_expect_str_eq(nearest(w, problem, 0, 3), "2 4 8");
    cr_expect_str_eq(nearest(w, problem, 1, 8), "16");
    cr_expect_str_eq(nearest(w, problem, 2, 8), "");
    cr_expect_str_eq(nearest(w, "fwd f32 h4 q2048 k256 d32", 0, 8), "", "all are too far");
    strcpy(ca_device_table_make_class(&w->table.devices[0], "fwd f32 b1 h4 q256 k256 d32")->text,
           "fwd f32 b2 h2 q250 k250 d32"); /* a file that rounds otherwise */
    cr_expect_str_eq(nearest(w, problem, 0, 3), "2 4 8");
    strcpy(w->infos[2].name, "A"); /* a second driver of the first device */
    strcpy(w->infos[2].vendor, "maker of A");
    strcpy(w->infos[2].driver_version, "newer");
    cr_expect_str_eq(nearest(w, problem, 2, 8), "2 4 8 1");
}

Test(table_advice, what_does_not_fit_or_is_banned) {
    struct world *w = world_open();

    add(w, 0, problem, "unfused THREADS_N=32 THREADS_M=8 SOFTMAX_THREADS=64", 1);
    const struct ca_entry second =
        add(w, 0, problem, "unfused THREADS_N=16 THREADS_M=4 SOFTMAX_THREADS=64", 2);
    add(w, 0, problem, "unfused THREADS_N=8 THREADS_M=4 SOFTMAX_THREADS=64", 3);
    cr_expect_str_eq(nearest(w, problem, 0, 8), "32 16 8");
    w->infos[0].max_work_group_size = 128;
    cr_expect_str_eq(nearest(w, problem, 0, 8), "16 8");
    cr_expect_str_eq(portfolio(w, problem, 0, 8), "16");

    struct ca_banned banned = table_banned(&second, "fwd f32 b1 h1 q1 k1 d64", "wrong");
    cr_assert(ca_device_table_ban(&w->table.devices[0], &banned));
    cr_expect_str_eq(nearest(w, problem, 0, 8), "16 8", "banned for other programs only");
    banned = table_banned(&second, "fwd f32 b1 h1 q1 k1 d32", "wrong"); /* an alike class */
    cr_assert(ca_device_table_ban(&w->table.devices[0], &banned));
    cr_expect_str_eq(nearest(w, problem, 0, 8), "8");
}

/* ---- what carries over ------------------------------------------------------------------------ */

/* Values of fused_cpu UNIT=vector: BLOCK_N and BLOCKS_PER_TILE, of which facts suggest 96 and, by the number
 * of queries, 2, 4 or 8. */
static const char *carried(const char *found, const char *there, const char *here)
{
    const struct ca_problem p = fixture_checked(here);
    struct world *w = world_open();
    struct ca_candidate after;
    static char text[64];
    size_t count;

    w->infos[0].type = CL_DEVICE_TYPE_CPU;
    w->infos[0].compute_units = 2;
    w->infos[0].vector_width_float = 16;
    add(w, 0, there, found, 1);
    cr_assert(ca_table_nearest(&w->table, &p, &w->infos[0], &after, 1, &count) == CLATTN_SUCCESS);
    cr_assert(count == 1);
    cr_assert_str_eq(after.family->full_name, "fused_cpu UNIT=vector");
    const struct ca_tunable *tunables = after.family->tunables;
    size_t bn = 0, blocks = 0;
    for (size_t n = 0; n < after.family->num_tunables; n++) {
        if (strcmp(tunables[n].name, "BLOCK_N") == 0)
            bn = after.values[n];
        if (strcmp(tunables[n].name, "BLOCKS_PER_TILE") == 0)
            blocks = after.values[n];
    }
    snprintf(text, sizeof text, "BLOCK_N=%zu BLOCKS_PER_TILE=%zu", bn, blocks);
    return text;
}

/* A near class's result holds what was changed there, not what suits its size alone. */
Test(table_advice, what_tuning_left_follows_the_facts) {
    static const char small[] = "fwd f32 h8 q256 k256 d128", large[] = "fwd f32 h8 q512 k512 d128";
    static const struct {
        const char *found, *there, *here, *after;
    } cases[] = {
        {"", small, small, "BLOCK_N=96 BLOCKS_PER_TILE=4"},
        {"", large, large, "BLOCK_N=96 BLOCKS_PER_TILE=8"},
        {"", small, large, "BLOCK_N=96 BLOCKS_PER_TILE=8"},
        {"", large, small, "BLOCK_N=96 BLOCKS_PER_TILE=4"},
        {" BLOCK_N=48", small, large, "BLOCK_N=48 BLOCKS_PER_TILE=8"},
        {" BLOCKS_PER_TILE=2", small, large, "BLOCK_N=96 BLOCKS_PER_TILE=2"},
        {" BLOCK_N=192", small, "fwd f32 h8 q512 k1024 d128", "BLOCK_N=192 BLOCKS_PER_TILE=8"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        char found[64];
        snprintf(found, sizeof found, "fused_cpu UNIT=vector%s", cases[n].found);
        cr_expect_str_eq(carried(found, cases[n].there, cases[n].here), cases[n].after, "%zu", n);
    }
}

/* ---- the portfolio --------------------------------------------------------------------------- */

/* The one that is good on most devices comes first, then what covers the rest. */
Test(table_advice, portfolio_covers_devices) {
    struct world *w = world_open();

    add(w, 0, problem, "unfused THREADS_N=2", 1.0);
    add(w, 0, problem, "unfused THREADS_N=4", 1.1);
    add(w, 1, problem, "unfused THREADS_N=8", 5.0);
    add(w, 1, problem, "unfused THREADS_N=4", 5.5);
    add(w, 2, problem, "unfused THREADS_N=16", 0.1);
    strcpy(w->infos[2].name, "new"); /* none of the three */
    cr_expect_str_eq(portfolio(w, problem, 2, 1), "16", "its maker's other device");
    strcpy(w->infos[2].vendor, "new");
    cr_expect_str_eq(portfolio(w, problem, 2, 8), "4 16 2 8");
    cr_expect_str_eq(portfolio(w, problem, 2, 2), "4 16");
    cr_expect_str_eq(portfolio(w, "fwd f32 h4 q256 k256 d32 scores=raw", 2, 8), "",
                     "nothing carries over");
}

/* A near class weighs more than a far one; what another covers already is not needed. */
Test(table_advice, portfolio_covers_classes) {
    struct world *w = world_open();

    add(w, 1, "fwd f16 h4 q4096 k4096 d128", "unfused THREADS_N=2", 1.0);
    add(w, 1, "fwd f16 h4 q4096 k4096 d128", "unfused THREADS_N=8", 4.5); /* as bad as none */
    add(w, 1, problem, "unfused THREADS_N=4", 1.0);
    add(w, 2, problem, "unfused THREADS_N=4", 1.0);
    add(w, 2, problem, "unfused THREADS_N=16", 1.0);
    cr_expect_str_eq(portfolio(w, problem, 0, 8), "4 2");

    w = world_open();
    add(w, 1, "fwd f16 h4 q4096 k4096 d128", "unfused THREADS_N=2", 1.0);
    add(w, 2, problem, "unfused THREADS_N=16", 1.0);
    cr_expect_str_eq(portfolio(w, problem, 0, 8), "16 2");

    w = world_open(); /* a seed may be as bad as it likes where another is good */
    add(w, 1, problem, "unfused THREADS_N=2", 1.0);
    add(w, 2, problem, "unfused THREADS_N=4", 1.0);
    add(w, 2, problem, "unfused THREADS_N=2", 8.0);
    cr_expect_str_eq(portfolio(w, problem, 0, 8), "2 4");
    cr_expect_str_eq(portfolio(w, problem, 1, 8), "2 4");
    cr_expect_str_eq(portfolio(w, problem, 2, 8), "4 2");
}

/* Whatever the table: all fit, none comes twice, and fewer are the first of more. */
Test(table_advice, portfolio_of_random_tables) {
    static const char *const problems[] = {problem, "fwd f32 h4 q1024 k256 d32",
                                           "fwd f16 h4 q256 k256 d64 causal=br"};
    struct rng r = rng_seed(44);
    const struct ca_problem p = fixture_checked(problem);

    for (int run = 0; run < 100; run++) {
        struct world *w = world_open();
        struct ca_candidate all[8], few[3];
        char reason[256];
        for (int n = 0; n < 20; n++) {
            char candidate[64];
            const size_t d = rng_below(&r, DEVICES), c = rng_below(&r, 3);
            snprintf(candidate, sizeof candidate, "unfused THREADS_N=%zu THREADS_M=%zu",
                     (size_t)1 << rng_below(&r, 6), RNG_PICK(&r, 4, 8));
            add(w, d, problems[c], candidate, rng_uniform(&r, 1, 6));
        }
        w->infos[0].max_work_group_size = 128;
        const size_t count = ca_table_portfolio(&w->table, &p, &w->infos[0], all, 8);
        cr_assert(count > 0 && count <= 8);
        for (size_t n = 0; n < count; n++) {
            cr_assert(!ca_family_refusal(all[n].family, &p, &w->infos[0], all[n].values, reason,
                                         sizeof reason));
            for (size_t m = 0; m < n; m++)
                cr_assert(!ca_candidates_equal(&all[n], &all[m]));
        }
        const size_t fewer = ca_table_portfolio(&w->table, &p, &w->infos[0], few, 3);
        cr_assert(fewer == (count < 3 ? count : 3));
        for (size_t n = 0; n < fewer; n++)
            cr_assert(ca_candidates_equal(&all[n], &few[n]));
    }
}

/* Without memory there is no advice, and nothing is leaked. */
Test(table_advice, without_memory) {
    const struct ca_problem p = fixture_checked(problem);
    struct world *w = world_open();
    struct ca_candidate seeds[8];
    add(w, 0, problem, "unfused THREADS_N=2", 1.0);
    struct faults_rounds r = {0};
    while (faults_next(&r)) {
        faults_begin(&r);
        const size_t count = ca_table_portfolio(&w->table, &p, &w->infos[0], seeds, 8);
        cr_expect(count == !faults_failed(&r), "allocation %zu: %zu seeds", r.n, count);
    }
    cr_expect(r.n > 2, "%zu", r.n);
    faults_arm(FAULT_MEMORY, 0, 0);
    size_t nearest_count = 7;
    cr_expect(ca_table_nearest(&w->table, &p, &w->infos[0], seeds, 8, &nearest_count) ==
              CLATTN_OUT_OF_MEMORY);
    cr_expect(nearest_count == 0);
    cr_expect(faults_disarm() != NULL);
}

/* ---- the shipped table ----------------------------------------------------------------------- */

/* Entries of a device that is shipped are advised as they stand there; damage is no advice. */
Test(table_advice, of_the_shipped_table) {
    const struct ca_problem p = fixture_checked(problem);
    struct world *w = world_open();
    struct ca_candidate candidates[8];

    add(w, 0, problem, "unfused THREADS_N=2", 1.0);
    add(w, 1, problem, "unfused THREADS_N=4", 1.0);
    char *document = ca_table_print(&w->table);
    cr_assert(document != NULL);
    for (int damaged = 0; damaged < 2; damaged++) {
        struct ca_shipped *shipped = ca_shipped_create();
        cr_assert(shipped != NULL);
        shipped->document = damaged ? document + 1 : document;
        for (int again = 0; again < 2; again++) {
            size_t count = 7;
            faults_arm(FAULT_MEMORY, 0, 0); /* a lack of memory passes */
            cr_expect(ca_table_nearest(ca_shipped_table(shipped), &p, &w->infos[0], candidates, 8,
                                       &count) == CLATTN_OUT_OF_MEMORY);
            faults_disarm();
            cr_expect(count == 0);
            cr_expect(ca_table_nearest(ca_shipped_table(shipped), &p, &w->infos[0], candidates, 8,
                                       &count) == CLATTN_SUCCESS);
            cr_expect_str_eq(said(candidates, count), damaged ? "" : "2");
            cr_expect_str_eq(said(candidates, ca_table_portfolio(ca_shipped_table(shipped), &p,
                                                                 &w->infos[0], candidates, 8)),
                             damaged ? "" : "2 4");
        }
        ca_shipped_destroy(shipped);
    }
    free(document);
}

/* The document that the library holds: it can be read, and each entry is a configuration of today. */
Test(table_advice, what_is_shipped) {
    struct ca_shipped *shipped = ca_shipped_create();
    struct ca_table table;
    char reason[256] = "";

    cr_assert(ca_table_read(shipped->document, strlen(shipped->document), &table, reason,
                            sizeof reason) == CLATTN_SUCCESS,
              "%s", reason);
    for (size_t d = 0; d < table.num_devices; d++) {
        const struct ca_device_table *device = &table.devices[d];
        for (size_t c = 0; c < device->num_classes; c++) {
            const struct ca_class *class = &device->classes[c];
            const clattn_problem given = fixture_problem(class->text),
                                 p = ca_problem_normal(&given);
            char text[CA_CLASS_TEXT];
            clattn_problem_class(&p, text, CA_CLASS_TEXT, NULL);
            cr_expect_str_eq(text, class->text, "classes are rounded otherwise today");
            size_t alive = 0;
            for (size_t e = 0; e < class->num_entries; e++) {
                struct ca_candidate candidate;
                alive += (size_t)ca_entry_candidate(&class->entries[e], &candidate);
            }
            cr_expect(alive == class->num_entries, "of '%s' of %s %zu entries mean nothing today",
                      class->text, device->device, class->num_entries - alive);
        }
    }
    ca_table_free(&table);
    ca_shipped_destroy(shipped);
}
