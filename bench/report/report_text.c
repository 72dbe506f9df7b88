#include "bench/report/report_text.h"
#include "internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT 0xFFFDul

/* Those without a width, and those that turn the direction of writing, too. */
static bool harmful(unsigned long c)
{
    return !ca_utf8_printable(c) || (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF || (c & 0xFFFE) == 0xFFFE;
}

size_t text_character(const char *text, unsigned long *character)
{
    const size_t length = ca_utf8_read(text, character);

    if (length == 0 || harmful(*character))
        *character = REPLACEMENT;
    return length > 0 ? length : 1;
}

/* The character's UTF-8, terminated. */
static void encode(unsigned long c, char *bytes)
{
    const size_t more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};

    for (size_t n = more; n > 0; n--, c >>= 6)
        bytes[n] = (char)(0x80 | (c & 0x3F));
    bytes[0] = (char)(lead[more] | c);
    bytes[more + 1] = '\0';
}

size_t text_width(const char *text)
{
    unsigned long c;
    size_t width = 0;

    for (; *text != '\0'; text += text_character(text, &c))
        width++;
    return width;
}

void text_cut(char *out, const char *text, size_t most)
{
    const size_t width = text_width(text), tail = (most - 1) / 3, head = most - 1 - tail;
    unsigned long c;
    size_t at = 0;

    *out = '\0';
    for (size_t bytes; *text != '\0'; text += bytes, at++) {
        bytes = text_character(text, &c);
        if (width > most && at >= head && at < width - tail) {
            if (at > head)
                continue;
            c = 0x2026; /* an ellipsis */
        }
        encode(c, out);
        out += strlen(out);
    }
}

json_t *text_json(const char *text)
{
    char *safe = malloc(3 * strlen(text) + 1), *out = safe; /* U+FFFD may stand for one byte */
    unsigned long c;

    if (safe == NULL)
        return NULL;
    for (*out = '\0'; *text != '\0'; out += strlen(out)) {
        text += text_character(text, &c);
        encode(c, out);
    }
    json_t *string = json_string(safe);
    free(safe);
    return string;
}

void sentence_add_list(struct sentence *sentence, const char *format, va_list arguments)
{
    va_list again;

    va_copy(again, arguments);
    const int more = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *grown = more < 0 || sentence->failed
                      ? NULL
                      : realloc(sentence->text, sentence->length + (size_t)more + 1);
    if (grown == NULL) {
        sentence->failed = true;
        return;
    }
    vsnprintf(grown + sentence->length, (size_t)more + 1, format, arguments);
    sentence->text = grown;
    sentence->length += (size_t)more;
}

void sentence_add(struct sentence *sentence, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    sentence_add_list(sentence, format, arguments);
    va_end(arguments);
}

void sentence_add_word(struct sentence *sentence, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=.,:/@%^";

    if (*word != '\0' && word[strspn(word, plain)] == '\0') {
        sentence_add(sentence, "%s", word);
        return;
    }
    sentence_add(sentence, "'");
    for (; *word != '\0'; word++)
        sentence_add(sentence, *word == '\'' ? "'\\''" : "%c", *word);
    sentence_add(sentence, "'");
}

json_t *sentence_end(struct sentence *sentence, char between)
{
    json_t *parts = sentence->failed ? NULL : json_array();

    for (char *part = sentence->text; parts != NULL && part != NULL;) {
        char *end = strchr(part, between);
        if (end != NULL)
            *end++ = '\0';
        if (json_array_append_new(parts, text_json(part)) != 0) {
            json_decref(parts);
            parts = NULL;
        }
        part = end;
    }
    free(sentence->text);
    *sentence = (struct sentence){.text = NULL};
    return parts;
}

static struct text with_digits(double value, int digits)
{
    struct text number = {"\u2013"};

    if (!isfinite(value))
        return number;
    snprintf(number.text, sizeof number.text, "%.*e", digits - 1, value);
    const double rounded = strtod(number.text, NULL), size = fabs(rounded);
    if (size == 0.0 || (size >= 1e-4 && size < 1e7)) {
        const int before = size > 0.0 ? (int)floor(log10(size)) + 1 : digits;
        snprintf(number.text, sizeof number.text, "%.*f", before < digits ? digits - before : 0,
                 rounded);
    }
    return number;
}

struct text text_number(double value)
{
    return with_digits(value, 3);
}

struct text text_rough(double value)
{
    return with_digits(value, 2);
}

struct text text_duration(double seconds)
{
    const double unit = seconds >= 1.0 ? 1.0 : seconds >= 1e-3 ? 1e-3 : 1e-6;
    struct text duration;

    snprintf(duration.text, sizeof duration.text, "%.32s\u00a0%s", text_rough(seconds / unit).text,
             unit == 1.0    ? "s"
             : unit == 1e-3 ? "ms"
                            : "\u00b5s");
    return duration;
}

struct text text_date(const char *date)
{
    int year, month, day, hour, minute, length = 0;
    struct text shown;

    if (sscanf(date, "%4d-%2d-%2dT%2d:%2d:%*2dZ%n", &year, &month, &day, &hour, &minute, &length) <
            5 ||
        length == 0 || date[length] != '\0')
        snprintf(shown.text, sizeof shown.text, "%s", date);
    else
        snprintf(shown.text, sizeof shown.text, "%04d-%02d-%02d\u00a0%02d:%02d\u00a0UTC", year,
                 month, day, hour, minute);
    return shown;
}

struct text text_count(size_t count, const char *noun)
{
    const size_t length = strlen(noun);
    const bool y = count != 1 && length > 0 && noun[length - 1] == 'y';
    struct text counted;

    snprintf(counted.text, sizeof counted.text, "%zu %.*s%s", count, (int)(length - y), noun,
             y            ? "ies"
             : count == 1 ? ""
                          : "s");
    return counted;
}
