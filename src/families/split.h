/* SPDX-License-Identifier: Apache-2.0 */
/* The common parts of families that split the keys of a kv head over work-groups. Each takes rows:
 * the queries of the query heads that share it. */
#ifndef CA_SPLIT_H
#define CA_SPLIT_H

#include "families/family.h"

/* n / by, rounded up. */
size_t ca_split_divide(size_t n, size_t by);

/* The rows that share a kv head; SIZE_MAX if size_t cannot count them. */
size_t ca_split_rows_per_kv_head(const struct ca_problem *p);

/* The rows of all heads and batches; SIZE_MAX if size_t cannot count them. */
size_t ca_split_rows(const struct ca_problem *p);

/* The number of work-groups, if each takes group_rows rows of each of group_heads kv heads and one
 * of `splits` ranges of keys. */
size_t ca_split_groups(const struct ca_problem *p, size_t group_rows, size_t group_heads,
                       size_t splits);

/* The ranges that the keys are divided into: split_k, of an invariant problem as many as seq_kv fills. */
size_t ca_split_parts(const struct ca_problem *p, size_t split_k);

/* Returns whether rows are few and keys many, for CPUs. Where SIMD lanes are queries, few
 * queries of a head leave most lanes idle, however many heads share keys. */
int ca_is_for_split(const struct ca_problem *p);

/* ---- families for GPUs (cl/gpu/split_task.h, cl/gpu/split_combine.h) ---------------------------- */

/* Sets SPLIT_K, the tunable number split_k of values: to as many ranges as keep the device busy and
 * the family does not reject. */
void ca_split_suggest(const struct ca_problem *p, const clattn_device_info *dev,
                      const struct ca_tunable *tunable, size_t group_rows, size_t items,
                      size_t *values, size_t split_k,
                      const char *(*reject)(const struct ca_problem *, const clattn_device_info *,
                                            const size_t *));

#endif
