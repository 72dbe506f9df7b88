/* SPDX-License-Identifier: Apache-2.0 */
/* A multiply-add of kernels for GPUs: fused where that is the fast one. */
#ifndef CLATTN_MULTIPLY_ADD_H
#define CLATTN_MULTIPLY_ADD_H

#ifdef FP_FAST_FMAF
#define MULTIPLY_ADD fma
#else
#define MULTIPLY_ADD mad
#endif

#endif
