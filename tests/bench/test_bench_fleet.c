/* SPDX-License-Identifier: Apache-2.0 */
/* Devices in processes of their own. A shell script stands in for clattn-bench: it lists what the
 * test has written, and does on each device what the test says. */
#define _XOPEN_SOURCE 700 /* setenv, strdup */
#include "bench/fleet/fleet.h"
#include "tests/bench/run_example.h"
#include "tests/support/programs/program.h"
#include "tests/support/programs/scratch.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/redirect.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define POCL "Portable Computing Language"

/* Patience with a machine that is busy; where silence is what is tested, there is less. */
#define LONG 60.0
#define SHORT 2.0

/* The work of the script as the child of a device. */
#define WORK "echo $n >> $d/ran; cp $d/result-$n $CLATTN_BENCH_SAVE; "

static const char script[] = "#!/bin/sh\n"
                             "d=$(dirname \"$0\")\n"
                             "ulimit -c 0\n"
                             "n=$CLATTN_BENCH_DEVICE\n"
                             "if [ \"$1\" = devices ]; then . $d/list; exit 0; fi\n"
                             "echo \"$@\" > $d/call-$n\n"
                             ". $d/child-$n\n";

static struct {
    char program[96], temporary[96];
    int held[2]; /* A pipe whose one end every child inherits. */
    struct fleet fleet;
    struct run_results results;
    json_t *list;
} crew;

static void check_file(const char *name, const char *want)
{
    char *got = access(scratch_path("%s", name), F_OK) == 0
                    ? scratch_read(scratch_path("%s", name), NULL)
                    : calloc(1, 1);

    cr_expect(strcmp(got, want) == 0, "%s holds '%s', not '%s'", name, got, want);
    free(got);
}

static void open_crew(void)
{
    scratch_open();
    cr_assert(pipe(crew.held) == 0);
    fcntl(crew.held[0], F_SETFD, FD_CLOEXEC);
    snprintf(crew.program, sizeof crew.program, "%s", scratch_path("bench"));
    snprintf(crew.temporary, sizeof crew.temporary, "%s", scratch_path("tmp"));
    scratch_write(crew.program, script);
    scratch_write(scratch_path("list"), "cat $d/devices.json\n");
    cr_assert(chmod(crew.program, 0700) == 0 && mkdir(crew.temporary, 0700) == 0);
    setenv("TMPDIR", crew.temporary, 1);
    crew.list = json_array();
    crew.fleet =
        (struct fleet){.child = {.program = crew.program, .output = CA_NO_FILE, .silence = LONG},
                       .devices = "all",
                       .quiet = true};
}

/* One more device, with results of `problems` problems, and what its child does. */
static void add_device(const char *name, size_t problems, const char *does)
{
    const size_t index = json_array_size(crew.list);
    struct rng random = rng_seed(1);
    struct run_results results;
    struct message why;

    example_begin(&results);
    struct device_run *run = example_device(&results, name, POCL);
    json_t *device = results_device(&run->info);
    json_object_set_new(device, "index", json_integer((json_int_t)index));
    json_array_append_new(crew.list, device);
    for (size_t n = 0; n < problems; n++)
        example_outcome(example_record(run, "tiny", n == 0 ? "fwd f32 q8 d8" : "fwd f32 q9 d8"),
                        "clattn", 1e-3, 0.03, 7, &random);
    cr_assert(results_write(scratch_path("result-%zu", index), &results, &why), "%s", why.text);
    results_free(&results);
    scratch_write(scratch_path("child-%zu", index), does);
}

static bool run_crew(void)
{
    cr_assert(json_dump_file(crew.list, scratch_path("devices.json"), 0) == 0);
    return fleet_run(&crew.fleet, &crew.results);
}

/* Nothing is left: no process that holds the pipe, no temporary file. */
static void close_crew(void)
{
    struct pollfd held = {.fd = crew.held[0], .events = POLLIN};

    close(crew.held[1]);
    cr_expect(poll(&held, 1, 3000) == 1 && (held.revents & POLLHUP) != 0, "a process is left");
    cr_expect(rmdir(crew.temporary) == 0, "temporary files are left");
    close(crew.held[0]);
    results_free(&crew.results);
    json_decref(crew.list);
    scratch_close();
}

TestSuite(fleet, .init = open_crew, .fini = close_crew);

static void check_device(size_t n, const char *name, size_t problems, const char *failed)
{
    const struct device_run *run = &crew.results.devices[n];

    cr_assert(gt(sz, crew.results.count, n));
    cr_expect(strcmp(run->info.name, name) == 0, "'%s', not '%s'", run->info.name, name);
    cr_expect(eq(sz, run->count, problems), "%s", name);
    cr_expect(failed[0] != '\0' ? strstr(run->failed.text, failed) != NULL
                                : run->failed.text[0] == '\0',
              "%s: '%s', not '%s'", name, run->failed.text, failed);
}

Test(fleet, wants_several) {
    cr_assert(fleet_wanted("all"));
    cr_assert(fleet_wanted("0,2"));
    cr_assert(not(fleet_wanted("pthread")));
    cr_assert(not(fleet_wanted("wall")));
}

Test(fleet, takes_over_what_each_wrote) {
    const char *const arguments[] = {"run", "--repeat", "3", "tiny problem"};

    add_device("pthread", 2, WORK);
    add_device("basic", 1, WORK "test -z \"$(cat)\" || exit 1");
    crew.fleet.child.arguments = arguments;
    crew.fleet.child.num_arguments = 4;
    cr_assert(run_crew());
    cr_assert(eq(sz, crew.results.count, 2));
    check_device(0, "pthread", 2, "");
    check_device(1, "basic", 1, "");
    cr_expect(eq(sz, crew.results.devices[1].index, 1));
    check_file("ran", "0\n1\n");
    char *call = scratch_read(scratch_path("call-0"), NULL);
    cr_expect(strcmp(call, "run --repeat 3 tiny problem\n") == 0, "%s", call);
    free(call);
}

/* Whatever becomes of one child, the others have their rows. */
Test(fleet, accidents_cost_their_own_rows) {
    add_device("crash", 1, "echo tiny: warming up >&3; sleep 50 & kill -SEGV $$");
    add_device("late crash", 1, WORK "kill -ABRT $$");
    add_device("half", 1, "head -c 300 $d/result-$n > $CLATTN_BENCH_SAVE");
    add_device("nothing", 1, "exit 1");
    add_device("silent success", 1, "exit 0");
    add_device("odd", 1, WORK "exit 7");
    add_device("bad results", 1, WORK "exit 1");
    add_device("good", 1, WORK);
    cr_assert(not(run_crew()));
    cr_assert(eq(sz, crew.results.count, 8));
    check_device(0, "crash", 0, "the driver crashed: killed by signal 11 (Segmentation");
    check_device(0, "crash", 0, " while it did 'tiny: warming up'");
    check_device(1, "late crash", 1, "the driver crashed: killed by signal 6");
    check_device(2, "half", 0, "its results cannot be read");
    check_device(3, "nothing", 0, "ended before it had results");
    check_device(4, "silent success", 0, "ended before it had results");
    check_device(5, "odd", 1, "ended with exit status 7");
    check_device(6, "bad results", 1, "");
    check_device(7, "good", 1, "");
    cr_expect(eq(sz, crew.results.devices[4].index, 4));
    cr_expect(strcmp(crew.results.devices[3].info.platform_name, POCL) == 0);
}

Test(fleet, silence_ends_a_child) {
    add_device("hangs", 1,
               "echo tiny: sample 3 >&3; " WORK
               "trap 'echo told > $d/told; exit' TERM; sleep 50 & wait");
    add_device("clings", 1, "trap '' TERM; sleep 50 & while :; do sleep 1; done");
    add_device("good", 1, WORK);
    crew.fleet.child.silence = SHORT;
    cr_assert(not(run_crew()));
    check_device(0, "hangs", 1, "gave no sign of life for 2 s while it did 'tiny: sample 3'");
    check_file("told", "told\n");
    check_device(1, "clings", 0, "gave no sign of life for 2 s and was ended");
    check_device(2, "good", 1, "");
}

Test(fleet, signs_of_life_keep_it) {
    add_device("slow", 1, "for s in 1 2 3 4 5 6; do echo $s >&3; sleep 0.6; done; " WORK);
    crew.fleet.child.silence = SHORT;
    cr_assert(run_crew());
    check_device(0, "slow", 1, "");
}

/* The child is told, keeps what it has, and the rest is left out. */
Test(fleet, interrupt_is_passed_on) {
    add_device("first", 1, WORK);
    add_device("second", 1,
               "trap '" WORK "exit 0' INT; kill -INT $PPID; "
               "while :; do sleep 0.05; done");
    add_device("third", 1, WORK);
    cr_assert(not(run_crew()));
    cr_assert(eq(sz, crew.results.count, 2));
    check_device(0, "first", 1, "");
    check_device(1, "second", 1, "");
    cr_expect(not(crew.results.devices[0].interrupted));
    cr_expect(crew.results.devices[1].interrupted);
    check_file("ran", "0\n1\n");
}

Test(fleet, second_interrupt_kills) {
    add_device("stubborn", 1,
               "trap '' INT TERM; " WORK "kill -INT $PPID; sleep 0.3; "
               "kill -TERM $PPID; sleep 50; echo late > $d/late");
    add_device("next", 1, WORK);
    cr_assert(not(run_crew()));
    cr_assert(eq(sz, crew.results.count, 1));
    check_device(0, "stubborn", 1, "");
    check_file("late", "");
    cr_expect(crew.results.devices[0].interrupted);
}

static volatile sig_atomic_t noticed;

static void notice(int signal_number)
{
    noticed = signal_number;
}

Test(fleet, whoever_caught_interrupts_before_learns_of_them) {
    add_device("only", 1, "trap 'exit 0' INT; kill -INT $PPID; while :; do sleep 0.05; done");
    signal(SIGINT, notice);
    cr_assert(not(run_crew()));
    cr_expect(eq(int, (int)noticed, SIGINT));
}

Test(fleet, the_same_device_runs_once) {
    add_device("pthread", 1, WORK);
    add_device("basic", 1, WORK);
    add_device("pthread", 1, WORK);
    cr_assert(run_crew());
    cr_assert(eq(sz, crew.results.count, 2));
    check_device(0, "pthread", 1, "");
    check_device(1, "basic", 1, "");
}

Test(fleet, the_same_device_runs_twice_if_it_is_asked_for) {
    add_device("pthread", 1, WORK);
    add_device("basic", 1, WORK);
    add_device("pthread", 1, WORK);
    crew.fleet.devices = "2,BASI,0,1";
    cr_assert(run_crew());
    cr_assert(eq(sz, crew.results.count, 3));
    cr_expect(eq(sz, crew.results.devices[0].index, 2));
    cr_expect(eq(sz, crew.results.devices[1].index, 1));
    cr_expect(eq(sz, crew.results.devices[2].index, 0));
}

Test(fleet, unknown_device) {
    cr_redirect_stderr();
    add_device("pthread", 1, WORK);
    crew.fleet.devices = "0,nowhere";
    cr_assert(not(run_crew()));
    fflush(stderr);
    cr_assert_stderr_eq_str("clattn-bench run: no OpenCL device matches 'nowhere'; "
                            "'clattn-bench devices' lists them\n");
    cr_expect(eq(sz, crew.results.count, 0));
    check_file("ran", "");
}

/* Where a driver crashes when it is loaded, nothing runs, and a message says what to do. */
Test(fleet, crash_while_listing) {
    char want[1024];

    cr_redirect_stderr();
    add_device("pthread", 1, WORK);
    scratch_write(scratch_path("list"), "kill -SEGV $$\n");
    scratch_write(scratch_path("bad.icd"), "libbad.so\n");
    scratch_write(scratch_path("pocl.icd"), "libpocl.so\n");
    setenv("OCL_ICD_VENDORS", scratch, 1);
    cr_assert(not(run_crew()));
    fflush(stderr);
    snprintf(want, sizeof want,
             "clattn-bench run: listing the devices, which loads every driver, failed: the driver "
             "crashed: killed by signal 11 (Segmentation fault).\n"
             "Drivers are named by the files in %s:\n  bad.icd\n  pocl.icd\n"
             "To leave one out, copy the others into a folder of their own and name that folder "
             "in\nthe environment variable OCL_ICD_VENDORS.\n",
             scratch);
    cr_assert_stderr_eq_str(want);
    cr_expect(eq(sz, crew.results.count, 0));
}

Test(fleet, nonsense_for_a_list) {
    scratch_write(scratch_path("list"), "echo '[{\"index\": 0}]'\n");
    cr_assert(not(run_crew()));
    cr_expect(eq(sz, crew.results.count, 0));
}

/* Each device's results are safe as soon as they are there. */
Test(fleet, saves_after_each_device) {
    struct run_results saved;
    struct message why;
    const char *path = scratch_path("save");

    add_device("first", 1, WORK);
    add_device("second", 1, "test -s $d/save && echo yes > $d/saved; kill -SEGV $$");
    crew.fleet.save = strdup(path);
    cr_assert(not(run_crew()));
    check_file("saved", "yes\n");
    cr_assert(results_read(crew.fleet.save, &saved, &why), "%s", why.text);
    cr_expect(eq(sz, saved.count, 2));
    cr_expect(eq(sz, saved.devices[0].count, 1));
    cr_expect(strstr(saved.devices[1].failed.text, "the driver crashed") != NULL);
    results_free(&saved);
}

Test(fleet, place_where_nothing_can_be_saved) {
    add_device("only", 1, WORK);
    crew.fleet.save = "/nonexistent/run.json";
    cr_assert(not(run_crew()));
    check_device(0, "only", 1, "");
}

Test(fleet, program_that_is_not_there) {
    crew.fleet.child.program = "/nonexistent/bench";
    cr_assert(not(run_crew()));
}

/* ---- the program itself ---------------------------------------------------------------------- */

#define POCL_ICD "/etc/OpenCL/vendors/pocl.icd"

/* Both of PoCL's devices, each in a process of its own. */
Test(fleet, real_devices) {
    struct run_results results;
    struct message why;

    if (access(POCL_ICD, R_OK) != 0)
        cr_skip_test("PoCL is not where it is expected");
    setenv("OCL_ICD_VENDORS", POCL_ICD, 1);
    setenv("POCL_DEVICES", "pthread basic", 1);
    setenv("CLATTN_CACHE_DIR", "", 1);
    program_must(BENCH_PROGRAM, 0, "device 2 of 2: ",
                 "run --device all --repeat 1 --peers none --no-first-call --json %s/run.json "
                 "'fwd f32 h1 q8 d8'",
                 scratch);
    program_expect("fwd f32 b1 h1 q8 k8 d8");
    cr_assert(results_read(scratch_path("run.json"), &results, &why), "%s", why.text);
    cr_assert(eq(sz, results.count, 2));
    for (size_t n = 0; n < results.count; n++) {
        cr_expect(eq(sz, results.devices[n].index, n));
        cr_assert(eq(sz, results.devices[n].count, 1));
        cr_expect(record_ok(&results.devices[n].records[0]));
    }
    results_free(&results);
}
