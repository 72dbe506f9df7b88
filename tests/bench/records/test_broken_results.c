/* SPDX-License-Identifier: Apache-2.0 */
/* Results of runs that are not what they should be: what is wrong is said, with its place. */
#include "bench/records/results.h"
#include "tests/bench/run_example.h"
#include "tests/support/programs/scratch.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(broken_results, .init = scratch_open, .fini = scratch_close);

/* The value at "devices.0.results.0.problem" becomes what `text` says, or goes away without one. */
static void set_value(json_t *document, const char *where, const char *text)
{
    json_t *in = document, *value = NULL;
    char part[64];

    for (;;) {
        const size_t length = strcspn(where, ".");
        snprintf(part, sizeof part, "%.*s", (int)length, where);
        where += length;
        if (*where == '\0')
            break;
        where++;
        in = json_is_array(in) ? json_array_get(in, (size_t)atoi(part)) : json_object_get(in, part);
        cr_assert(in != NULL, "nothing is at %s", part);
    }
    if (text != NULL) {
        value = json_loads(text, JSON_DECODE_ANY, NULL);
        cr_assert(value != NULL, "%s", text);
    }
    if (json_is_array(in) && value != NULL)
        json_array_set_new(in, (size_t)atoi(part), value);
    else if (json_is_array(in))
        json_array_remove(in, (size_t)atoi(part));
    else if (value != NULL)
        json_object_set_new(in, part, value);
    else
        json_object_del(in, part);
}

#define RUN "devices.0."
#define RECORD RUN "results.0."
#define CLATTN RECORD "implementations.0."
#define IN_RUN "devices[0]."
#define IN_RECORD IN_RUN "results[0]."
#define IN_CLATTN IN_RECORD "implementations[0]."

static const struct {
    const char *where, *value, *says;
} broken[] = {
    {"schema", NULL, "schema is missing"},
    {"schema", "3", "schema is not a text"},
    {"schema", "\"clattn-bench-run-1\"",
     "schema is 'clattn-bench-run-1', which is too old: measure again with this clattn-bench"},
    {"schema", "\"clattn-bench-duel-1\"",
     "schema is 'clattn-bench-duel-1', but 'clattn-bench-run-2' is expected"},
    {"date", "\"yesterday\"", "date is 'yesterday', not like 2026-11-21T09:30:00Z"},
    {"date", "\"2026-11-21T09:30:00ZZ\"", "date is '2026-11-21T09:30:00ZZ', not like"},
    {"clattn", "\"0123456789012345678901234567890123456789\"", "clattn is longer than 31 bytes"},
    {"host", "[]", "host is not an object"},
    {"host.processors", "-1", "host.processors is -1, but must be from 0 to 1000000000"},
    {"host.system", NULL, "host.system is missing"},
    {"devices", "{}", "devices is not an array"},
    {"devices.0", "null", "devices[0] is not an object"},
    {RUN "index", "0.5", IN_RUN "index is not a whole number"},
    {RUN "failed", "true", IN_RUN "failed is not a text"},
    {RUN "device.name", "\"\"", IN_RUN "device.name is empty"},
    {RUN "device.type", "\"fpga\"", IN_RUN "device.type is 'fpga', which is unknown"},
    {RUN "device.fp16", "1", IN_RUN "device.fp16 is neither true nor false"},
    {RUN "device.compute_units", NULL, IN_RUN "device.compute_units is missing"},
    {RUN "device.global_memory_bytes", "-5", IN_RUN "device.global_memory_bytes is -5, but"},
    {RUN "interrupted", NULL, IN_RUN "interrupted is missing"},
    {RUN "load", "[1, 2]", IN_RUN "load has 2 elements, but there may be 3 to 3"},
    {RUN "load.1", "-0.5", IN_RUN "load[1] is -0.5, but must be at least 0"},
    {RUN "noise", "\"low\"", IN_RUN "noise is not a number"},
    {RUN "peaks", "null", IN_RUN "peaks is not an object"},
    {RUN "peaks.fma_gflops.samples", "[0.0]",
     IN_RUN "peaks.fma_gflops.samples[0] is 0, but must be positive"},
    {RUN "peaks.fma_gflops.samples", "[]",
     IN_RUN "peaks.fma_gflops.samples has 0 elements, but there may be 1 to 100"},
    {RUN "peaks.read_gbytes.median", "21",
     IN_RUN "peaks.read_gbytes.median is 21, but its samples have 20"},
    {RUN "peaks.copy_gbytes.samples.0", "1e300",
     IN_RUN "peaks.copy_gbytes.samples[0] is 1e+300, but must be at most 1e+30"},
    {RUN "peers", "[1]", IN_RUN "peers[0] is not an object"},
    {RUN "peers", "[1, 2, 3, 4, 5, 6, 7, 8, 9]",
     IN_RUN "peers has 9 elements, but there may be 0 to 8"},
    {RUN "peers.0.missing", NULL, IN_RUN "peers[0].missing is missing"},
    {RECORD "problem", "\"\"", IN_RECORD "problem is empty"},
    {RECORD "problem", "null", IN_RECORD "problem is not a text"},
    {RECORD "flops", "-1", IN_RECORD "flops is -1, but must be at least 0"},
    {RECORD "roof", "\"slate\"", IN_RECORD "roof is 'slate', which is unknown"},
    {RECORD "copies", "0", IN_RECORD "copies is 0, but must be from 1 to 1000000"},
    {RECORD "origin", "\"a dream\"", IN_RECORD "origin is 'a dream', which is unknown"},
    {RECORD "against", "\"all odds\"", IN_RECORD "against is 'all odds', which is unknown"},
    {RECORD "roof_share.median", "null", IN_RECORD "roof_share.median is not a number"},
    {RECORD "implementations", "[]",
     IN_RECORD "implementations has 0 elements, but there may be 1 to 12"},
    {CLATTN "implementation", "\"CLBlast\"",
     IN_CLATTN "implementation is 'CLBlast', but the first must be 'clattn'"},
    {RECORD "implementations.3.implementation", "\"CLBlast\"",
     IN_RECORD "implementations[3].implementation is 'CLBlast' a second time"},
    {RECORD "implementations.3.why", "null",
     IN_RECORD "implementations[3].why is empty, but the state is 'unsupported'"},
    {CLATTN "state", "\"good\"", IN_CLATTN "state is 'good', which is unknown"},
    {CLATTN "state", "\"wrong\"", IN_CLATTN "milliseconds is not null, but the state is 'wrong'"},
    {CLATTN "milliseconds", "null", IN_CLATTN "milliseconds is null, but the state is 'measured'"},
    {CLATTN "milliseconds.samples.2", "\"1\"", IN_CLATTN "milliseconds.samples[2] is not a number"},
    {CLATTN "milliseconds.samples.2", "null", IN_CLATTN "milliseconds.samples[2] is not a number"},
    {CLATTN "milliseconds.samples.6", "-1", IN_CLATTN "milliseconds.samples[6] is -1, but"},
    {CLATTN "milliseconds.median", "7", IN_CLATTN "milliseconds.median is 7, but its samples have"},
    {CLATTN "milliseconds.minimum", "0.5",
     IN_CLATTN "milliseconds.minimum is 0.5, but its samples have"},
    {CLATTN "host_microseconds.samples", NULL, IN_CLATTN "host_microseconds.samples is missing"},
    {CLATTN "first_milliseconds", "null", IN_CLATTN "first_milliseconds is not an object"},
    {CLATTN "first_milliseconds.parts", "7", IN_CLATTN "first_milliseconds.parts is not an object"},
    {CLATTN "first_milliseconds.parts.storing", "-1",
     IN_CLATTN "first_milliseconds.parts.storing is -1, but"},
    {CLATTN "first_milliseconds.cache", "-1", IN_CLATTN "first_milliseconds.cache is -1, but"},
    {CLATTN "ratio.low", "2", IN_CLATTN "ratio is 1, which is not in its interval from 2 to 1"},
    {CLATTN "error", "null", IN_CLATTN "error is null, but the state is 'measured'"},
    {CLATTN "error.ratio", "1.5",
     IN_CLATTN "error is out of its bound, but the state is 'measured'"},
    {CLATTN "error.results", "0", IN_CLATTN "error.results is 0, but must be from 1 to"},
    {CLATTN "gflops", "\"many\"", IN_CLATTN "gflops is not a number"},
    {CLATTN "configuration", "7", IN_CLATTN "configuration is not a text"},
};

static bool parse(const json_t *document, struct run_results *results, struct message *why)
{
    char *text = json_dumps(document, JSON_ENCODE_ANY);
    const bool ok = results_parse("a.json", text, strlen(text), results, why);

    free(text);
    return ok;
}

Test(broken_results, what_is_wrong_is_said_with_its_place) {
    json_t *sound = example_document();
    struct run_results results;
    struct message why;
    char want[256];

    for (size_t n = 0; n < sizeof broken / sizeof *broken; n++) {
        json_t *document = json_deep_copy(sound);
        set_value(document, broken[n].where, broken[n].value);
        cr_assert(not(parse(document, &results, &why)), "'%s' is taken", broken[n].says);
        snprintf(want, sizeof want, "a.json: %s", broken[n].says);
        cr_assert(strncmp(why.text, want, strlen(want)) == 0, "'%s', not '%s'", why.text, want);
        cr_assert(eq(ptr, results.devices, NULL));
        cr_assert(eq(sz, results.count, 0));
        json_decref(document);
    }
    json_decref(sound);
}

Test(broken_results, what_is_not_json_is_said_with_its_line) {
    static const struct {
        const char *text, *says;
    } files[] = {
        {"", "line 1 is not JSON: "},
        {"{\n\"schema\": \"clattn-bench-run-2\",\n", "line 3 is not JSON: "},
        {"{\"schema\": 1e999}", "line 1 is not JSON: real number overflow"},
        {"{\"schema\": \"a\", \"schema\": \"b\"}",
         "line 1 is not JSON: the member schema is there twice"},
        {"{\"schema\": \"a\\u0000b\"}", "line 1 is not JSON: a text holds the character 0"},
        {"{\"schema\": \"\xff\"}", "line 1 is not JSON: a text is not UTF-8"},
        {"[]", "the document is not an object"},
        {"{}", "schema is missing"},
    };
    struct run_results results;
    struct message why;
    char want[256];

    for (size_t n = 0; n < sizeof files / sizeof *files; n++) {
        scratch_write(run_path(), files[n].text);
        cr_assert(not(results_read(run_path(), &results, &why)), "%s", files[n].text);
        snprintf(want, sizeof want, "%s: %s", run_path(), files[n].says);
        cr_assert(strncmp(why.text, want, strlen(want)) == 0, "'%s', not '%s'", why.text, want);
    }
    char *deep = malloc(100001);
    memset(deep, '[', 100000);
    deep[100000] = '\0';
    scratch_write(run_path(), deep);
    free(deep);
    cr_assert(not(results_read(run_path(), &results, &why)));
    cr_assert(strstr(why.text, "deep") != NULL, "%s", why.text);
    cr_assert(not(results_read(scratch, &results, &why)));
    snprintf(want, sizeof want, "%s: cannot be read: Is a directory", scratch);
    check_text(why.text, want);
    cr_assert(not(results_read("/nonexistent", &results, &why)));
    check_text(why.text, "/nonexistent: cannot be read: No such file or directory");
}

Test(broken_results, a_terminal_is_not_told_what_to_do) {
    json_t *document = example_document();
    struct run_results results;
    struct message why;

    set_value(document, RUN "device.name", "\"a\\u001b[31mb\"");
    set_value(document, RECORD "problem", "\"fwd\\u009b31m\"");
    cr_assert(parse(document, &results, &why), "%s", why.text);
    check_text(results.devices[0].info.name, "a?[31mb");
    cr_assert(strncmp(results.devices[0].records[0].problem, "fwd?", 4) == 0);
    json_decref(document);
    results_free(&results);
}

Test(broken_results, what_a_newer_program_adds_is_passed_over) {
    json_t *document = example_document();
    struct run_results results;
    struct message why;

    set_value(document, "weather", "\"fine\"");
    set_value(document, CLATTN "joules", "[1, 2]");
    cr_assert(parse(document, &results, &why), "%s", why.text);
    json_decref(document);
    results_free(&results);
}
