#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh bench/measure.sh [OPTION...] DIR: everything there is to know about clattn on this machine, with
# what the machine has: no root, no packages, no Criterion. Builds, compares all test data, tunes,
# times beside the other libraries that are found, and leaves in DIR
#   log, devices.json, verify.txt, results.json, store/
# A step that fails does not keep the others from running; the last lines say which did.
#   --device SEL     the device, as clattn-bench devices counts them (default: the one clattn takes)
#   --workload W     what is tuned and timed: a workload's name, a file of problems, or a problem
#                    (default standard)
#   --budget TIME    for clattn-tune (default 10m)
#   --data FOLDER    the test data (default tests/data)
#   --programs DIR   builds nothing: clattn-bench and clattn-tune are in DIR
#   --pack FILE      instead of all this: a tar.gz of these sources with the libraries that they are
#                    built with and the programs built here, to be unpacked on a machine that lacks them
set -u
cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
here=${OLDPWD:-$root}

usage() {
    [ $# -eq 0 ] || echo "measure.sh: $*" >&2
    sed -n '2,/^set /{/SPDX/d;/^#/{s/^# \{0,1\}//;p;};}' "$root/bench/measure.sh" >&2
    exit 2
}

# Paths on the command line are meant from where the user stands.
from_here() {
    case $1 in
    /*) printf '%s\n' "$1" ;;
    *) printf '%s/%s\n' "$here" "$1" ;;
    esac
}

device=
workload=standard
budget=10m
data=$root/tests/data
programs=
pack=
dir=
while [ $# -gt 0 ]; do
    case $1 in
    --device | --workload | --budget | --data | --programs | --pack)
        [ $# -ge 2 ] || usage "$1 takes a value"
        case $1 in
        --device) device=$2 ;;
        --workload) workload=$2 ;;
        --budget) budget=$2 ;;
        --data) data=$(from_here "$2") ;;
        --programs) programs=$(from_here "$2") ;;
        --pack) pack=$(from_here "$2") ;;
        esac
        shift
        ;;
    -h | --help) usage ;;
    -*) usage "there is no option $1" ;;
    *)
        [ -z "$dir" ] || usage "takes one folder"
        dir=$(from_here "$1")
        ;;
    esac
    shift
done

# ---- a bundle for machines without packages ------------------------------------------------------

# carry_library NAME: the shared library that the compiler finds, by all its names.
carry_library() {
    found=$(cc -print-file-name="lib$1.so")
    [ -e "$found" ] || { echo "measure.sh: there is no lib$1.so here to carry" >&2; return 1; }
    real=$(readlink -f "$found")
    cp "$real" "$carried/lib/"
    soname=$(objdump -p "$real" | awk '$1 == "SONAME" {print $2}')
    for name in "$soname" "lib$1.so"; do
        [ "$name" = "$(basename "$real")" ] || ln -sf "$(basename "$real")" "$carried/lib/$name"
    done
}

# carry_header NAME: the header that the compiler finds.
carry_header() {
    found=$(printf '#include <%s>\n' "$1" | cc -E -M - 2> /dev/null | tr ' ' '\n' | grep "/$1\$")
    [ -n "$found" ] || { echo "measure.sh: there is no $1 here to carry" >&2; return 1; }
    mkdir -p "$carried/include/$(dirname "$1")"
    cp "$found" "$carried/include/$1"
}

make_pack() {
    stage=$(mktemp -d) || exit 1
    trap 'rm -rf "$stage"' EXIT
    mkdir -p "$stage/clattn/carried/include" "$stage/clattn/carried/lib"
    carried=$stage/clattn/carried
    tar -c --exclude ./build --exclude ./.git . | tar -x -C "$stage/clattn" || exit 1
    for header in jansson.h jansson_config.h xxhash.h; do
        carry_header "$header" || exit 1
    done
    mkdir -p "$carried/include/CL"
    cp "$(printf '#include <CL/cl.h>\n' | cc -E -M - | tr ' ' '\n' | grep '/CL/cl.h$' |
        xargs dirname)"/*.h "$carried/include/CL/" || exit 1
    for library in jansson OpenCL; do
        carry_library "$library" || exit 1
    done
    cmake -S . -B build/pack -DCMAKE_BUILD_TYPE=Release -DCLATTN_BUILD_TESTS=OFF > /dev/null &&
        cmake --build build/pack --parallel "$(nproc)" > /dev/null &&
        cmake --install build/pack --prefix "$carried/programs" > /dev/null || exit 1
    tar -czf "$pack" -C "$stage" clattn && echo "packed $pack"
}

if [ -n "$pack" ]; then
    make_pack
    exit
fi
[ -n "$dir" ] || usage "name the folder for what is found"
mkdir -p "$dir/store" || exit 1
dir=$(cd "$dir" && pwd)

# ---- steps ---------------------------------------------------------------------------------------

summary=
failed=0

# note NAME STATUS SECONDS: one line of the summary.
note() {
    if [ "$2" -eq 0 ]; then
        summary="${summary}ok    $1, $3 s
"
    else
        summary="${summary}FAIL  $1, $3 s (exit status $2)
"
        failed=$((failed + 1))
    fi
}

# step NAME COMMAND...: shows and keeps what the command says; remembers how it ended.
step() {
    name=$1
    shift
    printf '\n== %s\n' "$name" | tee -a "$dir/log"
    start=$(date +%s)
    { "$@" 2>&1; echo $? > "$dir/.status"; } | tee -a "$dir/log"
    status=$(cat "$dir/.status")
    rm -f "$dir/.status"
    note "$name" "$status" $(($(date +%s) - start))
    return "$status"
}

processors=$(getconf _NPROCESSORS_ONLN 2> /dev/null || echo 1)
carried=$root/carried

compile() {
    rm -rf "$build"
    cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DCLATTN_BUILD_TESTS=OFF "$@" &&
        cmake --build "$build" --parallel "$processors"
}

build_programs() {
    build=$dir/build
    if command -v cmake > /dev/null 2>&1 && command -v cc > /dev/null 2>&1; then
        compile && return
        [ -d "$carried" ] && compile "-DCMAKE_PREFIX_PATH=$carried" && return
    else
        echo "there is no cmake or no C compiler (cc)"
    fi
    [ -x "$carried/programs/bin/clattn-bench" ] || {
        echo "what the build needs can be brought along: where the packages are, sh bench/measure.sh --pack FILE"
        return 1
    }
    echo "taking the programs that were built elsewhere"
    "$carried/programs/bin/clattn-bench" --version
}

choose_programs() {
    for folder in "$programs" "$dir/build" "$carried/programs/bin"; do
        [ -n "$folder" ] || continue
        bench=$(find "$folder" -name clattn-bench -type f -perm -100 2> /dev/null | head -n 1)
        tune=$(find "$folder" -name clattn-tune -type f -perm -100 2> /dev/null | head -n 1)
        [ -z "$bench" ] || return 0
    done
    return 1
}

date -u > "$dir/log"
[ -n "$programs" ] || step "build" build_programs
choose_programs || { printf '\n== summary\n%s' "$summary"; echo "nothing could be run"; exit 1; }
# Last, so that a vendor's own loader comes first; carried programs find the others by it.
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$carried/lib
CLATTN_CACHE_DIR=$dir/store
export CLATTN_CACHE_DIR
[ ! -d "$carried" ] || export LD_LIBRARY_PATH
set --
[ -z "$device" ] || set -- --device "$device"

# Standard output is the result of these steps, the rest is for the log.
devices() { "$bench" devices --json > "$dir/devices.json" && "$bench" devices; }
verify() {
    find "$data" -name '*.safetensors' -exec "$bench" verify "$@" {} + > "$dir/verify.txt"
    outcome=$?
    tail -n 3 "$dir/verify.txt"
    return "$outcome"
}

step "devices" devices || { printf '\n== summary\n%s' "$summary"; exit 1; }
step "verify" verify "$@"
case $workload in
*" "*) what=--problem ;;
*) what=--workload ;;
esac
step "tune" "$tune" "$@" --budget "$budget" "$what" "$workload"
step "run" "$bench" run "$@" --workload "$workload" --json "$dir/results.json"
printf '\n== summary\n%s%s\n' "$summary" "all of it is in $dir" | tee -a "$dir/log"
[ "$failed" -eq 0 ]
