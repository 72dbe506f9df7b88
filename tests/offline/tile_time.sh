#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/offline/tile_time.sh [TABLE]: what a tile of the kernels of matrix instructions costs each resource of a GPU,
# in clocks of one of its cores (multiprocessor, compute unit, Xe core), at published rates: nothing is measured. TABLE
# is what tests/offline.sh prints, by default the newest of bench/results/; from it are the tunables, the groups that
# are resident, and the share that matrix instructions have of a loop's instructions. Counted are
#   matrix  multiply-adds of both products, at the peak (mma.sync on Hopper: at 62 % of it, which is what it reaches:
#           Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", 2024)
#   local   bytes that sub-groups read, operand by operand, and that fill tiles, at 128 bytes a clock; accesses have no
#           bank conflicts (tests/offline/bank_conflicts.sh)
#   exp     exponentials; with EXP=2 in arithmetic, which the loop's instructions hold
#   global  bytes of the next tile, from L2; for one query from memory
#   issue   instructions, if matrix instructions are that share of them (the largest of the loops')
# The last columns: the resource that is full, and the share of the matrix peak that it leaves.
# FlashAttention-2 and -3 (dim 128, forward) are counted likewise from their published tiles: 128 x 64 with four warps,
# and 128 x 128 with two warp groups, whose wgmma reads its operands once for 64 rows, as fused_gpu UNIT=warpgroup's does; backward of
# FlashAttention-2 from the layout of its eight warps (2 x 4 for scores and their gradients, 4 x 2 for dk and dv, 2 x 4 for dq;
# a tile of 64 x 128 and 144 KB of local memory), with p and ds stored and dq added to memory.
set -u
cd "$(dirname "$0")/../.." || exit 1
for kept in bench/results/gpus-offline-*.txt; do :; done
awk '
function value(name,   at) { # of a tunable
    at = match($0, "[ |]" name "=[0-9]+")
    return at ? substr($0, RSTART + length(name) + 2, RLENGTH - length(name) - 2) + 0 : 0
}
function device(target, title, macs, exps, l2, memory, issues, full) {
    names[target] = title; mac[target] = macs; exp_of[target] = exps; l2_of[target] = l2
    memory_of[target] = memory; issue_of[target] = issues; reach[target] = full
}
function row(what, target, matrix, bytes, exponentials, from, rate, instructions, reached,   t, n, full) {
    t["matrix"] = matrix / (mac[target] * reached); t["local"] = bytes / 128
    t["exp"] = exponentials / exp_of[target]; t["global"] = from / rate
    t["issue"] = instructions / issue_of[target]
    full = "matrix"
    for (n in t)
        if (t[n] > t[full]) full = n
    printf "%-9s %-34s %7.0f %7.0f %7.0f %7.0f %7s  %-7s %3.0f %%\n", names[target], what, t["matrix"], t["local"], t["exp"],
        t["global"], instructions ? sprintf("%.0f", t["issue"]) : "-", full, 100 * matrix / mac[target] / t[full]
}
BEGIN {
    # Multiply-adds, exponentials, bytes from L2, bytes from memory, instructions of a wave: each a clock and core.
    # NVIDIA H100 datasheet (989 TFLOP/s, 132 SMs, 1.83 GHz, 3.35 TB/s; H200: 4.8), CUDA guide (16 special functions, 4
    # schedulers), 5120 bytes a clock from L2 as A100 (its white paper). AMD CDNA3 (1307 TFLOP/s, 304 CUs, 2.1 GHz, 5.3 TB/s; a wave of 64
    # takes 4 clocks of one of 4 units) and RDNA3 (123 TFLOP/s, 96 CUs, 2.5 GHz, 960 GB/s; two units) white papers and
    # manuals: 64 bytes a clock from L2, exponentials at a quarter of the rate. Intel Arc A770 (32 Xe cores, 2.1 GHz,
    # 16 vector and matrix engines, 1024 multiply-adds a clock, 560 GB/s).
    device("sm_90", "H100", 2048, 16, 38.8, 13.9, 4, 0.62)
    device("gfx942", "MI300X", 1024, 16, 64, 8.3, 1, 1)
    device("gfx1100", "7900 XTX", 256, 16, 64, 4, 2, 1)
    device("dg2", "A770", 1024, 32, 64, 8.3, 16, 1)
    split("16 16 32 16 8 8", queries); split("8 16 32 16 8 16", others); split("16 16 8 16 16 16", depth)
    split("1 2 1 1 1 1", copies)
    printf "%-9s %-34s %7s %7s %7s %7s %7s  %s\n", "", "clocks of a core for a tile", "matrix", "local", "exp", "global", "issue", "full, of the peak"
    d = 128
}
$5 != "default" || !($4 in names) { next }
{ i = value("INSTRUCTION"); c = copies[i]; groups = value("SUB_GROUPS"); share = 0; for (n = split($12, shares, ","); n > 0; n--)
      if (shares[n] / 100 > share) share = shares[n] / 100
  per = i ? queries[i] * others[i] * depth[i] : 1 }
$1 == "fused_gpu.mma" && / fwd f16 b1 h32\/8 q4096 k4096 d128 causal=tl \|/ {
    keys = value("BLOCK_N"); rows = groups * value("M_FRAGMENTS") * queries[i]
    macs = rows * keys * 2 * d
    bytes = 2 * (groups * keys * 2 * d * c + (value("Q_RESIDENT") ? 0 : rows * d * c) + keys * 2 * d)
    row("fused_gpu UNIT=mma, " rows " x " keys, $4, macs, bytes, value("EXP") == 1 ? rows * keys : 0, 4 * keys * d, l2_of[$4], macs / per / share, reach[$4])
}
$1 == "fused_gpu.warpgroup" && $3 == "fused_gpu_mma" && / fwd f16 b1 h32\/8 q4096 k4096 d128 causal=tl \|/ {
    keys = value("BLOCK_N"); rows = groups * 16
    macs = rows * keys * 2 * d
    row("fused_gpu UNIT=warpgroup, " rows " x " keys, $4, macs, 2 * (groups / 4 * keys * 2 * d + keys * 2 * d), rows * keys, 4 * keys * d, l2_of[$4], 0, 1)
}
$1 == "split_gpu.mma" && $3 == "split" && / fwd f16 b1 h32\/4 q1 k32768 d128 causal=br \|/ {
    keys = value("BLOCK_N"); rows = value("M_FRAGMENTS") * queries[i]
    macs = rows * keys * 2 * d
    bytes = 2 * (keys * 2 * d * c + (value("Q_RESIDENT") ? 0 : groups * rows * d * c) + keys * 2 * d + rows * keys * (1 + groups * c))
    row("split_gpu UNIT=mma, one query, 8 heads a head", $4, macs, bytes, value("EXP") == 1 ? rows * keys : 0, 4 * keys * d, memory_of[$4], share ? macs / per / share : 0, reach[$4])
}
$1 == "backward_gpu.mma" && $3 != "backward_rows" && / bwd f16 b1 h32\/8 q4096 k4096 d128 causal=tl \|/ {
    streamed = value("BLOCK_STREAMED"); parts = value("DIM_GROUPS"); rows = groups * queries[i]
    last = $3 == "backward_keys" ? 2 : 1
    macs = rows * streamed * d * (2 * parts + last)
    bytes = 2 * (parts * (rows + groups * streamed) * 2 * d * c + groups * streamed * last * d * c + streamed * 2 * d)
    row($3 ", " rows " x " streamed, $4, macs, bytes, value("EXP") == 1 ? parts * rows * streamed : 0, 4 * streamed * d, l2_of[$4], share ? macs / per / share : 0, reach[$4])
}
$1 == "backward_gpu.warpgroup" && $3 != "backward_rows" && / bwd f16 b1 h32\/8 q4096 k4096 d128 causal=tl \|/ {
    streamed = value("BLOCK_STREAMED"); rows = groups * 16; last = $3 == "backward_keys" ? 2 : 1
    macs = rows * streamed * d * (2 + last)
    bytes = 2 * (rows * 2 * d + groups / 4 * streamed * (2 + last) * d + streamed * 2 * d)
    row("by wgmma: " $3 ", " rows " x " streamed, $4, macs, bytes, rows * streamed, 4 * streamed * d, l2_of[$4], 0, 1)
}
$1 == "projection_gpu.warpgroup" && $3 == "projection_gpu_warpgroup" && / proj bf16 b1 h1 q4096 d4096 \|/ {
    m = groups * 16; n = value("BLOCK_N"); k = 64
    row("projection_gpu UNIT=warpgroup, " m " x " n " x " k, $4, m * n * k, 2 * k * (2 * m + groups / 4 * n + n), 0, 2 * k * (m + n), l2_of[$4], 0, 1)
}
$1 == "projection_gpu.mma" && $3 == "projection_gpu_mma" && / proj bf16 b1 h1 q4096 d4096 \|/ {
    m = value("BLOCK_M"); n = value("BLOCK_N"); k = value("BLOCK_K")
    by_m = value("SUB_GROUPS_M"); by_n = value("SUB_GROUPS_N")
    macs = m * n * k; bytes = 2 * k * ((by_n * m + by_m * n) * c + m + n)
    row("projection_gpu UNIT=mma, " m " x " n " x " k, $4, macs, bytes, 0, 2 * k * (m + n), l2_of[$4], 0, reach[$4])
}
END {
    macs = 128 * 64 * 2 * d
    row("FlashAttention-2, 128 x 64", "sm_90", macs, 2 * (4 * 64 * 2 * d + 128 * d + 64 * 2 * d), 128 * 64, 4 * 64 * d, l2_of["sm_90"], 0, reach["sm_90"])
    m = 64; n = 128; macs = m * n * 5 * d
    bytes = 2 * (2 * 8 * (m / 2 + n / 4) * d + 2 * m * n + 2 * 8 * (n / 4 * m + m * d / 2) + 8 * (m / 2 * n + n * d / 4) + 2 * m * d)
    row("FlashAttention-2 backward, 64 x 128", "sm_90", macs, bytes, m * n, 2 * 2 * m * d + 4 * m * d, l2_of["sm_90"], 0, reach["sm_90"])
    macs = 128 * 128 * 2 * d
    row("FlashAttention-3, 128 x 128", "sm_90", macs, 2 * (2 * 128 * 2 * d + 128 * d + 128 * 2 * d), 128 * 128, 4 * 128 * d, l2_of["sm_90"], 0, 1)
}' "${1:-$kept}" | { IFS= read -r heading; echo "$heading"; sort -s -k 1,1; }
