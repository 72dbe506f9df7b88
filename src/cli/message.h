/* One sentence for a person about what went wrong. */
#ifndef CLATTN_BENCH_MESSAGE_H
#define CLATTN_BENCH_MESSAGE_H

#include <jansson.h>
#include <stdbool.h>

struct message {
    char text[512];
};

/* Formats like printf. Returns false, so that a failing function ends in `return message_set()`. */
bool message_set(struct message *message, const char *format, ...);

/* Replaces control characters, which a terminal would obey, and what is no UTF-8, which JSON cannot
 * hold: texts from files and drivers may be anything. */
void message_sanitize(char *text);

/* The same of a copy, as a string; NULL without memory, or of NULL. */
json_t *message_json(const char *raw);

#endif
