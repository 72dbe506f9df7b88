/* Reads JSON that somebody else wrote: the first thing that is wrong with it is said, the rest is
 * not looked at. */
#ifndef CA_JSON_READER_H
#define CA_JSON_READER_H

#include <clattn/context.h>
#include <jansson.h>
#include <stddef.h>

/* What went wrong so far; without a reason nobody is told. */
struct ca_json_reader {
    clattn_status status;
    char *reason; /* NULL, or so many bytes */
    size_t reason_bytes;
};

/* Says "WHAT WHY", unless something else was said before. */
void ca_json_refuse(struct ca_json_reader *r, const char *what, const char *why);
void ca_json_no_memory(struct ca_json_reader *r);

/* The whole text, of at most `most` bytes: a larger one "is larger than any KIND". NULL on failure. */
json_t *ca_json_parse(struct ca_json_reader *r, const char *text, size_t bytes, size_t most,
                      const char *kind);

/* Whether the member "format" has this name; checks that "version" is 1, as `version` is called. */
int ca_json_is_format(const json_t *root, const char *name);
void ca_json_version(struct ca_json_reader *r, const json_t *root, const char *version);

enum ca_json_kind {
    CA_JSON_TEXT,    /* char *: a copy that the caller owns even if something is refused later */
    CA_JSON_NUMBER,  /* double */
    CA_JSON_NAME,    /* an array of chars */
    CA_JSON_FLAG,    /* cl_bool */
    CA_JSON_SECONDS, /* double, not below 0; null, as JSON has no word for it, is INFINITY */
    CA_JSON_KINDS
};

/* A member of an object and the member of a struct where it goes. */
struct ca_json_field {
    const char *key;
    enum ca_json_kind kind;
    size_t offset;
    size_t bytes; /* most of a text, the terminating 0 included */
};

/* Reads the fields, all of which must be there. Texts that are not read are NULL. */
void ca_json_fields(struct ca_json_reader *r, const json_t *object,
                    const struct ca_json_field *fields, size_t count, void *to);

/* A number of a list that is called `key`. */
double ca_json_number(struct ca_json_reader *r, const json_t *value, const char *key);

#endif
