/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a derivation (function_derivative.c) share: reading words and expressions of a source. */
#ifndef CA_DERIVATION_H
#define CA_DERIVATION_H

#include "base/writer.h"
#include "problem/function.h"

#include <ctype.h>
#include <string.h>

enum { CA_DERIVATION_LOCALS = 64, CA_DERIVATION_DEPTH = 100, CA_DERIVATION_BYTES = 1 << 16 };

struct ca_text {
    const char *at;
    size_t length;
};

struct ca_local {
    struct ca_text name;
    const char *derivative; /* as in an expression */
};

/* What a derivation writes: the derivative by the score; that by what one load gives; which element that load loads. */
enum ca_derived { CA_BY_SCORE, CA_BY_LOAD, CA_LOADED };

/* An expression: its source and its derivative, NULL if that is 0. */
struct ca_expression {
    struct ca_text value;
    const char *derivative;
};

struct ca_derivation {
    struct clattn_function *f;
    enum ca_derived what;
    size_t load;                   /* of CA_BY_LOAD and CA_LOADED: the number of the load */
    size_t loads;                  /* those that were read so far; CA_BY_SCORE counts none */
    size_t operand;                /* which operand the load is of */
    int loops;                     /* those that enclose what is read */
    char *reason;                  /* receives why it fails, CA_FUNCTION_REASON bytes */
    const char *at;                /* the next character to read */
    struct ca_text pair, operands; /* the parameters' names */
    struct ca_local locals[CA_DERIVATION_LOCALS];
    size_t num_locals;
    int depth;   /* of nested expressions and statements */
    char *parts; /* the texts of derivatives, one after the other */
    size_t parts_used;
    struct ca_writer out;
    int failed;
};

/* For a format of %.*s. */
#define CA_TEXT(t) (int)(t).length, (t).at

static inline int ca_is_word_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static inline int ca_text_is(struct ca_text word, const char *other)
{
    return word.length == strlen(other) && memcmp(word.at, other, word.length) == 0;
}

static inline int ca_text_equals(struct ca_text a, struct ca_text b)
{
    return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

/* The source from `begin` to what is read next, without blanks at its end. */
static inline struct ca_text ca_text_from(const struct ca_derivation *d, const char *begin)
{
    struct ca_text text = {begin, (size_t)(d->at - begin)};

    while (text.length > 0 && isspace((unsigned char)begin[text.length - 1]))
        text.length--;
    return text;
}

/* What the derivative is by, in messages. */
static inline const char *ca_derived_by(const struct ca_derivation *d)
{
    return d->what == CA_BY_SCORE ? "the score" : "an operand";
}

/* Keeps the first reason, with the line of `at`. */
void ca_derive_refuse(struct ca_derivation *d, const char *at, const char *format, ...)
    CA_PRINTF(3, 4);

/* Skips blanks; the character behind them. */
char ca_derive_next(struct ca_derivation *d);

/* Takes a sign if it comes next; refuses the source if it does not. */
int ca_derive_take(struct ca_derivation *d, const char *sign);
void ca_derive_expect(struct ca_derivation *d, const char *sign);

/* The next word, empty if there is none, without taking it; the same, and takes it; takes it if it is this one. */
struct ca_text ca_derive_peek(struct ca_derivation *d);
struct ca_text ca_derive_word(struct ca_derivation *d);
int ca_derive_take_word(struct ca_derivation *d, const char *word);
int ca_derive_is_type(struct ca_text word);

/* The variable of this name, NULL if there is none. */
const struct ca_local *ca_derive_local(const struct ca_derivation *d, struct ca_text name);

/* The derivative of a binary operation. */
const char *ca_derive_operation(struct ca_derivation *d, const char *sign, struct ca_expression a,
                                struct ca_expression b);

/* Reads an expression; keeps a text until the derivation's end. */
struct ca_expression ca_derive_expression(struct ca_derivation *d);
const char *ca_derive_text(struct ca_derivation *d, const char *format, ...) CA_PRINTF(2, 3);

#endif
