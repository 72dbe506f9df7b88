#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh bench/first_second.sh [--build NAME=DIR]... FILE.json: what a first plan and its execution cost.
# "A + B": problem A and then B in one process, as in a training step.
# Runs each problem in a new process with empty caches, and in a second one that finds what the first
# has left, with the clattn-bench of each build, on the default device, and collects in FILE.json
#   builds     for each NAME the version of the processes' clattn-bench and, for each problem,
#              source, cache: what `clattn-bench plan --once --json` wrote in the two processes, as
#              often as they were repeated.
# The builds take turns, so that what disturbs the machine disturbs all of them. A quiet machine.
#
#   --build NAME=DIR   now=build
#   --repeat N         3
#   --problem P        instead of the list below; may be repeated
# A build whose clattn-bench takes one problem only has no figures for several.
set -eu

builds=
repeat=3
problems=

usage() {
    echo "first_second.sh: $1" >&2
    sed -n '2,/^set/{/SPDX/d;/^#/s/^# \{0,1\}//p;}' "$0" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --build | --repeat | --problem)
        [ $# -gt 1 ] || usage "$1 takes a value"
        case $1 in
        --build) builds="$builds$2
" ;;
        --repeat) repeat=$2 ;;
        --problem) problems="$problems$2
" ;;
        esac
        shift 2
        ;;
    -*) usage "there is no option $1" ;;
    *) break ;;
    esac
done
[ $# -eq 1 ] || usage "takes one file"
output=$1
[ -n "$builds" ] || builds="now=build
"
[ -n "$problems" ] || problems="fwd f32 b1 h8 q1024 k1024 d64
fwd f32 b1 h8 q1024 k1024 d128
fwd f32 b1 h12 q1024 k1024 d64 causal=tl
fwd f16 b1 h32/8 q1 k4096 d128 causal=br
bwd f32 b1 h12 q1024 k1024 d64
bwd f32 b1 h12 q1024 k1024 d64 causal=tl
layer fwd f32 b1 h12 q1024 k1024 d64 causal=tl model=768 io packed biases obias training
layer bwd f32 b1 h12 q1024 k1024 d64 causal=tl model=768 io packed biases obias training
layer fwd f32 b1 h12 q1024 k1024 d64 causal=tl model=768 io packed biases obias training + layer bwd \
f32 b1 h12 q1024 k1024 d64 causal=tl model=768 io packed biases obias training
"
work=$(mktemp -d "${TMPDIR:-/tmp}/clattn-first-second.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# process DIR PROBLEM FILE: one process, whose caches are in $work/caches.
process() {
    for cache in CLATTN_CACHE_DIR POCL_CACHE_DIR MESA_SHADER_CACHE_DIR CUDA_CACHE_PATH NEO_CACHE_DIR \
        cl_cache_dir AMD_COMGR_CACHE_DIR XDG_CACHE_HOME; do
        mkdir -p "$work/caches/$cache"
        export "$cache=$work/caches/$cache"
    done
    program=$1/bench/clattn-bench rest=$2 file=$3
    set --
    while [ "${rest#* + }" != "$rest" ]; do
        set -- "$@" "${rest%% + *}"
        rest=${rest#* + }
    done
    status=0
    "$program" plan --once --json - "$@" "$rest" > "$file" 2> "$work/words" || status=$?
    [ $status -eq 0 ] || { cat "$work/words" >&2; rm -f "$file"; }
    [ $status -eq 0 ] || { [ $status -eq 2 ] && [ $# -gt 0 ]; } || exit 1
}

# For each: its name, its folder.
each_build() {
    printf '%s' "$builds" | while IFS='=' read -r name folder; do
        "$@" "$name" "$folder" < /dev/null
    done
}

# measure PROBLEM PLACE NAME FOLDER
measure() {
    rm -rf "$work/caches"
    process "$4" "$1" "$work/$2.$3.source.json"
    process "$4" "$1" "$work/$2.$3.cache.json"
}

place=0
printf '%s' "$problems" | while read -r problem; do
    place=$((place + 1))
    turn=0
    while [ $turn -lt "$repeat" ]; do
        turn=$((turn + 1))
        echo "$problem ($turn of $repeat)"
        each_build measure "$problem" "$(printf '%02d.%03d' $place $turn)"
    done
done
rm -rf "$work/caches"

# array FILE...: the files as one array; [] if there are none.
array() {
    separator=
    printf '['
    for file; do
        [ ! -f "$file" ] || { printf '%s' "$separator" && cat "$file"; separator=,; }
    done
    printf ']'
}

# of_build NAME FOLDER
of_build() {
    printf '%s\n"%s": {"source": ' "$(cat "$work/comma")" "$1"
    array "$work"/*."$1".source.json
    printf ', "cache": '
    array "$work"/*."$1".cache.json
    printf '}'
    echo , > "$work/comma"
}

: > "$work/comma"
{
    printf '{"schema": "clattn-first-second-1", "builds": {'
    each_build of_build
    printf '}}\n'
} > "$output.part"
mv "$output.part" "$output"
