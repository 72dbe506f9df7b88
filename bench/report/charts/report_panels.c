/* Panels beside each other, under each other on a phone, all with the same axes and one legend. */
#include "bench/report/charts/report_figure.h"
#include "bench/report/report_text.h"

#include <math.h>

#define PANEL_HEIGHT 250.0

/* Lengths as labels where there is room, "2k" for 2048; never two that touch. */
static void write_lengths(const struct panels *panels, const struct canvas *canvas, double width)
{
    const double unit = width / log(panels->x_high / panels->x_low);
    const char *between = "";
    double last = -1e9;

    fprintf(canvas->script, "set logscale x\nset xrange [%g:%g]\nset xtics (", panels->x_low,
            panels->x_high);
    for (size_t n = 0; n < panels->num_lengths; n++) {
        const size_t length = panels->lengths[n];
        const double at = unit * log((double)length / panels->x_low);
        if (at - last < canvas_digits(canvas, 5))
            continue;
        last = at;
        if (length >= 1024 && length % 1024 == 0)
            fprintf(canvas->script, "%s'%zuk' %zu", between, length / 1024, length);
        else
            fprintf(canvas->script, "%s'%zu' %zu", between, length, length);
        between = ", ";
    }
    fputs(")\n", canvas->script);
}

/* The line under which all results must be. */
static void write_roof(const struct panels *panels, FILE *script, size_t n)
{
    const struct panel *panel = &panels->panels[n];
    const double ridge = panel->fma / panel->read;

    fprintf(script, "$roof%zu << EOD\n%g %g\n", n, panels->x_low,
            fmin(panel->fma, panel->read * panels->x_low));
    if (ridge > panels->x_low && ridge < panels->x_high)
        fprintf(script, "%g %g\n", ridge, panel->fma);
    fprintf(script, "%g %g\nEOD\n", panels->x_high, fmin(panel->fma, panel->read * panels->x_high));
    if (panel->half > 0.0)
        fprintf(script, "$half%zu << EOD\n%g %g\n%g %g\nEOD\n", n,
                fmax(panels->x_low, panel->half / panel->read), panel->half, panels->x_high,
                panel->half);
}

static void write_data(const struct panels *panels, FILE *script)
{
    for (size_t n = 0; n < panels->count; n++) {
        if (panels->panels[n].fma > 0.0 && panels->panels[n].read > 0.0)
            write_roof(panels, script, n);
        for (size_t s = 0; s < panels->series.count; s++) {
            fprintf(script, "$p%zu_%zu << EOD\n", n, s);
            panels->points(script, panels->data, n, s);
            fputs("EOD\n", script);
        }
    }
}

/* `width` is what there is for the title. */
static void plot_panel(const struct panels *panels, const struct canvas *canvas, size_t n,
                       double width)
{
    const struct panel *panel = &panels->panels[n];
    FILE *script = canvas->script;
    char title[4 * REPORT_LABEL + 1];

    text_fit(title, panel->title, width / canvas->font);
    fputs("set title ", script);
    text_plot(script, title);
    fputs(" offset 0,-0.5\nplot ", script);
    if (panel->fma > 0.0 && panel->read > 0.0) {
        fprintf(script, "$roof%zu with lines lc '#1B1F24' lw 1.8 notitle, ", n);
        if (panel->half > 0.0)
            fprintf(script, "$half%zu with lines lc '#1B1F24' lw 1.4 dt (6,4) notitle, ", n);
    }
    for (size_t s = panels->series.count; s-- > 0;) { /* clattn's on top */
        fprintf(script, "$p%zu_%zu using 1:2 ", n, s);
        series_style(script, &panels->series, s, panels->lines);
        fputs(s > 0 ? " notitle, " : " notitle\n", script);
    }
}

void figure_draw_panels(const void *what, struct canvas *canvas)
{
    const struct panels *panels = what;
    FILE *script = canvas->script;
    const size_t columns = canvas->narrow ? 1 : panels->count == 2 || panels->count == 4 ? 2 : 3;
    const size_t lines = (panels->count + columns - 1) / columns;
    const double head = 2.4 * canvas->font, foot = 4.2 * canvas->font;
    const double left = canvas_digits(canvas, 6) + 2.0 * canvas->font,
                 right = canvas_digits(canvas, 2);
    const double column = canvas->width / (double)columns;
    const double axes = fmin(column - left - right, 640.0);

    canvas_measure_legend(canvas, &panels->series);
    canvas->height = canvas->legend + (double)lines * (head + PANEL_HEIGHT + foot);
    canvas_begin(canvas);
    write_data(panels, script);
    fputs("set multiplot\nset grid xtics ytics\n", script);
    if (panels->lengths != NULL)
        write_lengths(panels, canvas, axes);
    else
        axis_decades(canvas, 'x', panels->x_low, panels->x_high, axes);
    axis_decades(canvas, 'y', panels->y_low, panels->y_high, PANEL_HEIGHT);
    for (size_t n = 0; n < panels->count; n++) {
        const double x = column * (double)(n % columns) + left;
        const double y =
            canvas->legend + (head + PANEL_HEIGHT + foot) * (double)(n / columns) + head;
        canvas_place(canvas, x, x + axes, y, y + PANEL_HEIGHT);
        if (n == 0)
            canvas_legend(canvas, &panels->series, panels->lines);
        canvas_name_x(canvas, panels->x_axis, x, x + axes, y + PANEL_HEIGHT);
        canvas_name_y(canvas, panels->y_axis, x - left, y, y + PANEL_HEIGHT);
        plot_panel(panels, canvas, n, axes);
        fputs("unset label\nunset arrow\n", script); /* of this panel and of the legend */
    }
    fputs("unset multiplot\n", script);
}
