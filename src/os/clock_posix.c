/* SPDX-License-Identifier: Apache-2.0 */
#include "os/posix.h"

#include "os/clock.h"

double ca_stopwatch_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void ca_nap(double seconds)
{
    const time_t whole = (time_t)seconds;
    const struct timespec nap = {whole, (long)((seconds - (double)whole) * 1e9)};

    nanosleep(&nap, NULL);
}

void ca_utc_print(time_t when, const char *format, char *text, size_t bytes)
{
    struct tm utc = {.tm_mday = 1};

    gmtime_r(&when, &utc);
    strftime(text, bytes, format, &utc);
}
