/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench compare as a program: its exit status, table, colours, JSON and CSV. */
#define _XOPEN_SOURCE 700 /* posix_openpt */
#include "bench/records/comparison.h"
#include "tests/bench/run_example.h"
#include "tests/support/programs/program.h"
#include "tests/support/programs/scratch.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BERT "fwd f32 b1 h12 q512 d64"
#define LLAMA "fwd f16 b1 h32/8 q512 d128 causal=br"

static void save_all(void);

static void open_folder(void)
{
    scratch_open();
    save_all();
}

TestSuite(bench_compare_command, .init = open_folder, .fini = scratch_close);

/* a, same (as a), slow (BERT is), less (LLAMA is wrong, a device interrupted, another missing),
 * old, broken; the files lie in the folder. */
static void save_all(void)
{
    static const char *const names[] = {"a.json", "same.json", "slow.json", "less.json"};
    struct run_results results;
    struct message why;

    for (size_t f = 0; f < 4; f++) {
        example_begin(&results);
        struct device_run *run = example_device(&results, "A device", "A platform");
        run->interrupted = f == 3;
        example_solved(run, "bert-base", BERT, f == 2 ? 1.15e-3 : 1e-3);
        struct outcome *outcome = example_solved(run, "llama", LLAMA, 5e-3);
        if (f == 3)
            outcome_give_up(outcome, OUTCOME_WRONG, "for a reason");
        else
            example_solved(
                run, "",
                "fwd bf16 b12 h128/8 q100000 k100000 d128 causal=br window=4095,0 bias=f32:bh "
                "softcap=50",
                12.0);
        if (f != 3)
            example_solved(example_device(&results, "Another \033[31mdevice", "A platform"),
                           "bert-base", BERT, 2e-3);
        if (f == 2)
            example_solved(&results.devices[1], "new", "fwd f32 q3 d3", 1e-5);
        cr_assert(results_write(scratch_path("%s", names[f]), &results, &why), "%s", why.text);
        results_free(&results);
    }
    scratch_write(scratch_path("old.json"), "{\"schema\": \"clattn-bench-run-1\"}");
    scratch_write(scratch_path("broken.json"), "{\"schema\": ");
    cr_assert(chdir(scratch) == 0);
}

Test(bench_compare_command, exits_with) {
    static const struct {
        const char *arguments;
        int status;
        const char *says;
    } calls[] = {
        {"--help", 0, "Usage: clattn-bench compare"},
        {"", 2, "takes 2 to 26 files"},
        {"a.json", 2, "takes 2 to 26 files"},
        {"--threshold much a.json same.json", 2, "--threshold takes a number from 0 to 1000"},
        {"--by weight a.json same.json", 2, "--by takes time or share, not 'weight'"},
        {"--wrong a.json same.json", 2, "--help"},
        {"a.json nonexistent.json", 1, "nonexistent.json: cannot be read: No such file"},
        {"a.json old.json", 1, "old.json: schema is 'clattn-bench-run-1', which is too old"},
        {"broken.json a.json", 1, "broken.json: line 1 is not JSON"},
        {"--filter nothing a.json same.json", 1, "no problem contains 'nothing'"},
        {"--implementation x a.json same.json", 1, "a.json has no times of 'x' to compare with"},
        {"--filter llama less.json a.json", 1,
         "less.json has no times of 'clattn' among these problems"},
        {"--json /nonexistent/x a.json same.json", 1, "/nonexistent/x: the results cannot be"},
        {"a.json same.json", 0, "no regression at a threshold of 5 %; faster: 0"},
        {"same.json a.json --by share", 0, "clattn, share"},
        {"slow.json a.json --filter bert", 0, "no regression at a threshold of 5 %; faster: 1"},
        {"a.json slow.json", 1, "! slower"},
        {"a.json slow.json", 1, "1 regression at a threshold of 5 %; faster: 0"},
        {"a.json slow.json --threshold 30", 0, "no regression at a threshold of 30 %"},
        {"a.json slow.json --filter llama", 0, "no regression"},
        {"a.json less.json", 1, "interrupted: what was measured until then is here"},
        {"a.json less.json", 1, "wrong, for a reason"},
        {"a.json less.json", 1, "! B  A device was interrupted: 1 missing"},
        {"a.json less.json", 1, "! B  Another ?[31mdevice is not there: 1 missing"},
        {"a.json less.json", 1, "3 regressions at a threshold of 5 %"},
        {"less.json a.json", 0, "no regression"}, /* what is new is only listed */
        {"a.json same.json slow.json less.json", 1, "geometric mean of all devices, C"},
    };

    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++)
        program_must(BENCH_PROGRAM, calls[n].status, calls[n].says, "compare %s",
                     calls[n].arguments);
}

Test(bench_compare_command, quiet_says_regressions_only) {
    program_must(BENCH_PROGRAM, 0, "", "compare --quiet a.json same.json");
    cr_assert(eq(str, program_text, (char *)""));
    program_must(BENCH_PROGRAM, 1, "", "compare --quiet a.json slow.json");
    cr_assert(strncmp(program_text, "! B  " BERT " (bert-base) on A device: ", 51) == 0, "%s",
              program_text);
    cr_assert(eq(ptr, strchr(program_text, '\n'), program_text + strlen(program_text) - 1));
}

Test(bench_compare_command, tables_fit_a_hundred_columns_and_obey_nobody) {
    static const char *const calls[] = {
        "a.json less.json", "a.json slow.json same.json", "a.json a.json a.json a.json a.json",
        "a.json slow.json --by share", "a.json less.json slow.json less.json --by share"};

    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++) {
        program_run(BENCH_PROGRAM, "compare %s", calls[n]);
        program_expect_width(program_text, 100, NULL);
        cr_assert(eq(ptr, strchr(program_text, '\033'), NULL), "%s", program_text);
    }
}

/* Runs it on a terminal and returns its output. */
static void run_on_terminal(const char *environment, char *text, size_t bytes)
{
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    size_t length = 0;

    cr_assert(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    const char *name = ptsname(terminal);
    char command[1024];
    snprintf(command, sizeof command,
             "env -u NO_COLOR TERM=xterm %s '%s' compare a.json slow.json >%s 2>&1", environment,
             BENCH_PROGRAM, name);
    const int held = open(name, O_RDWR | O_NOCTTY); /* or what was read last is lost */
    const pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    while (length + 1 < bytes && strstr(text, "at a threshold") == NULL) {
        const ssize_t more = read(terminal, text + length, bytes - 1 - length);
        cr_assert(more > 0);
        length += (size_t)more;
        text[length] = '\0';
    }
    waitpid(child, NULL, 0);
    close(held);
    close(terminal);
}

Test(bench_compare_command, colours_are_for_terminals_that_want_them) {
    char text[16384] = "";

    run_on_terminal("", text, sizeof text);
    cr_assert(strstr(text, "\033[31m") != NULL, "%s", text);
    text[0] = '\0';
    run_on_terminal("NO_COLOR=1", text, sizeof text);
    cr_assert(eq(ptr, strchr(text, '\033'), NULL), "%s", text);
}

Test(bench_compare_command, json_says_the_same) {
    program_must(BENCH_PROGRAM, 1, "", "compare --json c.json --quiet a.json slow.json");
    json_t *document = json_file("c.json");
    const char *schema = NULL, *state = NULL, *verdict = NULL;
    double low = 0.0, mean = 0.0;
    json_int_t regressions = 0;
    cr_assert(eq(int,
                 json_unpack(document,
                             "{s:s, s:I, s:[*], s:[{s:[n, F], s:[{s:[{s:s}, {s:s, s:{s:F}}]}]}]}",
                             "schema", &schema, "regressions", &regressions, "geometric_mean",
                             "devices", "geometric_mean", &mean, "results", "files", "state",
                             &state, "verdict", &verdict, "ratio", "low", &low),
                 0));
    cr_assert(eq(str, (char *)schema, (char *)"clattn-bench-compare-1"));
    cr_assert(eq(str, (char *)state, (char *)"measured"));
    cr_assert(eq(str, (char *)verdict, (char *)"slower"));
    cr_assert(eq(int, (int)regressions, 1));
    cr_assert(gt(dbl, low, 1.1));
    cr_assert(gt(dbl, mean, 1.02));
    json_decref(document);

    program_must(BENCH_PROGRAM, 0, "", "compare --json - a.json same.json");
    json_decref(json_printed());
}
