/* The roofline: what was reached, below what the device's own peaks allow. S. Williams, A.
 * Waterman, D. Patterson, "Roofline" (2009). */
#include "bench/report/charts/report_figure.h"
#include "bench/report/report_text.h"

#include <math.h>
#include <stdlib.h>

struct cloud {
    const struct report *report;
    size_t *devices; /* Of the panels. */
};

static double intensity(const struct record *record)
{
    return record->bytes > 0.0 && record->flops > 0.0 ? record->flops / record->bytes : NAN;
}

static void write_points(FILE *script, const void *data, size_t panel, size_t series)
{
    const struct cloud *cloud = data;
    const size_t device = cloud->devices[panel];

    for (size_t p = 0; p < cloud->report->num_problems; p++) {
        const double y = report_gflops(cloud->report, device, p, series);
        if (y > 0.0 && intensity(report_record(cloud->report, device, p)) > 0.0)
            fprintf(script, "%.6g %.6g\n", intensity(report_record(cloud->report, device, p)), y);
    }
}

static void write_table(const struct page *page)
{
    const struct report *report = page->report;

    figure_table(page, "GFLOP/s and the operations for each byte", "Problem");
    fputs("<th scope=\"col\">Device</th><th scope=\"col\" class=\"n\">FLOP/byte</th>", page->out);
    for (size_t n = 0; n < report->num_names; n++)
        fprintf(page->out, "<th scope=\"col\" class=\"n\">%s</th>",
                text_escaped(report->names[n]).text);
    fputs("</tr></thead><tbody>\n", page->out);
    for (size_t p = 0; p < report->num_problems; p++) {
        for (size_t d = 0; d < report->num_devices; d++) {
            if (report_record(report, d, p) == NULL)
                continue;
            fprintf(page->out, "<tr><th scope=\"row\">%s</th><td>%s</td><td class=\"n\">%s</td>",
                    text_escaped(report->problems[p].label.text).text,
                    text_escaped(report->devices[d].label.text).text,
                    text_number(intensity(report_record(report, d, p))).text);
            for (size_t n = 0; n < report->num_names; n++)
                fprintf(page->out, "<td class=\"n\">%s</td>",
                        text_number(report_gflops(report, d, p, n)).text);
            fputs("</tr>\n", page->out);
        }
    }
    figure_table_end(page);
}

/* The limits of both axes, so that all points and all roofs are inside. */
static void find_limits(const struct report *report, struct panels *panels)
{
    panels->x_low = panels->y_low = INFINITY;
    panels->x_high = panels->y_high = 0.0;
    for (size_t n = 0; n < panels->count; n++) {
        panels->y_high = fmax(panels->y_high, fmax(panels->panels[n].fma, panels->panels[n].half));
        for (size_t p = 0; p < report->num_problems; p++) {
            for (size_t i = 0; i < report->num_names; i++) {
                const size_t device = ((const struct cloud *)panels->data)->devices[n];
                const double y = report_gflops(report, device, p, i);
                const double x = isnan(y) ? NAN : intensity(report_record(report, device, p));
                if (!(x > 0.0) || !(y > 0.0))
                    continue;
                panels->x_low = fmin(panels->x_low, x);
                panels->x_high = fmax(panels->x_high, x);
                panels->y_low = fmin(panels->y_low, y);
                panels->y_high = fmax(panels->y_high, y);
            }
        }
    }
    panels->x_low /= 2.0;
    panels->x_high *= 2.0;
    panels->y_low /= 1.5;
    panels->y_high *= 1.8;
}

void report_roofline(struct page *page)
{
    const struct report *report = page->report;
    struct cloud cloud = {report, calloc(report->num_devices + 1, sizeof *cloud.devices)};
    struct panel *panel = calloc(report->num_devices + 1, sizeof *panel);
    struct panels panels = {
        .x_axis = "FLOP for each byte",
        .y_axis = "GFLOP/s",
        .panels = panel,
        .series = {.names = report->names, .count = report->num_names},
        .points = write_points,
        .data = &cloud,
    };

    for (size_t d = 0; cloud.devices != NULL && panel != NULL && d < report->num_devices; d++) {
        const struct peak_samples *peaks = &report->devices[d].run->peaks;
        if (!report->devices[d].measured)
            continue;
        panel[panels.count] =
            (struct panel){report->devices[d].label.text, report_peak(&peaks->fma),
                           report_peak(&peaks->fma_half), report_peak(&peaks->read)};
        cloud.devices[panels.count++] = d;
    }
    find_limits(report, &panels);
    if (panels.x_high > 0.0) {
        figure_write(
            page,
            &(struct figure){
                "Roofline",
                "Each point is a problem: the further right, the more operations it needs for each "
                "byte it must move. The solid line is the most that the device's measured peaks "
                "allow: where it slopes, memory is the limit, where it is level, arithmetic (a "
                "dashed level: half-precision arithmetic). The nearer a point to the line, the "
                "less there is left to gain. A point above the slope was served by caches.",
                "For each device a panel with the implementations' GFLOP/s over the arithmetic "
                "intensity of the problems, and the device's roofs. All numbers are in the table "
                "below the figure.",
                figure_draw_panels, &panels});
        write_table(page);
    } else {
        fputs("<p>Nothing was timed, so there is nothing to draw.</p>\n", page->out);
    }
    free(cloud.devices);
    free(panel);
}
