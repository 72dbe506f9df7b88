/* Drawings by gnuplot, in a process of its own, as SVG that can stand in a page beside others. */
#ifndef CLATTN_BENCH_REPORT_PLOT_H
#define CLATTN_BENCH_REPORT_PLOT_H

#include "cli/message.h"

#include <stdio.h>

/* Whether gnuplot can be started; otherwise *why says how it is installed. */
bool plot_present(struct message *why);

/* Has gnuplot run the script, a file open for reading and writing, and writes what it drew to
 * `out`: one svg element, all ids in it beginning with `id`, which scripts of gnuplot's are not in.
 * `title` and `description` are read out in place of the drawing. On failure nothing is written. */
bool plot_svg(FILE *script, const char *id, const char *title, const char *description, FILE *out,
              struct message *why);

#endif
