/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/table.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_COLUMNS = 19 /* Width of the names' column, its indentation included. */ };

/* The columns beside the names. */
enum column { MS, NOISE, GFLOPS, GBYTES, SHARE, RATIO, HOST, SOURCE, CACHE, ERROR, NUM_COLUMNS };

static const struct {
    /* Heading; for the two columns of first calls, one title stands above both. */
    const char *title, *unit;
    const char *name; /* Name in the sentence about columns that a narrow terminal lacks. */
    int width;        /* Width, including the blank before it. */
    /* Where there is no room, columns of the highest rank are left out first; 0: never. */
    int rank;
} columns[NUM_COLUMNS] = {
    [MS] = {"ms", "", "ms", 9, 0},
    [NOISE] = {"+-%", "", "+-%", 5, 5},
    [GFLOPS] = {"GFLOP/s", "", "GFLOP/s", 8, 4},
    [GBYTES] = {"GB/s", "", "GB/s", 7, 6},
    [SHARE] = {"share", "", "share", 6, 2},
    [RATIO] = {"  time over clattn's", "", "time over clattn's", 20, 1},
    [HOST] = {"host", "us", "host", 6, 7},
    [SOURCE] = {"first ", "source", "first call", 7, 8},
    [CACHE] = {"call ms", "cache", "", 7, 8},
    [ERROR] = {"error", "/bnd", "error", 6, 3},
};

/* The lowest rank of the columns for which the terminal has no room. */
static int first_missing_rank(void)
{
    int rank = 0, width = NAME_COLUMNS;

    for (int n = 0; n < NUM_COLUMNS; n++) {
        width += columns[n].width;
        rank = columns[n].rank > rank ? columns[n].rank : rank;
    }
    for (; width > ca_columns(stdout) && rank > 0; rank--)
        for (int n = 0; n < NUM_COLUMNS; n++)
            width -= columns[n].rank == rank ? columns[n].width : 0;
    return rank + 1;
}

static bool has_room(enum column column)
{
    return columns[column].rank < first_missing_rank();
}

/* A dash for what is not known; nothing where the column has no room. */
static void add_number(struct ca_row *row, enum column column, double value, int decimals,
                       const char *unit)
{
    char text[64] = "-";

    if (isfinite(value))
        snprintf(text, sizeof text, "%.*f%s", decimals, value, unit);
    if (has_room(column))
        ca_row_cell(row, columns[column].width - 1, text);
}

/* Three digits. */
static void add_short(struct ca_row *row, enum column column, double value)
{
    add_number(row, column, value, value < 99.95 ? 1 : 0, "");
}

/* ---- above the rows -------------------------------------------------------------------------- */

static void print_titles(bool units)
{
    printf("%*s", NAME_COLUMNS, "");
    for (int n = 0; n < NUM_COLUMNS; n++)
        if (has_room((enum column)n))
            printf("%*s", columns[n].width, units ? columns[n].unit : columns[n].title);
    putchar('\n');
}

void table_header(const struct device_run *run)
{
    const clattn_device_info *info = &run->info;

    ca_colour(stdout, "1");
    ca_print_wrapped(stdout, 0, "%.75s (%s, %u units)", info->name, target_type_name(info->type),
                     info->compute_units);
    ca_colour(stdout, "0");
    ca_print_wrapped(stdout, 0, "%.50s, driver %.40s", info->platform_name, info->driver_version);
    for (size_t n = 0; n < run->ranks; n++)
        ca_print_wrapped(stdout, 0, "rank %zu of %zu by %s: %s", n, run->ranks, run->mpi,
                         run->rank_devices[n].name);
    for (size_t n = 0; n < run->num_peers; n++)
        if (run->peer[n].missing.text[0] != '\0')
            ca_print_wrapped(stdout, 0, "%s", run->peer[n].missing.text);
    putchar('\n');
    print_titles(false);
    if (has_room(ERROR)) /* this column is left out together with all that have a unit */
        print_titles(true);
}

/* "512 B", "1.5 MiB". */
static void print_bytes(char text[static 16], size_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 999.5 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024.0;
        unit++;
    }
    snprintf(text, 16, value < 9.95 && unit > 0 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

/* "fused_cpu UNIT=vector, tuned"; of a layer "layer of 4 steps", each of which has a family of its own. */
static void name_choice(char *text, size_t bytes, const char *configuration, const char *reason)
{
    const char *origin = record_origin(reason);
    const bool steps = strcmp(origin, "steps") == 0;
    const int length = (int)strcspn(configuration, steps ? ":" : " ");

    snprintf(text, bytes, "%.*s%s%s", length, configuration, steps ? "" : ", ",
             steps ? "" : origin);
}

/* Prints the parts of the first call that compiling took. */
static void print_parts(const struct outcome *ours)
{
    char parts[160], text[200];

    cold_start_parts_print(&ours->cold_start_parts, parts, sizeof parts);
    if (parts[0] == '\0')
        return;
    snprintf(text, sizeof text, "first call: %s", parts);
    fputs("    ", stdout);
    ca_print_wrapped(stdout, 4, "%s", text);
}

static void print_problem(const struct record *record)
{
    const char *configuration = record->outcome[0].configuration;
    char memory[16], choice[96], facts[240], copies[48] = "", overhead[32] = "";

    print_bytes(memory, record->workspace_bytes);
    if (isfinite(record->overhead))
        snprintf(overhead, sizeof overhead, ", call +%.1f us", record->overhead * 1e6);
    if (record->copies > 1)
        snprintf(copies, sizeof copies, "; %zu sets of tensors", record->copies);
    if (configuration != NULL && record->reason != NULL) {
        name_choice(choice, sizeof choice, configuration, record->reason);
        snprintf(facts, sizeof facts, "%s, workspace %s%s; roof: %s%s", choice, memory, overhead,
                 roof_words(record->roof), copies);
    } else {
        snprintf(facts, sizeof facts, "roof: %s%s", roof_words(record->roof), copies);
    }
    const int wide = ca_columns(stdout);
    if ((int)(strlen(record->problem) + strlen(facts)) + 5 <= wide) {
        printf("  %s   %s\n", record->problem, facts);
    } else {
        ca_print_line(stdout, record->problem, 2);
        fputs("    ", stdout);
        ca_print_wrapped(stdout, 4, "%s", facts);
    }
    print_parts(&record->outcome[0]);
}

/* ---- the rows -------------------------------------------------------------------------------- */

static void add_ratio(struct ca_row *row, const struct record *record,
                      const struct outcome *outcome)
{
    const struct ca_interval *ratio = &outcome->ratio;
    const int decimals = ratio->high < 9.995 ? 2 : ratio->high < 99.95 ? 1 : 0;
    char text[48] = "";

    if (outcome != &record->outcome[0] && ratio->middle > 0.0)
        snprintf(text, sizeof text, " %s%.*fx (%.*f-%.*f)",
                 ratio->low <= 1.0 && ratio->high >= 1.0 ? "~" : "", decimals, ratio->middle,
                 decimals, ratio->low, decimals, ratio->high);
    if (has_room(RATIO))
        ca_row_cell(row, 1 - columns[RATIO].width, text);
}

static void add_times(struct ca_row *row, const struct record *record,
                      const struct outcome *outcome)
{
    const struct ca_interval median = ca_median(outcome->seconds.value, outcome->seconds.count);
    const double host = outcome->host.count > 0 ? samples_median(&outcome->host) : NAN;
    const double share = record_share(record, outcome), milliseconds = median.middle * 1e3;

    add_number(row, MS, milliseconds, ca_decimals(milliseconds, 3), "");
    add_short(row, NOISE, 50.0 * (median.high - median.low) / median.middle);
    add_short(row, GFLOPS, record_flops(record, outcome) / median.middle * 1e-9);
    add_short(row, GBYTES, record_bytes(record, outcome) / median.middle * 1e-9);
    add_number(row, SHARE, share > 0.0 ? 100.0 * share : NAN, 0, "%");
    add_ratio(row, record, outcome);
    add_short(row, HOST, host * 1e6);
    add_short(row, SOURCE, outcome->cold_start_source * 1e3);
    add_short(row, CACHE, outcome->cold_start_cache * 1e3);
    add_number(row, ERROR, outcome->worst.ratio, outcome->worst.ratio < 9.995 ? 3 : 0, "");
    ca_row_end(row);
}

/* Why it has no figures, in one line; ours is said in full. */
static void print_reason(const struct record *record, const struct outcome *outcome)
{
    const size_t name = strlen(outcome->implementation);
    const size_t room = (size_t)ca_columns(stdout) - NAME_COLUMNS - 1;
    const char *why = outcome->why.text;
    char text[sizeof outcome->why.text + 16];

    if (strncmp(why, outcome->implementation, name) == 0 && strncmp(why + name, ": ", 2) == 0)
        why += name + 2;
    snprintf(text, sizeof text, "%s: %s", outcome_state_name(outcome->state), why);
    if (outcome != &record->outcome[0] && strlen(text) > room) {
        text[room - strlen("...")] = '\0';
        ca_make_printable(text); /* the cut may go through a character */
        strcat(text, "...");
    }
    ca_print_wrapped(stdout, NAME_COLUMNS + 1, "%s", text);
}

/* Writes the share of the queries that each rank has if shares differ; else "". */
static void write_shares(const struct distributed *d, char *text, size_t bytes)
{
    double all = 0.0, least = d->spent[0].queries, most = least;

    for (size_t n = 0; n < d->ranks; n++) {
        all += d->spent[n].queries;
        least = fmin(least, d->spent[n].queries);
        most = fmax(most, d->spent[n].queries);
    }
    size_t used = (size_t)snprintf(text, bytes, "%s", most > 1.02 * least ? "; shares" : "");
    for (size_t n = 0; n < d->ranks && text[0] != '\0' && used < bytes; n++)
        used += (size_t)snprintf(text + used, bytes - used, "%s %.0f", n > 0 ? "," : "",
                                 100.0 * d->spent[n].queries / all);
    if (text[0] != '\0' && used < bytes)
        snprintf(text + used, bytes - used, " %%");
}

/* Prints how the ranks' time was spent, as means over the ranks, and the efficiency. */
static void print_distributed(const struct distributed *d)
{
    struct spent mean = {0.0, 0.0, 0.0, 0.0, 0.0};
    char shares[256];

    for (size_t n = 0; n < d->ranks; n++) {
        mean.computing += d->spent[n].computing * 1e3 / (double)d->ranks;
        mean.waiting += d->spent[n].waiting * 1e3 / (double)d->ranks;
        mean.transfer += d->spent[n].transfer * 1e3 / (double)d->ranks;
    }
    write_shares(d, shares, sizeof shares);
    printf("%*s", NAME_COLUMNS + 1, "");
    ca_print_wrapped(stdout, NAME_COLUMNS + 1,
                     "computing %.3g, waiting %.3g, transfer %.3g ms; predicted %.3g ms; "
                     "efficiency %.0f %%%s",
                     mean.computing, mean.waiting, mean.transfer, d->predicted * 1e3,
                     100.0 * d->efficiency.middle, shares);
}

static void print_outcome(const struct record *record, const struct outcome *outcome)
{
    const bool bad = outcome->state == OUTCOME_WRONG || outcome->state == OUTCOME_FAILED;
    struct ca_row row = {.to = stdout};
    char name[sizeof outcome->implementation + 4];

    const size_t skipped = outcome->distributed != NULL ? strlen("clattn ") : 0;
    snprintf(name, sizeof name, "    %.*s", NAME_COLUMNS - 4, outcome->implementation + skipped);
    ca_row_label(&row, NAME_COLUMNS, name);
    if (outcome_timed(outcome)) {
        add_times(&row, record, outcome);
        if (outcome->distributed != NULL)
            print_distributed(outcome->distributed);
        return;
    }
    putchar(' ');
    if (bad)
        ca_colour(stdout, "31");
    print_reason(record, outcome);
    if (bad)
        ca_colour(stdout, "0");
}

void table_record(const struct record *record, const struct record *before)
{
    if (record->name[0] != '\0' && (before == NULL || strcmp(record->name, before->name) != 0)) {
        ca_colour(stdout, "1");
        printf("%s\n", record->name);
        ca_colour(stdout, "0");
    }
    print_problem(record);
    for (size_t n = 0; n < record->count; n++)
        print_outcome(record, &record->outcome[n]);
    fflush(stdout);
}

/* ---- below the rows -------------------------------------------------------------------------- */

/* Over all problems that both computed. */
static void print_mean(const struct device_run *run, const char *implementation)
{
    double sum = 0.0, least = INFINITY, most = 0.0;
    size_t count = 0;

    for (size_t n = 0; n < run->count; n++) {
        const struct outcome *outcome = record_find(&run->records[n], implementation);
        if (outcome == NULL || !outcome_timed(outcome) || !(outcome->ratio.middle > 0.0))
            continue;
        sum += log(outcome->ratio.middle);
        least = fmin(least, outcome->ratio.middle);
        most = fmax(most, outcome->ratio.middle);
        count++;
    }
    if (count > 1)
        ca_print_wrapped(
            stdout, 21,
            "%-20s %6.2fx clattn's time in the geometric mean of %zu problems, %.2fx to %.2fx",
            implementation, exp(sum / (double)count), count, least, most);
}

static void print_means(const struct device_run *run)
{
    print_mean(run, "clattn untuned");
    for (size_t n = 0; n < run->num_peers; n++)
        print_mean(run, run->peer[n].name);
}

static void print_peaks(const struct peak_samples *peaks)
{
    static const char *const words[NUM_PEAK_KINDS] = {[PEAK_F16] = "f16", [PEAK_BF16] = "bf16"};
    char others[80] = "";
    size_t length = 0;

    for (enum peak_kind kind = PEAK_F16; kind < NUM_PEAK_KINDS; kind++)
        if (peaks->fma[kind].count > 0)
            length += (size_t)snprintf(others + length, sizeof others - length, ", %.1f of %s",
                                       samples_median(&peaks->fma[kind]), words[kind]);
    ca_print_wrapped(
        stdout, 0,
        "peaks measured in this run: %.1f GFLOP/s of f32 multiply-adds%s; reading %.1f "
        "GB/s, copying %.1f GB/s",
        samples_median(&peaks->fma[PEAK_F32]), others, samples_median(&peaks->read),
        samples_median(&peaks->copy));
}

static void print_peers(const struct device_run *run)
{
    for (size_t n = 0; n < run->num_peers; n++) {
        const struct peer_note *peer = &run->peer[n];
        char text[sizeof peer->version + sizeof peer->method + 4];
        if (peer->missing.text[0] != '\0')
            continue;
        snprintf(text, sizeof text, "%s: %s", peer->version, peer->method);
        printf("%s ", peer->name);
        ca_print_wrapped(stdout, (int)strlen(peer->name) + 1, "%s", text);
    }
}

static void print_doubts(const struct device_run *run)
{
    const double noise = device_run_noise(run);

    if (noise >= RESULTS_NOISY)
        ca_print_wrapped(stdout, 0,
                         "The machine was too noisy: half of all times are known to no better than "
                         "+-%.0f %%. Close what else runs and repeat, or trust only ratios whose "
                         "intervals are clear.",
                         100.0 * noise);
    if (run->peaks.exceeded)
        ca_print_wrapped(stdout, 0,
                         "A share over 100 %% has no meaning: the peak was measured too low, on a "
                         "busy machine or by a kernel that does not suit this device.");
}

static const char legend[] =
    "call: the time of a call over that of the driver's calls in it. ms: median device time of one "
    "execution, +-% half its 95 % interval. share: of the roof, the tighter of multiply-adds and "
    "reading. time over clattn's: with its 95 % interval, ~ if there may be no difference. host: "
    "what enqueueing costs the caller. first call: in a new process, compiled from source and from "
    "the caches; of others the problem's first computation. error: the worst over its bound; over "
    "1 the results are right only within half precision's bounds.";

static const char legend_of_ranks[] =
    "Of ranks: clattn is rank 0 alone, and times are the host's clock, of the slowest rank. "
    "computing, "
    "waiting (for messages) and transfer (between device and MPI's memory): means over ranks. "
    "efficiency: the ranks' rate over so many times that of rank 0 alone; weak: of a problem that "
    "is "
    "longer by the number of ranks.";

static void print_missing(void)
{
    char text[96] = "";
    size_t length = 0;

    for (int n = 0; n < NUM_COLUMNS; n++)
        if (!has_room((enum column)n) && columns[n].name[0] != '\0')
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%s",
                                       length > 0 ? ", " : "", columns[n].name);
    if (length == 0)
        return;
    ca_print_wrapped(stdout, 0,
                     "%s: no room for them on %d columns; a wider terminal or --json - has them",
                     text, ca_columns(stdout));
}

void table_footer(const struct device_run *run)
{
    putchar('\n');
    if (run->peaks.fma[PEAK_F32].count > 0)
        print_peaks(&run->peaks);
    print_means(run);
    print_peers(run);
    ca_print_wrapped(stdout, 0, "%s", legend);
    if (run->ranks > 0)
        ca_print_wrapped(stdout, 0, "%s", legend_of_ranks);
    print_missing();
    print_doubts(run);
    if (run->interrupted)
        printf("interrupted: what was measured by then is above\n");
    fflush(stdout);
}
