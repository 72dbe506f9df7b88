#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/mutations.sh [--table] [WORD...]: makes small wrong changes to the library, one at a time,
# and shows whether the test that should notice does. By hand: it takes an hour or so.
#
# The changes stand in tests/mutations.txt; with words, those whose file, program or filter contains one of
# them are made. Each is made in a copy of the last commit, under $CLATTN_MUTATIONS
# (./build/mutations), which is built anew as far as needed. A filter must pass without the change and
# fail with it. Verdicts are kept there and not found again until the commit's file or the change is
# another one; --table shows what is kept and makes nothing. The table goes to stdout, the progress
# to stderr; not 0 unless every change was caught.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
list=$root/tests/mutations.txt
folder=${CLATTN_MUTATIONS:-$root/build/mutations}
copy=$folder/copy
verdicts=$folder/verdicts
limit=${CLATTN_MUTATIONS_SECONDS:-300} # for a filter
set -f                                 # a filter's * is the test program's
. tests/mpi/environment.sh
only_table=
[ "${1:-}" = --table ] && only_table=yes && shift
words=$*

say() { printf '%s\n' "$*" >&2; }

# prepare: the copy, at the last commit, configured once.
prepare() {
    mkdir -p "$verdicts" "$folder/logs" "$folder/pocl" || exit 1
    if [ -e "$copy/.git" ]; then
        git -C "$copy" checkout --quiet --force --detach "$(git rev-parse HEAD)" || exit 1
    else
        git worktree prune
        git worktree add --quiet --force --detach "$copy" HEAD || exit 1
    fi
    [ -e "$copy/build/CMakeCache.txt" ] ||
        cmake -S "$copy" -B "$copy/build" --preset release -DCMAKE_C_FLAGS_RELEASE="-O1 -DNDEBUG" \
            > "$folder/logs/configure" 2>&1 || { cat "$folder/logs/configure" >&2; exit 1; }
}

# build PROGRAM LOG: one test program, and the programs that it starts.
build() { cmake --build "$copy/build" --parallel "$(nproc)" --target "$1" > "$2" 2>&1; }

# command_of PROGRAM FILTER: of an MPI program the filter is the number of ranks, and arguments.
command_of() {
    case $1 in
    mpi_*) echo "mpirun -n ${2%% *} $copy/build/tests/mpi/$1 ${2#* }" ;;
    *) echo "$copy/build/tests/$1 --filter $2" ;;
    esac
}

# check PROGRAM FILTER FAMILY PROBLEM LOG: runs it as tests/run.sh does, with caches of its own and
# unoptimised kernels, in an empty folder: what fails may leave anything behind.
check() {
    rm -rf "$folder/clattn" "$folder/scratch"
    mkdir -p "$folder/scratch"
    (cd "$folder/scratch" &&
        CLATTN_CACHE_DIR=$folder/clattn POCL_CACHE_DIR=$folder/pocl POCL_SIGFPE_HANDLER=0 \
            POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable CLATTN_TEST_ALL=1 \
            env ${3:+"CLATTN_TEST_FAMILY=$3"} ${4:+"CLATTN_TEST_PROBLEM=$4"} \
            ${seed:+"CLATTN_TEST_SEED=$seed"} \
            timeout -k 10 "$limit" $(command_of "$1" "$2") > "$5" 2>&1)
}

# replace FILE OLD NEW: the first place where OLD stands, within a line; not 0 if there is none.
replace() {
    OLD=$2 NEW=$3 awk '
        BEGIN { old = ENVIRON["OLD"]; new = ENVIRON["NEW"] }
        !done && (at = index($0, old)) {
            $0 = substr($0, 1, at - 1) new substr($0, at + length(old)); done = 1
        }
        { print }
        END { exit !done }' "$1" > "$folder/changed" && cat "$folder/changed" > "$1"
}

# key TEXT...: a name for a file that holds what is known of it.
key() { printf '%s\n' "$@" | cksum | tr -d ' '; }

# The name of the file that says that a filter passes without the change, and tests something.
sound_file() {
    printf '%s' "$verdicts/sound-$(key "$program" "$filter" "$family" "$problem" "$commit" ${seed:+"$seed"})"
}

# sound: makes that file, asked once a commit.
sound() {
    known=$(sound_file)
    [ -e "$known" ] && return
    build "$program" "$folder/logs/build" || { cat "$folder/logs/build" >&2; exit 1; }
    check "$program" "$filter" "$family" "$problem" "$folder/logs/sound" &&
        grep -q -e 'Tested: .*[1-9]' -e 'ranks.* [1-9].* problems' "$folder/logs/sound" && : > "$known"
}

# judge: the verdict of one change in one word.
judge() {
    log=$folder/logs/$number
    if [ ! -e "$(sound_file)" ]; then
        verdict=unsound
    elif ! replace "$copy/$file" "$old" "$new"; then
        verdict=absent
    elif ! build "$program" "$log"; then
        verdict=unbuilt
    else
        check "$program" "$filter" "$family" "$problem" "$log"
        case $? in
        0) verdict=survived ;;
        124 | 137) verdict=hung ;;
        *) verdict=caught ;;
        esac
    fi
    git -C "$copy" checkout --quiet --force -- "$file"
}

wanted() {
    [ -z "$words" ] && return 0
    for word in $words; do
        case "$file $program $filter $family" in *"$word"*) return 0 ;; esac
    done
    return 1
}

# cell TEXT: as it stands in a table.
cell() { printf '%s' "$1" | sed 's/|/\\|/g'; }

# found: whether the verdict of the change that was read is known and good.
found() {
    blob=$(git rev-parse "HEAD:$file" 2>/dev/null)
    known=$verdicts/$(key "$file" "$blob" "$old" "$new" "$program" "$filter" "$family" "$problem" ${seed:+"$seed"})
    verdict=
    [ -e "$known" ] && verdict=$(cat "$known")
    [ "$verdict" = caught ] || [ "$verdict" = hung ]
}

# first: all filters run on what is right, in one build.
first() { wanted && ! found && sound; }

# second: the change that was read.
second() {
    number=$((number + 1))
    wanted || return
    begin=$(date +%s)
    if ! found && [ -n "$only_table" ]; then
        verdict=${verdict:-not made}
    elif ! found; then
        judge
        printf '%s\n' "$verdict" > "$known"
        say "$number $verdict: $file, $filter, $(($(date +%s) - begin)) s"
    fi
    [ "$verdict" = caught ] || [ "$verdict" = hung ] || missed=$((missed + 1))
    made=$((made + 1))
    printf '| %s | `%s` | `` %s `` | `` %s `` | `%s` | %s |\n' "$number" "$file" \
        "$(cell "$old")" "$(cell "$new")" "$(cell "$filter${family:+ of $family}")" "$verdict" \
        >> "$table"
}

# each FUNCTION: calls it for every change of the list.
each() {
    while IFS= read -r line <&3; do
        case $line in
        '' | '#'*) ;;
        '- '*) old=${line#- } ;;
        '+ '*) new=${line#+ } ;;
        '= '*' UNIT='*) problem=${line#* UNIT=} problem=${problem#* } family=${line#= } family=${family%" $problem"} ;;
        '= '*) family=${line#= } problem=${family#* } family=${family%% *} ;;
        '@ '*) seed=${line#@ } ;;
        '! '*) program=${line#! } filter=${program#* } program=${program%% *} && "$1" ;;
        *) file=$line family= problem= seed= ;;
        esac
    done 3< "$list"
}

[ -n "$only_table" ] || prepare
commit=$(git rev-parse HEAD)
number=0 made=0 missed=0
table=$(mktemp)
trap 'rm -f "$table"' EXIT
[ -n "$only_table" ] || each first
each second

printf '| | file | instead of | stands | test | verdict |\n|--:|---|---|---|---|---|\n'
cat "$table"
printf '\n%s changes at %s: %s not caught.\n' "$made" "$(git rev-parse --short HEAD)" "$missed"
[ "$missed" -eq 0 ]
