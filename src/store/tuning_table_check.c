/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of documents. Both the parser and functions that add to a store use them, so that
 * nothing is written that would be refused on reading. */
#include "families/tunables.h"
#include "problem/classes/problem_class.h"
#include "store/tuning_table.h"

#include <math.h>
#include <string.h>

#define DIGITS "0123456789"
#define SMALL "abcdefghijklmnopqrstuvwxyz"
#define CAPITAL "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* Printable ASCII only: texts reach terminals, logs and compilers. */
static int is_text(const char *text, size_t text_bytes)
{
    size_t n = 0;

    while (n < text_bytes && text[n] >= 0x20 && text[n] <= 0x7e)
        n++;
    return n < text_bytes && text[n] == '\0';
}

static int is_family(const char *text)
{
    const size_t length = strspn(text, SMALL DIGITS "_");

    return length < CA_TABLE_NAME && text[length] == '\0' && strspn(text, SMALL) > 0;
}

static int is_hash(const char *text)
{
    return strspn(text, DIGITS "abcdef") == 16 && text[16] == '\0';
}

/* "2026-11-21T09:30:00Z": such texts sort by time. */
static int is_time(const char *text)
{
    static const char form[] = "0000-00-00T00:00:00Z";

    for (size_t n = 0; n < sizeof form; n++)
        if (form[n] == '0' ? strspn(text + n, DIGITS) == 0 : text[n] != form[n])
            return 0;
    return 1;
}

/* "NAME=value ...", or nothing; single spaces, values without leading zeros. */
static int is_tunables(const char *text)
{
    if (strlen(text) >= CA_TUNABLES_TEXT)
        return 0;
    for (const char *at = text; *at; at++) {
        if (strspn(at, CAPITAL) == 0)
            return 0;
        at += strspn(at, CAPITAL DIGITS "_");
        if (*at++ != '=')
            return 0;
        const size_t letters = strspn(at, SMALL), digits = strspn(at, DIGITS);
        if (letters == 0 && (digits == 0 || digits > 18 || (*at == '0' && digits > 1)))
            return 0;
        at += letters > 0 ? letters : digits;
        if (*at == '\0')
            return 1;
        if (*at != ' ' || at[1] == '\0')
            return 0;
    }
    return 1;
}

static int is_positive(double number)
{
    return isfinite(number) && number > 0.0;
}

/* Copies the text of a class. A function that is named by its hash is replaced by one of the library, whose name is shorter. */
static void with_known_functions(const char *text, char known[CA_CLASS_TEXT])
{
    static const char *const keys[] = {"score=", "visible="};
    static const char *const words[] = {"score=alibi", "visible=sliding_window"};
    size_t length = 0;

    while (*text) {
        const size_t end = strcspn(text, " "), name = strcspn(text, ": ");
        size_t n = 0;
        while (n < 2 && strncmp(text, keys[n], strlen(keys[n])) != 0)
            n++;
        const int replaced =
            n < 2 && end == name + 17 && strspn(text + name + 1, DIGITS "abcdef") == 16;
        const size_t bytes = replaced ? strlen(words[n]) : end;
        memcpy(known + length, replaced ? words[n] : text, bytes);
        length += bytes;
        text += end;
        while (*text == ' ')
            known[length++] = *text++;
    }
    known[length] = '\0';
}

/* A process also reads classes with functions that only other processes have made. */
const char *ca_class_text_wrong(const char *text)
{
    char known[CA_CLASS_TEXT];
    clattn_problem problem;
    int right = is_text(text, CA_CLASS_TEXT);

    if (right && clattn_problem_parse(text, &problem, NULL, 0) != CLATTN_SUCCESS) {
        with_known_functions(text, known);
        right = clattn_problem_parse(known, &problem, NULL, 0) == CLATTN_SUCCESS;
    }
    return right ? NULL : "a class is not the text form of a problem";
}

static const char *configuration_wrong(const char *family, const char *tunables, const char *source,
                                       const char *declaration, const char *when)
{
    if (!is_family(family))
        return "a family is not a word of small letters, digits and _";
    if (!is_tunables(tunables))
        return "tunables are not of the form \"NAME=value ...\"";
    if (!is_hash(source) || !is_hash(declaration))
        return "a hash is not 16 hexadecimal digits";
    if (!is_time(when))
        return "a time is not of the form \"2026-11-21T09:30:00Z\"";
    return NULL;
}

const char *ca_entry_wrong(const struct ca_entry *entry)
{
    if (!is_positive(entry->seconds) || !is_positive(entry->low) || !is_positive(entry->high))
        return "a time of execution is not a finite number above 0";
    if (entry->num_samples < 1 || entry->num_samples > CA_TABLE_SAMPLES)
        return "an entry has no samples, or too many";
    for (size_t n = 0; n < entry->num_samples; n++)
        if (!is_positive(entry->samples[n]))
            return "a sample is not a finite number above 0";
    if (!(entry->error >= 0.0 && entry->error <= 1.0))
        return "an error is not a number from 0 to 1";
    if (!is_text(entry->policy, CA_TABLE_LINE))
        return "a policy is not a line of printable ASCII";
    return configuration_wrong(entry->family, entry->tunables, entry->source, entry->declaration,
                               entry->when);
}

const char *ca_banned_wrong(const struct ca_banned *banned)
{
    if (!is_text(banned->reason, CA_TABLE_SENTENCE))
        return "a reason is not a sentence of printable ASCII";
    const char *wrong = ca_class_text_wrong(banned->problem_class);
    return wrong ? wrong
                 : configuration_wrong(banned->family, banned->tunables, banned->source,
                                       banned->declaration, banned->when);
}

const char *ca_device_table_wrong(const struct ca_device_table *table)
{
    for (size_t n = 0; n < ca_device_fields.count; n++)
        if (!is_text(*ca_field_text(&ca_device_fields.list[n], table), CA_TABLE_LINE))
            return "a name or version is not a line of printable ASCII";
    return NULL;
}
