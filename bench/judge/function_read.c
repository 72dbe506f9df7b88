/* SPDX-License-Identifier: Apache-2.0 */
/* Statements and definitions of a function's source. */
#include "bench/judge/function_reader.h"

#include <string.h>

static struct node *read_statement(struct function_reader *r);

static bool take_qualifier(struct function_reader *r)
{
    return reader_take(r, "const") || reader_take(r, "static") || reader_take(r, "inline") ||
           reader_take(r, "constant") || reader_take(r, "__constant");
}

static int add_local(struct function_reader *r, enum number_type type)
{
    if (r->kind != WORD_NAME)
        reader_fail(r, "a name is missing");
    if (r->num_locals == FUNCTION_LOCALS || r->places == FUNCTION_LOCALS) {
        reader_fail(r, "there are too many variables");
        r->num_locals = r->places = 0;
    }
    struct function_local *local = &r->locals[r->num_locals++];
    memcpy(local->name, r->word, sizeof local->name);
    local->type = type;
    local->place = (int)r->places++;
    reader_next(r);
    return local->place;
}

/* After the type: "a = 1, b;" */
static struct node *read_declarations(struct function_reader *r, enum number_type type)
{
    struct node *block = reader_node(r, NODE_BLOCK), **last = &block->a;

    do {
        struct node *node = reader_node(r, NODE_DECLARATION);
        char name[FUNCTION_WORD];
        memcpy(name, r->word, sizeof name);
        node->type = type;
        node->place = add_local(r, type);
        if (reader_take(r, "="))
            node->a = reader_assignment(r);
        *last = node;
        last = &node->next;
    } while (reader_take(r, ","));
    reader_expect(r, ";");
    return block;
}

/* A declaration or an expression, with its semicolon. */
static struct node *read_simple(struct function_reader *r)
{
    enum number_type type;

    while (take_qualifier(r))
        continue;
    if (reader_take_type(r, &type)) {
        while (take_qualifier(r))
            continue;
        return read_declarations(r, type);
    }
    struct node *node = reader_node(r, NODE_EXPRESSION);
    if (!reader_is(r, ";"))
        node->a = reader_expression(r);
    reader_expect(r, ";");
    return node;
}

/* After its opening brace. */
static struct node *read_block(struct function_reader *r)
{
    struct node *block = reader_node(r, NODE_BLOCK), **last = &block->a;
    const size_t outer = r->num_locals;

    while (r->kind != WORD_END && !reader_is(r, "}")) {
        *last = read_statement(r);
        last = &(*last)->next;
    }
    reader_expect(r, "}");
    r->num_locals = outer;
    return block;
}

static struct node *read_if(struct function_reader *r)
{
    struct node *node = reader_node(r, NODE_IF);

    reader_expect(r, "(");
    node->a = reader_expression(r);
    reader_expect(r, ")");
    node->b = read_statement(r);
    if (reader_take(r, "else"))
        node->c = read_statement(r);
    return node;
}

static struct node *read_for(struct function_reader *r)
{
    struct node *node = reader_node(r, NODE_FOR);
    const size_t outer = r->num_locals;

    reader_expect(r, "(");
    node->a = read_simple(r);
    if (!reader_is(r, ";"))
        node->b = reader_expression(r);
    reader_expect(r, ";");
    if (!reader_is(r, ")"))
        node->c = reader_expression(r);
    reader_expect(r, ")");
    node->d = read_statement(r);
    r->num_locals = outer;
    return node;
}

static struct node *read_while(struct function_reader *r)
{
    struct node *node = reader_node(r, NODE_FOR);

    reader_expect(r, "(");
    node->b = reader_expression(r);
    reader_expect(r, ")");
    node->d = read_statement(r);
    return node;
}

static struct node *read_statement(struct function_reader *r)
{
    struct node *node;

    if (reader_take(r, "{"))
        return read_block(r);
    if (reader_take(r, "if"))
        return read_if(r);
    if (reader_take(r, "for"))
        return read_for(r);
    if (reader_take(r, "while"))
        return read_while(r);
    if (reader_take(r, "return")) {
        node = reader_node(r, NODE_RETURN);
        node->a = reader_expression(r);
    } else if (reader_take(r, "break")) {
        node = reader_node(r, NODE_BREAK);
    } else if (reader_take(r, "continue")) {
        node = reader_node(r, NODE_CONTINUE);
    } else {
        return read_simple(r);
    }
    reader_expect(r, ";");
    return node;
}

/* ---- definitions ------------------------------------------------------------------------------- */

static void read_parameters(struct function_reader *r, struct routine *f)
{
    while (r->kind != WORD_END && !reader_is(r, ")")) {
        enum number_type type = NUMBER_INT;
        while (take_qualifier(r))
            continue;
        if (!reader_take_type(r, &type) || f->num_parameters == FUNCTION_ARGUMENTS) {
            reader_fail(r, "the type of a parameter is not known");
            return;
        }
        while (take_qualifier(r))
            continue;
        if (type == NUMBER_VOID)
            break;
        f->parameters[f->num_parameters++] = type;
        add_local(r, type);
        if (!reader_take(r, ","))
            break;
    }
    reader_expect(r, ")");
}

/* After its name and the parenthesis. */
static void read_routine(struct function_reader *r, const char *name, enum number_type type)
{
    struct function_program *p = r->program;

    if (p->num_routines == FUNCTION_ROUTINES) {
        reader_fail(r, "there are too many functions");
        return;
    }
    struct routine *f = &p->routines[p->num_routines];
    memcpy(f->name, name, sizeof f->name);
    f->type = type;
    r->num_locals = r->places = 0;
    read_parameters(r, f);
    if (reader_take(r, ";")) { /* a declaration */
        memset(f, 0, sizeof *f);
        return;
    }
    reader_expect(r, "{");
    f->body = read_block(r);
    f->locals = r->places;
    const int number = (int)p->num_routines++;
    if (strcmp(name, "score") == 0)
        p->score = number;
    else if (strcmp(name, "score_derivative") == 0)
        p->derivative = number;
    else if (strcmp(name, "visible") == 0)
        p->visible = number;
}

static void read_constant(struct function_reader *r, const char *name, enum number_type type)
{
    struct node *cast = reader_node(r, NODE_CAST);

    reader_expect(r, "=");
    cast->type = type;
    cast->a = reader_expression(r);
    reader_expect(r, ";");
    if (r->num_constants == sizeof r->constants / sizeof *r->constants) {
        reader_fail(r, "there are too many constants");
        return;
    }
    memcpy(r->constants[r->num_constants].name, name, FUNCTION_WORD);
    r->constants[r->num_constants++].value = cast;
}

void function_read(const char *source, struct function_program *program)
{
    struct function_reader r = {.program = program, .at = source, .line = 1};
    char name[FUNCTION_WORD];
    enum number_type type = NUMBER_VOID;

    program->score = program->derivative = program->visible = -1;
    reader_next(&r);
    while (r.kind != WORD_END) {
        while (take_qualifier(&r))
            continue;
        if (!reader_take_type(&r, &type))
            reader_fail(&r, "a definition does not begin with a type that is known");
        while (take_qualifier(&r))
            continue;
        memcpy(name, r.word, sizeof name);
        reader_next(&r);
        if (reader_take(&r, "("))
            read_routine(&r, name, type);
        else
            read_constant(&r, name, type);
    }
    if (!program->mistake[0] && program->score < 0 && program->visible < 0)
        reader_fail(&r, "there is neither score() nor visible()");
}
