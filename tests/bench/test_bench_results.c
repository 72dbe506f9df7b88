/* Results of runs: written, read again, refused where they are not what they should be. */
#define _XOPEN_SOURCE 700 /* mkdtemp, nftw, symlink */
#include "bench/records/results.h"
#include "tests/bench/run_example.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/redirect.h>
#include <ftw.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[96];

static int remove_entry(const char *entry, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(entry);
}

static void make_folder(void)
{
    strcpy(folder, "/tmp/clattn_results_XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/run.json", folder);
}

static void remove_folder(void)
{
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(bench_results, .init = make_folder, .fini = remove_folder);

static void write_run(const char *to, const struct run_results *results)
{
    struct message why;

    cr_assert(results_write(to, results, &why), "%s", why.text);
}

static void read_run(const char *from, struct run_results *results)
{
    struct message why;

    cr_assert(results_read(from, results, &why), "%s", why.text);
}

static void write_text(const char *to, const char *text)
{
    FILE *stream = fopen(to, "w");

    cr_assert(stream != NULL);
    fputs(text, stream);
    cr_assert(eq(int, fclose(stream), 0));
}

/* To be freed. */
static char *read_text(const char *from, size_t *length)
{
    FILE *stream = fopen(from, "r");

    cr_assert(stream != NULL);
    char *text = malloc(1 << 20);
    *length = fread(text, 1, (1 << 20) - 1, stream);
    text[*length] = '\0';
    fclose(stream);
    return text;
}

static void check_number(double got, double want)
{
    const bool same = isfinite(want) ? fabs(got - want) <= 1e-8 * fabs(want)
                                     : !isnan(got) == !isnan(want) && !isinf(got) == !isinf(want);

    cr_assert(same, "%.12g, not %.12g", got, want);
}

static void check_text(const char *got, const char *want)
{
    cr_assert(eq(int, got == NULL, want == NULL));
    if (want != NULL)
        cr_assert(eq(str, (char *)got, (char *)want));
}

static void check_samples(const struct samples *got, const struct samples *want)
{
    cr_assert(eq(sz, got->count, want->count));
    for (size_t n = 0; n < want->count; n++)
        check_number(got->value[n], want->value[n]);
}

static void check_outcome(const struct outcome *got, const struct outcome *want)
{
    check_text(got->implementation, want->implementation);
    cr_assert(eq(int, got->state, want->state));
    check_text(got->why.text, want->why.text);
    check_text(got->configuration, want->configuration);
    check_samples(&got->seconds, &want->seconds);
    check_samples(&got->host, &want->host);
    check_number(got->cold_start_source, want->cold_start_source);
    check_number(got->cold_start_cache, want->cold_start_cache);
    for (size_t n = 0; n < COLD_START_PARTS; n++)
        check_number(got->cold_start_parts.seconds[n], want->cold_start_parts.seconds[n]);
    check_number(got->ratio.low, want->seconds.count > 0 ? want->ratio.low : 0.0);
    check_number(got->ratio.middle, want->seconds.count > 0 ? want->ratio.middle : 0.0);
    check_number(got->ratio.high, want->seconds.count > 0 ? want->ratio.high : 0.0);
    cr_assert(eq(sz, got->worst.results, want->worst.results));
    if (want->worst.results > 0) {
        check_number(got->worst.error, want->worst.error);
        check_number(got->worst.bound, want->worst.bound);
        check_number(got->worst.ratio, want->worst.ratio);
    }
}

static void check_record(const struct record *got, const struct record *want)
{
    check_text(got->name, want->name);
    check_text(got->problem, want->problem);
    check_text(got->reason, want->reason);
    check_text(got->against, want->against);
    cr_assert(eq(sz, got->workspace_bytes, want->workspace_bytes));
    cr_assert(eq(sz, got->copies, want->copies));
    cr_assert(eq(dbl, got->flops, want->flops));
    cr_assert(eq(dbl, got->bytes, want->bytes));
    cr_assert(eq(int, got->roof, want->roof));
    check_samples(&got->share, &want->share);
    cr_assert(eq(sz, got->count, want->count));
    for (size_t n = 0; n < want->count; n++)
        check_outcome(&got->outcome[n], &want->outcome[n]);
}

static void check_device(const struct device_run *got, const struct device_run *want)
{
    cr_assert(memcmp(&got->info, &want->info, sizeof got->info) == 0);
    cr_assert(eq(sz, got->index, want->index));
    cr_assert(eq(int, got->interrupted, want->interrupted));
    check_text(got->failed.text, want->failed.text);
    for (size_t n = 0; n < 3; n++)
        check_number(got->load[n], want->load[n]);
    for (int kind = 0; kind < NUM_PEAK_KINDS; kind++) {
        check_samples(&got->peaks.fma[kind], &want->peaks.fma[kind]);
        check_text(got->peaks.form[kind], want->peaks.form[kind]);
    }
    check_samples(&got->peaks.read, &want->peaks.read);
    check_samples(&got->peaks.copy, &want->peaks.copy);
    cr_assert(eq(int, got->peaks.exceeded, want->peaks.exceeded));
    cr_assert(eq(sz, got->num_peers, want->num_peers));
    for (size_t n = 0; n < want->num_peers; n++) {
        check_text(got->peer[n].name, want->peer[n].name);
        check_text(got->peer[n].version, want->peer[n].version);
        check_text(got->peer[n].method, want->peer[n].method);
        check_text(got->peer[n].missing.text, want->peer[n].missing.text);
    }
    cr_assert(eq(sz, got->count, want->count));
    for (size_t n = 0; n < want->count; n++)
        check_record(&got->records[n], &want->records[n]);
}

Test(bench_results, what_is_written_is_read_again) {
    struct run_results want, got, again;
    size_t length, length_again;
    char second[96];

    example_full(&want);
    want.devices[0].peaks.exceeded = true;
    write_run(path, &want);
    read_run(path, &got);
    check_text(got.path, path);
    check_text(got.date, want.date);
    check_text(got.clattn, want.clattn);
    check_text(got.processor, want.processor);
    check_text(got.system, want.system);
    cr_assert(eq(uint, got.processors, want.processors));
    cr_assert(eq(sz, got.count, want.count));
    for (size_t n = 0; n < want.count; n++)
        check_device(&got.devices[n], &want.devices[n]);

    cr_assert(isnan(got.devices[1].load[0])); /* nobody set it */

    /* From here on nothing is rounded any more. */
    snprintf(second, sizeof second, "%s/second.json", folder);
    write_run(path, &got);
    read_run(path, &again);
    write_run(second, &again);
    char *text = read_text(path, &length), *text_again = read_text(second, &length_again);
    cr_assert(eq(str, text_again, text));
    free(text);
    free(text_again);
    results_free(&want);
    results_free(&got);
    results_free(&again);
}

/* The entry of JSON of the only outcome. */
static json_t *entry_of_ranks(json_t *document)
{
    const json_t *device = json_array_get(json_object_get(document, "devices"), 0);
    const json_t *record = json_array_get(json_object_get(device, "results"), 0);
    json_t *entry =
        json_object_get(json_array_get(json_object_get(record, "implementations"), 1), "mpi");

    cr_assert(entry != NULL, "there is no entry");
    return entry;
}

/* Of two ranks, weak. */
static void write_ranks(void)
{
    struct run_results results;
    struct rng random = rng_seed(1);

    example_begin(&results);
    struct record *record =
        example_record(example_device(&results, "device", "platform"), "", "fwd f32 q4 d8");
    example_outcome(record, "clattn", 1.0, 0.0, 3, &random);
    struct outcome *outcome = example_outcome(record, "clattn weak ring", 1.0, 0.0, 3, &random);
    example_ranks(outcome, "ring", 2, 0.75);
    outcome->distributed->weak = true;
    write_run(path, &results);
    results_free(&results);
}

Test(bench_results, what_ranks_did_is_read_again) {
    struct run_results got;

    write_ranks();
    read_run(path, &got);
    const struct distributed *d = got.devices[0].records[0].outcome[1].distributed;
    cr_assert(d != NULL);
    check_text(d->mode, "ring");
    check_text(d->problem, "fwd f32 q8 d8");
    cr_assert(eq(sz, d->heads_ranks, 1));
    cr_assert(d->weak, "of weak scaling");
    check_number(d->flops, 2e9);
    check_number(d->bytes, 2e6);
    check_number(d->predicted, 0.5);
    check_number(d->bytes_sent, 1e3);
    check_number(d->efficiency.middle, 0.75);
    cr_assert(eq(sz, d->ranks, 2));
    for (size_t n = 0; n < d->ranks; n++) {
        check_number(d->spent[n].computing, 1e-3 * (double)(n + 1));
        check_number(d->spent[n].waiting, 2e-3);
        check_number(d->spent[n].transfer, 3e-3);
        check_number(d->spent[n].host, 4e-3);
        check_number(d->spent[n].queries, 100.0 * (double)(n + 1));
    }
    results_free(&got);
}

/* Older files have neither the host's time nor shards; all lists have a number for each rank. */
Test(bench_results, lists_of_ranks_may_be_missing_but_not_short) {
    struct run_results got;
    struct message why;

    write_ranks();
    json_t *document = json_load_file(path, 0, NULL);
    json_object_del(entry_of_ranks(document), "host_milliseconds");
    json_object_del(entry_of_ranks(document), "queries");
    cr_assert(eq(int, json_dump_file(document, path, 0), 0));
    read_run(path, &got);
    check_number(got.devices[0].records[0].outcome[1].distributed->spent[1].host, 0.0);
    results_free(&got);
    json_array_remove(json_object_get(entry_of_ranks(document), "waiting_milliseconds"), 0);
    cr_assert(eq(int, json_dump_file(document, path, 0), 0));
    cr_assert(eq(int, results_read(path, &got, &why), false));
    cr_assert(strstr(why.text, "waiting_milliseconds") != NULL, "%s", why.text);
    json_object_del(entry_of_ranks(document), "waiting_milliseconds");
    cr_assert(eq(int, json_dump_file(document, path, 0), 0));
    cr_assert(eq(int, results_read(path, &got, &why), false));
    json_decref(document);
}

Test(bench_results, a_run_begins_here_and_now) {
    struct run_results results, got;

    results_begin(&results);
    cr_assert(gt(uint, results.processors, 0));
    cr_assert(results.processor[0] != '\0');
    check_text(results.clattn, clattn_version_string());
    write_run(path, &results); /* reading checks the date */
    read_run(path, &got);
    check_text(got.processor, results.processor);
    results_free(&got);
    results_free(&results);
}

Test(bench_results, noise_is_half_the_usual_interval) {
    struct run_results results;
    struct rng random = rng_seed(1);

    example_begin(&results);
    struct device_run *run = example_device(&results, "device", "platform");
    cr_assert(eq(dbl, device_run_noise(run), 0.0));
    static const double spread[] = {0.01, 0.5, 0.02};
    for (size_t n = 0; n < 3; n++) {
        struct record *record = example_record(run, "", "fwd f32 q1 d8");
        struct outcome *outcome = example_outcome(record, "clattn", 1.0, 0.0, 3, &random);
        outcome->seconds.value[0] -= spread[n];
        outcome->seconds.value[2] += spread[n];
        example_outcome(record, "clattn untuned", 0.0, 0.0, 0, &random);
    }
    check_number(device_run_noise(run), 0.02);
    results_free(&results);
}

/* Drivers have been seen to cut their names within a character. */
Test(bench_results, a_name_that_is_not_utf8_costs_no_results) {
    struct run_results results, got;

    example_begin(&results);
    example_device(&results, "Ger\xc3\xa4t \xe2\x84", "pl\033[31matform");
    write_run(path, &results);
    read_run(path, &got);
    check_text(got.devices[0].info.name, "Ger\xc3\xa4t ??");
    check_text(got.devices[0].info.platform_name, "pl?[31matform");
    results_free(&got);
    results_free(&results);
}

Test(bench_results, a_file_is_replaced_at_once_and_other_things_are_written_through) {
    struct run_results results, got;
    struct message why;
    struct stat status;
    char other[96];

    example_full(&results);
    write_text(path, "what was here");
    write_run(path, &results);
    read_run(path, &got);
    results_free(&got);
    cr_assert(eq(int, rmdir(folder), -1));
    cr_assert(eq(int, remove(path), 0)); /* and nothing else is left */
    cr_assert(eq(int, rmdir(folder), 0));
    cr_assert(eq(int, mkdir(folder, 0700), 0));

    snprintf(other, sizeof other, "%s/link.json", folder);
    cr_assert(eq(int, symlink(path, other), 0));
    write_run(other, &results);
    cr_assert(eq(int, lstat(other, &status), 0));
    cr_assert(ne(int, S_ISLNK(status.st_mode), 0));
    read_run(path, &got);
    results_free(&got);

    write_run("/dev/null", &results);
    cr_assert(eq(int, lstat("/dev/null", &status), 0));
    cr_assert(ne(int, S_ISCHR(status.st_mode), 0));
    cr_assert(not(results_write("/dev/full", &results, &why)));
    check_text(why.text, "/dev/full: the results cannot be written: No space left on device");
    cr_assert(not(results_write("/nonexistent/run.json", &results, &why)));
    check_text(why.text,
               "/nonexistent/run.json: the results cannot be written: No such file or directory");
    results_free(&results);
}

Test(bench_results, a_dash_is_standard_output, .init = cr_redirect_stdout) {
    struct run_results results;
    char text[64] = "";

    example_begin(&results);
    write_run("-", &results);
    cr_assert(gt(sz, fread(text, 1, sizeof text - 1, cr_get_redirected_stdout()), 0));
    cr_assert(strncmp(text, "{\n \"schema\": \"clattn-bench-run-2\",", 34) == 0, "%s", text);
    results_free(&results);
}

/* ---- broken files ---- */

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

Test(bench_results, what_is_wrong_is_said_with_its_place) {
    struct run_results results;
    struct message why;
    char want[256];

    example_full(&results);
    write_run(path, &results);
    results_free(&results);
    for (size_t n = 0; n < sizeof broken / sizeof *broken; n++) {
        json_t *document = json_load_file(path, 0, NULL);
        set_value(document, broken[n].where, broken[n].value);
        cr_assert(not(results_from_json("a.json", document, &results, &why)), "'%s' is taken",
                  broken[n].says);
        snprintf(want, sizeof want, "a.json: %s", broken[n].says);
        cr_assert(strncmp(why.text, want, strlen(want)) == 0, "'%s', not '%s'", why.text, want);
        cr_assert(eq(ptr, results.devices, NULL));
        cr_assert(eq(sz, results.count, 0));
        json_decref(document);
    }
}

Test(bench_results, what_is_not_json_is_said_with_its_line) {
    static const struct {
        const char *text, *says;
    } files[] = {
        {"", "line 1 is not JSON: "},
        {"{\n\"schema\": \"clattn-bench-run-2\",\n", "line 3 is not JSON: "},
        {"{\"schema\": 1e999}", "line 1 is not JSON: real number overflow"},
        {"{\"schema\": \"a\", \"schema\": \"b\"}", "line 1 is not JSON: duplicate object key"},
        {"{\"schema\": \"a\\u0000b\"}", "line 1 is not JSON: \\u0000 is not allowed"},
        {"{\"schema\": \"\xff\"}", "line 1 is not JSON: unable to decode byte 0xff"},
        {"[]", "the document is not an object"},
        {"{}", "schema is missing"},
    };
    struct run_results results;
    struct message why;
    char want[256];

    for (size_t n = 0; n < sizeof files / sizeof *files; n++) {
        write_text(path, files[n].text);
        cr_assert(not(results_read(path, &results, &why)), "%s", files[n].text);
        snprintf(want, sizeof want, "%s: %s", path, files[n].says);
        cr_assert(strncmp(why.text, want, strlen(want)) == 0, "'%s', not '%s'", why.text, want);
    }
    char *deep = malloc(100001);
    memset(deep, '[', 100000);
    deep[100000] = '\0';
    write_text(path, deep);
    free(deep);
    cr_assert(not(results_read(path, &results, &why)));
    cr_assert(strstr(why.text, "depth") != NULL, "%s", why.text);
    cr_assert(not(results_read(folder, &results, &why)));
    snprintf(want, sizeof want, "%s: cannot be read: Is a directory", folder);
    check_text(why.text, want);
    cr_assert(not(results_read("/nonexistent", &results, &why)));
    check_text(why.text, "/nonexistent: cannot be read: No such file or directory");
}

Test(bench_results, a_terminal_is_not_told_what_to_do) {
    struct run_results results;
    struct message why;

    example_full(&results);
    write_run(path, &results);
    results_free(&results);
    json_t *document = json_load_file(path, 0, NULL);
    set_value(document, RUN "device.name", "\"a\\u001b[31mb\"");
    set_value(document, RECORD "problem", "\"fwd\\u009b31m\"");
    cr_assert(results_from_json("a.json", document, &results, &why), "%s", why.text);
    check_text(results.devices[0].info.name, "a?[31mb");
    cr_assert(strncmp(results.devices[0].records[0].problem, "fwd?", 4) == 0);
    json_decref(document);
    results_free(&results);
}

Test(bench_results, what_a_newer_program_adds_is_passed_over) {
    struct run_results results;
    struct message why;

    example_full(&results);
    write_run(path, &results);
    results_free(&results);
    json_t *document = json_load_file(path, 0, NULL);
    set_value(document, "weather", "\"fine\"");
    set_value(document, CLATTN "joules", "[1, 2]");
    cr_assert(results_from_json("a.json", document, &results, &why), "%s", why.text);
    json_decref(document);
    results_free(&results);
}

/* Cuts, exchanges or doubles a few bytes; the new length. */
static size_t mutate(char *text, size_t length, struct rng *random)
{
    static const char interesting[] = "\"\\{}[],:0-9eE.ntf \x01\xff";

    for (size_t times = 1 + rng_below(random, 3); times > 0 && length > 1; times--) {
        const size_t at = rng_below(random, length), rest = length - at;
        switch (rng_below(random, 4)) {
        case 0:
            text[at] = interesting[rng_below(random, sizeof interesting - 1)];
            break;
        case 1:
            text[at] = (char)('0' + (int)rng_below(random, 10));
            break;
        case 2: { /* leave some out */
            const size_t less = rng_below(random, rest < 40 ? rest : 40);
            memmove(text + at, text + at + less, rest - less);
            length -= less;
            break;
        }
        default:
            if (rng_one_in(random, 8))
                length = at;
            else /* what stands elsewhere */
                memcpy(text + at, text + rng_below(random, length - rest / 2),
                       rest / 2 < 8 ? 0 : 1);
        }
    }
    return length;
}

Test(bench_results, whatever_the_bytes_are_reading_ends_well) {
    struct rng random = rng_seed(11);
    struct run_results results;
    struct message why;
    size_t length, read = 0, refused = 0;

    example_full(&results);
    write_run(path, &results);
    results_free(&results);
    char *text = read_text(path, &length), *changed = malloc(length);
    for (size_t n = 0; n < 4000; n++) {
        memcpy(changed, text, length);
        const size_t left = mutate(changed, length, &random);
        json_t *document = json_loadb(changed, left, JSON_REJECT_DUPLICATES, NULL);
        if (document == NULL)
            continue;
        why.text[0] = '\0';
        if (results_from_json("changed", document, &results, &why)) {
            read++;
            results_free(&results);
        } else {
            refused++;
            cr_assert(why.text[0] != '\0');
        }
        json_decref(document);
    }
    cr_assert(gt(sz, read, 100)); /* or nothing was tried */
    cr_assert(gt(sz, refused, 100));
    free(text);
    free(changed);
}
