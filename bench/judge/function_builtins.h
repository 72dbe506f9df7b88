/* SPDX-License-Identifier: Apache-2.0 */
/* OpenCL C's built-in functions, as far as functions of the caller's use them. */
#ifndef CLATTN_REFERENCE_FUNCTION_BUILTINS_H
#define CLATTN_REFERENCE_FUNCTION_BUILTINS_H

#include "bench/judge/function_number.h"

#include <stddef.h>

/* The number of a built-in function, -1 if there is none of that name; how many arguments it takes. */
int function_builtin(const char *name);
size_t function_builtin_arguments(int builtin);

/* The built-in function of that number (function_builtin()) of its arguments. */
struct number function_builtin_call(struct decisions *d, int builtin, const struct number *x);

#endif
