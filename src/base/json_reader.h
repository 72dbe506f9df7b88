/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON from an untrusted source: the first error is reported, the rest is not examined. */
#ifndef CA_JSON_READER_H
#define CA_JSON_READER_H

#include "base/json.h"
#include <clattn/context.h>
#include <stdbool.h>
#include <stddef.h>

/* A reader and its first error. Without a buffer for the reason, only the status tells of an error. */
struct ca_json_reader {
    clattn_status status;
    char *reason; /* a buffer of reason_bytes bytes, or NULL */
    size_t reason_bytes;
    /* complaints begin with it, unless it is "", and say the whole way to a value:
     * "FILE: devices[0].results[3].problem is empty"; NULL: they say the value's name alone */
    const char *file;
    /* makes texts and complaints printable in place; NULL: changes none */
    void (*clean)(char *text);
};

/* Reports "WHAT WHY", unless another error was reported before. */
void ca_json_refuse(struct ca_json_reader *r, const char *what, const char *why);
void ca_json_no_memory(struct ca_json_reader *r);

/* Reports an error that begins with "FILE: ", if there is a file, formatted like printf. Returns
 * false. */
bool ca_json_say(struct ca_json_reader *r, const char *format, ...);

/* Reports why a text could not be read. */
void ca_json_unparsed(struct ca_json_reader *r, const struct ca_json_error *error);

/* The whole text, of at most `most` bytes: a larger one "is larger than any KIND". NULL on failure; ca_json_free() frees it. */
struct ca_json *ca_json_parse(struct ca_json_reader *r, const char *text, size_t bytes, size_t most,
                              const char *kind);

/* The first returns whether the member "format" has this name. The second checks that "version"
 * is 1; messages call it `version`. */
int ca_json_is_format(const struct ca_json *root, const char *name);
void ca_json_version(struct ca_json_reader *r, const struct ca_json *root, const char *version);

/* ---- values and the ways to them -------------------------------------------------------------- */

/* A value within `in`, found by its key, or by its index if key is NULL. */
struct ca_json_place {
    const struct ca_json_place *in; /* NULL: this is the whole document */
    const char *key;
    size_t index;
    const struct ca_json *value; /* NULL if nothing is there */
    struct ca_json_reader *reader;
};

struct ca_json_place ca_place_child(const struct ca_json_place *in, const char *key);
struct ca_json_place ca_place_element(const struct ca_json_place *in, size_t index);

/* Reports that the value is missing, or what is wrong with it, formatted like printf. Returns
 * false. */
bool ca_place_refuse(const struct ca_json_place *place, const char *format, ...);

bool ca_place_object(const struct ca_json_place *place);
bool ca_place_array(const struct ca_json_place *place, size_t least, size_t most);

/* The following functions read a member of an object. */

bool ca_place_text(const struct ca_json_place *in, const char *key, char *text, size_t bytes);

/* null becomes "". */
bool ca_place_text_or_null(const struct ca_json_place *in, const char *key, char *text,
                           size_t bytes);

/* A text that is not empty, of any length, owned by the caller; null becomes NULL where that is
 * allowed. */
bool ca_place_copy(const struct ca_json_place *in, const char *key, bool may_be_null, char **text);

/* The position in `words`, which ends with NULL. */
bool ca_place_word(const struct ca_json_place *in, const char *key, const char *const *words,
                   size_t *position);

bool ca_place_flag(const struct ca_json_place *in, const char *key, bool *flag);

/* Numbers within these limits can be multiplied and divided without overflow. */
#define CA_PLACE_LARGE 1e30
#define CA_PLACE_POSITIVE 1e-30

/* A number of at least `least`, 0 or CA_PLACE_POSITIVE. ca_place_number_here() reads the value
 * itself. */
bool ca_place_number_here(const struct ca_json_place *place, double least, double *number);
bool ca_place_number(const struct ca_json_place *in, const char *key, double least, double *number);

/* Whole numbers. */
bool ca_place_count(const struct ca_json_place *in, const char *key, size_t least, size_t most,
                    size_t *count);

/* ---- fields of structs ------------------------------------------------------------------------ */

enum ca_json_kind {
    CA_JSON_TEXT,     /* char *: a copy that the caller owns even if something is refused later */
    CA_JSON_NUMBER,   /* double */
    CA_JSON_NAME,     /* an array of chars */
    CA_JSON_FLAG,     /* cl_bool */
    CA_JSON_SECONDS,  /* double, not below 0; null, as JSON has no word for it, is INFINITY */
    CA_JSON_UNSIGNED, /* cl_uint, a whole number up to 1000000000 */
    CA_JSON_SIZE,     /* size_t */
    CA_JSON_BYTES,    /* cl_ulong */
    CA_JSON_KINDS
};

/* A member of an object and the member of a struct where it goes. */
struct ca_json_field {
    const char *key;
    enum ca_json_kind kind;
    size_t offset;
    size_t bytes; /* the longest text's size, its terminating 0 included */
};

/* Reads the fields, all of which must be there. Texts that are not read are NULL. Returns false if
 * there was an error, now or before. */
bool ca_json_fields(struct ca_json_reader *r, const struct ca_json *object,
                    const struct ca_json_field *fields, size_t count, void *to);
bool ca_place_fields(const struct ca_json_place *in, const struct ca_json_field *fields,
                     size_t count, void *to);

/* A number of a list that is called `key`. */
double ca_json_number(struct ca_json_reader *r, const struct ca_json *value, const char *key);

#endif
