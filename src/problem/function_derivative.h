/* SPDX-License-Identifier: Apache-2.0 */
/* The derivatives of a score function, as source (clattn/function.h says of which functions). */
#ifndef CA_FUNCTION_DERIVATIVE_H
#define CA_FUNCTION_DERIVATIVE_H

#include "problem/function.h"

/* Writes the source of score_derivative() if the function has none: to f->derived, or to f->no_derivative why it cannot.
 * Writes the functions of the loads of floats that have none to f->derived_loads, and adds the loads, or to f->no_loads why it
 * cannot. False without memory. */
int ca_function_derive(struct clattn_function *f);

#endif
