/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/run_device.h"
#include "bench/commands/options.h"
#include "bench/commands/table.h"
#include "bench/timing/case_forward.h"
#include "cli/interrupt.h"
#include "os/host.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Standard output has room for one thing. */
bool run_has_table(const struct run_settings *settings)
{
    return !settings->quiet && !option_to_stdout(settings->json);
}

bool run_complain(struct run *run, const char *text)
{
    if (run != NULL)
        progress_clear(&run->progress);
    fflush(stdout);
    message_say(stderr, "clattn-bench run: %s", text);
    return false;
}

/* A crash costs only what is not yet there. */
static bool save(struct run *run)
{
    const char *const paths[] = {run->settings->json, run->settings->save};
    struct message why;

    for (size_t n = 0; n < sizeof paths / sizeof *paths; n++)
        if (paths[n] != NULL && !option_to_stdout(paths[n]) &&
            !results_write(paths[n], run->results, &why))
            return run_complain(run, why.text);
    return true;
}

static void show(struct run *run, const struct record *record)
{
    progress_clear(&run->progress);
    if (run_has_table(run->settings))
        table_record(record, record > run->device->records ? record - 1 : NULL);
    for (size_t n = 0; !run_has_table(run->settings) && !record_ok(record) && n < record->count;
         n++) {
        const struct outcome *outcome = &record->outcome[n];
        char text[sizeof outcome->why.text + 512];
        if (outcome->state == OUTCOME_MEASURED ||
            strncmp(outcome->implementation, "clattn", 6) != 0)
            continue;
        snprintf(text, sizeof text, "%.400s: %s %s: %s", record->problem, outcome->implementation,
                 outcome_state_name(outcome->state), outcome->why.text);
        run_complain(run, text);
    }
}

/* After a failure: whether the device still does anything. */
static bool is_alive(struct run *run)
{
    struct message why;
    double gigabytes;

    if (peaks_read(&run->peaks, &gigabytes, &why))
        return true;
    message_set(&run->device->failed, "the device does not answer any more: %.400s", why.text);
    return false;
}

/* Each kind of peak is measured at least once for every problem. */
static bool sample_peaks(struct run *run, struct message *why)
{
    struct peak_samples *peaks = &run->device->peaks;
    double fma, read, copy;

    for (enum peak_kind kind = 0; kind < NUM_PEAK_KINDS; kind++) {
        if (run->peaks.fastest[kind] == NULL)
            continue;
        if (!peaks_fma(&run->peaks, kind, 0.0, &fma, why))
            return false;
        samples_add(&peaks->fma[kind], fma);
    }
    if (!peaks_read(&run->peaks, &read, why) || !peaks_copy(&run->peaks, &copy, why))
        return false;
    samples_add(&peaks->read, read);
    samples_add(&peaks->copy, copy);
    return true;
}

/* A sign of life that names the problem before its first kernel. */
static void begin_item(struct run *run, const struct item *item)
{
    char *text = item->path == NULL ? job_text(&item->job) : NULL;

    run->weight = run_problem_weight(&item->job);
    progress_update(&run->progress,
                    item->path != NULL ? item->path
                    : text != NULL     ? text
                                       : "?",
                    run->weight, 0.0);
    free(text);
}

static bool run_item(struct run *run, const struct item *item, const char *heading)
{
    struct device_run *device = run->device;
    struct record *record = &device->records[device->count];
    struct attention_case attention;
    struct message why;

    if (!item_load(item, &attention, &why))
        return run_complain(run, why.text);
    begin_item(run, item);
    if (!sample_peaks(run, &why)) {
        message_set(&device->failed, "%.500s", why.text);
        case_free(&attention);
        return false;
    }
    if (!case_forward(&attention, &run->target, &why)) {
        case_free(&attention);
        run_complain(run, why.text);
        is_alive(run); /* else the run ends */
        return false;
    }
    const bool kept =
        run_problem(run, &attention, item->path != NULL ? attention.name : heading, record);
    case_free(&attention);
    progress_done(&run->progress, run->weight);
    if (!kept) {
        record_free(record);
        return ca_interrupted();
    }
    device->count++;
    show(run, record);
    const bool ok = record_ok(record);
    return (ok || is_alive(run)) && save(run) && ok;
}

static bool run_items(struct run *run, const struct items *items)
{
    struct device_run *device = run->device;
    const char *heading = "";
    bool ok = true;

    if (run_has_table(run->settings))
        table_header(device);
    for (size_t n = 0; n < items->count && !ca_interrupted() && device->failed.text[0] == '\0';
         n++) {
        heading = items->item[n].heading != NULL ? items->item[n].heading : heading;
        ok = run_item(run, &items->item[n], heading) && ok;
    }
    device->interrupted = ca_interrupted();
    progress_clear(&run->progress);
    return ok;
}

/* Opens the progress; from here on there is a heartbeat. */
static void open_progress(struct run *run, const struct items *items)
{
    double weight = 0.0;

    for (size_t n = 0; n < items->count; n++)
        weight += run_problem_weight(&items->item[n].job);
    progress_open(&run->progress, stderr, run->settings->quiet, items->count, weight);
    progress_update(&run->progress, "measuring the device's peaks", 0.0, 0.0);
}

static void describe(struct run *run)
{
    struct device_run *device = run->device;

    device->info = *run->target.info;
    device->index = target_index(&run->target);
}

/* Once the device is open. False if anything of ours failed or was wrong. */
static bool measure(struct run *run, const struct items *items)
{
    struct device_run *device = run->device;
    struct message why;

    describe(run);
    if (!save(run)) /* tells now, not after an hour, if the file cannot be written */
        return false;
    if (!peaks_open(&run->peaks, &run->target, run->settings->repeat, &why)) {
        message_set(&device->failed, "%.500s", why.text);
        save(run);
        return false;
    }
    memcpy(device->peaks.form, run->peaks.form, sizeof device->peaks.form);
    progress_update(&run->progress, "starting other libraries", 0.0, 0.0);
    run_peers_open(&run->peers, &run->settings->peers, device);
    const bool ok = run_items(run, items);
    run_peers_close(&run->peers);
    peaks_close(&run->peaks);
    ca_host_load(device->load);
    if (run_has_table(run->settings))
        table_footer(device);
    return save(run) && ok && device->failed.text[0] == '\0';
}

bool run_device(const struct run_settings *settings, const struct items *items,
                struct run_results *results)
{
    struct run run = {.settings = settings, .results = results};
    struct message why;

    open_progress(&run, items);
    if (!target_open(&run.target, settings->device, &why))
        return run_complain(&run, why.text);
    ca_interrupt_excuses(run.target.context);
    run.device = results_add(results);
    if (run.device != NULL)
        run.device->records = calloc(items->count, sizeof *run.device->records);
    if (run.device == NULL || run.device->records == NULL) {
        ca_interrupt_excuses(NULL);
        target_close(&run.target);
        return run_complain(&run, "no memory for the results");
    }
    const bool ok = measure(&run, items);
    if (run.device->failed.text[0] != '\0')
        run_complain(&run, run.device->failed.text);
    ca_interrupt_excuses(NULL);
    target_close(&run.target);
    return ok;
}
