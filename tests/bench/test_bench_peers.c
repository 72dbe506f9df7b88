/* SPDX-License-Identifier: Apache-2.0 */
/* The peers (bench/peers): each that is there computes what double precision does, refuses what it
 * cannot do, and survives requests that are none. Those in C are there if they were built; those in
 * Python compute where CLATTN_PYTHON names a Python that has their packages. */
#define _POSIX_C_SOURCE 200809L /* access, setenv */
#include "bench/peer/peer.h"
#include "bench/peer/peer_data.h"
#include "bench/timing/case_forward.h"
#include "cli/interrupt.h"
#include "cli/worker_process.h"
#include "tests/support/programs/program.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"

#include <clattn/clattn.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANDOM_PROBLEMS = 12, THREADS = 2 };

/* The operations that a peer must compute, a bit for each. It may refuse the rest. */
enum {
    ATTENTION = 1,
    GRADIENTS = 2,
    PROJECTIONS = 4,
    HALVES = 8,
    LAYERS = 16,
    SERVING = 32,
    SOFTENED = 64, /* Softcap and sinks. */
    OPTIONS = 128, /* Biases, masks, ALiBi and lengths. */
    PLAIN = 256    /* What all of them compute. */
};

struct name {
    char key[16];
    unsigned computes;
    bool rounds; /* Its f32 has errors of half precision. */
};

static const struct name names[] = {
    {"clblast", PLAIN | ATTENTION | PROJECTIONS, false},
    {"openblas", PLAIN | ATTENTION | GRADIENTS | PROJECTIONS, false},
    {"onednn", PLAIN | ATTENTION | PROJECTIONS | SOFTENED, false},
    {"ggml", PLAIN | ATTENTION | HALVES | SOFTENED, true},
    {"torch",
     PLAIN | ATTENTION | GRADIENTS | PROJECTIONS | HALVES | LAYERS | SERVING | SOFTENED | OPTIONS,
     false},
    {"onnxruntime", PLAIN, false},
};

#define NUM_NAMES (sizeof names / sizeof *names)

static bool is_script(const struct peer_kind *kind)
{
    return kind->argument != NULL;
}

/* The kind of that peer with its path as built; skips the test where it was not. */
static struct peer_kind built(const char *key, char path[512])
{
    struct peer_kind kind = *peer_kind_find(key);

    snprintf(path, 512, "%s/%s%s", PEERS_FOLDER, is_script(&kind) ? "peers/" : "", kind.program);
    if (access(path, R_OK) != 0)
        cr_skip_test("%s was not built: %s", kind.name, kind.install);
    kind.program = path;
    return kind;
}

/* ---- results --------------------------------------------------------------------------------- */

static void start(struct peer *peer, const struct peer_kind *kind, struct target *target)
{
    clattn_device_info info;
    struct message why;

    if (is_script(kind) && getenv("CLATTN_PYTHON") == NULL)
        cr_skip_test("CLATTN_PYTHON names no Python that has it");
    ca_interrupt_catch();
    if (!target_open(target, NULL, &why))
        cr_skip_test("%s", why.text);
    info = *target->info;
    info.type |= CL_DEVICE_TYPE_CPU; /* Those on the host compute beside any. */
    const enum peer_answer answer = peer_start(peer, kind, "", &info, THREADS, &why);
    if (answer == PEER_MISSING)
        cr_skip_test("%s", why.text);
    cr_assert(eq(int, (int)answer, (int)PEER_OK), "%s", why.text);
}

/* PEER_OK, checked, or PEER_UNSUPPORTED. */
static enum peer_answer compute(struct peer *peer, const struct name *name, const struct job *job,
                                const struct target *target, size_t copies, struct message *why)
{
    const clattn_dtype dtype = ca_problem_own_dtype(&job->problem);
    const enum precision precision =
        dtype == CLATTN_F32 && !name->rounds ? PRECISION_PEER : PRECISION_HALF;
    struct attention_case attention;
    struct worst worst = {.error = 0.0};
    double seconds, host;
    char *text = job_text(job);

    cr_assert(case_random(&attention, job, 7, why), "%s", why->text);
    cr_assert(case_forward(&attention, target, why), "%s: %s", text, why->text);
    enum peer_answer answer = peer_open(peer, &attention, copies, why);
    if (answer == PEER_OK) {
        cr_assert(eq(int, (int)peer_sample(peer, 1e-3, &seconds, &host, why), (int)PEER_OK),
                  "%s: %s", text, why->text);
        cr_assert(gt(dbl, seconds, 0.0));
        cr_assert(gt(dbl, peer->first_seconds, 0.0));
        answer = peer_check(peer, &attention, precision, &worst, why);
        cr_assert(answer == PEER_OK && worst_ok(&worst), "%s %s: off by %g, allowed %g (%s)",
                  peer->name, text, worst.error, worst.bound, peer->configuration);
        peer_close(peer);
    }
    cr_assert(answer == PEER_OK || answer == PEER_UNSUPPORTED, "%s: %s", text, why->text);
    free(text);
    case_free(&attention);
    return answer;
}

static struct job parse(const char *text)
{
    struct job job;
    char reason[200];

    cr_assert(job_parse(text, &job, reason, sizeof reason), "%s", reason);
    return job;
}

/* With all options, or with those alone that all libraries take. */
static struct job draw(struct rng *r, bool options)
{
    clattn_problem p = parse("fwd f32 q1 d1").problem;

    p.batch = RNG_PICK(r, 1, 1, 2);
    p.kv_heads = RNG_PICK(r, 1, 2, 3);
    p.heads = p.kv_heads * RNG_PICK(r, 1, 2, 3);
    p.seq_q = RNG_PICK(r, 1, 2, 7, 16, 33, 70);
    p.seq_kv = RNG_PICK(r, 1, 3, 16, 31, 64, 77);
    p.dim_qk = RNG_PICK(r, 1, 8, 20, 64, 80);
    p.dim_v = RNG_PICK(r, 1, 5, 16, 64);
    p.softcap = options && rng_one_in(r, 4) ? 5.0f : 0.0f;
    p.causal = rng_one_in(r, 2);
    p.diagonal = (clattn_diagonal)rng_below(r, 3);
    if (p.diagonal == CLATTN_OFFSET)
        p.diagonal_offset = (int64_t)rng_below(r, 40) - 20;
    p.window_left = rng_one_in(r, 3) ? (int64_t)rng_below(r, 20) : CLATTN_UNLIMITED;
    p.window_right = rng_one_in(r, 4) ? (int64_t)rng_below(r, 20) : CLATTN_UNLIMITED;
    p.bias = options && rng_one_in(r, 4);
    p.bias_dtype = p.bias ? (clattn_dtype)rng_below(r, 3) : CLATTN_F32;
    p.mask = options && rng_one_in(r, 4);
    const size_t shape[2] = {rng_one_in(r, 2) ? p.seq_q : 1, rng_one_in(r, 3) ? 1 : p.seq_kv};
    if (p.bias)
        clattn_layout_broadcast(&p, 2, shape, &p.bias_layout);
    if (p.mask)
        clattn_layout_broadcast(&p, 2, shape, &p.mask_layout);
    p.alibi = options && rng_one_in(r, 4);
    p.sinks = options && rng_one_in(r, 4);
    p.q_lengths = options && rng_one_in(r, 5);
    p.kv_lengths = options && rng_one_in(r, 5);
    return job_of(&p);
}

static const struct {
    unsigned what;
    const char *text;
} problems[] = {
    {PLAIN, "fwd f32 b1 h1 q1 k1 d1"},
    {PLAIN, "fwd f32 b2 h4/2 q33 k47 d24"}, /* heads share keys; ragged */
    {ATTENTION, "fwd f32 b2 h4/2 q33 k47 d24/40"},
    {ATTENTION, "fwd f32 b1 h3 q1 k130 d64"},                            /* one query: by vectors */
    {ATTENTION, "fwd f32 b1 h6/2 q600 k620 d16 causal=br window=100,*"}, /* in blocks of rows */
    {ATTENTION, "fwd f32 b1 h2 q300 k300 d8 causal=tl"},                 /* likewise */
    {ATTENTION, "fwd f32 b2 h2 q40 k40 d16 causal=-7"},                  /* rows that see nothing */
    {ATTENTION, "fwd f32 b1 h4 q50 k50 d16 window=8,3"},                 /* not causal */
    {SOFTENED, "fwd f32 b1 h2 q300 k300 d8 causal=tl sinks"},
    {SOFTENED, "fwd f32 b2 h4/2 q50 k60 d16 window=8,3 sinks softcap=0.7"},
    {OPTIONS, "fwd f32 b2 h4/2 q20 k50 d16 mask=bqk"},              /* one mask for all heads */
    {OPTIONS, "fwd f32 b2 h2 q9 k20 d16 mask=bk alibi scale=-0.3"}, /* and one for all rows */
    {OPTIONS, "fwd f32 b2 h2 q17 k33 d16 bias=f16:hqk mask=hqk"},   /* both at once */
    {OPTIONS, "fwd f32 b1 h2 q5 k9 d16 bias=f32:q softcap=0.7"},    /* one bias for all keys */
    {OPTIONS, "fwd f32 b3 h2 q20 k30 d16 qlen klen causal=br"},     /* a diagonal for each batch */
    {HALVES | ATTENTION, "fwd f16 b1 h4/2 q20 k30 d32 causal=br"},
    {HALVES | ATTENTION, "fwd bf16 b1 h4/2 q20 k30 d32 causal=br"},
    {HALVES | ATTENTION, "fwd bf16 b1 h2 q20 k300 d32"},
    {GRADIENTS, "bwd f32 b2 h4/2 q33 k47 d24/40"},
    {GRADIENTS, "bwd f32 b1 h6/2 q200 k210 d16 causal=br window=50,*"}, /* in blocks of rows */
    {GRADIENTS | OPTIONS, "bwd f32 b2 h2 q20 k30 d16 mask=bqk bias=f32:hqk alibi sinks"},
    {GRADIENTS | OPTIONS, "bwd f32 b3 h2 q20 k30 d16 qlen klen causal=br softcap=5"},
    {PROJECTIONS, "proj f32 q1 d1"},
    {PROJECTIONS, "proj f32 b2 h3/4 q33 d5/7"},                        /* heads split and merged */
    {PROJECTIONS, "proj f32 b3 h4/1 q20 d64/16 y=bshd w=oi bias=f32"}, /* to heads, as in a layer */
    {PROJECTIONS, "proj f32 b2 h1/6 q17 d8/40 x=bshd bias=bf16"},      /* from heads */
    {HALVES | PROJECTIONS, "proj f16 b2 h2/3 q40 d16/24 w=oi bias=f32"},
    {HALVES | PROJECTIONS, "proj bf16 b1 h2/1 q30 d33/9"},
    {LAYERS, "layer fwd f32 b2 h4/2 q9 k9 d8 model=24 biases obias"},
    {LAYERS, "layer fwd f32 b2 h2 q9 k13 d8/5 model=12 separate=7,9 output=6 causal=br"},
    {LAYERS, "layer bwd f32 b2 h4/2 q9 k9 d8 model=24 biases obias training"},
    {LAYERS, "layer bwd f32 b1 h2 q9 k13 d8 model=12 cross=7 training"},
    {SERVING, "fwd f32 b3 h4/2 q5 k40 d16 totalq=15 totalkv=120 causal=br"},
    {SERVING, "fwd f32 b3 h4/2 q1 k40 d16 page=8 pages=20 klen"},
    {SERVING, "fwd f16 b2 h4/2 q3 k40 d16 vcache=bf16 odtype=f32"},
    {SERVING, "fwd f32 b2 h2 q9 k40 d16 mask=qk maskkeys=9"},
    {SERVING, "fwd f32 b1 h2 q64 k64 d16 blocks=16x16:10"},
    {SERVING, "fwd f32 b2 h4/2 q49 k49 d16 score=swin visible=documents"},
    {SERVING, "bwd f32 b2 h2 q40 k50 d16 score=t5 visible=prefix_lm"},
};

#define NUM_PROBLEMS (sizeof problems / sizeof *problems)

/* A run has one of the first three peers, in C, and the others in the next two: CLBlast compiles for long. */
ParameterizedTestParameters(peers, compute_what_double_precision_does) {
    static struct name taken[NUM_NAMES];
    size_t count = 0;

    for (size_t n = 0; n < NUM_NAMES; n++)
        if (n > 2 || run_takes_of(n, 3, 3))
            taken[count++] = names[n];
    return cr_make_param_array(struct name, taken, count);
}

ParameterizedTest(struct name *name, peers, compute_what_double_precision_does, .timeout = 900.0) {
    struct rng r = rng_seed(4);
    struct message why;
    struct target target;
    struct peer peer;
    char path[512];
    const struct peer_kind kind = built(name->key, path);

    unoptimised();
    start(&peer, &kind, &target);
    for (size_t n = 0; n < NUM_PROBLEMS + RANDOM_PROBLEMS; n++) {
        const bool listed = n < NUM_PROBLEMS;
        const bool options = n % 2 == 0;
        const unsigned what = listed ? problems[n].what : options ? OPTIONS : ATTENTION;
        const struct job job = listed ? parse(problems[n].text) : draw(&r, options);
        const enum peer_answer answer = compute(&peer, name, &job, &target, 1 + n % 3, &why);
        const unsigned lacks = what & ~name->computes;
        cr_assert(answer == PEER_OK || lacks != 0, "%s", why.text);
        if (answer != PEER_OK && lacks == HALVES) /* which the refusal names */
            cr_assert(strstr(why.text, "16") != NULL || strstr(why.text, "f32") != NULL, "%s",
                      why.text);
    }
    peer_end(&peer);
    target_close(&target);
}

/* ---- the protocol ---------------------------------------------------------------------------- */

static bool for_ever(void *user)
{
    (void)user;
    return true;
}

/* The answer to a line that need not be JSON; the caller releases it. */
static json_t *say(struct ca_process *process, const char *line)
{
    struct message how = {""};
    json_t *answer = NULL;

    cr_assert(write(process->requests, line, strlen(line)) == (ssize_t)strlen(line));
    cr_assert(write(process->requests, "\n", 1) == 1);
    process->asked = true;
    cr_assert(ca_process_answer(process, 110.0, for_ever, NULL, &answer, &how) == CA_ANSWERED,
              "%s: it %s", line, how.text);
    return answer;
}

static void is_refused(struct ca_process *process, const char *line)
{
    json_t *answer = say(process, line);

    cr_assert(json_object_get(answer, "ok") == json_false(), "%s", line);
    cr_assert(json_string_length(json_object_get(answer, "why")) > 0, "%s", line);
    json_decref(answer);
}

static void is_done(struct ca_process *process, const char *line)
{
    json_t *answer = say(process, line);

    cr_assert(json_object_get(answer, "ok") == json_true(), "%s: %s", line,
              json_string_value(json_object_get(answer, "why")));
    json_decref(answer);
}

#define HELLO "{\"do\": \"hello\", \"device\": \"\", \"device_type\": \"cpu\", \"threads\": 2}"
#define OPEN(problem)                                                                              \
    "{\"do\": \"open\", \"problem\": \"" problem "\", \"copies\": 2, \"data\": \"%s\"}"

/* Data of one problem that claims to be another's. */
static void refuse_wrong_data(struct ca_process *process, const char *data)
{
    static const char *const opens[] = {
        OPEN("fwd f32 b1 h2 q3 k5 d5"),
        OPEN("fwd f16 b1 h2 q3 k5 d4"),
        OPEN("fwd f32 b1 h2 q3 k5 d4 mask=k"),
        OPEN("fwd f32 b1 h2 q3 k5 d4 sinks"),
        OPEN("fwd f32 b1 h2 q3 k5 d4 softcap=2 alibi"),
        OPEN("fwd f32 b1 h2 q3 k0 d4"),
        OPEN("fwd f32 b1 h2 q281474976710656 k5 d4"),
        OPEN("nonsense"),
    };
    char line[1024];

    for (size_t n = 0; n < sizeof opens / sizeof *opens; n++) {
        snprintf(line, sizeof line, opens[n], data);
        is_refused(process, line);
        is_refused(process, "{\"do\": \"sample\", \"busy\": 0.01}"); /* Nothing is open. */
    }
    snprintf(line, sizeof line, OPEN("fwd f32 b1 h2 q3 k5 d4"), "/nonexistent/file");
    is_refused(process, line);
}

static void compute_once_more(struct ca_process *process, const char *data)
{
    char line[1024];

    snprintf(line, sizeof line, OPEN("fwd f32 b1 h2 q3 k5 d4"), data);
    is_done(process, line);
    is_refused(process, "{\"do\": \"sample\", \"busy\": -1}");
    is_refused(process, "{\"do\": \"sample\"}");
    is_refused(process, "{\"do\": \"result\", \"path\": \"/nonexistent/file\"}");
    is_done(process, "{\"do\": \"sample\", \"busy\": 0}");
    is_done(process, "{\"do\": \"close\"}");
    is_refused(process, "{\"do\": \"result\", \"path\": \"/dev/null\"}");
    is_done(process, "{\"do\": \"close\"}");
}

ParameterizedTestParameters(peers, answer_every_request) {
    return cr_make_param_array(struct name, (struct name *)(uintptr_t)names, NUM_NAMES);
}

/* Starts it; a script with a Python that has no packages. */
static void open_conversation(struct ca_process *process, const struct peer_kind *kind)
{
    const char *const python[] = {"python3", "-S", kind->program, kind->argument, NULL};
    struct message sentence;

    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    if (is_script(kind) && program_run("python3", "--version") != 0)
        cr_skip_test("there is no python3");
    cr_assert(ca_process_start(process, is_script(kind) ? python : python + 2, NULL, &sentence),
              "%s", sentence.text);
}

static void close_conversation(struct ca_process *process)
{
    int status;

    close(process->requests); /* Their end is the program's. */
    process->requests = -1;
    cr_assert(waitpid(process->child.number, &status, 0) == process->child.number);
    cr_assert(eq(int, status, 0));
    process->child.number = 0;
    ca_process_end(process);
}

static void refuse_before_hello(struct ca_process *process)
{
    static const char *const lines[] = {
        "",
        "nonsense",
        "7",
        "[]",
        "{}",
        "{",
        "null",
        "\"hello\"",
        "\xff\xfe",
        "{\"do\": 7}",
        "{\"do\": null}",
        "{\"do\": \"dance\"}",
        "{\"do\": \"\\ud800\\u001b[2J\"}",
        "{\"do\": \"hello\"}",
        "{\"do\": \"open\"}",
        "{\"do\": \"sample\", \"busy\": 0}",
        "{\"do\": \"result\", \"path\": \"/dev/null\"}",
    };
    char deep[20001];

    for (size_t n = 0; n < sizeof lines / sizeof *lines; n++)
        is_refused(process, lines[n]);
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    is_refused(process, deep);
}

/* Twice: a refusal is no end. */
static void lack_packages(struct ca_process *process, const struct peer_kind *kind)
{
    char wanted[128];

    snprintf(wanted, sizeof wanted, "Python cannot import numpy: %s", kind->install);
    for (int n = 0; n < 2; n++) {
        json_t *answer = say(process, HELLO);
        const char *why = json_string_value(json_object_get(answer, "why"));
        cr_assert(why != NULL && strcmp(why, wanted) == 0, "%s", why);
        json_decref(answer);
    }
}

static void greet_and_work(struct ca_process *process)
{
    struct attention_case attention;
    struct message why;
    char data[PEER_DATA_PATH];
    const struct job job = parse("fwd f32 b1 h2 q3 k5 d4");

    cr_assert(case_random(&attention, &job, 1, &why), "%s", why.text);
    cr_assert(peer_data_file(data, peer_data_bytes(&job), &why), "%s", why.text);
    cr_assert(peer_data_write(data, &attention, &why), "%s", why.text);
    is_refused(process, "{\"do\": \"hello\", \"device\": \"\", \"threads\": 0}");
    is_done(process, HELLO);
    is_refused(process, HELLO); /* Said. */
    is_refused(process, "{\"do\": \"open\"}");
    refuse_wrong_data(process, data);
    compute_once_more(process, data);
    unlink(data);
    case_free(&attention);
}

ParameterizedTest(struct name *name, peers, answer_every_request, .timeout = 120.0) {
    struct ca_process process;
    char path[512];
    const struct peer_kind kind = built(name->key, path);

    unoptimised();
    open_conversation(&process, &kind);
    refuse_before_hello(&process);
    if (is_script(&kind))
        lack_packages(&process, &kind);
    else
        greet_and_work(&process);
    close_conversation(&process);
    program_must(is_script(&kind) ? "python3" : path, is_script(&kind) ? 2 : 1, "file descriptor",
                 "%s %s 3<&- 4>&-", is_script(&kind) ? path : "",
                 is_script(&kind) ? kind.argument : "");
}
