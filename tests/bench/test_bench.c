/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench as a person calls it: exit codes, complaints, output. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "tests/bench/bench_program.h"
#include "tests/support/unoptimised.h"

#include <clattn/clattn.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SMALL "'fwd f32 h2 q33 d24'"

TestSuite(bench, .init = scratch_open, .fini = scratch_close);

/* So that nothing is tuned but what a test tunes. */
static void use_empty_cache(void)
{
    setenv("CLATTN_CACHE_DIR", scratch_path("cache"), 1);
}

static void check_ratio(const json_t *ratio)
{
    cr_assert(gt(dbl, json_number_at(ratio, "low"), 0.0));
    cr_assert(ge(dbl, json_number_at(ratio, "median"), json_number_at(ratio, "low")));
    cr_assert(ge(dbl, json_number_at(ratio, "high"), json_number_at(ratio, "median")));
}

struct call {
    char arguments[200];
    int status;
    char says[80];
};

ParameterizedTestParameters(bench, exits_with) {
    static struct call calls[] = {
        {"", 2, "Usage: clattn-bench COMMAND"},
        {"--help", 0, "POCL_AFFINITY=1"},
        {"--version", 0, "clattn-bench "},
        {"measure", 2, "there is no command 'measure'"},
        {"help", 0, "Usage: clattn-bench COMMAND"},
        {"help run", 0, "Usage: clattn-bench run"},
        {"help verify", 0, "Usage: clattn-bench verify"},
        {"help nonsense", 2, "there is no command 'nonsense'"},
        {"run --nonsense", 2, "clattn-bench run: there is no option '--nonsense'"},
        {"devices --nonsense", 2, "clattn-bench devices: there is no option '--nonsense'"},
        {"verify --rtol", 2, "clattn-bench verify: '--rtol' needs a value"},
        {"'x\033[31m'", 2, "there is no command 'x?[31m'"},
        {"run '--\u202ex'", 2, "there is no option '--???x'"},
        {"plan 'fwd \xc2\x9bx'", 2, "'??x'"},
        {"devices --help", 0, "Usage: clattn-bench devices"},
        {"devices", 0, "platform"},
        {"devices now", 2, "no further arguments"},
        {"verify --help", 0, "Usage: clattn-bench verify"},
        {"verify", 2, "names no file and no problem"},
        {"verify 'fwd f32 q3 d4 nonsense'", 1, "no file and no problem"},
        {"verify --tunables SPLIT_K=1 x", 2, "--tunables needs --family"},
        {"verify --family unfused 'bwd f32 q3 d4'", 1, "computes forward only"},
        {"verify 'bwd f32 h2 q3 k5 d6'", 0, "  156 elements: worst d"},
        {"verify --seed 7 'proj f16 q5 d16' 'layer fwd f32 h2 q9 d8 model=16'", 0, "ok "},
        {"verify 'bwd f32 b0 q3 k5 d6'", 0, "ok "},
        {"verify --rtol much x", 2, "--rtol takes a number"},
        {"verify --rtol -1 x", 2, "--rtol takes a number"},
        {"verify --wrong x", 2, "--help"},
        {"verify --device nowhere x", 1, "no OpenCL device matches 'nowhere'"},
        {"verify /nonexistent.safetensors", 1, "cannot be found"},
        {"verify " LAYER_0, 0, "ok    minilm_layer_0"},
        {"verify --rtol 0 --atol 0 " LAYER_0, 1, "out of bounds"},
        {"verify --family nonsense " LAYER_0, 1, "nonsense"},
        {"run --help", 0, "Usage: clattn-bench run"},
        {"run --list", 0, "llama3-8b-prefill-512: "},
        {"run --repeat 0 minilm", 2, "--repeat takes a whole number from 1 to 100"},
        {"run --repeat 2.5 minilm", 2, "--repeat takes a whole number from 1"},
        {"run --list minilm", 0, "\n  fwd f32 b8 h12 q128 k128 d32\n"},
        {"run --list --filter b8 minilm", 0, "hidden_size 384\n  fwd f32 b8"},
        {"run --tunables X=1 minilm", 2, "--tunables needs --family"},
        {"run --patience 0 minilm", 2, "--patience takes a number from"},
        {"run --filter gpt2 minilm", 2, "no problem contains 'gpt2'"},
        {"run --peers clblast,nonsense minilm", 2,
         "ggml, torch, onnxruntime and paths of programs"},
        {"run --peers torch,torch minilm", 2, "--peers names 'torch' twice"},
        {"run --device nowhere minilm", 1, "no OpenCL device matches 'nowhere'"},
        {"run nonsense", 2, "'nonsense' is no workload"},
        {"run 'fwd f32 q3'", 2, "is no workload"},
        {"run /nonexistent.safetensors", 2, "cannot be found"},
        {"run --untuned --known-only minilm", 2, "exclude each other"},
        {"run --peers none --known-only " SMALL, 1, "CLATTN_NOT_TUNED"},
        {"duel --help", 0, "Usage: clattn-bench duel"},
        {"duel " SMALL " untuned", 2, "2 to 16 configurations"},
        {"duel 'fwd f32 q3' tuned untuned", 2, "duel: "},
        {"duel --rounds 5 " SMALL " untuned untuned", 2, "--rounds takes a whole number from 6"},
        {"duel --seconds -1 " SMALL " untuned untuned", 2, "--seconds takes a number"},
        {"duel " SMALL " untuned nonsense", 1, "'nonsense': "},
        {"duel " SMALL " untuned 'unfused THREAD_N=3'", 1, "'unfused THREAD_N=3': "},
        {"duel " SMALL " untuned tuned", 1, "'tuned': "},
        {"plan --help", 0, "Usage: clattn-bench plan"},
        {"plan", 2, "takes one to eight problems"},
        {"plan nonsense", 2, "plan: "},
        {"plan --untuned --known-only " SMALL, 2, "exclude each other"},
        {"plan --known-only " SMALL, 1, "CLATTN_NOT_TUNED"},
        {"plan --once --family unfused " SMALL, 0, "first execution"},
        {"plan --family nonsense " SMALL, 1, "for such problems there are unfused, "},
        {"plan --family unfused --tunables X=1 " SMALL, 1, "'X'; there are THREADS_N, "},
        {"plan --family unfused --tunables THREAD_N=3 " SMALL, 1, "its candidates: 4, "},
        {"plan --tunables X=1 " SMALL, 2, "--tunables needs --family"},
        /* A bias that broadcasts over nothing has a gradient of zeros, which has a buffer. */
        {"plan --once 'bwd f32 b2 h2 q0 k5 d8 bias=f32:k dbias'", 0, "first execution"},
        {"run --timeout soon " SMALL, 2, "clattn-bench run: --timeout"},
        {"run --speed measured " SMALL, 2, "--speed belongs to --mpi"},
        {"run --mpi --speed fast " SMALL, 2, "clattn-bench run: --speed"},
        {"run --no-first-call --peers none --quiet --patience 1e-7 " SMALL, 1,
         "clattn-bench run: fwd f32 b1 h2 q33 k33 d24: clattn failed: too slow"},
    };
    return cr_make_param_array(struct call, calls, sizeof calls / sizeof *calls);
}

ParameterizedTest(struct call *call, bench, exits_with) {
    program_must(BENCH_PROGRAM, call->status, call->says, "%s", call->arguments);
}

/* Lines that nobody can read are a failure, of every command that prints. */
Test(bench, what_cannot_be_printed_is_a_failure) {
    static const char verify[] = "verify --json " LAYER_0, plan[] = "plan --once " SMALL;
    static const char *const calls[] = {"devices",   "devices --json", "--help", "run --list",
                                        "help plan", verify,           plan};
    if (access("/dev/full", W_OK) != 0)
        cr_skip_test("there is no /dev/full here");
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++)
        program_must(BENCH_PROGRAM, 1, "cannot be written", "%s 2>&1 > /dev/full #", calls[n]);
}

/* No line of a table is wider than the terminal, and what there was no room for is named. */
Test(bench, tables_fit_narrow_terminals) {
    static const char *const calls[] = {"devices",
                                        "run --list quick",
                                        "run --peers none --no-first-call --repeat 1 " SMALL,
                                        "duel --seconds 0 " SMALL " untuned unfused",
                                        "plan " SMALL,
                                        "plan --profile sm_90 " SMALL,
                                        "verify 'bwd f32 b1 h1 q3 k5 d4 softcap=5'"};

    setenv("COLUMNS", "60", 1);
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++) {
        program_must(BENCH_PROGRAM, 0, n == 2 ? "no room for them on 60" : "", "%s", calls[n]);
        program_expect_width(program_text, 60, NULL);
    }
}

/* The files that are named are what is listed, not all workloads. */
Test(bench, list_shows_what_would_run) {
    const char *path = scratch_path("problems");

    scratch_write(path, "mine: fwd f32 q3 d8\nfwd f32 q5 d8\n");
    program_must(BENCH_PROGRAM, 0, "", "run --list %s " LAYER_0, path);
    program_expect("mine:\n  fwd f32 b1 h1 q3 k3 d8\n");
    program_expect("minilm_layer_0:\n  fwd f32 b1 h12 q149 k149 d32\n");
    cr_expect(not(program_said("gpt2")), "%s", program_text);
    program_must(BENCH_PROGRAM, 2, "", "run --list /tmp/nothing.safetensors");
}

Test(bench, verify_finds_a_spoilt_and_a_truncated_file) {
    const char *path = scratch_path("layer.safetensors");

    bench_copy_layer(path, 0, false);
    program_must(BENCH_PROGRAM, 0, "", "verify %s", path);
    bench_copy_layer(path, 0, true);
    program_must(BENCH_PROGRAM, 1, "FAIL  minilm_layer_0", "verify %s", path);
    bench_copy_layer(path, 1, false);
    program_must(BENCH_PROGRAM, 1, "ends at byte", "verify %s", path);
    const char *name = strstr(program_text, path);
    cr_assert(name != NULL && strstr(name + 1, path) == NULL, "its name is there twice: %s",
              program_text);
    program_must(BENCH_PROGRAM, 1, "", "verify %s 2> /dev/null", path);
}

/* Gradients of a function with derivatives that the library derives, with those of the source, and with wrong ones of the
 * source, by which all else is right. */
Test(bench, verify_finds_wrong_derivatives) {
    static const char bent[] = "#pragma clattn operand float lift[h]\n"
                               "float score(float s, pair p, operands o)\n"
                               "{ return s + 0.25f * s * s * lift_at(o, p.own_head); }\n";
    static const char by_s[] = "float score_derivative(float s, pair p, operands o)\n"
                               "{ return 1.0f + %sf * s * lift_at(o, p.own_head); }\n";
    static const char by_lift[] =
        "int lift_index(float s, pair p, operands o) { return p.own_head; }\n"
        "float lift_derivative(float s, pair p, operands o) { return %sf * s * s; }\n";
    static const struct {
        const char *by_s, *by_lift; /* their factors; NULL: the library derives it */
        int status;
        const char *says, *worst;
    } cases[] = {
        {"0.5", NULL, 0, "ok ", "elements: worst d"},
        {NULL, "0.26", 1, "FAIL", "elements: worst dfunction("},
        {NULL, NULL, 0, "ok ", "elements: worst d"},
        {"0.49", NULL, 1, "FAIL", "elements: worst d"}, /* of q or k */
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        char source[1024];
        size_t at = (size_t)snprintf(source, sizeof source, "%s", bent);
        if (!run_takes_of(n, sizeof cases / sizeof *cases, 2)) /* the others in the next runs */
            continue;
        if (cases[n].by_s)
            at += (size_t)snprintf(source + at, sizeof source - at, by_s, cases[n].by_s);
        if (cases[n].by_lift)
            snprintf(source + at, sizeof source - at, by_lift, cases[n].by_lift);
        scratch_write(scratch_path("bent.cl"), source);
        program_must(BENCH_PROGRAM, cases[n].status, cases[n].says,
                     "verify --family backward_cpu --tunables 'SIMD_WIDTH=4 BLOCK_VECTORS=1 "
                     "QK_ROWS=8 DKV_COLUMNS=8 BLOCK_M=24 DQ_ROWS=6 DQ_VECTORS=2' 'bwd f32 h2 q20 "
                     "k30 d8 score=%s dfunction'",
                     scratch_path("bent.cl"));
        program_expect(cases[n].worst);
        cr_expect(cases[n].status == 0 || !program_said("worst dv("), "%s", program_text);
    }
}

Test(bench, run_writes_a_table_and_json) {
    json_t *run = bench_json(0, "peaks measured in this run",
                             "run --peers none --no-first-call --repeat 2 'fwd f16 b2 h4/2 q33 k47 "
                             "d24 causal=br klen lse' " LAYER_0);
    bench_check_width();
    for (size_t n = 0; n < 2; n++) {
        const json_t *clattn = bench_row(run, n, "clattn");
        json_must_be(clattn, "state", "measured");
        cr_assert(eq(sz, bench_samples(clattn), 2));
        cr_assert(gt(dbl, json_number_at(clattn, "milliseconds.median"), 0.0));
        cr_assert(gt(dbl, json_number_at(bench_result(run, n), "roof_share.median"), 0.0));
        json_must_be(bench_result(run, n), "against", n == 0 ? "reference" : "file");
    }
    cr_assert(bench_result(run, 2) == NULL);
    json_decref(run);
}

Test(bench, devices_and_verify_speak_json) {
    static const char *const calls[] = {"devices --json", "verify --json " LAYER_0};
    json_error_t error;

    for (size_t n = 0; n < 2; n++) {
        program_must(BENCH_PROGRAM, 0, "[", "%s", calls[n]);
        const char *begin = strchr(program_text, '['); /* a driver may have spoken before */
        json_t *list = json_loads(begin, JSON_DISABLE_EOF_CHECK, &error);
        cr_assert(json_array_size(list) > 0, "%s: %s", calls[n], program_text);
        json_decref(list);
    }
}

Test(bench, says_which_device_it_looked_for) {
    setenv("CLATTN_DEVICE", "nowhere", 1);
    program_must(BENCH_PROGRAM, 1, "matches CLATTN_DEVICE, which is 'nowhere'", "plan " SMALL);
    setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
    unsetenv("CLATTN_DEVICE");
    program_must(BENCH_PROGRAM, 1, "there is no OpenCL device", "plan " SMALL);
}

/* An override stands for a tuned choice: what a device gets that was never tuned is another. */
Test(bench, run_times_the_untuned_choice_beside_another) {
    static const char *const options[] = {"", "--untuned", "--family unfused"};
    static const char *const origins[] = {"override", "untuned", "forced"};

    setenv("CLATTN_OVERRIDE", "unfused", 1);
    for (size_t n = 0; n < 3; n++) {
        json_t *run = bench_json(
            0, origins[n], "run --peers none --no-first-call --repeat 2 %s " SMALL, options[n]);
        const json_t *untuned = bench_row(run, 0, "clattn untuned");
        json_must_be(bench_result(run, 0), "origin", origins[n]);
        cr_assert(eq(int, untuned != NULL, n == 0));
        if (n == 0) {
            check_ratio(json_at(untuned, "ratio"));
            cr_assert(eq(sz, bench_samples(untuned), 2));
            cr_assert(strcmp(json_text_at(untuned, "configuration"),
                             json_text_at(bench_row(run, 0, "clattn"), "configuration")) != 0);
        }
        json_decref(run);
    }
}

/* Tunes a problem in this process, as far as one configuration goes. */
static void tune(const char *text)
{
    const clattn_tuning_options options = {.struct_size = sizeof options, .evaluations = 1};
    clattn_context *context;
    clattn_problem problem;

    cr_assert(eq(int, clattn_problem_parse(text, &problem, NULL, 0), CLATTN_SUCCESS));
    cr_assert(eq(int, clattn_context_create_default(NULL, NULL, &context), CLATTN_SUCCESS));
    cr_assert(eq(int, clattn_tune(context, &problem, 1, &options, NULL), CLATTN_SUCCESS));
    clattn_context_release(context);
}

Test(bench, what_was_tuned_is_used) {
    static const struct {
        char arguments[100], says[40];
    } calls[] = {
        {"run --peers none --no-first-call --repeat 1 " SMALL, ", tuned, "},
        {"run --peers none --no-first-call --repeat 1 'fwd f32 h2 q65 d24'", ", nearest, "},
        {"run --peers none --no-first-call --repeat 1 --known-only " SMALL, ", tuned, "},
        {"plan --known-only " SMALL, "tuned for this class"},
        {"duel --seconds 0 " SMALL " tuned untuned", "6 rounds"},
    };

    use_empty_cache();
    tune("fwd f32 h2 q33 d24");
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++)
        program_must(BENCH_PROGRAM, 0, calls[n].says, "%s", calls[n].arguments);
}

Test(bench, the_untuned_choice_is_not_raced_against_itself) {
    use_empty_cache();
    json_t *run = bench_json(0, "", "run --peers none --no-first-call --repeat 1 " SMALL);
    json_must_be(bench_result(run, 0), "origin", "untuned");
    cr_assert(eq(sz, bench_samples(bench_row(run, 0, "clattn")), 1));
    cr_assert(bench_row(run, 0, "clattn untuned") == NULL);
    json_decref(run);
}

Test(bench, duel_races_and_checks_every_configuration) {
    static const char *const names[] = {"untuned", "unfused", "unfused"};

    json_t *duel = bench_json(0, "6 rounds", "duel --seconds 0 " SMALL " untuned unfused unfused");
    program_expect_width(program_text, 100, "=");
    cr_assert(eq(sz, json_size_at(duel, "duellists"), 3));
    for (size_t n = 0; n < 3; n++) {
        const json_t *duellist = json_at(duel, "duellists.%zu", n);
        json_must_be(duellist, "name", names[n]);
        cr_assert(eq(sz, json_size_at(duellist, "milliseconds.samples"), 6));
        cr_assert(eq(int, json_is_true(json_at(duellist, "ok")), 1));
        if (n > 0)
            check_ratio(json_at(duellist, "ratio"));
        cr_assert(eq(int, json_is_null(json_at(duellist, "verdict")), n == 0));
    }
    json_decref(duel);
}

/* A step of training is a forward and a backward, whose times are added. */
Test(bench, plan_times_several_problems_together) {
    json_t *plan = bench_json(0, "q5", "plan --once " SMALL " 'fwd f32 q5 k7 d16'");
    const char *problem = json_text_at(plan, "problem");
    cr_assert(problem && strstr(problem, " + fwd f32"), "%s", problem);
    const char *configuration = json_text_at(plan, "configuration");
    cr_expect(configuration && strstr(configuration, " + "));
    json_must_be(plan, "origin", "untuned + untuned");
    json_decref(plan);
}

Test(bench, the_second_process_compiles_nothing) {
    use_empty_cache();
    for (int process = 0; process < 2; process++) {
        json_t *plan = bench_json(0, "", "plan " SMALL);
        cr_assert(eq(dbl, json_number_at(plan, "programs_compiled"), process == 0));
        json_must_be(plan, "origin", "untuned");
        cr_assert(gt(dbl, json_number_at(plan, "milliseconds.plan"), 0.0));
        json_decref(plan);
    }
}
