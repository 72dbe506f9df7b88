/* The speed-up over other implementations, and the share of what the device can do. */
#include "bench/report/report_page.h"

#include <math.h>
#include <stdio.h>

/* A figure of rows with a point for each series, which are the columns of its table. `styles` are
 * the numbers of the series, so that an implementation looks the same in all figures. */
static json_t *chart(const char *axis, bool logarithmic, double mark, double lane, json_t *styles)
{
    return json_pack("{s:s, s:s, s:b, s:f, s:f, s:o}", "kind", "rows", "axis", axis, "logarithmic",
                     logarithmic, "mark", mark, "lane", lane, "styles", styles);
}

static json_t *ratio_chart(double lane, json_t *styles)
{
    return chart("time over clattn's (right of 1: clattn is faster)", true, 1.0, lane, styles);
}

/* Columns for the alternatives with a ratio on the device, or on any if that is num_devices. */
static json_t *add_alternatives(struct table *table, size_t device)
{
    const struct report *report = table->page->report;
    json_t *styles = json_array();

    for (size_t n = REPORT_UNTUNED; n < report->num_names; n++) {
        bool any = false;
        for (size_t d = 0; d < report->num_devices; d++)
            any = any || ((device == d || device == report->num_devices) &&
                          report_spread(report, d, n).count > 0);
        if (!any)
            continue;
        table_column(table, report->names[n], "number");
        page_put(table->page, styles, json_integer((json_int_t)n));
    }
    return styles;
}

static size_t style_at(const json_t *styles, size_t n)
{
    return (size_t)json_integer_value(json_array_get(styles, n));
}

static bool write_means(struct page *page)
{
    const struct report *report = page->report;
    struct table table =
        table_begin(page, "Time over clattn's: geometric mean (range, number of problems)");
    table_column(&table, "Device", "text");
    json_t *styles = add_alternatives(&table, report->num_devices);

    if (json_array_size(styles) == 0) {
        json_decref(styles);
        json_decref(table.json);
        return false;
    }
    for (size_t d = 0; d < report->num_devices; d++) {
        if (!report->devices[d].measured)
            continue;
        table_row(&table);
        table_text(&table, report->devices[d].label.text);
        for (size_t s = 0; s < json_array_size(styles); s++) {
            const struct spread spread = report_spread(report, d, style_at(styles, s));
            table_number(&table, spread.count > 0 ? spread.mean : NAN);
            if (spread.count > 0)
                table_range(&table, &spread);
        }
    }
    table_end_figure(&table, "Speed-up of clattn over each alternative",
                     "How many times as long each alternative takes as clattn: right of the line "
                     "at 1 clattn is faster, left of it the alternative. Points are geometric "
                     "means over all problems that both computed, thin lines reach from the least "
                     "to the greatest ratio of a single problem. The scale is logarithmic: twice "
                     "and half are equally far from 1.",
                     "For each device the geometric mean and the range of the alternatives' times "
                     "over clattn's. All numbers are in the table below the figure.",
                     ratio_chart(14.0, styles));
    return true;
}

static void write_device(struct page *page, size_t device)
{
    const struct report *report = page->report;
    char title[256];
    struct table table = table_begin(page, "Time over clattn's");
    table_column(&table, "Problem", "text");
    json_t *styles = add_alternatives(&table, device);

    for (size_t p = 0; p < report->num_problems; p++) {
        bool any = false;
        for (size_t s = 0; s < json_array_size(styles); s++)
            any = any || !isnan(report_ratio(report, device, p, style_at(styles, s)));
        if (!any)
            continue;
        table_row(&table);
        table_text(&table, report->problems[p].label.text);
        for (size_t s = 0; s < json_array_size(styles); s++)
            table_number(&table, report_ratio(report, device, p, style_at(styles, s)));
    }
    if (json_array_size(styles) == 0) {
        json_decref(styles);
        json_decref(table.json);
        return;
    }
    snprintf(title, sizeof title, "Speed-up of clattn, problem by problem, on %s",
             report->devices[device].label.text);
    table_end_figure(&table, title,
                     "As before, but each point is the ratio for one problem. Right of the line at "
                     "1 clattn is faster.",
                     "For each problem the alternatives' times over clattn's. All numbers are in "
                     "the table below the figure.",
                     ratio_chart(4.0, styles));
}

void report_speedup(struct page *page)
{
    if (!write_means(page)) {
        page_paragraph(page, "text",
                       "Nothing was timed beside clattn, so there is nothing to compare.");
        return;
    }
    for (size_t d = 0; d < page->report->num_devices; d++)
        write_device(page, d);
}

void report_share(struct page *page)
{
    const struct report *report = page->report;
    struct table table = table_begin(page, "Share of the tighter roof, %");
    json_t *styles = json_array();
    bool any = false;

    table_column(&table, "Problem", "text");
    for (size_t d = 0; d < report->num_devices; d++) {
        if (!report->devices[d].measured)
            continue;
        table_column(&table, report->devices[d].label.text, "number");
        page_put(page, styles, json_integer((json_int_t)d));
    }
    for (size_t p = 0; p < report->num_problems; p++) {
        table_row(&table);
        table_text(&table, report->problems[p].label.text);
        for (size_t s = 0; s < json_array_size(styles); s++) {
            const struct record *record = report_record(report, style_at(styles, s), p);
            const double share = record != NULL ? 100.0 * samples_median(&record->share) : 0.0;
            table_number(&table, share > 0.0 ? share : NAN);
            any = any || share > 0.0;
        }
    }
    if (any) {
        table_end_figure(&table, "Share of each device's peak that clattn reaches",
                         "100 % is what the device's measured peak would allow: of arithmetic or "
                         "of memory, whichever limits the problem more (the table of results says "
                         "which). Higher is better.",
                         "For each problem clattn's share of the roof on each device. All numbers "
                         "are in the table below the figure.",
                         chart("clattn's share of the tighter roof, %", false, 100.0, 5.0, styles));
    } else {
        json_decref(styles);
        json_decref(table.json);
        page_paragraph(page, "text", "No share of a peak is known.");
    }
}
