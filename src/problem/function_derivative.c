/* SPDX-License-Identifier: Apache-2.0 */
/* A parser of score() that writes its derivative as it reads. The derivative has the statements of score(). Beside each
 * variable that varies with the score, or with what a load gives, it has the variable's derivative, and it returns that of
 * what score() returns. The function that says which element a load loads has the same statements up to the load. */
#include "problem/function_derivative.h"
#include "problem/derivation.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- variables ------------------------------------------------------------------------------- */

/* The sign of an assignment, if one comes next; else empty. */
static struct ca_text assigning_sign(const char *at)
{
    static const char *const signs[] = {
        "<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "="};

    at += strspn(at, " \t\r\n");
    for (size_t n = 0; n < sizeof signs / sizeof *signs && strncmp(at, "==", 2) != 0; n++)
        if (strncmp(at, signs[n], strlen(signs[n])) == 0)
            return (struct ca_text){at, strlen(signs[n])};
    return (struct ca_text){at, 0};
}

/* Whether a variable is assigned to from here on, but for its declaration. */
static int is_assigned(const struct ca_derivation *d, struct ca_text name)
{
    for (const char *at = d->at; *at; at++) {
        if (!ca_is_word_letter(*at) || ca_is_word_letter(at[-1]))
            continue;
        if (strncmp(at, name.at, name.length) == 0 && !ca_is_word_letter(at[name.length]) &&
            assigning_sign(at + name.length).length > 0)
            return 1;
    }
    return 0;
}

/* Adds a variable, and writes its derivative, which precedes it, if that is not 0. */
static void add_variable(struct ca_derivation *d, struct ca_text name, const char *derivative)
{
    if (name.length == 0 || name.length >= CA_FUNCTION_WORD ||
        d->num_locals == CA_DERIVATION_LOCALS) {
        ca_derive_refuse(d, name.at, "a declaration that the derivation cannot read");
        return;
    }
    if (d->what == CA_LOADED)
        derivative = NULL;
    if (derivative) {
        ca_put(&d->out, "float derivative_of_%.*s = %s;\n", CA_TEXT(name), derivative);
        derivative = ca_derive_text(d, "derivative_of_%.*s", CA_TEXT(name));
    }
    d->locals[d->num_locals++] = (struct ca_local){name, derivative};
}

/* "x" or "x = ...", one of the variables that follow a type. */
static void read_variable(struct ca_derivation *d, struct ca_text type)
{
    const struct ca_text name = ca_derive_word(d);
    struct ca_expression x = {{"", 0}, NULL};

    const char next = ca_derive_next(d);
    const int is_float = ca_text_is(type, "float"), varies = is_assigned(d, name);
    if (next != ',' && next != ';') {
        ca_derive_expect(d, "=");
        x = ca_derive_expression(d);
    }
    if (varies && !x.derivative)
        x.derivative = "0.0f";
    add_variable(d, name, is_float ? x.derivative : NULL);
    ca_put(&d->out, "%.*s %.*s%s%.*s;\n", CA_TEXT(type), CA_TEXT(name),
           x.value.length > 0 ? " = " : "", CA_TEXT(x.value));
}

/* "= ..." or "+= ..." after a variable. Its derivative comes first, since that needs the old value. */
static void read_assignment(struct ca_derivation *d, struct ca_text name)
{
    const struct ca_text sign = assigning_sign(d->at);
    const struct ca_local *const local = ca_derive_local(d, name);

    if (!local || sign.length == 0) {
        ca_derive_refuse(d, name.at, "'%.*s', which begins no statement that the derivation knows",
                         name.length > 0 ? (int)name.length : 1, name.at);
        return;
    }
    d->at = sign.at + sign.length;
    const struct ca_expression x = ca_derive_expression(d);
    if (local->derivative) {
        const char operation[2] = {sign.at[0], '\0'};
        const struct ca_expression old = {name, local->derivative};
        const char *changed =
            sign.length == 1 ? x.derivative : ca_derive_operation(d, operation, old, x);
        ca_put(&d->out, "%s = %s;\n", local->derivative, changed ? changed : "0.0f");
    }
    ca_put(&d->out, "%.*s %.*s %.*s;\n", CA_TEXT(name), CA_TEXT(sign), CA_TEXT(x.value));
}

/* ---- statements ------------------------------------------------------------------------------ */

static void read_statement(struct ca_derivation *d);

/* A statement in braces, with which its variables end. */
static void read_branch(struct ca_derivation *d)
{
    const size_t variables = d->num_locals;

    ca_put(&d->out, "{\n");
    read_statement(d);
    ca_put(&d->out, "}\n");
    d->num_locals = variables;
}

/* After "if". */
static void read_if(struct ca_derivation *d)
{
    ca_derive_expect(d, "(");
    const struct ca_expression condition = ca_derive_expression(d);
    ca_derive_expect(d, ")");
    ca_put(&d->out, "if (%.*s)\n", CA_TEXT(condition.value));
    read_branch(d);
    if (!ca_derive_take_word(d, "else"))
        return;
    ca_put(&d->out, "else\n");
    read_branch(d);
}

/* The last part of a loop's head: "n++", "++n", "n--", "--n", or an assignment to an integer. */
static void read_step(struct ca_derivation *d)
{
    const int before = ca_derive_take(d, "++") || ca_derive_take(d, "--");
    const struct ca_text name = ca_derive_word(d);
    const struct ca_local *const local = ca_derive_local(d, name);

    if (before || ca_derive_take(d, "++") || ca_derive_take(d, "--"))
        return;
    const struct ca_text sign = assigning_sign(d->at);
    if (!local || local->derivative || sign.length == 0) {
        ca_derive_refuse(d, name.at, "a loop whose step is not that of an integer");
        return;
    }
    d->at = sign.at + sign.length;
    ca_derive_expression(d);
}

/* "(int n = ...; ...; n++) ..." after "for". */
static void read_loop(struct ca_derivation *d)
{
    const size_t variables = d->num_locals;

    d->loops++;
    ca_derive_expect(d, "(");
    if (!ca_derive_take_word(d, "int"))
        ca_derive_refuse(d, d->at, "a loop that does not begin with an int");
    const struct ca_text name = ca_derive_word(d);
    ca_derive_expect(d, "=");
    const struct ca_expression first = ca_derive_expression(d);
    ca_derive_expect(d, ";");
    add_variable(d, name, NULL);
    const struct ca_expression condition = ca_derive_expression(d);
    ca_derive_expect(d, ";");
    ca_derive_next(d);
    const char *step = d->at;
    read_step(d);
    ca_put(&d->out, "for (int %.*s = %.*s; %.*s; %.*s)\n", CA_TEXT(name), CA_TEXT(first.value),
           CA_TEXT(condition.value), CA_TEXT(ca_text_from(d, step)));
    ca_derive_expect(d, ")");
    read_branch(d);
    d->num_locals = variables;
    d->loops--;
}

/* After "{". */
static void read_block(struct ca_derivation *d)
{
    const size_t variables = d->num_locals;

    ca_put(&d->out, "{\n");
    while (!d->failed && !ca_derive_take(d, "}"))
        read_statement(d);
    ca_put(&d->out, "}\n");
    d->num_locals = variables;
}

/* A declaration, an assignment or a return, which end with a semicolon. */
static void read_simple(struct ca_derivation *d)
{
    ca_derive_take_word(d, "const");
    const struct ca_text word = ca_derive_word(d);
    if (ca_text_is(word, "return")) {
        const struct ca_expression x = ca_derive_expression(d);
        ca_put(&d->out, "return %s;\n",
               d->what == CA_LOADED ? "-1"
               : x.derivative       ? x.derivative
                                    : "0.0f");
    } else if (ca_derive_is_type(word)) {
        ca_derive_take_word(d, "const");
        do
            read_variable(d, word);
        while (!d->failed && ca_derive_take(d, ","));
    } else {
        read_assignment(d, word);
    }
    ca_derive_expect(d, ";");
}

static void read_statement(struct ca_derivation *d)
{
    if (++d->depth > CA_DERIVATION_DEPTH)
        ca_derive_refuse(d, d->at, "more than %d nested statements", CA_DERIVATION_DEPTH);
    else if (ca_derive_take_word(d, "if"))
        read_if(d);
    else if (ca_derive_take_word(d, "for"))
        read_loop(d);
    else if (ca_derive_take(d, "{"))
        read_block(d);
    else
        read_simple(d);
    d->depth--;
}

/* ---- score() --------------------------------------------------------------------------------- */

/* "TYPE NAME" of score(). */
static struct ca_text read_parameter(struct ca_derivation *d, const char *type)
{
    struct ca_text name;

    ca_derive_take_word(d, "const");
    if (!ca_derive_take_word(d, type))
        ca_derive_refuse(d, d->at, "a score() whose parameters are not float, pair and operands");
    ca_derive_take_word(d, "const");
    name = ca_derive_word(d);
    if (name.length == 0)
        ca_derive_refuse(d, d->at, "a parameter of score() without a name");
    return name;
}

/* The name of the definition of score(); NULL if there is none. Macros are refused: they may hide anything. */
static const char *find_score(struct ca_derivation *d)
{
    const char *const begin = d->f->compiled;
    int depth = 0;

    for (const char *at = begin; *at; at++) {
        depth += *at == '{' || *at == '(';
        depth -= *at == '}' || *at == ')';
        if (*at == '#') {
            ca_derive_refuse(d, at, "a directive of the preprocessor");
            return NULL;
        }
        if (depth == 0 && strncmp(at, "score", 5) == 0 && !ca_is_word_letter(at[5]) &&
            (at == begin || !ca_is_word_letter(at[-1]))) {
            const char *after = at + strcspn(at, ")");
            if (*after && after[1 + strspn(after + 1, " \t\r\n")] == '{')
                return at;
        }
    }
    ca_derive_refuse(d, begin, "no definition of score() that the derivation can read");
    return NULL;
}

static void derive(struct ca_derivation *d)
{
    d->at = find_score(d);
    if (!d->at)
        return;
    ca_derive_word(d);
    ca_derive_expect(d, "(");
    const struct ca_text score = read_parameter(d, "float");
    ca_derive_expect(d, ",");
    d->pair = read_parameter(d, "pair");
    ca_derive_expect(d, ",");
    d->operands = read_parameter(d, "operands");
    ca_derive_expect(d, ")");
    ca_derive_expect(d, "{");
    if (d->failed)
        return;
    if (d->what == CA_BY_SCORE)
        ca_put(&d->out, "float score_derivative");
    else
        ca_put(&d->out, "%s score_load_%zu_%s", d->what == CA_LOADED ? "int" : "float", d->load,
               d->what == CA_LOADED ? "index" : "derivative");
    ca_put(&d->out, "(float %.*s, pair %.*s, operands %.*s)\n{\n", CA_TEXT(score), CA_TEXT(d->pair),
           CA_TEXT(d->operands));
    const int by_score = d->what == CA_BY_SCORE;
    if (is_assigned(d, score))
        add_variable(d, score, by_score ? "1.0f" : "0.0f");
    else
        d->locals[d->num_locals++] = (struct ca_local){score, by_score ? "1.0f" : NULL};
    while (!d->failed && !ca_derive_take(d, "}"))
        read_statement(d);
    ca_put(&d->out, "}\n");
    if (d->out.length >= d->out.bytes)
        ca_derive_refuse(d, d->at, "a derivative that is too long");
}

/* Derives one function, behind what was written before; returns whether it could. */
static int derive_next(struct ca_derivation *d, enum ca_derived what, size_t load)
{
    struct clattn_function *f = d->f;

    *d = (struct ca_derivation){.f = f,
                                .what = what,
                                .load = load,
                                .reason = what == CA_BY_SCORE ? f->no_derivative : f->no_loads,
                                .parts = d->parts,
                                .out = d->out};
    derive(d);
    return !d->failed;
}

/* Derives the functions of all loads but those of operands that have them by hand. */
static int derive_loads(struct ca_derivation *d)
{
    struct clattn_function *f = d->f;

    for (size_t n = 0; n == 0 || n < d->loads; n++) {
        const size_t written = d->out.length;
        if (!derive_next(d, CA_BY_LOAD, n))
            return 0;
        if (d->loads == 0) { /* there is no load: removes what was written */
            d->out.length = written;
            d->out.text[written] = '\0';
            return 1;
        }
        if (f->num_loads == CA_FUNCTION_LOADS) {
            ca_derive_refuse(d, d->at, "more than %d loads of floats", CA_FUNCTION_LOADS);
            return 0;
        }
        struct ca_function_load *load = &f->loads[f->num_loads++];
        load->operand = d->operand;
        snprintf(load->index, sizeof load->index, "score_load_%zu_index", n);
        snprintf(load->derivative, sizeof load->derivative, "score_load_%zu_derivative", n);
        if (!derive_next(d, CA_LOADED, n))
            return 0;
    }
    return 1;
}

/* Copies what was written to *text, and begins anew; false without memory. */
static int take_text(struct ca_derivation *d, char **text)
{
    *text = malloc(d->out.length + 1);
    if (*text)
        memcpy(*text, d->out.text, d->out.length + 1);
    d->out.length = 0;
    d->out.text[0] = '\0';
    return *text != NULL;
}

int ca_function_derive(struct clattn_function *f)
{
    struct ca_derivation *d = calloc(1, sizeof *d);
    char *text = malloc(CA_DERIVATION_BYTES), *parts = malloc(CA_DERIVATION_BYTES);
    int made = d && text && parts;

    if (made) {
        d->f = f;
        d->parts = parts;
        d->out = (struct ca_writer){text, CA_DERIVATION_BYTES, 0};
        text[0] = '\0';
        if (!f->has_derivative) {
            f->has_derivative = derive_next(d, CA_BY_SCORE, 0);
            made = take_text(d, &f->derived);
        }
        f->has_loads = derive_loads(d);
        made = made && take_text(d, &f->derived_loads);
    }
    free(text);
    free(parts);
    free(d);
    return made;
}
