/* SPDX-License-Identifier: Apache-2.0 */
/* Appends in double precision by plain loops, written from the formula in <clattn/problem.h>. It shares no
 * code with the library. */
#ifndef CLATTN_REFERENCE_APPEND_H
#define CLATTN_REFERENCE_APPEND_H

#include "bench/judge/judge.h"

#include <stdint.h>

/* The tensors that are read, by the results that they become. */
enum append_kind { APPEND_K, APPEND_V, APPEND_Q, APPEND_KINDS };

/* Heads and columns of a kind, and steps along (batch, head, row, column) of what is read and written, which
 * is `blocks` batches or pages of so many rows. */
struct append_strides {
    size_t heads, dim, blocks, rows, from[4], to[4];
};

struct append_strides reference_append_strides(const clattn_append_problem *p,
                                               enum append_kind kind);

/* Pointers to element (0, 0, 0, 0) of what is read, and to what the problem has of the lists. */
struct append_view {
    const void *from[APPEND_KINDS];
    const int32_t *kv_lengths, *positions, *slots, *page_table;
    const float *cos, *sin;
};

/* The cache row of token (b, i): batch * seq_kv + row, or page * page_size + row; -1 if it is
 * skipped. */
int64_t reference_append_place(const clattn_append_problem *p, const struct append_view *view,
                               size_t b, size_t i);

/* The row of head h of token (b, i): its columns as they are read back, each with its error
 * bound. */
void reference_append(const clattn_append_problem *p, const struct append_view *view,
                      enum append_kind kind, size_t b, size_t h, size_t i, struct bounded *row);

/* The rows that the tokens are written to, of the outputs by kind: at[] is (batch or page, head, row, 0). */
bool judge_append(const clattn_append_problem *p, const struct append_view *view, double budget,
                  judge_row *row, void *user);

#endif
