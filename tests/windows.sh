#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/windows.sh [--build]: builds the library and the programs for Windows (x86_64) by mingw-w64, and runs them by Wine, whose
# OpenCL.dll hands each call to the drivers of this machine. --build: build only. Packages of Debian and Ubuntu:
# gcc-mingw-w64-x86-64 wine64 cmake, and curl for jansson's sources, which the programs need; without them only the library is
# built. Everything lies in build/windows (or CLATTN_WINDOWS): dist/ is what a user of Windows copies.
# Some examples, drawn by CLATTN_TEST_SEED, the programs and some of the store's accidents run, unoptimised; CLATTN_TEST_ALL=1
# runs every example and the Criterion suites, optimised. The programs lie in a folder with blanks and letters beyond ASCII.
# CLATTN_WINDOWS_PYTHON is the folder of a python.exe for Windows with NumPy and pytest, by which Python's tests run;
# with PyTorch in it, that is tested, too (doc/guide/windows.md).
# Exits with 1 if something failed, with 77 if a package is missing.
set -eu
cd "$(dirname "$0")/.."
LC_ALL=C.UTF-8 # Wine takes names of files as the locale writes them, and finds no letter beyond ASCII in that of POSIX
export LC_ALL
root=$(pwd)
work=${CLATTN_WINDOWS:-$root/build/windows}
target=x86_64-w64-mingw32
wine=$(command -v wine64 || ls /usr/lib/wine/wine64 2> /dev/null || command -v wine || true)
for tool in "$target-gcc" "$target-dlltool" cmake; do
    command -v "$tool" > /dev/null || { echo "skipped: there is no $tool here (gcc-mingw-w64-x86-64, cmake)"; exit 77; }
done
[ -n "$wine" ] || [ "${1:-}" = --build ] || { echo "skipped: there is no Wine here (wine64)"; exit 77; }
mkdir -p "$work/system/include/CL" "$work/system/lib" "$work/prefix"
failed=0
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-2}
all=${CLATTN_TEST_ALL:-}
[ "$all" = 1 ] || all=

# step NAME COMMAND...: prints a line, and what a command that fails has printed.
step() {
    name=$1
    shift
    start=$(date +%s)
    if "$@" > "$work/log" 2>&1; then
        echo "ok    $name, $(($(date +%s) - start)) s"
    else
        echo "FAIL  $name (status $?)"
        tail -n 20 "$work/log" | sed 's/^/      /'
        failed=1
    fi
}

# ---- what Windows has, or what the build takes with it ---------------------------------------------

headers=$(printf '#include <CL/cl.h>\n' | cc -E -M - | tr ' ' '\n' | grep '/CL/cl\.h$')
cp "$(dirname "$headers")"/*.h "$work/system/include/CL/"
cp "$(printf '#include <xxhash.h>\n' | cc -E -M - | tr ' ' '\n' | grep '/xxhash\.h$')" "$work/system/include/"
# import_library VERSION FILE: the calls of OpenCL up to a version. An old driver's loader has those of 1.2 alone, which the
# library and the programs are linked with; tests call newer ones, where the device has them.
import_library() {
    {
        printf 'LIBRARY OpenCL.dll\nEXPORTS\n'
        printf '#define CL_TARGET_OPENCL_VERSION %s\n#include <CL/cl.h>\n' "$1" | cc -E -P - | tr '(' '\n' |
            grep -o 'cl[A-Z][A-Za-z0-9]*$' | sort -u
    } > "$work/system/OpenCL.def"
    "$target-dlltool" -d "$work/system/OpenCL.def" -l "$work/system/lib/$2"
}
import_library 300 libOpenCL-new.a
import_library 120 libOpenCL.a
cat > "$work/toolchain.cmake" << END
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER $target-gcc)
set(CMAKE_RC_COMPILER $target-windres)
set(CMAKE_FIND_ROOT_PATH /usr/$target "$work/system")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
END

# What users take is optimised; what an ordinary run tests need not be, and compiles in half the time.
# OpenCL's header includes <intrin.h> for MinGW: all intrinsics of all processors, 0.35 s a file, of which nothing here uses any.
flags="-O0 -DNDEBUG"
[ "${1:-}" != --build ] && [ -z "$all" ] || flags="-O3 -DNDEBUG"
flags="$flags -D__INTRIN_H_"

# configure SOURCE BUILD OPTION...: a CMake project for Windows.
configure() {
    source=$1
    folder=$2
    shift 2
    cmake -S "$source" -B "$folder" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="$flags" \
        -DCMAKE_TOOLCHAIN_FILE="$work/toolchain.cmake" \
        -DOpenCL_INCLUDE_DIR="$work/system/include" -DOpenCL_LIBRARY="$work/system/lib/libOpenCL.a" "$@"
}

jansson=jansson-2.14
jansson_sum=c739578bf6b764aa0752db9a2fdadcfe921c78f1228c7ec0bb47fa804c55d17b
build_jansson() {
    curl -fsSL "http://deb.debian.org/debian/pool/main/j/jansson/jansson_2.14.orig.tar.gz" -o "$work/$jansson.tar.gz" &&
        echo "$jansson_sum  $work/$jansson.tar.gz" | sha256sum -c && tar -xf "$work/$jansson.tar.gz" -C "$work" &&
        configure "$work/$jansson" "$work/jansson" -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF \
            -DJANSSON_WITHOUT_TESTS=ON -DCMAKE_INSTALL_PREFIX="$work/system" &&
        cmake --build "$work/jansson" --parallel "$jobs" --target install
}
[ -e "$work/system/lib/libjansson.a" ] || step "jansson, for the programs" build_jansson
programs=OFF
[ ! -e "$work/system/lib/libjansson.a" ] || programs=ON

# ---- build -----------------------------------------------------------------------------------------

build() {
    configure "$root" "$work/build" -DCLATTN_WERROR=ON -DCLATTN_BUILD_TESTS=OFF -DCLATTN_BUILD_MAN=OFF -DCLATTN_BUILD_MPI=OFF \
        -DCLATTN_BUILD_BENCH=$programs -DCLATTN_BUILD_TUNER=$programs -DXXHASH_INCLUDE="$work/system/include" \
        -DJANSSON_INCLUDE="$work/system/include" -DJANSSON_LIBRARY="$work/system/lib/libjansson.a" \
        -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON &&
        cmake --build "$work/build" --parallel "$jobs"
}
# tests_built TARGET...: with Criterion's stand-in; no option of the library's changes.
tests_built() {
    cmake -DCLATTN_BUILD_TESTS=ON -DOpenCL_LIBRARY="$work/system/lib/libOpenCL-new.a" "$work/build" &&
        cmake --build "$work/build" --parallel "$jobs" --target "$@" &&
        cmake -DCLATTN_BUILD_TESTS=OFF -DOpenCL_LIBRARY="$work/system/lib/libOpenCL.a" "$work/build"
}
package_built() {
    cmake -DCLATTN_BUILD_PYTHON=ON "$work/build" && cmake --build "$work/build" --parallel "$jobs" --target clattn_python &&
        cmake -DCLATTN_BUILD_PYTHON=OFF "$work/build"
}
install_copy() {
    rm -rf "$work/dist"
    cmake --install "$work/build" --prefix "$work/dist"
}
# What a stranger's project finds by find_package(), linked with both libraries.
outside() {
    configure tests/install "$work/outside" -DCMAKE_PREFIX_PATH="$work/dist" && cmake --build "$work/outside"
}
# Windows itself has all that the library needs, and it exports its own functions alone.
library() {
    "$target-objdump" -p "$work/dist/bin/clattn.dll" > "$work/dll"
    grep 'DLL Name' "$work/dll"
    ! grep 'DLL Name' "$work/dll" | grep -ivE 'OpenCL|KERNEL32|ADVAPI32|SHELL32|msvcrt|api-ms-win|ucrt' || return 1
    sed -n '/Ordinal\/Name Pointer/,/^$/s/^.*\[ *[0-9]*\].* //p' "$work/dll" | sort > "$work/exported"
    cat "$root"/include/clattn/*.h | tr '\n' ' ' | sed 's/CLATTN_API/\n&/g' |
        sed -n 's/^CLATTN_API [^(]*[ *]\(clattn_[a-z_]*\)(.*/\1/p' | grep -v '^clattn_mpi_' | sort > "$work/declared"
    diff "$work/declared" "$work/exported"
}
step "build" build
[ $failed = 0 ] || exit 1
step "installed copy" install_copy
[ $programs = OFF ] || step "tests are built" tests_built clattn-tune-faulty clattn_store_tests ${all:+clattn_tests}
python=${CLATTN_WINDOWS_PYTHON:-}
[ -z "$python" ] || step "the Python package is built" package_built
step "find_package" outside
step "what the library needs and exports" library
[ "${1:-}" != --build ] || exit $failed

# ---- run -------------------------------------------------------------------------------------------

WINEPREFIX=$work/prefix
WINEDEBUG=-all
WINEDLLOVERRIDES="mscoree,mshtml="
export WINEPREFIX WINEDEBUG WINEDLLOVERRIDES
if [ -z "${OCL_ICD_VENDORS:-}" ] && [ -e /etc/OpenCL/vendors/pocl.icd ]; then
    OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
    export OCL_ICD_VENDORS
fi
unset CLATTN_CACHE_DIR
# Here the driver need not optimise kernels, either.
[ -n "$all" ] || export POCL_EXTRA_BUILD_FLAGS="-cl-opt-disable -Dalways_inline="
# Wine's server would end soon after each program, and refuse a program that starts at that moment.
server=$(command -v wineserver || ls /usr/lib/wine/wineserver64)
# It opens the files of all programs, and may not write where root's other programs may.
as_user=
[ "$(id -u)" != 0 ] || ! setpriv --bounding-set=-dac_override true 2> /dev/null || as_user="setpriv --bounding-set=-dac_override"
$as_user "$server" -p
trap '"$server" -k' EXIT
trap 'exit 1' INT TERM
[ -e "$WINEPREFIX/system.reg" ] || step "Wine's folder" wineboot -i
strange="$work/fremde länder"
[ ! -d "$strange" ] || chmod -R u+w "$strange"
rm -rf "$strange"
mkdir -p "$strange"
cp -R "$work/dist" "$strange/clattn für alle"
bin="$strange/clattn für alle/bin"
caches=$(find "$WINEPREFIX/drive_c/users" -type d -path '*/AppData/Local' | head -n 1)
rm -rf "$caches/clattn"
cp "$work/outside/outside_shared.exe" "$work/outside/outside_static.exe" "$bin/"

# Twice: the second takes what the first has built.
examples() {
    bad=0
    turn=$((${CLATTN_TEST_SEED:-1} % 6))
    for source in tests/examples/[0-9]*.c; do
        example=$(basename "$source" .c)
        case $example in *shared_memory* | *ring_training*) continue ;; esac # SVM and MPI
        # 03 is what several processes run below.
        turn=$(((turn + 1) % 6))
        [ -n "$all" ] || [ $turn = 0 ] || [ "$example" = 03_masks ] || continue
        "$target-gcc" -std=c11 -O1 -D__USE_MINGW_ANSI_STDIO=1 -I"$work/dist/include" -I"$work/system/include" -I. \
            "$source" -o "$bin/$example.exe" "$work/dist/lib/libclattn.dll.a" "$work/system/lib/libOpenCL.a" -static -lwinpthread \
            || { bad=1; continue; }
        for run in first second; do
            timeout 200 "$wine" "$bin/$example.exe" > "$work/$example.$run" 2>&1 ||
                { echo "$example, $run run: status $?"; tail -n 5 "$work/$example.$run"; bad=1; }
        done
    done
    return $bad
}
nothing_begun() {
    ! find "$caches/clattn" -name '*.begun' | grep .
    test -n "$(find "$caches/clattn" -name '*.clbin')"
}
outside_runs() {
    timeout 100 "$wine" "$bin/outside_shared.exe" && timeout 100 "$wine" "$bin/outside_static.exe"
}
problem="fwd f32 b1 h2 q40 k40 d16 causal=tl"
devices() {
    timeout 60 "$wine" "$bin/clattn-bench.exe" devices
}
# Two devices, each in a process of its own.
benchmark() {
    mkdir -p "$strange/here"
    cd "$strange/here" || return 1
    POCL_DEVICES="pthread basic" timeout 300 "$wine" "$bin/clattn-bench.exe" run "$problem" --device all --peers none --repeat 3 \
        --json "Z:$strange/ergebnis ü.json" && python3 -c 'import json, sys
sys.exit([len(device["results"]) for device in json.load(open(sys.argv[1]))["devices"]] != [1, 1])' "$strange/ergebnis ü.json" &&
        timeout 60 "$wine" "$bin/clattn-bench.exe" compare "$strange/ergebnis ü.json" "$strange/ergebnis ü.json" &&
        [ -z "$(ls "$strange/here")" ]
    good=$?
    cd "$root" || return 1
    return $good
}
# by_windows ARGUMENT...: Python of Windows, which cannot print to a file in Wine 8. That ends a process that asks WMI, as Python
# 3.12's module platform does, and a processor's place, as PyTorch's OpenMP does.
by_windows() {
    mkdir -p "$work/site"
    echo 'import sys; sys.modules["_wmi"] = None' > "$work/site/sitecustomize.py"
    (
        export PYTHONPATH="Z:$work/site;Z:$work/build/bindings/python" PYTHONDONTWRITEBYTECODE=1 KMP_AFFINITY=disabled
        timeout 1500 "$wine" "$python/python.exe" "$@" && echo 0 > "$work/python-status" || echo 1 > "$work/python-status"
    ) 2>&1 | cat
    [ "$(cat "$work/python-status")" = 0 ]
}
# report PYTHON PLACE: the page of what was measured, or a table where there is no matplotlib.
report() {
    form=-o
    $1 -c 'import matplotlib' || form=--csv
    rm -f "$strange/bericht ä"
    $1 bench/report.py "$2$strange/ergebnis ü.json" $form "$2$strange/bericht ä" &&
        grep 'q40 k40 d16' "$strange/bericht ä"
}
# PyTorch beside clattn; where it is not installed its peer says so.
peer() {
    (
        export PYTHONPATH="Z:$work/site" PYTHONDONTWRITEBYTECODE=1 KMP_AFFINITY=disabled CLATTN_PYTHON="Z:$python/python.exe"
        timeout 300 "$wine" "$bin/clattn-bench.exe" run "$problem" --peers torch --repeat 1 --no-first-call
    ) > "$work/peer" 2>&1
    cat "$work/peer"
    if by_windows -c 'import torch'; then
        grep '^ *PyTorch  .*x (' "$work/peer"
    else
        grep 'Python cannot import' "$work/peer"
    fi
}
verify() {
    cp tests/data/conformance/raschka_self_attention.safetensors "$strange/prüfung 1.safetensors" &&
        timeout 300 "$wine" "$bin/clattn-bench.exe" verify "Z:$strange/prüfung 1.safetensors"
}
tune() {
    timeout 300 "$wine" "$bin/clattn-tune.exe" --budget 6 --problem "$problem" &&
        timeout 60 "$wine" "$bin/clattn-tune.exe" list && ls "$caches/clattn/tuning"/*.json &&
        timeout 60 "$wine" "$bin/clattn-bench.exe" plan "$problem" | grep 'tuned for this class'
}
# A driver that crashes, ends the process or does not return ends a worker and no more.
worker_ends() {
    rm -rf "$work/seen" "$work/faulty.json"
    TUNE_FAULTS=none,segv,exit,hang TUNE_FAULTS_SEEN="Z:$work/seen" CLATTN_CACHE_DIR="Z:$strange/faulty" \
        timeout 300 "$wine" "$work/build/tests/clattn-tune-faulty.exe" --budget 7 --strategy random --timeout 5 \
        --problem "$problem" --json "Z:$work/faulty.json" || return 1
    for reason in "access violation" "exited with status 3, saying 'out of luck'" "took longer than"; do
        grep "$reason" "$work/faulty.json" || { echo "no '$reason'"; return 1; }
    done
    grep '"configuration"' "$work/faulty.json" && CLATTN_CACHE_DIR="Z:$strange/faulty" timeout 60 "$wine" "$bin/clattn-tune.exe" list
}
# Four programs that fill one cache at once; a second clattn-tune is refused while one is at work.
together() {
    bad=0
    pids=
    CLATTN_CACHE_DIR="Z:$strange/together"
    export CLATTN_CACHE_DIR
    for n in 1 2 3 4; do
        timeout 200 "$wine" "$bin/03_masks.exe" > "$work/together.$n" 2>&1 &
        pids="$pids $!"
    done
    for pid in $pids; do
        wait "$pid" || bad=1
    done
    cat "$work"/together.?
    timeout 200 "$wine" "$bin/clattn-tune.exe" --budget 8s --problem "$problem" > "$work/together.1" 2>&1 &
    pid=$!
    sleep 2
    ! timeout 200 "$wine" "$bin/clattn-tune.exe" --budget 3 --problem "$problem" > "$work/together.2" 2>&1 || bad=1
    grep 'another clattn-tune is at work' "$work/together.2" || bad=1
    wait "$pid" || bad=1
    unset CLATTN_CACHE_DIR
    return $bad
}
# A folder whose name has blanks and letters beyond ASCII; none at all; one that is a file; one that nobody can make.
folders() {
    CLATTN_CACHE_DIR="Z:$strange/zwischen lager" timeout 100 "$wine" "$bin/clattn-bench.exe" plan "$problem" &&
        ls "$strange/zwischen lager"/programs/*.clbin || return 1
    rm -rf "$caches/clattn"
    CLATTN_CACHE_DIR=none timeout 100 "$wine" "$bin/clattn-bench.exe" plan "$problem" || return 1
    test ! -e "$caches/clattn" || return 1
    : > "$strange/file"
    for place in "$strange/file" /sys/kernel/clattn; do
        CLATTN_CACHE_DIR="Z:$place" timeout 100 "$wine" "$bin/clattn-bench.exe" plan "$problem" || return 1
    done
}
# What is in a folder that nobody may write to is read, and nothing is added.
read_only() {
    reading="$strange/nur lesen"
    cp -R "$caches/clattn" "$reading" && chmod -R a-w "$reading" && ls -lR "$reading" > "$work/before" || return 1
    CLATTN_CACHE_DIR="Z:$reading"
    export CLATTN_CACHE_DIR
    timeout 100 "$wine" "$bin/clattn-bench.exe" plan "$problem" "fwd f32 q9 d8" > "$work/read_only" &&
        grep 'tuned for this class' "$work/read_only" &&
        ! timeout 100 "$wine" "$bin/clattn-tune.exe" --budget 1 --again --problem "$problem" > "$work/read_only" 2>&1 &&
        grep 'cannot be written' "$work/read_only"
    good=$?
    unset CLATTN_CACHE_DIR
    cat "$work/read_only"
    ls -lR "$reading" | diff "$work/before" - || good=1
    chmod -R u+w "$reading"
    return $good
}
# Accidents that take seconds; the suites have all of them.
accidents() {
    for accident in kill_9 damage_ strange_files a_lock other_files; do
        "$wine" "$work/build/tests/clattn_store_tests.exe" --filter "store_accidents/$accident*" || return 1
    done
}
python_tests() (
    cd bindings/python/tests || return 1
    export CLATTN_CACHE_DIR="Z:$strange/python"
    by_windows -m pytest -q -rs -p no:cacheprovider --ignore=frameworks ${CLATTN_WINDOWS_PYTHON_TESTS:-.} || return 1
    ! by_windows -c 'import torch' > /dev/null ||
        by_windows -m pytest -q -p no:cacheprovider frameworks/test_torch.py -k values_and_gradients
)
# Suites of what depends on the system.
# CLATTN_WINDOWS_SUITES names others; '*' are all. A driver of the host has only the
# variables with which Wine began.
suites() {
    bad=0
    names=${CLATTN_WINDOWS_SUITES:-store store_accidents tuning_store tuning_table table_advice cache_size choose override context
        first_run program_file program_parameters program_threads program_verdicts verdict trust_case problem json seed}
    set -f
    for suite in $names; do
        POCL_EXTRA_BUILD_FLAGS="-cl-opt-disable -Dalways_inline=" \
            "$wine" "$work/build/tests/clattn_tests.exe" --filter "$suite/*" || bad=1
    done
    return $bad
}
step "examples, each twice" examples
step "no first run is left behind" nothing_begun
step "a stranger's programs" outside_runs
if [ $programs = ON ]; then
    step "clattn-bench devices" devices
    step "clattn-bench run of two devices, and compare" benchmark
    step "the report" report python3 ""
    [ -z "$python" ] || step "the report, by Python of Windows" report by_windows Z:
    [ -z "$python" ] || step "clattn-bench run with a peer in Python" peer
    step "clattn-bench verify" verify
    step "clattn-tune" tune
    if [ "$(id -u)" != 0 ] || [ -n "$as_user" ]; then
        step "a folder that is only read" read_only
    else
        echo "skipped: a folder that is only read: root writes everywhere, and there is no setpriv"
    fi
    step "clattn-tune with a worker that crashes" worker_ends
    step "several processes with one cache" together
    step "cache folders" folders
    if [ -z "$all" ]; then
        step "accidents of the store, with kills" accidents
    else
        step "suites" suites
    fi
fi
if [ -n "$python" ]; then
    step "Python's tests" python_tests
else
    echo "skipped: Python's tests: CLATTN_WINDOWS_PYTHON names no folder of a python.exe"
fi
exit $failed
