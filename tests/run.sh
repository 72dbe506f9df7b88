#!/bin/sh
# sh tests/run.sh: installs what is missing, builds with warnings as errors and runs every test.
# Exits non-zero if one fails, crashes, hangs or leaks. A second run only does what has changed.
#
# Tests run on PoCL; CLATTN_DEVICE chooses another device. CLATTN_TEST_BUILD moves the build folder
# (./build), which also holds PoCL's cache of compiled kernels.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
build=${CLATTN_TEST_BUILD:-$root/build}
passed=0
failed=0

# run NAME SECONDS COMMAND...: one step of the summary.
run() {
    name=$1
    limit=$2
    shift 2
    printf '\n== %s\n' "$name"
    start=$(date +%s)
    timeout -k 10 "$limit" "$@"
    status=$?
    line="$name, $(($(date +%s) - start)) s"
    if [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
        summary="${summary:-}ok    $line
"
    else
        failed=$((failed + 1))
        summary="${summary:-}FAIL  $line (exit status $status; 124 is a timeout)
"
    fi
}

finish() {
    printf '\n== summary\n%ssteps: %d passed, %d failed\n' "$summary" "$passed" "$failed"
    [ "$failed" -eq 0 ]
    exit
}

# Configures and builds the folder NAME; says little unless it fails.
compile() {
    folder=$build/$1
    shift
    run "build ${folder##*/}" 600 sh -c '
        folder=$1
        shift
        mkdir -p "$folder"
        { cmake -B "$folder" -DCLATTN_WERROR=ON "$@" &&
            cmake --build "$folder" --parallel "$(nproc)"; } > "$folder/build.log" 2>&1 ||
            { tail -n 60 "$folder/build.log"; exit 1; }' compile "$folder" "$@"
}

# fuzz TARGET SEEDS...: half a minute of hostile bytes. What earlier runs found interesting is kept.
fuzz() {
    target=$1
    shift
    mkdir -p "$build/fuzz/$target"
    run "fuzz_$target" 120 sh -c '
        program=$1
        folder=$2
        shift 2
        "$program" "$folder" "$@" -artifact_prefix="$folder-" -max_total_time=30 -max_len=8192 \
            -timeout=10 > "$folder.log" 2>&1 || { tail -n 60 "$folder.log"; exit 1; }' \
        fuzz "$build/test-clang/tests/fuzz/fuzz_$target" "$build/fuzz/$target" "$@"
}

run "packages" 1200 sh tests/packages.sh build test
[ "$failed" -eq 0 ] || finish

compile test-gcc --preset release -DCMAKE_C_COMPILER=gcc
compile test-clang --preset release -DCMAKE_C_COMPILER=clang -DCLATTN_FUZZ=ON
compile test-sanitized --preset asan-ubsan -DCMAKE_C_COMPILER=gcc
[ "$failed" -eq 0 ] || finish

# One implementation at a time: others that are installed would be loaded, and leak, as well.
pocl=/etc/OpenCL/vendors/pocl.icd
if [ -z "${CLATTN_DEVICE:-}" ] && [ -e "$pocl" ]; then
    OCL_ICD_VENDORS=$pocl
    CLATTN_DEVICE="Portable Computing Language"
    export OCL_ICD_VENDORS CLATTN_DEVICE
fi
POCL_SIGFPE_HANDLER=0 # it would hide divisions by zero, of ours as well
export POCL_SIGFPE_HANDLER
POCL_CACHE_DIR=$build/pocl-cache
CLATTN_CACHE_DIR=$build/clattn-cache
rm -rf "$CLATTN_CACHE_DIR" # each run checks for itself that programs compute right
mkdir -p "$POCL_CACHE_DIR"
export POCL_CACHE_DIR CLATTN_CACHE_DIR

# Criterion's programs directly, so that their closing lines show.
for program in "$build"/test-gcc/tests/clattn_*tests; do
    run "$(basename "$program")" 1200 "$program"
done
fuzz table tests/fuzz/table tests/data/store -dict=tests/fuzz/table.dict
fuzz recording tests/fuzz/recording -dict=tests/fuzz/recording.dict
fuzz results tests/fuzz/results -dict=tests/fuzz/results.dict
fuzz program tests/fuzz/program -dict=tests/fuzz/program.dict
run "examples, installed copy, Oclgrind" 900 \
    ctest --test-dir "$build/test-gcc" --output-on-failure --exclude-regex '^(tests|bench|tuner|tune)$'

# Twice: PoCL's compiler leaks, and so its libraries are excused in the first pass. The second finds
# all kernels compiled (but what a tuning comes to, by the clock); nothing leaks then, and a lost
# OpenCL object shows.
ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
UBSAN_OPTIONS=print_stacktrace=1
CLATTN_CACHE_DIR= # none: building programs is to be checked as well
export ASAN_OPTIONS UBSAN_OPTIONS
excluded=none
for suppressions in "$root/tests/lsan.supp" ""; do
    LSAN_OPTIONS=suppressions=$suppressions:print_suppressions=0
    export LSAN_OPTIONS
    run "examples, sanitized" 300 \
        ctest --test-dir "$build/test-sanitized" --output-on-failure --tests-regex '^example_' \
        --exclude-regex "$excluded"
    excluded=tuning
    run "every kernel, sanitized" 300 "$build/test-sanitized/tests/races/races"
done
finish
