/* Figures of a page: a caption, the chart in two sizes, its numbers as a table. */
#ifndef CLATTN_BENCH_REPORT_FIGURE_H
#define CLATTN_BENCH_REPORT_FIGURE_H

#include "bench/report/charts/report_draw.h"

/* Writes the commands that draw `what`. */
typedef void figure_draw(const void *what, struct canvas *canvas);

struct figure {
    const char *title;       /* Not yet escaped, like all of these. */
    const char *caption;     /* How to read it. */
    const char *description; /* What it shows, for those who cannot see it. */
    figure_draw *draw;
    const void *what;
};

/* The figure; its table, which figure_table_end() ends, is the caller's to fill in. */
void figure_write(struct page *page, const struct figure *figure);

/* Opens the table beside the figure above, up to the row of headings, `first` the first of them. */
void figure_table(const struct page *page, const char *caption, const char *first);
void figure_table_end(const struct page *page);

/* ---- rows of points -------------------------------------------------------------------------- */

/* One row for each label, in it a point for each series; ranges where low < high. */
struct rows {
    const char *axis; /* What the points' places mean. */
    bool logarithmic;
    double low, high; /* Of the axis. */
    double mark;      /* Where a line stands: the roof, a ratio of 1. */
    const char **labels;
    size_t count;
    struct series series;
    const struct spread *values; /* count * series.count; without a point where its count is 0. */
    double lane;                 /* Height for one series in a row. */
};

void figure_draw_rows(const void *rows, struct canvas *canvas);

/* ---- panels beside each other ---------------------------------------------------------------- */

struct panel {
    const char *title;
    double fma, half, read; /* Roofs in GFLOP/s and GB/s; NAN for none. */
};

struct panels {
    const char *x_axis, *y_axis;
    double x_low, x_high, y_low, y_high; /* Both axes are logarithmic. */
    const size_t *lengths;               /* Labels of the x axis; NULL for powers of ten. */
    size_t num_lengths;
    const struct panel *panels;
    size_t count;
    struct series series;
    bool lines; /* From point to point. */
    /* Writes a line "x y" for each point. */
    void (*points)(FILE *script, const void *data, size_t panel, size_t series);
    const void *data;
};

void figure_draw_panels(const void *panels, struct canvas *canvas);

#endif
