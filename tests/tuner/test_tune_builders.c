/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that compile ahead; a shell script stands in for them. */
#define _POSIX_C_SOURCE 200809L /* setenv, chmod */
#include "families/candidate.h"
#include "families/family_units.h"
#include "families/registry.h"
#include "tests/tuner/tune_program.h"
#include "tuner/worker/worker_builders.h"
#include <criterion/new/assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

TestSuite(tune_builders, .init = tune_open, .fini = scratch_close, .timeout = 120);

/* Writes its requests to $BUILDER_LOG; $3, the device, is what it does then. */
static const char script[] =
    "#!/bin/sh\n"
    "while read -r line <&3; do\n"
    "    case $line in *open*)\n"
    "        [ $3 = closed ] && echo '{\"status\": -1}' >&4 || echo '{\"status\": 0}' >&4\n"
    "        continue;;\n"
    "    esac\n"
    "    echo \"$line\" >> $BUILDER_LOG\n"
    "    outcome=correct\n"
    "    case $3 in\n"
    "    dies) exit 3;;\n"
    "    hangs) sleep 60;;\n"
    "    chats) echo nonsense >&4;;\n"
    "    refuses) outcome=compile;;\n"
    "    waits) while [ $(grep -c . $BUILDER_LOG) -lt 3 ]; do sleep 0.01; done;;\n"
    "    esac\n"
    "    echo \"{\\\"reading\\\": {\\\"outcome\\\": \\\"$outcome\\\", \\\"times\\\": [],"
    " \\\"error\\\": 0, \\\"binary\\\": \\\"0\\\", \\\"compile\\\": 1.0,"
    " \\\"reason\\\": \\\"\\\"}}\" >&4\n"
    "done\n";

enum { CANDIDATES = 12 };

struct site {
    char program[128], log[128];
    struct ca_candidate candidates[CANDIDATES];
    struct ca_builders *builders;
};

static bool for_ever(void *user)
{
    (void)user;
    return true;
}

static void site_open(struct site *site, const char *behaviour)
{
    struct ca_worker_options options = {
        .builders = 3, .device = behaviour, .timeout = 8.0, .patience = for_ever};

    signal(SIGPIPE, SIG_IGN);
    snprintf(site->program, sizeof site->program, "%s", scratch_path("builder"));
    snprintf(site->log, sizeof site->log, "%s", scratch_path("log"));
    remove(site->log); /* of another site */
    setenv("BUILDER_LOG", site->log, 1);
    scratch_write(site->program, script);
    cr_assert(chmod(site->program, 0700) == 0);
    for (size_t n = 0; n < CANDIDATES; n++) {
        struct ca_candidate *candidate = &site->candidates[n];
        *candidate = (struct ca_candidate){.family = &ca_fused_cpu_vector};
        for (size_t t = 0, rest = n; t < candidate->family->num_tunables; t++) {
            const struct ca_tunable *tunable = &candidate->family->tunables[t];
            candidate->values[t] = tunable->candidates[rest % tunable->num_candidates];
            rest /= tunable->num_candidates;
        }
    }
    options.program = site->program;
    site->builders = ca_builders_create(&options);
    ca_builders_open(site->builders, json_pack("{s:s}", "do", "open"));
    ca_builders_announce(site->builders, site->candidates, CANDIDATES);
}

static void site_close(struct site *site)
{
    ca_builders_destroy(site->builders);
}

/* Asks for candidate n. Returns how many were built by now. */
static size_t built(struct site *site, size_t n)
{
    ca_builders_run(site->builders, &site->candidates[n]);
    return tune_count_lines(site->log, "build");
}

static void judge(struct site *site, size_t n, double seconds)
{
    const struct ca_reading reading = {.outcome = CA_CORRECT, .compile_seconds = seconds};

    ca_builders_judge(site->builders, &site->candidates[n], &reading);
}

Test(tune_builders, build_what_is_announced_once_and_at_once) {
    struct site site;

    site_open(&site, "waits"); /* for the two others: one after another they would not end */
    cr_assert(eq(sz, built(&site, 0), 3));
    cr_assert(eq(sz, built(&site, 0), 3));
    cr_assert(eq(sz, built(&site, 2), 3));
    cr_assert(eq(sz, built(&site, 5), 6), "begins with what is asked for");
    cr_assert(eq(sz, built(&site, 3), 9), "3, 4 and 8");
    cr_assert(eq(sz, built(&site, 11), 9), "for one it is not worth it");
    ca_builders_announce(site.builders, site.candidates, 2);
    cr_assert(eq(sz, built(&site, 2), 9), "it is not announced any more");
    cr_assert(eq(sz, built(&site, 1), 9));
    cr_assert(eq(sz, built(&site, 0), 11));
    ca_builders_open(site.builders, json_pack("{s:s}", "do", "open"));
    cr_assert(eq(sz, built(&site, 0), 11));
    site_close(&site);
}

Test(tune_builders, are_kept_where_a_second_build_is_fast) {
    struct site site;

    site_open(&site, "is good");
    for (size_t n = 0; n < CANDIDATES; n++) {
        built(&site, n);
        judge(&site, n, 0.05);
        judge(&site, n, 9.0); /* only the first says anything */
    }
    cr_assert(eq(int, ca_builders_are_used(site.builders), 1));
    cr_assert(eq(sz, tune_count_lines(site.log, "build"), CANDIDATES));
    site_close(&site);
}

Test(tune_builders, are_not_used_where_they_bring_nothing) {
    struct site site;

    site_open(&site, "is good");
    for (size_t n = 0; n < 6; n++) {
        cr_assert(eq(int, ca_builders_are_used(site.builders), n < 4));
        cr_assert(eq(sz, built(&site, n), n < 3 ? 3 : 6));
        judge(&site, n, 0.9);
    }
    cr_assert(eq(sz, built(&site, 6), 6));
    site_close(&site);
}

/* A builder reports the time of its compiler, which had to fill the machine's cache. The worker
 * finds the cache full and cannot know that time. */
Test(tune_builders, say_what_their_compiler_took) {
    struct site site;

    site_open(&site, "is good");
    cr_assert(ca_builders_seconds(site.builders, &site.candidates[0]) == 0.0);
    built(&site, 0);
    judge(&site, 0, 0.05);
    cr_assert(ca_builders_seconds(site.builders, &site.candidates[0]) == 1.0);
    cr_assert(ca_builders_seconds(site.builders, &site.candidates[7]) == 0.0, "not yet");
    site_close(&site);
}

/* A build that fails there is left to the worker, and a new process builds the next one. */
Test(tune_builders, may_fail) {
    static const char *const behaviours[] = {"dies", "hangs", "chats", "refuses"};
    struct site site;

    for (size_t n = 0; n < sizeof behaviours / sizeof *behaviours; n++) {
        site_open(&site, behaviours[n]);
        cr_assert(eq(sz, built(&site, 0), 3), "%s", behaviours[n]);
        for (size_t c = 0; c < 6; c++)
            judge(&site, c, 9.0);
        cr_assert(eq(int, ca_builders_are_used(site.builders), 1), "%s", behaviours[n]);
        cr_assert(eq(sz, built(&site, 3), 6), "%s", behaviours[n]);
        site_close(&site);
    }
}

Test(tune_builders, that_do_not_start_are_not_used) {
    struct site site;

    site_open(&site, "closed");
    cr_assert(eq(sz, built(&site, 0), 0));
    cr_assert(eq(int, ca_builders_are_used(site.builders), 0));
    site_close(&site);
    site_open(&site, "is good");
    cr_assert(remove(site.program) == 0);
    cr_assert(eq(sz, built(&site, 0), 0));
    cr_assert(eq(int, ca_builders_are_used(site.builders), 0));
    site_close(&site);
}

/* Each program is compiled twice: ahead by a builder, and by the worker, which then finds it in the driver's cache. */
Test(tune_builders, of_the_program) {
    setenv("TUNE_FAULTS_COMPILED", scratch_path("compiled"), 1);
    program_must(FAULTY_PROGRAM, 0, "", "--problem '" SMALL "' --budget 8 --seed 3 --builders 0");
    const size_t alone = tune_count_lines(scratch_path("compiled"), "-D");
    program_must(FAULTY_PROGRAM, 0, "",
                 "--problem '" SMALL "' --budget 8 --seed 3 --again --builders 2");
    const size_t both = tune_count_lines(scratch_path("compiled"), "-D") - alone;
    cr_assert(alone >= 8 && both >= alone + 4, "%zu, %zu", alone, both);
    cr_assert(eq(int, program_run(TUNE_PROGRAM, "--builders 17"), 2));
    cr_assert(eq(int, program_run(TUNE_PROGRAM, "--builders few"), 2));
}
