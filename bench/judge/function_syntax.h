/* SPDX-License-Identifier: Apache-2.0 */
/* The source of a function (clattn/function.h) as a tree. The subset of OpenCL C that is read:
 *
 *   functions     score(), score_derivative(), visible(), and helpers that are defined before they are called
 *   types         bool, int, uint, long and float; pair and operands as parameters that are passed on
 *   statements    declarations, expressions, if, for, while, break, continue, return, blocks
 *   expressions   all operators but the address ones, casts, the built-in functions of function_builtins.c, members of
 *                 pair, parameters, NAME_at(), NAME_of() and NAME_place()
 *   constants     at the top: constant or const, and an initial value */
#ifndef CLATTN_REFERENCE_FUNCTION_SYNTAX_H
#define CLATTN_REFERENCE_FUNCTION_SYNTAX_H

#include "bench/judge/function_number.h"

#include <clattn/function.h>
#include <stddef.h>

enum {
    FUNCTION_NODES = 4096,
    FUNCTION_ROUTINES = 32,
    FUNCTION_LOCALS = 48,
    FUNCTION_WORD = 48,
    FUNCTION_ARGUMENTS = 8
};

enum node_kind {
    NODE_NUMBER,      /* value */
    NODE_LOCAL,       /* variable `place` */
    NODE_UNARY,       /* op, a */
    NODE_BINARY,      /* op, a, b */
    NODE_AND,         /* a, b */
    NODE_OR,          /* a, b */
    NODE_CHOICE,      /* a ? b : c */
    NODE_ASSIGN,      /* variable `place` = a */
    NODE_AFTER,       /* a, whose value is that of variable `place` before it */
    NODE_COMMA,       /* a, b */
    NODE_CALL,        /* routine `place` of the list a */
    NODE_BUILTIN,     /* built-in function `place` of the list a */
    NODE_CAST,        /* a to `type` */
    NODE_PAIR,        /* member `place` of pair */
    NODE_PARAMETER,   /* parameter `place` */
    NODE_ELEMENT,     /* element a of operand `place` */
    NODE_ELEMENT_OF,  /* the pair's element of operand `place` */
    NODE_FIRST_OF,    /* the number of the pair's first element of operand `place` */
    NODE_BLOCK,       /* the list a */
    NODE_DECLARATION, /* variable `place` = a, which may be absent */
    NODE_EXPRESSION,  /* a */
    NODE_IF,          /* if (a) b else c */
    NODE_FOR,         /* for (a; b; c) d */
    NODE_RETURN,      /* a */
    NODE_BREAK,
    NODE_CONTINUE
};

struct node {
    enum node_kind kind;
    enum number_type type;
    int op, place;
    struct number value;
    struct node *a, *b, *c, *d;
    struct node *next; /* of a list */
};

struct routine {
    char name[FUNCTION_WORD];
    enum number_type type;
    size_t num_parameters;
    enum number_type parameters[FUNCTION_ARGUMENTS];
    size_t locals;
    struct node *body;
};

struct function_extent {
    char letter; /* of "bhgqk"; 0: a number */
    size_t number;
};

struct function_operand {
    char name[FUNCTION_WORD];
    clattn_function_type type;
    struct function_extent extents[8];
    size_t num_extents;
};

struct function_parameter {
    char name[FUNCTION_WORD];
    bool is_float;
    size_t number; /* among those of its type */
    float float_value;
    int32_t int_value;
};

struct function_program {
    const struct function_program *next; /* one of those that were read before */
    const clattn_function *function;
    char mistake[160]; /* "": none */
    struct function_operand operands[CLATTN_FUNCTION_OPERANDS];
    size_t num_operands;
    struct function_parameter parameters[2 * CLATTN_FUNCTION_PARAMETERS];
    size_t num_parameters, num_ints, num_floats;
    struct routine routines[FUNCTION_ROUTINES];
    size_t num_routines;
    int score, derivative, visible; /* routines; -1: none */
    struct node nodes[FUNCTION_NODES];
    size_t num_nodes;
};

/* Reads a source; what cannot be read is told in program->mistake. */
void function_read(const char *source, struct function_program *program);

#endif
