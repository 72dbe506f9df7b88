/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the caller's (clattn/function.h), as the library keeps them. */
#ifndef CA_FUNCTION_H
#define CA_FUNCTION_H

#include "problem/function_types.def"

#include <clattn/function.h>
#include <clattn/problem.h>
#include <stdatomic.h>

enum {
    CA_FUNCTION_NAME = 200,
    CA_FUNCTION_WORD = 40,
    CA_FUNCTION_EXTENTS = 8,
    CA_FUNCTION_LOADS = 8 /* of floats, whose gradients are wanted */
};
enum { CA_FUNCTION_REASON = 200 };

/* An extent of an operand: one of the problem's sizes, by its letter, or a number. */
struct ca_function_extent {
    char letter; /* of "bhgqk"; 0: a number */
    size_t number;
};

struct ca_function_operand {
    char name[CA_FUNCTION_WORD];
    clattn_function_type type;
    char extents_text[CA_FUNCTION_EXTENTS * 24];
    struct ca_function_extent extents[CA_FUNCTION_EXTENTS];
    size_t num_extents;
    int has_index, has_derivative; /* whether the source defines NAME_index(), NAME_derivative() */
    int by_hand;                   /* both */
};

/* An element of an operand that score() loads: the functions that say which one, and the score's derivative by it. */
struct ca_function_load {
    size_t operand;
    char index[CA_FUNCTION_WORD + 16], derivative[CA_FUNCTION_WORD + 16];
};

struct clattn_function {
    struct clattn_function *next; /* one of those that were made before */
    clattn_function_kind kind;
    int has_derivative;
    unsigned long long hash;
    char name[CA_FUNCTION_NAME + 20];
    struct ca_function_operand operands[CLATTN_FUNCTION_OPERANDS];
    size_t num_operands;
    clattn_function_parameter parameters[2 * CLATTN_FUNCTION_PARAMETERS];
    char parameter_names[2 * CLATTN_FUNCTION_PARAMETERS][CA_FUNCTION_WORD];
    size_t num_parameters, num_ints, num_floats;
    char *compiled; /* the source, with blanks in place of declarations and comments */
    char *derived;  /* the source of score_derivative(), if the library has made it */
    char no_derivative[CA_FUNCTION_REASON]; /* why there is none: "line 3 has ..." */
    struct ca_function_load loads[CA_FUNCTION_LOADS];
    size_t num_loads;
    int has_loads;       /* whether each load of a float has a function that adds to its gradient */
    char *derived_loads; /* the source of these functions, where the library derives them */
    char no_loads[CA_FUNCTION_REASON]; /* why it could not make them */
    /* Whether score() adds what depends on the distance alone, and hides distances (function_distance.h). */
    int of_distance, hides_distances,
        loads_of_distance; /* loads_of_distance: all its loads are the library's, too */
    char source[];
};

/* The type of an element. */
struct ca_function_type {
    const char *word, *stored, *name;
    size_t bytes;
    const char *value, *element;
};
const struct ca_function_type *ca_function_type_of(clattn_function_type type);
int ca_function_type_is_float(clattn_function_type type);

/* The functions of a problem in the order of their operands and parameters: that of scores, then that of masks. NULL
 * where there is none. */
enum { CA_FUNCTIONS = 2 };
void ca_problem_functions(const clattn_problem *p, const clattn_function *functions[CA_FUNCTIONS]);

/* These return the operand in slot n of a problem (NULL if the slot is empty), its number of elements (SIZE_MAX if a size_t is
 * too small), and the bytes of an element (0 if the slot is empty). */
const struct ca_function_operand *ca_function_slot(const clattn_problem *p, size_t n);
size_t ca_function_slot_elements(const clattn_problem *p, size_t n);
size_t ca_function_slot_bytes(const clattn_problem *p, size_t n);

/* The elements of the gradients of all operands that have one; SIZE_MAX if a size_t cannot say. */
size_t ca_function_gradients(const clattn_problem *p);

/* Whether a problem, which may be NULL or of another operation, has any. */
int ca_has_functions(const clattn_problem *p);

/* Whether what a function gives may depend on the batch (dimension 0) or the head (1): its source or its operands name one. */
int ca_function_asks_for(const clattn_function *f, int dimension);

/* The rules of functions, for ca_attention_check(). */
clattn_status ca_functions_check(const clattn_problem *p, char *reason, size_t reason_bytes);

/* The values of an execution: the caller's, or those of the sources. */
clattn_function_values ca_function_values(const clattn_problem *p,
                                          const clattn_function_values *given);

/* Those of them that are the mask function's, from the first place on. */
clattn_function_values ca_mask_function_values(const clattn_problem *p,
                                               const clattn_function_values *given);

#endif
