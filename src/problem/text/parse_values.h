/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a text form's words: each reads what follows a word's key, up to the end of the text, and
 * returns 0 if it cannot. */
#ifndef CA_PARSE_VALUES_H
#define CA_PARSE_VALUES_H

#include <clattn/problem.h>

/* "8", or "8/2": without the second number it is the first. Where second is NULL the two
 * are equal. */
int ca_parse_pair(const char *text, size_t *first, size_t *second);

/* Digits with a point or an exponent, as "%.9g" prints a finite number; what else strtof() would read
 * (blanks, a sign in front but '-', hexadecimal digits, "inf", "nan", the locale's point) is none. */
int ca_parse_float(const char *text, float *value);

/* One of the names: its number. */
int ca_parse_name(const char *text, const char *const *names, size_t count, int *value);
int ca_parse_dtype(const char *text, clattn_dtype *dtype);
int ca_parse_cache(const char *text, clattn_cache *cache);

/* An order of axes, such as "bshd", or strides. A layout that overflows is for clattn_problem_check() to
 * refuse, in its words. */
int ca_parse_layout(const char *text, const size_t sizes[4], clattn_layout *layout);

/* "io", "oi" or strides: the layout of w. */
int ca_parse_weights(const char *text, clattn_projection_problem *p);

/* The axes along which scales differ, such as "hk", or strides. */
int ca_parse_scales(const char *text, const size_t sizes[4], clattn_layout *layout);

/* The axes that a bias or mask of so many columns spans, such as "hqk", or strides. */
int ca_parse_spanning(const char *text, const clattn_problem *p, size_t columns,
                      clattn_layout *layout);

/* A number, or "*": no limit. What follows is left to the caller: *text points to it. */
int ca_parse_step(const char **text, int64_t *step);

/* "tl", "br" or an offset. */
int ca_parse_diagonal(const char *text, clattn_diagonal *diagonal, int64_t *offset);

/* "pairs:N:X" or "halves:N:tables:M". */
int ca_parse_rope(const char *text, clattn_append_problem *p);

/* "64x32:100" or "64x32:100:bh". */
int ca_parse_blocks(const char *text, clattn_problem *p);

#endif
