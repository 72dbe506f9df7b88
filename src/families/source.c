/* SPDX-License-Identifier: Apache-2.0 */
#include "families/source.h"

#include <stdlib.h>
#include <string.h>

extern const char
    *const ca_source_words[]; /* the word of each character as an unsigned char; NULL if none */

static const char *word_of(const char *at)
{
    return ca_source_words[(unsigned char)*at];
}

const char *ca_source_next(struct ca_source_reader *reader, size_t *length)
{
    while (*reader->pieces && (reader->at ? reader->at : *reader->pieces)[0] == '\0') {
        reader->pieces++;
        reader->at = NULL;
    }
    if (!*reader->pieces)
        return NULL;
    const char *at = reader->at ? reader->at : *reader->pieces;
    const char *const word = word_of(at), *end = at + 1;
    while (!word && *end && !word_of(end))
        end++;
    reader->at = end;
    *length = word ? strlen(word) : (size_t)(end - at);
    return word ? word : at;
}

char *ca_source_text(const char *const *pieces)
{
    struct ca_source_reader measured = {pieces, NULL}, copied = {pieces, NULL};
    size_t bytes = 0, length;

    while (ca_source_next(&measured, &length))
        bytes += length;
    char *text = malloc(bytes + 1), *to = text;
    for (const char *from; text && (from = ca_source_next(&copied, &length)); to += length)
        memcpy(to, from, length);
    if (text)
        *to = '\0';
    return text;
}
