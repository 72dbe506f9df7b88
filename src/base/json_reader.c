#include "base/json_reader.h"

#include "base/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ca_json_refuse(struct ca_json_reader *r, const char *what, const char *why)
{
    if (r->status == CLATTN_SUCCESS) {
        r->status = CLATTN_FILE_ERROR;
        ca_reason(r->reason, r->reason_bytes, "%s %s", what, why);
    }
}

void ca_json_no_memory(struct ca_json_reader *r)
{
    if (r->status == CLATTN_SUCCESS) {
        r->status = CLATTN_OUT_OF_MEMORY;
        ca_reason(r->reason, r->reason_bytes, "there is no host memory for it");
    }
}

json_t *ca_json_parse(struct ca_json_reader *r, const char *text, size_t bytes, size_t most,
                      const char *kind)
{
    json_error_t error = {.text = ""};

    ca_reason(r->reason, r->reason_bytes, "%s", "");
    if (bytes > most) {
        ca_json_refuse(r, "it is larger than any", kind);
        return NULL;
    }
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root && error.text[0] == '\0') { /* the parser's own allocations fail without a word */
        ca_json_no_memory(r);
    } else if (!root) {
        r->status = CLATTN_FILE_ERROR;
        ca_reason(r->reason, r->reason_bytes, "line %d is not JSON, or gives a member twice",
                  error.line);
    }
    return root;
}

int ca_json_is_format(const json_t *root, const char *name)
{
    const char *format = json_string_value(json_object_get(root, "format"));

    return format && strcmp(format, name) == 0;
}

void ca_json_version(struct ca_json_reader *r, const json_t *root, const char *version)
{
    const json_t *value = json_object_get(root, "version");

    if (!json_is_integer(value) || json_integer_value(value) != 1)
        ca_json_refuse(r, version, "is not 1, the only one that this version of clattn knows");
}

double ca_json_number(struct ca_json_reader *r, const json_t *value, const char *key)
{
    if (!json_is_number(value))
        ca_json_refuse(r, key, "is missing, or not a number");
    return json_number_value(value);
}

/* The parser refuses a 0 within a text. */
static void read_text(struct ca_json_reader *r, const json_t *value,
                      const struct ca_json_field *field, void *member)
{
    char **copy = member;

    *copy = NULL;
    if (r->status != CLATTN_SUCCESS)
        return;
    if (!json_is_string(value) || json_string_length(value) >= field->bytes) {
        ca_json_refuse(r, field->key, "is missing, or too long, or not a text");
        return;
    }
    *copy = malloc(json_string_length(value) + 1);
    if (*copy)
        memcpy(*copy, json_string_value(value), json_string_length(value) + 1);
    else
        ca_json_no_memory(r);
}

static void read_number(struct ca_json_reader *r, const json_t *value,
                        const struct ca_json_field *field, void *member)
{
    double *number = member;

    *number = ca_json_number(r, value, field->key);
}

static void read_name(struct ca_json_reader *r, const json_t *value,
                      const struct ca_json_field *field, void *member)
{
    if (!value)
        ca_json_refuse(r, field->key, "is missing");
    else if (!json_is_string(value))
        ca_json_refuse(r, field->key, "is not a text");
    else if (json_string_length(value) >= field->bytes)
        ca_json_refuse(r, field->key, "is longer than the library keeps");
    else
        memcpy(member, json_string_value(value), json_string_length(value) + 1);
}

static void read_flag(struct ca_json_reader *r, const json_t *value,
                      const struct ca_json_field *field, void *member)
{
    cl_bool *flag = member;

    if (!json_is_boolean(value))
        ca_json_refuse(r, field->key, value ? "is neither true nor false" : "is missing");
    *flag = json_is_true(value);
}

static void read_seconds(struct ca_json_reader *r, const json_t *value,
                         const struct ca_json_field *field, void *member)
{
    double *seconds = member;

    *seconds = json_is_null(value) ? INFINITY : ca_json_number(r, value, field->key);
    if (*seconds < 0.0)
        ca_json_refuse(r, field->key, "is below 0");
}

void ca_json_fields(struct ca_json_reader *r, const json_t *object,
                    const struct ca_json_field *fields, size_t count, void *to)
{
    static void (*const read[CA_JSON_KINDS])(struct ca_json_reader *, const json_t *,
                                             const struct ca_json_field *, void *) = {
        [CA_JSON_TEXT] = read_text, [CA_JSON_NUMBER] = read_number,   [CA_JSON_NAME] = read_name,
        [CA_JSON_FLAG] = read_flag, [CA_JSON_SECONDS] = read_seconds,
    };

    for (size_t n = 0; n < count; n++)
        read[fields[n].kind](r, json_object_get(object, fields[n].key), &fields[n],
                             (char *)to + fields[n].offset);
}
