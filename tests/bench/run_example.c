/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "tests/bench/run_example.h"
#include "tests/support/programs/scratch.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void example_begin(struct run_results *results)
{
    results_begin(results);
    strcpy(results->date, "2026-11-21T09:30:00Z");
    strcpy(results->clattn, "0.1.0");
    strcpy(results->processor, "A processor");
    strcpy(results->system, "Linux 6.1");
    results->processors = 2;
}

struct device_run *example_device(struct run_results *results, const char *name,
                                  const char *platform)
{
    struct device_run *run = results_add(results);

    cr_assert(run != NULL);
    run->index = results->count - 1;
    run->info.type = CL_DEVICE_TYPE_CPU;
    run->info.compute_units = 2;
    snprintf(run->info.name, sizeof run->info.name, "%s", name);
    snprintf(run->info.platform_name, sizeof run->info.platform_name, "%s", platform);
    strcpy(run->info.driver_version, "3.1");
    samples_add(&run->peaks.fma[PEAK_F32], 500.0);
    samples_add(&run->peaks.read, 20.0);
    samples_add(&run->peaks.copy, 22.0);
    strcpy(run->peaks.form[PEAK_F32], "fma, 16 lanes, 12 chains");
    return run;
}

struct record *example_record(struct device_run *run, const char *name, const char *problem)
{
    run->records = realloc(run->records, (run->count + 1) * sizeof *run->records);
    cr_assert(run->records != NULL);
    struct record *record = &run->records[run->count++];
    memset(record, 0, sizeof *record);
    snprintf(record->name, sizeof record->name, "%s", name);
    record->problem = strdup(problem);
    record->reason = strdup("untuned: the default");
    record->flops = 1e9;
    record->bytes = 1e6;
    record->copies = 1;
    record->overhead = NAN;
    record->roof = ROOF_FMA;
    return record;
}

struct outcome *example_outcome(struct record *record, const char *implementation, double seconds,
                                double noise, size_t samples, struct rng *random)
{
    struct outcome *outcome = &record->outcome[record->count++];

    snprintf(outcome->implementation, sizeof outcome->implementation, "%s", implementation);
    outcome->configuration = strdup("unfused TILE_Q=8");
    outcome->cold_start_source = NAN;
    outcome->cold_start_cache = NAN;
    outcome->worst = (struct worst){.error = 1e-7, .bound = 1e-5, .ratio = 1e-2, .results = 64};
    for (size_t n = 0; n < samples; n++) {
        samples_add(&outcome->seconds, seconds * (1.0 + rng_uniform(random, -noise, noise)));
        if (strcmp(implementation, "clattn") == 0)
            samples_add(&record->share, record->flops / outcome->seconds.value[n] * 1e-9 / 500.0);
    }
    outcome->ratio = ca_paired_ratio(outcome->seconds.value, record->outcome[0].seconds.value,
                                     record->outcome[0].seconds.count);
    return outcome;
}

struct outcome *example_solved(struct device_run *run, const char *name, const char *problem,
                               double seconds)
{
    static struct rng random = {5};

    return example_outcome(example_record(run, name, problem), "clattn", seconds, 0.01, 9, &random);
}

void example_ranks(struct outcome *outcome, const char *mode, size_t ranks, double efficiency)
{
    struct distributed *d = distributed_new(ranks);

    cr_assert(d != NULL);
    snprintf(d->mode, sizeof d->mode, "%s", mode);
    d->problem = strdup("fwd f32 q8 d8");
    d->heads_ranks = 1;
    d->flops = 2e9;
    d->bytes = 2e6;
    d->predicted = 0.5;
    d->bytes_sent = 1e3;
    d->efficiency = (struct ca_interval){efficiency, efficiency, efficiency};
    for (size_t n = 0; n < ranks; n++)
        d->spent[n] =
            (struct spent){1e-3 * (double)(n + 1), 2e-3, 3e-3, 4e-3, 100.0 * (double)(n + 1)};
    outcome->distributed = d;
}

static void add_peer(struct device_run *run, const char *name, const char *missing)
{
    struct peer_note *peer = &run->peer[run->num_peers++];

    strcpy(peer->name, name);
    if (missing != NULL) {
        strcpy(peer->missing.text, missing);
    } else {
        strcpy(peer->version, "1.5.3");
        strcpy(peer->method, "GemmStridedBatched, softmax, GemmStridedBatched");
    }
}

static void fill_first_record(struct record *record, struct rng *random)
{
    struct outcome *outcome = example_outcome(record, "clattn", 1.23456e-3, 0.05, 7, random);

    samples_add(&outcome->host, 2.5e-6);
    samples_add(&outcome->host, 3.0e-6);
    outcome->cold_start_source = 0.75;
    outcome->cold_start_cache = 0.01;
    outcome->cold_start_parts = (struct cold_start_parts){{0.25, 0.375, 0.0, 0.125}};
    example_outcome(record, "clattn untuned", 2e-3, 0.05, 7, random);
    outcome = example_outcome(record, "CLBlast", 5e-3, 0.05, 7, random);
    outcome->state = OUTCOME_LOOSE;
    outcome->worst.ratio = 20.0;
    strcpy(outcome->why.text, "computes in half precision");
    outcome = example_outcome(record, "OpenBLAS", 0.0, 0.0, 0, random);
    outcome_give_up(outcome, OUTCOME_UNSUPPORTED, "OpenBLAS has no %s", "f16");
    outcome->worst.results = 0;
    free(outcome->configuration);
    outcome->configuration = NULL;
    record->copies = 3;
    record->workspace_bytes = 4096;
}

void example_full(struct run_results *results)
{
    struct rng random = rng_seed(7);

    example_begin(results);
    struct device_run *run = example_device(results, "A \"device\" of \xc2\xb5s", "Platform");
    samples_add(&run->peaks.fma[PEAK_BF16], 990.0);
    strcpy(run->peaks.form[PEAK_BF16], "dot_pairs, 16 lanes, 12 chains");
    samples_add(&run->peaks.fma[PEAK_F16], 1000.0);
    strcpy(run->peaks.form[PEAK_F16], "mad, 32 lanes, 8 chains");
    run->info.fp16 = CL_TRUE;
    run->info.global_memory_bytes = 11771523072;
    run->interrupted = true;
    run->load[0] = 0.5, run->load[1] = 0.25, run->load[2] = 0.0;
    add_peer(run, "CLBlast", NULL);
    add_peer(run, "oneDNN", "it is not there: apt-get install libdnnl-dev");
    fill_first_record(example_record(run, "bert-base", "fwd f32 b1 h12 q512 d64"), &random);

    struct record *record = example_record(run, "", "fwd f16 b1 h8 q1 k4096 d128");
    record->roof = ROOF_READ;
    record->from_file = true;
    struct outcome *outcome = example_outcome(record, "clattn", 1e-3, 0.0, 0, &random);
    outcome_give_up(outcome, OUTCOME_WRONG, "a NaN");
    outcome->worst = (struct worst){.error = NAN, .bound = 1e-5, .ratio = INFINITY, .results = 9};

    run = results_add(results);
    cr_assert(run != NULL);
    run->index = 1;
    strcpy(run->failed.text, "its driver was ended by a segmentation fault");
}

/* ---- in a file -------------------------------------------------------------------------------- */

const char *run_path(void)
{
    return scratch_path("run.json");
}

void write_run(const char *to, const struct run_results *results)
{
    struct message why;

    cr_assert(results_write(to, results, &why), "%s", why.text);
}

void read_run(const char *from, struct run_results *results)
{
    struct message why;

    cr_assert(results_read(from, results, &why), "%s", why.text);
}

void check_text(const char *got, const char *want)
{
    cr_assert(eq(int, got == NULL, want == NULL));
    if (want != NULL)
        cr_assert(eq(str, (char *)got, (char *)want));
}

json_t *example_document(void)
{
    struct run_results results;

    example_full(&results);
    write_run(run_path(), &results);
    results_free(&results);
    return json_load_file(run_path(), 0, NULL);
}

void example_case(struct attention_case *attention, const char *text)
{
    struct message why;
    struct job job;
    char reason[200];

    cr_assert(job_parse(text, &job, reason, sizeof reason), "%s", reason);
    cr_assert(case_random(attention, &job, 1, &why), "%s", why.text);
}
