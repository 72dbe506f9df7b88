/* SPDX-License-Identifier: Apache-2.0 */
/* Texts in memory of their own. */
#ifndef CA_TEXT_H
#define CA_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A copy, and three texts as one; the caller frees it. NULL without memory. */
char *ca_text_copy(const char *text);
char *ca_text_join(const char *a, const char *b, const char *c);

/* Reads a line with its end into memory that grows as needed; *line is for free() in any case. False at the stream's
 * end, and without memory. */
bool ca_text_read_line(FILE *stream, char **line, size_t *capacity);

#endif
