/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/run_state.h"
#include "bench/commands/options.h"

#include <stdio.h>

/* Standard output has room for one thing. */
bool run_has_table(const struct run_settings *settings)
{
    return !settings->quiet && !option_to_stdout(settings->json) &&
           !option_to_stdout(settings->csv);
}

bool run_complain(struct run *run, const char *text)
{
    if (run != NULL)
        progress_clear(&run->progress);
    fflush(stdout);
    message_say(stderr, "clattn-bench run: %s", text);
    return false;
}
