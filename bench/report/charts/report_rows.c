/* Rows of points: labels at the left, or on a phone above their points. */
#include "bench/report/charts/report_figure.h"
#include "bench/report/report_text.h"

#include <math.h>
#include <stdlib.h>

#define MOST_LABEL 23.0 /* Times the font's size, at the left. */

/* Where things are, from the top of the axes. */
struct layout {
    double left, top, row, offset; /* `offset` is where a row's lanes begin. */
};

static struct layout lay_out(const struct rows *rows, const struct canvas *canvas)
{
    struct layout layout = {.left = 12.0, .top = canvas->legend + 12.0};
    char label[4 * REPORT_LABEL + 1];

    for (size_t n = 0; n < rows->count && !canvas->narrow; n++) {
        text_fit(label, rows->labels[n], MOST_LABEL);
        layout.left = fmax(layout.left, canvas->font * (text_em(label) + 1.0));
    }
    layout.offset = canvas->narrow ? canvas->font + 8.0 : 5.0;
    layout.row = layout.offset + rows->lane * (double)rows->series.count + 5.0;
    layout.row = fmax(layout.row, canvas->font + 10.0);
    return layout;
}

static void write_labels(const struct rows *rows, const struct canvas *canvas,
                         const struct layout *layout)
{
    char cut[4 * REPORT_LABEL + 1];

    for (size_t n = 0; n < rows->count; n++) {
        const double top = layout->row * (double)n;
        text_fit(cut, rows->labels[n],
                 canvas->narrow ? (canvas->width - 40.0) / canvas->font : MOST_LABEL);
        fputs("set label ", canvas->script);
        text_plot(canvas->script, cut);
        if (canvas->narrow)
            fprintf(canvas->script, " at graph 0,first %.2f left offset 0.4,0 front\n",
                    top + 3.0 + canvas->font / 2.0);
        else
            fprintf(canvas->script, " at graph 0,first %.2f right offset -0.8,0\n",
                    top + layout->row / 2.0);
    }
}

static void write_axis(const struct rows *rows, const struct canvas *canvas, double length)
{
    if (rows->logarithmic)
        axis_decades(canvas, 'x', rows->low, rows->high, length);
    else
        fprintf(canvas->script, "set xrange [%g:%g]\nset xtics %g\n", rows->low, rows->high,
                rows->high > 200.0 ? ceil(rows->high / 500.0) * 100.0 : 20.0);
    fputs("set grid xtics\n", canvas->script);
}

/* A line from row to row, which leaves out labels that stand in the rows. */
static void write_mark(const struct rows *rows, const struct canvas *canvas,
                       const struct layout *layout)
{
    for (size_t n = 0; n < rows->count; n++)
        fprintf(canvas->script,
                "set arrow from %g,%.2f to %g,%.2f nohead lc '#1B1F24' lw 1.4 back\n", rows->mark,
                layout->row * (double)n + (canvas->narrow ? layout->offset : 0.0), rows->mark,
                layout->row * (double)(n + 1));
}

/* The points of a series, each with the ends of its range, as lines of data. */
static void write_points(const struct rows *rows, const struct canvas *canvas,
                         const struct layout *layout, size_t series)
{
    const double lanes = rows->lane * (double)rows->series.count;
    const double room = layout->row - layout->offset - (canvas->narrow ? 0.0 : 5.0);

    fprintf(canvas->script, "$s%zu << EOD\n", series);
    for (size_t n = 0; n < rows->count; n++) {
        const struct spread *value = &rows->values[n * rows->series.count + series];
        if (value->count > 0)
            fprintf(canvas->script, "%.6g %.2f %.6g %.6g\n", value->mean,
                    layout->row * (double)n + layout->offset + (room - lanes) / 2.0 +
                        rows->lane * ((double)series + 0.5),
                    value->low, value->high);
    }
    fputs("EOD\n", canvas->script);
}

void figure_draw_rows(const void *what, struct canvas *canvas)
{
    const struct rows *rows = what;
    FILE *script = canvas->script;

    canvas_measure_legend(canvas, &rows->series);
    const struct layout layout = lay_out(rows, canvas);
    const double height = layout.row * (double)rows->count;
    const double right = canvas->width - canvas_digits(canvas, 3);
    canvas->height = layout.top + height + 3.6 * canvas->font;
    canvas_begin(canvas);
    canvas_legend(canvas, &rows->series, false);
    canvas_name_x(canvas, rows->axis, layout.left, right, layout.top + height);
    canvas_place(canvas, layout.left, right, layout.top, layout.top + height);
    fprintf(script, "set border 1\nunset ytics\nset yrange [%.2f:0]\n", height);
    for (size_t n = 1; n < rows->count; n += 2)
        fprintf(script,
                "set object rectangle from graph 0,first %.2f to graph 1,first %.2f behind "
                "fillcolor '#F3F5F7' fillstyle solid noborder\n",
                layout.row * (double)n, layout.row * (double)(n + 1));
    write_axis(rows, canvas, right - layout.left);
    write_labels(rows, canvas, &layout);
    write_mark(rows, canvas, &layout);
    for (size_t n = 0; n < rows->series.count; n++)
        write_points(rows, canvas, &layout, n);
    fputs("plot ", script);
    for (size_t n = 0; n < rows->series.count; n++)
        fprintf(script,
                "$s%zu using 3:2:($4-$3):(0) with vectors nohead lc '#57606A' lw 1 notitle, ", n);
    for (size_t n = 0; n < rows->series.count; n++) {
        fprintf(script, "$s%zu using 1:2 ", n);
        series_style(script, &rows->series, n, false);
        fputs(n + 1 < rows->series.count ? " notitle, " : " notitle\n", script);
    }
}
