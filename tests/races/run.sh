#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the program races under Oclgrind: sh tests/races/run.sh BUILD/tests/races/races
# Fails if a result is wrong or Oclgrind reports anything at all; ends with 77 without Oclgrind.
set -eu
program=$1
command -v oclgrind > /dev/null 2>&1 || {
    echo "skipped: there is no oclgrind to watch kernels for races and values that nothing wrote"
    exit 77
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
unset CLATTN_DEVICE # Oclgrind is the only device there
export CLATTN_CACHE_DIR= # programs built with other options than below are not wanted

# Unoptimised and nothing inlined by force, since Oclgrind 21.10 lacks the instruction `freeze` and
# the intrinsic `noalias.scope.decl` that these bring in, and since an optimiser may remove the
# access that races. Of elements that the instruction `shufflevector` chooses it calls some not
# initialized that are: OpenCL's own function chooses them here.
watch() {
    : > "$log"
    timeout 1200 oclgrind --num-threads 1 --data-races --uninitialized \
        --build-options "-cl-opt-disable -Dalways_inline= -DNO_SHUFFLEVECTOR" --log "$log" "$program" "$@"
}

watch --racy
if ! grep -q 'data race' "$log"; then
    echo "FAIL Oclgrind did not see the race that was put there" >&2
    exit 1
fi
# A process for each pair of an item and a family: where a new buffer has the place of a freed one,
# Oclgrind 21.10 may call values uninitialized that were written (nothing is reported if buffers are
# never freed).
step=24 # of 24 runs with neighbouring seeds each takes one in 24
[ "${CLATTN_TEST_ALL:-}" != 1 ] || step=1
runs=0
seed=${CLATTN_TEST_SEED:-1}
[ "$seed" != day ] || seed=$(($(date +%s) / 86400))
pair=$((seed % step))
while :; do
    status=0
    watch "$pair" || status=$?
    [ "$status" -ne 3 ] || break
    if [ -s "$log" ]; then
        head -n 40 "$log" >&2
        echo "FAIL Oclgrind has reported $(grep -c . "$log") lines" >&2
        exit 1
    fi
    [ "$status" -eq 0 ] || exit "$status"
    pair=$((pair + step))
    runs=$((runs + 1))
done
echo "Oclgrind reported nothing in $runs runs"
[ "$runs" -gt 0 ]
