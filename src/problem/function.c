/* SPDX-License-Identifier: Apache-2.0 */
#include "problem/function.h"
#include "base/log.h"
#include "base/structs.h"
#include "problem/layout.h"
#include "problem/operations.h"

#include <string.h>

const struct ca_function_type *ca_function_type_of(clattn_function_type type)
{
    static const struct ca_function_type types[] = {
#define TYPE(ID, word, stored, name, bytes, value, element)                                        \
    [CLATTN_FUNCTION_##ID] = {word, stored, name, bytes, value, element},
        CA_FUNCTION_TYPES(TYPE)
#undef TYPE
    };

    return &types[type];
}

int ca_function_type_is_float(clattn_function_type type)
{
    return strcmp(ca_function_type_of(type)->value, "float") == 0;
}

/* ---- asking ---------------------------------------------------------------------------------- */

clattn_function_kind clattn_function_kind_of(const clattn_function *function)
{
    return function->kind;
}

const char *clattn_function_name(const clattn_function *function)
{
    return function->name;
}

const char *clattn_function_source(const clattn_function *function)
{
    return function->source;
}

clattn_status clattn_function_get_operand(const clattn_function *function, size_t n,
                                          clattn_function_operand *operand)
{
    char why[CA_REASON_BYTES] = "function is null";

    if (!function || !CA_FILLABLE(clattn_function_operand, "operand", operand, why))
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "%s", why);
    clattn_function_operand found = {.struct_size = sizeof found};
    if (n < function->num_operands) {
        found.name = function->operands[n].name;
        found.type = function->operands[n].type;
        found.extents = function->operands[n].extents_text;
    }
    ca_struct_fill(operand, &found, sizeof found);
    return CLATTN_SUCCESS;
}

clattn_status clattn_function_get_parameter(const clattn_function *function, size_t n,
                                            clattn_function_parameter *parameter)
{
    char why[CA_REASON_BYTES] = "function is null";

    if (!function || !CA_FILLABLE(clattn_function_parameter, "parameter", parameter, why))
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "%s", why);
    clattn_function_parameter found = {.struct_size = sizeof found};
    if (n < function->num_parameters)
        found = function->parameters[n];
    ca_struct_fill(parameter, &found, sizeof found);
    return CLATTN_SUCCESS;
}

/* ---- functions of a problem ------------------------------------------------------------------- */

void ca_problem_functions(const clattn_problem *p, const clattn_function *functions[CA_FUNCTIONS])
{
    functions[CLATTN_SCORE_FUNCTION] = p->score_function;
    functions[CLATTN_MASK_FUNCTION] = p->mask_function;
}

int ca_has_functions(const clattn_problem *p)
{
    return p && ca_is_attention(p) && (p->score_function || p->mask_function);
}

const struct ca_function_operand *ca_function_slot(const clattn_problem *p, size_t n)
{
    const clattn_function *functions[CA_FUNCTIONS];

    ca_problem_functions(p, functions);
    for (int f = 0; f < CA_FUNCTIONS; f++) {
        const size_t count = functions[f] ? functions[f]->num_operands : 0;
        if (n < count)
            return &functions[f]->operands[n];
        n -= count;
    }
    return NULL;
}

static size_t extent_of(const clattn_problem *p, const struct ca_function_extent *extent)
{
    const int part = p->whole_q != 0; /* whose operands are the whole's */

    switch (extent->letter) {
    case 'b':
        return part ? p->whole_batch : p->batch;
    case 'h':
        return part ? p->whole_heads : p->heads;
    case 'g':
        return part ? p->whole_heads / (p->heads / p->kv_heads) : p->kv_heads;
    case 'q':
        return part ? p->whole_q : p->seq_q;
    case 'k':
        return part ? p->whole_kv : p->seq_kv;
    default:
        return extent->number;
    }
}

size_t ca_function_slot_elements(const clattn_problem *p, size_t n)
{
    const struct ca_function_operand *o = ca_function_slot(p, n);
    size_t elements = 1;

    for (size_t e = 0; o && e < o->num_extents; e++)
        if (!ca_multiply(elements, extent_of(p, &o->extents[e]), &elements))
            return SIZE_MAX;
    return elements;
}

size_t ca_function_slot_bytes(const clattn_problem *p, size_t n)
{
    const struct ca_function_operand *o = ca_function_slot(p, n);

    return o ? ca_function_type_of(o->type)->bytes : 0;
}

/* The elements before operand n in the gradients of operands; of all of them, if there are not so many. */
static size_t elements_before(const clattn_problem *p, size_t n)
{
    const clattn_function *f = p->score_function;
    size_t sum = 0;

    for (size_t o = 0; f && o < n && o < f->num_operands; o++) {
        const size_t elements = ca_function_slot_elements(p, o);
        if (!ca_function_type_is_float(f->operands[o].type))
            continue;
        if (elements > SIZE_MAX - sum)
            return SIZE_MAX;
        sum += elements;
    }
    return sum;
}

size_t ca_function_gradients(const clattn_problem *p)
{
    return elements_before(p, CLATTN_FUNCTION_OPERANDS);
}

size_t clattn_problem_function_gradient(const clattn_problem *p, size_t n)
{
    return p ? elements_before(p, n) : 0;
}

/* The rules of dfunction. */
static clattn_status check_gradients(const clattn_problem *p, char *reason, size_t reason_bytes)
{
    const clattn_function *s = p->score_function;

    if (!p->dfunction)
        return CLATTN_SUCCESS;
    if (!s)
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, reason_bytes,
                              "dfunction is wanted, but there is no score function");
    if (!s->has_loads)
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, reason_bytes,
                              "the operands of '%s' have no gradients: its source defines them not "
                              "by hand, and they cannot be derived, since %s",
                              s->name, s->no_loads);
    if (s->num_loads == 0)
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, reason_bytes,
                              "dfunction is wanted, but '%s' loads no element of type float, half "
                              "or bfloat",
                              s->name);
    if (ca_function_gradients(p) > INT32_MAX)
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, reason_bytes,
                              "dfunction may have 2^31 - 1 elements at most");
    return CLATTN_SUCCESS;
}

int ca_function_asks_for(const clattn_function *f, int dimension)
{
    for (size_t n = 0; n < f->num_operands; n++)
        if (strpbrk(f->operands[n].extents_text, dimension ? "hg" : "b"))
            return 1;
    return strstr(f->compiled, dimension ? "head" : "batch") != NULL;
}

/* The rules of parts of a larger attention. */
static clattn_status check_whole(const clattn_problem *p, char *reason, size_t reason_bytes)
{
    const size_t own[] = {p->batch, p->heads, p->seq_q, p->seq_kv};
    const size_t whole[] = {p->whole_batch, p->whole_heads, p->whole_q, p->whole_kv};
    int some = 0, fits = p->whole_heads % (p->heads / p->kv_heads) == 0;

    for (size_t n = 0; n < sizeof own / sizeof *own; n++) {
        some = some || whole[n];
        fits = fits && whole[n] > 0 && whole[n] >= own[n] && whole[n] <= INT32_MAX;
    }
    if (some && !p->score_function && !p->mask_function)
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, reason_bytes,
                              "whole_q is given, but there is no function that sees it");
    if (some && !fits)
        return ca_status_with(
            CLATTN_INVALID_PROBLEM, reason, reason_bytes,
            "whole_batch, whole_heads, whole_q and whole_kv are %zu, %zu, %zu and %zu, which this "
            "problem is no part of",
            whole[0], whole[1], whole[2], whole[3]);
    return CLATTN_SUCCESS;
}

clattn_status ca_functions_check(const clattn_problem *p, char *reason, size_t reason_bytes)
{
    const clattn_function *s = p->score_function, *m = p->mask_function;
    const clattn_status status = check_whole(p, reason, reason_bytes);

    if (status != CLATTN_SUCCESS)
        return status;
    if (!s && !m)
        return check_gradients(p, reason, reason_bytes);
    if ((s && s->kind != CLATTN_SCORE_FUNCTION) || (m && m->kind != CLATTN_MASK_FUNCTION))
        return ca_status_with(
            CLATTN_INVALID_PROBLEM, reason, reason_bytes,
            "score_function defines score() and mask_function defines visible(), but one does not");
    if (s && p->operation == CLATTN_BACKWARD && !s->has_derivative)
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, reason_bytes,
                              "'%s' has no gradient: its source defines no score_derivative(), and "
                              "none can be derived, since %s",
                              s->name, s->no_derivative);
    const size_t operands = (s ? s->num_operands : 0) + (m ? m->num_operands : 0);
    const size_t ints = (s ? s->num_ints : 0) + (m ? m->num_ints : 0);
    const size_t floats = (s ? s->num_floats : 0) + (m ? m->num_floats : 0);
    if (operands > CLATTN_FUNCTION_OPERANDS || ints > CLATTN_FUNCTION_PARAMETERS ||
        floats > CLATTN_FUNCTION_PARAMETERS)
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, reason_bytes,
                              "functions have %zu operands, %zu ints and %zu floats together, but "
                              "there may be %d, %d and %d",
                              operands, ints, floats, CLATTN_FUNCTION_OPERANDS,
                              CLATTN_FUNCTION_PARAMETERS, CLATTN_FUNCTION_PARAMETERS);
    if (p->batch > INT32_MAX || p->heads > INT32_MAX || p->seq_q > INT32_MAX ||
        p->seq_kv > INT32_MAX)
        return ca_status_with(
            CLATTN_INVALID_PROBLEM, reason, reason_bytes,
            "batch, heads, seq_q and seq_kv may be 2^31 - 1 at most with functions");
    return check_gradients(p, reason, reason_bytes);
}

clattn_function_values ca_function_values(const clattn_problem *p,
                                          const clattn_function_values *given)
{
    const clattn_function *functions[CA_FUNCTIONS];
    clattn_function_values values = {{0}, {0}};
    size_t ints = 0, floats = 0;

    if (given)
        return *given;
    ca_problem_functions(p, functions);
    for (int f = 0; f < CA_FUNCTIONS; f++) {
        for (size_t n = 0; functions[f] && n < functions[f]->num_parameters; n++) {
            const clattn_function_parameter *parameter = &functions[f]->parameters[n];
            if (parameter->is_float)
                values.floats[floats++] = parameter->float_value;
            else
                values.ints[ints++] = parameter->int_value;
        }
    }
    return values;
}

clattn_function_values ca_mask_function_values(const clattn_problem *p,
                                               const clattn_function_values *given)
{
    const clattn_function_values all = ca_function_values(p, given);
    const size_t ints = p->score_function ? p->score_function->num_ints : 0;
    const size_t floats = p->score_function ? p->score_function->num_floats : 0;
    clattn_function_values own = {{0}, {0}};

    for (size_t n = 0; n + ints < CLATTN_FUNCTION_PARAMETERS; n++)
        own.ints[n] = all.ints[n + ints];
    for (size_t n = 0; n + floats < CLATTN_FUNCTION_PARAMETERS; n++)
        own.floats[n] = all.floats[n + floats];
    return own;
}
