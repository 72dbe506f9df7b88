/* SPDX-License-Identifier: Apache-2.0 */
/* What the headers of all instructions have in common:
 *   UNROLL      before a loop of few and constant steps, which EMULATE leaves as a loop
 *   HALF_ROWS   1: rows are at most half of a fragment's, and lanes have nothing of the other half */
#pragma once

#if EMULATE
#define UNROLL _Pragma("unroll 1")
#elif defined(cl_khr_fp16)
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("unroll")
#endif

#ifndef HALF_ROWS
#define HALF_ROWS 0
#endif
