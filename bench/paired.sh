#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh bench/paired.sh [OPTION]... OLD NEW [PROBLEM]...: whether another version, or another problem, is slower.
# Two versions take turns at samples of 50 ms, so that what disturbs the machine disturbs both. Prints for each
# problem the median of the turns' ratios of time, new over old, with their quartiles. The results of both are compared
# with double precision first. Fails if the median is over 1.02 and the lower quartile over 1. By hand.
#   OLD, NEW      folders that two versions are built in: the target clattn-bench-paired
#   PROBLEM       "FIRST => SECOND": OLD computes the first and NEW the second, as a problem without and with an option.
#                 OLD and NEW may be the same folder, and SECOND may take longer
#   --turns N     31; fewer where they take over 15 s, 5 at least
#   --workload W  the problems of a workload of NEW; may be repeated. Without problems: standard,
#                 decoding, training, serving
set -eu

turns=31
workloads=
usage() {
    echo "paired.sh: $1" >&2
    sed -n '2,/^set/{/SPDX/d;/^#/s/^# \{0,1\}//p;}' "$0" >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
    --turns | --workload)
        [ $# -gt 1 ] || usage "$1 takes a value"
        if [ "$1" = --turns ]; then turns=$2; else workloads="$workloads $2"; fi
        shift 2
        ;;
    -*) usage "there is no option $1" ;;
    *) break ;;
    esac
done
[ $# -ge 2 ] || usage "takes two folders"
old=$1 new=$2
shift 2
[ $# -gt 0 ] || [ -n "$workloads" ] || workloads="standard decoding training serving"
work=$(mktemp -d "${TMPDIR:-/tmp}/clattn-paired.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
{
    for problem; do echo "$problem"; done
    for workload in $workloads; do
        "$new/bench/clattn-bench" run --list --workload "$workload"
    done | sed -n 's/^  \([a-z][^:#]*\)$/\1/p'
} | awk '!seen[$0]++' > "$work/problems"

export POCL_AFFINITY=1
mkfifo "$work/to_old" "$work/of_old" "$work/to_new" "$work/of_new"
"$old/bench/clattn-bench-paired" < "$work/to_old" > "$work/of_old" &
exec 3> "$work/to_old" 4< "$work/of_old"
"$new/bench/clattn-bench-paired" < "$work/to_new" > "$work/of_new" 3>&- 4<&- &
exec 5> "$work/to_new" 6< "$work/of_new"

ask_old() { echo "$*" >&3 && read -r answer <&4 || answer="it ended"; }
ask_new() { echo "$*" >&5 && read -r answer <&6 || answer="it ended"; }

slower=0
while read -r problem; do
    ask_old open "${problem%% => *}"
    why=$answer
    ask_new open "${problem##* => }"
    if [ "$why $answer" != "ok ok" ]; then
        echo "-      $problem: $old: $why; $new: $answer"
        slower=1
        continue
    fi
    ask_old sample # the first ones say how many executions fill the time
    ask_new sample
    begun=$(date +%s)
    turn=0
    while [ "$turn" -lt "$turns" ] && { [ "$turn" -lt 5 ] || [ $(($(date +%s) - begun)) -lt 15 ]; }; do
        if [ $((turn % 2)) -eq 0 ]; then
            ask_old sample; before=$answer
            ask_new sample; now=$answer
        else
            ask_new sample; now=$answer
            ask_old sample; before=$answer
        fi
        awk -v a="$before" -v b="$now" 'BEGIN { printf "%.4f %s %s\n", b / a, b, a }'
        turn=$((turn + 1))
    done | sort -n > "$work/ratios"
    awk -v problem="$problem" '
        { ratio[NR] = $1; if (NR == 1 || $2 < now) now = $2; if (NR == 1 || $3 < before) before = $3 }
        END {
            low = ratio[int((NR + 3) / 4)]; middle = ratio[int((NR + 1) / 2)]; high = ratio[NR + 1 - int((NR + 3) / 4)]
            slow = middle > 1.02 && low > 1 && problem !~ / => / # what an option costs is no fault
            printf "%.3f (%.3f to %.3f)  %s  %.4g ms at least, %.4g before%s\n", middle, low, high, problem, now, before,
                (slow ? "  SLOWER" : "")
            exit slow
        }' "$work/ratios" || slower=1
done < "$work/problems"
exit $slower
