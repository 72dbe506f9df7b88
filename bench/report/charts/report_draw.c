#include "bench/report/charts/report_draw.h"
#include "bench/report/report_text.h"

#include <math.h>
#include <string.h>

/* Colours after M. Okabe, K. Ito (2008), two of them darkened so that thin lines show on white;
 * neighbours differ in lightness, in the form of their points and in their dashes. */
static const struct style {
    const char *colour;
    int point;
    const char *dashes;
    double width;
} styles[] = {
    {"#0072B2", 7, "1", 2.6},          {"#0072B2", 6, "(7,3)", 1.6},
    {"#D55E00", 9, "(2,2)", 1.6},      {"#009E73", 5, "(10,3,2,3)", 1.6},
    {"#A8548A", 13, "(4,4)", 1.6},     {"#000000", 11, "(12,5)", 1.6},
    {"#A66F00", 8, "(1,3)", 1.6},      {"#2F86BF", 4, "(8,2,2,2,2,2)", 1.6},
    {"#5B5B5B", 12, "(5,2)", 1.6},     {"#D55E00", 10, "(3,1,1,1)", 1.6},
    {"#009E73", 2, "(14,3,3,3)", 1.6}, {"#A8548A", 1, "(1,1)", 1.6},
};

#define NUM_STYLES (sizeof styles / sizeof *styles)

struct canvas canvas_new(FILE *script, bool narrow)
{
    return (struct canvas){.script = script,
                           .narrow = narrow,
                           .width = narrow ? 330.0 : 1120.0,
                           .font = narrow ? 13.0 : 14.0};
}

double canvas_digits(const struct canvas *canvas, size_t count)
{
    return 0.66 * canvas->font * (double)count;
}

/* An entry of a legend: lines are filled from the left. */
struct entry {
    char name[4 * REPORT_LABEL + 1];
    double x, y;
};

#define SAMPLE 36.0 /* Room for a point and its line. */

static struct entry next_entry(const struct canvas *canvas, const char *name, double *x, double *y)
{
    struct entry entry;

    text_fit(entry.name, name, (canvas->width - SAMPLE - 16.0) / canvas->font);
    const double width = SAMPLE + canvas->font * text_em(entry.name);
    if (*x > 8.0 && *x + width > canvas->width) {
        *x = 8.0;
        *y += canvas->font + 8.0;
    }
    entry.x = *x;
    entry.y = *y;
    *x += width + 16.0;
    return entry;
}

void canvas_measure_legend(struct canvas *canvas, const struct series *series)
{
    double x = 8.0, y = canvas->font;

    for (size_t n = 0; n < series->count; n++)
        next_entry(canvas, series->names[n], &x, &y);
    canvas->legend = y + canvas->font;
}

void canvas_begin(const struct canvas *canvas)
{
    fprintf(canvas->script,
            "set encoding utf8\n"
            "set terminal svg size %.0f,%.0f dynamic noenhanced font 'sans-serif,%.0f' "
            "background '#ffffff' dashlength 1.0\n"
            "set border 3 lc '#57606A' lw 1\n"
            "set tics nomirror out scale 0.5 textcolor '#1B1F24'\n"
            "unset key\n"
            "set xtics offset 0,0.3\n"
            "set grid noytics lt 1 lc '#D9DEE3' lw 1\n"
            "set samples 2\n",
            canvas->width, canvas->height, canvas->font);
}

void canvas_place(const struct canvas *canvas, double left, double right, double top, double bottom)
{
    fprintf(canvas->script,
            "set lmargin at screen %.5f\nset rmargin at screen %.5f\n"
            "set tmargin at screen %.5f\nset bmargin at screen %.5f\n",
            left / canvas->width, right / canvas->width, 1.0 - top / canvas->height,
            1.0 - bottom / canvas->height);
}

static const struct style *style_of(const struct series *series, size_t n)
{
    return &styles[(series->styles != NULL ? series->styles[n] : n) % NUM_STYLES];
}

void series_style(FILE *script, const struct series *series, size_t n, bool lines)
{
    const struct style *style = style_of(series, n);

    fprintf(script, "with %s lc '%s' pt %d ps 0.75", lines ? "linespoints" : "points",
            style->colour, style->point);
    if (lines)
        fprintf(script, " lw %.1f dt %s", style->width, style->dashes);
}

void canvas_legend(const struct canvas *canvas, const struct series *series, bool lines)
{
    double x = 8.0, y = canvas->font;

    for (size_t n = 0; n < series->count; n++) {
        const struct style *style = style_of(series, n);
        const struct entry entry = next_entry(canvas, series->names[n], &x, &y);
        const double level = 1.0 - entry.y / canvas->height;
        if (lines)
            fprintf(canvas->script,
                    "set arrow from screen %.5f,%.5f to screen %.5f,%.5f nohead lc '%s' lw %.1f "
                    "dt %s\n",
                    entry.x / canvas->width, level, (entry.x + 30.0) / canvas->width, level,
                    style->colour, style->width, style->dashes);
        fprintf(canvas->script,
                "set label '' at screen %.5f,%.5f point lc '%s' pt %d ps 0.75\nset label ",
                (entry.x + 15.0) / canvas->width, level, style->colour, style->point);
        text_plot(canvas->script, entry.name);
        fprintf(canvas->script, " at screen %.5f,%.5f left\n", (entry.x + SAMPLE) / canvas->width,
                level);
    }
}

void canvas_name_x(const struct canvas *canvas, const char *name, double left, double right,
                   double bottom)
{
    fputs("set label ", canvas->script);
    text_plot(canvas->script, name);
    fprintf(canvas->script, " at screen %.5f,%.5f center\n", (left + right) / 2.0 / canvas->width,
            1.0 - (bottom + 2.7 * canvas->font) / canvas->height);
}

void canvas_name_y(const struct canvas *canvas, const char *name, double left, double top,
                   double bottom)
{
    fputs("set label ", canvas->script);
    text_plot(canvas->script, name);
    fprintf(canvas->script, " at screen %.5f,%.5f center rotate by 90\n",
            (left + canvas->font) / canvas->width, 1.0 - (top + bottom) / 2.0 / canvas->height);
}

void axis_decades(const struct canvas *canvas, char axis, double low, double high, double length)
{
    static const double steps[] = {1.0, 2.0, 5.0};
    const double decades = fmax(log10(high / low), 0.01), decade = length / decades;
    const double room = axis == 'x' ? canvas_digits(canvas, 6) : 2.0 * canvas->font;
    const size_t parts = 0.3 * decade >= room ? 3 : 1;
    const int every = decade >= room ? 1 : (int)ceil(room / decade);
    const char *between = "";

    fprintf(canvas->script, "set %ctics (", axis);
    for (int power = (int)floor(log10(low)); power <= (int)ceil(log10(high)); power++) {
        for (size_t n = 0; n < parts && power % every == 0; n++) {
            const double value = steps[n] * pow(10.0, power);
            if (value < low * 0.999 || value > high * 1.001)
                continue;
            fprintf(canvas->script, "%s'%g' %g", between, value, value);
            between = ", ";
        }
    }
    fprintf(canvas->script, ")\nset logscale %c\nset %crange [%g:%g]\n", axis, axis, low, high);
}
