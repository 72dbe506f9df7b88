/* SPDX-License-Identifier: Apache-2.0 */
/* Peers as processes: one of our own (fake_peer.c) that computes as the formula says, and
 * misbehaves in every way that is asked of it. */
#define _POSIX_C_SOURCE 200809L /* kill, setenv, nanosleep, mkdtemp */
#include "bench/peer/peer.h"
#include "bench/peer/peer_data.h"
#include "cli/interrupt.h"
#include "tests/bench/run_example.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SMALL "fwd f32 b1 h2 q3 k5 d4"
#define PATIENCE 0.05 /* Times the usual: 3 s for hello, 6 s for open, 1.5 s for work. */

static const clattn_device_info cpu = {.type = CL_DEVICE_TYPE_CPU, .name = "processor"};
static const clattn_device_info gpu = {.type = CL_DEVICE_TYPE_GPU, .name = "graphics \xff"};

static struct peer_kind fake(const char *habit)
{
    return (struct peer_kind){.key = "fake",
                              .name = "Fake Peer",
                              .program = FAKE_PEER,
                              .argument = habit,
                              .install = "fetch it"};
}

static void nap(void)
{
    const struct timespec time = {0, 10000000};

    nanosleep(&time, NULL);
}

/* Files of the process `pid` that are left for peers. */
static size_t files_of(pid_t pid, const char *folder)
{
    DIR *directory = opendir(folder);
    char prefix[64];
    size_t count = 0;

    snprintf(prefix, sizeof prefix, PEER_DATA_PREFIX "%ld-", (long)pid);
    for (struct dirent *e = directory ? readdir(directory) : NULL; e; e = readdir(directory))
        count += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    if (directory)
        closedir(directory);
    return count;
}

static size_t all_files_of(pid_t pid)
{
    return files_of(pid, "/dev/shm") + files_of(pid, "/tmp");
}

/* 'S', 'T', 'Z', ...; '-' if there is no such process. */
static char state_of(pid_t pid)
{
    char path[64], state = '-';

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = '-';
    if (file)
        fclose(file);
    return state;
}

/* Returns whether the process gets into one of the states within some seconds. */
static bool comes_to(pid_t pid, const char *states)
{
    for (int n = 0; n < 1000; n++) {
        if (strchr(states, state_of(pid)))
            return true;
        nap();
    }
    return false;
}

static void nothing_is_left(void)
{
    cr_assert(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "a child is left");
    cr_assert(eq(sz, all_files_of(getpid()), 0), "files are left");
}

/* The stage that a peer reached, and its answer. */
struct course {
    enum peer_answer answer;
    char stage[8];
    struct message why;
    double seconds, host;
    struct worst single, half;
    bool ran; /* At the end. */
};

static struct course go_through(const struct peer_kind *kind,
                                const struct attention_case *attention,
                                const clattn_device_info *info)
{
    struct course c = {.stage = "hello"};
    struct peer peer;

    ca_interrupt_catch();
    c.answer = peer_start(&peer, kind, "0", info, 2, &c.why);
    if (c.answer == PEER_OK) {
        strcpy(c.stage, "open");
        c.answer = peer_open(&peer, attention, 2, &c.why);
    }
    if (c.answer == PEER_OK) {
        strcpy(c.stage, "sample");
        c.answer = peer_sample(&peer, 0.001, &c.seconds, &c.host, &c.why);
    }
    if (c.answer == PEER_OK) {
        strcpy(c.stage, "result");
        c.answer = peer_check(&peer, attention, PRECISION_SINGLE, &c.single, &c.why);
    }
    if (c.answer == PEER_OK)
        c.answer = peer_check(&peer, attention, PRECISION_HALF, &c.half, &c.why);
    c.ran = peer_runs(&peer);
    peer_end(&peer);
    peer_end(&peer); /* is allowed */
    nothing_is_left();
    return c;
}

/* With a case of random data. */
static struct course go(const struct peer_kind *kind, const char *text,
                        const clattn_device_info *info)
{
    struct attention_case attention;

    example_case(&attention, text);
    const struct course c = go_through(kind, &attention, info);
    case_free(&attention);
    return c;
}

/* ---- what is right --------------------------------------------------------------------------- */

struct line {
    char text[160];
};

ParameterizedTestParameters(bench_peer, right_results_are_right_in_every_layout) {
    static struct line lines[] = {
        {SMALL},
        {"fwd f32 b2 h6/2 q3 k7 d5/3 q=bshd k=sbhd v=bshd o=sbhd"},
        {"fwd f32 b2 h2 q3 k4 d8 q=400.200.50.3 k=300.0.30.2 v=0.0.9.1 o=1000.400.100.7"},
        {"fwd f16 b2 h4/1 q5 k6 d16 causal=br window=2,*"},
        {"fwd bf16 b1 h2 q4 k9 d7 o=bshd causal=3"},
        {"fwd f32 b2 h3 q4 k5 d4 bias=f32:bhqk mask=bhqk"},
        {"fwd f32 b2 h3 q4 k5 d4 bias=f16:qk mask=bk"},
        {"fwd f16 b2 h3 q4 k5 d4 bias=bf16:h mask=q"},
        {"fwd f32 b2 h3 q4 k5 d4 bias=f32:0.0.0.0 mask=60.20.1.4"},
        {"fwd f32 b3 h4/2 q5 k6 d4 alibi sinks qlen klen causal=br softcap=2 scale=0.7"},
        {"fwd f32 b2 h2 q6 k6 d4 diagonal=1 window=1,2 alibi lse"},
        {"fwd f32 b1 h2 q3 k0 d4 mask=bhqk"},
        {"fwd f32 b0 h2 q3 k4 d4 mask=bhqk bias=f32:h"},
        {"fwd f32 b1 h1 q2 k5000 d3 mask=qk"}, /* more than a block of bytes in a row */
    };
    return cr_make_param_array(struct line, lines, sizeof lines / sizeof *lines);
}

ParameterizedTest(struct line *line, bench_peer, right_results_are_right_in_every_layout) {
    const struct peer_kind kind = fake(NULL);
    const struct course c = go(&kind, line->text, &cpu);

    cr_assert(eq(int, c.answer, PEER_OK), "%s: %s", c.stage, c.why.text);
    cr_assert(c.ran);
    cr_assert(eq(dbl, c.seconds, 0.001));
    cr_assert(eq(dbl, c.host, -1.0));
    if (strstr(line->text, " b0 ") == NULL)
        cr_assert(worst_ok(&c.single), "error %g, bound %g", c.single.error, c.single.bound);
}

/* ---- what is not ----------------------------------------------------------------------------- */

struct misdeed {
    char habit[32], stage[8], why[96];
    enum peer_answer answer;
};

ParameterizedTestParameters(bench_peer, a_misdeed_is_one_sentence) {
    static struct misdeed misdeeds[] = {
        {"crash@hello", "hello", "Fake Peer was killed by signal 6", PEER_FAILED},
        {"exit@hello", "hello", "with status 3, saying 'the library is ?[31mupset'", PEER_FAILED},
        {"garbage@hello", "hello", "Fake Peer answered nonsense", PEER_FAILED},
        {"list@hello", "hello", "answered neither yes nor no", PEER_FAILED},
        {"neither@hello", "hello", "answered neither yes nor no", PEER_FAILED},
        {"types@hello", "hello", "without a text 'name'", PEER_FAILED},
        {"control@hello", "hello", "control characters in 'name'", PEER_FAILED},
        {"name@hello", "hello", "its name is 'clattn untuned'", PEER_FAILED},
        {"missing@hello", "hello", "Fake Peer is missing: no module named fake; fetch it",
         PEER_MISSING},
        {"knowing@hello", "hello", "Fake Peer is missing: no numpy: pip install numpy fake",
         PEER_MISSING}, /* what it says itself is not followed by what is said of its kind */
        {"loader@hello", "hello", "libfake.so.1: cannot open shared object file'; fetch it",
         PEER_MISSING},
        {"unsupported@hello", "hello", "Fake Peer: no ?[1mwindows", PEER_UNSUPPORTED},
        {"hang@hello", "hello", "Fake Peer took longer than 3 s", PEER_FAILED},
        {"crash@open", "open", "Fake was killed by signal 6", PEER_FAILED},
        {"exit@open", "open", "with status 3, saying", PEER_FAILED},
        {"garbage@open", "open", "answered nonsense", PEER_FAILED},
        {"neither@open", "open", "answered neither yes nor no", PEER_FAILED},
        {"types@open", "open", "without a number 'first_seconds'", PEER_FAILED},
        {"negative@open", "open", "answered -1 as 'first_seconds'", PEER_FAILED},
        {"control@open", "open", "control characters in 'configuration'", PEER_FAILED},
        {"missing@open", "open", "Fake failed: no module named fake", PEER_FAILED},
        {"unsupported@open", "open", "Fake: no ?[1mwindows", PEER_UNSUPPORTED},
        {"crash@sample", "sample", "was killed by signal 6", PEER_FAILED},
        {"exit@sample", "sample", "with status 3, saying", PEER_FAILED},
        {"garbage@sample", "sample", "answered nonsense", PEER_FAILED},
        {"nan@sample", "sample", "answered nonsense", PEER_FAILED},
        {"types@sample", "sample", "without a number 'seconds'", PEER_FAILED},
        {"negative@sample", "sample", "answered -1 as 'seconds'", PEER_FAILED},
        {"zero@sample", "sample", "answered 0 as 'executions'", PEER_FAILED},
        {"hour@sample", "sample", "one execution took 3600 s", PEER_FAILED},
        {"missing@sample", "sample", "Fake failed: no module", PEER_FAILED},
        {"hang@sample", "sample", "took longer than 1.5", PEER_FAILED},
        {"crash@result", "result", "was killed by signal 6", PEER_FAILED},
        {"exit@result", "result", "with status 3, saying", PEER_FAILED},
        {"short@result", "result", "gave a result of 95 bytes, not 96", PEER_FAILED},
        {"long@result", "result", "gave a result of 97 bytes, not 96", PEER_FAILED},
        {"none@result", "result", "left no file for its result", PEER_FAILED},
        {"hang@result", "result", "took longer than 1.5", PEER_FAILED},
        {"crash@close", "result", "", PEER_OK}, /* is not asked to */
    };
    return cr_make_param_array(struct misdeed, misdeeds, sizeof misdeeds / sizeof *misdeeds);
}

ParameterizedTest(struct misdeed *misdeed, bench_peer, a_misdeed_is_one_sentence) {
    struct peer_kind kind = fake(misdeed->habit);

    if (strncmp(misdeed->habit, "hang", 4) == 0)
        kind.patience = PATIENCE;
    const struct course c = go(&kind, SMALL, &cpu);
    cr_assert(eq(int, c.answer, misdeed->answer), "%s: %s", c.stage, c.why.text);
    check_text(c.stage, misdeed->stage);
    if (c.answer != PEER_OK)
        cr_assert(strstr(c.why.text, misdeed->why) != NULL, "%s", c.why.text);
    /* A polite refusal is no reason to start it anew. */
    cr_assert(
        eq(int, c.ran, c.answer == PEER_OK || strcmp(misdeed->habit, "unsupported@open") == 0));
}

/* ---- results --------------------------------------------------------------------------------- */

struct wrongness {
    char habit[32], text[96];
    bool single, half; /* Within the bounds of that precision. */
};

ParameterizedTestParameters(bench_peer, results_are_held_to_their_precision) {
#define MIDDLE "b1 h2 q5 k300 d64"
    static struct wrongness cases[] = {
        {"right@result", "fwd f32 " MIDDLE, true, true},
        {"right@result", "fwd f16 " MIDDLE, true, true},
        {"right@result", "fwd bf16 " MIDDLE, true, true},
        {"half@result", "fwd f32 " MIDDLE, false, true},
        {"wrong@result", "fwd f32 " MIDDLE, false, false},
        {"wrong@result", "fwd f16 " MIDDLE, false, false},
        {"wrong@result", "fwd bf16 " MIDDLE, false, false},
        {"nan@result", "fwd f32 " MIDDLE, false, false},
        {"nan@result", "fwd bf16 " MIDDLE, false, false},
        {"zeros@result", "fwd f32 " MIDDLE, false, false},
        {"zeros@result", "fwd f16 " MIDDLE, false, false},
        {"zeros@result", "fwd bf16 " MIDDLE, false, false},
        {"zeros@result", "fwd f16 b1 h1 q4 k8000 d128", false, false},
        {"zeros@result", "fwd bf16 b1 h1 q4 k8000 d128", false, false},
    };
    return cr_make_param_array(struct wrongness, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(struct wrongness *wrong, bench_peer, results_are_held_to_their_precision) {
    const struct peer_kind kind = fake(wrong->habit);
    const struct course c = go(&kind, wrong->text, &cpu);

    cr_assert(eq(int, c.answer, PEER_OK), "%s: %s", c.stage, c.why.text);
    cr_assert(eq(int, worst_ok(&c.single), wrong->single), "error %g, bound %g", c.single.error,
              c.single.bound);
    cr_assert(eq(int, worst_ok(&c.half), wrong->half), "error %g, bound %g", c.half.error,
              c.half.bound);
}

Test(bench_peer, an_answer_from_a_file_is_not_what_a_peer_is_compared_with) {
    const struct peer_kind kind = fake(NULL);
    struct attention_case attention;

    example_case(&attention, SMALL);
    attention.o = (struct answer){calloc(24, sizeof(float)), CLATTN_F32, 24, 4};
    const struct course c = go_through(&kind, &attention, &cpu);
    cr_assert(eq(int, c.answer, PEER_OK), "%s", c.why.text);
    cr_assert(worst_ok(&c.single));
    case_free(&attention);
}

struct refused {
    char text[96], why[96];
};

ParameterizedTestParameters(bench_peer, what_a_peer_does_not_know_is_not_asked) {
    static struct refused refused[] = {
        {SMALL " scores=raw", "Fake: scores are not asked of other libraries"},
        {SMALL " vcache=f16", "Fake: it takes no caches of another format than q"},
        {SMALL " mask=k maskkeys=2", "Fake: it takes no masks of the last keys"},
        {SMALL " blocks=2x2:3", "Fake: it takes no block lists"},
        {SMALL " page=2 pages=4", "Fake: it takes no paged caches"},
        {SMALL " totalkv=9", "Fake: it takes no packed batches"},
        {"fwd f16 b1 h2 q3 k5 d4 odtype=f32", "Fake: it writes no o of another dtype than q's"},
        {SMALL " dropout=0.1", "Fake: other libraries drop other weights"},
        {"bwd f32 b1 h2 q3 k5 d4", "Fake: it computes no gradients"},
        {"bwd f32 b1 h2 q3 k5 d4 sinks dsinks",
         "Fake: gradients of bias, slopes, sinks and functions are not asked of other libraries"},
        {"proj f32 b1 h2/3 q3 d4", "Fake: it computes no projections"},
        {"proj f32 b1 h2/3 q3 d4 accumulate",
         "Fake: what adds to its output is not asked of other libraries"},
        {"layer fwd f32 b1 h2 q3 k3 d4 model=8", "Fake: it computes no layers"},
        {"layer bwd f32 b1 h2 q3 k3 d4 model=8 training", "Fake: it computes no layers' gradients"},
    };
    return cr_make_param_array(struct refused, refused, sizeof refused / sizeof *refused);
}

ParameterizedTest(struct refused *refused, bench_peer, what_a_peer_does_not_know_is_not_asked) {
    const struct peer_kind kind = fake(NULL);
    const struct course c = go(&kind, refused->text, &cpu);

    cr_assert(eq(int, c.answer, PEER_UNSUPPORTED));
    check_text(c.why.text, refused->why);
    cr_assert(c.ran);
}

/* ---- processes ------------------------------------------------------------------------------- */

Test(bench_peer, is_stopped_but_for_its_requests) {
    const struct peer_kind kind = fake(NULL);
    struct attention_case attention;
    struct message why;
    struct worst worst = {.results = 0};
    struct peer peer;
    double seconds, host;

    if (access("/proc/self/stat", R_OK) != 0)
        cr_skip_test("no /proc to look at");
    ca_interrupt_catch();
    example_case(&attention, SMALL);
    cr_assert(eq(int, peer_start(&peer, &kind, "0", &gpu, 2, &why), PEER_OK), "%s", why.text);
    const pid_t pid = peer.process.worker.child.number;
    cr_assert(comes_to(pid, "T"), "state %c", state_of(pid));
    check_text(peer.name, "Fake");
    check_text(peer.version, "1.0 \u03b1");
    check_text(peer.method, "loops in double precision");
    for (int n = 0; n < 2; n++) { /* the second opening closes the first */
        cr_assert(eq(int, peer_open(&peer, &attention, 1, &why), PEER_OK), "%s", why.text);
        cr_assert(comes_to(pid, "T"));
        cr_assert(eq(int, peer_sample(&peer, 0.0, &seconds, &host, &why), PEER_OK), "%s", why.text);
        cr_assert(comes_to(pid, "T"));
        cr_assert(eq(int, peer_check(&peer, &attention, PRECISION_SINGLE, &worst, &why), PEER_OK),
                  "%s", why.text);
        cr_assert(comes_to(pid, "T"));
    }
    cr_assert(peer.open);
    peer_close(&peer);
    cr_assert(not(peer.open));
    cr_assert(comes_to(pid, "T"));
    peer_end(&peer);
    cr_assert(eq(chr, state_of(pid), '-'), "it survived, stopped");
    cr_assert(eq(int, peer_open(&peer, &attention, 1, &why), PEER_FAILED));
    check_text(why.text, "Fake does not run");
    cr_assert(eq(int, peer_start(&peer, &kind, "0", &gpu, 2, &why), PEER_OK), "anew: %s", why.text);
    peer_end(&peer);
    nothing_is_left();
    case_free(&attention);
}

/* A benchmark of which the peer, opened or in the middle of it, outlives nothing. */
static void work_until_killed(const char *habit, int report)
{
    const struct peer_kind kind = fake(habit);
    struct attention_case attention;
    struct message why;
    struct peer peer;

    ca_interrupt_catch();
    example_case(&attention, SMALL);
    if (peer_start(&peer, &kind, "0", &cpu, 1, &why) != PEER_OK)
        _exit(1);
    const pid_t pids[] = {peer.process.worker.child.number, peer.process.guard.child.number};
    if (write(report, pids, sizeof pids) != sizeof pids)
        _exit(1);
    peer_open(&peer, &attention, 1, &why);
    if (write(report, "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

/* files: those that it has lent the peer when it is killed; with none once the peer has opened. */
static void kill_while_it_works(const char *habit, size_t files)
{
    pid_t pids[2];
    int report[2];
    char byte;

    cr_assert(eq(int, pipe(report), 0));
    const pid_t bench = fork();
    if (bench == 0)
        work_until_killed(habit, report[1]);
    const bool started = read(report[0], pids, sizeof pids) == sizeof pids;
    const bool opened = started && (files > 0 || read(report[0], &byte, 1) == 1);
    const bool stopped = opened && (files > 0 || comes_to(pids[0], "T"));
    for (int n = 0; started && n < 1000 && all_files_of(bench) != files; n++)
        nap();
    const size_t lent = all_files_of(bench);
    kill(bench, SIGKILL);
    waitpid(bench, NULL, 0);
    cr_assert(started && stopped);
    cr_assert(eq(sz, lent, files));
    /* A zombie waits for whoever adopted it. */
    cr_assert(comes_to(pids[0], "-Z"), "the peer lives, state %c", state_of(pids[0]));
    cr_assert(comes_to(pids[1], "-Z"), "the guard lives, state %c", state_of(pids[1]));
    cr_assert(eq(sz, all_files_of(bench), 0), "a file is left");
    close(report[0]);
    close(report[1]);
}

Test(bench_peer, a_stopped_one_does_not_outlive_a_benchmark_that_is_killed) {
    if (access("/proc/self/stat", R_OK) != 0)
        cr_skip_test("no /proc to look at");
    kill_while_it_works(NULL, 0);
    kill_while_it_works("hang@open", 1);
}

static void interrupt_me(int signal_number)
{
    (void)signal_number;
    kill(getpid(), SIGINT);
}

Test(bench_peer, an_interruption_ends_the_waiting) {
    const struct peer_kind kind = fake("hang@open");
    const struct sigaction action = {.sa_handler = interrupt_me};

    sigaction(SIGALRM, &action, NULL);
    alarm(1);
    const struct course c = go(&kind, SMALL, &cpu);
    cr_assert(eq(int, c.answer, PEER_FAILED));
    check_text(c.why.text, "Fake was interrupted");
    cr_assert(ca_interrupted());
}

/* ---- where they are -------------------------------------------------------------------------- */

Test(bench_peer, kinds_are_found_by_key_or_by_path) {
    for (const struct peer_kind *kind = peer_kinds; kind->key != NULL; kind++) {
        cr_assert(eq(ptr, (void *)peer_kind_find(kind->key), (void *)kind));
        cr_assert(peer_kind_suits(kind, CL_DEVICE_TYPE_CPU));
        cr_assert(kind->install[0] != '\0' && strlen(kind->name) < 32);
    }
    cr_assert(eq(ptr, (void *)peer_kind_find("cuda"), NULL));
    cr_assert(not(peer_kind_suits(peer_kind_find("openblas"), CL_DEVICE_TYPE_GPU)));
    cr_assert(peer_kind_suits(peer_kind_find("clblast"), CL_DEVICE_TYPE_GPU));
    const struct peer_kind own = peer_kind_path("./some/peer");
    check_text(own.key, "./some/peer");
    check_text(own.name, "peer");
}

Test(bench_peer, beside_a_gpu_the_host_is_no_match) {
    const struct peer_kind kind = fake("host@hello");
    struct course c = go(&kind, SMALL, &gpu);

    cr_assert(eq(int, c.answer, PEER_UNSUPPORTED));
    check_text(c.why.text, "Fake: it computes on the host's processor");
    c = go(&kind, SMALL, &cpu);
    cr_assert(eq(int, c.answer, PEER_OK), "%s", c.why.text);
}

/* A program given by its path has no argument and reads the environment. A variable of its kind
 * is set there unless the user has set it. */
Test(bench_peer, the_environment_is_the_users_and_the_kinds) {
    struct peer_kind kind = peer_kind_path(FAKE_PEER);

    setenv("FAKE_PEER", "missing@hello", 1);
    struct course c = go(&kind, SMALL, &cpu);
    cr_assert(eq(int, c.answer, PEER_MISSING));
    check_text(c.why.text, "clattn_fake_peer is missing: no module named fake");
    unsetenv("FAKE_PEER");
    c = go(&kind, SMALL, &cpu);
    cr_assert(eq(int, c.answer, PEER_OK), "%s", c.why.text);
    kind.variable[0] = "FAKE_PEER=missing@hello";
    c = go(&kind, SMALL, &cpu);
    cr_assert(eq(int, c.answer, PEER_MISSING), "%s", c.why.text);
    setenv("FAKE_PEER", "unsupported@hello", 1);
    c = go(&kind, SMALL, &cpu);
    cr_assert(eq(int, c.answer, PEER_UNSUPPORTED), "%s", c.why.text);
}

Test(bench_peer, what_is_not_there_is_named_with_the_command_that_brings_it) {
    struct peer_kind kind = fake(NULL);

    kind.program = "clattn-peer-of-nobody";
    struct course c = go(&kind, SMALL, &cpu);
    cr_assert(eq(int, c.answer, PEER_MISSING));
    check_text(c.why.text,
               "Fake Peer is missing: there is no program clattn-peer-of-nobody; fetch it");
    kind.program = "/dev/null"; /* is there, but no program */
    c = go(&kind, SMALL, &cpu);
    cr_assert(eq(int, c.answer, PEER_MISSING));
    cr_assert(strstr(c.why.text, "it was not started from /dev/null") != NULL, "%s", c.why.text);
}

/* A shell stands in for Python and prints what it is to run. */
Test(bench_peer, programs_are_found_in_the_chosen_folder_and_scripts_run_by_python) {
    char folder[] = "/tmp/clattn-peers-XXXXXX", path[64], found[128];
    struct peer_kind kind = fake("torch");

    cr_assert(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/peers.py", folder);
    FILE *script = fopen(path, "w");
    cr_assert(script != NULL && fputs("echo I am $0 of $1; exit 4\n", script) > 0);
    fclose(script);
    setenv("CLATTN_PEERS", folder, 1);
    setenv("CLATTN_PYTHON", "sh", 1);
    kind.program = "peers.py";
    cr_assert(peer_kind_program(&kind, found, sizeof found));
    check_text(found, path);
    cr_assert(not(peer_kind_program(&kind, found, strlen(path))), "there is no room for the 0");
    check_text(found, "");
    const struct course c = go(&kind, SMALL, &cpu);
    cr_assert(eq(int, c.answer, PEER_FAILED));
    cr_assert(strstr(c.why.text, "peers.py of torch'") != NULL, "%s", c.why.text);
    unlink(path);
    rmdir(folder);
}
