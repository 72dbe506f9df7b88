/* clattn-bench as a person calls it: exit codes, complaints, output. */
#define _XOPEN_SOURCE 700 /* nftw, mkdtemp */
#include "tests/bench/bench_program.h"

#include <clattn/clattn.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EMPTY_CACHE "/tmp/clattn_bench_XXXXXX"
#define SMALL "'fwd f32 h2 q33 d24'"
#define LAYER_0 TEST_DATA "/minilm/minilm_layer_0.safetensors"

/* A cache directory of its own, so that nothing is tuned but what a test tunes. */
static void empty_cache(char directory[static sizeof EMPTY_CACHE])
{
    strcpy(directory, EMPTY_CACHE);
    cr_assert(mkdtemp(directory) != NULL);
    setenv("CLATTN_CACHE_DIR", directory, 1);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(path);
}

static void remove_cache(const char *directory)
{
    nftw(directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void check_ratio(const json_t *ratio)
{
    const double low = json_real_value(json_object_get(ratio, "low"));
    const double median = json_real_value(json_object_get(ratio, "median"));

    cr_assert(gt(dbl, low, 0.0));
    cr_assert(ge(dbl, median, low));
    cr_assert(ge(dbl, json_real_value(json_object_get(ratio, "high")), median));
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
        {"run --nonsense", 2, "clattn-bench run: unrecognized option"},
        {"devices --nonsense", 2, "clattn-bench devices: unrecognized option"},
        {"verify --rtol", 2, "clattn-bench verify: option"},
        {"report --nonsense", 2, "clattn-bench report: unrecognized option"},
        {"devices --help", 0, "Usage: clattn-bench devices"},
        {"devices", 0, "platform"},
        {"devices now", 2, "no further arguments"},
        {"verify --help", 0, "Usage: clattn-bench verify"},
        {"verify", 2, "names no file"},
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
        {"run --peers clblast,nonsense minilm", 2, "torch, onnxruntime and paths of programs"},
        {"run --peers torch,torch minilm", 2, "--peers names 'torch' twice"},
        {"run --json - --csv - minilm", 2, "cannot both go to standard output"},
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
    };
    return cr_make_param_array(struct call, calls, sizeof calls / sizeof *calls);
}

ParameterizedTest(struct call *call, bench, exits_with) {
    char text[8192];

    cr_assert(eq(int, bench_run(call->arguments, text, sizeof text), call->status), "%s: %s",
              call->arguments, text);
    cr_assert(strstr(text, call->says) != NULL, "%s: got '%s', want '%s'", call->arguments, text,
              call->says);
}

/* Lines that nobody can read are a failure, of every command that prints. */
Test(bench, what_cannot_be_printed_is_a_failure) {
    static const char verify[] = "verify --json " LAYER_0, plan[] = "plan --once " SMALL;
    static const char *const calls[] = {"devices",   "devices --json", "--help", "run --list",
                                        "help plan", verify,           plan};
    char arguments[256], text[4096];

    if (access("/dev/full", W_OK) != 0)
        cr_skip_test("there is no /dev/full here");
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++) {
        snprintf(arguments, sizeof arguments, "%s 2>&1 > /dev/full #", calls[n]);
        cr_expect(eq(int, bench_run(arguments, text, sizeof text), 1), "%s: %s", calls[n], text);
        cr_expect(strstr(text, "cannot be written") != NULL, "%s: %s", calls[n], text);
    }
}

/* No line of a table is wider than the terminal, and what there was no room for is named. */
Test(bench, tables_fit_narrow_terminals) {
    static const char *const calls[] = {"devices", "run --list quick",
                                        "run --peers none --no-first-call --repeat 1 " SMALL,
                                        "duel --seconds 0 " SMALL " untuned unfused"};
    char text[32768];

    setenv("COLUMNS", "60", 1);
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++) {
        cr_assert(eq(int, bench_run(calls[n], text, sizeof text), 0), "%s", text);
        cr_expect(n != 2 || strstr(text, "no room for them on 60") != NULL, "%s", text);
        for (const char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
            cr_expect(strlen(line) <= 60 || strncmp(line, "  #", 3) == 0, "%s: wide: %s", calls[n],
                      line);
    }
}

/* The files that are named are what is listed, not all workloads. */
Test(bench, list_shows_what_would_run) {
    char path[] = "/tmp/clattn_test_XXXXXX", arguments[200], text[4096];
    FILE *file = fdopen(mkstemp(path), "w");

    fputs("mine: fwd f32 q3 d8\nfwd f32 q5 d8\n", file);
    fclose(file);
    snprintf(arguments, sizeof arguments, "run --list %s " LAYER_0, path);
    cr_assert(eq(int, bench_run(arguments, text, sizeof text), 0), "%s", text);
    cr_expect(strstr(text, "mine:\n  fwd f32 b1 h1 q3 k3 d8\n") != NULL, "%s", text);
    cr_expect(strstr(text, "minilm_layer_0:\n  fwd f32 b1 h12 q149 k149 d32\n") != NULL, "%s",
              text);
    cr_expect(strstr(text, "gpt2") == NULL, "%s", text);
    snprintf(arguments, sizeof arguments, "run --list /tmp/nothing.safetensors");
    cr_expect(eq(int, bench_run(arguments, text, sizeof text), 2), "%s", text);
    remove(path);
}

/* Copies layer 0 to `path`, less `cut` bytes, the last byte exchanged if `spoil`. */
static void copy_layer(const char *path, long cut, bool spoil)
{
    FILE *from = fopen(LAYER_0, "rb"), *to = fopen(path, "wb");
    fseek(from, 0, SEEK_END);
    const size_t size = (size_t)ftell(from);
    unsigned char *bytes = malloc(size);

    rewind(from);
    cr_assert(eq(sz, fread(bytes, 1, size, from), size));
    if (spoil)
        bytes[size - 1] ^= 0x80; /* the sign of the last element of V, which all queries see */
    cr_assert(eq(sz, fwrite(bytes, 1, size - (size_t)cut, to), size - (size_t)cut));
    fclose(to);
    fclose(from);
    free(bytes);
}

Test(bench, verify_finds_a_spoilt_and_a_truncated_file) {
    char path[] = "/tmp/clattn_test_XXXXXX", arguments[64], text[4096];

    close(mkstemp(path));
    snprintf(arguments, sizeof arguments, "verify %s", path);
    copy_layer(path, 0, false);
    cr_assert(eq(int, bench_run(arguments, text, sizeof text), 0), "%s", text);
    copy_layer(path, 0, true);
    cr_assert(eq(int, bench_run(arguments, text, sizeof text), 1), "%s", text);
    cr_assert(strstr(text, "FAIL  minilm_layer_0") != NULL, "%s", text);
    copy_layer(path, 1, false);
    cr_assert(eq(int, bench_run(arguments, text, sizeof text), 1), "%s", text);
    cr_assert(strstr(text, "ends at byte") != NULL, "%s", text);
    const char *name = strstr(text, path);
    cr_assert(name != NULL && strstr(name + 1, path) == NULL, "its name is there twice: %s", text);
    snprintf(arguments, sizeof arguments, "verify %s 2> /dev/null", path);
    cr_assert(eq(int, bench_run(arguments, text, sizeof text), 1));
    remove(path);
}

Test(bench, run_writes_a_table_and_json) {
    char path[] = "/tmp/clattn_test_XXXXXX", arguments[200], text[8192];

    close(mkstemp(path));
    snprintf(arguments, sizeof arguments,
             "run --peers none --no-first-call --repeat 2 --json %s 'fwd f16 b2 h4/2 q33 k47 d24 "
             "causal=br klen lse' %s",
             path, LAYER_0);
    cr_assert(eq(int, bench_run(arguments, text, sizeof text), 0), "%s", text);
    cr_assert(strstr(text, "peaks measured in this run") != NULL, "%s", text);
    bench_check_width(text);
    json_t *run = bench_load(path);
    for (size_t n = 0; n < 2; n++) {
        const json_t *record = bench_result(run, n);
        const json_t *clattn = bench_implementation(record, "clattn");
        const json_t *times = json_object_get(clattn, "milliseconds");
        bench_check_text(clattn, "state", "measured");
        cr_assert(eq(sz, bench_samples(clattn), 2));
        cr_assert(gt(dbl, json_real_value(json_object_get(times, "median")), 0.0));
        const json_t *share = json_object_get(record, "roof_share");
        cr_assert(gt(dbl, json_real_value(json_object_get(share, "median")), 0.0));
        bench_check_text(record, "against", n == 0 ? "reference" : "file");
    }
    cr_assert(bench_result(run, 2) == NULL);
    json_decref(run);
    remove(path);
}

Test(bench, devices_and_verify_speak_json) {
    static const char *const calls[] = {"devices --json", "verify --json " LAYER_0};
    char text[16384];
    json_error_t error;

    for (size_t n = 0; n < 2; n++) {
        cr_assert(eq(int, bench_run(calls[n], text, sizeof text), 0), "%s", text);
        const char *begin = strchr(text, '['); /* a driver may have spoken before */
        json_t *list = json_loads(begin != NULL ? begin : "", JSON_DISABLE_EOF_CHECK, &error);
        cr_assert(json_array_size(list) > 0, "%s: %s", calls[n], text);
        json_decref(list);
    }
}

Test(bench, says_which_device_it_looked_for) {
    char text[4096];

    setenv("CLATTN_DEVICE", "nowhere", 1);
    cr_assert(eq(int, bench_run("plan " SMALL, text, sizeof text), 1), "%s", text);
    cr_assert(strstr(text, "matches CLATTN_DEVICE, which is 'nowhere'") != NULL, "%s", text);
    setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
    unsetenv("CLATTN_DEVICE");
    cr_assert(eq(int, bench_run("plan " SMALL, text, sizeof text), 1), "%s", text);
    cr_assert(strstr(text, "there is no OpenCL device") != NULL, "%s", text);
}

/* An override stands for a tuned choice: what a device gets that was never tuned is another. */
Test(bench, run_times_the_untuned_choice_beside_another) {
    char path[] = "/tmp/clattn_test_XXXXXX", arguments[200], text[8192];
    static const char *const options[] = {"", "--untuned", "--family unfused"};
    static const char *const origins[] = {"override", "untuned", "forced"};

    close(mkstemp(path));
    setenv("CLATTN_OVERRIDE", "unfused", 1);
    for (size_t n = 0; n < 3; n++) {
        snprintf(arguments, sizeof arguments,
                 "run --peers none --no-first-call --repeat 2 %s --json %s " SMALL, options[n],
                 path);
        cr_assert(eq(int, bench_run(arguments, text, sizeof text), 0), "%s", text);
        cr_assert(strstr(text, origins[n]) != NULL, "%s", text);
        json_t *run = bench_load(path);
        const json_t *clattn = bench_implementation(bench_result(run, 0), "clattn");
        const json_t *untuned = bench_implementation(bench_result(run, 0), "clattn untuned");
        bench_check_text(bench_result(run, 0), "origin", origins[n]);
        cr_assert(eq(int, untuned != NULL, n == 0));
        if (n == 0) {
            check_ratio(json_object_get(untuned, "ratio"));
            cr_assert(eq(sz, bench_samples(untuned), 2));
            cr_assert(strcmp(json_string_value(json_object_get(untuned, "configuration")),
                             json_string_value(json_object_get(clattn, "configuration"))) != 0);
        }
        json_decref(run);
    }
    remove(path);
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
    char cache[sizeof EMPTY_CACHE], text[8192];

    empty_cache(cache);
    tune("fwd f32 h2 q33 d24");
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++) {
        cr_assert(eq(int, bench_run(calls[n].arguments, text, sizeof text), 0), "%s", text);
        cr_assert(strstr(text, calls[n].says) != NULL, "%s: %s", calls[n].arguments, text);
    }
    remove_cache(cache);
}

Test(bench, the_untuned_choice_is_not_raced_against_itself) {
    char path[] = "/tmp/clattn_test_XXXXXX", cache[sizeof EMPTY_CACHE], arguments[200], text[8192];

    close(mkstemp(path));
    empty_cache(cache);
    snprintf(arguments, sizeof arguments,
             "run --peers none --no-first-call --repeat 1 --json %s " SMALL, path);
    cr_assert(eq(int, bench_run(arguments, text, sizeof text), 0), "%s", text);
    json_t *run = bench_load(path);
    bench_check_text(bench_result(run, 0), "origin", "untuned");
    cr_assert(eq(sz, bench_samples(bench_implementation(bench_result(run, 0), "clattn")), 1));
    cr_assert(bench_implementation(bench_result(run, 0), "clattn untuned") == NULL);
    json_decref(run);
    remove_cache(cache);
    remove(path);
}

Test(bench, duel_races_and_checks_every_configuration) {
    static const char *const names[] = {"untuned", "unfused", "unfused"};
    char path[] = "/tmp/clattn_test_XXXXXX", arguments[200], text[8192];

    close(mkstemp(path));
    snprintf(arguments, sizeof arguments,
             "duel --seconds 0 --json %s " SMALL " untuned unfused unfused", path);
    cr_assert(eq(int, bench_run(arguments, text, sizeof text), 0), "%s", text);
    cr_assert(strstr(text, "6 rounds") != NULL, "%s", text);
    for (const char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        cr_expect(strlen(line) <= 100 || strchr(line, '=') != NULL, "wide: %s", line);
    json_t *duel = bench_load(path);
    const json_t *list = json_object_get(duel, "duellists");
    cr_assert(eq(sz, json_array_size(list), 3));
    for (size_t n = 0; n < 3; n++) {
        const json_t *duellist = json_array_get(list, n);
        const json_t *times = json_object_get(duellist, "milliseconds");
        bench_check_text(duellist, "name", names[n]);
        cr_assert(eq(sz, json_array_size(json_object_get(times, "samples")), 6));
        cr_assert(eq(int, json_is_true(json_object_get(duellist, "ok")), 1));
        if (n > 0)
            check_ratio(json_object_get(duellist, "ratio"));
        cr_assert(eq(int, json_is_null(json_object_get(duellist, "verdict")), n == 0));
    }
    json_decref(duel);
    remove(path);
}

/* A step of training is a forward and a backward, whose times are added. */
Test(bench, plan_times_several_problems_together) {
    char path[] = "/tmp/clattn_test_XXXXXX", arguments[300], text[8192];

    close(mkstemp(path));
    snprintf(arguments, sizeof arguments, "plan --once --json %s " SMALL " \"%s\"", path,
             "fwd f32 q5 k7 d16");
    cr_assert(eq(int, bench_run(arguments, text, sizeof text), 0), "%s", text);
    cr_expect(strstr(text, "q5") != NULL);
    json_t *plan = bench_load(path);
    const char *problem = json_string_value(json_object_get(plan, "problem"));
    cr_assert(problem && strstr(problem, " + fwd f32"), "%s", problem);
    const char *configuration = json_string_value(json_object_get(plan, "configuration"));
    cr_expect(configuration && strstr(configuration, " + "));
    bench_check_text(plan, "origin", "untuned + untuned");
    json_decref(plan);
    remove(path);
}

Test(bench, the_second_process_compiles_nothing) {
    char path[] = "/tmp/clattn_test_XXXXXX", cache[sizeof EMPTY_CACHE], arguments[200], text[8192];

    close(mkstemp(path));
    empty_cache(cache);
    snprintf(arguments, sizeof arguments, "plan --json %s " SMALL, path);
    for (int process = 0; process < 2; process++) {
        cr_assert(eq(int, bench_run(arguments, text, sizeof text), 0), "%s", text);
        json_t *plan = bench_load(path);
        cr_assert(eq(int, (int)json_integer_value(json_object_get(plan, "programs_compiled")),
                     process == 0));
        bench_check_text(plan, "origin", "untuned");
        const json_t *times = json_object_get(plan, "milliseconds");
        cr_assert(gt(dbl, json_real_value(json_object_get(times, "plan")), 0.0));
        json_decref(plan);
    }
    remove_cache(cache);
    remove(path);
}
