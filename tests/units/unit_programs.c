/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/units/unit_programs.h"

/* ---- forward --------------------------------------------------------------------------------- */

/* Every instruction's layout, and between them every option, both dtypes, and every way to load and to keep. */
static const struct unit_program fused_mma[] = {
    {"f16 d24/40 causal=br klen qlen lse odtype=f32",
     "INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=16 Q_RESIDENT=1 EXP=2"},
    {"bf16 d80/96 window=40,* lse strict",
     "INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=2 BLOCK_N=32 Q_RESIDENT=0 STAGES=2 EXP=2"},
    {"bf16 d20/33 window=9,3 alibi softcap=4 sinks lse odtype=f32",
     "INSTRUCTION=2 SUB_GROUPS=1 M_FRAGMENTS=2 BLOCK_N=32 Q_RESIDENT=0 EXP=0"},
    {"f16 d40/64 mask=bqk bias=f16:hqk sinks lse",
     "INSTRUCTION=3 SUB_GROUPS=1 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 EXP=2"},
    {"bf16 d72/16 causal=tl dropout=0.3 klen",
     "INSTRUCTION=4 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=16 Q_RESIDENT=1 EXP=2"},
    {"f16 d9/8 window=30,* dropout=0.2 mask=qk lse",
     "INSTRUCTION=5 SUB_GROUPS=4 M_FRAGMENTS=2 BLOCK_N=16 Q_RESIDENT=0 EXP=2"},
    {"bf16 d64/128 bias=f32:qk alibi lse q=bshd k=bshd v=bshd o=bshd",
     "INSTRUCTION=6 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=48 Q_RESIDENT=1 EXP=2"},
    {"f16 d24/40 page=16 pages=40 klen causal=br sinks lse",
     "INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 EXP=2"},
    {"f16 d64/96 kcache=q8_0 vcache=q8_0 causal=br klen lse odtype=f32",
     "INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 EXP=2"},
    {"bf16 d96/64 kcache=q8_0 vcache=q4_0 page=16 pages=60 klen lse odtype=f32",
     "INSTRUCTION=2 SUB_GROUPS=1 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 EXP=2"},
    {"f16 d40/64 vcache=q4_0 mask=bqk sinks lse strict odtype=f32",
     "INSTRUCTION=3 SUB_GROUPS=1 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 EXP=2"},
    {"bf16 d32/64 kcache=q5_0 vcache=q8_0 window=9,3 lse strict odtype=f32",
     "INSTRUCTION=4 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 EXP=2"},
    {"f16 d32 kcache=q4_0 vcache=q4_0 dropout=0.2 mask=qk lse",
     "INSTRUCTION=5 SUB_GROUPS=4 M_FRAGMENTS=2 BLOCK_N=16 Q_RESIDENT=0 EXP=2"},
    {"f16 d64/96 kcache=q8_0 vcache=q5_0 page=16 pages=60 klen lse odtype=f32",
     "INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 BYTES=1 EXP=2"},
    {"bf16 d96/32 kcache=q5_0 vcache=q8_0 causal=br k=bshd v=bshd lse odtype=f32",
     "INSTRUCTION=1 SUB_GROUPS=1 M_FRAGMENTS=2 BLOCK_N=16 Q_RESIDENT=0 BYTES=1 EXP=2"},
    {"f16 d64/16 kcache=q8_0 bias=f32:qk lse",
     "INSTRUCTION=6 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=48 Q_RESIDENT=1 EXP=2"},
    /* f32 in parts of bf16 (cl/mma/fragment_planes.h) */
    {"f32 d24/40 causal=br klen qlen lse q=bhds",
     "INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=16 Q_RESIDENT=0 EXP=2"},
    {"f32 d80/64 window=40,* sinks lse",
     "INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=2 BLOCK_N=32 Q_RESIDENT=0 STAGES=2 EXP=2"},
    {"f32 d20/33 alibi softcap=4 lse k=bshd v=bshd",
     "INSTRUCTION=2 SUB_GROUPS=1 M_FRAGMENTS=2 BLOCK_N=32 Q_RESIDENT=0 EXP=0"},
    {"f32 d40/128 mask=bqk bias=f32:hqk lse",
     "INSTRUCTION=3 SUB_GROUPS=1 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 EXP=2"},
    {"f32 d72/16 causal=tl dropout=0.3 klen",
     "INSTRUCTION=4 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=16 Q_RESIDENT=0 EXP=2"},
    {"f32 d9/8 blocks=16x8:20 lse",
     "INSTRUCTION=5 SUB_GROUPS=4 M_FRAGMENTS=2 BLOCK_N=16 Q_RESIDENT=0 EXP=2"},
    {"f32 d48 causal=br", "INSTRUCTION=6 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=48 Q_RESIDENT=0 EXP=2"},
};

static const struct unit_program fused_mma_masked[] = {
    {"bf16 d20/33 page=5 pages=60 window=9,* mask=qk maskkeys=3 blocks=16x8:20 lse",
     "INSTRUCTION=4 SUB_GROUPS=1 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 EXP=2"},
};

/* Each size of an instruction, of keys and of dims, both dtypes, both precisions, and one to
 * three warpgroups. Softmax overlaps with products, and some options change values between
 * loading and storing. */
static const struct unit_program fused_warpgroup[] = {
    {"f16 d64/192 causal=br klen qlen sinks lse odtype=f32", "SUB_GROUPS=4 BLOCK_N=32 EXP=2"},
    {"bf16 d128 window=9,30 softcap=4 lse q=bshd k=bshd v=bshd o=bshd",
     "SUB_GROUPS=8 BLOCK_N=64 Q_RESIDENT=0 EXP=0"},
    {"f16 d64 mask=bqk bias=f16:hqk dropout=0.2 strict", "SUB_GROUPS=4 BLOCK_N=128 EXP=2"},
    {"f16 d128 causal=br lse", "SUB_GROUPS=12 BLOCK_N=32 STAGES=2 EXP=2"},
    {"bf16 d64 causal=br", "SUB_GROUPS=8 BLOCK_N=32 Q_RESIDENT=0 STAGES=2 OVERLAP=1 EXP=2"},
    {"f16 d64/128 causal=br window=40,0 sinks lse strict",
     "SUB_GROUPS=8 BLOCK_N=64 STAGES=2 OVERLAP=1 EXP=2"},
    {"f16 d128 causal=br window=70,0 lse",
     "SUB_GROUPS=8 BLOCK_N=64 STAGES=2 OVERLAP=1 PRODUCER=1 RESIDENT_GROUPS=1 EXP=2"},
    {"bf16 d64/128 klen q=bshd k=bshd v=bshd",
     "SUB_GROUPS=12 BLOCK_N=32 Q_RESIDENT=0 STAGES=3 OVERLAP=1 PRODUCER=2 RESIDENT_GROUPS=1 EXP=2"},
    {"bf16 d192/128 page=5 pages=60 klen alibi strict lse", "SUB_GROUPS=4 BLOCK_N=64 EXP=2"},
    {"f16 d80/112 causal=br dropout=0.2 lse",
     "SUB_GROUPS=8 BLOCK_N=128 Q_RESIDENT=0 STAGES=2 OVERLAP=1 PRODUCER=1 DRAWERS=2 "
     "RESIDENT_GROUPS=1 EXP=3"},
    {"bf16 d72/144 dropout=0.3 window=50,9 alibi klen strict",
     "SUB_GROUPS=12 BLOCK_N=32 STAGES=3 OVERLAP=1 PRODUCER=2 DRAWERS=1 RESIDENT_GROUPS=1 EXP=2"},
    {"f16 d48/96 softcap=2 alibi causal=br lse", "SUB_GROUPS=4 BLOCK_N=64 Q_RESIDENT=0 EXP=3"},
    {"f32 d64/128 klen qlen causal=br lse q=bhds",
     "SUB_GROUPS=8 BLOCK_N=32 Q_RESIDENT=0 STAGES=1 PRODUCER=1 RESIDENT_GROUPS=1 EXP=2"},
    {"f32 d128/64 window=70,0 mask=bqk bias=f32:hqk sinks lse",
     "SUB_GROUPS=4 BLOCK_N=64 Q_RESIDENT=0 STAGES=2 PRODUCER=2 RESIDENT_GROUPS=1 EXP=2"},
};

/* Likewise; of a kv head there are 1 to 128 rows, which fill no fragment or many. */
static const struct unit_program split_mma[] = {
    {"f16 d24/40 causal=br klen qlen lse odtype=f32",
     "INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=0 SPLIT_K=3 EXP=2"},
    {"bf16 d20/33 window=9,3 alibi softcap=4 sinks lse odtype=f32",
     "INSTRUCTION=2 SUB_GROUPS=2 M_FRAGMENTS=2 BLOCK_N=32 Q_RESIDENT=1 KV_PARTS=1 SPLIT_K=2 EXP=0"},
    {"f16 d40/64 mask=bqk bias=f16:hqk sinks lse strict",
     "INSTRUCTION=3 SUB_GROUPS=1 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=4 SPLIT_K=2 EXP=2"},
    {"bf16 d72/16 page=16 pages=40 klen causal=br",
     "INSTRUCTION=4 SUB_GROUPS=2 M_FRAGMENTS=4 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=2 SPLIT_K=2 EXP=2"},
    {"bf16 d64/128 bias=f32:qk lse q=bshd k=bshd v=bshd o=bshd",
     "INSTRUCTION=6 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 KV_PARTS=0 SPLIT_K=6 EXP=2"},
    {"f16 d24/40 blocks=2x20:30:h mask=qk sinks lse",
     "INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=0 SPLIT_K=2 EXP=2"},
    {"bf16 d16 blocks=16x48:3 page=16 pages=60 klen lse",
     "INSTRUCTION=2 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=1 SPLIT_K=1 EXP=2"},
    {"f16 d64/128 kcache=q8_0 vcache=q8_0 causal=br klen lse odtype=f32",
     "INSTRUCTION=1 SUB_GROUPS=4 M_FRAGMENTS=1 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=0 SPLIT_K=3 EXP=2"},
    {"bf16 d96 kcache=q4_0 vcache=q8_0 page=16 pages=60 klen lse odtype=f32",
     "INSTRUCTION=2 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=2 SPLIT_K=2 EXP=2"},
    {"f16 d64/32 kcache=q8_0 vcache=q4_0 mask=qk sinks lse strict odtype=f32",
     "INSTRUCTION=3 SUB_GROUPS=1 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 KV_PARTS=1 SPLIT_K=2 EXP=2"},
    {"bf16 d128/96 kcache=q8_0 lse odtype=f32",
     "INSTRUCTION=4 SUB_GROUPS=2 M_FRAGMENTS=2 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=0 SPLIT_K=2 EXP=2"},
    {"bf16 d72/96 vcache=q4_0 window=30,* lse strict odtype=f32",
     "INSTRUCTION=5 SUB_GROUPS=4 M_FRAGMENTS=2 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=4 SPLIT_K=4 EXP=2"},
    {"f16 d64/96 kcache=q4_0 vcache=q8_0 bias=f32:qk lse",
     "INSTRUCTION=6 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 KV_PARTS=0 SPLIT_K=6 EXP=2"},
    {"f16 d64/128 kcache=q8_0 vcache=q4_0 causal=br klen lse odtype=f32",
     "INSTRUCTION=1 SUB_GROUPS=4 M_FRAGMENTS=1 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=1 SPLIT_K=3 "
     "BYTES=1 EXP=2"},
    {"f16 d96 kcache=q8_0 vcache=q8_0 causal=br alibi sinks lse",
     "INSTRUCTION=1 SUB_GROUPS=4 M_FRAGMENTS=1 BLOCK_N=128 Q_RESIDENT=0 KV_PARTS=1 SPLIT_K=2 "
     "BYTES=1 EXP=2"},
    {"bf16 d128/96 kcache=q4_0 vcache=q8_0 page=16 pages=60 klen lse odtype=f32",
     "INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 KV_PARTS=1 SPLIT_K=2 "
     "BYTES=1 EXP=2"},
    {"bf16 d32/256 kcache=q8_0 vcache=q4_0 mask=qk k=bshd v=bshd lse strict odtype=f32",
     "INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=2 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=1 SPLIT_K=2 "
     "BYTES=1 EXP=2"},
    {"f16 d64/128 kcache=q8_0 vcache=q4_0 causal=br klen lse odtype=f32",
     "INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=1 SPLIT_K=3 "
     "BYTES=2 HALF_ROWS=1 EXP=2"},
    {"f16 d128 kcache=q8_0 vcache=q8_0 causal=br alibi sinks lse",
     "INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=1 SPLIT_K=2 "
     "BYTES=2 HALF_ROWS=1 EXP=2"},
    {"bf16 d128/96 kcache=q5_0 vcache=q8_0 page=16 pages=60 klen lse odtype=f32",
     "INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=1 SPLIT_K=2 "
     "BYTES=2 HALF_ROWS=0 EXP=2"},
    {"f16 d96/64 kcache=q5_0 vcache=q5_0 mask=qk k=bshd v=bshd lse strict odtype=f32",
     "INSTRUCTION=1 SUB_GROUPS=4 M_FRAGMENTS=1 BLOCK_N=128 Q_RESIDENT=0 KV_PARTS=1 SPLIT_K=2 "
     "BYTES=2 HALF_ROWS=0 EXP=2"},
    {"bf16 d32/256 kcache=q8_0 vcache=q4_0 bias=f32:qk window=30,* lse strict odtype=f32",
     "INSTRUCTION=1 SUB_GROUPS=1 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=1 SPLIT_K=1 "
     "BYTES=2 HALF_ROWS=1 EXP=2"},
};

/* These need some keys. */
static const struct unit_program split_mma_keys[] = {
    {"bf16 d16 causal=br totalq=70 totalkv=300 lse",
     "INSTRUCTION=1 SUB_GROUPS=4 M_FRAGMENTS=2 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=1 SPLIT_K=3 EXP=2"},
    {"bf16 d9/8 window=30,* mask=qk maskkeys=4 lse strict",
     "INSTRUCTION=5 SUB_GROUPS=4 M_FRAGMENTS=2 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=0 SPLIT_K=4 EXP=2"},
};

/* All options between them, odd dims, and tiles that end, and windows that begin, within a pair of keys. */
static const struct unit_program fused_pairs[] = {
    {"bf16 d33/20 causal=br klen qlen lse odtype=f32",
     "BLOCK_VECTORS=2 QK_KEYS=4 PV_COLUMNS=5 BLOCK_N=24 BLOCKS_PER_TILE=2"},
    {"bf16 d64 window=9,4 alibi softcap=4 sinks lse q=bshd k=bshd v=bshd o=bshd",
     "BLOCK_VECTORS=3 QK_KEYS=8 PV_COLUMNS=8 BLOCK_N=48 BLOCKS_PER_TILE=1"},
    {"bf16 d40/33 mask=bqk bias=f16:hqk dropout=0.3 lse",
     "BLOCK_VECTORS=4 QK_KEYS=6 PV_COLUMNS=6 BLOCK_N=24 BLOCKS_PER_TILE=2"},
    {"bf16 d9/8 window=30,* totalq=300 totalkv=300",
     "BLOCK_VECTORS=1 QK_KEYS=12 PV_COLUMNS=12 BLOCK_N=24 BLOCKS_PER_TILE=4"},
    {"bf16 d32 page=5 pages=90 klen causal=br sinks",
     "BLOCK_VECTORS=2 QK_KEYS=8 PV_COLUMNS=4 BLOCK_N=24 BLOCKS_PER_TILE=2"},
    {"bf16 d24 blocks=16x7:60:h mask=qk lse",
     "BLOCK_VECTORS=2 QK_KEYS=8 PV_COLUMNS=8 BLOCK_N=48 BLOCKS_PER_TILE=1"},
    {"bf16 d32/64 kcache=int8 vcache=e4m3 kscales=bhk vscales=bhk causal=br lse",
     "BLOCK_VECTORS=3 QK_KEYS=8 PV_COLUMNS=8 BLOCK_N=48 BLOCKS_PER_TILE=2"},
    {"bf16 d64/32 kcache=e5m2 vcache=int8 vscales=h dropout=0.3 window=30,*",
     "BLOCK_VECTORS=2 QK_KEYS=4 PV_COLUMNS=5 BLOCK_N=24 BLOCKS_PER_TILE=4"},
    {"bf16 d32 kcache=e4m3 kscales=h page=5 pages=90 klen softcap=4",
     "BLOCK_VECTORS=1 QK_KEYS=12 PV_COLUMNS=12 BLOCK_N=24 BLOCKS_PER_TILE=4"},
};

static const struct unit_program fused_amx[] = {
    {"bf16 d33/20 causal=br klen qlen lse odtype=f32",
     "BLOCK_VECTORS=2 BLOCK_N=64 BLOCKS_PER_TILE=2"},
    {"bf16 d64 window=9,4 alibi softcap=4 sinks lse q=bshd k=bshd v=bshd o=bshd",
     "BLOCK_VECTORS=3 BLOCK_N=96 BLOCKS_PER_TILE=1"},
    {"bf16 d40/33 mask=bqk bias=f16:hqk dropout=0.3 lse",
     "BLOCK_VECTORS=4 BLOCK_N=64 BLOCKS_PER_TILE=2"},
    {"bf16 d9/8 window=30,* totalq=300 totalkv=300",
     "BLOCK_VECTORS=1 BLOCK_N=64 BLOCKS_PER_TILE=4"},
    {"bf16 d32 page=5 pages=90 klen causal=br sinks",
     "BLOCK_VECTORS=2 BLOCK_N=64 BLOCKS_PER_TILE=2"},
    {"bf16 d24 blocks=16x7:60:h mask=qk lse", "BLOCK_VECTORS=2 BLOCK_N=128 BLOCKS_PER_TILE=1"},
    {"bf16 d16/40 scale=-0.3 window=*,20", "BLOCK_VECTORS=1 BLOCK_N=64 BLOCKS_PER_TILE=1"},
    {"bf16 d32 scale=0 k=0.0.0.1 lse", "BLOCK_VECTORS=2 BLOCK_N=64 BLOCKS_PER_TILE=1"},
    {"bf16 d20/24 lse", "BLOCK_VECTORS=2 BLOCK_N=64 BLOCKS_PER_TILE=1"},
    /* The first block's 16 keys are half a step, in whose other half are infinities that later blocks see. */
    {"bf16 d17/7 causal=tl", "BLOCK_VECTORS=1 BLOCK_N=64 BLOCKS_PER_TILE=4"},
    {"bf16 d32/64 kcache=int8 vcache=e4m3 kscales=bhk vscales=bhk causal=br lse",
     "BLOCK_VECTORS=3 BLOCK_N=96 BLOCKS_PER_TILE=2"},
    {"bf16 d64/32 kcache=e5m2 vcache=int8 vscales=h dropout=0.3 window=30,*",
     "BLOCK_VECTORS=2 BLOCK_N=64 BLOCKS_PER_TILE=4"},
    {"bf16 d32 kcache=e4m3 kscales=h page=5 pages=90 klen softcap=4",
     "BLOCK_VECTORS=1 BLOCK_N=64 BLOCKS_PER_TILE=1"},
    /* Sums of parts (cl/bf16/parts.h): those of f16 first. */
    {"f16 d33/20 causal=br klen qlen lse odtype=f32",
     "BLOCK_VECTORS=2 BLOCK_N=64 BLOCKS_PER_TILE=2"},
    {"f16 d40/33 mask=bqk bias=f16:hqk dropout=0.3 lse q=0.0.0.1",
     "BLOCK_VECTORS=4 BLOCK_N=64 BLOCKS_PER_TILE=2"},
    {"f16 d64/32 kcache=q8_0 vcache=q4_0 page=5 pages=90 klen causal=br sinks",
     "BLOCK_VECTORS=2 BLOCK_N=96 BLOCKS_PER_TILE=2"},
    {"f16 d32/64 kcache=e4m3 vcache=int8 vscales=bhk window=30,* softcap=4",
     "BLOCK_VECTORS=1 BLOCK_N=64 BLOCKS_PER_TILE=4"},
    {"bf16 d96/64 kcache=iq4_nl vcache=q5_1 blocks=16x7:60:h lse",
     "BLOCK_VECTORS=3 BLOCK_N=128 BLOCKS_PER_TILE=1"},
    /* Tiles of bytes: dims that fill none, means of keys, and bytes that a cache has. */
    {"bf16 d33/20 causal=br klen qlen lse precision=int8",
     "BLOCK_VECTORS=2 BLOCK_N=64 BLOCKS_PER_TILE=2"},
    {"f16 d72/40 mask=bqk bias=f16:hqk page=5 pages=90 klen lse precision=int8",
     "BLOCK_VECTORS=3 BLOCK_N=96 BLOCKS_PER_TILE=1"},
    {"bf16 d96/64 kcache=int8 kscales=bhk vcache=q4_0 softcap=4 sinks precision=int8",
     "BLOCK_VECTORS=1 BLOCK_N=64 BLOCKS_PER_TILE=4"},
};

/* Sums of parts in bf16 (cl/bf16/parts.h): of f16, and of blocks with scales. */
static const struct unit_program split_parts[] = {
    {"f16 d33/20 causal=br klen qlen lse odtype=f32",
     "BLOCK_M=16 BLOCK_N=32 PREFETCH_TILES=1 SPLIT_K=2"},
    {"f16 d40/33 mask=bqk bias=f16:hqk dropout=0.3 lse q=0.0.0.1",
     "BLOCK_M=64 BLOCK_N=32 PREFETCH_TILES=2 SPLIT_K=1"},
    {"f16 d64/32 kcache=q5_0 vcache=q4_1 page=5 pages=90 klen causal=br sinks",
     "BLOCK_M=16 BLOCK_N=32 PREFETCH_TILES=1 SPLIT_K=2"},
    {"f16 d32/64 kcache=e4m3 vcache=int8 vscales=bhk window=30,* softcap=4",
     "BLOCK_M=32 BLOCK_N=64 PREFETCH_TILES=0 SPLIT_K=1"},
    {"bf16 d96/64 kcache=q8_0 vcache=iq4_nl lse",
     "BLOCK_M=128 BLOCK_N=64 PREFETCH_TILES=1 SPLIT_K=1"},
};

/* Odd dims, ranges and tiles that end within a step of 32 keys, and blocks of rows that are not full. */
static const struct unit_program split_bf16[] = {
    {"bf16 d33/20 causal=br klen qlen lse odtype=f32",
     "BLOCK_M=16 BLOCK_N=32 PREFETCH_TILES=1 SPLIT_K=2"},
    {"bf16 d64 window=9,4 alibi softcap=4 sinks lse q=bshd k=bshd v=bshd o=bshd",
     "BLOCK_M=32 BLOCK_N=64 PREFETCH_TILES=0 SPLIT_K=1"},
    {"bf16 d40/33 mask=bqk bias=f16:hqk dropout=0.3 lse",
     "BLOCK_M=64 BLOCK_N=32 PREFETCH_TILES=2 SPLIT_K=1"},
    {"bf16 d9/8 window=30,* totalq=300 totalkv=300",
     "BLOCK_M=16 BLOCK_N=128 PREFETCH_TILES=1 SPLIT_K=1"},
    {"bf16 d32 page=5 pages=90 klen causal=br sinks",
     "BLOCK_M=16 BLOCK_N=32 PREFETCH_TILES=1 SPLIT_K=2"},
    {"bf16 d16/80 scale=-0.3 k=0.0.0.1", "BLOCK_M=128 BLOCK_N=64 PREFETCH_TILES=1 SPLIT_K=1"},
    {"bf16 d32/64 kcache=int8 vcache=e4m3 kscales=bhk vscales=bhk causal=br lse",
     "BLOCK_M=32 BLOCK_N=32 PREFETCH_TILES=1 SPLIT_K=2"},
    {"bf16 d64/32 kcache=e5m2 vcache=int8 vscales=h dropout=0.3 window=30,*",
     "BLOCK_M=16 BLOCK_N=64 PREFETCH_TILES=2 SPLIT_K=1"},
    {"bf16 d32 kcache=e4m3 kscales=h page=5 pages=90 klen softcap=4",
     "BLOCK_M=64 BLOCK_N=64 PREFETCH_TILES=1 SPLIT_K=1"},
};

/* ---- gradients ------------------------------------------------------------------------------- */

/* Between them every option, all tensors' layouts and every way to divide the dims. */
static const struct unit_program backward_mma[] = {
    {"f16 d24/40 causal=br klen qlen sinks dsinks dlse",
     "INSTRUCTION=1 SUB_GROUPS=2 DIM_GROUPS=1 BLOCK_STREAMED=32 STAGES=2"},
    {"bf16 d20/33 window=9,3 alibi softcap=4 dslopes",
     "INSTRUCTION=2 SUB_GROUPS=1 DIM_GROUPS=2 BLOCK_STREAMED=16"},
    {"f16 d40/64 mask=bqk bias=f16:hqk dbias",
     "INSTRUCTION=3 SUB_GROUPS=2 DIM_GROUPS=1 BLOCK_STREAMED=32"},
    {"bf16 d72/16 causal=tl dropout=0.3 bias=f32:hk dbias",
     "INSTRUCTION=4 SUB_GROUPS=1 DIM_GROUPS=2 BLOCK_STREAMED=64"},
    {"f16 d9/8 window=30,* dropout=0.2 mask=qk bias=bf16:q dbias",
     "INSTRUCTION=5 SUB_GROUPS=4 DIM_GROUPS=2 BLOCK_STREAMED=16"},
    {"bf16 d64/128 q=bshd k=bshd v=bhds o=bshd do=bshd dq=bhds dk=bshd dv=bshd",
     "INSTRUCTION=6 SUB_GROUPS=2 DIM_GROUPS=1 BLOCK_STREAMED=32"},
    {"bf16 d40/8 blocks=16x16:20 mask=qk",
     "INSTRUCTION=1 SUB_GROUPS=1 DIM_GROUPS=2 BLOCK_STREAMED=16"},
    {"f32 d24/40 causal=br klen qlen sinks dsinks dlse",
     "INSTRUCTION=1 SUB_GROUPS=2 DIM_GROUPS=1 BLOCK_STREAMED=32 STAGES=2"},
    {"f32 d20/33 mask=bqk bias=f16:hqk dbias q=sdbh k=bhds",
     "INSTRUCTION=2 SUB_GROUPS=1 DIM_GROUPS=2 BLOCK_STREAMED=16"},
    {"f32 d64 dropout=0.3 softcap=4 alibi dslopes",
     "INSTRUCTION=3 SUB_GROUPS=1 DIM_GROUPS=1 BLOCK_STREAMED=32"},
    {"f32 d9/8 totalq=260 totalkv=300 strict",
     "INSTRUCTION=4 SUB_GROUPS=2 DIM_GROUPS=1 BLOCK_STREAMED=32"},
    {"f32 d40 blocks=16x16:20 q=bshd do=bshd dq=bshd",
     "INSTRUCTION=6 SUB_GROUPS=2 DIM_GROUPS=2 BLOCK_STREAMED=32"},
    {"f16 d16 causal=br totalq=60 totalkv=80 sinks dsinks alibi dslopes",
     "INSTRUCTION=1 SUB_GROUPS=2 DIM_GROUPS=1 BLOCK_STREAMED=16 STAGES=2"},
    {"f16 d24 causal=br klen qlen mask=qk sinks dsinks",
     "INSTRUCTION=1 SUB_GROUPS=2 DIM_GROUPS=1 M_FRAGMENTS=2 BLOCK_STREAMED=32 STAGES=2"},
    {"bf16 d64 window=9,30 alibi",
     "INSTRUCTION=1 SUB_GROUPS=4 DIM_GROUPS=1 M_FRAGMENTS=2 BLOCK_STREAMED=16 STAGES=1"},
};

/* Both sizes of tiles and of dims, both dtypes, and each option. */
static const struct unit_program backward_warpgroup[] = {
    {"f16 d64/128 causal=br klen qlen sinks dsinks dlse", "BLOCK_STREAMED=32 STAGES=1"},
    {"bf16 d128/64 window=9,30 softcap=4 q=bshd k=bshd do=bshd dk=bshd",
     "BLOCK_STREAMED=64 STAGES=2"},
    {"bf16 d64 mask=bqk bias=f16:hqk dropout=0.2 alibi dslopes", "BLOCK_STREAMED=32 STAGES=1"},
    {"bf16 d128 totalq=260 totalkv=300", "BLOCK_STREAMED=128 STAGES=2"},
    {"f16 d64 blocks=16x16:20", "BLOCK_STREAMED=64 STAGES=2"},
    {"f16 d64/128 causal=br klen qlen alibi", "BLOCK_STREAMED=32 STAGES=3 PRODUCER=1"},
    {"f32 d64/128 causal=br klen qlen sinks dsinks dlse", "BLOCK_STREAMED=32 STAGES=1"},
    {"f32 d64 causal=br alibi q=bshd k=bshd do=bshd dk=bshd",
     "BLOCK_STREAMED=64 STAGES=2 PRODUCER=1"},
    {"f32 d64 softcap=4 dropout=0.2 mask=bqk", "BLOCK_STREAMED=32 STAGES=1"},
};

/* Odd dims, and tiles whose queries and keys end within a pair. */
static const struct unit_program backward_pairs[] = {
    {"bf16 d33/20 causal=br klen qlen sinks dsinks dlse",
     "BLOCK_VECTORS=2 QK_ROWS=4 DKV_COLUMNS=5 BLOCK_M=24 DQ_ROWS=3 DQ_VECTORS=3 BLOCKS_PER_TILE=2"},
    {"bf16 d40/33 window=9,4 alibi softcap=4 dslopes q=bshd k=bshd do=bshd dk=bshd",
     "BLOCK_VECTORS=1 QK_ROWS=8 DKV_COLUMNS=8 BLOCK_M=24 DQ_ROWS=4 DQ_VECTORS=2 BLOCKS_PER_TILE=4"},
    {"bf16 d24 mask=bqk bias=f32:hqk dbias dropout=0.3",
     "BLOCK_VECTORS=3 QK_ROWS=6 DKV_COLUMNS=6 BLOCK_M=48 DQ_ROWS=6 DQ_VECTORS=2 BLOCKS_PER_TILE=1"},
    {"bf16 d64 blocks=7x9:60:h", "BLOCK_VECTORS=1 QK_ROWS=12 DKV_COLUMNS=8 BLOCK_M=24 DQ_ROWS=3 "
                                 "DQ_VECTORS=4 BLOCKS_PER_TILE=2"},
    /* the second block of keys is seen from query 21 on */
    {"bf16 d20 causal=11",
     "BLOCK_VECTORS=2 QK_ROWS=4 DKV_COLUMNS=5 BLOCK_M=24 DQ_ROWS=6 DQ_VECTORS=2 BLOCKS_PER_TILE=2"},
    {"bf16 d8/9 window=30,* totalq=150 totalkv=200",
     "BLOCK_VECTORS=2 QK_ROWS=4 DKV_COLUMNS=4 BLOCK_M=24 DQ_ROWS=8 DQ_VECTORS=1 BLOCKS_PER_TILE=1"},
};

/* Dims, queries and keys that end within a tile. */
static const struct unit_program backward_amx[] = {
    {"bf16 d33/20 causal=br klen qlen sinks dsinks dlse",
     "BLOCK_VECTORS=2 BLOCK_M=32 BLOCKS_PER_TILE=2"},
    {"bf16 d40/33 window=9,4 alibi softcap=4 dslopes q=bshd k=bshd do=bshd dk=bshd",
     "BLOCK_VECTORS=4 BLOCK_M=64 BLOCKS_PER_TILE=1"},
    {"bf16 d24 mask=bqk bias=f32:hqk dbias dropout=0.3",
     "BLOCK_VECTORS=6 BLOCK_M=32 BLOCKS_PER_TILE=1"},
    {"bf16 d64/72 blocks=7x9:60:h", "BLOCK_VECTORS=2 BLOCK_M=64 BLOCKS_PER_TILE=2"},
    /* the second block of keys is seen from query 21 on */
    {"bf16 d20/96 causal=11", "BLOCK_VECTORS=2 BLOCK_M=32 BLOCKS_PER_TILE=2"},
    {"bf16 d8/9 window=30,* totalq=150 totalkv=200",
     "BLOCK_VECTORS=2 BLOCK_M=32 BLOCKS_PER_TILE=4"},
    {"bf16 d65 mask=hqk", "BLOCK_VECTORS=2 BLOCK_M=96 BLOCKS_PER_TILE=2"},
    {"bf16 d128/16", "BLOCK_VECTORS=8 BLOCK_M=32 BLOCKS_PER_TILE=1"},
    {"bf16 d32 blocks=32x32:60:h", "BLOCK_VECTORS=2 BLOCK_M=64 BLOCKS_PER_TILE=1"},
};

/* ---- projections ----------------------------------------------------------------------------- */

/* Both dtypes, every way that x and w lie, with splits and without. */
static const struct unit_program projection_mma[] = {
    {"f16 bias=f32", "INSTRUCTION=1 BLOCK_M=32 BLOCK_N=64 SUB_GROUPS_M=1 SUB_GROUPS_N=2 BLOCK_K=32 "
                     "STAGES=2 SPLIT_K=1"},
    {"bf16 w=oi accumulate", "INSTRUCTION=2 BLOCK_M=64 BLOCK_N=16 SUB_GROUPS_M=4 SUB_GROUPS_N=1 "
                             "BLOCK_K=16 STAGES=1 SPLIT_K=1"},
    {"bf16 x=bhds w=oi y=bshd", "INSTRUCTION=4 BLOCK_M=16 BLOCK_N=64 SUB_GROUPS_M=1 SUB_GROUPS_N=4 "
                                "BLOCK_K=64 STAGES=1 SPLIT_K=1"},
    {"f16 w=oi bias=f32", "INSTRUCTION=4 BLOCK_M=64 BLOCK_N=64 SUB_GROUPS_M=2 SUB_GROUPS_N=2 "
                          "BLOCK_K=32 STAGES=2 SPLIT_K=1"},
    {"f16 x=bshd y=bhds", "INSTRUCTION=5 BLOCK_M=32 BLOCK_N=32 SUB_GROUPS_M=4 SUB_GROUPS_N=4 "
                          "BLOCK_K=16 STAGES=2 SPLIT_K=1"},
};

static const struct unit_program projection_mma_copied[] = {
    {"bf16 w=oi bias=bf16",
     "INSTRUCTION=1 BLOCK_M=32 BLOCK_N=64 SUB_GROUPS_M=2 SUB_GROUPS_N=2 BLOCK_K=32 STAGES=3 "
     "COPIES=1 SPLIT_K=2"},
    {"f16 accumulate",
     "INSTRUCTION=1 BLOCK_M=64 BLOCK_N=32 SUB_GROUPS_M=1 SUB_GROUPS_N=2 BLOCK_K=32 STAGES=2 "
     "COPIES=1 SPLIT_K=1"},
};

static const struct unit_program projection_mma_split[] = {
    {"f16 x=bhds bias=f16",
     "INSTRUCTION=3 BLOCK_M=32 BLOCK_N=64 SUB_GROUPS_M=1 SUB_GROUPS_N=2 BLOCK_K=16 STAGES=2 "
     "SPLIT_K=2"},
    {"bf16 bias=bf16 accumulate",
     "INSTRUCTION=6 BLOCK_M=64 BLOCK_N=32 SUB_GROUPS_M=4 SUB_GROUPS_N=2 BLOCK_K=32 STAGES=1 "
     "SPLIT_K=4"},
};

/* f32 by parts of bf16 (cl/mma/projection_parts.h): w both ways, x across its lines and in
 * neither way. Splits begin within a pair of planes, with and without the earlier values of y. */
static const struct unit_program projection_mma_parts[] = {
    {"f32 w=oi accumulate", "INSTRUCTION=1 BLOCK_M=32 BLOCK_N=64 SUB_GROUPS_M=1 SUB_GROUPS_N=2 "
                            "BLOCK_K=32 STAGES=3 COPIES=1 SPLIT_K=1"},
    {"f32 x=bhds bias=f32", "INSTRUCTION=1 BLOCK_M=32 BLOCK_N=32 SUB_GROUPS_M=2 SUB_GROUPS_N=1 "
                            "BLOCK_K=64 STAGES=2 COPIES=1 SPLIT_K=1"},
    {"f32 w=oi y=bhds bias=bf16", "INSTRUCTION=2 BLOCK_M=64 BLOCK_N=16 SUB_GROUPS_M=4 "
                                  "SUB_GROUPS_N=1 BLOCK_K=16 STAGES=1 COPIES=0 SPLIT_K=1"},
    {"f32 accumulate", "INSTRUCTION=4 BLOCK_M=16 BLOCK_N=64 SUB_GROUPS_M=1 SUB_GROUPS_N=4 "
                       "BLOCK_K=64 STAGES=2 COPIES=0 SPLIT_K=1"},
};

static const struct unit_program projection_mma_parts_split[] = {
    {"f32 bias=f32 accumulate", "INSTRUCTION=5 BLOCK_M=32 BLOCK_N=32 SUB_GROUPS_M=4 SUB_GROUPS_N=4 "
                                "BLOCK_K=16 STAGES=2 COPIES=0 SPLIT_K=4"},
};

static const struct unit_program projection_warpgroup_parts[] = {
    {"f32 bias=f32", "SUB_GROUPS=4 BLOCK_N=64 SPLIT_K=1"},
    {"f32 w=oi x=bhds accumulate", "SUB_GROUPS=8 BLOCK_N=128 SPLIT_K=1"},
};

static const struct unit_program projection_warpgroup_parts_split[] = {
    {"f32 w=oi accumulate", "SUB_GROUPS=4 BLOCK_N=64 SPLIT_K=2"},
};

/* w both ways, with splits and without, heads that stages end in, ragged rows, columns and depth. */
static const struct unit_program projection_warpgroup[] = {
    {"f16 bias=f32", "SUB_GROUPS=4 BLOCK_N=64 SPLIT_K=1"},
    {"bf16 w=oi accumulate", "SUB_GROUPS=8 BLOCK_N=128 SPLIT_K=1"},
};

static const struct unit_program projection_warpgroup_split[] = {
    {"bf16 x=bshd y=bshd", "SUB_GROUPS=4 BLOCK_N=128 SPLIT_K=2"},
    {"f16 w=oi bias=f16", "SUB_GROUPS=4 BLOCK_N=64 SPLIT_K=2"},
};

static const struct unit_program projection_warpgroup_rows[] = {
    /* y in whole rows of heads, and where it has no pieces */
    {"bf16 w=oi bias=bf16 y=bshd", "SUB_GROUPS=4 BLOCK_N=64 STAGES=3 SPLIT_K=1"},
};

/* Odd depths and parts of them, and all ways to pack. In others the pairs of x are read in
 * place: from heads that strides keep apart, and at parts of the depth that begin within a head.
 * In the last, rows of x do not begin at pairs. */
static const struct unit_program projection_pairs[] = {
    {"bf16 b2 h3/1 q37 d131/50 bias=f32",
     "REGISTER_VECTORS=2 REGISTER_ROWS=4 BLOCK_K=64 BLOCK_M=16 BLOCK_N=32 SPLIT_K=1"},
    {"bf16 b2 h3/5 q37 d33/20 w=oi x=bshd y=bshd accumulate",
     "REGISTER_VECTORS=4 REGISTER_ROWS=6 BLOCK_K=128 BLOCK_M=32 BLOCK_N=64 SPLIT_K=2"},
    {"bf16 b2 h2 q67 d75/33 x=bhds y=bhds",
     "REGISTER_VECTORS=1 REGISTER_ROWS=12 BLOCK_K=64 BLOCK_M=64 BLOCK_N=32 SPLIT_K=1"},
    {"bf16 b2 h2/3 q17 d45/35 x=0.0.90.2 w=0.0.0.7",
     "REGISTER_VECTORS=2 REGISTER_ROWS=8 BLOCK_K=64 BLOCK_M=16 BLOCK_N=32 SPLIT_K=2"},
    {"bf16 b2 h2/3 q37 d46/34 bias=f32",
     "REGISTER_VECTORS=2 REGISTER_ROWS=6 BLOCK_K=64 BLOCK_M=16 BLOCK_N=32 SPLIT_K=2"},
    {"bf16 h2/3 q17 d90/35 w=oi accumulate x=9000.4000.152.1",
     "REGISTER_VECTORS=4 REGISTER_ROWS=6 BLOCK_K=64 BLOCK_M=32 BLOCK_N=64 SPLIT_K=1"},
    {"bf16 h2/3 q17 d91/35 w=oi x=9000.4000.152.1",
     "REGISTER_VECTORS=2 REGISTER_ROWS=4 BLOCK_K=64 BLOCK_M=32 BLOCK_N=64 SPLIT_K=1"},
    {"bf16 h2/3 q17 d90/35 w=oi x=9000.4000.151.1",
     "REGISTER_VECTORS=4 REGISTER_ROWS=6 BLOCK_K=64 BLOCK_M=32 BLOCK_N=64 SPLIT_K=1"},
};

/* All ways to pack, odd depths, strips, panels and parts of the depth that end within a tile, and sums that wait for
 * several parts. */
static const struct unit_program projection_amx[] = {
    {"bf16 b2 h3/1 q37 d131/50 bias=f32",
     "STRIP_K=64 BLOCK_K=64 BLOCK_M=32 BLOCK_N=32 SUMS_M=32 SPLIT_K=1"},
    {"bf16 b2 h3/5 q37 d33/20 w=oi x=bshd y=bshd accumulate",
     "STRIP_K=32 BLOCK_K=128 BLOCK_M=64 BLOCK_N=64 SUMS_M=64 SPLIT_K=2"},
    {"bf16 b2 h2 q67 d75/33 x=bhds y=bhds bias=bf16 accumulate",
     "STRIP_K=64 BLOCK_K=256 BLOCK_M=64 BLOCK_N=64 SUMS_M=32 SPLIT_K=1"},
    {"bf16 b2 h2/3 q17 d45/35 x=0.0.90.2 w=0.0.0.7",
     "STRIP_K=32 BLOCK_K=64 BLOCK_M=32 BLOCK_N=32 SUMS_M=32 SPLIT_K=2"},
    {"bf16 q150 d300/70", "STRIP_K=128 BLOCK_K=64 BLOCK_M=256 BLOCK_N=128 SUMS_M=64 SPLIT_K=1"},
    /* Strips whose tiles lie in x, that go on in another batch, and that end before whole steps. */
    {"bf16 b2 q72 d112/70 x=16000.0.130.1",
     "STRIP_K=64 BLOCK_K=128 BLOCK_M=256 BLOCK_N=128 SUMS_M=32 SPLIT_K=1"},
    {"bf16 b2 q70 d192/40 x=16000.0.200.1 bias=bf16",
     "STRIP_K=32 BLOCK_K=128 BLOCK_M=64 BLOCK_N=64 SUMS_M=64 SPLIT_K=2"},
    {"bf16 q1 d200/90 w=oi", "STRIP_K=256 BLOCK_K=256 BLOCK_M=32 BLOCK_N=64 SUMS_M=32 SPLIT_K=1"},
};

/* ---- products of bytes ----------------------------------------------------------------------- */

static const struct unit_program fused_bytes[] = {
    {"f32 precision=int8 d24/40 causal=br klen qlen lse",
     "BLOCK_VECTORS=3 QK_KEYS=8 PV_COLUMNS=8 BLOCK_N=24"},
    {"bf16 precision=int8 d80/96 window=40,* alibi softcap=4 sinks lse",
     "BLOCK_VECTORS=2 QK_KEYS=6 PV_COLUMNS=6 BLOCK_N=48"},
    {"f16 precision=int8 d9/8 mask=bqk bias=f16:hqk lse odtype=f32",
     "BLOCK_VECTORS=4 QK_KEYS=6 PV_COLUMNS=5 BLOCK_N=96"},
    {"f32 precision=int8 d64/16 page=16 pages=40 klen lse",
     "BLOCK_VECTORS=2 QK_KEYS=12 PV_COLUMNS=12 BLOCK_N=24"},
    {"f16 precision=int8 d64/96 kcache=int8 vcache=int8 kscales=bhk vscales causal=br lse",
     "BLOCK_VECTORS=3 QK_KEYS=8 PV_COLUMNS=8 BLOCK_N=48"},
    {"bf16 precision=int8 d96/32 kcache=f32 vcache=q4_0 blocks=16x8:20 lse",
     "BLOCK_VECTORS=1 QK_KEYS=12 PV_COLUMNS=12 BLOCK_N=24"},
};

/* ---------------------------------------------------------------------------------------------- */

#define PROGRAMS(list) list, sizeof list / sizeof *list
#define FUSED_SHAPES                                                                               \
    {                                                                                              \
        "b2 h4/2 q70 k91", "q1 k1", "b3 h2/1 q33 k17", "h2 q97 k140"                               \
    }
#define BACKWARD_SHAPES                                                                            \
    {                                                                                              \
        "b2 h4/2 q70 k91", "b3 q1 k2", "b3 h2/1 q33 k17", "b2 h2 q64 k128"                         \
    }

const struct unit units[] = {
    {"fused_gpu UNIT=mma", PROGRAMS(fused_mma), .values = "h2 q40 k70",
     .shapes = {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3",
                "h2/1 q32 k32"}},
    {"fused_gpu UNIT=mma", PROGRAMS(fused_mma_masked), .values = "h2 q40 k70",
     .shapes = {"b2 h4/2 q70 k90", "h1 q1 k3", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3"}},
    {"fused_gpu UNIT=warpgroup", PROGRAMS(fused_warpgroup), .tunables = "EMULATE=1",
     .values = "h2 q40 k70",
     .shapes = {"b2 h4/2 q70 k90", "h2/1 q200 k190", "q17 k20", "q64 k65", "q1 k300"}},
    {"split_gpu UNIT=mma", PROGRAMS(split_mma), .values = "h6/2 q5 k70",
     .shapes = {"b2 h16/2 q1 k170", "h1 q1 k5", "b3 h6/1 q3 k33", "h128/1 q1 k140",
                "b2 h2/1 q19 k330", "h2/1 q4 k0"}},
    {"split_gpu UNIT=mma", PROGRAMS(split_mma_keys), .values = "h6/2 q5 k70",
     .shapes = {"b2 h8/2 q4 k90", "h1 q4 k5", "b3 h2/1 q5 k40", "h4/1 q7 k140", "b70 h8/1 q1 k7"}},
    {"fused_cpu UNIT=pairs", PROGRAMS(fused_pairs), .tunables = "SIMD_WIDTH=16",
     .shapes = FUSED_SHAPES},
    {"fused_cpu UNIT=amx", PROGRAMS(fused_amx), .shapes = FUSED_SHAPES},
    {"fused_cpu UNIT=bytes", PROGRAMS(fused_bytes), .shapes = FUSED_SHAPES},
    {"split_cpu UNIT=pairs", PROGRAMS(split_bf16), .shapes = FUSED_SHAPES},
    {"split_cpu UNIT=amx", PROGRAMS(split_bf16), .shapes = FUSED_SHAPES},
    {"split_cpu UNIT=amx", PROGRAMS(split_parts), .shapes = FUSED_SHAPES},
    {"backward_gpu UNIT=mma", PROGRAMS(backward_mma),
     .shapes = {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3"}},
    {"backward_gpu UNIT=warpgroup", PROGRAMS(backward_warpgroup),
     .tunables = "SUB_GROUPS=4 EXP=2 EMULATE=1",
     .shapes = {"b2 h4/2 q70 k90", "q130 k170", "q3 k140", "q40 k3", "h2/1 q64 k33"}},
    {"backward_cpu UNIT=pairs", PROGRAMS(backward_pairs), .tunables = "SIMD_WIDTH=16 SPLIT_K=1",
     .shapes = BACKWARD_SHAPES},
    {"backward_cpu UNIT=amx", PROGRAMS(backward_amx), .tunables = "SPLIT_K=1",
     .shapes = BACKWARD_SHAPES},
    {"projection_gpu UNIT=mma", PROGRAMS(projection_mma),
     .shapes = {"b2 h3/2 q33 d40/24", "q1 d7/3", "q70 d64/140", "b3 h1/5 q40 d17/64",
                "h2 q16 d200/32"}},
    {"projection_gpu UNIT=mma", PROGRAMS(projection_mma_copied),
     .shapes = {"b2 h3/2 q33 d64/24", "q1 d136/16", "q70 d128/136", "b3 h1/5 q40 d32/64",
                "h2 q16 d224/32"}},
    {"projection_gpu UNIT=mma", PROGRAMS(projection_mma_split),
     .shapes = {"b2 h3/7 q33 d40/24", "q1 d300/3", "q70 d264/140", "b3 h1/5 q40 d64",
                "h2 q16 d256/32"}},
    {"projection_gpu UNIT=warpgroup", PROGRAMS(projection_warpgroup), .tunables = "EMULATE=1",
     .shapes = {"b2 h3/2 q33 d64/24", "q70 d200/136", "q1 d72/8", "q150 d64/144"}},
    {"projection_gpu UNIT=warpgroup", PROGRAMS(projection_warpgroup_split), .tunables = "EMULATE=1",
     .shapes = {"b2 h3/2 q33 d64/24", "q70 d264/136", "b2 h5 q33 d64"}},
    {"projection_gpu UNIT=warpgroup", PROGRAMS(projection_warpgroup_rows), .tunables = "EMULATE=1",
     .shapes = {"b2 h3/2 q70 d64/24", "q40 d72/12"}},
    {"projection_gpu UNIT=mma", PROGRAMS(projection_mma_parts), .tunables = "EMULATE=1",
     .shapes = {"b2 h3/2 q33 d40/24", "q1 d7/3", "q70 d64/140", "b3 h1/5 q40 d17/64"}},
    {"projection_gpu UNIT=mma", PROGRAMS(projection_mma_parts_split), .tunables = "EMULATE=1",
     .shapes = {"b2 h3/7 q33 d100/24", "q1 d300/3", "q70 d264/40"}},
    {"projection_gpu UNIT=warpgroup", PROGRAMS(projection_warpgroup_parts), .tunables = "EMULATE=1",
     .shapes = {"b2 h3/2 q33 d40/24", "q70 d200/135", "q1 d7/3"}},
    {"projection_gpu UNIT=warpgroup", PROGRAMS(projection_warpgroup_parts_split),
     .tunables = "EMULATE=1", .shapes = {"b2 h3/2 q33 d64/24", "q70 d264/136"}},
    {"projection_cpu UNIT=pairs", PROGRAMS(projection_pairs), .tunables = "SIMD_WIDTH=16",
     .shapes = {""}},
    {"projection_cpu UNIT=amx", PROGRAMS(projection_amx), .shapes = {""}},
};
const size_t num_units = sizeof units / sizeof *units;
