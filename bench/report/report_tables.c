/* Tables: all results, the devices, the configurations, the libraries. */
#include "bench/report/report_page.h"

#include <math.h>
#include <string.h>

struct column {
    const char *name, *kind;
};

static struct table begin(struct page *page, const char *caption, const struct column *columns,
                          size_t count)
{
    struct table table = table_begin(page, caption);

    for (size_t n = 0; n < count; n++)
        table_column(&table, columns[n].name, columns[n].kind);
    return table;
}

#define BEGIN(page, caption, columns)                                                              \
    begin(page, caption, columns, sizeof columns / sizeof *columns)

/* ---- results --------------------------------------------------------------------------------- */

static void write_time(struct table *table, const struct outcome *outcome)
{
    const struct ca_interval time = outcome_timed(outcome)
                                        ? ca_median(outcome->seconds.value, outcome->seconds.count)
                                        : (struct ca_interval){NAN, NAN, NAN};

    table_number(table, 1e3 * time.middle);
    if (outcome_timed(outcome))
        table_small(table, "\u00b1\u00a0%s", text_rough(5e2 * (time.high - time.low)).text);
}

static void write_ratio(struct table *table, const struct outcome *outcome)
{
    const struct ca_interval *ratio = &outcome->ratio;
    const bool known = outcome_timed(outcome) && ratio->middle > 0.0;

    table_number(table, known ? ratio->middle : NAN);
    if (known && ratio->low < ratio->high)
        table_small(table, "%s to %s", text_number(ratio->low).text, text_number(ratio->high).text);
}

/* The worst error as a part of its bound, and itself. */
static void write_error(struct table *table, const struct outcome *outcome)
{
    table_rough(table, outcome->worst.results > 0 ? outcome->worst.ratio : NAN);
    if (outcome->worst.results > 0)
        table_small(table, "%s", text_rough(outcome->worst.error).text);
}

static void write_share(struct table *table, const struct record *record,
                        const struct outcome *outcome)
{
    const double share = outcome_timed(outcome) ? 100.0 * record_share(record, outcome) : 0.0;

    table_number(table, share > 0.0 ? share : NAN);
    if (share > 0.0)
        table_small(table, "%s", record->roof == ROOF_READ ? "memory" : "arithmetic");
}

static void write_result(struct table *table, const struct report_label *label,
                         const struct record *record, const struct outcome *outcome)
{
    const bool timed = outcome_timed(outcome);
    const double seconds = timed ? samples_median(&outcome->seconds) : NAN;

    table_row(table);
    table_text(table, label->text);
    if (record->name[0] != '\0' || text_width(record->problem) > REPORT_LABEL)
        table_small(table, "%s", record->problem);
    table_text(table, outcome->implementation);
    write_time(table, outcome);
    table_number(table, record->flops / seconds * 1e-9);
    write_share(table, record, outcome);
    write_ratio(table, outcome);
    table_number(table,
                 timed && outcome->host.count > 0 ? 1e6 * samples_median(&outcome->host) : NAN);
    table_number(table, 1e3 * outcome->cold_start_source);
    table_number(table, 1e3 * outcome->cold_start_cache);
    write_error(table, outcome);
    table_text(table, outcome_state_name(outcome->state));
    if (outcome->why.text[0] != '\0')
        table_small(table, "%s", outcome->why.text);
}

static void write_device_results(struct page *page, size_t d)
{
    static const struct column columns[] = {{"Problem", "text"},
                                            {"Implementation", "text"},
                                            {"Time, ms", "number"},
                                            {"GFLOP/s", "number"},
                                            {"Share, %", "number"},
                                            {"Time over clattn\u2019s", "number"},
                                            {"Host, \u00b5s", "number"},
                                            {"First call, ms, compiled", "number"},
                                            {"First call, ms, cached", "number"},
                                            {"Error / bound", "number"},
                                            {"State", "state"}};
    const struct report *report = page->report;
    const struct device_run *run = report->devices[d].run;
    char name[4 * REPORT_LABEL + 32];

    snprintf(name, sizeof name, "Results on %s", report->devices[d].label.text);
    page_heading(page, "%s", report->devices[d].label.text);
    if (run->count == 0) {
        page_paragraph(page, "text", "No results%s%s", run->failed.text[0] != '\0' ? ": " : ".",
                       run->failed.text);
        return;
    }
    struct table table = BEGIN(page, name, columns);
    for (size_t r = 0; r < run->count; r++) {
        const struct record *record = &run->records[r];
        const struct report_label *label =
            &report->problems[report_find_problem(report, record)].label;
        for (size_t n = 0; n < record->count; n++)
            write_result(&table, label, record, &record->outcome[n]);
    }
    table_end(&table, true);
}

void report_results(struct page *page)
{
    for (size_t d = 0; d < page->report->num_devices; d++)
        write_device_results(page, d);
}

/* ---- devices --------------------------------------------------------------------------------- */

void report_devices(struct page *page)
{
    static const struct column columns[] = {{"Device", "text"},
                                            {"Driver", "text"},
                                            {"Compute units", "number"},
                                            {"f32 FMA, GFLOP/s", "number"},
                                            {"f16 FMA, GFLOP/s", "number"},
                                            {"bf16, GFLOP/s", "number"},
                                            {"Read, GB/s", "number"},
                                            {"Copy, GB/s", "number"},
                                            {"Load", "number"},
                                            {"Noise, %", "number"},
                                            {"Measured", "text"}};
    const struct report *report = page->report;
    struct table table = BEGIN(page, "Devices and their measured peaks", columns);

    for (size_t d = 0; d < report->num_devices; d++) {
        const struct report_device *device = &report->devices[d];
        const clattn_device_info *info = &device->run->info;
        const struct peak_samples *peaks = &device->run->peaks;
        table_row(&table);
        table_text(&table, device->label.text);
        table_small(&table, "%s", info->name);
        table_text(&table, info->platform_name);
        table_small(&table, "%s", info->platform_version);
        if (strstr(info->platform_version, info->driver_version) == NULL)
            table_small(&table, "%s", info->driver_version);
        table_integer(&table, info->compute_units);
        table_number(&table, report_peak(&peaks->fma[PEAK_F32]));
        table_number(&table, report_peak(&peaks->fma[PEAK_F16]));
        table_number(&table, report_peak(&peaks->fma[PEAK_BF16]));
        table_number(&table, report_peak(&peaks->read));
        table_number(&table, report_peak(&peaks->copy));
        table_number(&table, device->run->load[0]);
        table_number(&table, device->measured ? 100.0 * device_run_noise(device->run) : NAN);
        table_text(&table, text_date(device->file->date).text);
    }
    table_end(&table, false);
}

/* ---- configurations -------------------------------------------------------------------------- */

void report_choices(struct page *page)
{
    static const struct column columns[] = {
        {"Device", "text"}, {"Problem", "text"}, {"Configuration", "code"},
        {"Origin", "text"}, {"Why", "text"},     {"Workspace, MiB", "number"}};
    const struct report *report = page->report;
    struct table table = BEGIN(page, "The configurations that clattn chose", columns);

    for (size_t d = 0; d < report->num_devices; d++) {
        for (size_t p = 0; p < report->num_problems; p++) {
            const struct record *record = report_record(report, d, p);
            const struct outcome *outcome = report_outcome(report, d, p, REPORT_CLATTN);
            if (outcome == NULL || outcome->configuration == NULL)
                continue;
            const char *reason = record->reason != NULL ? record->reason : "";
            table_row(&table);
            table_text(&table, report->devices[d].label.text);
            table_text(&table, report->problems[p].label.text);
            table_text(&table, outcome->configuration);
            table_text(&table, record_origin(reason));
            table_text(&table, reason);
            table_number(&table, (double)record->workspace_bytes / 1048576.0);
        }
    }
    table_end(&table, true);
}

/* ---- libraries ------------------------------------------------------------------------------- */

void report_peers(struct page *page)
{
    static const struct column columns[] = {{"Device", "text"},
                                            {"Library", "text"},
                                            {"Version", "text"},
                                            {"What was called", "text"},
                                            {"Missing", "text"}};
    const struct report *report = page->report;
    size_t peers = 0;

    for (size_t d = 0; d < report->num_devices; d++)
        peers += report->devices[d].run->num_peers;
    if (peers == 0) {
        page_paragraph(page, "text", "No other library was asked for.");
        return;
    }
    struct table table = BEGIN(page, "Other libraries", columns);
    for (size_t d = 0; d < report->num_devices; d++) {
        const struct device_run *run = report->devices[d].run;
        for (size_t n = 0; n < run->num_peers; n++) {
            const struct peer_note *peer = &run->peer[n];
            table_row(&table);
            table_text(&table, report->devices[d].label.text);
            table_text(&table, peer->name);
            table_text(&table, peer->version);
            table_text(&table, peer->method);
            table_text(&table, peer->missing.text);
        }
    }
    table_end(&table, false);
}
