/* SPDX-License-Identifier: Apache-2.0 */
/* The host's clocks. */
#ifndef CA_CLOCK_H
#define CA_CLOCK_H

#include <stddef.h>
#include <time.h>

/* Seconds since some moment; never set back. */
double ca_stopwatch_now(void);

/* Sleeps; a signal may end it early. */
void ca_nap(double seconds);

/* Prints a moment in UTC as strftime() does. */
void ca_utc_print(time_t when, const char *format, char *text, size_t bytes);
#define CA_UTC_ISO "%Y-%m-%dT%H:%M:%SZ"

#endif
