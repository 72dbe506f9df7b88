/* SPDX-License-Identifier: Apache-2.0 */
/* The header of the matrix instruction that INSTRUCTION names, and what those that say nothing of it have. Its
 * layouts are plain C: tests/offline/bank_conflicts.c uses them, too. A program of wgmma includes
 * mma/fragment_wgmma.h before. */
#pragma once
#include "families/fragment_sizes.h"
#include "mma/fragment_options.h"

#if INSTRUCTION == INSTRUCTION_MMA_SYNC || INSTRUCTION == INSTRUCTION_WGMMA
#include "mma/fragment_mma_sync.h"
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
