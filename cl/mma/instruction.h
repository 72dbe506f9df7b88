/* SPDX-License-Identifier: Apache-2.0 */
/* The header of the matrix instruction that INSTRUCTION names, and what those that say nothing of it have. Its
 * layouts are plain C: tests/offline/bank_conflicts.c uses them, too. */
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
#if INSTRUCTION == INSTRUCTION_WGMMA
#include "mma/fragment_wgmma.h"
#endif

/* 1: weights pass to the second product through local memory, in rows. */
#if defined(WEIGHTS_IN_MEMORY)
#define WEIGHTS_PASS_IN_ROWS WEIGHTS_IN_MEMORY
#else
#define WEIGHTS_PASS_IN_ROWS 0
#endif
/* 1: copies to local memory run in the background. */
#define HAS_COPIES (INSTRUCTION == INSTRUCTION_MMA_SYNC || INSTRUCTION == INSTRUCTION_WGMMA)
/* 1: operands of keys and dims are tiles in local memory, in warpgroup_tile.h. */
#define HAS_TILE_PRODUCTS (INSTRUCTION == INSTRUCTION_WGMMA)
/* 1: instructions of NVIDIA's are there, by inline PTX; of AMD's, by compiler builtins. */
#define HAS_PTX (HAS_COPIES && !EMULATE)
#define HAS_AMD_BUILTINS                                                                           \
    (!EMULATE && INSTRUCTION >= INSTRUCTION_WMMA && INSTRUCTION <= INSTRUCTION_MFMA_16)

#ifndef LEAVE_FIRST_ASSEMBLY
#define LEAVE_FIRST_ASSEMBLY()
#endif
#ifndef SUB_GROUP_ATTRIBUTE
#define SUB_GROUP_ATTRIBUTE
#endif
/* Hides an index from this place on: what follows from it is not computed before. */
#if HAS_PTX
#define LATER(x) __asm volatile("" : "+r"(x))
#else
#define LATER(x)
#endif
/* Hides an index: values that follow from it are not computed before a loop and kept. */
#if HAS_AMD_BUILTINS
#define INDEX_HERE(x) __asm volatile("" : "+v"(x))
#else
#define INDEX_HERE(x)
#endif

/* In sub-groups of 8 of Intel's a lane's two scores of a row, 8 keys apart, become neighbouring terms, unless
 * they pass through local memory; values are packed in that order too. Else weights have the order of scores. */
enum { HALVES_ALTERNATE = INSTRUCTION == INSTRUCTION_DPAS_8 ? !WEIGHTS_PASS_IN_ROWS : 0 };

/* The number, among a lane's queries, of the query of sum e. */
static inline int sum_query(const int e)
{
    return e / SUMS_OF_QUERY;
}

/* The sum that becomes element e of weights, slab by slab. */
static inline int weight_source(const int slab, const int e)
{
    return HALVES_ALTERNATE ? (slab * 2 + e % 2) * 8 + e / 2 : slab * 2 * QUERY_WORDS + e;
}

/* The key, in a slab, of term `depth` of weights. */
static inline int value_key(const int depth)
{
    return HALVES_ALTERNATE ? depth % 2 * 8 + depth / 2 : depth;
}

/* Ends a step: loads of the next cannot move before it, which would take registers. */
static inline void in_order(void)
{
#if HAS_AMD_BUILTINS
    __builtin_amdgcn_sched_barrier(0);
#endif
}

/* Completes a sum: it cannot move past a branch, with its operands in registers until then. */
static inline void sum_here(float *x)
{
#if HAS_AMD_BUILTINS
    __asm volatile("" : "+v"(*x));
#endif
}

/* x in any lane of the sub-group, if all lanes branch alike; else x itself. */
static inline bool any_in_sub_group(const bool x)
{
#if HAS_PTX
    uint any;

    __asm volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.any.pred p, p, 0xffffffff; "
                   "selp.u32 %0, 1, 0, p;}"
                   : "=r"(any)
                   : "r"((uint)x));
    return any;
#else
    return x;
#endif
}

/* Limits registers so that RESIDENT_GROUPS work-groups fit a multiprocessor. */
static inline void registers_for_groups(void)
{
#if HAS_TILE_PRODUCTS && !EMULATE && (RESIDENT_GROUPS > 1 || PRODUCER)
    __asm volatile("//sm_90a.entry .minnctapersm %0" : : "n"(RESIDENT_GROUPS));
#endif
}
