#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh bench/tuning_figures.sh [OPTION]... FILE.json: how good the tuner is on the default device.
# From an empty cache it measures, and collects in FILE.json,
#   tunings    two tunings of the workload from scratch, with different seeds;
#   run        the workload with what the first found, beside the untuned choices;
#   agreement  a race of the two winners for each problem;
#   search     a long search of the same spaces from scratch;
#   reference  for each problem a race of its winner, the winner of the first tuning and the untuned
#              choice;
#   plans      how long a second process takes to its first result, for each problem.
#
#   --build DIR        where clattn-tune and clattn-bench were built (build)
#   --work DIR         keeps caches and steps there (a new directory); what is done is not repeated,
#                      so an interrupted run goes on where it was
#   --workload NAME    tuning
#   --budget B         of each of the two tunings, as clattn-tune takes it (60s)
#   --reference B      of the long search (60m)
#   --strategy S       of the long search (exhaustive, which a search of a day ends)
#   --rounds N         of each race (30)
# A quiet machine makes narrow intervals.
set -eu

build=build
work=
workload=tuning
budget=60s
reference=60m
strategy=exhaustive
rounds=30

usage() {
    echo "tuning_figures.sh: $1" >&2
    sed -n '2,/^set/{/SPDX/d;/^#/s/^# \{0,1\}//p;}' "$0" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --build | --work | --workload | --budget | --reference | --strategy | --rounds)
        [ $# -gt 1 ] || usage "$1 takes a value"
        name=${1#--}
        eval "$name=\$2"
        shift 2
        ;;
    -*) usage "there is no option $1" ;;
    *) break ;;
    esac
done
[ $# -eq 1 ] || usage "takes one file"
output=$1
bench=$build/bench/clattn-bench
tune=$build/tuner/clattn-tune
if [ ! -x "$bench" ] || [ ! -x "$tune" ]; then
    usage "$build holds no clattn-bench and clattn-tune"
fi
[ -n "$work" ] || work=$(mktemp -d "${TMPDIR:-/tmp}/clattn-figures.XXXXXX")
mkdir -p "$work"
echo "steps and caches: $work"

# in_cache NAME COMMAND...: with a cache directory of that name.
in_cache() {
    name=$1
    shift
    CLATTN_CACHE_DIR=$work/cache-$name "$@"
}

# step FILE COMMAND... FILE.part: makes FILE unless it is there.
step() {
    file=$1
    shift
    if [ ! -s "$file" ]; then
        basename "$file" .json
        "$@" "$file.part" < /dev/null > "$file.log" 2>&1 || { cat "$file.log" >&2; return 1; }
        mv "$file.part" "$file"
    fi
}

# The configuration that a problem was tuned to.
winner() {
    in_cache "$1" "$bench" plan --known-only "$2" | sed -n 2p
}

# The lines of the workload in `clattn-bench run --list`.
"$bench" run --list | sed -n "/^$workload: /,/^[^ ]/s/^  //p" > "$work/problems"
[ -s "$work/problems" ] || usage "there is no workload $workload"

step "$work/tuning-1.json" in_cache 1 "$tune" --workload "$workload" --budget "$budget" --seed 1 \
    --json
step "$work/tuning-2.json" in_cache 2 "$tune" --workload "$workload" --budget "$budget" --seed 2 \
    --json
step "$work/search.json" in_cache reference "$tune" --workload "$workload" \
    --strategy "$strategy" --budget "$reference" --seed 3 --json
step "$work/run.json" in_cache 1 "$bench" run "$workload" --json

n=0
while IFS= read -r problem; do
    n=$((n + 1))
    echo "$problem"
    step "$work/agreement-$n.json" in_cache 1 "$bench" duel --rounds "$rounds" "$problem" tuned \
        "$(winner 2 "$problem")" --json
    step "$work/reference-$n.json" in_cache 1 "$bench" duel --rounds "$rounds" "$problem" \
        "$(winner reference "$problem")" tuned untuned --json
    step "$work/plan-$n.json" in_cache 1 "$bench" plan --known-only "$problem" --json
done < "$work/problems"

# list: a JSON array of the steps whose names come in.
list() {
    separator='['
    while read -r name; do
        printf '%s\n' "$separator"
        cat "$work/$name.json"
        separator=,
    done
    echo ']'
}

# numbered NAME: NAME-1 NAME-2 ..., one for each problem.
numbered() {
    n=0
    while read -r _; do
        n=$((n + 1))
        echo "$1-$n"
    done < "$work/problems"
}

{
    printf '{\n"schema": "clattn-tuning-figures-1",\n"budget": "%s",\n' "$budget"
    printf '"reference_strategy": "%s",\n"reference_budget": "%s",\n' "$strategy" "$reference"
    for key in tunings run agreement search reference plans; do
        printf '"%s": ' "$key"
        case $key in
        tunings) printf '%s\n' tuning-1 tuning-2 | list ;;
        run | search) cat "$work/$key.json" ;;
        plans) numbered plan | list ;;
        *) numbered "$key" | list ;;
        esac
        [ "$key" = plans ] || echo ,
    done
    echo '}'
} > "$output.part"
mv "$output.part" "$output"

# Row 2 and 3 of a race begin "ROW MS LOW .. HIGH RATIO LOW .. HIGH VERDICT".
ratio() {
    awk -v row="$2" '$1 == row && $4 == ".." { print $6 }' "$work/$1.json.log"
}
n=0
while read -r problem; do
    n=$((n + 1))
    echo "$(ratio "agreement-$n" 2) $(ratio "reference-$n" 2) $(ratio "reference-$n" 3) $problem"
done < "$work/problems" | awk '
    BEGIN { print "\ntime of the     second tuning   tuned choice    untuned choice"
            print "over that of    the first       the winner of the long search" }
    { t += log($2); u += log($3); if ($2 > tmax) tmax = $2; if ($3 > umax) umax = $3
      printf "                %-15.3f %-15.3f %-8.3f", $1, $2, $3
      for (n = 4; n <= NF; n++) printf " %s", $n
      print "" }
    END { printf "geometric mean                  %-15.3f %.3f\n", exp(t / NR), exp(u / NR)
          printf "most                            %-15.3f %.3f\n", tmax, umax }'
echo "$output"
