/* What the check of gradients consists of. */
#ifndef CA_GRADIENT_CHECK_H
#define CA_GRADIENT_CHECK_H

#include "selfcheck/answer_row.h"
#include <clattn/gradient_check.h>

/* The gradients that a problem may have, CA_DQ to CA_DSINKS. */
enum { CA_NUM_GRADIENTS = CA_DSINKS - CA_DQ + 1 };

/* Every element of every gradient, packed: sizes as ca_problem_tensors() tells. NULL for those that
 * the problem has not. */
struct ca_all_gradients {
    struct ca_tensor tensor[CA_NUM_GRADIENTS];
    size_t count[CA_NUM_GRADIENTS];
    struct ca_bounded *of[CA_NUM_GRADIENTS];
};

/* Ordinary data of multiples of 1/64 for all inputs of a normal backward problem but o and lse. 0
 * without memory. */
int ca_gradient_data_make(struct ca_trust_case *c, const clattn_problem *p, unsigned seed);

/* The same values with everything stored as f32, o and lse from double precision. */
int ca_gradient_data_widen(struct ca_trust_case *c, const struct ca_trust_case *narrow);

/* The formulas' gradients from the data, o and lse included. 0 without memory. To be freed in any
 * case. (src/gradient_check/gradient_check_all.c) */
int ca_all_gradients_solve(struct ca_all_gradients *g, const struct ca_trust_case *c);
void ca_all_gradients_free(struct ca_all_gradients *g);

/* Position n of a gradient along its dimensions. */
void ca_gradient_index(const struct ca_tensor *tensor, size_t n, size_t index[4]);

/* do * o of a row in double precision, its o and lse where they are not NULL.
 * (src/gradient_check/gradient_check_loss.c) */
double ca_row_loss(const struct ca_trust_case *c, struct ca_trust_row *row, size_t index, double *o,
                   double *lse);

/* The central difference of the loss by element n of the input that the gradient belongs to, and how
 * far it may be off. c is changed and restored. 0 without memory. */
int ca_loss_difference(struct ca_trust_case *c, enum ca_argument gradient,
                       const struct ca_tensor *tensor, size_t n, struct ca_bounded *difference);

/* How many rows depend on an element of that input. */
size_t ca_rows_touched(const clattn_problem *p, enum ca_argument gradient);

#endif
