/* What a problem costs at least on a device of given peaks. */
#ifndef CLATTN_BENCH_ROOF_H
#define CLATTN_BENCH_ROOF_H

#include "case.h"

/* Floating-point operations of the two products, 2 * (dim_qk + dim_v) for each pair that is
 * visible, counted from the case's own masks, lengths, windows and causality. */
double case_flops(const struct attention_case *attention);

/* Bytes that any implementation must move: each element of q, o, lse, bias and mask in use once (a
 * broadcast one once, not once per use), and each key and value that at least one query sees. */
double case_bytes(const struct attention_case *attention);

/* How many sets of tensors take turns so that a problem which memory limits is not measured from
 * the caches: as many as cover `cover` bytes where the bytes take longer than the operations at
 * these peaks, else 1; at most 64, and never more than `most` bytes in all. */
size_t roof_copies(double flops, double bytes, double gflops, double gigabytes, double cover,
                   double most);

#endif
