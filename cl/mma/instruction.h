/* SPDX-License-Identifier: Apache-2.0 */
/* Includes the header of the matrix instruction INSTRUCTION, and defines what most instructions
 * have in common. Layouts are plain C: tests/offline/bank_conflicts.c uses them, too. */
#pragma once
#include "families/fragment_sizes.h"

#if !EMULATE && defined(cl_khr_fp16)
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
#if EMULATE
#define UNROLL _Pragma("unroll 1")
#else
#define UNROLL _Pragma("unroll")
#endif

/* Is 1 if rows fill at most half of a fragment; lanes hold nothing of the other half. */
#ifndef HALF_ROWS
#define HALF_ROWS 0
#endif

#if INSTRUCTION == INSTRUCTION_MMA_SYNC || INSTRUCTION == INSTRUCTION_WGMMA
#include "mma/fragment_mma_sync.h"
#if INSTRUCTION == INSTRUCTION_WGMMA
#include "mma/fragment_wgmma.h"
#endif
#elif INSTRUCTION == INSTRUCTION_WMMA
#include "mma/fragment_wmma.h"
#elif INSTRUCTION == INSTRUCTION_MFMA_32 || INSTRUCTION == INSTRUCTION_MFMA_16
#include "mma/fragment_mfma.h"
#elif INSTRUCTION == INSTRUCTION_DPAS_8 || INSTRUCTION == INSTRUCTION_DPAS_16
#include "mma/fragment_dpas.h"
#else
#error "INSTRUCTION must be one of those above"
#endif
#ifndef IN_ORDER
#define IN_ORDER()
#endif
#ifndef HAS_COPIES
#define HAS_COPIES 0
#endif
#ifndef HAS_TILE_PRODUCTS
#define HAS_TILE_PRODUCTS 0
#endif
#ifndef SUM_HERE
#define SUM_HERE(x)
#endif
#ifndef LEAVE_FIRST_ASSEMBLY
#define LEAVE_FIRST_ASSEMBLY()
#endif
#ifndef REGISTERS_FOR_GROUPS
#define REGISTERS_FOR_GROUPS()
#endif
#ifndef ANY_LANE
#define ANY_LANE(x) (x)
#endif
#ifndef INDEX_HERE
#define INDEX_HERE(x)
#endif
#ifndef PAIR_BARRIER
#define PAIR_BARRIER(n, waits) LOCAL_BARRIER()
#endif
#ifndef LATER
#define LATER(x)
#endif
#ifndef SUB_GROUP_ATTRIBUTE
#define SUB_GROUP_ATTRIBUTE
#endif
