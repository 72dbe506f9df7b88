/* SPDX-License-Identifier: Apache-2.0 */
/* The options that a compiler is given for a program. */
#ifndef CA_PROGRAM_OPTIONS_H
#define CA_PROGRAM_OPTIONS_H

#include "families/candidate.h"
#include "problem/problem.h"

/* The compiler's options for a problem and the candidate's tunables on a device. False if they do not fit, which cannot happen
 * with CA_OPTIONS_TEXT bytes. */
enum { CA_OPTIONS_TEXT = 4096 };
int ca_program_options(const struct ca_candidate *candidate, const struct ca_problem *p,
                       const clattn_device_info *dev, char *text, size_t text_bytes);

/* Their beginning, which the problem alone shapes. Its length, or what it would be. */
size_t ca_program_problem_options(const struct ca_problem *p, char *text, size_t text_bytes);

#endif
