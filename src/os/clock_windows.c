/* SPDX-License-Identifier: Apache-2.0 */
#include "os/windows.h"

#include "os/clock.h"

#include <time.h>

double ca_stopwatch_now(void)
{
    LARGE_INTEGER ticks, second;

    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&second);
    return (double)ticks.QuadPart / (double)second.QuadPart;
}

void ca_nap(double seconds)
{
    const double milliseconds = seconds * 1e3;

    Sleep(milliseconds < 1.0 ? 1 : milliseconds < 4e9 ? (DWORD)milliseconds : 4000000000u);
}

void ca_utc_print(time_t when, const char *format, char *text, size_t bytes)
{
    struct tm utc = {.tm_mday = 1};

    gmtime_s(&utc, &when);
    strftime(text, bytes, format, &utc);
}
