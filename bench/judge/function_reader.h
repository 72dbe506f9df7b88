/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a function's source, and its expressions. */
#ifndef CLATTN_REFERENCE_FUNCTION_READER_H
#define CLATTN_REFERENCE_FUNCTION_READER_H

#include "bench/judge/function_syntax.h"

enum word_kind { WORD_END, WORD_NAME, WORD_NUMBER, WORD_SIGN };

struct function_local {
    char name[FUNCTION_WORD];
    enum number_type type;
    int place;
};

struct function_constant {
    char name[FUNCTION_WORD];
    struct node *value;
};

struct function_reader {
    struct function_program *program;
    const char *at;
    size_t line;
    enum word_kind kind; /* of the word that was read last */
    char word[FUNCTION_WORD];
    struct number number;
    struct function_local locals[FUNCTION_LOCALS]; /* those in scope */
    size_t num_locals;
    size_t places; /* of variables of the routine */
    struct function_constant constants[16];
    size_t num_constants;
};

/* Stops: the program has a mistake. All words after it are the end. */
void reader_fail(struct function_reader *r, const char *what);

void reader_next(struct function_reader *r);
bool reader_is(const struct function_reader *r, const char *word);
bool reader_take(struct function_reader *r,
                 const char *word); /* and returns whether it was there */
void reader_expect(struct function_reader *r, const char *word);

/* Takes the word if it names a type, and returns whether it does. */
bool reader_take_type(struct function_reader *r, enum number_type *type);

struct node *reader_node(struct function_reader *r, enum node_kind kind);
struct node *reader_expression(struct function_reader *r); /* with commas */
struct node *reader_assignment(struct function_reader *r); /* without */

#endif
