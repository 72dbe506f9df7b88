/* SPDX-License-Identifier: Apache-2.0 */
/* The multiply-add of kernels for GPUs: fused on devices where the fused one is fast. */
#pragma once

#ifdef FP_FAST_FMAF
#define MULTIPLY_ADD fma
#else
#define MULTIPLY_ADD mad
#endif
