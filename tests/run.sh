#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/run.sh: installs what is missing, builds with warnings as errors and runs every test.
# Exits non-zero if one fails, crashes, hangs or leaks; what cannot be tested here is named with the
# reason. A second run only does what has changed.
#
# Tests run on PoCL; CLATTN_DEVICE chooses another device. CLATTN_TEST_BUILD moves the build folder
# (./build), which also holds PoCL's cache of compiled kernels, and in logs/ what every step said.
# Much is drawn, or spread over a few runs, by the seed CLATTN_TEST_SEED: a number (1), or "day" for
# the day's, as nightly runs have it. CLATTN_TEST_ALL=1 takes all that is spread.
# Limits are for what hangs, not for machines that are slow: a step may take CLATTN_TEST_LIMIT
# seconds (7200), and CLATTN_TEST_PATIENCE (10) multiplies the limits of single tests.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
build=${CLATTN_TEST_BUILD:-$root/build}
CLATTN_TEST_LIMIT=${CLATTN_TEST_LIMIT:-7200}
export CLATTN_TEST_LIMIT
logs=$build/logs
rm -rf "$logs"
mkdir -p "$logs"
lane=$logs/main
lanes=
beside=
begun=$(date +%s)

# step NAME COMMAND...: one step. Lines "failed: WHAT" and "skipped: WHAT" among what it says name
# tests; each gets a line of the summary. A lane's words are shown later.
step() {
    name=$1
    shift
    printf '\n== %s\n' "$name" >> "$lane.log"
    [ "$lane" != "$logs/main" ] || printf '\n== %s\n' "$name"
    start=$(date +%s)
    timeout -k 10 "$CLATTN_TEST_LIMIT" "$@" > "$lane.words" 2>&1
    status=$?
    line="$name, $(($(date +%s) - start)) s"
    case $status in
    0) echo "ok    $line" ;;
    124 | 137) echo "FAIL  $line (it had not ended then)" ;;
    *) echo "FAIL  $line (exit status $status)" ;;
    esac >> "$lane.lines"
    sed -n "s/^failed: /      /p; s/^skipped: /skip  /p" "$lane.words" >> "$lane.lines"
    cat "$lane.words" >> "$lane.log"
    [ "$lane" != "$logs/main" ] || cat "$lane.words"
    [ "$status" -eq 0 ]
}

# begin NAME FUNCTION: steps that one core is enough for, beside others.
begin() {
    lane=$logs/$1
    lanes="$lanes $lane"
    "$2" &
    beside="$beside $!"
    lane=$logs/main
}

# Waits for all lanes, then says what they had to say.
join() {
    wait $beside
    for other in $lanes; do
        cat "$other.log"
        cat "$other.log" >> "$lane.log"
        cat "$other.lines" >> "$lane.lines"
    done
    lanes=
    beside=
}

# What failed, again, for those who see the end only; then the summary, whose last line is for
# programs that read it.
finish() {
    lines=$lane.lines
    failed=$(grep -c '^FAIL' "$lines")
    if [ "$failed" -gt 0 ]; then
        printf '\n== what failed\n'
        grep -E '^\[(----|FAIL|ERR )' "$lane.log" | tail -n 60
    fi
    printf '\n== summary, %d min\n' $((($(date +%s) - begun + 30) / 60))
    cat "$lines"
    echo "$(grep -c '^ok' "$lines") passed, $failed failed, $(grep -c '^skip' "$lines") skipped"
    [ "$failed" -eq 0 ]
    exit
}

# Ninja takes a processor for half a minute less than Make in each build. Folders that Make built stay Make's.
CMAKE_GENERATOR=Ninja
export CMAKE_GENERATOR

# The modules that tests/packages.sh installs are those of the system's Python, not of another that comes first in PATH.
python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3)

# compile NAME JOBS TARGETS OPTION...: configures and builds; says little unless it fails.
compile() {
    folder=$build/$1
    jobs=$2
    targets=$3
    shift 3
    set -- "-DPython3_EXECUTABLE=$python" "$@"
    step "build ${folder##*/}" sh -c '
        folder=$1
        jobs=$2
        targets=$3
        shift 3
        mkdir -p "$folder"
        { cmake -B "$folder" -DCLATTN_WERROR=ON "$@" &&
            cmake --build "$folder" --parallel "$jobs" --target $targets; } \
            > "$folder/build.log" 2>&1 ||
            { tail -n 60 "$folder/build.log"; exit 1; }' compile "$folder" "$jobs" "$targets" "$@"
}

# criterion NAME: one of Criterion's programs directly, so that its closing line shows, and with the
# tests that it skips, of which it says nothing otherwise.
criterion() {
    step "$1" sh -c '
        "$1" --tap="$2"
        status=$?
        awk "/^not ok - / { print \"failed: \" \$4 }
            /^ok - .*# SKIP / && !/# SKIP test was skipped/ {
                reason = \$0
                sub(/.*# SKIP /, \"\", reason)
                if (!seen[reason, \$3]++ && ++tests[reason] <= 3)
                    names[reason] = names[reason] \" \" \$3
            }
            END {
                for (reason in tests)
                    print \"skipped:\" names[reason] (tests[reason] > 3 ? \" and \" \
                        tests[reason] - 3 \" more\" : \"\") \": \" reason
            }" "$2"
        echo
        exit "$status"' criterion "$build/test-gcc/tests/$1" "$logs/$1.tap"
}

# ctests NAME BUILD OPTION...: tests that CMake knows, and what those said that skip.
ctests() {
    name=$1
    folder=$build/$2
    shift 2
    step "$name" sh -c '
        folder=$1
        shift
        ctest --test-dir "$folder" --output-on-failure --timeout "$CLATTN_TEST_LIMIT" "$@" \
            > "$folder/ctest.log"
        status=$?
        sed "s/^skipped: /  &/" "$folder/ctest.log" # of tests that fail, which the other file has too
        awk "
            /^[0-9]+.[0-9]+ Testing: / { name = \$3 }
            FNR == NR && /^skipped: / { print \"skipped: \" name \": \" substr(\$0, 10); told[name] = 1 }
            /^<end of output>/ { last[name] = before }
            /[*][*][*]Skipped/ {
                sub(/.*#[0-9]+: /, \"\")
                if (!told[\$1]) print \"skipped: \" \$1 \": \" last[\$1]
            }
            { before = \$0 }" "$folder/Testing/Temporary/LastTest.log" "$folder/ctest.log"
        [ "$status" -eq 0 ] ||
            sed "s/^[0-9]*:/failed: /" "$folder/Testing/Temporary/LastTestsFailed.log"
        # The last words of each that failed, marked as Criterion marks its own, so that finish() repeats them.
        awk "/ Testing: / { name = \$3; lines = 0 }
            /^<end of output>/ { ended = lines }
            { said[++lines] = \$0 }
            /^Test Failed/ {
                for (n = ended > 15 ? ended - 14 : 1; n <= ended; n++) print \"[----] \" name \": \" said[n]
            }" "$folder/Testing/Temporary/LastTest.log"
        exit "$status"' ctests "$folder" "$@"
}

# fuzz TARGET SEEDS...: some time of hostile bytes. What earlier runs found interesting is kept.
fuzz() {
    target=$1
    shift
    mkdir -p "$build/fuzz/$target"
    step "fuzz_$target" sh -c '
        program=$1
        folder=$2
        shift 2
        "$program" "$folder" "$@" -artifact_prefix="$folder-" -max_total_time=2 -max_len=8192 \
            -timeout=60 > "$folder.log" 2>&1 || { tail -n 60 "$folder.log"; exit 1; }' \
        fuzz "$build/sanitized/tests/fuzz/fuzz_$target" "$build/fuzz/$target" "$@"
}

step "packages" sh tests/packages.sh build test || finish
# What is not initialised is not zero by chance: GCC 12 and newer put a pattern there.
pattern=-ftrivial-auto-var-init=pattern
echo | gcc "$pattern" -fsyntax-only -x c - 2> /dev/null || pattern=
compile test-gcc "$(nproc)" all --preset release -DCMAKE_C_COMPILER=gcc -DCMAKE_C_FLAGS="$pattern" \
    -DCLATTN_BUILD_PYTHON=ON -DCLATTN_TEST_OPTIONS=-O1 || finish

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
# A change is judged with the same seed every day. The day's is one number past midnight too.
[ "${CLATTN_TEST_SEED:=1}" != day ] || CLATTN_TEST_SEED=$(($(date +%s) / 86400))
export CLATTN_TEST_SEED
echo "CLATTN_TEST_SEED=$CLATTN_TEST_SEED repeats what this run takes"
rm -rf "$CLATTN_CACHE_DIR" # each run checks for itself that programs compute right
mkdir -p "$POCL_CACHE_DIR"
export POCL_CACHE_DIR CLATTN_CACHE_DIR

# PoCL reads a library of 9 MB in each process that compiles, which takes a second of a processor: few processes build the
# programs of all others, which find them in its cache. OpenCL's loaders before layers run without.
layer=$build/test-gcc/tests/libclattn_build_layer.so
if [ "${CLATTN_DEVICE:-}" = "Portable Computing Language" ] && [ -e "$layer" ]; then
    place=$(mktemp -d) || exit 1
    "$build/test-gcc/tests/clattn_build_server" "$place/socket" $((($(nproc) + 1) / 2)) > "$logs/builds.log" 2>&1 &
    server=$!
    trap 'kill -s TERM -- "-$server" 2> /dev/null; rm -rf "$place"' EXIT
    trap 'exit 1' INT TERM
    CLATTN_BUILD_SERVER=$place/socket
    OPENCL_LAYERS=$layer
    export CLATTN_BUILD_SERVER OPENCL_LAYERS
fi

# Half of the cores. Clang compiles what is sanitized, which is no more than runs below, the fuzzers among it, and of all other
# sources says only what it warns of. PoCL's compiler leaks: all that is sanitized is compiled here, without a cache of
# programs, so that building them is checked as well; then nothing leaks, and a lost OpenCL object
# shows. (PoCL 6.0 loses a string for each program under POCL_EXTRA_BUILD_FLAGS: none here.)
beside_tests() {
    CLATTN_CACHE_DIR=
    half=$((($(nproc) + 1) / 2))
    if compile sanitized "$half" "fuzzers examples races" --preset asan-ubsan -DCMAKE_C_COMPILER=clang \
        -DCMAKE_C_FLAGS_DEBUG="-O0 -g1 -fsanitize=fuzzer-no-link" -DCLATTN_FUZZ=ON -DCLATTN_TEST_OPTIONS=-O1; then
        step "clang's warnings" sh tests/warnings.sh "$build/sanitized" "$half"
        fuzz blocks
        fuzz case tests/data/conformance
        fuzz table tests/fuzz/table tests/data/store -dict=tests/fuzz/table.dict
        fuzz results tests/fuzz/results -dict=tests/fuzz/results.dict
        fuzz program tests/fuzz/program -dict=tests/fuzz/program.dict
        fuzz profile tests/fuzz/profile -dict=tests/fuzz/profile.dict
    fi
    # PoCL keeps what it compiles here, so that the sanitized run later does not see its compiler's leaks.
    step "every kernel" "$build/test-gcc/tests/races/races"
}

# Most of the time these wait, for what hangs and is to be found.
waiting_tests() {
    criterion clattn_tune_tests
}

begin beside beside_tests
begin waiting waiting_tests
for name in clattn_tests clattn_bench_tests clattn_tuner_tests; do
    criterion "$name"
done
join

CLATTN_CACHE_DIR=
# One more than there are cores: ranks of MPI and programs in Wine wait for each other.
ctests "examples, installed copy, Python, Oclgrind, offline compilers, report" test-gcc \
    --parallel $(($(nproc) + 1)) --exclude-regex '^(tests|bench|tuner|tune)$'
# LeakSanitizers before GCC 14's and LLVM 18's take a thread's dynamic TLS block for one of glibc 2.19
# when it begins 16 bytes into a page, follow a pointer that isn't there, and crash: one run of 60. Behind
# red zones of 256 bytes no block begins there.
ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:redzone=256
UBSAN_OPTIONS=print_stacktrace=1
LSAN_OPTIONS=print_suppressions=0
export ASAN_OPTIONS UBSAN_OPTIONS LSAN_OPTIONS
every_kernel() {
    step "every kernel, sanitized" "$build/sanitized/tests/races/races"
}
if [ -x "$build/sanitized/tests/races/races" ]; then
    begin kernels every_kernel
    # What MPI's libraries lose is theirs.
    ctests "examples, sanitized" sanitized --parallel 2 --tests-regex '^example_' \
        --exclude-regex 'tuning|ring'
    # What a tuning comes to is decided by the clock: PoCL's libraries, and C++'s, are excused.
    LSAN_OPTIONS=suppressions=$root/tests/lsan.supp:print_suppressions=0
    ctests "tuning, sanitized" sanitized --tests-regex '^example_.*tuning'
    join
fi
finish
