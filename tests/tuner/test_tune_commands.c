/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of clattn-tune: exit codes and complaints, and the commands around the store. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "tests/tuner/tune_program.h"
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(tune_commands, .init = tune_open, .fini = scratch_close);

struct call {
    char arguments[120];
    int status;
    char says[100];
};

ParameterizedTestParameters(tune_commands, exits_with) {
    static struct call calls[] = {
        {"--help", 0, "Usage: clattn-tune"},
        {"-h", 0, "On new hardware"},
        {"--version", 0, "clattn-tune "},
        {"--workload list", 0, "tuning"},
        {"nonsense", 2, "there is no command 'nonsense'"},
        {"--nonsense", 2, "there is no option '--nonsense'"},
        {"-x", 2, "there is no option '-x'"},
        {"'x\033[31m'", 2, "there is no command 'x?[31m'"},
        {"'--\u202ex'", 2, "there is no option '--???x'"},
        {"show 'fwd \xc2\x9bx'", 2, "'fwd ??x' is no problem: '??x'"},
        {"--problem 'fwd \xc2\x9bx'", 2, "'fwd ??x' is no problem: '??x'"},
        {"import '/nowhere\033[31m'", 1, "/nowhere?[31m"},
        {"--budget", 2, "--budget needs a value"},
        {"--budget 0", 2, "--budget cannot be '0': it takes a number of configurations, or a time"},
        {"--budget 0s", 2, "--budget cannot be '0s'"},
        {"--budget 3x", 2, "--budget cannot be '3x'"},
        {"--budget -3s", 2, "--budget cannot be '-3s'"},
        {"--budget 1e99s", 2, "--budget cannot be '1e99s'"},
        {"--budget nans", 2, "--budget cannot be 'nans'"},
        {"--timeout 0", 2, "--timeout cannot be '0': it takes a number of seconds, over 0"},
        {"--builders 17", 2, "it takes a number of processes from 0 to 16"},
        {"--timeout 5s", 2, "--timeout cannot be '5s'"},
        {"--seed -1", 2, "--seed cannot be '-1'"},
        {"--seed 99999999999999999999", 2, "--seed cannot be"},
        {"--strategy nonsense", 2,
         "--strategy cannot be 'nonsense': it takes guided, random, exhaustive"},
        {"--problem 'fwd f32'", 2, "'fwd f32' is no problem"},
        {"--workload nonsense", 2, "there is no workload 'nonsense' and no such file"},
        {"--workload /tmp", 2, "/tmp cannot be read: Is a directory"},
        {"--workload /dev/null", 2, "/dev/null holds no problem"},
        {"--again something", 2, "'something' is neither a command nor an option"},
        {"--quiet=3", 2, "there is no option '--quiet=3'"},
        {"--json /nonexistent/file", 1, "/nonexistent/file cannot be written"},
        {"--device nowhere", 1, "no OpenCL device could be chosen by 'nowhere'"},
        {"help", 0, "Usage: clattn-tune [OPTION...]"},
        {"help help", 0, "Usage: clattn-tune [OPTION...]"},
        {"help show", 0, "Usage: clattn-tune show LINE"},
        {"help nonsense", 2, "there is no command 'nonsense'"},
        {"list --help", 0, "Usage: clattn-tune list"},
        {"list more", 2, "too many arguments"},
        {"list --all", 2, "there is no option '--all'"},
        {"list --device", 2, "--device needs a value"},
        {"list --device nowhere", 1, "nowhere"},
        {"list", 0, "nothing is known of this device"},
        {"show --help", 0, "Usage: clattn-tune show"},
        {"show", 2, "an argument is missing"},
        {"show 'fwd f32'", 2, "'fwd f32' is no problem"},
        {"show --device nowhere '" SMALL "'", 1, "nowhere"},
        {"show --known-only '" SMALL "'", 1, "CLATTN_NOT_TUNED"},
        {"forget", 2, "either a problem or --all"},
        {"forget --all '" SMALL "'", 2, "either a problem or --all"},
        {"forget --all --programs", 2, "either a problem or --all or --programs"},
        {"forget --programs '" SMALL "'", 2, "either a problem or --all or --programs"},
        {"forget --programs", 0, "0 programs removed"},
        {"list --programs", 2, "there is no option '--programs'"},
        {"forget nonsense", 2, "'nonsense' is no problem"},
        {"forget --all", 0, "0 entries forgotten"},
        {"export", 2, "an argument is missing"},
        {"export a b", 2, "too many arguments"},
        {"export /tmp/file --device nowhere", 1, "nowhere"},
        {"export /tmp/clattn_nothing", 1, "nothing is known of this device"},
        {"import", 2, "an argument is missing"},
        {"import /nonexistent/file", 1, "/nonexistent/file"},
        {"import " TUNE_PROGRAM, 1, TUNE_PROGRAM},
        {"merge", 2, "an argument is missing"},
        {"merge /nonexistent/file", 2, "-o FILE is missing"},
        {"merge /nonexistent/file -o /tmp/clattn_nothing", 1, "/nonexistent/file"},
        {"merge -o", 2, "-o needs a value"},
        {"worker", 2, ""},
        {"worker 1 x", 2, ""},
    };
    return cr_make_param_array(struct call, calls, sizeof calls / sizeof *calls);
}

ParameterizedTest(struct call *call, tune_commands, exits_with) {
    size_t lines = 0;

    program_must(TUNE_PROGRAM, call->status, call->says, "%s", call->arguments);
    for (const char *c = program_text; *c; c++)
        lines += *c == '\n';
    if (call->status == 2)
        cr_expect(lines <= 1, "a complaint of %zu lines: %s", lines, program_text);
}

struct lost {
    char arguments[80];
    char says[60];
};

ParameterizedTestParameters(tune_commands, lost_words_are_a_failure) {
    /* The `#` keeps program_run()'s own redirection from following these. */
    static struct lost cases[] = {
        {"--help 2>&1 > /dev/full #", "cannot be written: No space left on device"},
        {"--version 2>&1 >&- #", "cannot be written: Bad file descriptor"},
        {"--workload list 2>&1 > /dev/full #", "what it printed is incomplete"},
        {"list 2>&1 > /dev/full #", "what it printed is incomplete"},
        {"forget --all 2>&1 > /dev/full #", "what it printed is incomplete"},
    };
    return cr_make_param_array(struct lost, cases, sizeof cases / sizeof *cases);
}

/* A status of 0 promises that all was written. */
ParameterizedTest(struct lost *lost, tune_commands, lost_words_are_a_failure) {
    if (access("/dev/full", W_OK) != 0)
        cr_skip_test("there is no /dev/full here");
    program_must(TUNE_PROGRAM, 1, lost->says, "%s", lost->arguments);
}

/* The text of --help fits a terminal. */
Test(tune_commands, help_fits) {
    program_must(TUNE_PROGRAM, 0, "", "--help");
    program_expect_width(program_text, 100, NULL);
}

/* A file of problems is read before a device is looked for. */
Test(tune_commands, takes_a_file_of_problems) {
    static const struct {
        const char *lines;
        int status;
        const char *says;
    } cases[] = {
        {"# mine\n" SMALL "\nencoder: " SMALL " causal=tl\n", 1, "by 'nowhere'"},
        {SMALL "\nfwd f32 q3\n", 2, "mine.txt, line 2: 'fwd f32 q3' is no problem"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        scratch_write(scratch_path("mine.txt"), cases[n].lines);
        program_must(TUNE_PROGRAM, cases[n].status, cases[n].says,
                     "--device nowhere --workload %s/mine.txt", scratch);
    }
}

/* One tuning, whose results then go through all commands. */
Test(tune_commands, results_are_kept_shown_shared_and_forgotten) {
    const char *a = scratch_path("a.json"), *b = scratch_path("b.json");

    program_must(TUNE_PROGRAM, 0, "", "--problem '" SMALL "' --budget 4 --strategy random");
    cr_expect(program_said("1 problem tuned in") && program_said("kept in /tmp/"), "%s",
              program_text);
    program_expect_width(program_text, 100, "kept in");

    program_must(TUNE_PROGRAM, 0, "nothing to do", "--problem '" SMALL "' --budget 4");
    program_must(TUNE_PROGRAM, 0, "fwd f32 b1 h2 q64 k64 d32\n  1. ", "list");
    program_must(TUNE_PROGRAM, 0, "", "show --known-only '" SMALL "'");
    const char *times = strstr(program_text, "  ms: ");
    cr_expect(program_said("tuned for this class") && times && strtod(times + 6, NULL) > 0.0, "%s",
              program_text);

    program_must(TUNE_PROGRAM, 0, "", "export %s", a);
    program_must(TUNE_PROGRAM, 0, "", "forget '" SMALL "'");
    cr_expect(program_said("entries forgotten") && !program_said("0 entries"), "%s", program_text);
    program_must(TUNE_PROGRAM, 0, "nothing is known", "list");
    cr_expect(program_said("built programs: ") && program_said(" of at most 1024 MB") &&
                  !program_said("built programs: 0"),
              "%s", program_text);
    program_must(TUNE_PROGRAM, 0, " programs removed", "forget --programs");
    cr_expect(program_text[0] != '0', "%s", program_text);
    program_must(TUNE_PROGRAM, 0, "built programs: 0, 0.0 MB", "list");
    program_must(TUNE_PROGRAM, 0, "", "merge %s %s -o %s", a, a, b);
    program_must(TUNE_PROGRAM, 0, "", "import %s", b);
    cr_expect(program_said("entries taken over") && !program_said("0 entries"), "%s", program_text);
    program_must(TUNE_PROGRAM, 0, "", "show --known-only '" SMALL "'");
}

/* The program does not claim to have kept a result that is lost. */
Test(tune_commands, a_cache_that_cannot_be_written) {
    setenv("CLATTN_CACHE_DIR", "/dev/null/clattn", 1);
    program_must(TUNE_PROGRAM, 1, "clattn-tune: the results are lost: /dev/null/clattn/tuning/",
                 "--problem '" SMALL "' --budget 1");
    cr_expect(not(program_said("kept in")), "%s", program_text);
}

/* Without a cache directory it works, and says that nothing is kept. */
Test(tune_commands, works_without_a_cache) {
    setenv("CLATTN_CACHE_DIR", "", 1);
    program_must(TUNE_PROGRAM, 0, "kept nowhere",
                 "--problem '" SMALL "' --budget 1 --strategy random --quiet");
    program_must(TUNE_PROGRAM, 0, "there is no cache directory", "list");
}
