/* What families have in common that split the keys of a kv head over work-groups, each of which
 * takes rows: the queries of the query heads that share it. */
#ifndef CA_SPLIT_H
#define CA_SPLIT_H

#include <clattn/problem.h>

/* n / by, rounded up. */
size_t ca_split_divide(size_t n, size_t by);

/* Rows that share a kv head; SIZE_MAX if size_t cannot count them. */
size_t ca_split_rows_per_kv_head(const clattn_problem *p);

/* Rows of all heads and batches, likewise. */
size_t ca_split_rows(const clattn_problem *p);

/* Work-groups that take group_rows rows each, times splits. */
size_t ca_split_groups(const clattn_problem *p, size_t group_rows, size_t splits);

#endif
