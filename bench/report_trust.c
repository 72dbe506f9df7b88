/* How far the numbers may be trusted: noise, load, failures, what is missing. */
#include "report.h"
#include "report_text.h"

#include <math.h>
#include <string.h>

/* A benchmark keeps every processor busy; more than this besides is somebody else's. */
#define OTHERS_LOAD 0.5
#define MOST_PLAUSIBLE_SHARE 1.02

static void write_noise(const struct page *page, const struct report_device *device)
{
    const double noise = device_run_noise(device->run);
    const double load = device->run->load[0];

    fprintf(page->out,
            "<li>%s: the times are certain to &plusmn;%s&nbsp;%% (the middle of the 95 "
            "%% intervals)",
            text_escaped(device->label.text).text, text_number(100.0 * noise).text);
    if (noise >= RESULTS_NOISY)
        fputs("; <b>the machine was noisy</b>: do not conclude much from small differences",
              page->out);
    if (isfinite(load)) {
        fprintf(page->out, "; the load average at the end was %s on %s", text_number(load).text,
                text_count(device->file->processors, "processor").text);
        if (load > (double)device->file->processors + OTHERS_LOAD)
            fputs(", more than the benchmark itself causes: <b>other work shared the machine</b>, "
                  "so times are too long; ratios and shares suffer less",
                  page->out);
    }
    fputs(".</li>\n", page->out);
}

static void write_failures(const struct page *page, const struct report_device *device)
{
    const char *label = text_escaped(device->label.text).text[0] ? device->label.text : "";

    if (device->run->failed.text[0] != '\0') {
        fprintf(page->out, "<li><b>%s failed</b>%s: ", text_escaped(label).text,
                device->run->count > 0 ? " after some results" : "");
        text_html(page->out, device->run->failed.text);
        fputs("</li>\n", page->out);
    }
    if (device->run->interrupted)
        fprintf(page->out,
                "<li>The run on %s was <b>interrupted</b>: it has %s, others are missing.</li>\n",
                text_escaped(label).text, text_count(device->run->count, "problem").text);
    if (!device->measured && device->run->failed.text[0] == '\0')
        fprintf(page->out, "<li>%s has no results.</li>\n", text_escaped(label).text);
}

/* How often an implementation ended in each state on all devices. */
static void write_states(const struct page *page, size_t name)
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
            fprintf(page->out, "<li>%s %s in %s.</li>\n", text_escaped(report->names[name]).text,
                    meaning[state], text_count(count, "case").text);
    }
}

static void write_correctness(const struct page *page)
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
        fprintf(page->out,
                "<li>%s of clattn with a time here %s compared with double precision or a stored "
                "answer; the greatest error is %s of what rounding may explain.</li>\n",
                text_count(results, "result").text, results == 1 ? "was" : "were each",
                text_number(worst).text);
}

static void write_implausible(const struct page *page)
{
    const struct report *report = page->report;

    for (size_t d = 0; d < report->num_devices; d++) {
        size_t count = 0;
        for (size_t p = 0; p < report->num_problems; p++) {
            const struct record *record = report_record(report, d, p);
            count += record != NULL && samples_median(&record->share) > MOST_PLAUSIBLE_SHARE;
        }
        if (count > 0)
            fprintf(page->out,
                    "<li>On %s %s more than 100&nbsp;%% of the roof: the measured peak is too low "
                    "there, or caches helped.</li>\n",
                    text_escaped(report->devices[d].label.text).text,
                    count == 1 ? "1 problem reached"
                               : text_count(count, "problem").text /* followed by the verb */);
    }
}

void report_trust(struct page *page)
{
    const struct report *report = page->report;

    fputs("<ul>\n", page->out);
    for (size_t d = 0; d < report->num_devices; d++) {
        write_failures(page, &report->devices[d]);
        if (report->devices[d].measured)
            write_noise(page, &report->devices[d]);
    }
    write_correctness(page);
    write_implausible(page);
    for (size_t n = 0; n < report->num_names; n++)
        write_states(page, n);
    fputs("</ul>\n", page->out);
}
