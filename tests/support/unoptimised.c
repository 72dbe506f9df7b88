/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "tests/support/unoptimised.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

void unoptimised(void)
{
#if !defined(_WIN32) /* there the driver knows those variables alone that the program began with */
    setenv("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable -Dalways_inline=", 0); /* "" optimises all */
#endif
}

uint64_t run_seed(void)
{
    const char *text = getenv("CLATTN_TEST_SEED");

    if (text && strcmp(text, "day") == 0)
        return (uint64_t)time(NULL) / 86400;
    return text && text[0] ? strtoull(text, NULL, 10) : 1;
}

uint64_t run_number(const char *name, const uint64_t otherwise)
{
    const char *text = getenv(name);

    return text && text[0] ? strtoull(text, NULL, 10) : otherwise;
}

int run_all(const char *name)
{
    const char *which = getenv(name);

    return which && strcmp(which, "all") == 0;
}

/* Whether number n of those that are shared by as many runs as there are is this run's. */
static int is_of_this_run(const uint64_t n, const uint64_t runs)
{
    return (n + run_seed()) % runs == 0 || run_number("CLATTN_TEST_ALL", 0) == 1 ||
           run_all("CLATTN_TEST_FAMILIES");
}

/* Nightly runs have more time. */
static uint64_t runs_that_share(const unsigned nightly_runs)
{
    const char *seed = getenv("CLATTN_TEST_SEED");

    return seed && strcmp(seed, "day") == 0 ? nightly_runs : 3 * (uint64_t)nightly_runs;
}

int run_takes(const uint64_t n, const unsigned nightly_runs)
{
    return is_of_this_run(n, runs_that_share(nightly_runs));
}

void mostly_unoptimised(const size_t turn, const size_t turns)
{
    if ((turn + run_seed()) % turns != 0)
        unoptimised();
}

int run_takes_of(const uint64_t n, const size_t count, const unsigned nightly_runs)
{
    const uint64_t runs = runs_that_share(nightly_runs);

    return is_of_this_run(n, count < runs ? count : runs);
}

size_t numbers_taken(const size_t count, const uint64_t test, const unsigned nightly_runs,
                     size_t *numbers)
{
    size_t taken = 0;

    for (size_t n = 0; n < count; n++)
        if (run_takes_of(n + test, count, nightly_runs))
            numbers[taken++] = n;
    return taken;
}
