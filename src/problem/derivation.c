/* SPDX-License-Identifier: Apache-2.0 */
/* Words, expressions and their derivatives, for function_derivative.c. */
#include "problem/derivation.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- words ----------------------------------------------------------------------------------- */

void ca_derive_refuse(struct ca_derivation *d, const char *at, const char *format, ...)
{
    char *const to = d->reason;
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

char ca_derive_next(struct ca_derivation *d)
{
    while (isspace((unsigned char)*d->at))
        d->at++;
    return *d->at;
}

int ca_derive_take(struct ca_derivation *d, const char *sign)
{
    ca_derive_next(d);
    if (strncmp(d->at, sign, strlen(sign)) != 0)
        return 0;
    d->at += strlen(sign);
    return 1;
}

void ca_derive_expect(struct ca_derivation *d, const char *sign)
{
    ca_derive_next(d);
    if (!ca_derive_take(d, sign))
        ca_derive_refuse(d, d->at, "%.*s where the derivation expects '%s'",
                         *d->at ? (int)strcspn(d->at, " \t\r\n") : 3, *d->at ? d->at : "end", sign);
}

struct ca_text ca_derive_peek(struct ca_derivation *d)
{
    struct ca_text word = {d->at, 0};

    ca_derive_next(d);
    word.at = d->at;
    if (!isdigit((unsigned char)*word.at))
        while (ca_is_word_letter(word.at[word.length]))
            word.length++;
    return word;
}

struct ca_text ca_derive_word(struct ca_derivation *d)
{
    const struct ca_text word = ca_derive_peek(d);

    d->at += word.length;
    return word;
}

int ca_derive_take_word(struct ca_derivation *d, const char *other)
{
    if (!ca_text_is(ca_derive_peek(d), other))
        return 0;
    ca_derive_word(d);
    return 1;
}

int ca_derive_is_type(struct ca_text word)
{
    static const char *const types[] = {"float", "int",  "uint",  "long",  "ulong",
                                        "bool",  "char", "uchar", "short", "ushort"};

    for (size_t n = 0; n < sizeof types / sizeof *types; n++)
        if (ca_text_is(word, types[n]))
            return 1;
    return 0;
}

/* ---- derivatives ----------------------------------------------------------------------------- */

const char *ca_derive_text(struct ca_derivation *d, const char *format, ...)
{
    char *const to = d->parts + d->parts_used;
    const size_t room = CA_DERIVATION_BYTES - d->parts_used;
    va_list list;

    va_start(list, format);
    const int length = vsnprintf(to, room, format, list);
    va_end(list);
    if (length < 0 || (size_t)length >= room) {
        ca_derive_refuse(d, d->at, "a derivative that is too long");
        return "0.0f";
    }
    d->parts_used += (size_t)length + 1;
    return to;
}

/* derivative * factor */
static const char *times(struct ca_derivation *d, const char *derivative, struct ca_text factor)
{
    if (!derivative)
        return NULL;
    if (strcmp(derivative, "1.0f") == 0)
        return ca_derive_text(d, "(float)(%.*s)", CA_TEXT(factor));
    return ca_derive_text(d, "(%s * (%.*s))", derivative, CA_TEXT(factor));
}

static const char *plus(struct ca_derivation *d, const char *a, const char *b)
{
    return a && b ? ca_derive_text(d, "(%s + %s)", a, b) : a ? a : b;
}

static const char *minus(struct ca_derivation *d, const char *a, const char *b)
{
    return a && b ? ca_derive_text(d, "(%s - %s)", a, b) : b ? ca_derive_text(d, "(-%s)", b) : a;
}

const char *ca_derive_operation(struct ca_derivation *d, const char *sign, struct ca_expression a,
                                struct ca_expression b)
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
        left = a.derivative ? ca_derive_text(d, "(%s / (%.*s))", a.derivative, CA_TEXT(b.value))
                            : NULL;
        if (!b.derivative)
            return left;
        return minus(d, left,
                     ca_derive_text(d, "(%s * ((%.*s) / (%.*s) / (%.*s)))", b.derivative,
                                    CA_TEXT(a.value), CA_TEXT(b.value), CA_TEXT(b.value)));
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

static const char *expand(struct ca_derivation *d, const char *form, const struct ca_expression *x)
{
    const char *text = "(";

    for (const char *c = form; *c && !d->failed; c++) {
        const int alone = !ca_is_word_letter(c[1]) && (c == form || !ca_is_word_letter(c[-1]));
        if (alone && *c >= 'A' && *c <= 'C')
            text = ca_derive_text(d, "%s(%.*s)", text, CA_TEXT(x[*c - 'A'].value));
        else if (alone && *c >= 'X' && *c <= 'Z')
            text = ca_derive_text(d, "%s%s", text,
                                  x[*c - 'X'].derivative ? x[*c - 'X'].derivative : "0.0f");
        else
            text = ca_derive_text(d, "%s%c", text, *c);
    }
    return ca_derive_text(d, "%s)", text);
}

/* ---- expressions ----------------------------------------------------------------------------- */

/* The operand whose name and `ending` make the name; NULL if there is none. */
static const struct ca_function_operand *operand_of(const struct clattn_function *f,
                                                    struct ca_text name, const char *ending)
{
    for (size_t n = 0; n < f->num_operands; n++) {
        const size_t length = strlen(f->operands[n].name);
        if (name.length == length + strlen(ending) &&
            memcmp(name.at, f->operands[n].name, length) == 0 &&
            memcmp(name.at + length, ending, strlen(ending)) == 0)
            return &f->operands[n];
    }
    return NULL;
}

/* A call may load a float whose gradient is to be derived. One of the source's own functions may do so unseen where it is
 * given the operands. */
static void read_load(struct ca_derivation *d, struct ca_text name, struct ca_expression *call,
                      const struct ca_expression *arguments, int count)
{
    const struct ca_function_operand *const of_pair = operand_of(d->f, name, "_of");
    const struct ca_function_operand *const operand =
        of_pair ? of_pair : operand_of(d->f, name, "_at");

    if (d->what == CA_BY_SCORE || d->failed || operand_of(d->f, name, "_place"))
        return;
    for (int n = 0; !operand && n < count && n < 3; n++)
        if (ca_text_equals(arguments[n].value, d->operands))
            ca_derive_refuse(d, name.at, "%.*s(), which may load from operands", CA_TEXT(name));
    if (!operand || operand->by_hand || !ca_function_type_is_float(operand->type))
        return;
    if (d->loops > 0)
        ca_derive_refuse(d, name.at, "%.*s() in a loop", CA_TEXT(name));
    if (d->loads++ != d->load)
        return;
    d->operand = (size_t)(operand - d->f->operands);
    if (d->what == CA_BY_LOAD)
        call->derivative = "1.0f";
    else if (of_pair)
        ca_put(&d->out, "return (int)score_function_%s_place(%.*s, %.*s);\n", operand->name,
               CA_TEXT(arguments[0].value), CA_TEXT(arguments[1].value));
    else
        ca_put(&d->out, "return (int)(%.*s);\n", CA_TEXT(arguments[1].value));
}

/* Arguments and closing parenthesis of a call. Calls with arguments that do not depend on the score do not, either. */
static struct ca_expression read_call(struct ca_derivation *d, struct ca_text name)
{
    struct ca_expression arguments[3] = {{{"", 0}, NULL}}, extra;
    int count = 0, varies = -1;

    do {
        struct ca_expression *x = count < 3 ? &arguments[count] : &extra;
        *x = ca_derive_expression(d);
        if (x->derivative)
            varies = count;
        count++;
    } while (!d->failed && ca_derive_take(d, ","));
    ca_derive_expect(d, ")");
    struct ca_expression call = {ca_text_from(d, name.at), NULL};
    read_load(d, name, &call, arguments, count);
    if (varies < 0 || d->failed)
        return call;
    for (size_t n = 0; n < sizeof builtins / sizeof *builtins; n++) {
        const struct builtin *b = &builtins[n];
        if (!ca_text_is(name, b->name) || count != b->arguments || varies >= b->constant_from)
            continue;
        if (strcmp(b->derivative, "0.0f") != 0)
            call.derivative = expand(d, b->derivative, arguments);
        return call;
    }
    ca_derive_refuse(d, name.at, "%.*s() of something that depends on %s", CA_TEXT(name),
                     ca_derived_by(d));
    return call;
}

/* A constant of OpenCL C: a word of capitals, digits and underlines, unless the source has macros. */
static int is_constant(struct ca_text word)
{
    for (size_t n = 0; n < word.length; n++)
        if (islower((unsigned char)word.at[n]) && !(n > 1 && word.at[n] == 'F'))
            return ca_text_is(word, "true") || ca_text_is(word, "false");
    return 1;
}

const struct ca_local *ca_derive_local(const struct ca_derivation *d, struct ca_text name)
{
    for (size_t n = d->num_locals; n-- > 0;)
        if (ca_text_equals(name, d->locals[n].name))
            return &d->locals[n];
    return NULL;
}

static struct ca_expression read_name(struct ca_derivation *d)
{
    const struct ca_text name = ca_derive_word(d);
    struct ca_expression x = {name, NULL};

    if (ca_derive_take(d, "("))
        return read_call(d, name);
    if (ca_text_equals(name, d->pair) || ca_text_equals(name, d->operands)) {
        if (ca_derive_take(d, "."))
            ca_derive_word(d);
        x.value = ca_text_from(d, name.at);
        return x;
    }
    const struct ca_local *local = ca_derive_local(d, name);
    if (local)
        x.derivative = local->derivative;
    else if (!is_constant(name))
        ca_derive_refuse(d, name.at, "'%.*s', which is no variable that the derivation knows",
                         CA_TEXT(name));
    return x;
}

/* A number, as the preprocessor reads one. */
static struct ca_expression read_number(struct ca_derivation *d)
{
    const char *begin = d->at;

    while (ca_is_word_letter(*d->at) || *d->at == '.' ||
           ((*d->at == '+' || *d->at == '-') && strchr("eEpP", d->at[-1]) &&
            !(begin[0] == '0' && (begin[1] == 'x' || begin[1] == 'X') && strchr("eE", d->at[-1]))))
        d->at++;
    return (struct ca_expression){ca_text_from(d, begin), NULL};
}

static struct ca_expression read_unary(struct ca_derivation *d)
{
    struct ca_expression x = {{d->at, 0}, NULL};

    const char sign = ca_derive_next(d);
    const char *begin = d->at;
    if (++d->depth > CA_DERIVATION_DEPTH)
        ca_derive_refuse(d, begin, "more than %d nested parts of an expression",
                         CA_DERIVATION_DEPTH);
    if (d->failed) {
        d->depth--;
        return x;
    }
    if (strncmp(begin, "++", 2) == 0 || strncmp(begin, "--", 2) == 0) {
        ca_derive_refuse(d, begin, "'%.2s', which the derivation does not know", begin);
    } else if (sign && strchr("+-!~", sign)) {
        d->at++;
        x = read_unary(d);
        x.derivative = sign == '-'   ? minus(d, NULL, x.derivative)
                       : sign == '+' ? x.derivative
                                     : NULL;
    } else if (ca_derive_take(d, "(")) {
        const struct ca_text type = ca_derive_peek(d);
        if (ca_derive_is_type(type)) {
            ca_derive_word(d);
            ca_derive_expect(d, ")");
            x = read_unary(d);
            x.derivative = ca_text_is(type, "float") ? x.derivative : NULL;
        } else {
            x = ca_derive_expression(d);
            ca_derive_expect(d, ")");
        }
    } else if (isdigit((unsigned char)sign) || sign == '.') {
        x = read_number(d);
    } else if (ca_is_word_letter(sign)) {
        x = read_name(d);
    } else {
        ca_derive_refuse(d, begin, "'%c' where the derivation expects an expression",
                         sign ? sign : '}');
    }
    x.value = ca_text_from(d, begin);
    d->depth--;
    return x;
}

/* The binary operator that comes next, with its rank, 0 if there is none. */
static int peek_operator(struct ca_derivation *d, char sign[3])
{
    static const struct {
        const char *sign;
        int rank;
    } operators[] = {{"||", 1}, {"&&", 2}, {"<<", 8}, {">>", 8}, {"==", 6}, {"!=", 6},
                     {"<=", 7}, {">=", 7}, {"|", 3},  {"^", 4},  {"&", 5},  {"<", 7},
                     {">", 7},  {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10}};

    ca_derive_next(d);
    for (size_t n = 0; n < sizeof operators / sizeof *operators; n++) {
        const size_t length = strlen(operators[n].sign);
        if (strncmp(d->at, operators[n].sign, length) != 0)
            continue;
        memcpy(sign, operators[n].sign, length + 1);
        return d->at[length] == '=' ? 0 : operators[n].rank;
    }
    return 0;
}

static struct ca_expression read_operations(struct ca_derivation *d, int lowest)
{
    struct ca_expression x = read_unary(d);
    char sign[3];

    for (int rank; !d->failed && (rank = peek_operator(d, sign)) >= lowest && rank > 0;) {
        d->at += strlen(sign);
        const struct ca_expression y = read_operations(d, rank + 1);
        x.derivative = ca_derive_operation(d, sign, x, y);
        x.value = ca_text_from(d, x.value.at);
    }
    return x;
}

struct ca_expression ca_derive_expression(struct ca_derivation *d)
{
    const struct ca_expression condition = read_operations(d, 1);

    if (d->failed || !ca_derive_take(d, "?"))
        return condition;
    const struct ca_expression a = ca_derive_expression(d);
    ca_derive_expect(d, ":");
    const struct ca_expression b = ca_derive_expression(d);
    struct ca_expression x = {ca_text_from(d, condition.value.at), NULL};
    if (a.derivative || b.derivative)
        x.derivative = ca_derive_text(d, "(%.*s ? %s : %s)", CA_TEXT(condition.value),
                                      a.derivative ? a.derivative : "0.0f",
                                      b.derivative ? b.derivative : "0.0f");
    return x;
}
