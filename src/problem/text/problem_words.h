/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that printing and parsing of text forms share. */
#ifndef CA_PROBLEM_WORDS_H
#define CA_PROBLEM_WORDS_H

#include "problem/operations.h"
#include "problem/tensors.h"

#include <clattn/problem.h>

enum { CA_SCORES_NAMES = 6, CA_ROTARY_NAMES = 3 };
/* The order of w's axes (x_heads, x_dim, y_heads, y_dim), by the letters of clattn_layout_packed(),
 * where it is transposed: "oi". */
#define CA_OUT_IN "sdbh"

extern const char *const ca_operation_names[CA_NUM_OPERATIONS]; /* indexed by clattn_operation */
extern const char *const ca_dtype_names[CA_NUM_DTYPES];         /* indexed by clattn_dtype */
extern const char *const ca_scores_names[CA_SCORES_NAMES];      /* indexed by clattn_scores */
extern const char *const ca_cache_names[CA_NUM_CACHES];         /* indexed by clattn_cache */
extern const char *const ca_rotary_names[CA_ROTARY_NAMES];      /* indexed by clattn_rotary */

/* Those of an operation. */
const struct ca_layout_word *ca_layout_words(clattn_operation operation);

/* The layout of a bias or mask that spans the axes (bit n: the n-th of batch, heads, seq_q,
 * the columns) and broadcasts along the others, and the letters of those axes, such as "bk". A bias has
 * seq_kv columns, a mask ca_mask_keys(). */
void ca_spanning_layout(const clattn_problem *p, size_t columns, unsigned axes, char letters[5],
                        clattn_layout *layout);
/* The same for scales of these sizes, whose axes are b, h and k. */
void ca_scales_layout(const size_t sizes[4], unsigned axes, char letters[5], clattn_layout *layout);

/* Reads a decimal number and moves *text behind it; 0 if there is none or it is too large. */
int ca_parse_size(const char **text, size_t *value);

#endif
