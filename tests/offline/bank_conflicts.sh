#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/offline/bank_conflicts.sh: counts the bank conflicts of local memory of each access of the kernels of
# matrix instructions, from the layouts of fragments and tiles (bank_conflicts.c says how), and fails if there are
# others than those that are known:
#   * rows of no multiple of 128 bytes (dim 80): threads that fill the end of one and the begin of the next
#   * WMMA: weights of split_gpu UNIT=mma, of which a lane has every second key, are stored as 2 bytes each
# Columns: kernels, access, sizes, bytes of a lane, phases of the access, conflicts.
# --all prints all accesses, else those with conflicts.
set -u
cd "$(dirname "$0")/../.." || exit 1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
unexpected=0
number=1
for name in mma.sync WMMA "MFMA 32" "MFMA 16" "DPAS 8" "DPAS 16" wgmma; do
    "${CC:-cc}" -std=gnu11 -Werror=implicit-function-declaration -DINSTRUCTION=$number -Icl -Isrc \
        tests/offline/bank_conflicts.c -o "$folder/count" 2> "$folder/log" || { cat "$folder/log" >&2; exit 1; }
    echo "$name"
    "$folder/count" > "$folder/list"
    if [ "${1:-}" = --all ]; then cat "$folder/list"; else awk '$NF > 0' "$folder/list"; fi
    awk -v wmma=$((number == 2)) '$NF > 0 && !/fill . .*dim 80,/ && !(wmma && /store weights/)' "$folder/list" |
        grep . && unexpected=1
    number=$((number + 1))
done
[ "$unexpected" -eq 0 ] || echo "FAIL conflicts that are not known" >&2
exit "$unexpected"
