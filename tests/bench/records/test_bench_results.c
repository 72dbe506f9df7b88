/* SPDX-License-Identifier: Apache-2.0 */
/* Results of runs: written and read again. */
#define _XOPEN_SOURCE 700 /* mkdir, symlink */
#include "bench/records/results.h"
#include "tests/bench/run_example.h"
#include "tests/support/programs/program.h"
#include "tests/support/programs/scratch.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/redirect.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(bench_results, .init = scratch_open, .fini = scratch_close);

static void check_number(double got, double want)
{
    const bool same = isfinite(want) ? fabs(got - want) <= 1e-7 * fabs(want)
                                     : !isnan(got) == !isnan(want) && !isinf(got) == !isinf(want);

    cr_assert(same, "%.12g, not %.12g", got, want);
}

/* Numbers that follow from rounded samples differ in their eighth digit. */
static void check_json(const char *key, const json_t *got, const json_t *want)
{
    const char *name;
    json_t *member;
    size_t n;

    cr_assert(eq(int, json_typeof(got), json_typeof(want)), "%s", key);
    if (json_is_object(want)) {
        cr_assert(eq(sz, json_object_size(got), json_object_size(want)), "%s", key);
        json_object_foreach((json_t *)want, name, member)
            check_json(name, json_object_get(got, name), member);
    } else if (json_is_array(want)) {
        cr_assert(eq(sz, json_array_size(got), json_array_size(want)), "%s", key);
        json_array_foreach((json_t *)want, n, member)
            check_json(key, json_array_get(got, n), member);
    } else if (json_is_real(want)) {
        check_number(json_real_value(got), json_real_value(want));
    } else {
        cr_assert(json_equal(got, want), "%s", key);
    }
}

static const char kept[] = TEST_DATA "/bench_run.json";

static void check_written(void)
{
    json_t *want = json_file(kept), *got = json_file(run_path());

    check_json("", got, want);
    json_decref(want);
    json_decref(got);
}

Test(bench_results, what_is_written_is_the_file_that_is_kept) {
    json_decref(example_document());
    check_written();
}

Test(bench_results, what_is_read_is_written_again) {
    struct run_results results;

    read_run(kept, &results);
    check_text(results.path, kept);
    cr_assert(isnan(results.devices[1].load[0])); /* nobody set it */
    write_run(run_path(), &results);
    results_free(&results);
    check_written();
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

/* Writes a run by two ranks whose problem grows with their number. */
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
    write_run(run_path(), &results);
    results_free(&results);
}

Test(bench_results, what_ranks_did_is_read_again) {
    struct run_results got;

    write_ranks();
    read_run(run_path(), &got);
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
    json_t *document = json_load_file(run_path(), 0, NULL);
    json_object_del(entry_of_ranks(document), "host_milliseconds");
    json_object_del(entry_of_ranks(document), "queries");
    cr_assert(eq(int, json_dump_file(document, run_path(), 0), 0));
    read_run(run_path(), &got);
    check_number(got.devices[0].records[0].outcome[1].distributed->spent[1].host, 0.0);
    results_free(&got);
    json_array_remove(json_object_get(entry_of_ranks(document), "waiting_milliseconds"), 0);
    cr_assert(eq(int, json_dump_file(document, run_path(), 0), 0));
    cr_assert(eq(int, results_read(run_path(), &got, &why), false));
    cr_assert(strstr(why.text, "waiting_milliseconds") != NULL, "%s", why.text);
    json_object_del(entry_of_ranks(document), "waiting_milliseconds");
    cr_assert(eq(int, json_dump_file(document, run_path(), 0), 0));
    cr_assert(eq(int, results_read(run_path(), &got, &why), false));
    json_decref(document);
}

Test(bench_results, a_run_begins_here_and_now) {
    struct run_results results, got;

    results_begin(&results);
    cr_assert(gt(uint, results.processors, 0));
    cr_assert(results.processor[0] != '\0');
    check_text(results.clattn, clattn_version_string());
    write_run(run_path(), &results); /* reading checks the date */
    read_run(run_path(), &got);
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
    write_run(run_path(), &results);
    read_run(run_path(), &got);
    check_text(got.devices[0].info.name, "Ger\xc3\xa4t ??");
    check_text(got.devices[0].info.platform_name, "pl?[31matform");
    results_free(&got);
    results_free(&results);
}

Test(bench_results, a_file_is_replaced_at_once_and_other_things_are_written_through) {
    struct run_results results, got;
    struct message why;
    struct stat status;
    char other[SCRATCH_BYTES + 16];

    example_full(&results);
    scratch_write(run_path(), "what was here");
    write_run(run_path(), &results);
    read_run(run_path(), &got);
    results_free(&got);
    cr_assert(eq(int, rmdir(scratch), -1));
    cr_assert(eq(int, remove(run_path()), 0)); /* and nothing else is left */
    cr_assert(eq(int, rmdir(scratch), 0));
    cr_assert(eq(int, mkdir(scratch, 0700), 0));

    snprintf(other, sizeof other, "%s/link.json", scratch);
    cr_assert(eq(int, symlink(run_path(), other), 0));
    write_run(other, &results);
    cr_assert(eq(int, lstat(other, &status), 0));
    cr_assert(ne(int, S_ISLNK(status.st_mode), 0));
    read_run(run_path(), &got);
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
