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
#   issue   instructions: if matrix instructions are that share of them (the largest of the loops'), or, with wgmma, as a
#           profiler counted them on an H200
# The tile's time is that of the fullest resource, and a part of the others' times, which warps do not hide from each
# other: 0.65 of them over the warps of a scheduler, with wgmma 0.548. These two numbers were chosen for eight kernels whose
# clocks an H200's profiler counted (bench/results/h200-profile-*.txt); rows "profiled" compare, and the script fails
# where one is off by more than 15 %. For other devices the two numbers are an assumption.
# The last columns: clocks, their difference to those that were counted, the fullest resource, and the share of the
# matrix peak.
# FlashAttention-2 and -3 (dim 128, forward) are counted likewise from their published tiles: 128 x 64 with four warps,
# and 128 x 128 with two warp groups, whose wgmma reads its operands once for 64 rows, as fused_gpu UNIT=warpgroup's does; backward of
# FlashAttention-2 from the layout of its eight warps (2 x 4 for scores and their gradients, 4 x 2 for dk and dv, 2 x 4 for dq;
# a tile of 64 x 128 and 144 KB of local memory), with p and ds stored and dq added to memory.
set -u
cd "$(dirname "$0")/../.." || exit 1
for kept in bench/results/gpus-offline-*.txt; do :; done
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
awk '
function value(name,   at) { # of a tunable
    at = match($0, "[ |]" name "=[0-9]+")
    return at ? substr($0, RSTART + length(name) + 2, RLENGTH - length(name) - 2) + 0 : 0
}
function device(target, title, macs, exps, l2, memory, issues, full) {
    names[target] = title; mac[target] = macs; exp_of[target] = exps; l2_of[target] = l2
    memory_of[target] = memory; issue_of[target] = issues; reach[target] = full
}
# waves: those of a scheduler; with wgmma warps of a producer are among them. apart: how much of the time is not hidden.
function row(what, target, matrix, bytes, exponentials, from, rate, instructions, reached, waves, apart, was,   t, n, full, sum, clocks) {
    t["matrix"] = matrix / (mac[target] * reached); t["local"] = bytes / 128
    t["exp"] = exponentials / exp_of[target]; t["global"] = from / rate
    t["issue"] = instructions / issue_of[target]
    full = "matrix"
    for (n in t) {
        sum += t[n]
        if (t[n] > t[full]) full = n
    }
    clocks = t[full] + apart / waves * (sum - t[full])
    if (was && (clocks > 1.15 * was || clocks < 0.85 * was)) wrong++
    printf "%-9s %-51s %7.0f %7.0f %7.0f %7.0f %7s %7.0f %8s  %-7s %3.0f %%\n", names[target], what, t["matrix"], t["local"], t["exp"],
        t["global"], instructions ? sprintf("%.0f", t["issue"]) : "-", clocks,
        was ? sprintf("%+.0f %%", 100 * (clocks / was - 1)) : "-", full, 100 * matrix / mac[target] / clocks
}
BEGIN {
    SYNC = 0.65; ASYNC = 0.548
    # Multiply-adds, exponentials, bytes from L2, bytes from memory, instructions of a wave: each a clock and core.
    # NVIDIA H100 datasheet (989 TFLOP/s, 132 SMs, 1.83 GHz, 3.35 TB/s; H200: 4.8), CUDA guide (16 special functions, 4
    # schedulers), 50 bytes a clock from L2 as measured (12.6 TB/s: cache_read of bench/results/h200-profile-2026-11-27.txt). AMD CDNA3 (1307 TFLOP/s, 304 CUs, 2.1 GHz, 5.3 TB/s; a wave of 64
    # takes 4 clocks of one of 4 units) and RDNA3 (123 TFLOP/s, 96 CUs, 2.5 GHz, 960 GB/s; two units) white papers and
    # manuals: 64 bytes a clock from L2, exponentials at a quarter of the rate. Intel Arc A770 (32 Xe cores, 2.1 GHz,
    # 16 vector and matrix engines, 1024 multiply-adds a clock, 560 GB/s).
    device("sm_90", "H100", 2048, 16, 50, 13.9, 4, 0.62)
    device("gfx942", "MI300X", 1024, 16, 64, 8.3, 1, 1)
    device("gfx1100", "7900 XTX", 256, 16, 64, 4, 2, 1)
    device("dg2", "A770", 1024, 32, 64, 8.3, 16, 1)
    split("16 16 32 16 8 8", queries); split("8 16 32 16 8 16", others); split("16 16 8 16 16 16", depth)
    split("1 2 1 1 1 1", copies)
    printf "%-9s %-51s %7s %7s %7s %7s %7s %7s %8s  %s\n", "", "clocks of a core for a tile", "matrix", "local", "exp", "global", "issue", "clocks", "measured", "full, of the peak"
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
    row("fused_gpu UNIT=mma, " rows " x " keys, $4, macs, bytes, value("EXP") == 1 ? rows * keys : 0, 4 * keys * d, l2_of[$4], macs / per / share, reach[$4], $11, SYNC)
}
$1 == "fused_gpu.warpgroup" && $3 == "fused_gpu_warpgroup" && / fwd f16 b1 h32\/8 q4096 k4096 d128 causal=tl \|/ {
    keys = value("BLOCK_N"); rows = groups * 16
    macs = rows * keys * 2 * d
    row("fused_gpu UNIT=warpgroup, " rows " x " keys, $4, macs, 2 * (groups / 4 * keys * 2 * d + keys * 2 * d), rows * keys, 4 * keys * d, l2_of[$4], rows * keys * 12.3 / 32, 1, $11, ASYNC)
}
$1 == "split_gpu.mma" && $3 == "split" && / fwd f16 b1 h32\/4 q1 k32768 d128 causal=br \|/ {
    keys = value("BLOCK_N"); rows = value("M_FRAGMENTS") * queries[i]
    macs = rows * keys * 2 * d
    bytes = 2 * (keys * 2 * d * c + (value("Q_RESIDENT") ? 0 : groups * rows * d * c) + keys * 2 * d + rows * keys * (1 + groups * c))
    row("split_gpu UNIT=mma, one query, 8 heads a head", $4, macs, bytes, value("EXP") == 1 ? rows * keys : 0, 4 * keys * d, memory_of[$4], share ? macs / per / share : 0, reach[$4], $11, SYNC)
}
$1 == "backward_gpu.mma" && $3 != "backward_rows" && / bwd f16 b1 h32\/8 q4096 k4096 d128 causal=tl \|/ {
    streamed = value("BLOCK_STREAMED"); parts = value("DIM_GROUPS"); rows = groups * queries[i]
    last = $3 == "backward_keys" ? 2 : 1
    macs = rows * streamed * d * (2 * parts + last)
    bytes = 2 * (parts * (rows + groups * streamed) * 2 * d * c + groups * streamed * last * d * c + streamed * 2 * d)
    row($3 ", " rows " x " streamed, $4, macs, bytes, value("EXP") == 1 ? parts * rows * streamed : 0, 4 * streamed * d, l2_of[$4], share ? macs / per / share : 0, reach[$4], $11, SYNC)
}
$1 == "backward_gpu.warpgroup" && $3 != "backward_rows" && / bwd f16 b1 h32\/8 q4096 k4096 d128 causal=tl \|/ {
    streamed = value("BLOCK_STREAMED"); rows = groups * 16; last = $3 == "backward_keys" ? 2 : 1
    macs = rows * streamed * d * (2 + last)
    bytes = 2 * (rows * 2 * d + groups / 4 * streamed * (2 + last) * d + streamed * 2 * d)
    row("by wgmma: " $3 ", " rows " x " streamed, $4, macs, bytes, rows * streamed, 4 * streamed * d, l2_of[$4], rows * streamed * (last == 2 ? 17 : 14.5) / 32, 1, $11, ASYNC)
}
$1 == "projection_gpu.warpgroup" && $3 == "projection_gpu_warpgroup" && / proj bf16 b1 h1 q4096 d4096 \|/ {
    m = groups * 16; n = value("BLOCK_N"); k = 64
    row("projection_gpu UNIT=warpgroup, " m " x " n " x " k, $4, m * n * k, 2 * k * (2 * m + groups / 4 * n + n), 0, 2 * k * (m + n), l2_of[$4], m * n / 22.4, 1, $11, ASYNC)
}
$1 == "projection_gpu.mma" && $3 == "projection_gpu_mma" && / proj bf16 b1 h1 q4096 d4096 \|/ {
    m = value("BLOCK_M"); n = value("BLOCK_N"); k = value("BLOCK_K")
    by_m = value("SUB_GROUPS_M"); by_n = value("SUB_GROUPS_N")
    macs = m * n * k; bytes = 2 * k * ((by_n * m + by_m * n) * c + m + n)
    row("projection_gpu UNIT=mma, " m " x " n " x " k, $4, macs, bytes, 0, 2 * k * (m + n), l2_of[$4], share ? macs / per / share : 0, reach[$4], $11, SYNC)
}
END {
    macs = 128 * 64 * 2 * d
    row("FlashAttention-2, 128 x 64", "sm_90", macs, 2 * (4 * 64 * 2 * d + 128 * d + 64 * 2 * d), 128 * 64, 4 * 64 * d, l2_of["sm_90"], 0, reach["sm_90"], 2, SYNC)
    m = 64; n = 128; macs = m * n * 5 * d
    bytes = 2 * (2 * 8 * (m / 2 + n / 4) * d + 2 * m * n + 2 * 8 * (n / 4 * m + m * d / 2) + 8 * (m / 2 * n + n * d / 4) + 2 * m * d)
    row("FlashAttention-2 backward, 64 x 128", "sm_90", macs, bytes, m * n, 2 * 2 * m * d + 4 * m * d, l2_of["sm_90"], 0, reach["sm_90"], 2, SYNC)
    macs = 128 * 128 * 2 * d
    row("FlashAttention-3, 128 x 128", "sm_90", macs, 2 * (2 * 128 * 2 * d + 128 * d + 128 * 2 * d), 128 * 128, 4 * 128 * d, l2_of["sm_90"], 0, 1, 3, ASYNC)
    # Of each: multiply-adds of a tile, bytes of local memory, exponentials, bytes from L2, instructions and clocks as counted.
    row("profiled: fused_gpu UNIT=mma, 128 x 64", "sm_90", 2097152, 196608, 8192, 32768, l2_of["sm_90"], 3939, reach["sm_90"], 2, SYNC, 2774)
    row("profiled: backward_keys UNIT=mma, 64 x 32", "sm_90", 1048576, 180224, 2048, 16384, l2_of["sm_90"], 2034, reach["sm_90"], 2, SYNC, 1956)
    row("profiled: backward_queries UNIT=mma, 64 x 32", "sm_90", 786432, 147456, 2048, 16384, l2_of["sm_90"], 1941, reach["sm_90"], 3, SYNC, 1427)
    row("profiled: projection_gpu UNIT=mma, 128 x 128 x 64", "sm_90", 1048576, 98304, 0, 32768, l2_of["sm_90"], 1701, reach["sm_90"], 2, SYNC, 1668)
    row("profiled: fused_gpu UNIT=warpgroup, 128 x 128", "sm_90", 4194304, 229376, 16384, 65536, l2_of["sm_90"], 5583, 1, 3, ASYNC, 3425)
    row("profiled: backward_keys UNIT=warpgroup, 128 x 64", "sm_90", 4194304, 229376, 8192, 32768, l2_of["sm_90"], 4356, 1, 3, ASYNC, 3275)
    row("profiled: backward_queries UNIT=warpgroup, 128 x 64", "sm_90", 3145728, 196608, 8192, 32768, l2_of["sm_90"], 3701, 1, 3, ASYNC, 2177)
    row("profiled: projection_gpu UNIT=warpgroup, 128 x 256 x 64", "sm_90", 2097152, 131072, 0, 49152, l2_of["sm_90"], 1466, 1, 3, ASYNC, 1268)
    exit wrong > 0
}' "${1:-$kept}" > "$rows"
status=$?
{ IFS= read -r heading; echo "$heading"; sort -s -k 1,1; } < "$rows"
exit $status
