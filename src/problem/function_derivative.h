/* SPDX-License-Identifier: Apache-2.0 */
/* The derivative of a score function, as source (clattn/function.h says of which functions). */
#ifndef CA_FUNCTION_DERIVATIVE_H
#define CA_FUNCTION_DERIVATIVE_H

#include "problem/function.h"

/* Writes the source of score_derivative() for a function whose source defines a score() alone: to f->derived, or to
 * f->no_derivative why it cannot. False without memory. */
int ca_function_derive(struct clattn_function *f);

#endif
