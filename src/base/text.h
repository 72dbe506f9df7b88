/* SPDX-License-Identifier: Apache-2.0 */
/* Texts with memory of their own, and texts for callers' buffers. */
#ifndef CA_TEXT_H
#define CA_TEXT_H

#include <clattn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Copy a text, or join three texts; the caller frees the result. NULL without memory. */
char *ca_text_copy(const char *text);
char *ca_text_join(const char *a, const char *b, const char *c);

/* Reads a line with its end into memory that grows as needed; *line is for free() in any case. False at the stream's
 * end, and without memory. */
bool ca_text_read_line(FILE *stream, char **line, size_t *capacity);

/* Begins to write a text to a caller's buffer: makes it empty, and *needed 0. Returns 0 if the buffer is NULL but has a size.
 * needed: NULL, or receives the bytes that the text takes, with its end. */
int ca_text_begin(char *text, size_t text_bytes, size_t *needed);

/* Stores the bytes that the text takes: CLATTN_SUCCESS, or CLATTN_BUFFER_TOO_SMALL. */
clattn_status ca_text_end(size_t bytes, size_t text_bytes, size_t *needed);

/* Does both for a text that is complete. */
clattn_status ca_text_give(const char *whole, char *text, size_t text_bytes, size_t *needed);

#endif
