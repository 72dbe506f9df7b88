/* The speed-up over other implementations, and the share of what the device can do. */
#include "bench/report/charts/report_figure.h"
#include "bench/report/report_text.h"

#include <math.h>
#include <stdlib.h>

/* Rows and columns of numbers for a figure, with room for all there can be. */
struct grid {
    struct rows rows;
    const char **labels;
    size_t *row_of; /* The device or problem of each row. */
    const char **names;
    size_t *styles; /* The implementation or device of each series. */
    struct spread *values;
};

static bool grid_open(struct grid *grid, const struct report *report)
{
    const size_t most = report->num_problems + report->num_devices + report->num_names + 1;

    *grid = (struct grid){.labels = calloc(most, sizeof *grid->labels),
                          .row_of = calloc(most, sizeof *grid->row_of),
                          .names = calloc(most, sizeof *grid->names),
                          .styles = calloc(most, sizeof *grid->styles),
                          .values = calloc(most * most, sizeof *grid->values)};
    grid->rows.labels = grid->labels;
    grid->rows.values = grid->values;
    grid->rows.series.names = grid->names;
    grid->rows.series.styles = grid->styles;
    return grid->labels != NULL && grid->row_of != NULL && grid->names != NULL &&
           grid->styles != NULL && grid->values != NULL;
}

static void grid_free(struct grid *grid)
{
    free(grid->labels);
    free(grid->row_of);
    free(grid->names);
    free(grid->styles);
    free(grid->values);
}

static void add_row(struct grid *grid, const char *label, size_t of)
{
    grid->row_of[grid->rows.count] = of;
    grid->labels[grid->rows.count++] = label;
}

static void add_series(struct grid *grid, const char *name, size_t style)
{
    grid->styles[grid->rows.series.count] = style;
    grid->names[grid->rows.series.count++] = name;
}

/* A value that stands alone. */
static struct spread single(double value)
{
    struct spread spread = {.count = 0};

    spread_add(&spread, value);
    return spread;
}

/* The axis' limits, so that all values and the mark are inside. */
static void find_limits(struct rows *rows)
{
    rows->low = rows->logarithmic ? 0.5 : 0.0;
    rows->high = rows->logarithmic ? 2.0 : 100.0;
    for (size_t n = 0; n < rows->count * rows->series.count; n++) {
        if (rows->values[n].count == 0)
            continue;
        rows->high = fmax(rows->high, rows->values[n].high * (rows->logarithmic ? 1.15 : 1.02));
        if (rows->logarithmic)
            rows->low = fmin(rows->low, rows->values[n].low / 1.15);
    }
}

/* The numbers beside the figure; ranges are given where the figure shows any. */
static void write_table(const struct page *page, const struct grid *grid, const char *caption,
                        const char *first, bool ranges)
{
    const struct rows *rows = &grid->rows;

    figure_table(page, caption, first);
    for (size_t s = 0; s < rows->series.count; s++)
        fprintf(page->out, "<th scope=\"col\" class=\"n\">%s</th>",
                text_escaped(rows->series.names[s]).text);
    fputs("</tr></thead><tbody>\n", page->out);
    for (size_t r = 0; r < rows->count; r++) {
        fprintf(page->out, "<tr><th scope=\"row\">%s</th>", text_escaped(rows->labels[r]).text);
        for (size_t s = 0; s < rows->series.count; s++) {
            const struct spread *value = &rows->values[r * rows->series.count + s];
            if (value->count > 0)
                fprintf(page->out, "<td class=\"n\" data-v=\"%.9g\">%s", value->mean,
                        text_number(value->mean).text);
            else
                fputs("<td class=\"n\" data-v=\"\">&ndash;", page->out);
            if (value->count > 0 && ranges)
                fprintf(page->out, " <small>(%s to %s, n&nbsp;=&nbsp;%zu)</small>",
                        text_number(value->low).text, text_number(value->high).text, value->count);
            fputs("</td>", page->out);
        }
        fputs("</tr>\n", page->out);
    }
    figure_table_end(page);
}

static void write_means(struct page *page, struct grid *grid)
{
    const struct report *report = page->report;
    struct rows *rows = &grid->rows;

    for (size_t d = 0; d < report->num_devices; d++)
        if (report->devices[d].measured)
            add_row(grid, report->devices[d].label.text, d);
    for (size_t n = REPORT_UNTUNED; n < report->num_names; n++) {
        bool any = false;
        for (size_t d = 0; d < report->num_devices; d++)
            any = any || report_spread(report, d, n).count > 0;
        if (any)
            add_series(grid, report->names[n], n);
    }
    for (size_t r = 0; r < rows->count; r++)
        for (size_t s = 0; s < rows->series.count; s++)
            grid->values[r * rows->series.count + s] =
                report_spread(report, grid->row_of[r], grid->styles[s]);
    if (rows->count == 0 || rows->series.count == 0)
        return;
    find_limits(rows);
    figure_write(page, &(struct figure){"Speed-up of clattn over each alternative",
                                        "How many times as long each alternative takes as clattn: "
                                        "right of the line at 1 clattn is faster, left of it the "
                                        "alternative. Points are geometric means over all problems "
                                        "that both computed, thin lines reach from the least to "
                                        "the greatest ratio of a single problem. The scale is "
                                        "logarithmic: twice and half are equally far from 1.",
                                        "For each device the geometric mean and the range of the "
                                        "alternatives' times over clattn's. All numbers are in the "
                                        "table below the figure.",
                                        figure_draw_rows, rows});
    write_table(page, grid, "Time over clattn's: geometric mean (range, number of problems)",
                "Device", true);
}

static void write_device(struct page *page, struct grid *grid, size_t device)
{
    const struct report *report = page->report;
    struct rows *rows = &grid->rows;
    char title[256];

    for (size_t n = REPORT_UNTUNED; n < report->num_names; n++)
        if (report_spread(report, device, n).count > 0)
            add_series(grid, report->names[n], n);
    for (size_t p = 0; p < report->num_problems; p++) {
        bool any = false;
        for (size_t s = 0; s < rows->series.count; s++)
            any = any || !isnan(report_ratio(report, device, p, grid->styles[s]));
        if (any)
            add_row(grid, report->problems[p].label.text, p);
    }
    for (size_t r = 0; r < rows->count; r++)
        for (size_t s = 0; s < rows->series.count; s++)
            grid->values[r * rows->series.count + s] =
                single(report_ratio(report, device, grid->row_of[r], grid->styles[s]));
    if (rows->count == 0 || rows->series.count == 0)
        return;
    find_limits(rows);
    snprintf(title, sizeof title, "Speed-up of clattn, problem by problem, on %s",
             report->devices[device].label.text);
    figure_write(page, &(struct figure){title,
                                        "As before, but each point is the ratio for one problem. "
                                        "Right of the line at 1 clattn is faster.",
                                        "For each problem the alternatives' times over clattn's. "
                                        "All numbers are in the table below the figure.",
                                        figure_draw_rows, rows});
    write_table(page, grid, "Time over clattn's", "Problem", false);
}

void report_speedup(struct page *page)
{
    const struct report *report = page->report;
    const size_t figures = page->figures;

    for (size_t n = 0; n <= report->num_devices; n++) { /* all devices, then each one */
        struct grid grid;
        const bool ok = grid_open(&grid, report);
        grid.rows.axis = "time over clattn's (right of 1: clattn is faster)";
        grid.rows.logarithmic = true;
        grid.rows.mark = 1.0;
        grid.rows.lane = n == 0 ? 14.0 : 4.0;
        if (ok && n == 0)
            write_means(page, &grid);
        else if (ok)
            write_device(page, &grid, n - 1);
        grid_free(&grid);
    }
    if (page->figures == figures)
        fputs("<p>Nothing was timed beside clattn, so there is nothing to compare.</p>\n",
              page->out);
}

void report_share(struct page *page)
{
    const struct report *report = page->report;
    struct grid grid;
    struct rows *rows = &grid.rows;

    if (!grid_open(&grid, report)) {
        grid_free(&grid);
        return;
    }
    for (size_t d = 0; d < report->num_devices; d++)
        if (report->devices[d].measured)
            add_series(&grid, report->devices[d].label.text, d);
    for (size_t p = 0; p < report->num_problems; p++)
        add_row(&grid, report->problems[p].label.text, p);
    bool any = false;
    for (size_t r = 0; r < rows->count; r++) {
        for (size_t s = 0; s < rows->series.count; s++) {
            const struct record *record = report_record(report, grid.styles[s], grid.row_of[r]);
            struct spread *value = &grid.values[r * rows->series.count + s];
            if (record != NULL)
                *value = single(100.0 * samples_median(&record->share));
            any = any || value->count > 0;
        }
    }
    rows->axis = "clattn's share of the tighter roof, %";
    rows->mark = 100.0;
    rows->lane = 5.0;
    find_limits(rows);
    if (any) {
        figure_write(page, &(struct figure){
                               "Share of each device's peak that clattn reaches",
                               "100 % is what the device's measured peak would allow: of "
                               "arithmetic or of memory, whichever limits the problem more (the "
                               "table of results says which). Higher is better.",
                               "For each problem clattn's share of the roof on each device. All "
                               "numbers are in the table below the figure.",
                               figure_draw_rows, rows});
        write_table(page, &grid, "Share of the tighter roof, %", "Problem", false);
    } else {
        fputs("<p>No share of a peak is known.</p>\n", page->out);
    }
    grid_free(&grid);
}
