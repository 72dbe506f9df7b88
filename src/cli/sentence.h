/* One sentence for a person about what went wrong. */
#ifndef CA_SENTENCE_H
#define CA_SENTENCE_H

#include <stdbool.h>

struct ca_sentence {
    char text[512];
};

/* Formats like printf, control characters shown as '?': texts from files may hold what a terminal
 * would obey. Returns false, so that a failing function ends in `return ca_say()`. */
bool ca_say(struct ca_sentence *sentence, const char *format, ...);

#endif
