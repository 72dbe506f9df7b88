/* SPDX-License-Identifier: Apache-2.0 */
/* The peers in C (bench/peers): each that was built computes what double precision does, refuses
 * what it cannot do, and survives requests that are none. */
#define _POSIX_C_SOURCE 200809L /* access, mkdtemp */
#include "bench/peer/peer.h"
#include "bench/peer/peer_data.h"
#include "cli/interrupt.h"
#include "cli/worker_process.h"
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

struct name {
    char key[16];
};

static const struct name names[] = {{"clblast"}, {"openblas"}, {"onednn"}};

/* A test has one of the peers in a run, and the others in the next two: CLBlast compiles for long. */
static struct criterion_test_params peers_of(const size_t test)
{
    static struct name taken[sizeof names / sizeof *names];
    size_t count = 0;

    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (run_takes(n + test, 3))
            taken[count++] = names[n];
    return cr_make_param_array(struct name, taken, count);
}

/* The kind of that peer with its path as built; skips the test where it was not. */
static struct peer_kind built(const char *key, char path[512])
{
    struct peer_kind kind = *peer_kind_find(key);

    snprintf(path, 512, "%s/%s", PEERS_FOLDER, kind.program);
    if (access(path, X_OK) != 0)
        cr_skip_test("%s was not built: %s", kind.name, kind.install);
    kind.program = path;
    return kind;
}

static void start(struct peer *peer, const struct peer_kind *kind)
{
    clattn_device_info info = {.struct_size = sizeof info};
    struct message why;
    cl_device_id device;

    ca_interrupt_catch();
    if (clattn_device_select(NULL, &device) != CLATTN_SUCCESS)
        cr_skip_test("there is no OpenCL device");
    cr_assert(eq(int, clattn_device_query(device, &info), CLATTN_SUCCESS));
    info.type |= CL_DEVICE_TYPE_CPU; /* Those on the host compute beside any. */
    cr_assert(eq(int, (int)peer_start(peer, kind, "", &info, THREADS, &why), (int)PEER_OK), "%s",
              why.text);
}

/* PEER_OK, checked, or PEER_UNSUPPORTED. */
static enum peer_answer compute(struct peer *peer, const clattn_problem *problem, size_t copies,
                                struct message *why)
{
    const enum precision precision =
        problem->dtype == CLATTN_F32 ? PRECISION_SINGLE : PRECISION_HALF;
    struct attention_case attention;
    struct worst worst = {.error = 0.0};
    double seconds, host;
    char text[256];

    clattn_problem_print(problem, text, sizeof text, NULL);
    cr_assert(case_random(&attention, &(struct job){.problem = *problem}, 7, why), "%s", why->text);
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
    case_free(&attention);
    return answer;
}

static clattn_problem parse(const char *text)
{
    clattn_problem problem;
    char reason[200];

    cr_assert(eq(int, clattn_problem_parse(text, &problem, reason, sizeof reason), CLATTN_SUCCESS),
              "%s", reason);
    return problem;
}

static clattn_problem draw(struct rng *r)
{
    clattn_problem p = parse("fwd f32 q1 d1");

    p.batch = RNG_PICK(r, 1, 1, 2);
    p.kv_heads = RNG_PICK(r, 1, 2, 3);
    p.heads = p.kv_heads * RNG_PICK(r, 1, 2, 3);
    p.seq_q = RNG_PICK(r, 1, 2, 7, 16, 33, 70);
    p.seq_kv = RNG_PICK(r, 1, 3, 16, 31, 64, 77);
    p.dim_qk = RNG_PICK(r, 1, 8, 20, 64, 80);
    p.dim_v = RNG_PICK(r, 1, 5, 16, 64);
    p.softcap = rng_one_in(r, 4) ? 5.0f : 0.0f;
    p.causal = rng_one_in(r, 2);
    p.diagonal = (clattn_diagonal)rng_below(r, 3);
    if (p.diagonal == CLATTN_OFFSET)
        p.diagonal_offset = (int64_t)rng_below(r, 40) - 20;
    p.window_left = rng_one_in(r, 3) ? (int64_t)rng_below(r, 20) : CLATTN_UNLIMITED;
    p.window_right = rng_one_in(r, 4) ? (int64_t)rng_below(r, 20) : CLATTN_UNLIMITED;
    p.bias = rng_one_in(r, 4);
    p.bias_dtype = p.bias ? (clattn_dtype)rng_below(r, 3) : CLATTN_F32;
    p.mask = rng_one_in(r, 4);
    const size_t shape[2] = {rng_one_in(r, 2) ? p.seq_q : 1, rng_one_in(r, 3) ? 1 : p.seq_kv};
    if (p.bias)
        clattn_layout_broadcast(&p, 2, shape, &p.bias_layout);
    if (p.mask)
        clattn_layout_broadcast(&p, 2, shape, &p.mask_layout);
    p.alibi = rng_one_in(r, 4);
    p.sinks = rng_one_in(r, 4);
    p.q_lengths = rng_one_in(r, 5);
    p.kv_lengths = rng_one_in(r, 5);
    return p;
}

ParameterizedTestParameters(peers_in_c, compute_what_double_precision_does) {
    return peers_of(__COUNTER__);
}

ParameterizedTest(struct name *name, peers_in_c, compute_what_double_precision_does,
                  .timeout = 240.0) {
    static const char *const texts[] = {
        "fwd f32 b1 h1 q1 k1 d1",
        "fwd f32 b2 h4/2 q33 k47 d24/40",                       /* heads share keys; ragged */
        "fwd f32 b1 h3 q1 k130 d64",                            /* one query: by vectors */
        "fwd f32 b1 h6/2 q600 k620 d16 causal=br window=100,*", /* in blocks of rows */
        "fwd f32 b1 h2 q300 k300 d8 causal=tl sinks",           /* likewise */
        "fwd f32 b2 h2 q40 k40 d16 causal=-7",                  /* rows that see nothing */
        "fwd f32 b2 h4/2 q20 k50 d16 mask=bqk",                 /* one mask for all heads */
        "fwd f32 b2 h2 q9 k20 d16 mask=bk alibi scale=-0.3",    /* and one for all rows */
        "fwd f32 b2 h2 q17 k33 d16 bias=f16:hqk mask=hqk",      /* both at once */
        "fwd f32 b1 h2 q5 k9 d16 bias=f32:q softcap=0.7",       /* one bias for all keys */
        "fwd f32 b3 h2 q20 k30 d16 qlen klen causal=br",        /* a diagonal for each batch */
        "fwd f32 b1 h4 q50 k50 d16 window=8,3 alibi sinks",     /* not causal */
    };
    struct rng r = rng_seed(4);
    struct message why;
    struct peer peer;
    char path[512];
    const struct peer_kind kind = built(name->key, path);

    start(&peer, &kind);
    for (size_t n = 0; n < sizeof texts / sizeof *texts + RANDOM_PROBLEMS; n++) {
        const clattn_problem problem =
            n < sizeof texts / sizeof *texts ? parse(texts[n]) : draw(&r);
        cr_assert(eq(int, (int)compute(&peer, &problem, 1 + n % 3, &why), (int)PEER_OK), "%s",
                  why.text);
    }
    peer_end(&peer);
}

ParameterizedTestParameters(peers_in_c, multiply_as_double_precision_does) {
    return peers_of(__COUNTER__);
}

ParameterizedTest(struct name *name, peers_in_c, multiply_as_double_precision_does,
                  .timeout = 120.0) {
    static const char *const texts[] = {
        "proj f32 q1 d1",
        "proj f32 b2 h3/4 q33 d5/7",                        /* heads split and merged */
        "proj f32 b3 h4/1 q20 d64/16 y=bshd w=oi bias=f32", /* to heads, as in a layer */
        "proj f32 b2 h1/6 q17 d8/40 x=bshd bias=bf16",      /* from heads */
        "proj f16 b2 h2/3 q40 d16/24 w=oi bias=f32",
        "proj bf16 b1 h2/1 q30 d33/9",
    };
    struct message why;
    struct peer peer;
    char path[512];
    const struct peer_kind kind = built(name->key, path);

    start(&peer, &kind);
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        const clattn_problem problem = parse(texts[n]);
        why.text[0] = '\0';
        const enum peer_answer answer = compute(&peer, &problem, 1 + n % 2, &why);
        cr_assert(answer == PEER_OK ||
                      (problem.projection.dtype != CLATTN_F32 && answer == PEER_UNSUPPORTED),
                  "%s: %s", texts[n], why.text);
    }
    peer_end(&peer);
}

ParameterizedTestParameters(peers_in_c, compute_or_refuse_what_is_stored_in_16_bits) {
    return peers_of(__COUNTER__);
}

ParameterizedTest(struct name *name, peers_in_c, compute_or_refuse_what_is_stored_in_16_bits,
                  .timeout = 120.0) {
    static const char *const texts[] = {"fwd f16 b1 h4/2 q20 k30 d32 causal=br",
                                        "fwd bf16 b1 h4/2 q20 k30 d32 causal=br",
                                        "fwd bf16 b1 h2 q20 k300 d32 sinks"};
    struct message why;
    struct peer peer;
    char path[512];
    const struct peer_kind kind = built(name->key, path);

    start(&peer, &kind);
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        const clattn_problem problem = parse(texts[n]);
        why.text[0] = '\0';
        const enum peer_answer answer = compute(&peer, &problem, 1, &why);
        cr_assert(answer == PEER_OK || answer == PEER_UNSUPPORTED, "%s", why.text);
        if (answer == PEER_UNSUPPORTED)
            cr_assert(strstr(why.text, "16") != NULL || strstr(why.text, "f32") != NULL, "%s",
                      why.text);
    }
    peer_end(&peer);
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

#define HELLO "{\"do\": \"hello\", \"device\": \"\", \"threads\": 2}"
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

ParameterizedTestParameters(peers_in_c, answer_every_request) {
    return peers_of(__COUNTER__);
}

ParameterizedTest(struct name *name, peers_in_c, answer_every_request, .timeout = 120.0) {
    static const char *const before_hello[] = {
        "",
        "nonsense",
        "7",
        "[]",
        "{}",
        "{\"do\": 7}",
        "{\"do\": \"dance\"}",
        "{\"do\": \"hello\"}",
        "{\"do\": \"hello\", \"device\": \"\", \"threads\": 0}",
        "{\"do\": \"open\"}",
        "{\"do\": \"result\", \"path\": \"/dev/null\"}",
    };
    const clattn_problem problem = parse("fwd f32 b1 h2 q3 k5 d4");
    struct attention_case attention;
    struct ca_process process;
    struct message sentence;
    struct message why;
    char path[512], data[PEER_DATA_PATH];
    int status;
    const struct peer_kind kind = built(name->key, path);
    const char *const argv[] = {kind.program, NULL};

    cr_assert(case_random(&attention, &(struct job){.problem = problem}, 1, &why), "%s", why.text);
    cr_assert(peer_data_file(data, peer_data_bytes(&attention.job), &why), "%s", why.text);
    cr_assert(peer_data_write(data, &attention, &why), "%s", why.text);
    cr_assert(ca_process_start(&process, argv, &sentence), "%s", sentence.text);
    for (size_t n = 0; n < sizeof before_hello / sizeof *before_hello; n++)
        is_refused(&process, before_hello[n]);
    is_done(&process, HELLO);
    is_refused(&process, HELLO); /* Said. */
    is_refused(&process, "{\"do\": \"open\"}");
    refuse_wrong_data(&process, data);
    compute_once_more(&process, data);
    close(process.requests); /* Their end is the program's. */
    process.requests = -1;
    cr_assert(waitpid(process.child.number, &status, 0) == process.child.number);
    cr_assert(eq(int, status, 0));
    process.child.number = 0;
    ca_process_end(&process);
    unlink(data);
    case_free(&attention);
}
