/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations of operands and parameters, and the words of a source. */
#include "bench/judge/function_reader.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void reader_fail(struct function_reader *r, const char *what)
{
    if (!r->program->mistake[0])
        snprintf(r->program->mistake, sizeof r->program->mistake, "line %zu: %s", r->line, what);
    r->kind = WORD_END;
    r->word[0] = '\0';
    r->at = "";
}

/* Copies a word of letters, digits and underlines, and returns where it ends. */
static const char *copy_word(const char *at, char word[FUNCTION_WORD])
{
    size_t length = 0;

    while (isspace((unsigned char)*at) && *at != '\n')
        at++;
    while ((isalnum((unsigned char)*at) || *at == '_') && length + 1 < FUNCTION_WORD)
        word[length++] = *at++;
    word[length] = '\0';
    return at;
}

static void read_operand(struct function_reader *r, const char *at)
{
    static const char *const types[] = {"float", "half", "bfloat", "int", "char", "uchar"};
    struct function_operand *o = &r->program->operands[r->program->num_operands];
    char type[FUNCTION_WORD], extent[FUNCTION_WORD];

    if (r->program->num_operands == CLATTN_FUNCTION_OPERANDS) {
        reader_fail(r, "too many operands");
        return;
    }
    at = copy_word(copy_word(at, type), o->name);
    for (int n = 0; n < 6; n++)
        if (strcmp(types[n], type) == 0)
            o->type = (clattn_function_type)n;
    for (; *at && *at != '\n' && o->num_extents < 8; at++) {
        if (*at != '[')
            continue;
        at = copy_word(at + 1, extent);
        struct function_extent *e = &o->extents[o->num_extents++];
        e->letter = isalpha((unsigned char)extent[0]) ? extent[0] : 0;
        e->number = e->letter ? 0 : strtoul(extent, NULL, 10);
    }
    r->program->num_operands++;
}

static void read_parameter(struct function_reader *r, const char *at)
{
    struct function_parameter *p = &r->program->parameters[r->program->num_parameters];
    char type[FUNCTION_WORD];

    if (r->program->num_parameters == 2 * CLATTN_FUNCTION_PARAMETERS) {
        reader_fail(r, "too many parameters");
        return;
    }
    at = copy_word(copy_word(at, type), p->name);
    at += strspn(at, " \t=");
    p->is_float = strcmp(type, "float") == 0;
    p->float_value = strtof(at, NULL);
    p->int_value = p->is_float ? 0 : (int32_t)strtol(at, NULL, 10);
    p->number = p->is_float ? r->program->num_floats++ : r->program->num_ints++;
    r->program->num_parameters++;
}

static void read_line(struct function_reader *r)
{
    char word[FUNCTION_WORD];
    const char *at = copy_word(r->at + 1, word);

    if (strcmp(word, "pragma") != 0) {
        reader_fail(r, "only #pragma clattn is read");
        return;
    }
    at = copy_word(at, word);
    if (strcmp(word, "clattn") == 0) {
        at = copy_word(at, word);
        if (strcmp(word, "operand") == 0)
            read_operand(r, at);
        else
            read_parameter(r, at);
    }
    r->at += strcspn(r->at, "\n");
}

/* Skips blanks, comments and lines that begin with '#'. */
static void skip(struct function_reader *r)
{
    for (;;) {
        if (strncmp(r->at, "//", 2) == 0) {
            r->at += strcspn(r->at, "\n");
        } else if (strncmp(r->at, "/*", 2) == 0) {
            const char *end = strstr(r->at + 2, "*/");
            for (end = end ? end + 2 : r->at + strlen(r->at); r->at < end; r->at++)
                r->line += *r->at == '\n';
        } else if (*r->at == '#') {
            read_line(r);
        } else if (isspace((unsigned char)*r->at)) {
            r->line += *r->at++ == '\n';
        } else {
            return;
        }
    }
}

static void read_number(struct function_reader *r)
{
    const int hex = r->at[0] == '0' && (r->at[1] == 'x' || r->at[1] == 'X');
    const size_t digits = strspn(r->at, hex ? "0123456789abcdefABCDEFxX" : "0123456789");
    const int is_float = !hex && (r->at[digits] == '.' || r->at[digits] == 'e' ||
                                  r->at[digits] == 'E' || r->at[digits] == 'f');
    char *end;

    r->kind = WORD_NUMBER;
    if (is_float) {
        double value = strtod(r->at, &end);
        const int single = *end == 'f' || *end == 'F';
        if (single) /* as strtof() rounds it */
            value = (double)strtof(r->at, NULL);
        r->number = number_of_float(value, single || (double)(float)value == value
                                               ? 0.0
                                               : 0x1p-24 * (value < 0 ? -value : value));
        end += single;
    } else {
        const unsigned long long value = strtoull(r->at, &end, hex ? 16 : 10);
        const size_t suffix = strspn(end, "uUlL");
        const int is_unsigned = hex || (suffix > 0 && (*end == 'u' || *end == 'U'));
        const int has_l = suffix > 0 && (end[suffix - 1] == 'l' || end[suffix - 1] == 'L');
        const int is_long = has_l || value > (is_unsigned ? 0xffffffff : 0x7fffffff);
        end += suffix;
        r->number = number_of_integer(is_long                                       ? NUMBER_LONG
                                      : is_unsigned && (!hex || value > 0x7fffffff) ? NUMBER_UINT
                                                                                    : NUMBER_INT,
                                      (int64_t)value);
    }
    r->at = end;
}

void reader_next(struct function_reader *r)
{
    static const char *const pairs[] = {
        "<<=", ">>=", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
        "+=",  "-=",  "*=", "/=", "%=", "&=", "|=", "^=", "++", "--"};
    size_t length = 1;

    skip(r);
    if (*r->at == '\0') {
        r->kind = WORD_END;
        r->word[0] = '\0';
        return;
    }
    if (isdigit((unsigned char)*r->at) || (*r->at == '.' && isdigit((unsigned char)r->at[1]))) {
        read_number(r);
        return;
    }
    if (isalpha((unsigned char)*r->at) || *r->at == '_') {
        r->kind = WORD_NAME;
        r->at = copy_word(r->at, r->word);
        return;
    }
    for (size_t n = 0; n < sizeof pairs / sizeof *pairs && length == 1; n++)
        if (strncmp(r->at, pairs[n], strlen(pairs[n])) == 0)
            length = strlen(pairs[n]);
    r->kind = WORD_SIGN;
    memcpy(r->word, r->at, length);
    r->word[length] = '\0';
    r->at += length;
}

bool reader_is(const struct function_reader *r, const char *word)
{
    return (r->kind == WORD_NAME || r->kind == WORD_SIGN) && strcmp(r->word, word) == 0;
}

bool reader_take(struct function_reader *r, const char *word)
{
    if (!reader_is(r, word))
        return false;
    reader_next(r);
    return true;
}

void reader_expect(struct function_reader *r, const char *word)
{
    char what[64];

    if (reader_take(r, word))
        return;
    snprintf(what, sizeof what, "'%.10s' is missing", word);
    reader_fail(r, what);
}
