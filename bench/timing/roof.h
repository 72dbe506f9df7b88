/* SPDX-License-Identifier: Apache-2.0 */
/* The least time that a problem takes on a device of given peaks. */
#ifndef CLATTN_BENCH_ROOF_H
#define CLATTN_BENCH_ROOF_H

#include "bench/cases/case.h"

/* Floating-point operations of the products. Of attention 2 * (dim_qk + dim_v) for each pair that
 * is visible, backward 6 * dim_qk + 4 * dim_v, counted from the case's own mask, bias (-inf hides),
 * lengths, windows and causality; 0 without memory to count in. */
double case_flops(const struct attention_case *attention);

/* Bytes that any implementation must move, what broadcasts once: the queries that see a key, of
 * backward with their o, lse and do, the keys and values that a query sees, mask and bias where
 * causality, windows and lengths leave a pair; all of what merges, projections and layers are given, but
 * for the reserve; all of the results. Lists of a number a head or a batch, and their gradients,
 * are left out. Only the results without memory to count in. */
double case_bytes(const struct attention_case *attention);

/* Bytes of one set of tensors in memory, whether an execution touches them or not, without the reserve. */
double case_set_bytes(const struct attention_case *attention);

/* Returns how many sets of tensors take turns, so that a problem which memory limits is not
 * measured from the caches. Where the bytes take longer than the operations at these peaks, the
 * sets cover `cover` bytes; otherwise one is enough. They are at most 64, and at most `most`
 * bytes in all, of `set` bytes each. */
size_t roof_copies(double flops, double bytes, double gflops, double gigabytes, double cover,
                   double set, double most);

#endif
