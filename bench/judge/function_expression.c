/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/judge/function_builtins.h"
#include "bench/judge/function_reader.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct node *read_unary(struct function_reader *r);

struct node *reader_node(struct function_reader *r, enum node_kind kind)
{
    struct function_program *p = r->program;

    if (p->num_nodes == FUNCTION_NODES) {
        reader_fail(r, "the source is too long");
        p->num_nodes = 0;
    }
    struct node *node = &p->nodes[p->num_nodes++];
    *node = (struct node){.kind = kind};
    return node;
}

bool reader_take_type(struct function_reader *r, enum number_type *type)
{
    static const struct {
        const char *word;
        enum number_type type;
    } types[] = {{"void", NUMBER_VOID},        {"bool", NUMBER_BOOL},     {"int", NUMBER_INT},
                 {"uint", NUMBER_UINT},        {"unsigned", NUMBER_UINT}, {"long", NUMBER_LONG},
                 {"size_t", NUMBER_LONG},      {"float", NUMBER_FLOAT},   {"pair", NUMBER_PAIR},
                 {"operands", NUMBER_OPERANDS}};

    for (size_t n = 0; n < sizeof types / sizeof *types; n++)
        if (reader_is(r, types[n].word)) {
            *type = types[n].type;
            reader_next(r);
            if (*type == NUMBER_UINT)
                reader_take(r, "int");
            return true;
        }
    return false;
}

static const struct function_local *local_of(const struct function_reader *r, const char *name)
{
    for (size_t n = r->num_locals; n-- > 0;)
        if (strcmp(r->locals[n].name, name) == 0)
            return &r->locals[n];
    return NULL;
}

/* ---- names ------------------------------------------------------------------------------------- */

static struct node *number_node(struct function_reader *r, struct number value)
{
    struct node *node = reader_node(r, NODE_NUMBER);

    node->value = value;
    return node;
}

static struct node *read_named_constant(struct function_reader *r, const char *name)
{
    static const struct {
        const char *name;
        double value;
    } floats[] = {{"INFINITY", INFINITY},     {"NAN", NAN},
                  {"FLT_MAX", FLT_MAX},       {"MAXFLOAT", FLT_MAX},
                  {"FLT_MIN", FLT_MIN},       {"FLT_EPSILON", FLT_EPSILON},
                  {"M_PI_F", 3.14159274f},    {"M_E_F", 2.71828183f},
                  {"M_LN2_F", 0.693147181f},  {"M_LOG2E_F", 1.44269504f},
                  {"M_SQRT2_F", 1.41421356f}, {"HUGE_VALF", INFINITY}};
    static const struct {
        const char *name;
        int64_t value;
    } integers[] = {{"true", 1}, {"false", 0}, {"INT_MAX", INT32_MAX}, {"INT_MIN", INT32_MIN}};

    for (size_t n = 0; n < sizeof floats / sizeof *floats; n++)
        if (strcmp(floats[n].name, name) == 0)
            return number_node(r, number_of_float(floats[n].value, 0.0));
    for (size_t n = 0; n < sizeof integers / sizeof *integers; n++)
        if (strcmp(integers[n].name, name) == 0)
            return number_node(r, number_of_integer(NUMBER_INT, integers[n].value));
    for (size_t n = 0; n < r->num_constants; n++)
        if (strcmp(r->constants[n].name, name) == 0)
            return r->constants[n].value;
    return NULL;
}

static struct node *read_member(struct function_reader *r, enum number_type of)
{
    static const char *const members[] = {"batch",    "head",        "kv_head",   "query",
                                          "key",      "queries",     "keys",      "own_batch",
                                          "own_head", "own_kv_head", "own_query", "own_key"};
    struct node *node = reader_node(r, of == NUMBER_PAIR ? NODE_PAIR : NODE_PARAMETER);

    reader_expect(r, ".");
    node->place = -1;
    for (int n = 0; n < 12 && of == NUMBER_PAIR; n++)
        if (reader_is(r, members[n]))
            node->place = n;
    for (size_t n = 0; n < r->program->num_parameters && of == NUMBER_OPERANDS; n++)
        if (reader_is(r, r->program->parameters[n].name))
            node->place = (int)n;
    if (node->place < 0)
        reader_fail(r, "no such member");
    reader_next(r);
    return node;
}

/* The number of the operand whose name and `ending` make the name; -1 if there is none. */
static int operand_of(const struct function_program *p, const char *name, const char *ending)
{
    char whole[FUNCTION_WORD + 8];

    for (size_t n = 0; n < p->num_operands; n++) {
        snprintf(whole, sizeof whole, "%s%s", p->operands[n].name, ending);
        if (strcmp(whole, name) == 0)
            return (int)n;
    }
    return -1;
}

/* The arguments of a call, after its opening parenthesis, in a list. */
static struct node *read_arguments(struct function_reader *r, size_t *count)
{
    struct node *first = NULL, **last = &first;

    *count = 0;
    while (r->kind != WORD_END && !reader_is(r, ")")) {
        struct node *argument = reader_node(r, NODE_COMMA);
        argument->a = reader_assignment(r);
        *last = argument;
        last = &argument->next;
        ++*count;
        if (!reader_take(r, ","))
            break;
    }
    reader_expect(r, ")");
    return first;
}

static struct node *read_call(struct function_reader *r, const char *name)
{
    struct function_program *p = r->program;
    static const struct {
        const char *ending;
        enum node_kind kind;
    } of_operands[] = {{"_at", NODE_ELEMENT}, {"_of", NODE_ELEMENT_OF}, {"_place", NODE_FIRST_OF}};
    size_t count, wanted = 2;
    struct node *node = reader_node(r, NODE_CALL);

    node->a = read_arguments(r, &count);
    node->place = -1;
    for (size_t n = 0; n < p->num_routines; n++)
        if (strcmp(p->routines[n].name, name) == 0) {
            node->place = (int)n;
            wanted = p->routines[n].num_parameters;
        }
    for (size_t n = 0; n < sizeof of_operands / sizeof *of_operands && node->place < 0; n++) {
        node->place = operand_of(p, name, of_operands[n].ending);
        if (node->place >= 0)
            node->kind = of_operands[n].kind;
    }
    if (node->place < 0) {
        node->kind = NODE_BUILTIN;
        node->place = function_builtin(name);
        wanted = node->place < 0 ? count : function_builtin_arguments(node->place);
    }
    if (node->place < 0)
        reader_fail(r, "a function that is not known is called");
    else if (count != wanted)
        reader_fail(r, "a call has too few or too many arguments");
    return node;
}

static struct node *read_name(struct function_reader *r)
{
    char name[FUNCTION_WORD];
    const struct function_local *local;
    struct node *node;

    memcpy(name, r->word, sizeof name);
    reader_next(r);
    if (reader_take(r, "("))
        return read_call(r, name);
    local = local_of(r, name);
    if (local && (local->type == NUMBER_PAIR || local->type == NUMBER_OPERANDS)) {
        if (reader_is(r, "."))
            return read_member(r, local->type);
        return number_node(r, (struct number){.type = local->type});
    }
    if (local) {
        node = reader_node(r, NODE_LOCAL);
        node->place = local->place;
        node->type = local->type;
        return node;
    }
    node = read_named_constant(r, name);
    if (node)
        return node;
    reader_fail(r, "an unknown name");
    return reader_node(r, NODE_NUMBER);
}

/* ---- operators --------------------------------------------------------------------------------- */

/* variable = variable op b */
static struct node *change(struct function_reader *r, struct node *variable, int op, struct node *b)
{
    struct node *sum = reader_node(r, NODE_BINARY), *assign = reader_node(r, NODE_ASSIGN);

    if (variable->kind != NODE_LOCAL)
        reader_fail(r, "only variables can be changed");
    sum->op = op;
    sum->a = variable;
    sum->b = b;
    assign->place = variable->place;
    assign->type = variable->type;
    assign->a = op ? sum : b;
    return assign;
}

static struct node *read_primary(struct function_reader *r)
{
    struct node *node;

    if (r->kind == WORD_NUMBER) {
        node = number_node(r, r->number);
        reader_next(r);
    } else if (r->kind == WORD_NAME) {
        node = read_name(r);
    } else if (reader_take(r, "(")) {
        node = reader_expression(r);
        reader_expect(r, ")");
    } else {
        reader_fail(r, "an expression is missing");
        return reader_node(r, NODE_NUMBER);
    }
    while (reader_is(r, "++") || reader_is(r, "--")) {
        struct node *after = reader_node(r, NODE_AFTER);
        after->place = node->place;
        after->a = change(r, node, r->word[0], number_node(r, number_of_integer(NUMBER_INT, 1)));
        node = after;
        reader_next(r);
    }
    return node;
}

/* After an opening parenthesis: a cast, if a type follows. */
static bool read_cast(struct function_reader *r, struct node **cast)
{
    const struct function_reader before = *r;
    enum number_type type;

    if (!reader_take(r, "(") || !reader_take_type(r, &type) || !reader_take(r, ")")) {
        *r = before;
        return false;
    }
    *cast = reader_node(r, NODE_CAST);
    (*cast)->type = type;
    (*cast)->a = read_unary(r);
    return true;
}

static struct node *read_unary(struct function_reader *r)
{
    struct node *node;

    if (r->kind == WORD_SIGN && (reader_is(r, "++") || reader_is(r, "--"))) {
        const int op = r->word[0];
        reader_next(r);
        return change(r, read_unary(r), op, number_node(r, number_of_integer(NUMBER_INT, 1)));
    }
    if (r->kind == WORD_SIGN && !r->word[1] && strchr("-+!~", r->word[0])) {
        const int op = r->word[0];
        reader_next(r);
        node = reader_node(r, NODE_UNARY);
        node->op = op;
        node->a = read_unary(r);
        return node;
    }
    if (reader_is(r, "(") && read_cast(r, &node))
        return node;
    return read_primary(r);
}

/* Returns how closely a binary operator binds: 1 the loosest, 0 if the word is none. */
static int level_of(const struct function_reader *r)
{
    static const char *const levels[] = {"||",    "&&",        "|",     "^",   "&",
                                         "== !=", "< > <= >=", "<< >>", "+ -", "* / %"};

    for (int n = 0; n < 10 && r->kind == WORD_SIGN; n++)
        for (const char *at = levels[n]; *at; at += strcspn(at, " "), at += *at == ' ')
            if (strncmp(at, r->word, strcspn(at, " ")) == 0 && strlen(r->word) == strcspn(at, " "))
                return n + 1;
    return 0;
}

static struct node *read_binary(struct function_reader *r, int least)
{
    struct node *left = read_unary(r);

    for (int level; (level = level_of(r)) >= least && level > 0;) {
        struct node *node = reader_node(r, level == 1   ? NODE_OR
                                           : level == 2 ? NODE_AND
                                                        : NODE_BINARY);
        node->op = OPERATOR(r->word[0], r->word[1]);
        reader_next(r);
        node->a = left;
        node->b = read_binary(r, level + 1);
        left = node;
    }
    return left;
}

struct node *reader_assignment(struct function_reader *r)
{
    struct node *node = read_binary(r, 1);
    const size_t length = strlen(r->word);

    if (reader_take(r, "?")) {
        struct node *choice = reader_node(r, NODE_CHOICE);
        choice->a = node;
        choice->b = reader_expression(r);
        reader_expect(r, ":");
        choice->c = reader_assignment(r);
        return choice;
    }
    if (r->kind != WORD_SIGN || r->word[length - 1] != '=' || level_of(r) > 0)
        return node;
    const int op = length == 1 ? 0 : length == 2 ? r->word[0] : OPERATOR(r->word[0], r->word[1]);
    reader_next(r);
    return change(r, node, op, reader_assignment(r));
}

struct node *reader_expression(struct function_reader *r)
{
    struct node *node = reader_assignment(r);

    while (reader_take(r, ",")) {
        struct node *comma = reader_node(r, NODE_COMMA);
        comma->a = node;
        comma->b = reader_assignment(r);
        node = comma;
    }
    return node;
}
