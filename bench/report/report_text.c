#define _POSIX_C_SOURCE 200809L /* fmemopen */
#include "bench/report/report_text.h"
#include "cli/terminal/utf8.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT 0xFFFDul
#define MOST_FIT 40

/* Those without a width, and those that turn the direction of writing, too. */
static bool harmful(unsigned long c)
{
    return !utf8_printable(c) || (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF || (c & 0xFFFE) == 0xFFFE;
}

size_t text_character(const char *text, unsigned long *character)
{
    const size_t length = utf8_read(text, character);

    if (length == 0 || harmful(*character))
        *character = REPLACEMENT;
    return length > 0 ? length : 1;
}

/* The character's UTF-8, terminated. */
static const char *encode(unsigned long c, char bytes[5])
{
    const size_t more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};

    for (size_t n = more; n > 0; n--, c >>= 6)
        bytes[n] = (char)(0x80 | (c & 0x3F));
    bytes[0] = (char)(lead[more] | c);
    bytes[more + 1] = '\0';
    return bytes;
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

/* As wide as DejaVu Sans, which is wider than most, and a little more. */
static double character_em(unsigned long c)
{
    if (c >= 0x2E80) /* Chinese and its neighbours, emoji */
        return 1.05;
    if (c >= 0x80 || strchr("mwMW@%", (int)c) != NULL)
        return 1.02;
    if (strchr("ijl.,:;'|! ()[]", (int)c) != NULL)
        return 0.42;
    return c >= 'A' && c <= 'Z' ? 0.78 : 0.66;
}

double text_em(const char *text)
{
    double em = 0.0;
    unsigned long c;

    for (size_t length; *text != '\0'; text += length) {
        length = text_character(text, &c);
        em += character_em(c);
    }
    return em;
}

void text_fit(char *out, const char *text, double em)
{
    size_t most = MOST_FIT;

    text_cut(out, text, most);
    while (most > 2 && text_em(out) > em)
        text_cut(out, text, --most);
}

void text_html(FILE *out, const char *text)
{
    unsigned long c;
    char bytes[5];

    for (size_t length; *text != '\0'; text += length) {
        length = text_character(text, &c);
        if (c == '&' || c == '<' || c == '>' || c == '"' || c == '\'')
            fprintf(out, "&#%lu;", c);
        else
            fputs(encode(c, bytes), out);
    }
}

void text_plot(FILE *out, const char *text)
{
    static const struct {
        char obeyed;
        const char *shown;
    } replaced[] = {{'\'', "\u2019"}, {'"', "\u201D"}, {'`', "\u2018"}, {'\\', "/"},
                    {'<', "\u2039"},  {'>', "\u203A"}, {'&', "+"},      {'$', "S"},
                    {'@', "\uFF20"},  {'{', "("},      {'}', ")"}};
    unsigned long c;
    char bytes[5];

    fputc('\'', out);
    for (size_t length; *text != '\0'; text += length) {
        length = text_character(text, &c);
        const char *shown = encode(c, bytes);
        for (size_t n = 0; n < sizeof replaced / sizeof *replaced; n++)
            if (c == (unsigned char)replaced[n].obeyed)
                shown = replaced[n].shown;
        fputs(shown, out);
    }
    fputc('\'', out);
}

void text_shell(FILE *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=.,:/@%^";

    if (*text != '\0' && text[strspn(text, plain)] == '\0') {
        fputs(text, out);
        return;
    }
    fputc('\'', out);
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
    }
    fputc('\'', out);
}

struct text text_escaped(const char *text)
{
    struct text escaped = {""};
    char cut[4 * 64 + 1];
    FILE *out = fmemopen(escaped.text, sizeof escaped.text, "w");

    if (out == NULL)
        return escaped;
    text_cut(cut, text, 64);
    text_html(out, cut);
    fclose(out);
    return escaped;
}

static struct text with_digits(double value, int digits)
{
    struct text number = {"&ndash;"};

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

    snprintf(duration.text, sizeof duration.text, "%.32s&nbsp;%s", text_rough(seconds / unit).text,
             unit == 1.0    ? "s"
             : unit == 1e-3 ? "ms"
                            : "&micro;s");
    return duration;
}

struct text text_date(const char *date)
{
    int year, month, day, hour, minute, length = 0;
    struct text shown;

    if (sscanf(date, "%4d-%2d-%2dT%2d:%2d:%*2dZ%n", &year, &month, &day, &hour, &minute, &length) <
            5 ||
        length == 0 || date[length] != '\0')
        return text_escaped(date);
    snprintf(shown.text, sizeof shown.text, "%04d-%02d-%02d&nbsp;%02d:%02d&nbsp;UTC", year, month,
             day, hour, minute);
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
