/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about the terminal that a stream leads to. */
#ifndef CA_OS_TERMINAL_H
#define CA_OS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

bool ca_stream_is_terminal(FILE *stream);

/* The terminal's columns; 0 if the system does not say, or the stream is no terminal. */
size_t ca_stream_columns(FILE *stream);

#endif
