/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON (RFC 8259) into values, which stay as they were read. Texts are UTF-8 without a character 0. */
#ifndef CA_JSON_H
#define CA_JSON_H

#include <stdbool.h>
#include <stddef.h>

enum ca_json_type {
    CA_JSON_NULL,
    CA_JSON_FALSE,
    CA_JSON_TRUE,
    CA_JSON_INTEGER, /* a number without a fraction and an exponent */
    CA_JSON_REAL,
    CA_JSON_STRING,
    CA_JSON_ARRAY,
    CA_JSON_OBJECT
};

/* A value. Of objects `of` is the values of the members, whose keys are different. */
struct ca_json {
    enum ca_json_type type;
    const char *key; /* of a member; NULL elsewhere */
    union {
        long long integer;
        double real;
        const char *text;
        const struct ca_json *of; /* count values, of an array or an object */
    };
    size_t count; /* bytes of a text, or values */
};

/* What is wrong with a text, and the line, counted from 1. */
struct ca_json_error {
    bool no_memory;
    int line;
    char text[80];
};

/* The value of a whole text; NULL on failure. ca_json_free() frees it with all that it holds. */
struct ca_json *ca_json_read(const char *text, size_t bytes, struct ca_json_error *error);
void ca_json_free(struct ca_json *root); /* NULL is none */

/* ---- questions; the value may be NULL, which is nothing, and of another type ------------------- */

const struct ca_json *ca_json_get(const struct ca_json *object, const char *key);
const struct ca_json *ca_json_at(const struct ca_json *array, size_t index);

/* The number of an array's values or of an object's members; 0 for other types. */
size_t ca_json_size(const struct ca_json *value);

bool ca_json_is(const struct ca_json *value, enum ca_json_type type);
bool ca_json_is_number(const struct ca_json *value);

const char *ca_json_text(const struct ca_json *value);  /* NULL unless it is a string */
double ca_json_real(const struct ca_json *value);       /* of any number; else 0 */
long long ca_json_integer(const struct ca_json *value); /* 0 unless it is an integer */

#endif
