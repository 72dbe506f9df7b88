/* SPDX-License-Identifier: Apache-2.0 */
/* Results of several devices as comma-separated values. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "bench/records/csv.h"
#include "tests/bench/run_example.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POCL "Portable Computing Language"

static struct outcome *solve(struct device_run *run, const char *name, const char *problem,
                             double seconds)
{
    struct rng random = rng_seed(1);

    return example_outcome(example_record(run, name, problem), "clattn", seconds, 0.0, 7, &random);
}

/* Beside the last problem. */
static struct outcome *compare(struct device_run *run, const char *peer, double seconds)
{
    struct rng random = rng_seed(1);

    return example_outcome(&run->records[run->count - 1], peer, seconds, 0.0, 7, &random);
}

enum { FIELDS = 29, FIELD = 160 };

struct table {
    char field[4][FIELDS][FIELD];
    size_t rows;
};

/* Reads what RFC 4180 describes, and nothing more. */
static void parse(const char *text, struct table *table)
{
    memset(table, 0, sizeof *table);
    while (*text != '\0') {
        size_t field = 0;
        cr_assert(lt(sz, table->rows, 4));
        for (bool more = true; more; field++) {
            cr_assert(lt(sz, field, FIELDS), "row %zu has more fields than the header",
                      table->rows);
            char *out = table->field[table->rows][field];
            const bool quoted = *text == '"';
            for (text += quoted;
                 quoted ? *text != '"' || text[1] == '"' : *text != ',' && *text != '\r'; text++) {
                text += quoted && *text == '"';
                const bool legal = *text != '\0' && (quoted || strchr("\"\n", *text) == NULL);
                cr_assert(legal, "row %zu, field %zu", table->rows, field);
                *out++ = *text;
            }
            text += quoted;
            more = *text == ',';
            text += more;
        }
        cr_assert(eq(sz, field, FIELDS), "row %zu", table->rows);
        cr_assert(strncmp(text, "\r\n", 2) == 0, "row %zu ends in '%.3s'", table->rows, text);
        text += 2;
        table->rows++;
    }
}

static void write_and_parse(const struct run_results *results, struct table *table)
{
    char path[] = "/tmp/clattn-csv-XXXXXX", text[8192];
    struct message why;

    close(mkstemp(path));
    cr_assert(csv_write(path, results, &why), "%s", why.text);
    FILE *file = fopen(path, "rb");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    remove(path);
    parse(text, table);
}

/* The field below a name in the header. */
static const char *field(const struct table *table, size_t row, const char *name)
{
    for (size_t n = 0; n < FIELDS; n++)
        if (strcmp(table->field[0][n], name) == 0)
            return table->field[row][n];
    cr_assert(false, "there is no %s", name);
    return NULL;
}

static void check_field(const struct table *table, size_t row, const char *name, const char *want)
{
    const char *got = field(table, row, name);

    cr_expect(strcmp(got, want) == 0, "row %zu: %s is '%s', not '%s'", row, name, got, want);
}

static void check_number(const struct table *table, size_t row, const char *name, double want)
{
    const char *got = field(table, row, name);

    cr_expect(got[0] != '\0' && fabs(atof(got) - want) <= 1e-6 * fabs(want),
              "row %zu: %s is '%s', not %g", row, name, got, want);
}

Test(csv, rows_of_a_run) {
    static const char *const unknown[] = {"median_ms",       "low_ms",     "high_ms",   "min_ms",
                                          "gflops",          "share",      "ratio_low", "host_us",
                                          "first_source_ms", "error_ratio"};
    struct run_results results;
    struct table table;

    example_begin(&results);
    struct device_run *run = example_device(&results, "basic", POCL);
    strcpy(run->peer[0].name, "CLBlast");
    strcpy(run->peer[0].version, "1.5.3");
    run->num_peers = 1;
    struct outcome *outcome = solve(run, "bert", "fwd f32 q512 d64", 2e-3);
    run->records[0].copies = 3;
    run->records[0].workspace_bytes = 4096;
    samples_add(&outcome->host, 12e-6);
    outcome->cold_start_source = 0.75;
    compare(run, "CLBlast", 5e-3)->ratio = (struct ca_interval){2.5, 2.25, 2.75};
    outcome = compare(run, "OpenBLAS", 1e-3);
    outcome_give_up(outcome, OUTCOME_UNSUPPORTED, "it has no f16");
    outcome->worst.results = 0;
    write_and_parse(&results, &table);

    cr_assert(eq(sz, table.rows, 4));
    check_field(&table, 1, "date", "2026-11-21T09:30:00Z");
    check_field(&table, 1, "platform", POCL);
    check_field(&table, 1, "implementation", "clattn");
    check_field(&table, 1, "version", "0.1.0");
    check_field(&table, 1, "state", "measured");
    check_field(&table, 1, "configuration", "unfused TILE_Q=8");
    check_field(&table, 1, "roof", "fma");
    check_field(&table, 1, "copies", "3");
    check_field(&table, 1, "workspace_bytes", "4096");
    check_field(&table, 1, "first_cache_ms", "");
    check_number(&table, 1, "first_source_ms", 750.0);
    check_number(&table, 1, "median_ms", 2.0);
    check_number(&table, 1, "min_ms", 2.0);
    check_number(&table, 1, "host_us", 12.0);
    check_number(&table, 1, "gflops", 500.0);
    check_number(&table, 1, "gbytes", 0.5);
    check_number(&table, 1, "share", 1.0);
    check_number(&table, 1, "error_ratio", 0.01);
    check_field(&table, 2, "implementation", "CLBlast");
    check_field(&table, 2, "version", "1.5.3");
    check_field(&table, 2, "workspace_bytes", "");
    check_number(&table, 2, "ratio_low", 2.25);
    check_number(&table, 2, "ratio_high", 2.75);
    check_number(&table, 2, "share", 0.4);
    check_field(&table, 3, "state", "unsupported");
    check_field(&table, 3, "why", "it has no f16");
    for (size_t n = 0; n < sizeof unknown / sizeof *unknown; n++)
        check_field(&table, 3, unknown[n], "");
    results_free(&results);
}

/* Commas, quotes and line ends are kept; formulas and what terminals obey are not. */
Test(csv, hostile_texts) {
    struct run_results results;
    struct table table;

    example_begin(&results);
    struct device_run *run = example_device(&results, "=HYPERLINK(\"x\",\"y\")", "a \"b\", c\r\nd");
    strcpy(run->info.driver_version, "\x1b[2J,");
    solve(run, "@b\"ert", "+1", 1e-3);
    write_and_parse(&results, &table);
    check_field(&table, 1, "device", "'=HYPERLINK(\"x\",\"y\")");
    check_field(&table, 1, "platform", "a \"b\", c\r\nd");
    check_field(&table, 1, "driver", "?[2J,");
    check_field(&table, 1, "workload", "'@b\"ert");
    check_field(&table, 1, "problem", "'+1");
    results_free(&results);
}

Test(csv, place_that_cannot_be_written) {
    struct run_results results;
    struct message why;

    example_begin(&results);
    cr_assert(not(csv_write("/nonexistent/run.csv", &results, &why)));
    cr_expect(strstr(why.text, "/nonexistent/run.csv cannot be written: ") == why.text);
    cr_assert(not(csv_write("/dev/full", &results, &why)));
    cr_expect(strstr(why.text, "No space left") != NULL, "%s", why.text);
    results_free(&results);
}
