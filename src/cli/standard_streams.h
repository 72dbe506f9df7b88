/* SPDX-License-Identifier: Apache-2.0 */
/* The program's standard streams, for both programs: what they were given is checked once at the
 * beginning (ca_standard_streams_begin()) and once at the end of main(), so that no printf() needs a check of its own. */
#ifndef CA_STANDARD_STREAMS_H
#define CA_STANDARD_STREAMS_H

#include "os/process.h"

/* Flushes stdout, and returns the exit status: `status`, or EXIT_FAILURE after a sentence on stderr
 * if that is EXIT_SUCCESS and printed text got lost. */
int ca_standard_streams_end(const char *program, int status);

#endif
