/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel on small shapes, for Oclgrind to watch (run.sh): races on local and global memory,
 * values that were never written, accesses outside a buffer. PoCL adds barriers of its own and so
 * hides missing ones. Results are compared with the reference too, because Oclgrind interprets
 * kernels and shares no code generator with PoCL.
 *
 *   races         runs every twelfth pair of an item and a family (the rest in the next runs,
 *                 CLATTN_TEST_ALL=1: all), then what has no family; 0 if all results are right,
 *                 and if every item can be had on CPUs of any vendor
 *   races N       runs the N-th of these; 3 if there is none
 *   races --racy  runs a kernel that lacks a barrier, which shows that Oclgrind would tell
 *
 * PoCL optimises one program in five, others in other runs (CLATTN_TEST_SEED), but none that emulates.
 */
#include "bench/judge/judge.h"
#include "race_calls.h"
#include "tests/support/cpus.h"
#include "tests/support/inputs.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/tensors.h"
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item {
    const char *family; /* NULL: each family that can do it */
    const char *tunables;
    const char *problem;
};

/* Small tiles, so that even these shapes have several along every dimension. */
#define SMALL_FRAGMENTS "EMULATE=1 SUB_GROUPS=2 M_FRAGMENTS=1 EXP=2"
#define SMALL_GRADIENTS "EMULATE=1 SUB_GROUPS=1 BLOCK_STREAMED=16 EXP=2"
#define SMALL_TILES                                                                                \
    "BLOCK_M=8 BLOCK_N=8 THREADS_N=4 THREAD_M=4 BLOCK_K=8 STAGE_N=4 LOAD_WIDTH=4 PADDING=4"
#define SMALL_GROUPS "THREADS_N=4 THREADS_M=2 THREAD_N=4 THREAD_M=4 VECTOR_WIDTH=4 BLOCK_K=8"
#define SMALL_BLOCKS                                                                               \
    "BLOCK_OWNED=8 BLOCK_STREAMED=8 THREADS_N=4 THREAD_M=4 BLOCK_K=8 STAGE_N=4 PADDING=4 "         \
    "LOAD_WIDTH=4"
#define SMALL_KEYS                                                                                 \
    "SIMD_WIDTH=4 BLOCK_VECTORS=2 QK_ROWS=4 DKV_COLUMNS=4 BLOCK_M=24 DQ_ROWS=4 DQ_VECTORS=2"
#define SMALL_ROWS                                                                                 \
    "SIMD_WIDTH=4 REGISTER_VECTORS=1 REGISTER_ROWS=2 BLOCK_K=64 BLOCK_M=16 BLOCK_N=32"
#define SMALL_SQUARES "BLOCK_M=16 BLOCK_N=16 THREAD_M=4 THREAD_N=4 BLOCK_K=8 GROUP_M=4"
#define SMALL_PRODUCTS "EMULATE=1 BLOCK_M=16 SUB_GROUPS_M=1 SUB_GROUPS_N=2 GROUP_M=4"
#define SMALL_LANES "SIMD_WIDTH=4 BLOCK_VECTORS=2 QK_KEYS=4 PV_COLUMNS=4 BLOCK_N=24"
#define SMALL_PANELS "SIMD_WIDTH=4 REGISTER_VECTORS=2 REGISTER_ROWS=4 BLOCK_N=64 BLOCK_M=16"
#define SMALL_SPLITS "SIMD_WIDTH=4 BLOCK_N=16 QK_ROWS=2 QK_DEPTH=4 STAGE_K=1 PV_ROWS=2 PV_VECTORS=2"
#define ROWS_BESIDE "SIMD_WIDTH=8 BLOCK_N=16 QK_ROWS=4 QK_DEPTH=4 STAGE_K=1 PV_ROWS=2 PV_VECTORS=2"

#define SMALL_THREAD_GROUPS "THREADS=32 THREADS_D=4 THREAD_N=4 EXP=2"

#define DROPPING "fwd f32 h2 q7 k9 d5 window=5,* dropout=0.3"
#define ALL_GRADIENTS                                                                              \
    "bwd f16 b2 h4/2 q9 k12 d6/9 bias=f16:hqk alibi sinks klen window=5,* softcap=3 dropout=0.3 "  \
    "dbias dslopes dsinks dlse"

static const struct item items[] = {
    {NULL, NULL, "fwd f32 q7 k9 d5"},
    {NULL, NULL, "fwd f32 b2 h2 q9 k10 d8/4 causal=br lse"},
    {NULL, NULL, "fwd f16 h2/1 q5 k12 d9 bias=f16:qk mask=bk klen qlen b2"},
    {NULL, NULL, "fwd bf16 h2 q6 k6 d4 softcap=2 alibi sinks window=2,1 scores=weights lse"},
    {NULL, NULL, "fwd f32 q4 k6 d4 scores=raw"},
    {NULL, NULL, "fwd f32 q4 k6 d4 scores=softcap softcap=3"},
    {NULL, NULL, "fwd f32 q4 k6 d4 scores=bias bias=f32:qk causal=tl"},
    {NULL, NULL, "fwd f32 b2 q5 k6 d4 q=bshd k=120.0.20.2 v=sbhd o=bshd"},
    {"fused_gpu UNIT=item", SMALL_TILES " Q_RESIDENT=0 SHARE_KV=1", "fwd f32 q19 k21 d11/13 lse"},
    {"fused_gpu UNIT=item", SMALL_TILES " Q_RESIDENT=1 SHARE_KV=0",
     "fwd f32 q19 k21 d11/13 causal=br"},
    {"fused_gpu UNIT=item", SMALL_TILES " Q_RESIDENT=1 SHARE_KV=1",
     "fwd f16 q9 k18 d16 mask=qk klen"},
    {"fused_gpu UNIT=item", SMALL_TILES " Q_RESIDENT=0 SHARE_KV=0",
     "fwd bf16 q9 k18 d12 window=3,4 sinks"},
    {"fused_gpu UNIT=item", SMALL_TILES " Q_RESIDENT=0 SHARE_KV=1",
     "fwd f32 q19 k5 d4 causal=-12 lse"},
    {"fused_gpu UNIT=item", SMALL_TILES " STAGES=2 Q_RESIDENT=0 SHARE_KV=1",
     "fwd f32 h2 q19 k21 d12/16 causal=br mask=bqk lse"},
    {"fused_gpu UNIT=bytes", SMALL_TILES " Q_RESIDENT=1 SHARE_KV=1",
     "fwd f32 h2/1 q19 k70 d35/13 causal=tl lse precision=int8"},
    {"fused_gpu UNIT=bytes", SMALL_TILES " Q_RESIDENT=0 SHARE_KV=0",
     "fwd f16 b2 h1 q9 k40 d32/13 page=4 pages=24 klen precision=int8"},
    {"fused_gpu UNIT=item", SMALL_TILES " STAGES=2 Q_RESIDENT=1 SHARE_KV=1",
     "fwd f32 q9 k37 d11/13 window=9,4 sinks dropout=0.3"},
    {"fused_gpu UNIT=mma", SMALL_FRAGMENTS " INSTRUCTION=1 BLOCK_N=16 Q_RESIDENT=0 STAGES=2",
     "fwd f16 h2/1 q19 k35 d16/9 causal=br klen sinks mask=qk lse strict"},
    {"fused_gpu UNIT=mma", SMALL_FRAGMENTS " INSTRUCTION=5 BLOCK_N=16 Q_RESIDENT=0",
     "fwd bf16 q19 k35 d16 window=9,* dropout=0.3 lse"},
    {"fused_gpu UNIT=mma", SMALL_FRAGMENTS " INSTRUCTION=2 BLOCK_N=16 Q_RESIDENT=0",
     "fwd f16 q5 k18 d9 softcap=2"},
    {"fused_gpu UNIT=mma", SMALL_FRAGMENTS " INSTRUCTION=1 BLOCK_N=16 Q_RESIDENT=1",
     "fwd f16 q19 k35 d32 kcache=q8_0 vcache=q4_0 klen"},
    {"fused_gpu UNIT=mma", SMALL_FRAGMENTS " INSTRUCTION=1 BLOCK_N=16 Q_RESIDENT=0 STAGES=2",
     "fwd f16 h2/1 q19 k53 d48/9 causal=br klen lse precision=int8"},
    {"split_gpu UNIT=item", "SPLIT_K=1", "fwd f32 h2/1 q2 k1060 d8 klen sinks lse invariant"},
    {"split_gpu UNIT=mma", SMALL_FRAGMENTS " INSTRUCTION=1 SPLIT_K=1",
     "fwd f16 h2/1 q2 k1060 d8 klen sinks lse invariant"},
    {"fused_gpu UNIT=mma", SMALL_FRAGMENTS " INSTRUCTION=5 BLOCK_N=16 Q_RESIDENT=1",
     "fwd bf16 b2 h1 q9 k40 d20/32 page=4 pages=24 klen vcache=int8 precision=int8"},
    {"fused_gpu UNIT=warpgroup", "SUB_GROUPS=4 BLOCK_N=32 EXP=2 EMULATE=1",
     "fwd f16 q19 k35 d64 causal=br lse"},
    {"fused_gpu UNIT=warpgroup", "SUB_GROUPS=4 BLOCK_N=32 STAGES=2 EXP=2 EMULATE=1",
     "fwd f16 q19 k99 d64 lse"},
    {"backward_gpu UNIT=warpgroup", "SUB_GROUPS=4 BLOCK_STREAMED=32 EXP=2 EMULATE=1",
     "bwd f16 q19 k35 d64 causal=br"},
    {"fused_gpu UNIT=warpgroup",
     "SUB_GROUPS=4 BLOCK_N=32 Q_RESIDENT=0 STAGES=2 OVERLAP=1 PRODUCER=1 RESIDENT_GROUPS=1 EXP=2 "
     "EMULATE=1",
     "fwd f16 q19 k99 d64"},
    {"unfused", SMALL_GROUPS " SWEEPS=1 SOFTMAX_THREADS=16",
     "fwd f32 h2/1 q11 k39 d19/21 lse sinks"},
    {"unfused", SMALL_GROUPS " SWEEPS=4 SOFTMAX_THREADS=1",
     "fwd f16 q19 k21 d19/21 causal=br mask=qk"},
    {"unfused", SMALL_GROUPS " SWEEPS=1 SOFTMAX_THREADS=16", "fwd f32 q9 k18 d5 scores=raw klen"},
    {"unfused", SMALL_GROUPS " SWEEPS=1 SOFTMAX_THREADS=16",
     "fwd f32 b2 q9 k38 d5 page=4 pages=9 scores=bias klen"},
    {"unfused_lanes", SMALL_PANELS " SOFTMAX_ROWS=4",
     "fwd f32 b2 h2/1 q19 k69 d10/9 causal=br klen lse sinks"},
    {"unfused_lanes", SMALL_PANELS " SOFTMAX_ROWS=1",
     "fwd f16 q5 k21 d7/3 bias=f32:qk mask=qk dropout=0.3 scores=weights"},
    {"fused_cpu UNIT=vector", SMALL_LANES " BLOCKS_PER_TILE=2 BALANCE_CAUSAL=0",
     "fwd f32 h2/1 q13 k30 d6 lse bias=bf16:hqk"},
    {"fused_cpu UNIT=vector", SMALL_LANES " BLOCKS_PER_TILE=1 BALANCE_CAUSAL=1",
     "fwd f32 q19 k19 d6/5 causal=tl klen"},
    {"fused_cpu UNIT=vector", SMALL_LANES " BLOCKS_PER_TILE=2 BALANCE_CAUSAL=0",
     "fwd f32 q11 k43 d6 mask=qk softcap=0.5"},
    {"fused_cpu UNIT=vector", SMALL_LANES " BLOCKS_PER_TILE=2 BALANCE_CAUSAL=0",
     "fwd f32 h2 q33 k130 d4 mask=qk bias=f32:hqk"},
    {"split_cpu UNIT=vector", SMALL_SPLITS " BLOCK_M=4 PREFETCH_TILES=0 SPLIT_K=2",
     "fwd f32 b2 h4/2 q3 k37 d10/9 causal=br klen lse sinks"},
    {"split_cpu UNIT=vector", SMALL_SPLITS " BLOCK_M=8 PREFETCH_TILES=1 SPLIT_K=1",
     "fwd f16 h6/2 q2 k20 d7/3 bias=f32:hqk mask=qk window=7,*"},
    {"split_gpu UNIT=item", SMALL_THREAD_GROUPS " BLOCK_M=4 LOAD_WIDTH=8 EARLY_V=1 SPLIT_K=2",
     "fwd f16 b2 h4/2 q3 k67 d8/40 causal=br klen lse sinks mask=qk"},
    {"split_gpu UNIT=item", SMALL_THREAD_GROUPS " BLOCK_M=2 LOAD_WIDTH=4 EARLY_V=0 SPLIT_K=3",
     "fwd f32 h3 q3 k70 d19/9 window=40,* dropout=0.3 lse"},
    {"split_gpu UNIT=mma",
     SMALL_FRAGMENTS " INSTRUCTION=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=0 SPLIT_K=2",
     "fwd f16 b2 h4/2 q3 k67 d8/40 causal=br klen lse sinks mask=qk"},
    {"split_gpu UNIT=mma",
     SMALL_FRAGMENTS " INSTRUCTION=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=2 SPLIT_K=2",
     "fwd bf16 h4/1 q3 k67 d64/32 kcache=q4_0 vcache=q8_0 klen lse"},
    {"split_gpu UNIT=mma",
     SMALL_FRAGMENTS " INSTRUCTION=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=1 BYTES=1 SPLIT_K=2",
     "fwd f16 h4/1 q2 k83 d64/96 kcache=q8_0 vcache=q4_0 klen lse"},
    {"split_gpu UNIT=mma",
     SMALL_FRAGMENTS
     " INSTRUCTION=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=1 BYTES=2 HALF_ROWS=1 SPLIT_K=2",
     "fwd f16 h4/1 q2 k83 d64/96 kcache=q8_0 vcache=q4_0 klen lse"},
    {"split_gpu UNIT=mma",
     SMALL_FRAGMENTS " INSTRUCTION=1 BLOCK_N=32 Q_RESIDENT=1 KV_PARTS=1 SPLIT_K=1",
     "fwd bf16 h4/2 q3 k40 d8 window=20,* strict"},
    {"split_gpu UNIT=mma",
     SMALL_FRAGMENTS " INSTRUCTION=2 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=2 SPLIT_K=1",
     "fwd bf16 b2 h4/2 q3 k40 d24/8 page=16 pages=5 klen"},
    {"unfused", SMALL_GROUPS " SWEEPS=1 SOFTMAX_THREADS=16", DROPPING},
    {"fused_cpu UNIT=vector", SMALL_LANES " BLOCKS_PER_TILE=2 BALANCE_CAUSAL=0", DROPPING},
    {"split_cpu UNIT=vector", ROWS_BESIDE " BLOCK_M=8 PREFETCH_TILES=1 SPLIT_K=2",
     "fwd f32 h6/2 q2 k37 d16/9 causal=br klen lse"},
    {"split_cpu UNIT=vector", SMALL_SPLITS " BLOCK_M=4 PREFETCH_TILES=0 SPLIT_K=1", DROPPING},
    {"fused_gpu UNIT=item", SMALL_TILES " Q_RESIDENT=0 SHARE_KV=1",
     "fwd f32 q19 k21 d11/13 window=9,* dropout=0.3 lse"},
    {"unfused", SMALL_GROUPS " SWEEPS=1 SOFTMAX_THREADS=16",
     "fwd f32 h2/1 q5 k9 d32 kcache=q8_0 vcache=q4_0 window=5,*"},
    {"fused_cpu UNIT=vector", SMALL_LANES " BLOCKS_PER_TILE=2 BALANCE_CAUSAL=0",
     "fwd f32 h2/1 q5 k9 d32 kcache=q8_0 vcache=q4_0 mask=qk"},
    {"fused_gpu UNIT=item", SMALL_TILES " Q_RESIDENT=1 SHARE_KV=1",
     "fwd f16 q9 k18 d64/32 kcache=q4_0 vcache=q8_0 causal=br klen"},
    {"split_cpu UNIT=vector", SMALL_SPLITS " BLOCK_M=4 PREFETCH_TILES=0 SPLIT_K=2",
     "fwd f16 h4/2 q2 k37 d32/64 kcache=q4_0 vcache=q8_0 lse"},
    {"naive", NULL, "fwd f32 b2 h2/1 q3 k21 d5 page=4 pages=13 klen lse"},
    {"fused_cpu UNIT=vector", SMALL_LANES " BLOCKS_PER_TILE=2 BALANCE_CAUSAL=0",
     "fwd f32 b2 h2/1 q11 k43 d6 page=8 pages=13 causal=br klen"},
    {"split_cpu UNIT=vector", SMALL_SPLITS " BLOCK_M=4 PREFETCH_TILES=1 SPLIT_K=2",
     "fwd f16 b2 h4/2 q2 k37 d32 kcache=q8_0 vcache=q4_0 page=5 pages=17 klen"},
    {"split_gpu UNIT=item", SMALL_THREAD_GROUPS " BLOCK_M=4 LOAD_WIDTH=8 EARLY_V=1 SPLIT_K=2",
     "fwd f16 b2 h4/2 q3 k67 d8/40 page=16 pages=9 klen"},
    {"fused_gpu UNIT=item", SMALL_TILES " Q_RESIDENT=1 SHARE_KV=0",
     "fwd f16 b2 h2/1 q11 k43 d6 page=5 pages=20 causal=br klen sinks"},
    {"fused_gpu UNIT=item", SMALL_TILES " Q_RESIDENT=0 SHARE_KV=1",
     "fwd f32 b2 h2/1 q11 k43 d32 kcache=q8_0 page=32 pages=5 klen"},
    {"fused_gpu UNIT=item", SMALL_TILES " Q_RESIDENT=0 SHARE_KV=1",
     "fwd f32 h2 q21 k43 d6 blocks=7x8:12 mask=qk"},
    {"fused_gpu UNIT=item", SMALL_TILES " Q_RESIDENT=1 SHARE_KV=0",
     "fwd f32 h2 q33 k130 d4 mask=qk bias=f32:qk sinks"},
    {"fused_gpu UNIT=mma", SMALL_FRAGMENTS " INSTRUCTION=1 BLOCK_N=16 Q_RESIDENT=1",
     "fwd f16 h2 q35 k130 d8 blocks=7x8:60 mask=qk lse"},
    {"fused_gpu UNIT=mma", SMALL_FRAGMENTS " INSTRUCTION=1 BLOCK_N=16 Q_RESIDENT=0",
     "fwd f16 b3 h2 q9 k18 d8 causal=br totalq=20 totalkv=40 lse"},
    {"fused_gpu UNIT=mma", SMALL_FRAGMENTS " INSTRUCTION=1 BLOCK_N=16 Q_RESIDENT=1",
     "fwd f16 b2 h2/1 q19 k43 d16/8 page=5 pages=20 causal=br klen"},
    {"fused_cpu UNIT=vector", SMALL_LANES " BLOCKS_PER_TILE=2 BALANCE_CAUSAL=0",
     "fwd f32 h2 q21 k43 d6 blocks=7x8:12 mask=qk"},
    {"unfused_lanes", SMALL_PANELS " SOFTMAX_ROWS=4",
     "fwd f32 h2/1 q19 k150 d10/9 blocks=7x8:30:h mask=qk lse"},
    {"split_cpu UNIT=vector", SMALL_SPLITS " BLOCK_M=4 PREFETCH_TILES=1 SPLIT_K=2",
     "fwd f32 h2/1 q5 k90 d6 blocks=2x7:12:h mask=qk lse"},
    {"split_gpu UNIT=item", SMALL_THREAD_GROUPS " BLOCK_M=4 LOAD_WIDTH=4 EARLY_V=0 SPLIT_K=2",
     "fwd f32 h4/2 q3 k190 d8 blocks=2x20:8 mask=qk lse"},
    {"split_gpu UNIT=mma",
     SMALL_FRAGMENTS " INSTRUCTION=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=0 SPLIT_K=2",
     "fwd f16 h4/2 q3 k190 d8 blocks=2x20:8:h sinks lse"},
    {"backward_cpu UNIT=vector", SMALL_KEYS " BLOCKS_PER_TILE=2 SPLIT_K=2",
     "bwd f32 h2/1 q29 k37 d11/13 blocks=8x7:15:h"},
    {"backward_gpu UNIT=item", SMALL_BLOCKS " OWNED_RESIDENT=0",
     "bwd f32 h2/1 q29 k37 d11/13 blocks=8x7:15:h mask=qk"},
    {"backward_gpu UNIT=item", SMALL_BLOCKS " OWNED_RESIDENT=0",
     "bwd f16 b3 h2/1 q20 k30 d16 causal=br totalq=50 totalkv=70 sinks dsinks alibi dslopes"},
    {"split_cpu UNIT=vector", SMALL_SPLITS " BLOCK_M=4 PREFETCH_TILES=0 SPLIT_K=2",
     "fwd f32 b3 h2/1 q5 k20 d6 lse totalq=9 totalkv=40"},
    {"fused_gpu UNIT=item", SMALL_TILES " Q_RESIDENT=0 SHARE_KV=1",
     "fwd f32 b3 h2/1 q9 k21 d11/13 causal=br lse totalq=17 totalkv=40"},
    {"split_gpu UNIT=item", SMALL_THREAD_GROUPS " BLOCK_M=2 LOAD_WIDTH=4 EARLY_V=0 SPLIT_K=3",
     "fwd f32 b3 h2/1 q3 k30 d19/9 kcache=f16 vcache=bf16 lse totalq=7"},
    {"fused_gpu UNIT=item", SMALL_TILES " Q_RESIDENT=1 SHARE_KV=1",
     "fwd f32 q9 k18 d16 kcache=f16 vcache=bf16"},
    {"fused_cpu UNIT=vector", SMALL_LANES " BLOCKS_PER_TILE=1 BALANCE_CAUSAL=0",
     "fwd f16 q9 k20 d6 mask=qk klen odtype=f32 maskkeys=4"},
    {"fused_cpu UNIT=amx", "BLOCK_VECTORS=1 BLOCK_N=64 BLOCKS_PER_TILE=2 BALANCE_CAUSAL=0",
     "fwd bf16 h2/1 q37 k83 d11/13 causal=br mask=qk lse"},
    {"split_cpu UNIT=amx", "BLOCK_M=16 BLOCK_N=32 PREFETCH_TILES=1 SPLIT_K=2",
     "fwd bf16 h4/1 q3 k53 d11/13 klen sinks lse"},
    {"fused_cpu UNIT=amx", "BLOCK_VECTORS=1 BLOCK_N=64 BLOCKS_PER_TILE=2 BALANCE_CAUSAL=0",
     "fwd bf16 h2/1 q19 k37 d32 kcache=e4m3 vcache=int8 kscales=bhk vscales=bhk causal=br"},
    {"split_cpu UNIT=amx", "BLOCK_M=16 BLOCK_N=32 PREFETCH_TILES=1 SPLIT_K=2",
     "fwd bf16 h2/1 q3 k37 d32 kcache=int8 vcache=e4m3 kscales=bhk vscales=bhk causal=br"},
    {"fused_cpu UNIT=amx", "BLOCK_VECTORS=1 BLOCK_N=64 BLOCKS_PER_TILE=2 BALANCE_CAUSAL=0",
     "fwd f16 q35 k70 d33/20 causal=br klen lse"},
    {"split_cpu UNIT=amx", "BLOCK_M=16 BLOCK_N=32 PREFETCH_TILES=1 SPLIT_K=2",
     "fwd f16 h3/1 q5 k70 d32/64 kcache=q8_0 vcache=q4_1 klen lse"},
    {"fused_cpu UNIT=amx", "BLOCK_VECTORS=1 BLOCK_N=64 BLOCKS_PER_TILE=2 BALANCE_CAUSAL=0",
     "fwd f16 q35 k70 d33/20 causal=br klen lse precision=int8"},
    {"split_cpu UNIT=pairs", "BLOCK_M=32 BLOCK_N=32 PREFETCH_TILES=1 SPLIT_K=2",
     "fwd bf16 h4/1 q5 k53 d11/13 klen sinks lse"},
    {NULL, NULL, "bwd f32 q7 k9 d5"},
    {"backward_gpu UNIT=item", NULL, ALL_GRADIENTS},
    {"backward_cpu UNIT=vector", NULL, ALL_GRADIENTS},
    {"backward_gpu UNIT=item", SMALL_BLOCKS " OWNED_RESIDENT=0",
     "bwd f32 b2 h2/1 q19 k21 d11/13 causal=br bias=f32:k mask=bqk qlen dbias"},
    {"backward_gpu UNIT=item", SMALL_BLOCKS " OWNED_RESIDENT=1",
     "bwd bf16 h2 q19 k21 d11/13 bias=bf16:q alibi sinks dropout=0.3 dbias dslopes dsinks"},
    {"backward_gpu UNIT=item", SMALL_BLOCKS " STAGES=2 OWNED_RESIDENT=0",
     "bwd f32 b2 h4/2 q19 k21 d12/16 causal=br bias=f32:k qlen dbias"},
    {"backward_gpu UNIT=item", SMALL_BLOCKS " STAGES=2 OWNED_RESIDENT=1",
     "bwd f32 h2 q19 k21 d11/13 bias=f32:q alibi sinks dropout=0.3 dbias dslopes dsinks"},
    {"backward_gpu UNIT=item", SMALL_BLOCKS " STAGES=1 OWNED_RESIDENT=0 STORE_DS=1",
     "bwd f16 b2 h2/1 q19 k21 d11/13 window=9,2 sinks klen dsinks"},
    {"backward_gpu UNIT=item", SMALL_BLOCKS " STAGES=2 OWNED_RESIDENT=1 STORE_DS=1",
     "bwd f32 b2 h4/2 q19 k21 d12/16 causal=br qlen dropout=0.3"},
    {"backward_gpu UNIT=mma", SMALL_GRADIENTS " INSTRUCTION=1 DIM_GROUPS=2 STAGES=2",
     "bwd f16 h2/1 q19 k35 d16/9 causal=br klen sinks mask=qk dsinks"},
    {"backward_gpu UNIT=item", SMALL_BLOCKS " OWNED_RESIDENT=0",
     "bwd f32 b2 h2/1 q9 k21 d5 causal=br score=t5 dfunction"},
    {"backward_gpu UNIT=mma", SMALL_GRADIENTS " INSTRUCTION=5 DIM_GROUPS=1",
     "bwd bf16 q19 k20 d16 window=9,* dropout=0.3 bias=f32:qk dbias"},
    {"backward_gpu UNIT=mma", SMALL_GRADIENTS " INSTRUCTION=2 DIM_GROUPS=1",
     "bwd f16 q19 k18 d9 alibi dslopes bias=f16:k dbias"},
    {"backward_gpu UNIT=mma",
     "EMULATE=1 SUB_GROUPS=2 M_FRAGMENTS=2 BLOCK_STREAMED=16 EXP=2 INSTRUCTION=1 STAGES=2",
     "bwd f16 h2/1 q37 k35 d16 causal=br klen dropout=0.3"},
    {"backward_cpu UNIT=vector", SMALL_KEYS " BLOCKS_PER_TILE=2 SPLIT_K=2",
     "bwd f32 b2 h2/1 q29 k37 d11/13 causal=br bias=f32:h sinks klen dbias dsinks"},
    {"backward_cpu UNIT=amx", "BLOCK_VECTORS=2 BLOCK_M=32 BLOCKS_PER_TILE=1 SPLIT_K=2",
     "bwd bf16 h2/1 q37 k67 d11/13 causal=br bias=f32:h sinks dbias dsinks"},
    {"projection_cpu UNIT=vector", SMALL_ROWS " SPLIT_K=1",
     "proj f32 b2 h3/2 q9 d5/7 w=oi bias=f32"},
    {"projection_cpu UNIT=vector", SMALL_ROWS " SPLIT_K=2",
     "proj f16 h2 q5 d70/9 x=bhds bias=bf16 accumulate"},
    {"projection_gpu UNIT=item", SMALL_SQUARES " STAGES=1 SPLIT_K=1",
     "proj f32 b2 h3/2 q19 d9/7 bias=f32"},
    {"projection_gpu UNIT=item", SMALL_SQUARES " STAGES=2 SPLIT_K=1",
     "proj f32 q35 d20/33 w=oi accumulate"},
    {"projection_gpu UNIT=item", SMALL_SQUARES " STAGES=2 SPLIT_K=2",
     "proj bf16 h2 q5 d70/9 x=bhds w=0.9.630.1 y=90.45.9.1 bias=f32"},
    {"projection_gpu UNIT=item", SMALL_SQUARES " STAGES=2 COPIES=1 SPLIT_K=1",
     "proj f32 b2 h3/2 q19 d9/7 bias=f32"},
    {"projection_gpu UNIT=item", SMALL_SQUARES " STAGES=2 COPIES=1 SPLIT_K=2",
     "proj f32 q35 d140/36 w=oi accumulate"},
    {"projection_gpu UNIT=item",
     "BLOCK_M=16 BLOCK_N=16 THREAD_M=4 THREAD_N=4 BLOCK_K=32 GROUP_M=4 STAGES=2 COPIES=1 SPLIT_K=1",
     "proj f32 b2 h3/2 q19 d16/7 w=oi bias=f32"},
    {"projection_cpu UNIT=amx", "STRIP_K=32 BLOCK_K=64 BLOCK_M=32 BLOCK_N=32 SUMS_M=32 SPLIT_K=1",
     "proj bf16 h2/1 q35 d71/21 bias=f32 accumulate"},
    {"projection_cpu UNIT=amx", "STRIP_K=32 BLOCK_K=64 BLOCK_M=32 BLOCK_N=32 SUMS_M=32 SPLIT_K=2",
     "proj bf16 h2 q17 d70/9 x=bhds w=oi"},
    {"projection_gpu UNIT=warpgroup", "SUB_GROUPS=4 BLOCK_N=64 STAGES=1 SPLIT_K=1 EMULATE=1",
     "proj f16 q33 d64/24 w=oi"},
    {"projection_gpu UNIT=mma",
     SMALL_PRODUCTS " INSTRUCTION=1 BLOCK_N=32 BLOCK_K=16 STAGES=2 SPLIT_K=2",
     "proj f16 h1/2 q19 d70/9 x=bhds bias=f32"},
    {"projection_gpu UNIT=mma",
     SMALL_PRODUCTS " INSTRUCTION=1 BLOCK_N=32 BLOCK_K=32 STAGES=3 COPIES=1 SPLIT_K=1",
     "proj f16 q19 d136/40 bias=f32"},
    {"projection_gpu UNIT=mma",
     SMALL_PRODUCTS " INSTRUCTION=5 BLOCK_N=16 BLOCK_K=16 STAGES=1 SPLIT_K=1",
     "proj bf16 q9 d20/33 w=oi accumulate"},
    {"projection_gpu UNIT=mma",
     SMALL_PRODUCTS " INSTRUCTION=1 BLOCK_N=32 BLOCK_K=32 STAGES=2 COPIES=1 SPLIT_K=1",
     "proj f32 q19 d9/40 w=oi accumulate"},
    {"projection_gpu UNIT=mma",
     SMALL_PRODUCTS " INSTRUCTION=5 BLOCK_N=16 BLOCK_K=16 STAGES=1 SPLIT_K=2",
     "proj f32 q9 d130/20 x=bhds bias=f32"},
    {"merge_rows", "SIMD_WIDTH=4 ITEM_VECTORS=1 ROW_ITEMS=8 GROUP_ROWS=2 ITEM_ROWS=4",
     "merge f32 h3 q5 d37 n3 accumulate"},
    {"merge_rows", "SIMD_WIDTH=8 ITEM_VECTORS=2 ROW_ITEMS=1 GROUP_ROWS=1 ITEM_ROWS=4",
     "merge f16 h3 q5 d37 n9 parts=bshd sinks"},
    {"double_backward", "SIMD_WIDTH=4 OWNED=2 ROW_ITEMS=8 GROUP_TILES=2",
     "bwd2 f32 h4/2 q9 k21 d35/9 causal=br"},
    {"naive", NULL, "fwd f32 b2 h4/2 q7 k70 d19/5 causal=br klen sinks lse keysums scores=mean"},
    {"naive", NULL, "fwd f16 b3 h2/1 q5 k12 d17/4 totalq=9 totalkv=30 alibi lse keysums"},
    {"naive", NULL, "fwd f32 b2 h2/1 q3 k20 d8 page=4 pages=13 klen mask=qk lse keysums"},
    {"indexer",
     "UNIT=vector SIMD_WIDTH=4 REGISTER_VECTORS=2 REGISTER_ROWS=2 BLOCK_PANELS=2 QUERIES=2 "
     "SPLITS=2 GROUPS=2",
     "indexer f32 b2 h3 q5 k41 d6 topk=7 causal=br qlen klen page=4 scores"},
    {"indexer_gradients", "SIMD_WIDTH=4 ITEMS=1 RANGES=2",
     "indexer f16 b2 h3 q5 k9 d6 topk=7 causal=br qlen klen gradients"},
    {"indexer", "UNIT=item ITEMS=32 KEYS=1 SPLITS=2 GROUPS=2",
     "indexer f32 b2 h3 q2 k70 d6 topk=7 causal=br klen page=4 scores"},
    {"append_tokens", "SIMD_WIDTH=4 GROUP_ITEMS=32 HEAD_GROUPS=2",
     "append f32 b2 h4/2 q3 k9 d40 cache=f16 klen rope=halves:30:10000 queries=inplace"},
    {"append_tokens", "SIMD_WIDTH=8 GROUP_ITEMS=1 HEAD_GROUPS=1",
     "append f16 h2 q3 k9 d64/32 kcache=q8_0 vcache=q4_0 slots pos rope=pairs:64:tables:40 "
     "queries"},
    {"append_tokens", "SIMD_WIDTH=8 GROUP_ITEMS=1 HEAD_GROUPS=1 TOKENS=2 WHOLE_ROWS=1",
     "append f16 h2 q3 k9 d128/160 kcache=q8_0 vcache=q8_0 klen rope=halves:128:10000"},
    {"append_tokens", "SIMD_WIDTH=4 GROUP_ITEMS=32 HEAD_GROUPS=2",
     "append f32 b2 h4/2 q3 k9 d40 cache=f16 page=4 pages=7 klen"},
    {"naive", NULL, "fwd f32 b2 h4/2 q3 k70 d8 causal=br lse topk=9"},
    {"backward_gpu UNIT=item", SMALL_BLOCKS " OWNED_RESIDENT=0",
     "bwd f32 b2 h4/2 q9 k170 d8 causal=br sinks klen dsinks topk=3 topkheads"},
};

enum { NUM_ITEMS = sizeof items / sizeof *items };

#define RUNS_PAIRS SIZE_MAX

/* ---- how programs are compiled --------------------------------------------------------------- */

/* Added to the options of each program that is built from now on. Not by POCL_EXTRA_BUILD_FLAGS,
 * under which PoCL 6.0 loses memory that LeakSanitizer finds. */
static const char *more_options = "";

cl_int __real_clBuildProgram(cl_program program, cl_uint num_devices, const cl_device_id *devices,
                             const char *options,
                             void(CL_CALLBACK *notify)(cl_program program, void *user_data),
                             void *user_data);

cl_int __wrap_clBuildProgram(cl_program program, cl_uint num_devices, const cl_device_id *devices,
                             const char *options,
                             void(CL_CALLBACK *notify)(cl_program program, void *user_data),
                             void *user_data)
{
    char all[8192];

    snprintf(all, sizeof all, "%s%s", options ? options : "", more_options);
    return __real_clBuildProgram(program, num_devices, devices, all, notify, user_data);
}

/* A program takes PoCL four times as long to optimise: one in five, others in other runs. None with
 * emulated matrix instructions, of which PoCL 3.1 makes wrong code then (doc/design/drivers.md). */
static void choose_options(const clattn_context *context, const size_t pair, const char *tunables)
{
    const int is_pocl =
        strcmp(clattn_context_device(context)->platform_name, "Portable Computing Language") == 0;
    const int emulates = tunables != NULL && strstr(tunables, "EMULATE=1") != NULL;

    more_options = is_pocl && (emulates || (pair + run_seed()) % 5 != 0) ? " -cl-opt-disable" : "";
}

/* ---- items ----------------------------------------------------------------------------------- */

static void print_message(clattn_log_level level, const char *message, void *user_data)
{
    (void)user_data;
    if (level <= CLATTN_LOG_WARNING)
        fprintf(stderr, "clattn: %s\n", message);
}

struct comparing {
    const clattn_problem *problem;
    const struct tensor_view *got;
    size_t wrong;
};

/* Counts what is out of bounds and prints the first of it. */
static void compare(void *user, int id, const size_t at[4], const struct bounded *want,
                    size_t count)
{
    struct comparing *c = user;
    const struct tensor_shape s = tensor_shape_of(c->problem, id);

    for (size_t n = 0; s.present && n < count; n++) {
        const size_t index = tensor_index(&s, at[0], at[1], at[2], at[3] + n);
        const double got = tensor_load(&s, c->got->at[id], index);
        if (!within(got, want[n]) && c->wrong++ == 0)
            printf("  %s (%zu, %zu, %zu, %zu): got %.9g, want %.9g +- %.2g\n", s.name, at[0], at[1],
                   at[2], at[3] + n, got, want[n].value, want[n].bound);
    }
}

/* Fills what the problem reads; 0 without memory. */
static int fill(const clattn_problem *p, const struct tensor_view *view,
                unsigned char *const bytes[NUM_TENSORS])
{
    struct rng r = rng_seed(1);

    if (p->operation != CLATTN_FORWARD && p->operation != CLATTN_BACKWARD) {
        fill_operation(p, bytes, &r, 0);
        return 1;
    }
    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(p, id);
        if (s.present && !s.written)
            fill_input(p, (enum tensor_id)id, &s, &r, bytes[id]);
    }
    return p->operation == CLATTN_FORWARD || fill_results(p, view, bytes);
}

/* Computes the problem and compares; true if all went well. Tensors have exactly their size, so
 * that Oclgrind sees each access outside. */
static int run(clattn_context *context, const clattn_problem *p, const clattn_plan_options *options)
{
    unsigned char *bytes[NUM_TENSORS] = {NULL}, *results[NUM_TENSORS] = {NULL};
    struct tensor_view sent = {.at = {NULL}, .dropout_seed = 5, .dropout_offset = 2};
    int ok = 1;

    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(p, id);
        if (!s.present)
            continue;
        const size_t size = tensor_bytes(&s, s.extent);
        sent.at[id] = bytes[id] = calloc(size, 1);
        results[id] = s.written ? malloc(size) : NULL;
        ok = ok && bytes[id] != NULL && (!s.written || results[id] != NULL);
    }
    ok = ok && fill(p, &sent, bytes);
    struct tensor_view got = sent;
    for (int id = 0; ok && id < NUM_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(p, id);
        if (results[id] != NULL)
            got.at[id] = memcpy(results[id], bytes[id], tensor_bytes(&s, s.extent));
    }
    struct comparing c = {.problem = p, .got = &got};
    sent.chosen = p->operation == CLATTN_INDEXER ? got.at[INDEXER_TOPK_INDICES] : NULL;
    ok = ok && tensor_execute_host(context, p, options, &got) == CLATTN_SUCCESS &&
         judge_results(p, &sent, PRECISION_SINGLE, INFINITY, compare, &c) && c.wrong == 0;
    for (int id = 0; id < NUM_TENSORS; id++) {
        free(bytes[id]);
        free(results[id]);
    }
    return ok;
}

/* The n-th family that an item is for; NULL if there are no more. */
static const char *family_of(const struct item *item, const clattn_problem *p, size_t n)
{
    if (item->family == NULL)
        return clattn_family_name(p->operation, n);
    return n == 0 ? item->family : NULL;
}

/* Returns whether all work-groups are of one item there: families that need more are refused
 * (doc/design/drivers.md). */
static int lacks_groups(const clattn_context *context)
{
    return clattn_context_device(context)->max_work_group_size == 1;
}

/* Computes the item by one family, if that can; 0 if it goes wrong. */
static int run_item(clattn_context *context, const struct item *item, const clattn_problem *p,
                    const char *family)
{
    const clattn_plan_options options = {
        .struct_size = sizeof options, .family = family, .tunables = item->tunables};
    int ok;

    if (clattn_plan_supports(context, p, &options) != CLATTN_SUCCESS) {
        ok = item->family == NULL || lacks_groups(context);
        printf("%s %s: %s\n", ok ? "    " : "FAIL", family, clattn_context_last_error(context));
        return ok;
    }
    ok = run(context, p, &options);
    printf("%s %s: %s\n", ok ? "ok  " : "FAIL", family, item->problem);
    return ok;
}

/* The same for what has no family. */
static int run_calls(clattn_context *context, size_t which, int *runs)
{
    int failures = 0, ok = 1;

    for (size_t n = which == RUNS_PAIRS ? 0 : which; ok >= 0; n++) {
        ok = race_call(context, n);
        failures += ok == 0;
        *runs += ok >= 0;
        if (which != RUNS_PAIRS)
            break;
    }
    return failures;
}

/* Runs pair `which` of an item and a family, or this run's; the number of failures. */
static int run_pairs(clattn_context *context, size_t which, int *runs)
{
    size_t pair = 0;
    int failures = 0;

    for (const struct item *item = items; item < items + NUM_ITEMS; item++) {
        clattn_problem p;
        char reason[256];
        const char *family;
        if (clattn_problem_parse(item->problem, &p, reason, sizeof reason) != CLATTN_SUCCESS) {
            printf("FAIL %s: %s\n", item->problem, reason);
            return 1;
        }
        for (size_t n = 0; (family = family_of(item, &p, n)) != NULL; n++, pair++)
            if (which == RUNS_PAIRS ? run_takes(pair, 12) : which == pair) {
                choose_options(context, pair, item->tunables);
                failures += !run_item(context, item, &p, family);
                ++*runs;
            }
    }
    if (which >= pair)
        failures += run_calls(context, which == RUNS_PAIRS ? which : which - pair, runs);
    return failures;
}

/* Returns whether the items of a family can be had on every CPU that is described: a device of
 * another machine must not refuse them. The number of failures. */
static int check_cpus(void)
{
    int failures = 0;

    for (size_t n = 0; n < NUM_CPUS; n++) {
        const clattn_device_info cpu = cpu_described(n);
        const clattn_context_options context_options = {
            .struct_size = sizeof context_options, .log = print_message, .profile = &cpu};
        clattn_context *context;
        if (clattn_context_create_default(NULL, &context_options, &context) != CLATTN_SUCCESS)
            return failures + 1;
        for (const struct item *item = items; item < items + NUM_ITEMS; item++) {
            const clattn_plan_options options = {
                .struct_size = sizeof options, .family = item->family, .tunables = item->tunables};
            clattn_problem p;
            if (clattn_problem_parse(item->problem, &p, NULL, 0) == CLATTN_SUCCESS &&
                clattn_plan_supports(context, &p, &options) != CLATTN_SUCCESS) {
                failures++;
                printf("FAIL on a %s: %s, %s\n", cpu.name, item->problem,
                       clattn_context_last_error(context));
            }
        }
        clattn_context_release(context);
    }
    return failures;
}

/* A kernel whose work-items read each other's local memory without a barrier between. */
static int run_racy(clattn_context *context, int *runs)
{
    static const char *source = "__kernel void racy(__global int *out) {"
                                "    __local int tile[4];"
                                "    const int n = get_local_id(0);"
                                "    tile[n] = n;"
                                "    out[n] = tile[3 - n];"
                                "}";
    cl_context opencl = clattn_context_opencl(context);
    cl_device_id device = clattn_context_device(context)->device;
    const size_t size = 4;
    cl_program program = clCreateProgramWithSource(opencl, 1, &source, NULL, NULL);
    int ok = program != NULL && clBuildProgram(program, 1, &device, "", NULL, NULL) == CL_SUCCESS;
    cl_kernel kernel = ok ? clCreateKernel(program, "racy", NULL) : NULL;
    cl_mem out = clCreateBuffer(opencl, CL_MEM_WRITE_ONLY, size * sizeof(cl_int), NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(opencl, device, 0, NULL);

    ok =
        kernel != NULL && out != NULL && queue != NULL &&
        clSetKernelArg(kernel, 0, sizeof out, &out) == CL_SUCCESS &&
        clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &size, &size, 0, NULL, NULL) == CL_SUCCESS &&
        clFinish(queue) == CL_SUCCESS;
    ++*runs;
    printf("%s racy\n", ok ? "ok  " : "FAIL");
    return ok ? 0 : 1; /* the process ends here; its OpenCL objects end with it */
}

int main(int argc, char **argv)
{
    const clattn_context_options options = {
        .struct_size = sizeof options, .log = print_message, .skip_self_checks = 1};
    clattn_context *context;
    int failures = 0, runs = 0;

    if (clattn_context_create_default(NULL, &options, &context) != CLATTN_SUCCESS)
        return 1;
    printf("on %s\n", clattn_context_device(context)->name);
    if (argc > 1 && strcmp(argv[1], "--racy") == 0)
        failures = run_racy(context, &runs);
    else
        failures = run_pairs(context, argc > 1 ? strtoul(argv[1], NULL, 10) : RUNS_PAIRS, &runs);
    if (lacks_groups(context))
        printf("skipped: kernels whose work-groups have several items: PoCL newer than 3 compiles "
               "them "
               "wrongly (doc/design/drivers.md)\n");
    else if (argc == 1)
        failures += check_cpus();
    clattn_context_release(context);
    printf("%d runs, %d failures\n", runs, failures);
    return failures > 0 ? 1 : runs > 0 ? 0 : 3;
}
