/* clattn-bench as a person calls it: exit codes, complaints, output. */
#define _POSIX_C_SOURCE 200809L /* popen */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAYER_0 TEST_DATA "/minilm/minilm_layer_0.safetensors"

/* Runs the program with `arguments`, puts both its outputs into `text` and returns its status. */
static int run_bench(const char *arguments, char *text, size_t text_bytes)
{
    char command[1024];

    snprintf(command, sizeof command, "'%s' %s 2>&1", BENCH_PROGRAM, arguments);
    FILE *pipe = popen(command, "r");
    const size_t length = fread(text, 1, text_bytes - 1, pipe);
    text[length] = '\0';
    while (fgetc(pipe) != EOF)
        continue;
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
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
        {"devices --help", 0, "Usage: clattn-bench devices"},
        {"devices", 0, "platform"},
        {"devices now", 2, "no further arguments"},
        {"verify --help", 0, "Usage: clattn-bench verify"},
        {"verify", 2, "names no file"},
        {"verify --rtol much x", 2, "--rtol takes a number"},
        {"verify --rtol -1 x", 2, "--rtol takes a number"},
        {"verify --wrong x", 2, "--help"},
        {"verify --device nowhere x", 1, "no OpenCL device matches nowhere"},
        {"verify /nonexistent.safetensors", 1, "cannot be found"},
        {"verify " LAYER_0, 0, "ok    minilm_layer_0"},
        {"verify --rtol 0 --atol 0 " LAYER_0, 1, "out of bounds"},
        {"verify --family nonsense " LAYER_0, 1, "nonsense"},
        {"run --help", 0, "Usage: clattn-bench run"},
        {"run --list", 0, "llama3-8b-prefill-512: "},
        {"run --repeat 0 minilm", 2, "--repeat takes a number from 1"},
        {"run --tunables X=1 minilm", 2, "--tunables needs --family"},
        {"run nonsense", 2, "'nonsense' is no workload"},
        {"run 'fwd f32 q3'", 2, "is no workload"},
        {"run /nonexistent.safetensors", 2, "cannot be found"},
    };
    return cr_make_param_array(struct call, calls, sizeof calls / sizeof *calls);
}

ParameterizedTest(struct call *call, bench, exits_with) {
    char text[8192];

    cr_assert(eq(int, run_bench(call->arguments, text, sizeof text), call->status), "%s: %s",
              call->arguments, text);
    cr_assert(strstr(text, call->says) != NULL, "%s: got '%s', want '%s'", call->arguments, text,
              call->says);
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
    cr_assert(eq(int, run_bench(arguments, text, sizeof text), 0), "%s", text);
    copy_layer(path, 0, true);
    cr_assert(eq(int, run_bench(arguments, text, sizeof text), 1), "%s", text);
    cr_assert(strstr(text, "FAIL  minilm_layer_0") != NULL, "%s", text);
    copy_layer(path, 1, false);
    cr_assert(eq(int, run_bench(arguments, text, sizeof text), 1), "%s", text);
    cr_assert(strstr(text, "ends at byte") != NULL, "%s", text);
    remove(path);
}

Test(bench, run_writes_a_table_and_json) {
    char path[] = "/tmp/clattn_test_XXXXXX", arguments[200], text[8192];
    json_error_t error;

    close(mkstemp(path));
    snprintf(arguments, sizeof arguments,
             "run --repeat 2 --json %s 'fwd f16 b2 h4/2 q33 k47 d24 causal=br klen lse' %s", path,
             LAYER_0);
    cr_assert(eq(int, run_bench(arguments, text, sizeof text), 0), "%s", text);
    cr_assert(strstr(text, "peaks measured in this run") != NULL, "%s", text);
    for (const char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        cr_expect(strlen(line) <= 100 || strncmp(line, "  fwd", 5) == 0, "wide: %s", line);

    json_t *run = json_load_file(path, 0, &error);
    cr_assert(run != NULL, "%s", error.text);
    const json_t *results = json_object_get(run, "results");
    cr_assert(eq(sz, json_array_size(results), 2));
    for (size_t n = 0; n < 2; n++) {
        const json_t *result = json_array_get(results, n);
        const json_t *times = json_object_get(result, "milliseconds");
        cr_assert(eq(int, json_boolean_value(json_object_get(result, "ok")), 1));
        cr_assert(eq(sz, json_array_size(json_object_get(times, "samples")), 2));
        cr_assert(gt(dbl, json_real_value(json_object_get(times, "median")), 0.0));
        cr_assert(gt(dbl, json_real_value(json_object_get(result, "peak_share")), 0.0));
        const json_t *error_of = json_object_get(result, "error");
        const char *against = json_string_value(json_object_get(error_of, "against"));
        cr_assert(strcmp(against, n == 0 ? "reference" : "file") == 0, "%s", against);
    }
    cr_assert(json_string_value(json_object_get(json_object_get(run, "device"), "driver")) != NULL);
    json_decref(run);
    remove(path);
}

Test(bench, devices_and_verify_speak_json) {
    static const char *const calls[] = {"devices --json", "verify --json " LAYER_0};
    char text[16384];
    json_error_t error;

    for (size_t n = 0; n < 2; n++) {
        cr_assert(eq(int, run_bench(calls[n], text, sizeof text), 0), "%s", text);
        const char *begin = strchr(text, '['); /* a driver may have spoken before */
        json_t *list = json_loads(begin != NULL ? begin : "", JSON_DISABLE_EOF_CHECK, &error);
        cr_assert(json_array_size(list) > 0, "%s: %s", calls[n], text);
        json_decref(list);
    }
}
