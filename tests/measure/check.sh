#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/measure/check.sh BUILD_DIR: bench/measure.sh with the programs of a build leaves all that
# it promises, and says what is wrong with its arguments.
set -eu
[ $# -eq 1 ] || { echo "usage: sh tests/measure/check.sh BUILD_DIR" >&2; exit 2; }
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
# PoCL compiles without optimising, in a fifth of the time: times do not count here.
: "${POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable -Dalways_inline=}"
export POCL_EXTRA_BUILD_FLAGS
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# refused STATUS SENTENCE ARGUMENT...
refused() {
    want=$1
    sentence=$2
    shift 2
    status=0
    sh bench/measure.sh "$@" > /dev/null 2> "$folder/said" || status=$?
    if [ "$status" -ne "$want" ] || ! grep -q "$sentence" "$folder/said"; then
        echo "measure.sh $*: exit status $status instead of $want, or not '$sentence' but:" >&2
        cat "$folder/said" >&2
        exit 1
    fi
}

refused 2 "name the folder"
refused 2 "there is no option --wrong" --wrong
refused 2 "takes a value" "$folder/out" --budget
refused 2 "takes one folder" "$folder/a" "$folder/b"

sh bench/measure.sh --programs "$build" --workload "fwd f32 b1 h2 q64 d32" --budget 1s \
    --data tests/data/minilm "$folder/out" > "$folder/said" 2>&1 || { cat "$folder/said"; exit 1; }
for name in log devices.json verify.txt results.json; do
    [ -s "$folder/out/$name" ] || { echo "there is no $name" >&2; cat "$folder/said"; exit 1; }
done
ls "$folder"/out/store/tuning/*.json > /dev/null
grep -q "^ok    run" "$folder/out/log"

# A step that fails is named, the others are made.
if sh bench/measure.sh --programs "$build" --workload "fwd f32 q0" --budget 1s \
    --data tests/data/minilm "$folder/bad" > "$folder/said" 2>&1; then
    echo "a problem that cannot be read did not count as a failure" >&2
    exit 1
fi
grep -q "^FAIL  run" "$folder/bad/log"
grep -q "^ok    verify" "$folder/bad/log"
echo "measure.sh left all of it"
