/* SPDX-License-Identifier: Apache-2.0 */
#include "families/tunables.h"
#include "base/writer.h"
#include "families/units.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ca_unit_words[] = {
#define UNIT(ID, word) [UNIT_##ID] = word,
    CA_UNITS(UNIT)
#undef UNIT
};

void ca_tunables_default(const struct ca_tunable *tunables, size_t count, size_t *values)
{
    for (size_t n = 0; n < count; n++)
        values[n] = tunables[n].value;
}

static int is_candidate(const struct ca_tunable *tunable, size_t value)
{
    for (size_t n = 0; n < tunable->num_candidates; n++)
        if (tunable->candidates[n] == value)
            return 1;
    return 0;
}

enum { VALUE_TEXT = 24 };

/* Prints a value as texts of tunables show it: as a word or a number. */
static void print_value(const struct ca_tunable *tunable, size_t value, char text[VALUE_TEXT])
{
    if (tunable->words && is_candidate(tunable, value))
        snprintf(text, VALUE_TEXT, "%s", tunable->words[value]);
    else
        snprintf(text, VALUE_TEXT, "%zu", value);
}

static void refuse_value(const struct ca_tunable *tunable, const char *value, int length,
                         char *reason, size_t reason_bytes)
{
    char candidates[160] = "", text[VALUE_TEXT];
    struct ca_writer writer = {candidates, sizeof candidates, 0};

    for (size_t n = 0; n < tunable->num_candidates; n++) {
        print_value(tunable, tunable->candidates[n], text);
        ca_put_item(&writer, text);
    }
    ca_reason(reason, reason_bytes, "tunable %s=%.*s is not among its candidates: %s",
              tunable->name, length, value, candidates);
}

static void refuse_name(const struct ca_tunable *tunables, size_t count, const char *name,
                        int length, char *reason, size_t reason_bytes)
{
    char names[160] = "";
    struct ca_writer writer = {names, sizeof names, 0};

    for (size_t n = 0; n < count; n++)
        ca_put_item(&writer, tunables[n].name);
    ca_reason(reason, reason_bytes, "no tunable is called '%.*s'; there are %s", length, name,
              names);
}

int ca_tunables_check(const struct ca_tunable *tunables, size_t count, const size_t *values,
                      char *reason, size_t reason_bytes)
{
    for (size_t n = 0; n < count; n++) {
        if (!is_candidate(&tunables[n], values[n])) {
            char text[VALUE_TEXT];
            print_value(&tunables[n], values[n], text);
            refuse_value(&tunables[n], text, VALUE_TEXT, reason, reason_bytes);
            return 0;
        }
    }
    return 1;
}

/* Returns the index of the tunable called by the first `length` characters of name, or count. */
static size_t find(const struct ca_tunable *tunables, size_t count, const char *name, size_t length)
{
    size_t n = 0;

    while (n < count &&
           (strncmp(tunables[n].name, name, length) != 0 || tunables[n].name[length] != '\0'))
        n++;
    return n;
}

/* Finds the candidate whose word is the first `length` characters of `word`. */
static int find_word(const struct ca_tunable *tunable, const char *word, int length, size_t *value)
{
    for (size_t n = 0; n < tunable->num_candidates; n++) {
        const char *own = tunable->words[tunable->candidates[n]];
        if (strncmp(own, word, (size_t)length) == 0 && own[length] == '\0') {
            *value = tunable->candidates[n];
            return 1;
        }
    }
    return 0;
}

int ca_tunables_parse(const struct ca_tunable *tunables, size_t count, const char *text,
                      size_t *values, char *reason, size_t reason_bytes)
{
    unsigned seen = 0; /* CA_MAX_TUNABLES bits */

    for (;;) {
        text += strspn(text, " \t\n");
        if (*text == '\0')
            return ca_tunables_check(tunables, count, values, reason, reason_bytes);
        const int word = (int)strcspn(text, " \t\n");
        const size_t length = strcspn(text, "= \t\n");
        const size_t n = find(tunables, count, text, length);
        if (n == count) {
            refuse_name(tunables, count, text, (int)length, reason, reason_bytes);
            return 0;
        }
        if (seen & 1u << n && !tunables[n].words) { /* a family's full name says UNIT as well */
            ca_reason(reason, reason_bytes, "tunable %s is given twice", tunables[n].name);
            return 0;
        }
        seen |= 1u << n;

        const char *digits = text + length + 1;
        const int digits_length = word - (int)length - 1;
        if (tunables[n].words && text[length] == '=') {
            if (!find_word(&tunables[n], digits, digits_length, &values[n])) {
                refuse_value(&tunables[n], digits, digits_length, reason, reason_bytes);
                return 0;
            }
            text += word;
            continue;
        }
        char *end = NULL;
        errno = 0;
        const unsigned long long value =
            text[length] == '=' && isdigit((unsigned char)*digits) ? strtoull(digits, &end, 10) : 0;
        if (!end || end != text + word || errno == ERANGE || value > SIZE_MAX) {
            ca_reason(reason, reason_bytes, "'%.*s' is not of the form NAME=number", word, text);
            return 0;
        }
        values[n] = (size_t)value;
        text = end;
    }
}

void ca_tunables_print(const struct ca_tunable *tunables, size_t count, const size_t *values,
                       char *text, size_t text_bytes)
{
    struct ca_writer writer = {text, text_bytes, 0};

    if (text_bytes > 0)
        text[0] = '\0';
    for (size_t n = 0; n < count; n++) {
        char value[VALUE_TEXT];
        print_value(&tunables[n], values[n], value);
        ca_put(&writer, "%s%s=%s", n ? " " : "", tunables[n].name, value);
    }
}
