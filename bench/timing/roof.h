/* SPDX-License-Identifier: Apache-2.0 */
/* The least time that a problem takes on a device of given peaks. */
#ifndef CLATTN_BENCH_ROOF_H
#define CLATTN_BENCH_ROOF_H

#include "bench/cases/case.h"

/* Floating-point operations of the products. Attention counts 2 * (dim_qk + dim_v) for each
 * visible pair, and backward 6 * dim_qk + 4 * dim_v. Visible pairs are counted from the case's
 * own mask, bias (-inf hides), lengths, windows and causality. 0 without memory to count in. */
double case_flops(const struct attention_case *attention);

/* Bytes that any implementation must move, with a broadcast counted once. Read are the queries
 * that see a key (in backward with their o, lse and do) and the keys and values that a query
 * sees. Mask and bias count where causality, windows and lengths leave a pair. Merges,
 * projections and layers read all of their inputs but the reserve. All results are written.
 * Lists of a number a head or a batch, and their gradients, are left out. Without memory to
 * count in, only the results count. */
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
