#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh bench/mpi/scaling.sh BUILD [FILE]: attention over up to 1024 ranks of described clusters, simulated. Needs SimGrid
# (Debian: libsimgrid-dev) and the folder that clattn was built in.
# The communication is that of src/mpi, run by SMPI; devices take the time that their rates say (bench/mpi/simulate).
# Writes a line of tab-separated values for each cluster, problem, number of ranks and mode to FILE, by default
# bench/results/scaling-simulated-DATE.tsv, from which bench/mpi/scaling_plot.py draws. Where the columns of the simulation
# are 0 there would be too many messages to simulate, and the cost model's prediction stands alone. Takes most of an hour on one core.
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
file=${2:-bench/results/scaling-simulated-$(date -u +%F).tsv}
command -v smpicc > /dev/null || { echo "skipped: there is no smpicc"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
common="plan options rates/cost rates/measure execute heads split gather ring shards partition/partition partition/parts
    partition/rounds fault"
sources=
for name in $common; do sources="$sources src/mpi/$name.c"; done
smpicc -O2 -std=c11 -DCL_TARGET_OPENCL_VERSION=120 -Iinclude -Isrc -I. -include bench/mpi/simulate/messages.h \
    -o "$work/simulate" bench/mpi/simulate/*.c $sources -L"$build" -lclattn -Wl,-rpath,"$build" -lOpenCL -lm

# Problem of Llama 3 8B: 32 heads, 8 of keys and values, dim 128, causal.
shape="bf16 h32/8"
rest="d128 causal=tl"

# cluster NAME NODE_RANKS NODE_LATENCY NODE_BANDWIDTH LATENCY BANDWIDTH FLOPS COPY OVERHEAD MEMORY
cluster() {
    name=$1 node=$2 node_latency=$3 node_bandwidth=$4 latency=$5 bandwidth=$6 flops=$7 copy=$8 overhead=$9 memory=${10}
}

# run RANKS TOKENS MODE[,MODE]...: forward and backward
run() {
    awk -v ranks="$1" -v node="$node" -v latency="$latency" -v bandwidth="$bandwidth" \
        -v node_latency="$node_latency" -v node_bandwidth="$node_bandwidth" \
        -f bench/mpi/simulate/platform.awk /dev/null > "$work/platform.xml"
    seq 0 $(($1 - 1)) | sed 's/^/rank/' > "$work/hosts"
    for operation in fwd bwd; do
        ${CLATTN_SCALING_PREFIX:-} smpirun -np "$1" -hostfile "$work/hosts" -platform "$work/platform.xml" \
            --cfg=smpi/simulate-computation:no --cfg=smpi/privatization:no --cfg=smpi/shared-malloc:global \
            --cfg=smpi/coll-selector:mpich --cfg=smpi/test:0 --cfg=smpi/wtime:0 --cfg=network/model:CM02 \
            --cfg=network/TCP-gamma:0 --cfg=network/weight-S:0 --cfg=network/latency-factor:1 \
            --cfg=network/bandwidth-factor:1 --log=root.thres:error \
            "$work/simulate" bench/profiles/sm_90.json "$flops" "$copy" "$overhead" "$memory" "$node" \
            "$node_latency" "$node_bandwidth" "$latency" "$bandwidth" "$3" \
            "$operation $shape q$2 k$2 $rest" 2> "$work/errors" | grep "^$operation" | sed "s/^/$name\t/" >> "$file" ||
            cat "$work/errors"
    done
    tail -n 2 "$file"
}

printf 'cluster\tproblem\tranks\tmode\tms simulated\tms predicted\tefficiency simulated\tefficiency predicted\tms computing\tms waiting\tms staging\tGB held\tGB held predicted\n' > "$file"
# 8 GPUs by a fast link a node. The rates of a GPU are assumed: 300 TFLOP/s, 25 GB/s to the host, 2 TB/s of memory.
for bandwidth in 50e9 12.5e9; do
    case $bandwidth in 50e9) gbit=400 ;; *) gbit=100 ;; esac
    cluster gpus-$gbit 8 2e-6 300e9 5e-6 $bandwidth 300e12 25e9 2e-5 2e12
    for tokens in 131072 1048576; do
        run 8 $tokens ring,heads
        run 64 $tokens ring,heads-ring:8
        run 512 $tokens heads-ring:8
    done
    for tokens in 4194304 16777216; do # a simulation of few ranks would not fit in 24 GB
        run 8 $tokens '?ring,?heads'
        run 64 $tokens '?ring,?heads-ring:8'
        run 512 $tokens heads-ring:8
    done
    for tokens in 131072 1048576; do
        run 8 $tokens all-gather
        run 64 $tokens all-gather
    done
    for tokens in 4194304 16777216; do
        run 8 $tokens '?all-gather'
        run 64 $tokens '?all-gather'
    done
    for tokens in 131072 1048576 4194304 16777216; do
        run 512 $tokens '?all-gather,?ring'
        run 1024 $tokens '?all-gather,?ring,?heads-ring:8'
    done
done
# PCs in an office: the rates of two cores of a Xeon, as measured by clattn-bench-mpi, and 1 Gbit/s.
cluster office 1 1e-4 125e6 1e-4 125e6 0.35e12 6e9 1e-4 20e9
for tokens in 131072 1048576; do
    run 8 $tokens ring,heads,all-gather
    run 64 $tokens ring,heads-ring:8
done
# What takes longest: rings of many ranks.
cluster gpus-400 8 2e-6 300e9 5e-6 50e9 300e12 25e9 2e-5 2e12
run 1024 1048576 heads-ring:8
run 1024 16777216 heads-ring:8
run 512 16777216 ring
run 512 1048576 ring
run 1024 16777216 ring
echo "$file"
