/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner/tune_output.h"
#include "cli/message.h"
#include "cli/terminal/terminal.h"

bool tune_fail(const char *format, const char *text)
{
    struct message what;

    message_set(&what, format, text);
    message_say(stderr, "clattn-tune: %s", what.text);
    return false;
}

static bool write_json(const struct tune_report *report)
{
    const char *path = report->options->json_file;
    json_t *object = tune_report_json(report);
    FILE *file = path ? fopen(path, "w") : stdout;
    bool good = file && object &&
                json_dumpf(object, file, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) == 0 &&
                fputc('\n', file) != EOF;

    json_decref(object);
    if (file && path)
        good &= fclose(file) == 0;
    return good ||
           tune_fail("the result cannot be written as JSON to %s", path ? path : "the output");
}

bool tune_output(const struct tune_report *report)
{
    const struct tune_options *options = report->options;
    const bool good = !options->json || write_json(report);

    if (!options->json || options->json_file)
        tune_report_print(report, stdout);
    return good;
}
