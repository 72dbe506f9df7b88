#include "bench/commands/table.h"
#include "cli/terminal.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_COLUMNS = 19 /* With the indentation. */ };

/* The columns beside the names. */
enum column { MS, NOISE, GFLOPS, GBYTES, SHARE, RATIO, HOST, SOURCE, CACHE, ERROR, NUM_COLUMNS };

static const struct {
    const char *title, *unit; /* Of first calls the title stands above both. */
    const char *name;         /* In the sentence about what a narrow terminal lacks. */
    int width;                /* With the blank before it. */
    int rank;                 /* The highest go first where there is no room; 0 never goes. */
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

static const char *const red = "\033[31m", *const bold = "\033[1m";

static void begin_colour(const char *colour)
{
    if (ca_terminal_colours(stdout))
        fputs(colour, stdout);
}

static void end_colour(void)
{
    begin_colour("\033[0m");
}

/* A dash for what is not known; nothing where the column has no room. */
static void print_number(enum column column, double value, int decimals, const char *unit)
{
    const int width = columns[column].width - 1 - (int)strlen(unit);

    if (!has_room(column))
        return;
    if (isfinite(value))
        printf(" %*.*f%s", width, decimals, value, unit);
    else
        printf(" %*s", columns[column].width - 1, "-");
}

/* Three digits. */
static void print_short(enum column column, double value)
{
    print_number(column, value, value < 99.95 ? 1 : 0, "");
}

/* Four digits, as long as a number of milliseconds has no more before its point. */
static void print_milliseconds(double value)
{
    print_number(MS, value, value < 9.9995 ? 3 : value < 99.995 ? 2 : value < 999.95 ? 1 : 0, "");
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
    char text[160];

    begin_colour(bold);
    snprintf(text, sizeof text, "%.75s (%s, %u units)", info->name, target_type_name(info->type),
             info->compute_units);
    ca_print_wrapped(stdout, text, 0);
    end_colour();
    snprintf(text, sizeof text, "%.50s, driver %.40s", info->platform_name, info->driver_version);
    ca_print_wrapped(stdout, text, 0);
    for (size_t n = 0; n < run->num_peers; n++)
        if (run->peer[n].missing.text[0] != '\0')
            ca_print_wrapped(stdout, run->peer[n].missing.text, 0);
    putchar('\n');
    print_titles(false);
    if (has_room(ERROR)) /* it and all that has a unit are missing together */
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

/* "fused_lanes, tuned"; of a layer "layer of 4 steps", each of which has a family of its own. */
static void name_choice(char *text, size_t bytes, const char *configuration, const char *reason)
{
    const char *origin = record_origin(reason);
    const bool steps = strcmp(origin, "steps") == 0;
    const int length = (int)strcspn(configuration, steps ? ":" : " ");

    snprintf(text, bytes, "%.*s%s%s", length, configuration, steps ? "" : ", ",
             steps ? "" : origin);
}

/* What compiling took of our first call. */
static void print_parts(const struct outcome *ours)
{
    char parts[160], text[200];

    first_parts_print(&ours->first_parts, parts, sizeof parts);
    if (parts[0] == '\0')
        return;
    snprintf(text, sizeof text, "first call: %s", parts);
    fputs("    ", stdout);
    ca_print_wrapped(stdout, text, 4);
}

static void print_problem(const struct record *record)
{
    const char *configuration = record->outcome[0].configuration;
    char memory[16], choice[96], facts[240], copies[48] = "", overhead[32] = "";

    print_bytes(memory, record->workspace_bytes);
    if (record->overhead.count > 0)
        snprintf(overhead, sizeof overhead, ", call +%.1f us",
                 samples_median(&record->overhead) * 1e6);
    if (record->copies > 1)
        snprintf(copies, sizeof copies, "; %zu sets of tensors", record->copies);
    if (configuration != NULL && record->reason != NULL) {
        name_choice(choice, sizeof choice, configuration, record->reason);
        snprintf(facts, sizeof facts, "%s, workspace %s%s; roof: %s%s", choice, memory, overhead,
                 record->roof == ROOF_FMA ? "multiply-adds" : "reading", copies);
    } else {
        snprintf(facts, sizeof facts, "roof: %s%s",
                 record->roof == ROOF_FMA ? "multiply-adds" : "reading", copies);
    }
    const int wide = ca_columns(stdout);
    if ((int)(strlen(record->problem) + strlen(facts)) + 5 <= wide) {
        printf("  %s   %s\n", record->problem, facts);
    } else {
        ca_print_line(stdout, record->problem, 2);
        fputs("    ", stdout);
        ca_print_wrapped(stdout, facts, 4);
    }
    print_parts(&record->outcome[0]);
}

/* ---- the rows -------------------------------------------------------------------------------- */

static void print_ratio(const struct record *record, const struct outcome *outcome)
{
    const struct ca_interval *ratio = &outcome->ratio;
    const int decimals = ratio->high < 9.995 ? 2 : ratio->high < 99.95 ? 1 : 0;
    char text[48] = "";

    if (outcome != &record->outcome[0] && ratio->middle > 0.0)
        snprintf(text, sizeof text, "%s%.*fx (%.*f-%.*f)",
                 ratio->low <= 1.0 && ratio->high >= 1.0 ? "~" : "", decimals, ratio->middle,
                 decimals, ratio->low, decimals, ratio->high);
    if (has_room(RATIO))
        printf("  %-*s", columns[RATIO].width - 2, text);
}

static void print_times(const struct record *record, const struct outcome *outcome)
{
    const struct ca_interval median = ca_median(outcome->seconds.value, outcome->seconds.count);
    const double host = outcome->host.count > 0 ? samples_median(&outcome->host) : NAN;
    const double share = record_share(record, outcome);

    print_milliseconds(median.middle * 1e3);
    print_short(NOISE, 50.0 * (median.high - median.low) / median.middle);
    print_short(GFLOPS, record->flops / median.middle * 1e-9);
    print_short(GBYTES, record->bytes / median.middle * 1e-9);
    print_number(SHARE, share > 0.0 ? 100.0 * share : NAN, 0, "%");
    print_ratio(record, outcome);
    print_short(HOST, host * 1e6);
    print_short(SOURCE, outcome->first_source * 1e3);
    print_short(CACHE, outcome->first_cache * 1e3);
    print_number(ERROR, outcome->worst.ratio, outcome->worst.ratio < 9.995 ? 3 : 0, "");
    putchar('\n');
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
        message_sanitize(text); /* the cut may go through a character */
        strcat(text, "...");
    }
    ca_print_wrapped(stdout, text, NAME_COLUMNS + 1);
}

static void print_outcome(const struct record *record, const struct outcome *outcome)
{
    const bool bad = outcome->state == OUTCOME_WRONG || outcome->state == OUTCOME_FAILED;

    printf("    %-*.*s", NAME_COLUMNS - 4, NAME_COLUMNS - 4, outcome->implementation);
    if (outcome_timed(outcome)) {
        print_times(record, outcome);
        return;
    }
    putchar(' ');
    if (bad)
        begin_colour(red);
    print_reason(record, outcome);
    if (bad)
        end_colour();
}

void table_record(const struct record *record, const struct record *before)
{
    if (record->name[0] != '\0' && (before == NULL || strcmp(record->name, before->name) != 0)) {
        begin_colour(bold);
        printf("%s\n", record->name);
        end_colour();
    }
    print_problem(record);
    for (size_t n = 0; n < record->count; n++)
        print_outcome(record, &record->outcome[n]);
    fflush(stdout);
}

/* ---- below the rows -------------------------------------------------------------------------- */

/* A sentence like printf()'s, on as many lines as it needs. */
static void print_sentence(int indentation, const char *format, ...)
{
    va_list arguments;
    char text[512];

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ca_print_wrapped(stdout, text, indentation);
}

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
        print_sentence(
            21, "%-20s %6.2fx clattn's time in the geometric mean of %zu problems, %.2fx to %.2fx",
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
    char half[48] = "";

    if (peaks->fma_half.count > 0)
        snprintf(half, sizeof half, ", %.1f of f16", samples_median(&peaks->fma_half));
    print_sentence(0,
                   "peaks measured in this run: %.1f GFLOP/s of f32 multiply-adds%s; reading %.1f "
                   "GB/s, copying %.1f GB/s",
                   samples_median(&peaks->fma), half, samples_median(&peaks->read),
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
        ca_print_wrapped(stdout, text, (int)strlen(peer->name) + 1);
    }
}

static void print_doubts(const struct device_run *run)
{
    const double noise = device_run_noise(run);

    if (noise >= RESULTS_NOISY)
        print_sentence(0,
                       "The machine was too noisy: half of all times are known to no better than "
                       "+-%.0f %%. Close what else runs and repeat, or trust only ratios whose "
                       "intervals are clear.",
                       100.0 * noise);
    if (run->peaks.exceeded)
        print_sentence(0, "A share over 100 %% has no meaning: the peak was measured too low, on a "
                          "busy machine or by a kernel that does not suit this device.");
}

static const char legend[] =
    "call: the time of a call over that of the driver's calls in it. ms: median device time of one "
    "execution, +-% half its 95 % interval. share: of the roof, the tighter of multiply-adds and "
    "reading. time over clattn's: with its 95 % interval, ~ if there may be no difference. host: "
    "what enqueueing costs the caller. first call: in a new process, compiled from source and from "
    "the caches; of others the problem's first computation. error: the worst over its bound; over "
    "1 the results are right only within half precision's bounds.";

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
    print_sentence(0, "%s: no room for them on %d columns; a wider terminal or --csv - has them",
                   text, ca_columns(stdout));
}

void table_footer(const struct device_run *run)
{
    putchar('\n');
    if (run->peaks.fma.count > 0)
        print_peaks(&run->peaks);
    print_means(run);
    print_peers(run);
    ca_print_wrapped(stdout, legend, 0);
    print_missing();
    print_doubts(run);
    if (run->interrupted)
        printf("interrupted: what was measured by then is above\n");
    fflush(stdout);
}
