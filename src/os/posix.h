/* SPDX-License-Identifier: Apache-2.0 */
/* To be included first by the files of this folder that are for POSIX: what they want of the system's headers. */
#ifndef CA_POSIX_H
#define CA_POSIX_H

#if defined(__APPLE__)
#define _DARWIN_C_SOURCE /* flock */
#elif defined(__linux__)
#define _GNU_SOURCE
#endif

/* SIGINT, SIGTERM and SIGHUP. */
enum { CA_INTERRUPTS = 3 };
extern const int ca_interrupt_numbers[CA_INTERRUPTS];

#endif
