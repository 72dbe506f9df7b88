/* The command line of clattn-tune: exit codes and complaints, and the commands around the store. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "tests/tuner/tune_program.h"
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
         "--strategy cannot be 'nonsense': it takes guided, ils, genetic"},
        {"--problem 'fwd f32'", 2, "'fwd f32' is no problem"},
        {"--workload nonsense", 2, "there is no workload 'nonsense' and no such file"},
        {"--workload /tmp", 2, "/tmp cannot be read: Is a directory"},
        {"--workload /dev/null", 2, "/dev/null holds no problem"},
        {"--again something", 2, "'something' is neither a command nor an option"},
        {"--quiet=3", 2, "there is no option '--quiet=3'"},
        {"--record /nonexistent/file", 1, "/nonexistent/file cannot be written"},
        {"--t4 /nonexistent/file", 1, "/nonexistent/file cannot be written"},
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
    struct tune_run run;
    size_t lines = 0;

    tune_run_open(&run);
    cr_assert(eq(int, tune_run(&run, TUNE_PROGRAM, call->arguments), call->status), "%s: %s",
              call->arguments, run.text);
    cr_assert(tune_says(&run, call->says), "%s: got '%s', want '%s'", call->arguments, run.text,
              call->says);
    for (const char *c = run.text; *c; c++)
        lines += *c == '\n';
    if (call->status == 2)
        cr_expect(lines <= 1, "a complaint of %zu lines: %s", lines, run.text);
    tune_run_close(&run);
}

struct lost {
    char arguments[80];
    char says[60];
};

ParameterizedTestParameters(tune_commands, lost_words_are_a_failure) {
    /* The `#` keeps tune_run()'s own redirection from following these. */
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
    struct tune_run run;

    if (access("/dev/full", W_OK) != 0)
        cr_skip_test("there is no /dev/full here");
    tune_run_open(&run);
    cr_assert(eq(int, tune_run(&run, TUNE_PROGRAM, lost->arguments), 1), "%s: %s", lost->arguments,
              run.text);
    cr_assert(tune_says(&run, lost->says), "%s: '%s'", lost->arguments, run.text);
    tune_run_close(&run);
}

/* What --help says fits a terminal. */
Test(tune_commands, help_fits) {
    struct tune_run run;

    tune_run_open(&run);
    cr_assert(tune_run(&run, TUNE_PROGRAM, "--help") == 0);
    for (const char *line = strtok(run.text, "\n"); line; line = strtok(NULL, "\n"))
        cr_expect(strlen(line) <= 100, "wide: %s", line);
    tune_run_close(&run);
}

static int in_folder(struct tune_run *run, const char *format)
{
    char arguments[512];

    snprintf(arguments, sizeof arguments, format, run->folder, run->folder, run->folder);
    return tune_run(run, TUNE_PROGRAM, arguments);
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
        struct tune_run run;
        tune_run_open(&run);
        FILE *file = fopen(tune_path(&run, "mine.txt"), "w");
        cr_assert(file != NULL);
        fputs(cases[n].lines, file);
        fclose(file);
        cr_assert(in_folder(&run, "--device nowhere --workload %s/mine.txt") == cases[n].status,
                  "%s", run.text);
        cr_assert(tune_says(&run, cases[n].says), "%s", run.text);
        tune_run_close(&run);
    }
}

/* One tuning, whose results then go through all commands. */
Test(tune_commands, results_are_kept_shown_shared_and_forgotten) {
    struct tune_run run;

    tune_run_open(&run);
    cr_assert(tune_run(&run, TUNE_PROGRAM, "--problem '" SMALL "' --budget 4 --strategy random") ==
                  0,
              "%s", run.text);
    cr_expect(tune_says(&run, "1 problem tuned in") && tune_says(&run, "kept in /tmp/"), "%s",
              run.text);
    for (char *line = strtok(run.text, "\n"); line; line = strtok(NULL, "\n"))
        cr_expect(strlen(line) <= 100 || strstr(line, "kept in"), "wide: %s", line);

    cr_assert(tune_run(&run, TUNE_PROGRAM, "--problem '" SMALL "' --budget 4") == 0);
    cr_expect(tune_says(&run, "nothing to do"), "%s", run.text);
    cr_assert(tune_run(&run, TUNE_PROGRAM, "list") == 0);
    cr_expect(tune_says(&run, "fwd f32 b1 h2 q64 k64 d32\n  1. "), "%s", run.text);
    cr_assert(tune_run(&run, TUNE_PROGRAM, "show --known-only '" SMALL "'") == 0, "%s", run.text);
    cr_expect(tune_says(&run, "tuned for this class") && tune_says(&run, "  ms: 0."), "%s",
              run.text);

    cr_assert(in_folder(&run, "export '%s/a.json'") == 0, "%s", run.text);
    cr_assert(tune_run(&run, TUNE_PROGRAM, "forget '" SMALL "'") == 0, "%s", run.text);
    cr_expect(tune_says(&run, "entries forgotten") && !tune_says(&run, "0 entries"), "%s",
              run.text);
    cr_assert(tune_run(&run, TUNE_PROGRAM, "list") == 0);
    cr_expect(tune_says(&run, "nothing is known"), "%s", run.text);
    cr_assert(in_folder(&run, "merge '%s/a.json' '%s/a.json' -o '%s/b.json'") == 0, "%s", run.text);
    cr_assert(in_folder(&run, "import '%s/b.json'") == 0, "%s", run.text);
    cr_expect(tune_says(&run, "entries taken over") && !tune_says(&run, "0 entries"), "%s",
              run.text);
    cr_assert(tune_run(&run, TUNE_PROGRAM, "show --known-only '" SMALL "'") == 0, "%s", run.text);
    tune_run_close(&run);
}

/* What is lost is not said to be kept. */
Test(tune_commands, a_cache_that_cannot_be_written) {
    struct tune_run run;

    tune_run_open(&run);
    setenv("CLATTN_CACHE_DIR", "/dev/null/clattn", 1);
    cr_assert(eq(int, tune_run(&run, TUNE_PROGRAM, "--problem '" SMALL "' --budget 1"), 1), "%s",
              run.text);
    cr_expect(not(tune_says(&run, "kept in")), "%s", run.text);
    cr_expect(tune_says(&run, "clattn-tune: what was found is lost: /dev/null/clattn/tuning/"),
              "%s", run.text);
    tune_run_close(&run);
}

/* Without a cache directory it works, and says that nothing is kept. */
Test(tune_commands, works_without_a_cache) {
    struct tune_run run;

    tune_run_open(&run);
    setenv("CLATTN_CACHE_DIR", "", 1);
    cr_assert(tune_run(&run, TUNE_PROGRAM,
                       "--problem '" SMALL "' --budget 1 --strategy random --quiet") == 0,
              "%s", run.text);
    cr_expect(tune_says(&run, "kept nowhere"), "%s", run.text);
    cr_assert(tune_run(&run, TUNE_PROGRAM, "list") == 0);
    cr_expect(tune_says(&run, "there is no cache directory"), "%s", run.text);
    tune_run_close(&run);
}
