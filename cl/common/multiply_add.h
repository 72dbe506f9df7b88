/* SPDX-License-Identifier: Apache-2.0 */
/* Multiply-adds of kernels, rounded once where the device has an instruction for that. What must be rounded once calls
 * fma() itself. */
#pragma once

/* In kernels that are for GPUs alone. */
#ifdef FP_FAST_FMAF
#define MULTIPLY_ADD fma
#else
#define MULTIPLY_ADD mad
#endif

/* In all others. For x86 without FMA, compilers call a function for each element of fma(). */
#if (defined(__x86_64__) || defined(__i386__)) && !defined(__FMA__)
#define FMA mad
#else
#define FMA fma
#endif
