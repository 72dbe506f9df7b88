/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_reader.h"
#include "base/log.h"
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first complaint is kept. */
static void complain(struct ca_json_reader *r, clattn_status status, const char *text)
{
    if (r->status != CLATTN_SUCCESS)
        return;
    r->status = status;
    ca_reason(r->reason, r->reason_bytes, "%s", text);
    if (r->reason && r->clean)
        r->clean(r->reason);
}

void ca_json_refuse(struct ca_json_reader *r, const char *what, const char *why)
{
    ca_json_say(r, "%s %s", what, why);
}

void ca_json_no_memory(struct ca_json_reader *r)
{
    complain(r, CLATTN_OUT_OF_MEMORY, "there is no host memory for it");
}

bool ca_json_say(struct ca_json_reader *r, const char *format, ...)
{
    char sentence[512], text[768];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    snprintf(text, sizeof text, "%.200s%s%s", r->file ? r->file : "",
             r->file && *r->file ? ": " : "", sentence);
    complain(r, CLATTN_FILE_ERROR, text);
    return false;
}

void ca_json_unparsed(struct ca_json_reader *r, const struct ca_json_error *error)
{
    if (error->no_memory)
        ca_json_no_memory(r);
    else if (r->file)
        ca_json_say(r, "line %d is not JSON: %s", error->line, error->text);
    else
        ca_json_say(r, "line %d is not JSON, or gives a member twice", error->line);
}

struct ca_json *ca_json_parse(struct ca_json_reader *r, const char *text, size_t bytes, size_t most,
                              const char *kind)
{
    struct ca_json_error error;

    ca_reason(r->reason, r->reason_bytes, "%s", "");
    if (bytes > most) {
        ca_json_refuse(r, "it is larger than any", kind);
        return NULL;
    }
    struct ca_json *root = ca_json_read(text, bytes, &error);
    if (!root)
        ca_json_unparsed(r, &error);
    return root;
}

int ca_json_is_format(const struct ca_json *root, const char *name)
{
    const char *format = ca_json_text(ca_json_get(root, "format"));

    return format && strcmp(format, name) == 0;
}

void ca_json_version(struct ca_json_reader *r, const struct ca_json *root, const char *version)
{
    const struct ca_json *value = ca_json_get(root, "version");

    if (!ca_json_is(value, CA_JSON_INTEGER) || ca_json_integer(value) != 1)
        ca_json_refuse(r, version, "is not 1, the only one that this version of clattn knows");
}

/* ---- values and the ways to them -------------------------------------------------------------- */

struct ca_json_place ca_place_child(const struct ca_json_place *in, const char *key)
{
    return (struct ca_json_place){in, key, 0, ca_json_get(in->value, key), in->reader};
}

struct ca_json_place ca_place_element(const struct ca_json_place *in, size_t index)
{
    return (struct ca_json_place){in, NULL, index, ca_json_at(in->value, index), in->reader};
}

/* Appends a step such as "devices[0]" or ".problem" to the path of `length` characters, and returns
 * its new length. */
static size_t print_way(const struct ca_json_place *place, char *text, size_t length, size_t bytes)
{
    int more;

    if (!place->in)
        return length;
    length = print_way(place->in, text, length, bytes);
    if (!place->key)
        more = snprintf(text + length, bytes - length, "[%zu]", place->index);
    else
        more = snprintf(text + length, bytes - length, "%s%s", length > 0 ? "." : "", place->key);
    return length + (size_t)more < bytes ? length + (size_t)more : bytes - 1;
}

/* "FILE: PLACE REASON", or "NAME REASON". */
bool ca_place_refuse(const struct ca_json_place *place, const char *format, ...)
{
    const char *file = place->reader->file;
    char way[192] = "", reason[192], text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    if (!file)
        snprintf(way, sizeof way, "%s", place->key);
    else if (!place->in)
        snprintf(way, sizeof way, "the document");
    else
        print_way(place, way, 0, sizeof way);
    snprintf(text, sizeof text, "%.120s%s%s %s", file ? file : "", file && *file ? ": " : "", way,
             place->value ? reason : "is missing");
    complain(place->reader, CLATTN_FILE_ERROR, text);
    return false;
}

bool ca_place_object(const struct ca_json_place *place)
{
    return ca_json_is(place->value, CA_JSON_OBJECT) || ca_place_refuse(place, "is not an object");
}

bool ca_place_array(const struct ca_json_place *place, size_t least, size_t most)
{
    if (!ca_json_is(place->value, CA_JSON_ARRAY))
        return ca_place_refuse(place, "is not an array");
    const size_t size = ca_json_size(place->value);
    return (size >= least && size <= most) ||
           ca_place_refuse(place, "has %zu elements, but there may be %zu to %zu", size, least,
                           most);
}

/* The parser refuses a 0 within a text. */
bool ca_place_text(const struct ca_json_place *in, const char *key, char *text, size_t bytes)
{
    const struct ca_json_place place = ca_place_child(in, key);

    if (!ca_json_is(place.value, CA_JSON_STRING))
        return ca_place_refuse(&place, "is not a text");
    if (place.value->count >= bytes)
        return in->reader->file ? ca_place_refuse(&place, "is longer than %zu bytes", bytes - 1)
                                : ca_place_refuse(&place, "is longer than the library keeps");
    strcpy(text, ca_json_text(place.value));
    if (in->reader->clean)
        in->reader->clean(text);
    return true;
}

bool ca_place_text_or_null(const struct ca_json_place *in, const char *key, char *text,
                           size_t bytes)
{
    text[0] = '\0';
    if (ca_json_is(ca_json_get(in->value, key), CA_JSON_NULL))
        return true;
    return ca_place_text(in, key, text, bytes);
}

bool ca_place_copy(const struct ca_json_place *in, const char *key, bool may_be_null, char **text)
{
    const struct ca_json_place place = ca_place_child(in, key);

    if (may_be_null && ca_json_is(place.value, CA_JSON_NULL))
        return true;
    if (!ca_json_is(place.value, CA_JSON_STRING))
        return ca_place_refuse(&place, "is not a text");
    if (place.value->count == 0)
        return ca_place_refuse(&place, "is empty");
    *text = ca_text_copy(ca_json_text(place.value));
    if (!*text)
        return ca_json_say(in->reader, "no memory for the results");
    if (in->reader->clean)
        in->reader->clean(*text);
    return true;
}

bool ca_place_word(const struct ca_json_place *in, const char *key, const char *const *words,
                   size_t *position)
{
    const struct ca_json_place place = ca_place_child(in, key);
    const char *text = ca_json_text(place.value);

    if (!text)
        return ca_place_refuse(&place, "is not a text");
    for (*position = 0; words[*position]; ++*position)
        if (strcmp(words[*position], text) == 0)
            return true;
    return ca_place_refuse(&place, "is '%.40s', which is unknown", text);
}

bool ca_place_flag(const struct ca_json_place *in, const char *key, bool *flag)
{
    const struct ca_json_place place = ca_place_child(in, key);

    *flag = ca_json_is(place.value, CA_JSON_TRUE);
    return (ca_json_is(place.value, CA_JSON_TRUE) || ca_json_is(place.value, CA_JSON_FALSE)) ||
           ca_place_refuse(&place, "is neither true nor false");
}

bool ca_place_number_here(const struct ca_json_place *place, double least, double *number)
{
    if (!ca_json_is_number(place->value))
        return ca_place_refuse(place, "is not a number");
    *number = ca_json_real(place->value);
    if (*number > CA_PLACE_LARGE)
        return ca_place_refuse(place, "is %g, but must be at most %g", *number, CA_PLACE_LARGE);
    return *number >= least || ca_place_refuse(place, "is %g, but must be %s", *number,
                                               least > 0.0 ? "positive" : "at least 0");
}

bool ca_place_number(const struct ca_json_place *in, const char *key, double least, double *number)
{
    const struct ca_json_place place = ca_place_child(in, key);

    return ca_place_number_here(&place, least, number);
}

bool ca_place_count(const struct ca_json_place *in, const char *key, size_t least, size_t most,
                    size_t *count)
{
    const struct ca_json_place place = ca_place_child(in, key);

    if (!ca_json_is(place.value, CA_JSON_INTEGER))
        return ca_place_refuse(&place, "is not a whole number");
    const long long value = ca_json_integer(place.value);
    if (value < (long long)least || (unsigned long long)value > most)
        return ca_place_refuse(&place, "is %lld, but must be from %zu to %zu", (long long)value,
                               least, most);
    *count = (size_t)value;
    return true;
}

/* ---- fields of structs ------------------------------------------------------------------------ */

static void read_text(const struct ca_json_place *in, const struct ca_json_field *field,
                      void *member)
{
    const struct ca_json *value = ca_json_get(in->value, field->key);
    char **copy = member;

    *copy = NULL;
    if (in->reader->status != CLATTN_SUCCESS)
        return;
    if (!ca_json_is(value, CA_JSON_STRING) || value->count >= field->bytes) {
        ca_json_refuse(in->reader, field->key, "is missing, or too long, or not a text");
        return;
    }
    *copy = malloc(value->count + 1);
    if (*copy)
        memcpy(*copy, ca_json_text(value), value->count + 1);
    else
        ca_json_no_memory(in->reader);
}

double ca_json_number(struct ca_json_reader *r, const struct ca_json *value, const char *key)
{
    if (!ca_json_is_number(value))
        ca_json_refuse(r, key, "is missing, or not a number");
    return ca_json_real(value);
}

static void read_number(const struct ca_json_place *in, const struct ca_json_field *field,
                        void *member)
{
    double *number = member;

    *number = ca_json_number(in->reader, ca_json_get(in->value, field->key), field->key);
}

static void read_name(const struct ca_json_place *in, const struct ca_json_field *field,
                      void *member)
{
    ca_place_text(in, field->key, member, field->bytes);
}

static void read_flag(const struct ca_json_place *in, const struct ca_json_field *field,
                      void *member)
{
    cl_bool *flag = member;
    bool is_true;

    ca_place_flag(in, field->key, &is_true);
    *flag = is_true;
}

static void read_seconds(const struct ca_json_place *in, const struct ca_json_field *field,
                         void *member)
{
    const struct ca_json *value = ca_json_get(in->value, field->key);
    double *seconds = member;

    *seconds =
        ca_json_is(value, CA_JSON_NULL) ? INFINITY : ca_json_number(in->reader, value, field->key);
    if (*seconds < 0.0)
        ca_json_refuse(in->reader, field->key, "is below 0");
}

static void read_unsigned(const struct ca_json_place *in, const struct ca_json_field *field,
                          void *member)
{
    cl_uint *number = member;
    size_t count = 0;

    ca_place_count(in, field->key, 0, 1000000000, &count);
    *number = (cl_uint)count;
}

static void read_size(const struct ca_json_place *in, const struct ca_json_field *field,
                      void *member)
{
    ca_place_count(in, field->key, 0, INT64_MAX, member);
}

static void read_bytes(const struct ca_json_place *in, const struct ca_json_field *field,
                       void *member)
{
    cl_ulong *bytes = member;
    size_t count = 0;

    ca_place_count(in, field->key, 0, INT64_MAX, &count);
    *bytes = count;
}

bool ca_place_fields(const struct ca_json_place *in, const struct ca_json_field *fields,
                     size_t count, void *to)
{
    static void (*const read[CA_JSON_KINDS])(const struct ca_json_place *,
                                             const struct ca_json_field *, void *) = {
        [CA_JSON_TEXT] = read_text,       [CA_JSON_NUMBER] = read_number,
        [CA_JSON_NAME] = read_name,       [CA_JSON_FLAG] = read_flag,
        [CA_JSON_SECONDS] = read_seconds, [CA_JSON_UNSIGNED] = read_unsigned,
        [CA_JSON_SIZE] = read_size,       [CA_JSON_BYTES] = read_bytes,
    };

    for (size_t n = 0; n < count; n++)
        read[fields[n].kind](in, &fields[n], (char *)to + fields[n].offset);
    return in->reader->status == CLATTN_SUCCESS;
}

bool ca_json_fields(struct ca_json_reader *r, const struct ca_json *object,
                    const struct ca_json_field *fields, size_t count, void *to)
{
    const struct ca_json_place place = {.value = object, .reader = r};

    return ca_place_fields(&place, fields, count, to);
}
