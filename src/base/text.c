/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

char *ca_text_join(const char *a, const char *b, const char *c)
{
    const size_t bytes = strlen(a) + strlen(b) + strlen(c) + 1;
    char *text = malloc(bytes);

    if (text)
        snprintf(text, bytes, "%s%s%s", a, b, c);
    return text;
}

char *ca_text_copy(const char *text)
{
    return ca_text_join(text, "", "");
}

bool ca_text_read_line(FILE *stream, char **line, size_t *capacity)
{
    size_t length = 0;

    for (;;) {
        if (*capacity - length < 2) {
            char *grown = realloc(*line, 2 * *capacity + 256);
            if (!grown)
                return false;
            *line = grown;
            *capacity = 2 * *capacity + 256;
        }
        if (!fgets(*line + length, (int)(*capacity - length), stream))
            return length > 0;
        length += strlen(*line + length);
        if ((*line)[length - 1] == '\n')
            return true;
    }
}

int ca_text_begin(char *text, size_t text_bytes, size_t *needed)
{
    if (needed)
        *needed = 0;
    if (text && text_bytes > 0)
        text[0] = '\0';
    return text || text_bytes == 0;
}

clattn_status ca_text_end(size_t bytes, size_t text_bytes, size_t *needed)
{
    if (needed)
        *needed = bytes;
    return bytes <= text_bytes ? CLATTN_SUCCESS : CLATTN_BUFFER_TOO_SMALL;
}

clattn_status ca_text_give(const char *whole, char *text, size_t text_bytes, size_t *needed)
{
    if (text)
        snprintf(text, text_bytes, "%s", whole);
    return ca_text_end(strlen(whole) + 1, text_bytes, needed);
}
