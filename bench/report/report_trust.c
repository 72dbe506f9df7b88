/* How far the numbers may be trusted: noise, load, failures, what is missing. */
#include "bench/report/report_page.h"

#include <math.h>
#include <string.h>

/* A benchmark keeps every processor busy; more than this besides is somebody else's. */
#define OTHERS_LOAD 0.5

static void write_noise(struct page *page, const struct report_device *device)
{
    const double noise = device_run_noise(device->run);
    const double load = device->run->load[0];

    page_say(page,
             "%s: a time is known to \u00b1%s\u00a0%% (half the 95\u00a0%% "
             "interval, the median of all)",
             device->label.text, text_rough(100.0 * noise).text);
    if (noise >= RESULTS_NOISY)
        page_say(page, "; \1the machine was noisy\1, so small differences mean nothing");
    if (isfinite(load)) {
        page_say(page, "; the load average at the end was %s on %s", text_rough(load).text,
                 text_count(device->file->processors, "processor").text);
        if (load > (double)device->file->processors + OTHERS_LOAD)
            page_say(page,
                     ": \1other work shared the machine\1, which makes times too long, ratios and "
                     "shares less so");
    }
    page_item(page, ".");
}

static void write_failures(struct page *page, const struct report_device *device)
{
    const char *label = device->label.text;

    if (device->run->failed.text[0] != '\0')
        page_item(page, "\1%s failed\1%s: %s", label,
                  device->run->count > 0 ? " after some results" : "", device->run->failed.text);
    if (device->run->interrupted)
        page_item(page, "The run on %s was \1interrupted\1: it has %s, others are missing.", label,
                  text_count(device->run->count, "problem").text);
    if (!device->measured && device->run->failed.text[0] == '\0')
        page_item(page, "%s has no times.", label);
}

/* Whether an earlier device has said the same. */
static bool said(const struct report *report, size_t device, const struct peer_note *peer)
{
    for (size_t d = 0; d < device; d++) {
        const struct device_run *run = report->devices[d].run;
        for (size_t n = 0; n < run->num_peers; n++)
            if (strcmp(run->peer[n].name, peer->name) == 0 &&
                strcmp(run->peer[n].missing.text, peer->missing.text) == 0)
                return true;
    }
    return false;
}

static void write_missing(struct page *page, size_t device)
{
    const struct device_run *run = page->report->devices[device].run;

    for (size_t n = 0; n < run->num_peers; n++) {
        const struct peer_note *peer = &run->peer[n];
        if (peer->missing.text[0] == '\0' || said(page->report, device, peer))
            continue;
        page_item(page, "%s took no part: %s", peer->name, peer->missing.text);
    }
}

/* How often an implementation ended in each state on all devices. */
static void write_states(struct page *page, size_t name)
{
    static const char *const meaning[] = {
        [OUTCOME_LOOSE] = "was right only within the bounds of half-precision arithmetic",
        [OUTCOME_UNSUPPORTED] = "cannot compute the problem",
        [OUTCOME_WRONG] = "gave a wrong result, so its time is not shown",
        [OUTCOME_FAILED] = "failed",
    };
    const struct report *report = page->report;

    for (int state = OUTCOME_LOOSE; state <= OUTCOME_FAILED; state++) {
        size_t count = 0;
        for (size_t d = 0; d < report->num_devices; d++) {
            for (size_t p = 0; p < report->num_problems; p++) {
                const struct outcome *outcome = report_outcome(report, d, p, name);
                count += outcome != NULL && outcome->state == (enum outcome_state)state;
            }
        }
        if (count > 0)
            page_item(page, "%s %s in %s.", report->names[name], meaning[state],
                      text_count(count, "case").text);
    }
}

static void write_correctness(struct page *page)
{
    const struct report *report = page->report;
    double worst = 0.0;
    size_t results = 0;

    for (size_t d = 0; d < report->num_devices; d++) {
        for (size_t p = 0; p < report->num_problems; p++) {
            for (size_t n = REPORT_CLATTN; n <= REPORT_UNTUNED; n++) {
                const struct outcome *outcome = report_outcome(report, d, p, n);
                if (outcome == NULL || !outcome_timed(outcome))
                    continue;
                worst = fmax(worst, outcome->worst.ratio);
                results++;
            }
        }
    }
    if (results > 0)
        page_item(page,
                  "%s of clattn %s compared with double precision or a stored answer; the greatest "
                  "error is %s of its bound.",
                  text_count(results, "timed result").text, results == 1 ? "was" : "were",
                  text_rough(worst).text);
}

static void write_implausible(struct page *page)
{
    const struct report *report = page->report;

    for (size_t d = 0; d < report->num_devices; d++)
        if (report->devices[d].run->peaks.exceeded)
            page_item(page,
                      "On %s a share is clearly over 100\u00a0%%: the measured peak is too low, "
                      "and shares mean nothing there.",
                      report->devices[d].label.text);
}

void report_trust(struct page *page)
{
    const struct report *report = page->report;

    for (size_t d = 0; d < report->num_devices; d++) {
        write_failures(page, &report->devices[d]);
        if (report->devices[d].measured)
            write_noise(page, &report->devices[d]);
    }
    for (size_t d = 0; d < report->num_devices; d++)
        write_missing(page, d);
    write_correctness(page);
    write_implausible(page);
    for (size_t n = 0; n < report->num_names; n++)
        write_states(page, n);
    page_list(page, NULL);
}
