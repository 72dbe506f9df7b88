/* The roofline: what was reached, below what the device's own peaks allow. S. Williams, A.
 * Waterman, D. Patterson, "Roofline" (2009). */
#include "bench/report/report_page.h"

#include <math.h>

static double intensity(const struct record *record)
{
    return record->bytes > 0.0 && record->flops > 0.0 ? record->flops / record->bytes : NAN;
}

static void write_rows(struct table *table, const struct report *report)
{
    for (size_t p = 0; p < report->num_problems; p++) {
        for (size_t d = 0; d < report->num_devices; d++) {
            if (report_record(report, d, p) == NULL)
                continue;
            table_row(table);
            table_text(table, report->problems[p].label.text);
            table_text(table, report->devices[d].label.text);
            table_number(table, intensity(report_record(report, d, p)));
            for (size_t n = 0; n < report->num_names; n++)
                table_number(table, report_gflops(report, d, p, n));
        }
    }
}

/* Whether there is a point to draw. */
static bool any_point(const struct report *report)
{
    for (size_t d = 0; d < report->num_devices; d++)
        for (size_t p = 0; p < report->num_problems; p++)
            for (size_t n = 0; n < report->num_names; n++)
                if (report_gflops(report, d, p, n) > 0.0 &&
                    intensity(report_record(report, d, p)) > 0.0)
                    return true;
    return false;
}

void report_roofline(struct page *page)
{
    const struct report *report = page->report;

    if (!any_point(report)) {
        page_paragraph(page, "text", "Nothing was timed, so there is nothing to draw.");
        return;
    }
    json_t *panels = json_array();
    for (size_t d = 0; d < report->num_devices; d++) {
        const struct peak_samples *peaks = &report->devices[d].run->peaks;
        const double half =
            fmax(report_peak(&peaks->fma[PEAK_F16]), report_peak(&peaks->fma[PEAK_BF16]));
        if (report->devices[d].measured)
            page_put(page, panels,
                     json_pack("{s:o, s:o, s:o, s:o}", "name",
                               text_json(report->devices[d].label.text), "fma",
                               page_number(report_peak(&peaks->fma[PEAK_F32])), "half",
                               page_number(half), "read", page_number(report_peak(&peaks->read))));
    }
    struct table table = table_begin(page, "GFLOP/s and the operations for each byte");
    table_column(&table, "Problem", "text");
    table_column(&table, "Device", "text");
    table_column(&table, "FLOP/byte", "number");
    table_columns_of_names(&table);
    write_rows(&table, report);
    table_end_figure(
        &table, "Roofline",
        "Each point is a problem: the further right, the more operations it needs for each "
        "byte it must move. The solid line is the most that the device's measured peaks "
        "allow: where it slopes, memory is the limit, where it is level, arithmetic (a "
        "dashed level: arithmetic of 16 bits). The nearer a point to the line, the "
        "less there is left to gain. A point above the slope was served by caches.",
        "For each device a panel with the implementations' GFLOP/s over the arithmetic "
        "intensity of the problems, and the device's roofs. All numbers are in the table "
        "below the figure.",
        json_pack("{s:s, s:s, s:s, s:b, s:i, s:i, s:o}", "kind", "panels", "x",
                  "FLOP for each byte", "y", "GFLOP/s", "lines", 0, "x_column", 2, "first_column",
                  3, "panels", panels));
}
