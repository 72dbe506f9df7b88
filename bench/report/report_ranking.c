/* The ranking: which implementation and which device came first how often. */
#include "bench/report/report_page.h"

#include <math.h>
#include <stdlib.h>

/* "a", "a and b", "a, b and c": what goes before entry n of so many. */
static const char *comma(size_t n, size_t count)
{
    return n == 0 ? "" : n + 1 == count ? " and " : ", ";
}

/* ---- winners --------------------------------------------------------------------------------- */

/* An implementation that was the fastest for so many problems; clattn's on each device count for
 * themselves, because many of the others are the same whatever the device is. */
struct winner {
    size_t name, device, wins;
    size_t loose; /* So many of these with results of half precision. */
};

static bool ours(size_t name)
{
    return name == REPORT_CLATTN || name == REPORT_UNTUNED;
}

static int more_wins(const void *left, const void *right)
{
    const struct winner *a = left, *b = right;

    if (a->wins != b->wins)
        return a->wins < b->wins ? 1 : -1;
    if (a->name != b->name)
        return a->name > b->name ? 1 : -1;
    return (a->device > b->device) - (a->device < b->device);
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
                *winner = (struct winner){.name = n,
                                          .device = ours(n) ? d : 0,
                                          .loose = report_loose(report, d, problem, n)};
            }
        }
    }
    return isfinite(best);
}

void report_winners(struct page *page)
{
    const struct report *report = page->report;
    const size_t most = report->num_names * report->num_devices;
    struct winner *winners = calloc(most + 1, sizeof *winners), fastest = {.name = 0};
    size_t problems = 0, count = 0;

    for (size_t p = 0; winners != NULL && p < report->num_problems; p++) {
        if (!find_fastest(report, p, &fastest))
            continue;
        problems++;
        struct winner *winner = &winners[fastest.name * report->num_devices + fastest.device];
        winner->name = fastest.name;
        winner->device = fastest.device;
        winner->wins++;
        winner->loose += fastest.loose;
    }
    if (problems > 0)
        qsort(winners, most, sizeof *winners, more_wins);
    while (problems > 0 && count < most && winners[count].wins > 0)
        count++;
    for (size_t n = 0; n < count; n++) {
        page_say(page, "%s\1%s\1",
                 n == 0 ? "The shortest of all times came from " : comma(n, count),
                 report->names[winners[n].name]);
        if (ours(winners[n].name) && report_measured(report) > 1)
            page_say(page, " on %s", report->devices[winners[n].device].label.text);
        page_say(page, n == 0 ? " for %zu of %zu problems" : " for %zu", winners[n].wins, problems);
        if (winners[n].loose > 0)
            page_say(page, " (in half precision for %zu of these)", winners[n].loose);
    }
    if (count > 0)
        page_paragraph(page, "lead", ".");
    free(winners);
}

/* ---- devices --------------------------------------------------------------------------------- */

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

/* Whether another device is as fast, but for what runs one after another differ by anyway. */
static bool level(const struct report *report, size_t best)
{
    for (size_t d = 0; d < report->num_devices; d++)
        if (d != best && report->devices[d].measured &&
            compare(report, best, d).mean < 1.0 + RESULTS_NOISY)
            return true;
    return false;
}

void report_ranking(struct page *page)
{
    const struct report *report = page->report;
    const size_t devices = report_measured(report);
    size_t best = report->num_devices, others = 0;

    for (size_t d = 0; d < report->num_devices; d++)
        if (report->devices[d].measured &&
            (best == report->num_devices || compare(report, best, d).mean < 1.0))
            best = d;
    if (devices < 2)
        return;
    const struct spread own = compare(report, best, best);
    page_heading(page, "Which device");
    if (own.count == 0) {
        page_paragraph(page, "text",
                       "clattn computed no problem on all of the devices, so they cannot be "
                       "ranked.");
        return;
    }
    page_say(page,
             level(report, best) ? "With clattn \1%s\1 is level with the next device, as far as "
                                   "can be told from runs one after another. Over the %s "
                                 : "With clattn \1%s\1 is the fastest device. Over the %s ",
             report->devices[best].label.text, text_count(own.count, "problem").text);
    page_say(page, "that all %zu devices computed, by the geometric mean, it is ", devices);
    for (size_t d = 0; d < report->num_devices; d++) {
        const struct spread spread = compare(report, best, d);
        if (!report->devices[d].measured || d == best)
            continue;
        page_say(page, "%s\1%s times\1 as fast as %s (%s to %s)", comma(others, devices - 1),
                 text_number(spread.mean).text, report->devices[d].label.text,
                 text_rough(spread.low).text, text_rough(spread.high).text);
        others++;
    }
    page_say(page, ". It was first for %zu of them.", first_places(report, best));
    for (size_t d = 0; d < report->num_devices; d++)
        if (report->devices[d].measured && d != best && first_places(report, d) > 0)
            page_say(page, " %s was first for %zu.", report->devices[d].label.text,
                     first_places(report, d));
    page_paragraph(
        page, "text",
        " Devices are measured one after another, so these ratios are less certain than those "
        "between libraries, which take turns.");
}
