#include "table.h"
#include "terminal.h"

#include <math.h>
#include <string.h>

#define COLUMNS 100
#define NAME_COLUMNS 19                   /* With the indentation. */
#define ROOM (COLUMNS - NAME_COLUMNS - 1) /* Beside a name. */

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

void table_wrap(FILE *to, const char *text, int column)
{
    const char *rest = text;

    while ((int)strlen(rest) > COLUMNS - column) {
        int length = COLUMNS - column;
        while (length > 0 && rest[length] != ' ')
            length--;
        length = length > 0 ? length : COLUMNS - column; /* a word that fills the line */
        fprintf(to, "%.*s\n%*s", length, rest, column, "");
        rest += length;
        rest += strspn(rest, " ");
    }
    fprintf(to, "%s\n", rest);
}

/* Four digits, as long as a number of milliseconds has no more before its point. */
static void print_number(double value, int width)
{
    const int decimals = value < 9.9995 ? 3 : value < 99.995 ? 2 : value < 999.95 ? 1 : 0;

    printf(" %*.*f", width - 1, decimals, value);
}

/* A dash for what is not known. */
static void print_short(double value, int width, int decimals)
{
    if (isfinite(value))
        printf(" %*.*f", width - 1, value < 99.95 ? decimals : 0, value);
    else
        printf(" %*s", width - 1, "-");
}

/* ---- above the rows -------------------------------------------------------------------------- */

void table_header(const struct device_run *run)
{
    const clattn_device_info *info = &run->info;

    begin_colour(bold);
    printf("%.75s (%s, %u units)\n", info->name, target_type_name(info->type), info->compute_units);
    end_colour();
    printf("%.50s, driver %.40s\n", info->platform_name, info->driver_version);
    for (size_t n = 0; n < run->num_peers; n++)
        if (run->peer[n].missing.text[0] != '\0')
            table_wrap(stdout, run->peer[n].missing.text, 0);
    printf("\n%-*s %8s %4s %7s %6s %5s  %-18s %5s %13s %5s\n", NAME_COLUMNS, "", "ms", "+-%",
           "GFLOP/s", "GB/s", "share", "time over clattn's", "host", "first call ms", "error");
    printf("%-*s %8s %4s %7s %6s %5s  %-18s %5s %6s %6s %5s\n", NAME_COLUMNS, "", "", "", "", "",
           "", "", "us", "source", "cache", "/bnd");
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
    const bool fits = strlen(record->problem) + strlen(facts) + 5 <= COLUMNS;
    printf("  %s%s%s\n", record->problem, fits ? "   " : "\n    ", facts);
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
    printf("  %-18s", text);
}

static void print_times(const struct record *record, const struct outcome *outcome)
{
    const struct ca_interval median = ca_median(outcome->seconds.value, outcome->seconds.count);
    const double host = outcome->host.count > 0 ? samples_median(&outcome->host) : NAN;
    const double share = record_share(record, outcome);

    print_number(median.middle * 1e3, 9);
    print_short(50.0 * (median.high - median.low) / median.middle, 5, 1);
    print_short(record->flops / median.middle * 1e-9, 8, 1);
    print_short(record->bytes / median.middle * 1e-9, 7, 1);
    if (share > 0.0)
        printf(" %4.0f%%", 100.0 * share);
    else
        printf(" %5s", "-");
    print_ratio(record, outcome);
    print_short(host * 1e6, 6, 1);
    print_short(outcome->first_source * 1e3, 7, 1);
    print_short(outcome->first_cache * 1e3, 7, 1);
    printf(outcome->worst.ratio < 9.995 ? " %5.3f\n" : " %5.0f\n", outcome->worst.ratio);
}

/* Why it has no figures, in one line; ours is said in full. */
static void print_reason(const struct record *record, const struct outcome *outcome)
{
    const size_t name = strlen(outcome->implementation);
    const char *why = outcome->why.text;
    char text[sizeof outcome->why.text + 16];

    if (strncmp(why, outcome->implementation, name) == 0 && strncmp(why + name, ": ", 2) == 0)
        why += name + 2;
    snprintf(text, sizeof text, "%s: %s", outcome_state_name(outcome->state), why);
    if (outcome != &record->outcome[0] && strlen(text) > ROOM) {
        text[ROOM - strlen("...")] = '\0';
        message_sanitize(text); /* the cut may go through a character */
        strcat(text, "...");
    }
    table_wrap(stdout, text, NAME_COLUMNS + 1);
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
        printf("%-20s %6.2fx clattn's time in the geometric mean of %zu problems, %.2fx to %.2fx\n",
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
    printf("peaks measured in this run: %.1f GFLOP/s of f32 multiply-adds",
           samples_median(&peaks->fma));
    if (peaks->fma_half.count > 0)
        printf(", %.1f of f16", samples_median(&peaks->fma_half));
    printf("; reading %.1f GB/s, copying %.1f GB/s\n", samples_median(&peaks->read),
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
        table_wrap(stdout, text, (int)strlen(peer->name) + 1);
    }
}

static void print_doubts(const struct device_run *run)
{
    const double noise = device_run_noise(run);

    if (noise >= RESULTS_NOISY)
        printf(
            "The machine was too noisy: half of all times are known to no better than +-%.0f %%. "
            "Close what\nelse runs and repeat, or trust only ratios whose intervals are clear.\n",
            100.0 * noise);
    if (run->peaks.exceeded)
        printf("A share over 100 %% has no meaning: the peak was measured too low, on a busy "
               "machine or by a\nkernel that does not suit this device.\n");
}

static const char legend[] =
    "call: the time of a call over that of the driver's calls in it. ms: median device time of "
    "one\n"
    "execution, +-% half its 95 % interval. share: of the roof, the tighter of multiply-adds and\n"
    "reading. time over clattn's: with its 95 % interval, ~ if there may be no difference. host: "
    "what\n"
    "enqueueing costs the caller. first call: in a new process, compiled from source and from the\n"
    "caches; of others the problem's first computation. error: the worst over its bound; over 1 "
    "the\n"
    "results are right only within half precision's bounds.\n";

void table_footer(const struct device_run *run)
{
    putchar('\n');
    if (run->peaks.fma.count > 0)
        print_peaks(&run->peaks);
    print_means(run);
    print_peers(run);
    fputs(legend, stdout);
    print_doubts(run);
    if (run->interrupted)
        printf("interrupted: what was measured by then is above\n");
    fflush(stdout);
}
