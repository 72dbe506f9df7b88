/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from the header of the kernel's matrix instruction, which the kernel includes first: any_instruction.h,
 * or fragment_wgmma.h. Layouts are plain C: tests/offline/bank_conflicts.c uses them, too. An instruction's header
 * says
 *   HAS_COPIES             1: copies to local memory run in the background
 *   HAS_TILE_PRODUCTS      1: operands of keys and dims are tiles in local memory, in warpgroup_tile.h
 *   HAS_AMD_BUILTINS       1: instructions are compiler builtins of AMD's
 *   SUB_GROUP_ATTRIBUTE    an attribute of kernels
 *   WEIGHTS_ARE_EXCHANGED  1: a lane has the scores of every second key, and its partner in the other half has the
 *                          rest, so that the weights of a slab are exchanged in pairs
 *   HALVES_ALTERNATE       1: a lane's two scores of a row, 8 keys apart, become neighbouring terms of weights, in which
 *                          order values are packed, too; else weights have the order of scores */
#pragma once
#include "families/fragment_sizes.h"
#include "mma/fragment_options.h"

/* 1: instructions of NVIDIA's are there, by inline PTX. */
#define HAS_PTX (HAS_COPIES && !EMULATE)

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

/* INDEX_HERE() hides an index: values that follow from it are not computed before a loop and kept. in_order() ends a
 * step: loads of the next cannot move before it, which would take registers. sum_here() completes a sum: it cannot move
 * past a branch, with its operands in registers until then. */
#if HAS_AMD_BUILTINS
#define INDEX_HERE(x) __asm volatile("" : "+v"(x))

static inline void in_order(void)
{
    __builtin_amdgcn_sched_barrier(0);
}

static inline void sum_here(float *x)
{
    __asm volatile("" : "+v"(*x));
}
#else
#define INDEX_HERE(x)

static inline void in_order(void)
{
}

static inline void sum_here(float *x)
{
}
#endif

/* Limits registers so that RESIDENT_GROUPS work-groups fit a multiprocessor. */
static inline void registers_for_groups(void)
{
#if HAS_TILE_PRODUCTS && !EMULATE && (RESIDENT_GROUPS > 1 || PRODUCER)
    __asm volatile("//sm_90a.entry .minnctapersm %0" : : "n"(RESIDENT_GROUPS));
#endif
}
