#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh bench/mpi/two_cores.sh BUILD NAME [TOKENS]: what a machine of two cores spends on having two ranks. Attention of 4 heads of
# dim 128, causal, f32, forward and backward, of 8192 tokens if none are named, in each mode:
#   1rank-2cores  one rank on both cores
#   1rank-1core   one rank on one core
#   2ranks        two ranks, a core each
#   uneven        likewise, but the second one's core runs another program as well; shards by --speed measured
#   step          64 tokens, on two ranks: what a step takes that computes next to nothing
# Writes bench/results/mpi-{1rank-2cores,...}-NAME-DATE.json, and prints clattn-bench's tables. The machine should do nothing else.
# BENCH_ONLY="2ranks uneven" does these alone; REPEAT=n takes n samples, by default 9.
set -eu
build=$(cd "$1" && pwd)
name=$2
tokens=${3:-8192}
cd "$(dirname "$0")/../.."
only=${BENCH_ONLY:-1rank-2cores 1rank-1core 2ranks uneven step}
results=${RESULTS:-bench/results}
# As tests/mpi.sh: any user, ranks where taskset puts them.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
mpirun=$(sed -n 's/^MPIEXEC_EXECUTABLE:FILEPATH=//p' "$build/CMakeCache.txt")

# measure WHAT RANKS CORES TOKENS OPTION...: CORES 1: rank n on core n; 2: on both.
measure() {
    what=$1 ranks=$2 cores=$3 length=$4
    case " $only " in *" $what "*) ;; *) return 0 ;; esac
    shift 4
    file=$results/mpi-$what-$name-$(date -u +%F).json
    # shellcheck disable=SC2016 # the ranks' shell
    echo "== $what"
    "$mpirun" -n "$ranks" sh -c '
        cores=$1 && shift
        if [ "$cores" = 2 ]; then
            export POCL_AFFINITY=1 # a core for each of its threads
            exec "$0" "$@"
        fi
        exec taskset -c "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" "$0" "$@"' "$build/bench/clattn-bench" "$cores" \
        run --mpi --repeat "${REPEAT:-9}" --json "$file" "$@" \
        "fwd f32 h4 q$length k$length d128 causal=tl" "bwd f32 h4 q$length k$length d128 causal=tl" ||
        { echo "$what failed" >&2; exit 1; }
}

measure 1rank-2cores 1 2 "$tokens" --mode ring
measure 1rank-1core 1 1 "$tokens" --mode ring
measure 2ranks 2 1 "$tokens" --mode ring,heads
case " $only " in *" uneven "*)
    taskset -c 1 sh -c 'while :; do :; done' &
    other=$!
    trap 'kill $other' EXIT
    measure uneven 2 1 "$tokens" --mode ring --speed measured
    kill $other
    trap - EXIT
    ;;
esac
measure step 2 1 64 --mode ring,heads
