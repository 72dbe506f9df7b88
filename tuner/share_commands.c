/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-tune export, import and merge: results that go from one machine to another. */
#include "cli/message.h"
#include "tuner/command_line.h"
#include "tuner/commands.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static const char export_help[] =
    "Usage: clattn-tune export FILE [--device D]\n"
    "Writes everything that is known of a device to a file, for others with the same device.\n";

static const char import_help[] =
    "Usage: clattn-tune import FILE [--device D]\n"
    "Takes over what FILE (an export, a merged file, another's store) holds of a device. Of two\n"
    "entries for one configuration the better measured stays. What comes from elsewhere must fit\n"
    "the device and pass a check before it is used.\n";

static const char merge_help[] =
    "Usage: clattn-tune merge FILE... -o FILE\n"
    "Makes one file of several, of any devices; their order does not matter. Needs no device.\n";

int export_command(int argc, char **argv)
{
    struct command_line line;
    int status;

    if (!command_line_parse(argc, argv, export_help, "d", 1, 1, &line, &status))
        return status;
    clattn_context *context = command_context(&line);
    if (!context)
        return EXIT_FAILURE;
    const clattn_status made = clattn_tuning_export(context, line.words[0]);
    clattn_context_release(context);
    if (made == CLATTN_NOT_TUNED)
        fputs("clattn-tune export: nothing is known of this device; clattn-tune tunes it\n",
              stderr);
    return made == CLATTN_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}

int import_command(int argc, char **argv)
{
    struct command_line line;
    size_t taken = 0;
    int status;

    if (!command_line_parse(argc, argv, import_help, "d", 1, 1, &line, &status))
        return status;
    clattn_context *context = command_context(&line);
    if (!context)
        return EXIT_FAILURE;
    const clattn_status made = clattn_tuning_import(context, line.words[0], &taken);
    clattn_context_release(context);
    if (made == CLATTN_SUCCESS)
        printf("%zu entries taken over\n", taken);
    return made == CLATTN_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}

int merge_command(int argc, char **argv)
{
    struct command_line line;
    char reason[512];
    int status;

    if (!command_line_parse(argc, argv, merge_help, "o", 1, INT_MAX, &line, &status))
        return status;
    if (!line.output)
        return command_usage("merge", "-o FILE is missing");
    const clattn_status made =
        clattn_tuning_merge((const char *const *)line.words, (size_t)line.num_words, line.output,
                            reason, sizeof reason);
    if (made != CLATTN_SUCCESS)
        message_say(stderr, "clattn-tune merge: %s", reason);
    return made == CLATTN_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
