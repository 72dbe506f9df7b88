/* SPDX-License-Identifier: Apache-2.0 */
/* What a document may hold. The parser and those who add to a store ask here, so that nothing is
 * written that would be refused when it is read. */
#include "families/tunables.h"
#include "problem/classes/problem_class.h"
#include "store/tuning_table.h"

#include <math.h>
#include <string.h>

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static int is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

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
    size_t n = 0;

    while (n < CA_TABLE_NAME &&
           (is_lower(text[n]) || (n > 0 && (is_digit(text[n]) || text[n] == '_'))))
        n++;
    return n > 0 && n < CA_TABLE_NAME && text[n] == '\0';
}

static int is_hash(const char *text)
{
    size_t n = 0;

    while (is_digit(text[n]) || (text[n] >= 'a' && text[n] <= 'f'))
        n++;
    return n == 16 && text[n] == '\0';
}

/* "2026-11-21T09:30:00Z": such texts sort by time. */
static int is_time(const char *text)
{
    static const char form[] = "0000-00-00T00:00:00Z";

    for (size_t n = 0; n < sizeof form; n++)
        if (form[n] == '0' ? !is_digit(text[n]) : text[n] != form[n])
            return 0;
    return 1;
}

/* "NAME=value ...", or nothing; single spaces, values without leading zeros. */
static int is_tunables(const char *text)
{
    if (strlen(text) >= CA_TUNABLES_TEXT)
        return 0;
    for (const char *at = text; *at; at++) {
        const char *name = at;
        while (is_upper(*at) || (at > name && (is_digit(*at) || *at == '_')))
            at++;
        if (at == name || *at++ != '=')
            return 0;
        const char *value = at;
        if (is_lower(*at)) { /* a word */
            while (is_lower(*at))
                at++;
        } else {
            while (is_digit(*at))
                at++;
            if (at == value || at - value > 18 || (*value == '0' && at - value > 1))
                return 0;
        }
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

const char *ca_class_text_wrong(const char *text)
{
    clattn_problem problem;

    if (!is_text(text, CA_CLASS_TEXT) ||
        clattn_problem_parse(text, &problem, NULL, 0) != CLATTN_SUCCESS)
        return "a class is not the text form of a problem";
    return NULL;
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
    const char *const texts[] = {table->platform, table->platform_version, table->vendor,
                                 table->device,   table->device_version,   table->driver};

    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++)
        if (!is_text(texts[n], CA_TABLE_LINE))
            return "a name or version is not a line of printable ASCII";
    return NULL;
}
