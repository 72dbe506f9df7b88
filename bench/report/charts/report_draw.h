/* What all charts have in common: sizes, styles, legends, axes; written as gnuplot's commands. */
#ifndef CLATTN_BENCH_REPORT_DRAW_H
#define CLATTN_BENCH_REPORT_DRAW_H

#include "bench/report/report.h"

/* Each chart is drawn twice: 1120 wide for screens and paper, 330 wide for phones. */
struct canvas {
    FILE *script;
    bool narrow;
    double width, height, font; /* In the drawing's units, which are about pixels. */
    double legend;              /* The height of the legend at the top. */
};

/* Series that are told apart by colour, by the form of their points and by their dashes. */
struct series {
    const char **names;
    const size_t *styles; /* NULL: 0, 1, 2, ... */
    size_t count;
};

/* The size without the height, which depends on what the caller will draw. */
struct canvas canvas_new(FILE *script, bool narrow);

/* Makes room for a legend; more lines where the names are long. */
void canvas_measure_legend(struct canvas *canvas, const struct series *series);

/* Opens the drawing of canvas->height. */
void canvas_begin(const struct canvas *canvas);

/* Where axes are, from the left and from the top. */
void canvas_place(const struct canvas *canvas, double left, double right, double top,
                  double bottom);

/* Width of so many digits, generously. */
double canvas_digits(const struct canvas *canvas, size_t count);

/* Writes the legend into the room at the top. */
void canvas_legend(const struct canvas *canvas, const struct series *series, bool lines);

/* Writes what axes show: below the labels of the horizontal one; turned, beside `left`. */
void canvas_name_x(const struct canvas *canvas, const char *name, double left, double right,
                   double bottom);
void canvas_name_y(const struct canvas *canvas, const char *name, double left, double top,
                   double bottom);

/* "with points ..." or "with linespoints ..." of a series. */
void series_style(FILE *script, const struct series *series, size_t n, bool lines);

/* Labels at 1, 2 and 5 times powers of ten, fewer where they would touch, from low to high. */
void axis_decades(const struct canvas *canvas, char axis, double low, double high, double length);

#endif
