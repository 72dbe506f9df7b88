/* The summary: what the numbers say, in sentences. */
#include "bench/report/report_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t timed_results(const struct report *report)
{
    size_t count = 0;

    for (size_t d = 0; d < report->num_devices; d++)
        for (size_t p = 0; p < report->num_problems; p++)
            for (size_t n = 0; n < report->num_names; n++)
                count += !isnan(report_seconds(report, d, p, n));
    return count;
}

/* ---- libraries ------------------------------------------------------------------------------- */

struct verdicts {
    size_t faster, slower, ties; /* As clattn is, by the interval of each ratio. */
    size_t loose;                /* Results of the other that are of half precision. */
};

static struct verdicts judge(const struct report *report, size_t device, size_t name)
{
    struct verdicts verdicts = {.loose = 0};

    for (size_t p = 0; p < report->num_problems; p++) {
        if (isnan(report_ratio(report, device, p, name)))
            continue;
        const struct ca_interval *ratio = &report_outcome(report, device, p, name)->ratio;
        verdicts.loose += report_loose(report, device, p, name);
        verdicts.faster += ratio->low > 1.0;
        verdicts.slower += ratio->high < 1.0;
        verdicts.ties += !(ratio->low > 1.0) && !(ratio->high < 1.0);
    }
    return verdicts;
}

/* "2.1 times as fast as CLBlast"; what is less than once is called slower. */
static void write_comparison(struct page *page, size_t device, size_t name)
{
    const struct report *report = page->report;
    const struct spread spread = report_spread(report, device, name);
    const struct verdicts verdicts = judge(report, device, name);

    page_say(page,
             "%s\1%s times\1 as fast as %s (%s to %s times, problem by problem): faster for "
             "%zu, slower for %zu of %s",
             spread.mean < 1.0 ? "slower: " : "", text_number(spread.mean).text,
             report->names[name], text_rough(spread.low).text, text_rough(spread.high).text,
             verdicts.faster, verdicts.slower, text_count(spread.count, "problem").text);
    if (verdicts.ties > 0)
        page_say(page, ", too close to call for %zu", verdicts.ties);
    if (verdicts.loose > 0)
        page_say(page, "; %zu of its results are of half precision only", verdicts.loose);
    page_item(page, "");
}

static void write_libraries(struct page *page)
{
    const struct report *report = page->report;

    json_t *const outer = page->blocks, *columns = json_array();
    page_heading(page, "Which library");
    for (size_t d = 0; d < report->num_devices; d++) {
        const char *device = report->devices[d].label.text;
        size_t compared = 0;
        for (size_t n = REPORT_UNTUNED + 1; n < report->num_names; n++)
            compared += report_spread(report, d, n).count > 0;
        if (!report->devices[d].measured)
            continue;
        page->blocks = json_array();
        page_paragraph(page, "text",
                       compared == 0 ? "On %s no other library was timed beside clattn."
                                     : "On \1%s\1, by the geometric mean, clattn is",
                       device);
        for (size_t n = REPORT_UNTUNED + 1; n < report->num_names; n++)
            if (report_spread(report, d, n).count > 0)
                write_comparison(page, d, n);
        page_list(page, NULL);
        page_put(page, columns, page->blocks);
    }
    page->blocks = outer;
    page_put(page, outer, json_pack("{s:o}", "columns", columns));
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void write_tuning(struct page *page)
{
    const struct report *report = page->report;
    struct spread all = {.count = 0};

    for (size_t d = 0; d < report->num_devices; d++)
        for (size_t p = 0; p < report->num_problems; p++)
            spread_add(&all, report_ratio(report, d, p, REPORT_UNTUNED));
    page_heading(page, "What tuning brings");
    if (all.count == 0)
        page_paragraph(
            page, "text",
            "No result has a time for clattn without tuning beside that of a different, tuned "
            "configuration, so nothing can be said about it.");
    else
        page_paragraph(page, "text",
                       "Where tuning chose another configuration (%s), clattn is \1%s times\1 as "
                       "fast as untuned by the geometric mean (%s to %s).",
                       text_count(all.count, "result").text, text_number(all.mean).text,
                       text_rough(all.low).text, text_rough(all.high).text);
}

/* The least, the median and the greatest of what was measured; NAN without values. */
struct range {
    double low, middle, high;
};

static struct range range_of(double *values, size_t count)
{
    if (count == 0)
        return (struct range){NAN, NAN, NAN};
    const double middle = ca_sort(values, count);
    return (struct range){values[0], middle, values[count - 1]};
}

static void write_limits(struct page *page)
{
    const struct report *report = page->report;
    double *values = calloc(report->num_problems + 1, sizeof *values);

    for (size_t d = 0; values != NULL && d < report->num_devices; d++) {
        size_t count = 0, arithmetic = 0;
        for (size_t p = 0; p < report->num_problems; p++) {
            const struct record *record = report_record(report, d, p);
            if (record == NULL || !(samples_median(&record->share) > 0.0))
                continue;
            values[count++] = 100.0 * samples_median(&record->share);
            arithmetic += record->roof != ROOF_READ;
        }
        const struct range range = range_of(values, count);
        if (count > 0)
            page_item(page,
                      "On %s clattn reaches \1%s\u00a0%%\1 of the tighter roof, the median "
                      "of %s (%s to %s\u00a0%%); arithmetic limits %zu of them, memory %zu.",
                      report->devices[d].label.text, text_rough(range.middle).text,
                      text_count(count, "problem").text, text_rough(range.low).text,
                      text_rough(range.high).text, arithmetic, count - arithmetic);
    }
    page_list(page, "How close to the limits of the hardware");
    free(values);
}

static void write_cold_start(struct page *page)
{
    const struct report *report = page->report;
    double *source = calloc(2 * report->num_problems + 1, sizeof *source);
    double *cache = source != NULL ? source + report->num_problems : NULL;

    for (size_t d = 0; source != NULL && d < report->num_devices; d++) {
        size_t sources = 0, caches = 0;
        for (size_t p = 0; p < report->num_problems; p++) {
            const struct outcome *outcome = report_outcome(report, d, p, REPORT_CLATTN);
            if (outcome != NULL && isfinite(outcome->cold_start_source))
                source[sources++] = outcome->cold_start_source;
            if (outcome != NULL && isfinite(outcome->cold_start_cache))
                cache[caches++] = outcome->cold_start_cache;
        }
        if (sources + caches == 0)
            continue;
        page_say(page, "On %s clattn\u2019s first result in a new process takes",
                 report->devices[d].label.text);
        if (sources > 0)
            page_say(page, " \1%s\1 (the median of %s) if all must be compiled",
                     text_duration(range_of(source, sources).middle).text,
                     text_count(sources, "problem").text);
        if (caches > 0)
            page_say(page, "%s \1%s\1 if it was compiled before", sources > 0 ? ", and" : "",
                     text_duration(range_of(cache, caches).middle).text);
        page_item(page, ".");
    }
    page_list(page, "What the first call costs");
    free(source);
}

void report_summary(struct page *page)
{
    const struct report *report = page->report;
    const size_t results = timed_results(report);

    if (results == 0) {
        page_paragraph(page, "lead",
                       "Nothing was timed: there are no results to summarize. The table "
                       "of devices says why.");
        return;
    }
    page_paragraph(page, "text", "%s on %s, computed by clattn and %s: %s, each one checked.",
                   text_count(report->num_problems, "attention problem").text,
                   text_count(report_measured(report), "OpenCL device").text,
                   text_count(report->num_names - 2, "other library").text,
                   text_count(results, "time").text);
    report_winners(page);
    report_ranking(page);
    write_libraries(page);
    write_tuning(page);
    write_limits(page);
    write_cold_start(page);
}
