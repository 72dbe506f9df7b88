/* SPDX-License-Identifier: Apache-2.0 */
/* The floats of a call of function_values (cl/elementwise/function_values.cl), which kernel and host share. */
#ifndef CA_FUNCTION_VALUES_H
#define CA_FUNCTION_VALUES_H

enum { VALUE = 8, VALUE_ERROR, DERIVATIVE, DERIVATIVE_ERROR, VISIBLE, RECORD };

#endif
