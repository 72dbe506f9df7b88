#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/processors.sh BUILD_DIR [PROCESSOR...]: the Criterion tests as they run on other x86-64 processors, in a
# build that has them (tests/run.sh leaves one in build/test-gcc), and a table of what passed. All processors by default:
#   zen4      AVX-512 with BF16 and VNNI, without AMX
#   zen3      AVX2, as on Zen 2 and 3
#   haswell   the same, of Intel
#   ivybridge AVX, no FMA
#   nehalem   SSE4.2, no AVX, as many Celerons and Pentiums until 2022
# PoCL compiles for them and clattn chooses for them, but the speed is this processor's (tests/processors/cpuid.c). This
# one needs an Intel processor that has all of the other's instructions, and whose CPUID can fault (cpuid_fault in
# /proc/cpuinfo). CLATTN_FILTER says which tests, by default */*; programs are kept in BUILD_DIR/processors.
# Exits with 1 if a test failed, with 77 if this processor cannot be another.
set -u
[ $# -ge 1 ] && [ -d "$1" ] || { sed -n '3,/^set -u/{s/^# \{0,1\}//p;}' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- zen4 zen3 haswell ivybridge nehalem
cd "$(dirname "$0")/.." || exit 1
grep -qw cpuid_fault /proc/cpuinfo || { echo "skipped: this processor's CPUID cannot fault"; exit 77; }
library=$build/tests/libclattn_processor.so
[ -e "$library" ] || { echo "there is no $library: build the tests first" >&2; exit 2; }
pocl=/etc/OpenCL/vendors/pocl.icd
if [ -z "${CLATTN_DEVICE:-}" ] && [ -e "$pocl" ]; then
    OCL_ICD_VENDORS=$pocl
    CLATTN_DEVICE="Portable Computing Language"
    export OCL_ICD_VENDORS CLATTN_DEVICE
fi
export POCL_SIGFPE_HANDLER=0 # it would hide divisions by zero
failures=0
rows=$build/processors/rows
mkdir -p "$build/processors"
: > "$rows"

for processor; do
    folder=$build/processors/$processor
    mkdir -p "$folder/programs"
    for tests in clattn_tests clattn_bench_tests clattn_tuner_tests clattn_tune_tests; do
        rm -rf "$folder/clattn"
        POCL_CACHE_DIR=$folder/programs CLATTN_CACHE_DIR=$folder/clattn CLATTN_PROCESSOR=$processor \
            LD_PRELOAD=$library "$build/tests/$tests" --filter "${CLATTN_FILTER:-*/*}" --tap="$folder/$tests.tap" \
            > "$folder/$tests.log" 2>&1
        status=$?
        if [ "$status" -ne 0 ]; then
            failures=1
            grep -E '^\[(----|FAIL|ERR )' "$folder/$tests.log" | tail -n 40
        fi
        sed -i '/# SKIP test was skipped/d' "$folder/$tests.tap" # by the filter
        passed=$(grep -c '^ok' "$folder/$tests.tap")
        skipped=$(grep -c '^ok .*# SKIP ' "$folder/$tests.tap")
        failed=$(grep -c '^not ok' "$folder/$tests.tap")
        echo "| $processor | $tests | $((passed - skipped)) | $failed | $skipped | $status |" | tee -a "$rows"
    done
done
printf '\n| processor | tests | passed | failed | skipped | exit status |\n|---|---|--:|--:|--:|--:|\n'
cat "$rows"
exit "$failures"
