/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/judge/function.h"
#include "bench/judge/function_builtins.h"
#include "bench/judge/function_syntax.h"
#include "bench/judge/values.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 1000000, MOST_DEPTH = 16 };

/* The bound of a score or a slope of which nothing is known; its exponential is still a number. */
static const double unknown = 50.0;

/* ---- evaluation -------------------------------------------------------------------------------- */

struct evaluation {
    const struct function_program *program;
    const struct function_pair *pair;
    struct decisions decisions;
    size_t steps;
    int depth;
    /* The load of a float, by number, whose element is the variable of slope 1, and which one it is; -1: s is the variable. */
    int variable;
    int loads; /* those so far */
    struct function_load load;
};

/* The variables of a call. */
struct frame {
    struct number locals[FUNCTION_LOCALS];
    struct number result;
};

enum flow { FLOW_ON, FLOW_RETURN, FLOW_BREAK, FLOW_CONTINUE };

static struct number evaluate(struct evaluation *e, struct frame *f, const struct node *node);
static enum flow run(struct evaluation *e, struct frame *f, const struct node *node);

static struct number parameter(const struct evaluation *e, int place)
{
    const struct function_parameter *p = &e->program->parameters[place];

    if (p->is_float)
        return number_of_float(
            (double)(e->pair->floats ? e->pair->floats[p->number] : p->float_value), 0.0);
    return number_of_integer(NUMBER_INT, e->pair->ints ? e->pair->ints[p->number] : p->int_value);
}

static struct number element(const struct evaluation *e, int place, size_t n)
{
    const void *data = e->pair->operands[place];
    int32_t integer;

    switch (e->program->operands[place].type) {
    case CLATTN_FUNCTION_FLOAT:
        return number_of_float(value_get(CLATTN_F32, data, n), 0.0);
    case CLATTN_FUNCTION_HALF:
        return number_of_float(value_get(CLATTN_F16, data, n), 0.0);
    case CLATTN_FUNCTION_BFLOAT:
        return number_of_float(value_get(CLATTN_BF16, data, n), 0.0);
    case CLATTN_FUNCTION_INT:
        memcpy(&integer, (const unsigned char *)data + 4 * n, sizeof integer);
        return number_of_integer(NUMBER_INT, integer);
    case CLATTN_FUNCTION_CHAR:
        return number_of_integer(NUMBER_INT, ((const signed char *)data)[n]);
    default:
        return number_of_integer(NUMBER_INT, ((const unsigned char *)data)[n]);
    }
}

/* Where the pair's first element lies: extents that are letters are the problem's sizes. */
static size_t place_of_pair(const struct evaluation *e, int place)
{
    static const char letters[] = "bhgqk";
    const struct function_operand *o = &e->program->operands[place];
    size_t n = 0;

    for (size_t k = 0; k < o->num_extents; k++) {
        const char *letter = o->extents[k].letter ? strchr(letters, o->extents[k].letter) : NULL;
        n = letter ? n * e->pair->sizes[letter - letters] + e->pair->own[letter - letters]
                   : n * o->extents[k].number;
    }
    return n;
}

static struct number call(struct evaluation *e, int place, const struct number *arguments)
{
    const struct routine *routine = &e->program->routines[place];
    struct frame frame;

    frame.result = number_of_integer(NUMBER_INT, 0);
    if (e->depth == MOST_DEPTH) {
        e->decisions.unsure = true;
        return frame.result;
    }
    for (size_t n = 0; n < routine->num_parameters; n++)
        frame.locals[n] = number_convert(&e->decisions, arguments[n], routine->parameters[n]);
    e->depth++;
    run(e, &frame, routine->body);
    e->depth--;
    return number_convert(&e->decisions, frame.result, routine->type);
}

static struct number evaluate_call(struct evaluation *e, struct frame *f, const struct node *node)
{
    struct number arguments[FUNCTION_ARGUMENTS];
    size_t count = 0;

    for (const struct node *a = node->a; a && count < FUNCTION_ARGUMENTS; a = a->next)
        arguments[count++] = evaluate(e, f, a->a);
    return node->kind == NODE_CALL ? call(e, node->place, arguments)
                                   : function_builtin_call(&e->decisions, node->place, arguments);
}

static struct number evaluate_element(struct evaluation *e, struct frame *f,
                                      const struct node *node)
{
    size_t n;

    if (node->kind == NODE_ELEMENT_OF)
        n = place_of_pair(e, node->place);
    else
        n = (size_t)number_convert(&e->decisions, evaluate(e, f, node->a->next->a), NUMBER_LONG)
                .integer;
    struct number x = element(e, node->place, n);
    if (x.type == NUMBER_FLOAT && e->loads++ == e->variable) {
        x.slope = bounded_exactly(1.0);
        e->load = (struct function_load){(size_t)node->place, n, bounded_exactly(0.0)};
    }
    return x;
}

static struct number assign(struct evaluation *e, struct frame *f, const struct node *node)
{
    struct number value = node->a ? evaluate(e, f, node->a) : number_of_integer(NUMBER_INT, 0);

    value = number_convert(&e->decisions, value, node->type);
    f->locals[node->place] = value;
    return value;
}

static struct number truth(bool value)
{
    return number_of_integer(NUMBER_INT, value);
}

/* Operators that leave some of their operands out. */
static struct number evaluate_lazily(struct evaluation *e, struct frame *f, const struct node *node)
{
    struct decisions *d = &e->decisions;
    const bool first = number_is_true(d, evaluate(e, f, node->a));

    if (node->kind == NODE_AND)
        return truth(first && number_is_true(d, evaluate(e, f, node->b)));
    if (node->kind == NODE_OR)
        return truth(first || number_is_true(d, evaluate(e, f, node->b)));
    return evaluate(e, f, first ? node->b : node->c);
}

static struct number evaluate(struct evaluation *e, struct frame *f, const struct node *node)
{
    struct decisions *d = &e->decisions;
    struct number a;

    switch (node->kind) {
    case NODE_NUMBER:
        return node->value;
    case NODE_LOCAL:
        return f->locals[node->place];
    case NODE_UNARY:
        return number_unary(d, node->op, evaluate(e, f, node->a));
    case NODE_BINARY:
        a = evaluate(e, f, node->a);
        return number_binary(d, node->op, a, evaluate(e, f, node->b));
    case NODE_AND:
    case NODE_OR:
    case NODE_CHOICE:
        return evaluate_lazily(e, f, node);
    case NODE_ASSIGN:
        return assign(e, f, node);
    case NODE_AFTER:
        a = f->locals[node->place];
        evaluate(e, f, node->a);
        return a;
    case NODE_COMMA:
        evaluate(e, f, node->a);
        return evaluate(e, f, node->b);
    case NODE_CALL:
    case NODE_BUILTIN:
        return evaluate_call(e, f, node);
    case NODE_CAST:
        return number_convert(d, evaluate(e, f, node->a), node->type);
    case NODE_PAIR:
        return number_of_integer(NUMBER_INT, e->pair->members[node->place]);
    case NODE_PARAMETER:
        return parameter(e, node->place);
    case NODE_FIRST_OF:
        return number_of_integer(NUMBER_LONG, (int64_t)place_of_pair(e, node->place));
    default:
        return evaluate_element(e, f, node);
    }
}

static enum flow run_for(struct evaluation *e, struct frame *f, const struct node *node)
{
    if (node->a)
        run(e, f, node->a);
    while (!node->b || number_is_true(&e->decisions, evaluate(e, f, node->b))) {
        if (++e->steps > MOST_STEPS) {
            e->decisions.unsure = true;
            break;
        }
        const enum flow flow = run(e, f, node->d);
        if (flow == FLOW_RETURN)
            return flow;
        if (flow == FLOW_BREAK)
            break;
        if (node->c)
            evaluate(e, f, node->c);
    }
    return FLOW_ON;
}

static enum flow run(struct evaluation *e, struct frame *f, const struct node *node)
{
    enum flow flow = FLOW_ON;

    switch (node->kind) {
    case NODE_BLOCK:
        for (const struct node *n = node->a; n && flow == FLOW_ON; n = n->next)
            flow = run(e, f, n);
        return flow;
    case NODE_DECLARATION:
        assign(e, f, node);
        return FLOW_ON;
    case NODE_EXPRESSION:
        if (node->a)
            evaluate(e, f, node->a);
        return FLOW_ON;
    case NODE_IF:
        if (number_is_true(&e->decisions, evaluate(e, f, node->a)))
            return run(e, f, node->b);
        return node->c ? run(e, f, node->c) : FLOW_ON;
    case NODE_FOR:
        return run_for(e, f, node);
    case NODE_RETURN:
        f->result = evaluate(e, f, node->a);
        return FLOW_RETURN;
    case NODE_BREAK:
        return FLOW_BREAK;
    default:
        return FLOW_CONTINUE;
    }
}

/* ---- functions --------------------------------------------------------------------------------- */

/* A routine of s, whose slope is 1 unless an element is the variable. */
static struct number evaluate_routine(struct evaluation *e, int routine, struct bounded s)
{
    const struct number arguments[3] = {
        {.type = NUMBER_FLOAT, .value = s, .slope = bounded_exactly(e->variable < 0 ? 1.0 : 0.0)},
        {.type = NUMBER_PAIR},
        {.type = NUMBER_OPERANDS}};

    e->decisions.count = 0;
    e->steps = 0;
    e->loads = 0;
    return call(e, routine, arguments);
}

/* Widens x so that it holds y. */
static void hold(struct bounded *x, struct bounded y)
{
    if (isfinite(y.value) && !isfinite(x->value)) {
        *x = (struct bounded){y.value, unknown};
    } else if (!isfinite(y.value)) {
        x->bound = unknown;
    } else {
        const double reach = fabs(x->value - y.value) + y.bound;
        x->bound = reach > x->bound ? reach : x->bound;
    }
}

/* A routine by all decisions that are open: what holds all its results. */
static struct number evaluate_openly(struct evaluation *e, int routine, struct bounded s)
{
    unsigned most;

    e->decisions.plan = 0;
    struct number x = evaluate_routine(e, routine, s);
    most = e->decisions.count;
    for (unsigned plan = 1; plan < 1u << most; plan++) {
        e->decisions.plan = plan;
        const struct number y = evaluate_routine(e, routine, s);
        most = e->decisions.count > most ? e->decisions.count : most;
        if (isfinite(x.value.value) || isfinite(y.value.value)) {
            hold(&x.slope, y.slope);
            hold(&x.value, y.value);
        }
    }
    if (e->decisions.unsure)
        x.value.bound = x.slope.bound = unknown;
    return x;
}

struct bounded function_score(const struct function_program *program,
                              const struct function_pair *pair, double u, struct bounded s,
                              struct bounded *slope)
{
    struct evaluation e = {.program = program, .pair = pair, .decisions = {.u = u}, .variable = -1};

    if (program->score < 0 || program->mistake[0])
        return *slope = bounded_exactly(NAN);
    const struct number x = evaluate_openly(&e, program->score, s);
    *slope = x.slope;
    if (program->derivative >= 0)
        slope->bound += evaluate_openly(&e, program->derivative, s).value.bound;
    return x.value;
}

/* Returns the error that the derivative by an operand may have, if the source has one of its
 * own. */
static double error_by_hand(struct evaluation *e, size_t operand, struct bounded s)
{
    const struct function_program *program = e->program;
    char name[FUNCTION_WORD + 16];
    const int variable = e->variable;
    double error = 0.0;

    snprintf(name, sizeof name, "%s_derivative", program->operands[operand].name);
    e->variable = -1;
    for (size_t n = 0; n < program->num_routines; n++)
        if (strcmp(program->routines[n].name, name) == 0)
            error = evaluate_openly(e, (int)n, s).value.bound;
    e->variable = variable;
    return error;
}

/* Load number e->variable by all decisions that are open; returns whether there is one. */
static bool find_load(struct evaluation *e, struct bounded s, struct function_load *loads,
                      size_t *count, size_t most)
{
    const size_t first = *count;
    unsigned plans = 1;

    for (unsigned plan = 0; plan < plans; plan++) {
        e->decisions.plan = plan;
        const struct bounded slope = evaluate_routine(e, e->program->score, s).slope;
        const bool there = e->loads > e->variable;
        plans = plans < 1u << e->decisions.count ? 1u << e->decisions.count : plans;
        size_t n = first;
        while (there && n < *count &&
               (loads[n].operand != e->load.operand || loads[n].element != e->load.element))
            n++;
        if (there && n == *count && n < most) {
            loads[n] = e->load;
            loads[n].slope = plan == 0 ? slope : bounded_exactly(0.0);
            ++*count;
        }
        for (size_t other = first; plan > 0 && other < *count; other++)
            hold(&loads[other].slope, there && other == n ? slope : bounded_exactly(0.0));
    }
    for (size_t n = first; n < *count; n++) {
        loads[n].slope.bound += error_by_hand(e, loads[n].operand, s);
        if (e->decisions.unsure)
            loads[n].slope.bound = unknown;
    }
    return *count > first;
}

size_t function_loads(const struct function_program *program, const struct function_pair *pair,
                      double u, struct bounded s, struct function_load *loads, size_t most)
{
    struct evaluation e = {.program = program, .pair = pair, .decisions = {.u = u}};
    size_t count = 0;

    if (program->score < 0 || program->mistake[0])
        return 0;
    while (count < most && find_load(&e, s, loads, &count, most))
        e.variable++;
    return count;
}

bool function_visible(const struct function_program *program, const struct function_pair *pair)
{
    struct evaluation e = {
        .program = program, .pair = pair, .decisions = {.u = 0x1p-24}, .variable = -1};
    const struct number arguments[2] = {{.type = NUMBER_PAIR}, {.type = NUMBER_OPERANDS}};

    return program->visible < 0 || program->mistake[0] ||
           call(&e, program->visible, arguments).integer != 0;
}

/* ---- programs ---------------------------------------------------------------------------------- */

/* All that were read. Nothing is ever taken out of the list. */
static _Atomic(const struct function_program *) all_programs;

const struct function_program *function_program_of(const clattn_function *function)
{
    const struct function_program *first = atomic_load(&all_programs);

    for (const struct function_program *p = first; p; p = p->next)
        if (p->function == function)
            return p;
    struct function_program *made = function ? calloc(1, sizeof *made) : NULL;
    if (!made)
        return NULL;
    made->function = function;
    function_read(clattn_function_source(function), made);
    do
        made->next = first;
    while (!atomic_compare_exchange_weak(&all_programs, &first, made));
    return made;
}

const char *function_mistake(const struct function_program *program)
{
    return program->mistake[0] ? program->mistake : NULL;
}

struct function_counts function_counts_of(const struct function_program *program)
{
    return (struct function_counts){program->num_operands, program->num_ints, program->num_floats};
}
