/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the caller's, made of their source. */
#ifndef CA_FUNCTION_SOURCE_H
#define CA_FUNCTION_SOURCE_H

#include "problem/function.h"

/* Gives the function that a problem string names: one that was made, or the file's. */
clattn_status ca_function_of_name(const char *name, const clattn_function **function, char *reason,
                                  size_t reason_bytes);

#endif
