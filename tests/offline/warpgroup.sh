#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/offline/warpgroup.sh [BUILD]: compiles a default of each family with UNIT=warpgroup for sm_90 as tests/offline.sh
# does. Of other programs a run there has a few, and of these perhaps none, but a mistake in their inline assembly stops
# Hopper's GPUs alone. With ptxas the programs are assembled; without it the text of their inline assembly is read
# (tests/offline/inline_assembly.py), and so it is with it. Exits with 77 where nothing can be compiled.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build/offline}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/tests/offline"
[ ! -e "$build/tests/offline/offline_cases" ] || cp "$build/tests/offline/offline_cases" "$scratch/tests/offline"
tab=$(printf '\t')
only="${tab}sm_90${tab}(fused|backward|projection)_gpu.warpgroup${tab}default${tab}"
only="$only(fwd bf16 .* d64 .*lse|bwd f16 .* d64 softcap|proj f16 b1 h1 q2048 )"
CLATTN_OFFLINE_ONLY="$only" CLATTN_OFFLINE_JOBS=2 sh tests/offline.sh --all "$scratch" 0 1 > "$scratch/out" 2> "$scratch/err"
status=$?
grep -v ' is refused: ' "$scratch/err" >&2
[ "$status" -ne 77 ] || exit 77
compiled=$(cut -f 3 "$scratch/offline/cases" | sort -u | wc -l)
if [ "$compiled" -ne 3 ]; then
    echo "of three families $compiled have a program here" >&2
    exit 1
fi
# A fault of the assembly, not what programs take, is looked for here.
! grep -q 'BROKEN inline assembly\|BROKEN it does not compile' "$scratch/err"
