/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner/tune_report.h"
#include "cli/message.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "os/file.h"
#include "tuner/progress.h"
#include "tuner/worker/worker_json.h"

#include <math.h>
#include <string.h>

/* Above this half-width of the noise's interval timings are not to be trusted. */
#define TOO_NOISY 0.05

/* Widths of the table. A problem's line that is longer than its column stands above its figures. */
enum { LINE_COLUMNS = 44, INDENTATION = 4 };
enum { UNTUNED, TUNED, GAIN, SURE, NOISE, NUM_CELLS };
static const int widths[NUM_CELLS] = {9, 9, -20, 5, 7};

static size_t count_state(const struct tune_report *report, enum tune_state state)
{
    size_t count = 0;

    for (size_t n = 0; n < report->num_problems; n++)
        count += report->problems[n].state == state;
    return count;
}

/* Returns whether it is a reading of this run's problems. */
static bool covers(const struct tune_report *report, const struct ca_journal_entry *entry)
{
    for (size_t n = 0; n < report->num_problems; n++)
        if (strcmp(report->problems[n].problem_class, entry->problem_class) == 0)
            return true;
    return false;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Returns whether there is room for a problem and its figures in one line. */
static bool is_wide(FILE *to)
{
    return ca_columns(to) == CA_MOST_COLUMNS;
}

/* Begins a row; a problem that has no room beside its figures stands above them. */
static struct ca_row begin_row(FILE *to, const char *line)
{
    struct ca_row row = {.to = to, .indentation = is_wide(to) ? LINE_COLUMNS + 1 : INDENTATION};

    if (is_wide(to) && strlen(line) <= LINE_COLUMNS)
        ca_row_label(&row, LINE_COLUMNS, line);
    else
        ca_print_line(to, line, 0);
    return row;
}

static void print_tuned(const struct tune_problem *problem, FILE *to)
{
    const struct ca_session_result *result = &problem->result.result;
    const struct ca_finalist *winner = &result->top[0];
    const struct ca_interval ratio = winner->ratio;
    char time[CA_TIME_TEXT], untuned[CA_TIME_TEXT], gain[40], sure[24] = "", noise[24];
    char text[CA_CANDIDATE_TEXT];

    snprintf(gain, sizeof gain, "%.2fx (%.2f to %.2f)", 1.0 / ratio.middle, 1.0 / ratio.high,
             1.0 / ratio.low);
    if (result->has_confidence)
        snprintf(sure, sizeof sure, "%.0f %%", 100.0 * result->confidence.within_5);
    snprintf(noise, sizeof noise, "%.1f %%%s", 100.0 * result->noise,
             result->noise > TOO_NOISY ? "!" : "");
    struct ca_row row = begin_row(to, problem->line);
    ca_row_cell(&row, widths[UNTUNED],
                ca_time_print(winner->seconds.middle / ratio.middle, untuned));
    ca_row_cell(&row, widths[TUNED], ca_time_print(winner->seconds.middle, time));
    if (ratio.high < 1.0)
        ca_colour(to, "32");
    ca_row_cell(&row, widths[GAIN], gain);
    if (ratio.high < 1.0)
        ca_colour(to, "0");
    ca_row_cell(&row, widths[SURE], sure);
    ca_row_cell(&row, widths[NOISE], noise);
    ca_row_end(&row);
    ca_candidate_print(&problem->result.top[0], text);
    const bool built = winner->compile_seconds > 0.0;
    ca_print_paragraph(to, INDENTATION, "%s%s%s", text, built ? ", built in " : "",
                       built ? ca_time_print(winner->compile_seconds, time) : "");
}

static void print_table(const struct tune_report *report, FILE *to)
{
    static const char *const titles[NUM_CELLS] = {"untuned", "tuned", "speed-up (95 %)", "sure",
                                                  "noise"};

    if (count_state(report, TUNE_TUNED) == 0)
        return;
    ca_colour(to, "1");
    struct ca_row head = begin_row(to, "problem");
    for (int n = 0; n < NUM_CELLS; n++)
        ca_row_cell(&head, widths[n], titles[n]);
    ca_colour(to, "0");
    ca_row_end(&head);
    for (size_t n = 0; n < report->num_problems; n++)
        if (report->problems[n].state == TUNE_TUNED)
            print_tuned(&report->problems[n], to);
    ca_print_paragraph(to, 0, "%s",
                       "sure: how probable it is that nothing in the space is over 5 % faster; "
                       "noise: of one configuration timed against itself, half the 95 % interval; "
                       "built: its compiler's time");
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void print_others(const struct tune_report *report, FILE *to)
{
    static const char *const what[] = {
        [TUNE_NOT_REACHED] = "not reached: the budget was spent before",
        [TUNE_NO_RESULT] = "nothing that was tried works",
        [TUNE_UNSUPPORTED] = "cannot be computed on this device",
    };
    const size_t known = count_state(report, TUNE_KNOWN);

    for (size_t n = 0; n < report->num_problems; n++) {
        const struct tune_problem *problem = &report->problems[n];
        if (problem->state == TUNE_TUNED || problem->state == TUNE_KNOWN)
            continue;
        ca_print_line(to, problem->line, 0);
        ca_print_paragraph(to, INDENTATION, "%s%s%s",
                           problem->state == TUNE_NOT_REACHED && report->interrupted
                               ? "not reached before the interruption"
                               : what[problem->state],
                           problem->reason[0] ? ": " : "", problem->reason);
    }
    if (known > 0) {
        ca_print_paragraph(to, 0, "%zu problem%s tuned before; --again tunes %s anew", known,
                           known > 1 ? "s were" : " was", known > 1 ? "them" : "it");
    }
}

static bool same_failure(const struct ca_journal_entry *a, const struct ca_journal_entry *b)
{
    return a->reading.outcome == b->reading.outcome &&
           ca_candidates_equal(&a->candidate, &b->candidate);
}

/* The first of the same candidate's equal failures, on whatever problem. */
static bool is_first_failure(const struct tune_report *report, size_t entry)
{
    const struct ca_journal_entry *failure = ca_journal_at(report->journal, entry);

    if (failure->reading.outcome == CA_CORRECT || !covers(report, failure))
        return false;
    for (size_t n = 0; n < entry; n++)
        if (same_failure(ca_journal_at(report->journal, n), failure) &&
            covers(report, ca_journal_at(report->journal, n)))
            return false;
    return true;
}

static void print_failures(const struct tune_report *report, FILE *to)
{
    static const char *const what[CA_NUM_OUTCOMES] = {
        [CA_COMPILE_FAILED] = "did not build",  [CA_RUNTIME_FAILED] = "failed",
        [CA_CONSTRAINT_FAILED] = "did not fit", [CA_TIMED_OUT] = "took too long twice",
        [CA_WRONG] = "computed wrong results",  [CA_CRASHED] = "crashed twice",
    };

    for (int outcome = CA_CORRECT + 1; outcome < CA_NUM_OUTCOMES; outcome++) {
        const struct ca_journal_entry *first = NULL;
        size_t count = 0;
        for (size_t n = 0; n < ca_journal_count(report->journal); n++) {
            const struct ca_journal_entry *entry = ca_journal_at(report->journal, n);
            if ((int)entry->reading.outcome != outcome || !is_first_failure(report, n))
                continue;
            first = first ? first : entry;
            count++;
        }
        if (!first)
            continue;
        ca_print_paragraph(to, 0, "%zu configuration%s %s and will %s; the first: %s", count,
                           count > 1 ? "s" : "", what[outcome],
                           outcome == CA_RUNTIME_FAILED ? "be tried again by the next tuning"
                                                        : "not be used",
                           first->reading.reason);
    }
}

static void print_noise(const struct tune_report *report, FILE *to)
{
    size_t noisy = 0;

    for (size_t n = 0; n < report->num_problems; n++)
        noisy += report->problems[n].state == TUNE_TUNED &&
                 report->problems[n].result.result.noise > TOO_NOISY;
    if (noisy == 0)
        return;
    ca_print_paragraph(
        to, 0,
        "warning: the machine was too noisy (see !) to trust the timings of %zu problem%s; let "
        "it idle, or cool down, and tune again with --again",
        noisy, noisy > 1 ? "s" : "");
}

static void print_report(const struct tune_report *report, FILE *to)
{
    const size_t tuned = count_state(report, TUNE_TUNED);
    char compiling[CA_TIME_TEXT], restarts[60] = "";

    if (count_state(report, TUNE_KNOWN) == report->num_problems) {
        ca_print_paragraph(
            to, 0,
            "nothing to do: all %zu problems are tuned for %s with this driver; --again tunes "
            "them anew",
            report->num_problems, report->device->name);
        return;
    }
    print_table(report, to);
    print_others(report, to);
    print_failures(report, to);
    print_noise(report, to);
    if (report->restarts > 0)
        snprintf(restarts, sizeof restarts, ", worker restarted %zu times", report->restarts);
    ca_print_paragraph(
        to, 0, "%s%zu problem%s tuned in %.0f s with %zu configurations, which took compilers %s%s",
        report->interrupted ? "interrupted: " : "", tuned, tuned == 1 ? "" : "s", report->seconds,
        report->evaluations, ca_time_print(report->compile_seconds, compiling), restarts);
    if (tuned > 0 && report->kept)
        message_say(to, "%s%s",
                    *report->store_path ? "kept in " : "kept nowhere: there is no cache",
                    report->store_path);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *interval_json(double low, double middle, double high, double unit)
{
    return json_pack("{s:f, s:f, s:f}", "median", middle * unit, "low", low * unit, "high",
                     high * unit);
}

static json_t *tuned_json(const struct tune_problem *problem)
{
    const struct ca_session_result *result = &problem->result.result;
    const struct ca_finalist *winner = &result->top[0];
    char text[CA_CANDIDATE_TEXT];
    json_t *samples = json_array();

    for (size_t n = 0; n < winner->num_times; n++)
        json_array_append_new(samples, json_real(1e3 * winner->times[n]));
    json_t *time =
        interval_json(winner->seconds.low, winner->seconds.middle, winner->seconds.high, 1e3);
    json_object_set_new(time, "samples", samples);
    json_t *speedup = interval_json(1.0 / winner->ratio.high, 1.0 / winner->ratio.middle,
                                    1.0 / winner->ratio.low, 1.0);
    ca_candidate_print(&problem->result.top[0], text);
    json_t *object =
        json_pack("{s:s, s:o, s:o, s:f, s:f, s:f, s:b, s:I}", "configuration", text, "milliseconds",
                  time, "speedup", speedup, "compile_seconds", winner->compile_seconds, "error",
                  winner->error, "noise", result->noise, "raced", (int)result->raced, "evaluations",
                  (json_int_t)result->evaluations);
    if (problem->result.incumbent.family) {
        ca_candidate_print(&problem->result.incumbent, text);
        json_object_set_new(object, "untuned", json_string(text));
    }
    if (result->has_confidence) {
        json_object_set_new(object, "within_2_percent", json_real(result->confidence.within_2));
        json_object_set_new(object, "within_5_percent", json_real(result->confidence.within_5));
    }
    return object;
}

static json_t *problem_json(const struct tune_problem *problem)
{
    static const char *const states[] = {
        [TUNE_KNOWN] = "known",
        [TUNE_TUNED] = "tuned",
        [TUNE_NOT_REACHED] = "not reached",
        [TUNE_NO_RESULT] = "nothing works",
        [TUNE_UNSUPPORTED] = "unsupported",
    };
    json_t *object = problem->state == TUNE_TUNED ? tuned_json(problem) : json_object();

    json_object_set_new(object, "problem", json_string(problem->line));
    json_object_set_new(object, "class", json_string(problem->problem_class));
    json_object_set_new(object, "state", json_string(states[problem->state]));
    if (problem->reason[0])
        json_object_set_new(object, "reason", ca_text_json(problem->reason));
    return object;
}

static json_t *failures_json(const struct tune_report *report)
{
    json_t *failures = json_array();
    char text[CA_CANDIDATE_TEXT];

    for (size_t n = 0; n < ca_journal_count(report->journal); n++) {
        const struct ca_journal_entry *entry = ca_journal_at(report->journal, n);
        if (!is_first_failure(report, n))
            continue;
        ca_candidate_print(&entry->candidate, text);
        json_array_append_new(failures,
                              json_pack("{s:s, s:s, s:s, s:o}", "class", entry->problem_class,
                                        "configuration", text, "outcome",
                                        ca_outcome_name(entry->reading.outcome), "reason",
                                        ca_text_json(entry->reading.reason)));
    }
    return failures;
}

/* NULL without memory. */
static json_t *report_json(const struct tune_report *report)
{
    const clattn_device_info *device = report->device;
    json_t *problems = json_array();

    for (size_t n = 0; n < report->num_problems; n++)
        json_array_append_new(problems, problem_json(&report->problems[n]));
    return json_pack(
        "{s:s, s:s, s:{s:o, s:o, s:o, s:o}, s:s, s:I, s:f, s:f, s:I, s:I, s:b, s:o, s:o, s:o}",
        "schema", "clattn-tune-1", "clattn", CA_TUNE_VERSION, "device", "name",
        ca_text_json(device->name), "platform", ca_text_json(device->platform_name),
        "platform_version", ca_text_json(device->platform_version), "driver",
        ca_text_json(device->driver_version), "strategy",
        ca_strategy_name(report->options->strategy), "seed", (json_int_t)report->options->seed,
        "seconds", report->seconds, "compile_seconds", report->compile_seconds, "evaluations",
        (json_int_t)report->evaluations, "worker_restarts", (json_int_t)report->restarts,
        "interrupted", (int)report->interrupted, "store",
        ca_text_json(report->kept ? report->store_path : ""), "problems", problems, "failed",
        failures_json(report));
}

static bool write_json(const struct tune_report *report)
{
    const char *path = report->options->json_file;
    json_t *object = report_json(report);
    FILE *file = path ? ca_stream_open(path, "w") : stdout;
    bool good = file && object &&
                json_dumpf(object, file, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) == 0 &&
                fputc('\n', file) != EOF;

    json_decref(object);
    if (file && path)
        good &= fclose(file) == 0;
    if (!good)
        message_say(stderr, "clattn-tune: the result cannot be written as JSON to %s",
                    path ? path : "the output");
    return good;
}

bool tune_report_write(const struct tune_report *report)
{
    const struct tune_options *options = report->options;
    const bool good = !options->json || write_json(report);

    if (!options->json || options->json_file)
        print_report(report, stdout);
    return good;
}
