/* SPDX-License-Identifier: Apache-2.0 */
/* A parser of score() that writes its derivative as it reads: each local variable is followed by its derivative, and
 * each return statement returns that of its expression. A derivative that is 0 is not written. */
#include "problem/function_derivative.h"
#include "base/writer.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCALS = 64, NAME = CA_FUNCTION_WORD, DEPTH = 100, TEXT_BYTES = 1 << 16 };

struct text {
    const char *at;
    size_t length;
};

struct local {
    struct text name;
    int varies; /* with the score */
};

/* An expression: its source and its derivative, NULL if that is 0. */
struct expression {
    struct text value;
    const char *derivative;
};

struct derivation {
    struct clattn_function *f;
    const char *at;                    /* the next character to read */
    struct text score, pair, operands; /* the parameters' names */
    struct local locals[LOCALS];
    size_t num_locals;
    int depth;   /* of nested expressions and statements */
    char *parts; /* the texts of derivatives, one after the other */
    size_t parts_used;
    struct ca_writer out;
    int failed;
};

/* ---- words ----------------------------------------------------------------------------------- */

static void refuse(struct derivation *d, const char *at, const char *format, ...) CA_PRINTF(3, 4);

/* Keeps the first reason, with the line of `at`. */
static void refuse(struct derivation *d, const char *at, const char *format, ...)
{
    char *const to = d->f->no_derivative;
    size_t line = 1;
    va_list list;

    if (d->failed)
        return;
    d->failed = 1;
    for (const char *c = d->f->compiled; c < at; c++)
        line += *c == '\n';
    const int length = snprintf(to, CA_FUNCTION_REASON, "line %zu has ", line);
    va_start(list, format);
    vsnprintf(to + length, CA_FUNCTION_REASON - (size_t)length, format, list);
    va_end(list);
}

static int is_word_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static char next(struct derivation *d)
{
    while (isspace((unsigned char)*d->at))
        d->at++;
    return *d->at;
}

static int take(struct derivation *d, const char *sign)
{
    next(d);
    if (strncmp(d->at, sign, strlen(sign)) != 0)
        return 0;
    d->at += strlen(sign);
    return 1;
}

static void expect(struct derivation *d, const char *sign)
{
    next(d);
    if (!take(d, sign))
        refuse(d, d->at, "%.*s where the derivation expects '%s'",
               *d->at ? (int)strcspn(d->at, " \t\r\n") : 3, *d->at ? d->at : "end", sign);
}

/* The next word, without taking it; empty if there is none. */
static struct text peek_word(struct derivation *d)
{
    struct text word = {d->at, 0};

    next(d);
    word.at = d->at;
    if (!isdigit((unsigned char)*word.at))
        while (is_word_letter(word.at[word.length]))
            word.length++;
    return word;
}

static struct text take_word(struct derivation *d)
{
    const struct text word = peek_word(d);

    d->at += word.length;
    return word;
}

static int is(struct text word, const char *other)
{
    return word.length == strlen(other) && memcmp(word.at, other, word.length) == 0;
}

static int is_same(struct text a, struct text b)
{
    return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

static int take_if(struct derivation *d, const char *other)
{
    if (!is(peek_word(d), other))
        return 0;
    take_word(d);
    return 1;
}

static int is_type(struct text word)
{
    static const char *const types[] = {"float", "int",  "uint",  "long",  "ulong",
                                        "bool",  "char", "uchar", "short", "ushort"};

    for (size_t n = 0; n < sizeof types / sizeof *types; n++)
        if (is(word, types[n]))
            return 1;
    return 0;
}

/* ---- derivatives ----------------------------------------------------------------------------- */

/* A text of the derivation, kept until its end. */
static const char *part(struct derivation *d, const char *format, ...) CA_PRINTF(2, 3);
static const char *part(struct derivation *d, const char *format, ...)
{
    char *const to = d->parts + d->parts_used;
    const size_t room = TEXT_BYTES - d->parts_used;
    va_list list;

    va_start(list, format);
    const int length = vsnprintf(to, room, format, list);
    va_end(list);
    if (length < 0 || (size_t)length >= room) {
        refuse(d, d->at, "a derivative that is too long");
        return "0.0f";
    }
    d->parts_used += (size_t)length + 1;
    return to;
}

#define TEXT(t) (int)(t).length, (t).at

/* derivative * factor */
static const char *times(struct derivation *d, const char *derivative, struct text factor)
{
    if (!derivative)
        return NULL;
    if (strcmp(derivative, "1.0f") == 0)
        return part(d, "(float)(%.*s)", TEXT(factor));
    return part(d, "(%s * (%.*s))", derivative, TEXT(factor));
}

static const char *plus(struct derivation *d, const char *a, const char *b)
{
    return a && b ? part(d, "(%s + %s)", a, b) : a ? a : b;
}

static const char *minus(struct derivation *d, const char *a, const char *b)
{
    return a && b ? part(d, "(%s - %s)", a, b) : b ? part(d, "(-%s)", b) : a;
}

static const char *derivative_of_operation(struct derivation *d, const char *sign,
                                           struct expression a, struct expression b)
{
    const char *left;

    switch (sign[1] ? '\0' : sign[0]) {
    case '+':
        return plus(d, a.derivative, b.derivative);
    case '-':
        return minus(d, a.derivative, b.derivative);
    case '*':
        return plus(d, times(d, a.derivative, b.value), times(d, b.derivative, a.value));
    case '/':
        left = a.derivative ? part(d, "(%s / (%.*s))", a.derivative, TEXT(b.value)) : NULL;
        if (!b.derivative)
            return left;
        return minus(d, left,
                     part(d, "(%s * ((%.*s) / (%.*s) / (%.*s)))", b.derivative, TEXT(a.value),
                          TEXT(b.value), TEXT(b.value)));
    default: /* comparisons, logic and bits are constant between steps */
        return NULL;
    }
}

/* Built-in functions: derivatives by the arguments' values A, B, C and derivatives X, Y, Z. */
static const struct builtin {
    const char *name;
    int arguments;
    int constant_from; /* arguments from this one on may not depend on the score */
    const char *derivative;
} builtins[] = {
    {"exp", 1, 3, "exp(A) * X"},
    {"exp2", 1, 3, "0.69314718f * exp2(A) * X"},
    {"native_exp", 1, 3, "native_exp(A) * X"},
    {"native_exp2", 1, 3, "0.69314718f * native_exp2(A) * X"},
    {"log", 1, 3, "X / A"},
    {"log2", 1, 3, "1.44269504f * X / A"},
    {"log1p", 1, 3, "X / (1.0f + A)"},
    {"native_log", 1, 3, "X / A"},
    {"native_log2", 1, 3, "1.44269504f * X / A"},
    {"tanh", 1, 3, "(1.0f - tanh(A) * tanh(A)) * X"},
    {"sqrt", 1, 3, "0.5f / sqrt(A) * X"},
    {"native_sqrt", 1, 3, "0.5f / native_sqrt(A) * X"},
    {"rsqrt", 1, 3, "-0.5f * rsqrt(A) / A * X"},
    {"native_rsqrt", 1, 3, "-0.5f * native_rsqrt(A) / A * X"},
    {"sin", 1, 3, "cos(A) * X"},
    {"cos", 1, 3, "-sin(A) * X"},
    {"erf", 1, 3, "1.12837917f * exp(-A * A) * X"},
    {"fabs", 1, 3, "sign((float)A) * X"},
    {"fmin", 2, 3, "A <= B ? X : Y"},
    {"fmax", 2, 3, "A >= B ? X : Y"},
    {"min", 2, 3, "A <= B ? X : Y"},
    {"max", 2, 3, "A >= B ? X : Y"},
    {"clamp", 3, 3, "A < B ? Y : A > C ? Z : X"},
    {"fma", 3, 3, "X * B + A * Y + Z"},
    {"mad", 3, 3, "X * B + A * Y + Z"},
    {"pow", 2, 1, "B * pow(A, B - 1.0f) * X"},
    {"pown", 2, 1, "(float)B * pown(A, B - 1) * X"},
    {"floor", 1, 3, "0.0f"},
    {"ceil", 1, 3, "0.0f"},
    {"trunc", 1, 3, "0.0f"},
    {"rint", 1, 3, "0.0f"},
    {"round", 1, 3, "0.0f"},
    {"sign", 1, 3, "0.0f"},
};

static const char *expand(struct derivation *d, const char *form, const struct expression *x)
{
    const char *text = "(";

    for (const char *c = form; *c && !d->failed; c++) {
        const int alone = !is_word_letter(c[1]) && (c == form || !is_word_letter(c[-1]));
        if (alone && *c >= 'A' && *c <= 'C')
            text = part(d, "%s(%.*s)", text, TEXT(x[*c - 'A'].value));
        else if (alone && *c >= 'X' && *c <= 'Z')
            text = part(d, "%s%s", text, x[*c - 'X'].derivative ? x[*c - 'X'].derivative : "0.0f");
        else
            text = part(d, "%s%c", text, *c);
    }
    return part(d, "%s)", text);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static struct expression read_expression(struct derivation *d);

static struct text text_from(const struct derivation *d, const char *begin)
{
    return (struct text){begin, (size_t)(d->at - begin)};
}

/* Arguments and closing parenthesis of a call. Calls with arguments that do not depend on the score do not, either. */
static struct expression read_call(struct derivation *d, struct text name)
{
    struct expression arguments[3] = {{{"", 0}, NULL}}, extra;
    int count = 0, varies = -1;

    do {
        struct expression *x = count < 3 ? &arguments[count] : &extra;
        *x = read_expression(d);
        if (x->derivative)
            varies = count;
        count++;
    } while (!d->failed && take(d, ","));
    expect(d, ")");
    struct expression call = {text_from(d, name.at), NULL};
    if (varies < 0 || d->failed)
        return call;
    for (size_t n = 0; n < sizeof builtins / sizeof *builtins; n++) {
        const struct builtin *b = &builtins[n];
        if (!is(name, b->name) || count != b->arguments || varies >= b->constant_from)
            continue;
        if (strcmp(b->derivative, "0.0f") != 0)
            call.derivative = expand(d, b->derivative, arguments);
        return call;
    }
    refuse(d, name.at, "%.*s() of something that depends on the score", TEXT(name));
    return call;
}

/* A constant of OpenCL C: a word of capitals, digits and underlines, unless the source has macros. */
static int is_constant(struct text word)
{
    for (size_t n = 0; n < word.length; n++)
        if (islower((unsigned char)word.at[n]) && !(n > 1 && word.at[n] == 'F'))
            return is(word, "true") || is(word, "false");
    return 1;
}

static struct expression read_name(struct derivation *d)
{
    const struct text name = take_word(d);
    struct expression x = {name, NULL};

    if (take(d, "("))
        return read_call(d, name);
    if (is_same(name, d->pair) || is_same(name, d->operands)) {
        if (take(d, "."))
            take_word(d);
        x.value = text_from(d, name.at);
        return x;
    }
    for (size_t n = d->num_locals; n-- > 0;) {
        if (!is_same(name, d->locals[n].name))
            continue;
        if (d->locals[n].varies)
            x.derivative = part(d, "derivative_of_%.*s", TEXT(name));
        return x;
    }
    if (is_same(name, d->score))
        x.derivative = "1.0f";
    else if (!is_constant(name))
        refuse(d, name.at, "'%.*s', which is no variable that the derivation knows", TEXT(name));
    return x;
}

/* A number, as the preprocessor reads one. */
static struct expression read_number(struct derivation *d)
{
    const char *begin = d->at;

    while (is_word_letter(*d->at) || *d->at == '.' ||
           ((*d->at == '+' || *d->at == '-') && strchr("eEpP", d->at[-1]) &&
            !(begin[0] == '0' && (begin[1] == 'x' || begin[1] == 'X') && strchr("eE", d->at[-1]))))
        d->at++;
    return (struct expression){text_from(d, begin), NULL};
}

static struct expression read_unary(struct derivation *d)
{
    struct expression x = {{d->at, 0}, NULL};

    const char sign = next(d);
    const char *begin = d->at;
    if (++d->depth > DEPTH)
        refuse(d, begin, "more than %d nested parts of an expression", DEPTH);
    if (d->failed) {
        d->depth--;
        return x;
    }
    if (strncmp(begin, "++", 2) == 0 || strncmp(begin, "--", 2) == 0) {
        refuse(d, begin, "'%.2s', which the derivation does not know", begin);
    } else if (sign && strchr("+-!~", sign)) {
        d->at++;
        x = read_unary(d);
        x.derivative = sign == '-'   ? minus(d, NULL, x.derivative)
                       : sign == '+' ? x.derivative
                                     : NULL;
    } else if (take(d, "(")) {
        const struct text type = peek_word(d);
        if (is_type(type)) {
            take_word(d);
            expect(d, ")");
            x = read_unary(d);
            x.derivative = is(type, "float") ? x.derivative : NULL;
        } else {
            x = read_expression(d);
            expect(d, ")");
        }
    } else if (isdigit((unsigned char)sign) || sign == '.') {
        x = read_number(d);
    } else if (is_word_letter(sign)) {
        x = read_name(d);
    } else {
        refuse(d, begin, "'%c' where the derivation expects an expression", sign ? sign : '}');
    }
    x.value = text_from(d, begin);
    d->depth--;
    return x;
}

/* The binary operator that comes next, with its rank, 0 if there is none. */
static int peek_operator(struct derivation *d, char sign[3])
{
    static const struct {
        const char *sign;
        int rank;
    } operators[] = {{"||", 1}, {"&&", 2}, {"<<", 8}, {">>", 8}, {"==", 6}, {"!=", 6},
                     {"<=", 7}, {">=", 7}, {"|", 3},  {"^", 4},  {"&", 5},  {"<", 7},
                     {">", 7},  {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10}};

    next(d);
    for (size_t n = 0; n < sizeof operators / sizeof *operators; n++) {
        const size_t length = strlen(operators[n].sign);
        if (strncmp(d->at, operators[n].sign, length) != 0)
            continue;
        memcpy(sign, operators[n].sign, length + 1);
        return d->at[length] == '=' ? 0 : operators[n].rank;
    }
    return 0;
}

static struct expression read_operations(struct derivation *d, int lowest)
{
    struct expression x = read_unary(d);
    char sign[3];

    for (int rank; !d->failed && (rank = peek_operator(d, sign)) >= lowest && rank > 0;) {
        d->at += strlen(sign);
        const struct expression y = read_operations(d, rank + 1);
        x.derivative = derivative_of_operation(d, sign, x, y);
        x.value = text_from(d, x.value.at);
    }
    return x;
}

static struct expression read_expression(struct derivation *d)
{
    const struct expression condition = read_operations(d, 1);

    if (d->failed || !take(d, "?"))
        return condition;
    const struct expression a = read_expression(d);
    expect(d, ":");
    const struct expression b = read_expression(d);
    struct expression x = {text_from(d, condition.value.at), NULL};
    if (a.derivative || b.derivative)
        x.derivative =
            part(d, "(%.*s ? %s : %s)", TEXT(condition.value), a.derivative ? a.derivative : "0.0f",
                 b.derivative ? b.derivative : "0.0f");
    return x;
}

/* ---- statements ------------------------------------------------------------------------------ */

static void put(struct derivation *d, const char *text)
{
    ca_put(&d->out, "%s", text);
}

/* "float x = ...;" after its type. */
static void read_variable(struct derivation *d, struct text type)
{
    const struct text name = take_word(d);

    if (name.length == 0 || name.length >= NAME || d->num_locals == LOCALS) {
        refuse(d, name.at, "a declaration that the derivation cannot read");
        return;
    }
    expect(d, "=");
    const struct expression x = read_expression(d);
    expect(d, ";");
    const int varies = x.derivative && is(type, "float");
    ca_put(&d->out, "    const %.*s %.*s = %.*s;\n", TEXT(type), TEXT(name), TEXT(x.value));
    if (varies)
        ca_put(&d->out, "    const float derivative_of_%.*s = %s;\n", TEXT(name), x.derivative);
    d->locals[d->num_locals++] = (struct local){name, varies};
}

static void read_return(struct derivation *d)
{
    const struct expression x = read_expression(d);

    expect(d, ";");
    ca_put(&d->out, "    return %s;\n", x.derivative ? x.derivative : "0.0f");
}

/* "return ...;", with or without braces. */
static void read_branch(struct derivation *d)
{
    const int braces = take(d, "{");

    if (take_if(d, "return"))
        read_return(d);
    else
        refuse(d, d->at, "an if whose branch is not a return");
    if (braces)
        expect(d, "}");
}

/* Returns whether another statement may follow. */
static int read_statement(struct derivation *d)
{
    if (take_if(d, "return")) {
        read_return(d);
        return 0;
    }
    if (take_if(d, "if")) {
        expect(d, "(");
        const struct expression condition = read_expression(d);
        expect(d, ")");
        ca_put(&d->out, "    if (%.*s)\n", TEXT(condition.value));
        read_branch(d);
        if (!take_if(d, "else"))
            return 1;
        if (is(peek_word(d), "if"))
            return read_statement(d);
        read_branch(d);
        return 0;
    }
    take_if(d, "const");
    const struct text type = peek_word(d);
    if (!is_type(type)) {
        refuse(d, type.at, "'%.*s', which begins no statement that the derivation knows",
               type.length > 0 ? (int)type.length : 1, type.at);
        return 0;
    }
    take_word(d);
    take_if(d, "const");
    read_variable(d, type);
    return 1;
}

/* "TYPE NAME" of score(). */
static struct text read_parameter(struct derivation *d, const char *type)
{
    struct text name;

    take_if(d, "const");
    if (!take_if(d, type))
        refuse(d, d->at, "a score() whose parameters are not float, pair and operands");
    take_if(d, "const");
    name = take_word(d);
    if (name.length == 0)
        refuse(d, d->at, "a parameter of score() without a name");
    return name;
}

/* The name of the definition of score(); NULL if there is none. Macros are refused: they may hide anything. */
static const char *find_score(struct derivation *d)
{
    const char *const begin = d->f->compiled;
    int depth = 0;

    for (const char *at = begin; *at; at++) {
        depth += *at == '{' || *at == '(';
        depth -= *at == '}' || *at == ')';
        if (*at == '#') {
            refuse(d, at, "a directive of the preprocessor");
            return NULL;
        }
        if (depth == 0 && strncmp(at, "score", 5) == 0 && !is_word_letter(at[5]) &&
            (at == begin || !is_word_letter(at[-1]))) {
            const char *after = at + strcspn(at, ")");
            if (*after && after[1 + strspn(after + 1, " \t\r\n")] == '{')
                return at;
        }
    }
    refuse(d, begin, "no definition of score() that the derivation can read");
    return NULL;
}

static void derive(struct derivation *d)
{
    int follows = 1;

    d->at = find_score(d);
    if (!d->at)
        return;
    take_word(d);
    expect(d, "(");
    d->score = read_parameter(d, "float");
    expect(d, ",");
    d->pair = read_parameter(d, "pair");
    expect(d, ",");
    d->operands = read_parameter(d, "operands");
    expect(d, ")");
    expect(d, "{");
    if (d->failed)
        return;
    ca_put(&d->out, "float score_derivative(float %.*s, pair %.*s, operands %.*s)\n{\n",
           TEXT(d->score), TEXT(d->pair), TEXT(d->operands));
    while (follows && !d->failed)
        follows = read_statement(d);
    expect(d, "}");
    put(d, "}\n");
    if (d->out.length >= d->out.bytes)
        refuse(d, d->at, "a derivative that is too long");
}

int ca_function_derive(struct clattn_function *f)
{
    struct derivation *d = calloc(1, sizeof *d);
    char *text = malloc(TEXT_BYTES), *parts = malloc(TEXT_BYTES);
    const int made = d && text && parts;

    if (made) {
        d->f = f;
        d->parts = parts;
        d->out = (struct ca_writer){text, TEXT_BYTES, 0};
        text[0] = '\0';
        derive(d);
        f->has_derivative = !d->failed;
        if (!d->failed) {
            char *shorter = realloc(text, d->out.length + 1);
            f->derived = shorter ? shorter : text;
            text = NULL;
        }
    }
    free(text);
    free(parts);
    free(d);
    return made;
}
