/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-tune on a device: what it writes, how it ends when it is interrupted or killed, and how it
 * goes on. */
#define _GNU_SOURCE /* posix_openpt and its like */
#include "tests/tuner/tune_program.h"
#include "tuner/progress.h"
#include <criterion/new/assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(tune_program, .init = tune_open, .fini = scratch_close, .timeout = 300);

static void nap(long milliseconds)
{
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

/* ---- what it writes -------------------------------------------------------------------------- */

static void check_json(const json_t *root)
{
    cr_assert(eq(sz, json_size_at(root, "problems"), 2));
    for (size_t n = 0; n < 2; n++) {
        const json_t *problem = json_at(root, "problems.%zu", n);
        json_must_be(problem, "state", "tuned");
        cr_expect(json_text_at(problem, "configuration") != NULL);
        cr_expect(json_number_at(problem, "milliseconds.low") <=
                  json_number_at(problem, "milliseconds.median"));
        cr_expect(json_size_at(problem, "milliseconds.samples") >= 3);
        cr_expect(json_number_at(problem, "speedup.median") > 0.0);
        cr_expect(json_number_at(problem, "error") <= 1.0);
        cr_expect(json_number_at(problem, "compile_seconds") > 0.0);
    }
    cr_expect(eq(int, json_is_false(json_at(root, "interrupted")), 1));
    cr_expect(json_number_at(root, "evaluations") >= 5);
    cr_expect(json_number_at(root, "compile_seconds") > 0.0);
    cr_expect(json_text_at(root, "device.driver") != NULL);
}

/* Its table, and what is listed then, on a terminal of so many columns. */
static void check_widths(size_t columns)
{
    const char *table = strstr(program_text, "\nproblem\n");

    cr_assert(table != NULL, "problems stand above their figures: %s", program_text);
    program_expect_width(table, columns, "/");
    cr_expect(text_says(table, ", built in ") && text_says(table, "compilers"), "%s", table);
    program_must(TUNE_PROGRAM, 0, "", "list");
    program_expect_width(program_text, columns, "/");
    program_must(TUNE_PROGRAM, 0, "", "show '" SMALL "'");
    program_expect_width(program_text, columns, "/");
}

Test(tune_program, writes_json) {
    setenv("COLUMNS", "40", 1);
    program_must(TUNE_PROGRAM, 0, "2 problems tuned",
                 "--problem '" SMALL
                 "' --problem 'fwd f32 h2 q128 d32' --budget 15 --strategy random "
                 "--json %s/result.json",
                 scratch);
    cr_expect(strpbrk(program_text, "\r\033") == NULL, "not on a terminal: %s", program_text);
    check_widths(40);
    json_t *root = json_file(scratch_path("result.json"));
    check_json(root);
    json_decref(root);

    program_must(TUNE_PROGRAM, 0, "", "--problem '" SMALL "' --quiet --json");
    root = json_printed(); /* nothing but JSON */
    json_must_be(root, "problems.0.state", "known");
    json_decref(root);
}

/* Two problems of one class are tuned once. */
Test(tune_program, tunes_a_class_once) {
    program_must(TUNE_PROGRAM, 0, "1 problem tuned",
                 "--problem '" SMALL "' --problem 'fwd f32 h2 q65 d32' --budget 1 --quiet");
}

/* ---- interruptions --------------------------------------------------------------------------- */

/* Readings of the journal, each of a configuration of its own. */
static size_t count_readings(void)
{
    return tune_count_lines(tune_journal(), "\"reading\"");
}

/* Waits until the journal has so many readings; false if the program ends before. */
static bool wait_for_readings(pid_t program, size_t readings)
{
    while (count_readings() < readings) {
        if (waitpid(program, NULL, WNOHANG) != 0)
            return false;
        nap(20);
    }
    return true;
}

/* Returns true if a worker of that process is running. */
static bool has_worker(pid_t program)
{
    struct dirent *entry;
    char wanted[64], path[300], text[512];
    bool found = false;

    const size_t wanted_bytes =
        (size_t)snprintf(wanted, sizeof wanted, "worker%c%ld", '\0', (long)program) + 1;
    DIR *directory = opendir("/proc");
    while (directory && !found && (entry = readdir(directory)) != NULL) {
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        FILE *file = fopen(path, "r");
        const size_t bytes = file ? fread(text, 1, sizeof text, file) : 0;
        for (size_t n = 0; n + wanted_bytes <= bytes; n++)
            found |= memcmp(text + n, wanted, wanted_bytes) == 0;
        if (file)
            fclose(file);
    }
    if (directory)
        closedir(directory);
    return found;
}

enum { COMPARED = 5 }; /* readings by which families are compared, before the search */

#define SEARCH "--problem '" SMALL "' --budget 12 --strategy random --seed 3"

static void interrupt_by(int signal_number)
{
    int status;

    const pid_t program = tune_start(TUNE_PROGRAM, SEARCH);
    cr_assert(wait_for_readings(program, COMPARED + 3));
    cr_expect(has_worker(program));
    kill(program, signal_number);
    cr_assert(waitpid(program, &status, 0) == program);
    cr_assert(eq(int, WIFEXITED(status) ? WEXITSTATUS(status) : -1, 130));
    cr_expect(has_worker(program) == false);
    cr_expect(tune_count_lines(scratch_path("output"), "interrupted: 1 problem tuned") == 1);
    cr_assert(tune_journal()[0] != '\0', "there is no journal to go on from");

    /* What was found serves at once, and the next run goes on. */
    program_must(TUNE_PROGRAM, 0, "", "show --known-only '" SMALL "'");
    program_must(TUNE_PROGRAM, 0, "going on with a tuning that was interrupted", SEARCH);
    cr_expect(tune_journal()[0] == '\0', "the journal is left behind");
    program_must(TUNE_PROGRAM, 0, "nothing to do", SEARCH);
}

Test(tune_program, interrupted_it_keeps_what_it_has) {
    interrupt_by(SIGINT);
}

Test(tune_program, terminated_it_keeps_what_it_has) {
    interrupt_by(SIGTERM);
}

/* Killed at any moment, it loses at most the configuration that it was trying: of 12 configurations
 * and some that families are compared by, no more are tried in all runs together, but for one for
 * each kill. */
Test(tune_program, killed_again_and_again_it_comes_to_an_end) {
    char compiled[256], command[400];
    unsigned random = 20260;
    size_t kills = 0, before = 0;
    int status = -1;

    snprintf(compiled, sizeof compiled, "%s/compiled", scratch);
    setenv("TUNE_FAULTS_COMPILED", compiled, 1);
    while (status != 0 && kills < 40) {
        const pid_t program = tune_start(FAULTY_PROGRAM, SEARCH);
        random = random * 1103515245u + 12345u;
        const unsigned naps =
            10 + (random >> 16) % (40u << kills / 4); /* it ends on busy machines, too */
        for (unsigned n = 0; n < naps && waitpid(program, &status, WNOHANG) == 0; n++)
            nap(20);
        if (kill(program, SIGKILL) == 0 && waitpid(program, &status, 0) == program)
            kills++;
        for (int n = 0; n < 250 && has_worker(program); n++)
            nap(20);
        cr_assert(has_worker(program) == false, "a worker outlives its tuner");
        /* The journal goes when all is kept, which may be just before a kill. */
        const bool done = status == 0 || (before > 0 && count_readings() == 0);
        cr_assert(done || count_readings() >= before, "readings are lost");
        if (done && status != 0)
            program_must(TUNE_PROGRAM, 0, "nothing to do", SEARCH); /* else readings are lost */
        before = count_readings();
        program_must(TUNE_PROGRAM, 0, "", "list");
        cr_assert(not(program_said("set aside")), "%s", program_text);
    }
    cr_assert(status == 0, "it has not come to an end after %zu kills", kills);
    cr_expect(kills > 0, "it was not killed once");
    snprintf(command, sizeof command, "test $(sort -u '%s' | wc -l) -le %zu", compiled, 16 + kills);
    cr_expect(system(command) == 0, "more than one configuration is lost in each of %zu kills",
              kills);
    program_must(TUNE_PROGRAM, 0, "nothing to do", SEARCH);
}

Test(tune_program, two_at_once_do_not_disturb_each_other) {
    int status;

    const pid_t first = tune_start(TUNE_PROGRAM, SEARCH);
    cr_assert(wait_for_readings(first, 1));
    program_must(TUNE_PROGRAM, 1, "another clattn-tune is at work on this device", SEARCH);
    kill(first, SIGINT);
    cr_assert(waitpid(first, &status, 0) == first);
}

/* ---- the progress line ----------------------------------------------------------------------- */

/* Returns the output on a terminal of 60 columns. */
static void draw_on_terminal(char *text, size_t text_bytes)
{
    const struct winsize size = {.ws_row = 24, .ws_col = 60};
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    struct ca_progress progress;

    cr_assert(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    cr_assert(slave >= 0 && ioctl(slave, TIOCSWINSZ, &size) == 0);
    FILE *terminal = fdopen(slave, "w");
    const clattn_tuning_progress now = {.struct_size = sizeof now,
                                        .phase = "search",
                                        .problem_class = "a class",
                                        .problem = 2,
                                        .num_problems = 13,
                                        .evaluations = 42,
                                        .seconds = 20.0,
                                        .seconds_left = 60.0,
                                        .best = 1e-3,
                                        .untuned = 1.5e-3};
    ca_progress_open(&progress, terminal, false, 60.0);
    ca_progress_trying(&progress, "fused_cpu UNIT=vector");
    ca_progress_update(&progress, &now, "a problem whose text is too long for the line");
    ca_progress_say(&progress, "a line that stays");
    fcntl(master, F_SETFL, O_NONBLOCK);
    size_t length = 0;
    for (ssize_t bytes; (bytes = read(master, text + length, text_bytes - 1 - length)) > 0;)
        length += (size_t)bytes;
    text[length] = '\0';
    fclose(terminal);
    close(master);
}

Test(tune_program, progress_is_one_line_on_a_terminal) {
    char text[2048];

    setenv("TERM", "xterm", 1);
    draw_on_terminal(text, sizeof text);
    const char *line = strstr(text, "\r[");
    cr_assert(line != NULL && strstr(text, "fused_cpu UNIT=vector") < line, "%s", text);
    cr_expect(strncmp(line, "\r[#####---------------] 1:00 left  42 tried  1.00 ms 1.50x  ", 60) ==
                  0,
              "%s", line);
    cr_expect(strcspn(line + 1, "\033") == 59, "the line is as wide as the terminal: %s", line);
    cr_expect(strstr(line, "\r\033[Ka line that stays\r\n") != NULL, "%s", line);

    setenv("TERM", "dumb", 1);
    draw_on_terminal(text, sizeof text);
    cr_expect_str_eq(text, "a line that stays\r\n");
}

Test(tune_program, times_are_printed_with_their_unit) {
    static const struct {
        double seconds;
        const char *text;
    } times[] = {{1.234e-6, "1.23 us"}, {12.34e-6, "12.3 us"}, {0.2, "200 ms"},
                 {1.5, "1.50 s"},       {3e-9, "0.00 us"},     {250.0, "250 s"}};
    char text[CA_TIME_TEXT];

    for (size_t n = 0; n < sizeof times / sizeof *times; n++)
        cr_expect_str_eq(ca_time_print(times[n].seconds, text), times[n].text);
}
