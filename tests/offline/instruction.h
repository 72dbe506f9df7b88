/* SPDX-License-Identifier: Apache-2.0 */
/* What one line of assembly does. */
#ifndef OFFLINE_INSTRUCTION_H
#define OFFLINE_INSTRUCTION_H

enum dialect { DIALECT_AMD, DIALECT_SASS, DIALECT_PTX, DIALECT_XE };

enum { WIDTHS = 5 };

/* Counts of operations; loads by the bytes that an item gets: 1, 2, 4, 8, 16. */
struct counts {
    unsigned all, fma, matrix;
    unsigned local_loads[WIDTHS], global_loads[WIDTHS];
};

/* Adds an instruction, of which there may be two in a line of AMD's. */
void instruction_count(enum dialect dialect, const char *text, struct counts *counts);

/* The label that a branch goes to, copied; false if it is no branch. */
enum { LABEL_BYTES = 64 };
int instruction_target(enum dialect dialect, const char *text, char label[LABEL_BYTES]);

#endif
