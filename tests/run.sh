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
summary=
lanes=

# count STATUS NAME SECONDS: one line of the summary.
count() {
    status=$1
    line="$2, $3 s"
    if [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
        summary="${summary}ok    $line
"
    else
        failed=$((failed + 1))
        summary="${summary}FAIL  $line (exit status $status; 124 is a timeout)
"
    fi
}

# run NAME SECONDS COMMAND...: one step of the summary.
run() {
    name=$1
    limit=$2
    shift 2
    printf '\n== %s\n' "$name"
    start=$(date +%s)
    timeout -k 10 "$limit" "$@"
    count $? "$name" $(($(date +%s) - start))
}

# aside NAME SECONDS COMMAND...: the same for a step of a lane, whose words wait in a file.
aside() {
    name=$1
    limit=$2
    shift 2
    start=$(date +%s)
    timeout -k 10 "$limit" "$@" > "$lane.words" 2>&1
    echo "$? $(($(date +%s) - start)) $name" >> "$lane.steps"
    { printf '\n== %s\n' "$name" && cat "$lane.words"; } >> "$lane.log"
}

# begin NAME FUNCTION: steps that one core is enough for, or that mostly wait, beside others.
begin() {
    lane=$build/lane-$1
    rm -f "$lane".*
    lanes="$lanes $lane"
    "$2" &
}

# Waits for all lanes, then says what they had to say.
join() {
    wait
    for lane in $lanes; do
        cat "$lane.log"
        while read -r status seconds name; do
            count "$status" "$name" "$seconds"
        done < "$lane.steps"
    done
    lanes=
}

finish() {
    printf '\n== summary\n%ssteps: %d passed, %d failed\n' "$summary" "$passed" "$failed"
    [ "$failed" -eq 0 ]
    exit
}

# compile NAME TARGETS OPTION...: configures and builds; says little unless it fails.
compile() {
    folder=$build/$1
    targets=$2
    shift 2
    run "build ${folder##*/}" 600 sh -c '
        folder=$1
        targets=$2
        shift 2
        mkdir -p "$folder"
        { cmake -B "$folder" -DCLATTN_WERROR=ON "$@" &&
            cmake --build "$folder" --parallel "$(nproc)" --target $targets; } \
            > "$folder/build.log" 2>&1 ||
            { tail -n 60 "$folder/build.log"; exit 1; }' compile "$folder" "$targets" "$@"
}

# fuzz TARGET SEEDS...: some time of hostile bytes, in a lane. What earlier runs found interesting
# is kept.
fuzz() {
    target=$1
    shift
    mkdir -p "$build/fuzz/$target"
    aside "fuzz_$target" 120 sh -c '
        program=$1
        folder=$2
        shift 2
        "$program" "$folder" "$@" -artifact_prefix="$folder-" -max_total_time=20 -max_len=8192 \
            -timeout=10 > "$folder.log" 2>&1 || { tail -n 60 "$folder.log"; exit 1; }' \
        fuzz "$build/test-clang/tests/fuzz/fuzz_$target" "$build/fuzz/$target" "$@"
}

run "packages" 1200 sh tests/packages.sh build test
[ "$failed" -eq 0 ] || finish

# What clang warns of does not depend on how far it optimises. Sanitized is only what runs below.
compile test-gcc all --preset release -DCMAKE_C_COMPILER=gcc
compile test-clang all --preset release -DCMAKE_C_COMPILER=clang \
    -DCMAKE_C_FLAGS_RELEASE="-O1 -DNDEBUG" -DCLATTN_FUZZ=ON
compile test-sanitized "examples races" --preset asan-ubsan -DCMAKE_C_COMPILER=gcc
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

one_core() {
    aside "every kernel" 600 env CLATTN_CACHE_DIR= "$build/test-gcc/tests/races/races"
    fuzz table tests/fuzz/table tests/data/store -dict=tests/fuzz/table.dict
    fuzz recording tests/fuzz/recording -dict=tests/fuzz/recording.dict
    fuzz results tests/fuzz/results -dict=tests/fuzz/results.dict
    fuzz program tests/fuzz/program -dict=tests/fuzz/program.dict
    fuzz profile tests/fuzz/profile -dict=tests/fuzz/profile.dict
}

# Criterion's programs directly, so that their closing lines show. The first takes all cores, the
# others often wait.
run clattn_tests 1200 "$build/test-gcc/tests/clattn_tests"
begin 1 one_core
for name in clattn_bench_tests clattn_tune_tests clattn_tuner_tests; do
    run "$name" 1200 "$build/test-gcc/tests/$name"
done
run "examples, installed copy, Oclgrind" 900 \
    ctest --test-dir "$build/test-gcc" --parallel 2 --output-on-failure \
    --exclude-regex '^(tests|bench|tuner|tune)$'
join

# PoCL's compiler leaks: all that is checked here is compiled before, and then nothing leaks, and a
# lost OpenCL object shows. What a tuning comes to is decided by the clock: there PoCL's libraries
# are excused.
CLATTN_CACHE_DIR= # none: building programs is to be checked as well
export CLATTN_CACHE_DIR
run "examples again" 300 \
    ctest --test-dir "$build/test-gcc" --parallel 2 --output-on-failure --tests-regex '^example_' \
    --exclude-regex tuning
ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
UBSAN_OPTIONS=print_stacktrace=1
LSAN_OPTIONS=print_suppressions=0
export ASAN_OPTIONS UBSAN_OPTIONS LSAN_OPTIONS
run "examples, sanitized" 300 \
    ctest --test-dir "$build/test-sanitized" --parallel 2 --output-on-failure \
    --tests-regex '^example_' --exclude-regex tuning
run "every kernel, sanitized" 300 "$build/test-sanitized/tests/races/races"
LSAN_OPTIONS=suppressions=$root/tests/lsan.supp:print_suppressions=0
run "tuning, sanitized" 300 \
    ctest --test-dir "$build/test-sanitized" --output-on-failure --tests-regex '^example_.*tuning'
finish
