/* The summary: what the numbers say, in sentences. */
#include "bench/report/report.h"
#include "bench/report/report_text.h"

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
static void write_comparison(const struct page *page, size_t device, size_t name)
{
    const struct report *report = page->report;
    const struct spread spread = report_spread(report, device, name);
    const struct verdicts verdicts = judge(report, device, name);
    const struct text other = text_escaped(report->names[name]);

    fprintf(page->out,
            "<li>%s<b>%s times</b> as fast as %s (%s to %s times, problem by problem): faster for "
            "%zu, slower for %zu of %s",
            spread.mean < 1.0 ? "slower: " : "", text_number(spread.mean).text, other.text,
            text_rough(spread.low).text, text_rough(spread.high).text, verdicts.faster,
            verdicts.slower, text_count(spread.count, "problem").text);
    if (verdicts.ties > 0)
        fprintf(page->out, ", too close to call for %zu", verdicts.ties);
    if (verdicts.loose > 0)
        fprintf(page->out, "; %zu of its results are of half precision only", verdicts.loose);
    fputs("</li>\n", page->out);
}

static void write_libraries(const struct page *page)
{
    const struct report *report = page->report;

    fputs("<h3>Which library</h3>\n<div class=\"columns\">\n", page->out);
    for (size_t d = 0; d < report->num_devices; d++) {
        size_t compared = 0;
        for (size_t n = REPORT_UNTUNED + 1; n < report->num_names; n++)
            compared += report_spread(report, d, n).count > 0;
        if (!report->devices[d].measured)
            continue;
        if (compared == 0) {
            fprintf(page->out,
                    "<div><p>On %s no other library was timed beside clattn.</p></div>\n",
                    text_escaped(report->devices[d].label.text).text);
            continue;
        }
        fprintf(page->out, "<div><p>On <b>%s</b>, by the geometric mean, clattn is</p>\n<ul>\n",
                text_escaped(report->devices[d].label.text).text);
        for (size_t n = REPORT_UNTUNED + 1; n < report->num_names; n++)
            if (report_spread(report, d, n).count > 0)
                write_comparison(page, d, n);
        fputs("</ul></div>\n", page->out);
    }
    fputs("</div>\n", page->out);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void write_tuning(const struct page *page)
{
    const struct report *report = page->report;
    struct spread all = {.count = 0};

    for (size_t d = 0; d < report->num_devices; d++)
        for (size_t p = 0; p < report->num_problems; p++)
            spread_add(&all, report_ratio(report, d, p, REPORT_UNTUNED));
    fputs("<h3>What tuning brings</h3>\n", page->out);
    if (all.count == 0)
        fputs("<p>No result has a time for clattn without tuning beside that of a different, tuned "
              "configuration, so nothing can be said about it.</p>\n",
              page->out);
    else
        fprintf(page->out,
                "<p>Where tuning chose another configuration (%s), clattn is <b>%s times</b> as "
                "fast as untuned by the geometric mean (%s to %s).</p>\n",
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

static void write_limits(const struct page *page)
{
    const struct report *report = page->report;
    double *values = calloc(report->num_problems + 1, sizeof *values);
    size_t items = 0;

    for (size_t d = 0; values != NULL && d < report->num_devices; d++) {
        size_t count = 0, arithmetic = 0;
        for (size_t p = 0; p < report->num_problems; p++) {
            const struct record *record = report_record(report, d, p);
            if (record == NULL || !(samples_median(&record->share) > 0.0))
                continue;
            values[count++] = 100.0 * samples_median(&record->share);
            arithmetic += record->roof == ROOF_FMA;
        }
        const struct range range = range_of(values, count);
        if (count > 0)
            fprintf(page->out,
                    "%s<li>On %s clattn reaches <b>%s&nbsp;%%</b> of the tighter roof, the median "
                    "of %s (%s to %s&nbsp;%%); arithmetic limits %zu of them, memory %zu.</li>\n",
                    items++ == 0 ? "<h3>How close to the limits of the hardware</h3>\n<ul>\n" : "",
                    text_escaped(report->devices[d].label.text).text, text_rough(range.middle).text,
                    text_count(count, "problem").text, text_rough(range.low).text,
                    text_rough(range.high).text, arithmetic, count - arithmetic);
    }
    fputs(items > 0 ? "</ul>\n" : "", page->out);
    free(values);
}

static void write_cold_start(const struct page *page)
{
    const struct report *report = page->report;
    double *source = calloc(2 * report->num_problems + 1, sizeof *source);
    double *cache = source != NULL ? source + report->num_problems : NULL;
    size_t items = 0;

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
        fprintf(page->out, "%s<li>On %s clattn&rsquo;s first result in a new process takes",
                items++ == 0 ? "<h3>What the first call costs</h3>\n<ul>\n" : "",
                text_escaped(report->devices[d].label.text).text);
        if (sources > 0)
            fprintf(page->out, " <b>%s</b> (the median of %s) if all must be compiled",
                    text_duration(range_of(source, sources).middle).text,
                    text_count(sources, "problem").text);
        if (caches > 0)
            fprintf(page->out, "%s <b>%s</b> if it was compiled before", sources > 0 ? ", and" : "",
                    text_duration(range_of(cache, caches).middle).text);
        fputs(".</li>\n", page->out);
    }
    fputs(items > 0 ? "</ul>\n" : "", page->out);
    free(source);
}

void report_summary(struct page *page)
{
    const struct report *report = page->report;
    const size_t results = timed_results(report);

    if (results == 0) {
        fputs("<p class=\"lead\">Nothing was timed: there are no results to summarize. The table "
              "of devices says why.</p>\n",
              page->out);
        return;
    }
    fprintf(page->out, "<p>%s on %s, computed by clattn and %s: %s, each one checked.</p>\n",
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
