/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 256, BLOCK_BYTES = 16384, NUMBER_BYTES = 512 };

/* Memory is taken in blocks, which the root's owner frees together. */
struct block {
    struct block *next;
    size_t used, bytes;
    _Alignas(16) unsigned char room[];
};

struct document {
    struct ca_json root; /* first: ca_json_free() is given its address */
    struct block *blocks;
};

struct reader {
    const char *at, *end;
    int line, depth;
    struct document *document;
    struct ca_json_error *error;
    struct ca_json *open; /* values whose array or object is still being read */
    size_t num_open, room_open;
};

/* ---- memory and errors ------------------------------------------------------------------------ */

static bool fail(struct reader *r, const char *format, ...)
{
    va_list arguments;

    if (r->error->text[0] || r->error->no_memory)
        return false;
    va_start(arguments, format);
    vsnprintf(r->error->text, sizeof r->error->text, format, arguments);
    va_end(arguments);
    r->error->line = r->line;
    return false;
}

static void *no_memory(struct reader *r)
{
    r->error->no_memory = true;
    return NULL;
}

static void *take(struct reader *r, size_t bytes)
{
    struct block *block = r->document->blocks;

    bytes = (bytes + 15) / 16 * 16;
    if (!block || block->bytes - block->used < bytes) {
        const size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        struct block *more = malloc(sizeof *more + room);
        if (!more)
            return no_memory(r);
        *more = (struct block){.next = block, .bytes = room};
        r->document->blocks = block = more;
    }
    block->used += bytes;
    return block->room + block->used - bytes;
}

/* ---- texts ------------------------------------------------------------------------------------ */

/* The bytes of the UTF-8 character at `at`, of which `left` are there; 0 if it is none (RFC 3629). */
static size_t character_bytes(const unsigned char *at, size_t left)
{
    static const struct {
        unsigned char first, last, second, second_last;
        size_t bytes;
    } kinds[] = {
        {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };

    for (size_t n = 0; n < sizeof kinds / sizeof *kinds; n++) {
        if (at[0] < kinds[n].first || at[0] > kinds[n].last)
            continue;
        if (kinds[n].bytes > left)
            return 0;
        if (kinds[n].bytes > 1 && (at[1] < kinds[n].second || at[1] > kinds[n].second_last))
            return 0;
        for (size_t b = 2; b < kinds[n].bytes; b++)
            if (at[b] < 0x80 || at[b] > 0xbf)
                return 0;
        return kinds[n].bytes;
    }
    return 0;
}

/* Four hexadecimal digits; -1 if they are none. */
static long read_hex(struct reader *r)
{
    long code = 0;

    for (int n = 0; n < 4; n++, r->at++) {
        if (r->at == r->end || !isxdigit((unsigned char)*r->at))
            return -1;
        const int c = tolower((unsigned char)*r->at);
        code = 16 * code + (c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return code;
}

/* A character behind \u, of one or two numbers (UTF-16). Returns the end of what it wrote; NULL on failure. */
static char *read_unicode(struct reader *r, char *to)
{
    long code = read_hex(r);

    if (code >= 0xd800 && code < 0xdc00) {
        const bool more = r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u';
        r->at += more ? 2 : 0;
        const long low = more ? read_hex(r) : -1;
        code =
            low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : -1;
    } else if (code >= 0xdc00 && code < 0xe000) {
        code = -1;
    }
    if (code <= 0) {
        fail(r, code == 0 ? "a text holds the character 0" : "an escape \\u is no character");
        return NULL;
    }
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* A text behind its first quote. An escape is never shorter than what it stands for. */
static const char *read_text(struct reader *r, size_t *length)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *quote = r->at;

    while (quote < r->end && *quote != '"')
        quote += *quote == '\\' && quote + 1 < r->end ? 2 : 1;
    if (quote >= r->end) {
        fail(r, "a text has no end");
        return NULL;
    }
    char *text = take(r, (size_t)(quote - r->at) + 1), *to = text;
    while (to && r->at < quote) {
        const unsigned char c = (unsigned char)*r->at;
        const size_t bytes = character_bytes((const unsigned char *)r->at, (size_t)(quote - r->at));
        const char *escape = NULL;
        if (c == '\\' && r->at[1] == 'u') {
            r->at += 2;
            to = read_unicode(r, to);
        } else if (c == '\\') {
            escape = strchr(escapes, r->at[1]);
            if (!escape || !r->at[1]) {
                fail(r, "an escape in a text is unknown");
                return NULL;
            }
            *to++ = meant[escape - escapes];
            r->at += 2;
        } else if (c < 0x20 || bytes == 0) {
            fail(r, c < 0x20 ? "a text holds a control character" : "a text is not UTF-8");
            return NULL;
        } else {
            memcpy(to, r->at, bytes);
            to += bytes;
            r->at += bytes;
        }
    }
    if (!to)
        return NULL;
    r->at = quote + 1;
    *to = '\0';
    *length = (size_t)(to - text);
    return text;
}

/* ---- numbers ---------------------------------------------------------------------------------- */

static size_t digits(const char *at, const char *end)
{
    const char *begin = at;

    while (at < end && isdigit((unsigned char)*at))
        at++;
    return (size_t)(at - begin);
}

static bool read_number(struct reader *r, struct ca_json *value)
{
    const char *begin = r->at, *at = begin + (*begin == '-');
    const size_t whole = digits(at, r->end);
    bool real = false;
    char text[NUMBER_BYTES];

    if (whole == 0 || (whole > 1 && *at == '0'))
        return fail(r, "a number is not well formed");
    at += whole;
    const char *point = at < r->end && *at == '.' ? at : NULL;
    if (point) {
        const size_t part = digits(at + 1, r->end);
        at += 1 + part;
        real = true;
        if (part == 0)
            return fail(r, "a number is not well formed");
    }
    if (at < r->end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < r->end && (*at == '+' || *at == '-');
        const size_t exponent = digits(at, r->end);
        at += exponent;
        real = true;
        if (exponent == 0)
            return fail(r, "a number is not well formed");
    }
    const size_t length = (size_t)(at - begin);
    if (length >= sizeof text - 8)
        return fail(r, "a number is too long");
    /* strtod() takes the decimal point of the program's language. */
    const char *sign = localeconv()->decimal_point;
    const size_t before = point ? (size_t)(point - begin) : length;
    snprintf(text, sizeof text, "%.*s%.7s%.*s", (int)before, begin, point ? sign : "",
             point ? (int)(length - before - 1) : 0, point ? point + 1 : "");
    r->at = at;
    errno = 0;
    if (real) {
        *value = (struct ca_json){.type = CA_JSON_REAL, .real = strtod(text, NULL)};
        return isfinite(value->real) || fail(r, "real number overflow");
    }
    *value = (struct ca_json){.type = CA_JSON_INTEGER, .integer = strtoll(text, NULL, 10)};
    return errno == 0 || fail(r, "too big an integer");
}

/* ---- values ----------------------------------------------------------------------------------- */

static void skip_blanks(struct reader *r)
{
    for (; r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at; r->at++)
        r->line += *r->at == '\n';
}

static bool takes(struct reader *r, char c)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool unexpected(struct reader *r)
{
    skip_blanks(r);
    if (r->at == r->end)
        return fail(r, "it ends too early");
    return fail(r, "'%c' is not expected", isprint((unsigned char)*r->at) ? *r->at : '?');
}

static bool read_word(struct reader *r, const char *word, enum ca_json_type type,
                      struct ca_json *value)
{
    const size_t length = strlen(word);

    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
        return unexpected(r);
    r->at += length;
    *value = (struct ca_json){.type = type};
    return true;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Keys of an object must be different. */
static bool check_keys(struct reader *r, const struct ca_json *members, size_t count)
{
    const char **keys = count > 1 ? malloc(count * sizeof *keys) : NULL;
    bool different = true;

    if (count > 1 && !keys) {
        no_memory(r);
        return false;
    }
    for (size_t n = 0; n < count && keys; n++)
        keys[n] = members[n].key;
    if (keys)
        qsort(keys, count, sizeof *keys, by_key);
    for (size_t n = 1; n < count && different; n++)
        if (strcmp(keys[n - 1], keys[n]) == 0)
            different = fail(r, "the member %.40s is there twice", keys[n]);
    free(keys);
    return different;
}

static bool read_value(struct reader *r, struct ca_json *value);

static bool push(struct reader *r, const struct ca_json *value)
{
    if (r->num_open == r->room_open) {
        const size_t room = r->room_open > 0 ? 2 * r->room_open : 64;
        struct ca_json *more = realloc(r->open, room * sizeof *more);
        if (!more) {
            no_memory(r);
            return false;
        }
        r->open = more;
        r->room_open = room;
    }
    r->open[r->num_open++] = *value;
    return true;
}

/* The values of an array or an object behind its first bracket, which `close` ends. */
static bool read_list(struct reader *r, enum ca_json_type type, char close, struct ca_json *value)
{
    const size_t first = r->num_open;
    bool more = !takes(r, close);

    if (r->depth == MOST_DEPTH)
        return fail(r, "it is nested over %d deep", MOST_DEPTH);
    r->depth++;
    while (more) {
        struct ca_json element;
        const char *key = NULL;
        size_t length;
        if (type == CA_JSON_OBJECT) {
            if (!takes(r, '"'))
                return unexpected(r);
            if (!(key = read_text(r, &length)))
                return false;
            if (!takes(r, ':'))
                return unexpected(r);
        }
        if (!read_value(r, &element))
            return false;
        element.key = key;
        if (!push(r, &element))
            return false;
        more = takes(r, ',');
        if (!more && !takes(r, close))
            return unexpected(r);
    }
    r->depth--;
    const size_t count = r->num_open - first;
    struct ca_json *values = count > 0 ? take(r, count * sizeof *values) : NULL;
    if (count > 0) {
        if (!values)
            return false;
        memcpy(values, r->open + first, count * sizeof *values);
    }
    r->num_open = first;
    *value = (struct ca_json){.type = type, .of = values, .count = count};
    return type != CA_JSON_OBJECT || check_keys(r, values, count);
}

static bool read_value(struct reader *r, struct ca_json *value)
{
    skip_blanks(r);
    if (r->at == r->end)
        return unexpected(r);
    switch (*r->at) {
    case '{':
        r->at++;
        return read_list(r, CA_JSON_OBJECT, '}', value);
    case '[':
        r->at++;
        return read_list(r, CA_JSON_ARRAY, ']', value);
    case '"':
        r->at++;
        *value = (struct ca_json){.type = CA_JSON_STRING};
        value->text = read_text(r, &value->count);
        return value->text != NULL;
    case 'n':
        return read_word(r, "null", CA_JSON_NULL, value);
    case 't':
        return read_word(r, "true", CA_JSON_TRUE, value);
    case 'f':
        return read_word(r, "false", CA_JSON_FALSE, value);
    default:
        if (*r->at == '-' || isdigit((unsigned char)*r->at))
            return read_number(r, value);
        return unexpected(r);
    }
}

struct ca_json *ca_json_read(const char *text, size_t bytes, struct ca_json_error *error)
{
    struct document *document = malloc(sizeof *document);
    struct reader reader = {
        .at = text, .end = text + bytes, .line = 1, .document = document, .error = error};

    *error = (struct ca_json_error){.line = 1};
    if (!document) {
        no_memory(&reader);
        return NULL;
    }
    document->blocks = NULL;
    bool read = read_value(&reader, &document->root);
    if (read) {
        skip_blanks(&reader);
        read = reader.at == reader.end || fail(&reader, "something follows its end");
    }
    free(reader.open);
    if (read)
        return &document->root;
    ca_json_free(&document->root);
    return NULL;
}

void ca_json_free(struct ca_json *root)
{
    struct document *document = (struct document *)root;

    while (document && document->blocks) {
        struct block *next = document->blocks->next;
        free(document->blocks);
        document->blocks = next;
    }
    free(document);
}

/* ---- questions -------------------------------------------------------------------------------- */

const struct ca_json *ca_json_get(const struct ca_json *object, const char *key)
{
    for (size_t n = 0; ca_json_is(object, CA_JSON_OBJECT) && n < object->count; n++)
        if (strcmp(object->of[n].key, key) == 0)
            return &object->of[n];
    return NULL;
}

const struct ca_json *ca_json_at(const struct ca_json *array, size_t index)
{
    return ca_json_is(array, CA_JSON_ARRAY) && index < array->count ? &array->of[index] : NULL;
}

size_t ca_json_size(const struct ca_json *value)
{
    return ca_json_is(value, CA_JSON_ARRAY) || ca_json_is(value, CA_JSON_OBJECT) ? value->count : 0;
}

bool ca_json_is(const struct ca_json *value, enum ca_json_type type)
{
    return value && value->type == type;
}

bool ca_json_is_number(const struct ca_json *value)
{
    return ca_json_is(value, CA_JSON_INTEGER) || ca_json_is(value, CA_JSON_REAL);
}

const char *ca_json_text(const struct ca_json *value)
{
    return ca_json_is(value, CA_JSON_STRING) ? value->text : NULL;
}

double ca_json_real(const struct ca_json *value)
{
    if (ca_json_is(value, CA_JSON_INTEGER))
        return (double)value->integer;
    return ca_json_is(value, CA_JSON_REAL) ? value->real : 0.0;
}

long long ca_json_integer(const struct ca_json *value)
{
    return ca_json_is(value, CA_JSON_INTEGER) ? value->integer : 0;
}
