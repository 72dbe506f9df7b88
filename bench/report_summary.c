/* The summary: what the numbers say, in sentences. */
#include "report.h"
#include "report_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "a", "a and b", "a, b and c": what goes before entry n of so many. */
static const char *comma(size_t n, size_t count)
{
    return n == 0 ? "" : n + 1 == count ? " and " : ", ";
}

static size_t measured_devices(const struct report *report)
{
    size_t count = 0;

    for (size_t d = 0; d < report->num_devices; d++)
        count += report->devices[d].measured;
    return count;
}

static size_t timed_results(const struct report *report)
{
    size_t count = 0;

    for (size_t d = 0; d < report->num_devices; d++)
        for (size_t p = 0; p < report->num_problems; p++)
            for (size_t n = 0; n < report->num_names; n++)
                count += !isnan(report_seconds(report, d, p, n));
    return count;
}

/* ---- winners ---------------------------------------------------------------------------------- */

/* Which implementation on which device was the fastest for how many problems. */
struct winner {
    size_t name, device, wins;
};

static int more_wins(const void *left, const void *right)
{
    const struct winner *a = left, *b = right;

    return (a->wins < b->wins) - (a->wins > b->wins);
}

/* The fastest of all on this problem; false if nothing was timed. */
static bool find_fastest(const struct report *report, size_t problem, struct winner *winner)
{
    double best = INFINITY;

    for (size_t d = 0; d < report->num_devices; d++) {
        for (size_t n = 0; n < report->num_names; n++) {
            const double seconds = report_seconds(report, d, problem, n);
            if (seconds < best) {
                best = seconds;
                *winner = (struct winner){.name = n, .device = d};
            }
        }
    }
    return isfinite(best);
}

static void write_winners(const struct page *page)
{
    const struct report *report = page->report;
    const size_t most = report->num_names * report->num_devices;
    struct winner *winners = calloc(most + 1, sizeof *winners), fastest = {0, 0, 0};
    const size_t devices = measured_devices(report);
    size_t problems = 0, count = 0;

    for (size_t p = 0; winners != NULL && p < report->num_problems; p++) {
        if (!find_fastest(report, p, &fastest))
            continue;
        problems++;
        struct winner *winner = &winners[fastest.name * report->num_devices + fastest.device];
        winner->name = fastest.name;
        winner->device = fastest.device;
        winner->wins++;
    }
    if (problems == 0) {
        free(winners);
        return;
    }
    qsort(winners, most, sizeof *winners, more_wins);
    while (count < most && winners[count].wins > 0)
        count++;
    fprintf(page->out, "<p class=\"lead\">The shortest time for a problem was reached by ");
    for (size_t n = 0; n < count; n++) {
        fprintf(page->out, "%s<b>%s</b>", comma(n, count),
                text_escaped(report->names[winners[n].name]).text);
        if (devices > 1)
            fprintf(page->out, " beside or on %s",
                    text_escaped(report->devices[winners[n].device].label.text).text);
        fprintf(page->out, n == 0 ? " for %zu of %zu problems" : " for %zu", winners[n].wins,
                problems);
    }
    fputs(".</p>\n", page->out);
    free(winners);
}

/* ---- devices ---------------------------------------------------------------------------------- */

/* Whether clattn has a time for the problem on each device that has any. */
static bool on_all(const struct report *report, size_t problem)
{
    for (size_t d = 0; d < report->num_devices; d++)
        if (report->devices[d].measured && isnan(report_seconds(report, d, problem, REPORT_CLATTN)))
            return false;
    return true;
}

/* How many times as long as on `best` clattn takes on `device`, over the problems all computed. */
static struct spread compare(const struct report *report, size_t best, size_t device)
{
    struct spread spread = {.count = 0};

    for (size_t p = 0; p < report->num_problems; p++)
        if (on_all(report, p))
            spread_add(&spread, report_seconds(report, device, p, REPORT_CLATTN) /
                                    report_seconds(report, best, p, REPORT_CLATTN));
    return spread;
}

/* How many of those problems each device is the fastest for. */
static size_t first_places(const struct report *report, size_t device)
{
    size_t wins = 0;

    for (size_t p = 0; p < report->num_problems; p++) {
        bool first = on_all(report, p);
        for (size_t d = 0; first && d < report->num_devices; d++)
            first = !(report_seconds(report, d, p, REPORT_CLATTN) <
                      report_seconds(report, device, p, REPORT_CLATTN));
        wins += first;
    }
    return wins;
}

static void write_devices(const struct page *page)
{
    const struct report *report = page->report;
    const size_t devices = measured_devices(report);
    size_t best = report->num_devices, others = 0;

    for (size_t d = 0; d < report->num_devices; d++)
        if (report->devices[d].measured &&
            (best == report->num_devices || compare(report, best, d).mean < 1.0))
            best = d;
    if (devices < 2)
        return;
    const struct spread own = compare(report, best, best);
    fputs("<h3>Which device</h3>\n", page->out);
    if (own.count == 0) {
        fputs("<p>clattn computed no problem on all of the devices, so they cannot be "
              "ranked.</p>\n",
              page->out);
        return;
    }
    fprintf(page->out,
            "<p>With clattn <b>%s</b> is the fastest device. Over the %s that all %zu devices "
            "computed, by the geometric mean, it is ",
            text_escaped(report->devices[best].label.text).text,
            text_count(own.count, "problem").text, devices);
    for (size_t d = 0; d < report->num_devices; d++) {
        const struct spread spread = compare(report, best, d);
        if (!report->devices[d].measured || d == best)
            continue;
        fprintf(page->out, "%s<b>%s times</b> as fast as %s (%s to %s)", comma(others, devices - 1),
                text_number(spread.mean).text, text_escaped(report->devices[d].label.text).text,
                text_number(spread.low).text, text_number(spread.high).text);
        others++;
    }
    fprintf(page->out, ". It was first for %zu of them.", first_places(report, best));
    for (size_t d = 0; d < report->num_devices; d++)
        if (report->devices[d].measured && d != best && first_places(report, d) > 0)
            fprintf(page->out, " %s was first for %zu.",
                    text_escaped(report->devices[d].label.text).text, first_places(report, d));
    fputs(" Devices are measured one after another, so these ratios are less certain than those "
          "between libraries, which take turns.</p>\n",
          page->out);
}

/* ---- libraries -------------------------------------------------------------------------------- */

struct verdicts {
    size_t faster, slower, ties; /* As clattn is, by the interval of each ratio. */
};

static struct verdicts judge(const struct report *report, size_t device, size_t name)
{
    struct verdicts verdicts = {0, 0, 0};

    for (size_t p = 0; p < report->num_problems; p++) {
        if (isnan(report_ratio(report, device, p, name)))
            continue;
        const struct ca_interval *ratio = &report_outcome(report, device, p, name)->ratio;
        verdicts.faster += ratio->low > 1.0;
        verdicts.slower += ratio->high < 1.0;
        verdicts.ties += !(ratio->low > 1.0) && !(ratio->high < 1.0);
    }
    return verdicts;
}

/* "2.1 times as fast as CLBlast", or the other way round where clattn is slower. */
static void write_comparison(const struct page *page, size_t device, size_t name)
{
    const struct report *report = page->report;
    const struct spread spread = report_spread(report, device, name);
    const struct verdicts verdicts = judge(report, device, name);
    const struct text other = text_escaped(report->names[name]);

    if (spread.mean >= 1.0)
        fprintf(page->out, "<li><b>%s times</b> as fast as %s", text_number(spread.mean).text,
                other.text);
    else
        fprintf(page->out, "<li>slower than %s, which is <b>%s times</b> as fast", other.text,
                text_number(1.0 / spread.mean).text);
    fprintf(page->out,
            " (clattn&rsquo;s speed is %s to %s times that of %s): faster for %zu, slower for %zu "
            "of %s",
            text_number(spread.low).text, text_number(spread.high).text, other.text,
            verdicts.faster, verdicts.slower, text_count(spread.count, "problem").text);
    if (verdicts.ties > 0)
        fprintf(page->out, ", too close to call for %zu", verdicts.ties);
    fputs("</li>\n", page->out);
}

static void write_libraries(const struct page *page)
{
    const struct report *report = page->report;

    fputs("<h3>Which library</h3>\n", page->out);
    for (size_t d = 0; d < report->num_devices; d++) {
        size_t compared = 0;
        for (size_t n = REPORT_UNTUNED + 1; n < report->num_names; n++)
            compared += report_spread(report, d, n).count > 0;
        if (!report->devices[d].measured)
            continue;
        if (compared == 0) {
            fprintf(page->out, "<p>On %s no other library was timed beside clattn.</p>\n",
                    text_escaped(report->devices[d].label.text).text);
            continue;
        }
        fprintf(page->out, "<p>On <b>%s</b>, by the geometric mean, clattn is</p>\n<ul>\n",
                text_escaped(report->devices[d].label.text).text);
        for (size_t n = REPORT_UNTUNED + 1; n < report->num_names; n++)
            if (report_spread(report, d, n).count > 0)
                write_comparison(page, d, n);
        fputs("</ul>\n", page->out);
    }
}

/* ---- the rest --------------------------------------------------------------------------------- */

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
                text_number(all.low).text, text_number(all.high).text);
}

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* The least, the median and the greatest of what was measured; NAN without values. */
struct range {
    double low, middle, high;
};

static struct range range_of(double *values, size_t count)
{
    if (count == 0)
        return (struct range){NAN, NAN, NAN};
    qsort(values, count, sizeof *values, ascending);
    return (struct range){values[0], (values[count / 2] + values[(count - 1) / 2]) / 2.0,
                          values[count - 1]};
}

static void write_limits(const struct page *page)
{
    const struct report *report = page->report;
    double *values = calloc(report->num_problems + 1, sizeof *values);

    fputs("<h3>How close to the limits of the hardware</h3>\n<ul>\n", page->out);
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
                    "<li>On %s clattn reaches <b>%s&nbsp;%%</b> of the tighter roof in the middle "
                    "of %s (%s to %s&nbsp;%%); arithmetic limits %zu of them, memory %zu.</li>\n",
                    text_escaped(report->devices[d].label.text).text,
                    text_number(range.middle).text, text_count(count, "problem").text,
                    text_number(range.low).text, text_number(range.high).text, arithmetic,
                    count - arithmetic);
    }
    fputs("</ul>\n", page->out);
    free(values);
}

static void write_first_call(const struct page *page)
{
    const struct report *report = page->report;
    double *source = calloc(2 * report->num_problems + 1, sizeof *source);
    double *cache = source != NULL ? source + report->num_problems : NULL;

    fputs("<h3>What the first call costs</h3>\n<ul>\n", page->out);
    for (size_t d = 0; source != NULL && d < report->num_devices; d++) {
        size_t sources = 0, caches = 0;
        for (size_t p = 0; p < report->num_problems; p++) {
            const struct outcome *outcome = report_outcome(report, d, p, REPORT_CLATTN);
            if (outcome != NULL && isfinite(outcome->first_source))
                source[sources++] = outcome->first_source;
            if (outcome != NULL && isfinite(outcome->first_cache))
                cache[caches++] = outcome->first_cache;
        }
        if (sources + caches == 0)
            continue;
        fprintf(page->out, "<li>On %s clattn&rsquo;s first result in a new process takes",
                text_escaped(report->devices[d].label.text).text);
        if (sources > 0)
            fprintf(page->out, " <b>%s&nbsp;s</b> (the middle of %s) if all must be compiled",
                    text_number(range_of(source, sources).middle).text,
                    text_count(sources, "problem").text);
        if (caches > 0)
            fprintf(page->out, "%s <b>%s&nbsp;s</b> if it was compiled before",
                    sources > 0 ? ", and" : "", text_number(range_of(cache, caches).middle).text);
        fputs(".</li>\n", page->out);
    }
    fputs("</ul>\n", page->out);
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
            text_count(measured_devices(report), "OpenCL device").text,
            text_count(report->num_names - 2, "other library").text,
            text_count(results, "time").text);
    write_winners(page);
    write_devices(page);
    write_libraries(page);
    write_tuning(page);
    write_limits(page);
    write_first_call(page);
}
