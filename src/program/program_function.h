/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a problem's functions (clattn/function.h), which precedes the source of a program. */
#ifndef CA_PROGRAM_FUNCTION_H
#define CA_PROGRAM_FUNCTION_H

#include <clattn/problem.h>

/* The text: types of pairs and operands, the functions, and SCORE_FUNCTION_OPERANDS and MASK_FUNCTION_OPERANDS, which
 * cl/score/function.h reads. Empty where there are none; the caller frees it. NULL without memory. */
char *ca_program_function_text(const clattn_problem *p);

#endif
