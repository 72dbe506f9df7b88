/* SPDX-License-Identifier: Apache-2.0 */
/* Workloads and problems that clattn-bench is given. */
#include "bench/commands/items.h"
#include "bench/timing/roof.h"
#include "cli/problems/problem_file.h"
#include "cli/problems/workloads.h"
#include "tests/support/programs/scratch.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- workloads ---------------------------------------------------------------------------- */

static struct job parse(const char *text)
{
    char reason[256];
    struct job job;

    cr_assert(job_parse(text, &job, reason, sizeof reason), "%s: %s", text, reason);
    return job;
}

#define MOST_FLOPS 0.6e12     /* A few seconds of two cores. */
#define MOST_FLOPS_SET 0.1e12 /* In `quick` and `standard`: a third of a second. */
#define MOST_BYTES 1.2e9      /* 131072 cached keys and values in f32. */

Test(bench_workloads, every_problem_is_sound_and_as_it_is_printed) {
    for (const struct workload *w = workloads; w->name != NULL; w++) {
        cr_assert(w->problems[0] != NULL, "%s is empty", w->name);
        for (size_t n = 0; w->problems[n] != NULL; n++) {
            const struct attention_case c = {.job = parse(w->problems[n])};
            char *text = job_text(&c.job);
            cr_assert(eq(str, text, (char *)w->problems[n]), "%s", w->name);
            cr_assert(lt(dbl, job_flops(&c.job), MOST_FLOPS), "%s", text);
            /* What these hide, which pages a table names, and where sequences start, lies in data. */
            if (!c.job.problem.mask && !c.job.problem.bias && !c.job.problem.page_size &&
                !c.job.problem.block_q && !c.job.problem.total_q)
                cr_assert(lt(dbl, case_bytes(&c), MOST_BYTES), "%s", text);
            free(text);
        }
    }
}

static bool is_repeated(const struct workload *workload, size_t n)
{
    for (const struct workload *w = workloads; w->name != NULL; w++)
        for (size_t m = 0; w->problems[m] != NULL; m++) {
            const bool both = w->source != NULL && workload->source != NULL;
            const bool other = w == workload ? m != n : both;
            if (other && strcmp(w->problems[m], workload->problems[n]) == 0)
                return true;
        }
    return false;
}

/* A set repeats problems of models, but none of its own. */
Test(bench_workloads, names_and_problems_are_there_once) {
    for (const struct workload *w = workloads; w->name != NULL; w++) {
        cr_assert(workload_find(w->name) == w, "%s is there twice", w->name);
        for (size_t n = 0; w->problems[n] != NULL; n++)
            cr_assert(not(is_repeated(w, n)), "%s: %s", w->name, w->problems[n]);
    }
    cr_assert(workload_find("nonsense") == NULL);
    cr_assert(workload_find("") == NULL);
}

/* For a list in a terminal. */
Test(bench_workloads, descriptions_fit_a_line) {
    for (const struct workload *w = workloads; w->name != NULL; w++) {
        cr_assert(le(sz, strlen(w->name), 21), "%s", w->name);
        cr_assert(le(sz, strlen(w->meaning), 77), "%s", w->name);
        cr_assert(w->source == NULL || strlen(w->source) <= 96, "%s", w->name);
    }
}

Test(bench_workloads, sets_are_made_of_models_and_are_quick_enough) {
    static const struct {
        const char *name;
        size_t least, most;
    } sets[] = {{"quick", 5, 7}, {"standard", 16, 20}};

    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        const struct workload *set = workload_find(sets[s].name);
        size_t count = 0;
        cr_assert(set != NULL && set->source == NULL);
        for (; set->problems[count] != NULL; count++) {
            const struct job job = parse(set->problems[count]);
            cr_assert(workload_origin(set, count)->source != NULL, "%s", set->problems[count]);
            cr_assert(lt(dbl, job_flops(&job), MOST_FLOPS_SET), "%s", set->problems[count]);
        }
        cr_assert(le(sz, sets[s].least, count));
        cr_assert(le(sz, count, sets[s].most));
    }
    for (const struct workload *w = workloads; w->source != NULL; w++) { /* the models come first */
        const struct workload *standard = workload_find("standard");
        /* 8192 tokens are too slow for two cores; training has a set of its own. */
        bool in = strstr(w->name, "8k") != NULL || strstr(w->name, "training") != NULL;
        for (size_t n = 0; standard->problems[n] != NULL; n++)
            in = in || workload_origin(standard, n) == w;
        cr_assert(in, "%s is not in standard", w->name);
    }
}

/* ---- problem files ------------------------------------------------------------------------ */

TestSuite(bench_problem_file, .init = scratch_open, .fini = scratch_close);

#define ONE "fwd f32 b1 h1 q1 d1"
#define TWO "fwd f16 b1 h2 q3 d4 bias=f32:qk"

Test(bench_problem_file, lines_comments_and_names) {
    static const struct {
        const char *content;
        size_t count;
        const char *names[3]; /* The names of items that have a heading. */
    } cases[] = {
        {ONE, 1, {"mine.txt"}},
        {ONE "\n", 1, {"mine.txt"}},
        {"\n\n# a comment\n  " ONE "\t# why\n#\n\n" TWO, 2, {"mine.txt"}},
        {ONE "\r\n\r\n" TWO "\r\n", 2, {"mine.txt"}},
        {"\xef\xbb\xbf" ONE "\n", 1, {"mine.txt"}},
        {ONE "\na: " ONE "\n" TWO "\nb:\t" TWO "\n", 4, {"mine.txt", "a", "b"}},
        {"my model, layer 3:\n" ONE "\n" TWO "\n", 2, {"my model, layer 3"}},
        {"\x1b[31mred: " ONE, 0, {NULL}},
        {"\xc3\xa9t\xc3\xa9: " ONE, 1, {"\xc3\xa9t\xc3\xa9"}},
        {"\xff: " ONE, 1, {"?"}},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct items items;
        struct message why = {""};
        char path[80];
        const char *argument = path;
        size_t named = 0;
        strcpy(path, scratch_path("mine.txt"));
        scratch_write(path, cases[n].content);
        const bool ok = items_read(&items, 1, &argument, &why);
        cr_assert(eq(int, ok, cases[n].count > 0), "case %zu: %s", n, why.text);
        cr_assert(eq(sz, items.count, cases[n].count), "case %zu", n);
        for (size_t i = 0; i < items.count; i++) {
            cr_assert(items.item[i].path == NULL);
            if (items.item[i].heading != NULL)
                cr_assert(eq(str, (char *)items.item[i].heading, (char *)cases[n].names[named++]),
                          "case %zu", n);
        }
        cr_assert(named == 3 || cases[n].names[named] == NULL, "case %zu", n);
        items_free(&items);
    }
}

Test(bench_problem_file, what_is_wrong_is_said_with_its_line) {
    static char long_line[3000], long_name[200], many[1001 * sizeof ONE + 1];
    const struct {
        const char *content;
        size_t bytes; /* 0: up to the 0 at its end. */
        const char *complaint;
    } cases[] = {
        {"", 0, "holds no problem"},
        {"# nothing\n\n  \n", 0, "holds no problem"},
        {"name:\n", 0, "holds no problem"},
        {ONE "\nfwd f32 q3\n", 0, "line 2: 'fwd f32 q3' is no problem: dN is missing"},
        {"fwd f32 q3 d4 nonsense", 0,
         "line 1: 'fwd f32 q3 d4 nonsense' is no problem: "
         "'nonsense' is not a word of a problem"},
        {"a:" ONE, 0, "line 1: 'a:fwd f32"},
        {ONE "\n\0\1\2", sizeof ONE + 3, "line 2: byte 1 is no text"},
        {"\x7f"
         "ELF",
         0, "line 1: byte 1 is no text"},
        {long_line, 0, "line 1 is longer than 1023 bytes"},
        {long_name, 0, "line 1: its name is longer than 63 bytes"},
        {many, 0, "line 1001: there are more than 1000 problems"},
    };

    memset(long_line, 'x', sizeof long_line - 1);
    memset(long_name, 'x', 64);
    strcpy(long_name + 64, ": " ONE);
    for (size_t n = 0; n < 1001; n++)
        strcat(many + n * strlen(ONE "\n"), ONE "\n");
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct problem_file file;
        struct message why = {""};
        const char *path = scratch_path("mine.txt");
        scratch_write_bytes(path, cases[n].content,
                            cases[n].bytes > 0 ? cases[n].bytes : strlen(cases[n].content));
        const bool ok = problem_file_read(&file, path, &why);
        cr_assert(eq(int, strncmp(why.text, path, strlen(path)), 0), "%s", why.text);
        cr_assert(not(ok), "case %zu", n);
        cr_assert(file.line == NULL && file.count == 0, "case %zu", n);
        cr_assert(strstr(why.text, cases[n].complaint) != NULL, "case %zu: %s", n, why.text);
    }
}

Test(bench_items, arguments_are_told_apart) {
    static const struct {
        const char *argument;
        size_t count;
        const char *text; /* The first heading, or the complaint. */
    } cases[] = {
        {"minilm", 3, "minilm"},
        {"quick", 6, "minilm"},
        {ONE, 1, ""},
        {TEST_DATA "/minilm/minilm_layer_0.safetensors", 1, NULL},
        {"nonsense", 0, "'nonsense' is no workload"},
        {"missing.txt", 0, "'missing.txt' is no workload (--list names them), no file"},
        {"missing.safetensors", 0, "missing.safetensors"},
        {"fwd f32 q3", 0, "dN is missing"},
        {"", 0, "is no workload"},
        {"/tmp", 0, "/tmp cannot be read: Is a directory"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct items items;
        struct message why = {""};
        const char *argument = cases[n].argument;
        const bool ok = items_read(&items, 1, &argument, &why);
        cr_assert(eq(int, ok, cases[n].count > 0), "%s: %s", argument, why.text);
        cr_assert(eq(sz, items.count, cases[n].count), "%s", argument);
        if (ok && cases[n].text != NULL)
            cr_assert(eq(str, (char *)items.item[0].heading, (char *)cases[n].text));
        if (ok)
            cr_assert(eq(int, items.item[0].path != NULL, cases[n].text == NULL));
        if (!ok)
            cr_assert(strstr(why.text, cases[n].text) != NULL, "%s: %s", argument, why.text);
        items_free(&items);
    }
}

/* Whoever runs a set sees which model a problem comes from. */
Test(bench_items, problems_of_a_set_are_named_after_their_models) {
    const char *argument = "standard";
    struct items items;
    struct message why;

    cr_assert(items_read(&items, 1, &argument, &why), "%s", why.text);
    for (size_t n = 0; n < items.count; n++)
        cr_assert(workload_find(items.item[n].heading)->source != NULL, "problem %zu", n);
    items_free(&items);
}
