/* SPDX-License-Identifier: Apache-2.0 */
/* A multiply-add of kernels for GPUs: fused where that is the fast one. */
#pragma once

#ifdef FP_FAST_FMAF
#define MULTIPLY_ADD fma
#else
#define MULTIPLY_ADD mad
#endif
