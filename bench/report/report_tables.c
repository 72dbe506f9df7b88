/* Tables: all results, the devices, the configurations, the libraries. Cells that sort as numbers
 * have class n and, where their text is more than the number, its value in data-v. */
#include "bench/report/report.h"
#include "bench/report/report_text.h"

#include <math.h>
#include <string.h>

static void begin_table(const struct page *page, const char *name, const char *classes,
                        const char *headings)
{
    fprintf(page->out, "<div class=\"scroll %s\" role=\"region\" tabindex=\"0\" aria-label=\"",
            classes);
    text_html(page->out, name);
    fputs("\"><table class=\"sortable\"><caption>", page->out);
    text_html(page->out, name);
    fprintf(page->out, "</caption>\n<thead><tr>%s</tr></thead><tbody>\n", headings);
}

static void end_table(const struct page *page)
{
    fputs("</tbody></table></div>\n", page->out);
}

/* Opens a cell that sorts by the value. */
static void open_number(const struct page *page, double value)
{
    if (isfinite(value))
        fprintf(page->out, "<td class=\"n\" data-v=\"%.9g\">", value);
    else
        fputs("<td class=\"n\" data-v=\"\">", page->out);
}

static void write_number(const struct page *page, double value)
{
    open_number(page, value);
    fprintf(page->out, "%s</td>", text_number(value).text);
}

static void write_text(const struct page *page, const char *text)
{
    fputs("<td>", page->out);
    text_html(page->out, text);
    fputs("</td>", page->out);
}

/* A line below the cell's first. */
static void write_small(const struct page *page, const char *text)
{
    fputs("<br><small>", page->out);
    text_html(page->out, text);
    fputs("</small>", page->out);
}

/* A dash where there is nothing to say. */
static const char *or_dash(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : "\u2013";
}

/* ---- results --------------------------------------------------------------------------------- */

#define N(text) "<th scope=\"col\" class=\"n\">" text "</th>"
#define T(text) "<th scope=\"col\">" text "</th>"

static void write_state(const struct page *page, const struct outcome *outcome)
{
    fprintf(page->out, "<td class=\"s-%s\"><b>%s</b>", outcome_state_name(outcome->state),
            outcome_state_name(outcome->state));
    if (outcome->why.text[0] != '\0')
        write_small(page, outcome->why.text);
    fputs("</td>", page->out);
}

static void write_time(const struct page *page, const struct outcome *outcome)
{
    if (!outcome_timed(outcome)) {
        write_number(page, NAN);
        return;
    }
    const struct ca_interval time = ca_median(outcome->seconds.value, outcome->seconds.count);
    open_number(page, 1e3 * time.middle);
    fprintf(page->out, "%s<br><small>&plusmn;&nbsp;%s</small></td>",
            text_number(1e3 * time.middle).text, text_rough(5e2 * (time.high - time.low)).text);
}

static void write_ratio(const struct page *page, const struct outcome *outcome)
{
    const struct ca_interval *ratio = &outcome->ratio;

    if (!outcome_timed(outcome) || !(ratio->middle > 0.0)) {
        write_number(page, NAN);
        return;
    }
    open_number(page, ratio->middle);
    fprintf(page->out, "%s", text_number(ratio->middle).text);
    if (ratio->low < ratio->high)
        fprintf(page->out, "<br><small>%s to %s</small>", text_number(ratio->low).text,
                text_number(ratio->high).text);
    fputs("</td>", page->out);
}

/* The worst error as a part of its bound, and itself. */
static void write_error(const struct page *page, const struct outcome *outcome)
{
    if (outcome->worst.results == 0) {
        write_number(page, NAN);
        return;
    }
    open_number(page, outcome->worst.ratio);
    fprintf(page->out, "%s<br><small>%s</small></td>", text_rough(outcome->worst.ratio).text,
            text_rough(outcome->worst.error).text);
}

static void write_share(const struct page *page, const struct record *record,
                        const struct outcome *outcome)
{
    const double share = outcome_timed(outcome) ? 100.0 * record_share(record, outcome) : 0.0;

    if (share <= 0.0) {
        write_number(page, NAN);
        return;
    }
    open_number(page, share);
    fprintf(page->out, "%s<br><small>%s</small></td>", text_number(share).text,
            record->roof == ROOF_FMA ? "arithmetic" : "memory");
}

static void write_result(const struct page *page, const struct report_label *label,
                         const struct record *record, const struct outcome *outcome)
{
    const bool timed = outcome_timed(outcome);
    const double seconds = timed ? samples_median(&outcome->seconds) : NAN;

    fputs("<tr><th scope=\"row\">", page->out);
    text_html(page->out, label->text);
    if (record->name[0] != '\0' || text_width(record->problem) > REPORT_LABEL)
        write_small(page, record->problem);
    fputs("</th>", page->out);
    write_text(page, outcome->implementation);
    write_time(page, outcome);
    write_number(page, record->flops / seconds * 1e-9);
    write_share(page, record, outcome);
    write_ratio(page, outcome);
    write_number(page,
                 timed && outcome->host.count > 0 ? 1e6 * samples_median(&outcome->host) : NAN);
    write_number(page, 1e3 * outcome->cold_start_source);
    write_number(page, 1e3 * outcome->cold_start_cache);
    write_error(page, outcome);
    write_state(page, outcome);
    fputs("</tr>\n", page->out);
}

static void write_device_results(const struct page *page, size_t d)
{
    static const char headings[] = T("Problem") T("Implementation") N("Time, ms") N("GFLOP/s")
        N("Share, %") N("Time over clattn&rsquo;s") N("Host, &micro;s")
            N("First call, ms, compiled") N("First call, ms, cached") N("Error / bound") T("State");
    const struct report *report = page->report;
    const struct device_run *run = report->devices[d].run;
    char name[4 * REPORT_LABEL + 32];

    snprintf(name, sizeof name, "Results on %s", report->devices[d].label.text);
    fprintf(page->out, "<h3>%s</h3>\n", text_escaped(report->devices[d].label.text).text);
    if (run->count == 0) {
        fputs("<p>No results", page->out);
        fputs(run->failed.text[0] != '\0' ? ": " : ".", page->out);
        text_html(page->out, run->failed.text);
        fputs("</p>\n", page->out);
        return;
    }
    begin_table(page, name, "tall", headings);
    for (size_t r = 0; r < run->count; r++) {
        const struct record *record = &run->records[r];
        const struct report_label *label = NULL;
        for (size_t p = 0; label == NULL && p < report->num_problems; p++)
            if (strcmp(report->problems[p].record->name, record->name) == 0 &&
                strcmp(report->problems[p].record->problem, record->problem) == 0)
                label = &report->problems[p].label;
        for (size_t n = 0; n < record->count; n++)
            write_result(page, label, record, &record->outcome[n]);
    }
    end_table(page);
}

void report_results(struct page *page)
{
    for (size_t d = 0; d < page->report->num_devices; d++)
        write_device_results(page, d);
}

/* ---- devices --------------------------------------------------------------------------------- */

void report_devices(struct page *page)
{
    const struct report *report = page->report;

    begin_table(page, "Devices and their measured peaks", "",
                T("Device") T("Driver") N("Compute units") N("f32 FMA, GFLOP/s")
                    N("f16 FMA, GFLOP/s") N("Read, GB/s") N("Copy, GB/s") N("Load") N("Noise, %")
                        T("Measured"));
    for (size_t d = 0; d < report->num_devices; d++) {
        const struct report_device *device = &report->devices[d];
        const clattn_device_info *info = &device->run->info;
        fprintf(page->out, "<tr><th scope=\"row\">%s", text_escaped(device->label.text).text);
        write_small(page, info->name);
        fputs("</th><td>", page->out);
        text_html(page->out, or_dash(info->platform_name));
        write_small(page, info->platform_version);
        if (strstr(info->platform_version, info->driver_version) == NULL)
            write_small(page, info->driver_version);
        fprintf(page->out, "</td><td class=\"n\">%u</td>", info->compute_units);
        write_number(page, report_peak(&device->run->peaks.fma));
        write_number(page, report_peak(&device->run->peaks.fma_half));
        write_number(page, report_peak(&device->run->peaks.read));
        write_number(page, report_peak(&device->run->peaks.copy));
        write_number(page, device->run->load[0]);
        write_number(page, device->measured ? 100.0 * device_run_noise(device->run) : NAN);
        fprintf(page->out, "<td>%s</td>", text_date(device->file->date).text);
        fputs("</tr>\n", page->out);
    }
    end_table(page);
}

/* ---- configurations -------------------------------------------------------------------------- */

void report_choices(struct page *page)
{
    const struct report *report = page->report;

    begin_table(page, "The configurations that clattn chose", "tall",
                T("Device") T("Problem") T("Configuration") T("Origin") T("Why")
                    N("Workspace, MiB"));
    for (size_t d = 0; d < report->num_devices; d++) {
        for (size_t p = 0; p < report->num_problems; p++) {
            const struct record *record = report_record(report, d, p);
            const struct outcome *outcome = report_outcome(report, d, p, REPORT_CLATTN);
            if (outcome == NULL || outcome->configuration == NULL)
                continue;
            const char *reason = record->reason != NULL ? record->reason : "";
            fprintf(page->out, "<tr><th scope=\"row\">%s</th>",
                    text_escaped(report->devices[d].label.text).text);
            write_text(page, report->problems[p].label.text);
            fputs("<td><code>", page->out);
            text_html(page->out, outcome->configuration);
            fputs("</code></td>", page->out);
            write_text(page, record_origin(reason));
            write_text(page, or_dash(reason));
            write_number(page, (double)record->workspace_bytes / 1048576.0);
            fputs("</tr>\n", page->out);
        }
    }
    end_table(page);
}

/* ---- libraries ------------------------------------------------------------------------------- */

void report_peers(struct page *page)
{
    const struct report *report = page->report;
    size_t peers = 0;

    for (size_t d = 0; d < report->num_devices; d++)
        peers += report->devices[d].run->num_peers;
    if (peers == 0) {
        fputs("<p>No other library was asked for.</p>\n", page->out);
        return;
    }
    begin_table(page, "Other libraries", "",
                T("Device") T("Library") T("Version") T("What was called") T("Missing"));
    for (size_t d = 0; d < report->num_devices; d++) {
        const struct device_run *run = report->devices[d].run;
        for (size_t n = 0; n < run->num_peers; n++) {
            const struct peer_note *peer = &run->peer[n];
            fprintf(page->out, "<tr><th scope=\"row\">%s</th>",
                    text_escaped(report->devices[d].label.text).text);
            write_text(page, peer->name);
            write_text(page, or_dash(peer->version));
            write_text(page, or_dash(peer->method));
            write_text(page, or_dash(peer->missing.text));
            fputs("</tr>\n", page->out);
        }
    }
    end_table(page);
}
