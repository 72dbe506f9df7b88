/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/comparison_looks.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what is compared ------------------------------------------------------------------------ */

static void print_file(const struct comparison *c, size_t file, bool hosts)
{
    const struct run_results *results = &c->files[file];
    const size_t length = strlen(results->path), room = 55;
    char host[320];

    printf("%c  %.10s %.5s  clattn %-8.16s  %s%s\n", comparison_letter(file), results->date,
           results->date + 11, results->clattn, length > room ? "..." : "",
           results->path + (length > room ? length - room : 0));
    if (!hosts)
        return;
    snprintf(host, sizeof host, "on %s (%u online), %s", results->processor, results->processors,
             results->system);
    fputs("   ", stdout);
    ca_print_wrapped(stdout, 3, "%s", host);
}

static void print_files(const struct comparison *c)
{
    bool differ = false;

    for (size_t file = 1; file < c->num_files; file++)
        differ = differ || strcmp(c->files[0].processor, c->files[file].processor) != 0 ||
                 strcmp(c->files[0].system, c->files[file].system) != 0 ||
                 c->files[0].processors != c->files[file].processors;
    for (size_t file = 0; file < c->num_files; file++)
        print_file(c, file, differ);
}

/* The name of a device, which one that failed early may not have. */
static void print_device(char text[static 160], const struct device_run *run)
{
    if (run->info.name[0] != '\0')
        snprintf(text, 160, "%s", run->info.name);
    else
        snprintf(text, 160, "device %zu", run->index);
}

/* Prints the facts that one file has of the device. */
static void print_run(const struct comparison_group *group, size_t file)
{
    const struct device_run *run = group->run[file];
    char text[2048], name[160];
    size_t length = 0;

    printf("  %c  ", comparison_letter(file));
    if (run == NULL) {
        puts("does not have it");
        return;
    }
    if (group->other[file]) {
        print_device(name, run);
        length += (size_t)snprintf(text, sizeof text, "another device: %s, %u units; ", name,
                                   run->info.compute_units);
    }
    length += (size_t)snprintf(text + length, sizeof text - length, "driver %s",
                               run->info.driver_version[0] != '\0' ? run->info.driver_version
                                                                   : "unknown");
    const double noise = device_run_noise(run);
    if (run->count > 0 && isfinite(noise))
        length += (size_t)snprintf(text + length, sizeof text - length, ", noise %.1f %%%s",
                                   noise * 100.0, noise >= RESULTS_NOISY ? " (much)" : "");
    if (isfinite(run->load[0]))
        length +=
            (size_t)snprintf(text + length, sizeof text - length, ", load %.2f", run->load[0]);
    if (run->interrupted)
        length += (size_t)snprintf(text + length, sizeof text - length,
                                   "; interrupted: what was measured until then is here");
    if (run->failed.text[0] != '\0')
        snprintf(text + length, sizeof text - length, "; failed: %s", run->failed.text);
    ca_print_wrapped(stdout, 5, "%s", text);
}

static void print_group_heading(const struct comparison *c, const struct comparison_group *group)
{
    const struct device_run *run = comparison_device(group);
    char name[160];

    print_device(name, run);
    putchar('\n');
    ca_colour(stdout, "1");
    printf("%.75s (%s, %u units)\n", name, target_type_name(run->info.type),
           run->info.compute_units);
    ca_colour(stdout, "0");
    if (run->info.platform_name[0] != '\0')
        printf("%.100s\n", run->info.platform_name);
    for (size_t file = 0; file < c->num_files; file++)
        print_run(group, file);
}

/* ---- what it comes to ------------------------------------------------------------------------ */

static void print_regression(const struct comparison *c, const struct comparison_group *group,
                             const struct comparison_row *row, size_t file)
{
    const struct comparison_cell *cell = &row->cell[file];
    const struct outcome *outcome = cell->outcome;
    char text[2048], device[160];
    size_t length;

    print_device(device, comparison_device(group));
    length = (size_t)snprintf(text, sizeof text, "%s%s%.128s%s", row->problem,
                              row->name[0] != '\0' ? " (" : "", row->name,
                              row->name[0] != '\0' ? ")" : "");
    length = length < 1000 ? length : 1000;
    if (c->num_groups > 1)
        length += (size_t)snprintf(text + length, sizeof text - length, " on %s", device);
    if (cell->verdict == VERDICT_SLOWER)
        snprintf(text + length, sizeof text - length, ": %.1f %% slower, surely %.1f %%",
                 (cell->ratio.middle - 1.0) * 100.0, (cell->ratio.low - 1.0) * 100.0);
    else
        snprintf(text + length, sizeof text - length, ": %s%s%s", verdict_kinds[cell->verdict].word,
                 outcome != NULL && outcome->why.text[0] != '\0' ? ", " : "",
                 outcome != NULL ? outcome->why.text : "");
    printf("! %c  ", comparison_letter(file));
    ca_print_wrapped(stdout, 5, "%s", text);
}

/* Returns why a file may lack whatever it lacks of a device; NULL if only of some problems. */
static const char *absence(const struct device_run *run)
{
    return run == NULL                   ? "is not there"
           : run->failed.text[0] != '\0' ? "failed"
           : run->interrupted            ? "was interrupted"
                                         : NULL;
}

/* Prints what is missing; what lacks for the same reason is printed once. */
static void print_absence(const struct comparison_group *group, size_t file)
{
    const struct device_run *run = group->run[file];
    char device[160], text[1024];
    size_t missing = 0;

    for (size_t n = 0; n < group->num_rows; n++)
        missing += group->rows[n].cell[file].verdict == VERDICT_MISSING;
    if (missing == 0)
        return;
    print_device(device, comparison_device(group));
    const bool failed = run != NULL && run->failed.text[0] != '\0';
    snprintf(text, sizeof text, "%s %s%s%s: %zu missing", device, absence(run), failed ? ", " : "",
             failed ? run->failed.text : "", missing);
    printf("! %c  ", comparison_letter(file));
    ca_print_wrapped(stdout, 5, "%s", text);
}

static void print_regressions(const struct comparison *c)
{
    for (size_t file = 1; file < c->num_files; file++)
        for (size_t g = 0; g < c->num_groups; g++) {
            const struct comparison_group *group = &c->groups[g];
            const bool absent = absence(group->run[file]) != NULL;
            if (absent)
                print_absence(group, file);
            for (size_t n = 0; n < group->num_rows; n++) {
                const enum verdict verdict = group->rows[n].cell[file].verdict;
                if (verdict_kinds[verdict].regression && !(absent && verdict == VERDICT_MISSING))
                    print_regression(c, group, &group->rows[n], file);
            }
        }
}

static bool any_other(const struct comparison *c)
{
    bool other = false;

    for (size_t g = 0; g < c->num_groups; g++)
        for (size_t file = 1; file < c->num_files; file++)
            other = other || c->groups[g].other[file];
    return other;
}

static void print_legend(const struct comparison *c)
{
    const double percent = c->options.threshold * 100.0;
    char text[1024];

    snprintf(text, sizeof text,
             "%s: so many times as long as in A, the median over all pairs of samples, and its "
             "95 %% interval by ranks; ~ if that holds 1; ! a regression: all of the interval more "
             "than %.4g %% slower, or measured in A and now not there or not right; + all of it "
             "more than %.4g %% faster%s%s.",
             c->options.by_share ? "A / B, of shares of the roof" : "B / A, of times", percent,
             percent,
             comparison_count(c, VERDICT_FEW) > 0
                 ? "; ? too few samples to be sure: 'run --repeat 4' takes enough"
                 : "",
             any_other(c) ? "; on another device slower is no regression" : "");
    putchar('\n');
    ca_print_wrapped(stdout, 0, "%s", text);
}

static void print_conclusion(const struct comparison *c)
{
    const size_t regressions = comparison_regressions(c), few = comparison_count(c, VERDICT_FEW);

    if (regressions > 0) {
        ca_colour(stdout, "31");
        printf("%zu regression%s", regressions, regressions == 1 ? "" : "s");
        ca_colour(stdout, "0");
    } else {
        fputs("no regression", stdout);
    }
    printf(" at a threshold of %.4g %%; faster: %zu", c->options.threshold * 100.0,
           comparison_count(c, VERDICT_FASTER));
    if (few > 0)
        printf("; too few samples: %zu", few);
    putchar('\n');
}

void comparison_print(const struct comparison *c, bool quiet)
{
    if (quiet) {
        print_regressions(c);
        return;
    }
    size_t shown = 0;
    print_files(c);
    for (size_t g = 0; g < c->num_groups; g++) {
        if (c->groups[g].num_rows == 0)
            continue;
        shown++;
        print_group_heading(c, &c->groups[g]);
        comparison_table(c, &c->groups[g]);
    }
    if (shown > 1) {
        putchar('\n');
        comparison_table_means(c);
    }
    print_legend(c);
    putchar('\n');
    print_regressions(c);
    print_conclusion(c);
}
