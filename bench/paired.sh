#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh bench/paired.sh [OPTION]... OLD NEW [PROBLEM]...: whether another version is slower.
# Times each problem with the clattn-bench of two builds in turns, as often as there are rounds, and
# prints the median of the rounds' ratios of time, new over old, with the rounds' ratios. Each result is
# compared with double precision before it has a time. Fails if a problem takes over 2 % longer. By
# hand, on a quiet machine: --untuned and POCL_AFFINITY=1 are set.
#   OLD, NEW      folders that two versions are built in
#   --rounds N    5
#   --workload W  the problems of a workload of NEW; may be repeated. Without problems: standard,
#                 decoding, training
set -eu

rounds=5
workloads=
usage() {
    echo "paired.sh: $1" >&2
    sed -n '2,/^set/{/SPDX/d;/^#/s/^# \{0,1\}//p;}' "$0" >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
    --rounds | --workload)
        [ $# -gt 1 ] || usage "$1 takes a value"
        if [ "$1" = --rounds ]; then rounds=$2; else workloads="$workloads $2"; fi
        shift 2
        ;;
    -*) usage "there is no option $1" ;;
    *) break ;;
    esac
done
[ $# -ge 2 ] || usage "takes two folders"
old=$1 new=$2
shift 2
[ $# -gt 0 ] || [ -n "$workloads" ] || workloads="standard decoding training"
work=$(mktemp -d "${TMPDIR:-/tmp}/clattn-paired.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
for problem; do echo "$problem"; done > "$work/problems"
for workload in $workloads; do
    "$new/bench/clattn-bench" run --list --workload "$workload"
done | sed -n 's/^  \([a-z][^:#]*\)$/\1/p' | awk '!seen[$0]++' >> "$work/problems"
export POCL_AFFINITY=1

# time_one BUILD PROBLEM: its median time in this run; the run has peaks of its own, so that it is warm.
time_one() {
    "$1/bench/clattn-bench" run --quiet --untuned --peers none --no-first-call --json "$work/run.json" \
        "$2" > "$work/said" 2>&1 < /dev/null || { sed "s|^|$1: |" "$work/said" >&2; return 1; }
    sed "s|^|$1: |" "$work/said" >&2 # a family that does not build, say
    "$new/bench/clattn-bench" compare --json - "$work/run.json" "$work/run.json" |
        sed -n 's/.*"milliseconds": \([0-9.e+-]*\).*/\1/p;' | head -n 1
}

slower=0
while read -r problem; do
    : > "$work/ratios"
    round=0
    while [ "$round" -lt "$rounds" ]; do
        before=$(time_one "$old" "$problem")
        now=$(time_one "$new" "$problem")
        awk -v a="$before" -v b="$now" 'BEGIN { printf "%.4f\n", b / a }' >> "$work/ratios"
        round=$((round + 1))
    done
    sort -n "$work/ratios" | awk -v problem="$problem" '
        { ratio[NR] = $1; all = all " " $1 }
        END {
            median = (ratio[int((NR + 1) / 2)] + ratio[int((NR + 2) / 2)]) / 2
            printf "%.3f  %s  (%s)%s\n", median, problem, substr(all, 2), (median > 1.02 ? "  SLOWER" : "")
            exit median > 1.02
        }' || slower=1
done < "$work/problems"
exit $slower
