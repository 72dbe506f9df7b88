#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/mpi.sh [RANKS...]: libclattn_mpi against double precision (tests/mpi/mpi_attention.c), what goes wrong
# on one rank (mpi_faults.c), measured speeds (mpi_speed.c), clattn-bench --mpi and the cost model (mpi_cost.c), with each MPI that is installed, Open MPI and MPICH, on 1, 2, 3, 4 and 7 ranks of this machine unless others are named.
# Builds what it needs in build/mpi-NAME.
#   --build DIR   with the MPI of that build alone and an eighth of the cases on each, as CTest does; on one rank and, by
#                 CLATTN_TEST_SEED, on two or three, unless others are named
# Ends with 1 if anything is wrong, with 77 if there is no MPI.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
build=
if [ "${1:-}" = --build ]; then
    build=$2
    shift 2
    seed=${CLATTN_TEST_SEED:-1}
    [ "$seed" != day ] || seed=$(($(date +%s) / 86400))
    [ $# -gt 0 ] || set -- 1 $((2 + seed % 2))
else
    export CLATTN_TEST_ALL=1
fi
[ $# -gt 0 ] || set -- 1 2 3 4 7

: "${POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable -Dalways_inline=}"
export POCL_AFFINITY=0 POCL_EXTRA_BUILD_FLAGS
. tests/mpi/environment.sh
bad=0

limited() {
    timeout "${CLATTN_TEST_LIMIT:-1200}" "$@"
}

# bench_over_ranks MPIRUN RANKS PROGRAM: results of all ranks and modes are right and stand in the JSON, rank 0 alone
# speaks, and what is wrong on the last rank ends all with one sentence.
bench_over_ranks() {
    json=$(mktemp) text=$(mktemp) failed=0
    limited "$1" -n "$2" "$3" run --mpi --scaling both --repeat 1 --mode auto,ring \
        --json "$json" "fwd f32 h4 q96 k96 d32 causal=tl" "bwd f32 h2 q64 k64 d32 causal=tl alibi score=t5" > "$text" 2>&1 ||
        { cat "$text"; failed=1; }
    [ "$(grep -c '^  fwd' "$text")" = 1 ] || { echo "rank 0 does not speak alone"; cat "$text"; failed=1; }
    [ "$(grep -c '"state": "measured"' "$json")" = 10 ] || { echo "not all were measured"; failed=1; }
    # Speeds are measured by all ranks or by none, and make shards that all rows have a place in.
    limited "$1" -n "$2" "$3" run --mpi --speed measured --repeat 1 --mode ring --json "$json" \
        --quiet "fwd f32 h4 q96 k96 d32 causal=tl" > "$text" 2>&1 || { cat "$text"; failed=1; }
    [ "$(tr -d ' \n' < "$json" | sed 's/.*"queries":\[\([0-9.,]*\)\].*/\1/' | tr , '\n' |
        awk '{ sum += $1 } END { print NR, sum }')" = "$2 96" ] || { echo "measured speeds: not all rows"; failed=1; }
    status=0
    limited "$1" -n "$2" sh -c '
        [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = "$1" ] || speed="--speed measured"
        exec "$0" run --mpi $speed "fwd f32 h4 q96 k96 d32"' "$3" $(($2 - 1)) > "$text" 2>&1 || status=$?
    [ "$2" -eq 1 ] || { [ $status = 2 ] && grep -q "for all ranks or for none" "$text"; } ||
        { echo "status $status, and:"; cat "$text"; failed=1; }
    limited "$1" -n "$2" "$3" run --mpi --mode ring --repeat 1 --json "$json" \
        tests/data/conformance/test_attention_4d_causal.safetensors > "$text" 2>&1 || { cat "$text"; failed=1; }
    grep -q '"against": "file"' "$json" && [ "$(grep -c '"state": "measured"' "$json")" = 2 ] || { cat "$text"; failed=1; }
    status=0
    limited "$1" -n "$2" sh -c '
        [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != "$1" ] || device="--device none-such"
        exec "$0" run --mpi $device "fwd f32 h4 q96 k96 d32"' "$3" $(($2 - 1)) > "$text" 2>&1 || status=$?
    [ $status = 1 ] && [ "$(grep -c "no OpenCL device matches 'none-such'" "$text")" = 1 ] ||
        { echo "status $status, and:"; cat "$text"; failed=1; }
    rm -f "$json" "$text"
    return $failed
}

# in_build DIR MPIRUN RANKS...
in_build() {
    programs=$1/tests/mpi
    run=$2
    losses=$1/tests/mpi/losses
    rm -f "$losses".*
    shift 2
    bench=$programs/../../bench/clattn-bench
    "$programs/mpi_cost" || bad=1 # needs no ranks
    for ranks; do
        bench_over_ranks "$run" "$ranks" "$bench" || { echo "FAIL: clattn-bench --mpi on $ranks ranks"; bad=1; }
        for program in mpi_faults mpi_speed mpi_attention; do
            limited "$run" -n "$ranks" "$programs/$program" || bad=1
        done
        # Messages are copied to devices that do not share the host's memory.
        [ "$ranks" -eq 1 ] || limited "$run" -n "$ranks" "$programs/mpi_attention" \
            --own-memory || bad=1
        # The same losses on any number of ranks, but for rounding; its sequences have eight places.
        [ "$ranks" -le 4 ] || continue
        limited "$run" -n "$ranks" \
            "$programs/../examples/example_22_ring_training" > "$losses.$ranks" || bad=1
        echo "$ranks ranks, training: $(tail -n 1 "$losses.$ranks")"
        [ -s "$losses.1" ] || cp "$losses.$ranks" "$losses.1"
        paste "$losses.1" "$losses.$ranks" | awk '
            { d = $4 - $11; if (d < 0) d = -d; if (NF != 14 || d > 0.001 + 0.02 * $4) bad = 1 }
            END { exit bad || NR != 5 }' || { echo "FAIL: other losses on $ranks ranks"; bad=1; }
    done
}

if [ -n "$build" ]; then
    run=$(sed -n 's/^MPIEXEC_EXECUTABLE:FILEPATH=//p' "$build/CMakeCache.txt")
    [ -x "$run" ] || { echo "skipped: there is no mpiexec"; exit 77; }
    in_build "$build" "$run" "$@"
    exit $bad
fi
found=
for name in openmpi mpich; do
    command -v "mpicc.$name" > /dev/null 2>&1 || continue
    found=1
    echo "== $name"
    folder=$root/build/mpi-$name
    { cmake --preset release -B "$folder" -DCLATTN_WERROR=ON -DMPI_C_COMPILER="mpicc.$name" \
        -DMPIEXEC_EXECUTABLE="$(command -v "mpirun.$name")" &&
        cmake --build "$folder" --parallel "$(nproc)" --target mpi_tests clattn-bench clattn-bench-mpi \
            example_22_ring_training; } \
        > "$root/build/mpi-$name.log" 2>&1 || { tail -n 40 "$root/build/mpi-$name.log"; bad=1; continue; }
    in_build "$folder" "mpirun.$name" "$@"
done
[ -n "$found" ] || { echo "skipped: neither mpicc.openmpi nor mpicc.mpich is there"; exit 77; }
exit $bad
