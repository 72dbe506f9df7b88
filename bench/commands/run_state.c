/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/run_state.h"

#include <stdio.h>
#include <string.h>

/* Standard output has room for one thing. */
bool run_has_table(const struct run_settings *settings)
{
    return !settings->quiet && (settings->json == NULL || strcmp(settings->json, "-") != 0) &&
           (settings->csv == NULL || strcmp(settings->csv, "-") != 0);
}

bool run_complain(struct run *run, const char *text)
{
    if (run != NULL)
        progress_clear(&run->progress);
    fflush(stdout);
    message_say(stderr, "clattn-bench run: %s", text);
    return false;
}
