/* SPDX-License-Identifier: Apache-2.0 */
/* The floats of a call of function_values (cl/score/function_values.h), which kernel and host share. */
#pragma once

enum { VALUE = 8, VALUE_ERROR, DERIVATIVE, DERIVATIVE_ERROR, VISIBLE, LOADS };

/* From LOADS on for each load of a float: its element of dfunction, as an int, the derivative by it and the error of that. */
enum { LOAD_PLACE, LOAD_DERIVATIVE, LOAD_ERROR, LOAD_RECORD };
enum { MOST_LOADS = 8, RECORD = LOADS + MOST_LOADS * LOAD_RECORD };
