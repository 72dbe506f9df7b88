#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/offline/variants.sh [BUILD]: asks for each line of bench/gpu/variants-*.txt, "PROBLEM | FAMILY NAME=value ...",
# whether an H100 would take it, by its profile: a text that is no problem, or a tunable that is no more, would else be
# found when a GPU is there for minutes. Exits with 77 where the build has no clattn-bench.
set -u
cd "$(dirname "$0")/../.." || exit 1
bench=${1:-build/release}/bench/clattn-bench
[ -x "$bench" ] || { echo "skipped: no $bench" >&2; exit 77; }
refused=0
for file in bench/gpu/variants-*.txt; do
    lines=0
    while IFS='|' read -r problem variant; do
        case $problem in '#'* | '') continue ;; esac
        lines=$((lines + 1))
        tunables=
        family=${variant# }
        case $family in *' '*) tunables=${family#* } family=${family%% *} ;; esac
        "$bench" plan --profile bench/profiles/sm_90.json --family "$family" --tunables "$tunables" -- "${problem% }" \
            2>&1 > /dev/null < /dev/null | sed "s~^~$file: ${problem% } | $family $tunables: ~" | grep . && refused=1
    done < "$file"
    if [ "$lines" -eq 0 ]; then
        echo "$file has no variant"
        refused=1
    fi
done
exit "$refused"
