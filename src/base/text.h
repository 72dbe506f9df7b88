/* Texts in memory of their own. */
#ifndef CA_TEXT_H
#define CA_TEXT_H

/* A copy, and three texts as one; the caller frees it. NULL without memory. */
char *ca_text_copy(const char *text);
char *ca_text_join(const char *a, const char *b, const char *c);

#endif
