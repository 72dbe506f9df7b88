#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh doc/figures.sh [TREE]: counts what doc/architecture.md says of the source's shape, of the tracked
# files of TREE, a clone or a worktree of any commit (default: this one).
# sh doc/figures.sh --table BEFORE [TREE]: the table of that page, with the goals.
# sh doc/figures.sh --list sources|includes|circling|folders|functions [TREE]: what is counted.
#
# Left out are data: tests/data, bench/results, and what fuzzers begin with (tests/fuzz/*/). Sources are
# *.c, *.h, *.cl, *.def and *.inc; of the peers of clattn-bench, *.py as well.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
list=
if [ "${1:-}" = --table ]; then
    before=$(mktemp)
    now=$(mktemp)
    sh "$here/figures.sh" "$2" > "$before"
    sh "$here/figures.sh" "${3:-$here/..}" > "$now"
    # The goals, row by row.
    printf '%s\n' 16 3 6 6 3 0 0 0 20 150 110 54000 33000 | paste -d '\t' "$before" "$now" - |
        awk -F '\t' 'BEGIN { print "| | before | now | at most |\n|---|--:|--:|--:|" }
            { print "| " $1 " | " $2 " | " $4 " | " $5 " |" }'
    rm -f "$before" "$now"
    exit
elif [ "${1:-}" = --list ]; then
    list=$2
    shift 2
fi
cd "${1:-$here/..}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git ls-files | grep -v -e '^tests/data/' -e '^bench/results/' -e '^tests/fuzz/.*/' > "$work/files"
grep -E '\.(c|h|cl|def|inc|py)$' "$work/files" > "$work/sources"

row() {
    printf '%s\t%s\n' "$1" "$2"
}

# sources FOLDER...: the sources below these folders, a line each.
sources() {
    for folder; do
        grep "^$folder/" "$work/sources" || true
    done
}

# touched WORDS FOLDER...: how many sources below the folders have one of the words, in any case.
touched() {
    words=$1
    shift
    sources "$@" | xargs grep -liE "$words" | wc -l
}

# A family's program, with each of its headers once.
expanded() {
    kernel=$(sources cl | grep "/$1\\.cl\$")
    awk -v file="$kernel" '
        function expand(path, line, part) {
            if (path in seen) return
            seen[path] = 1
            while ((getline line < path) > 0)
                if (split(line, part, "\"") == 3 && line ~ /^ *# *include/) {
                    expand("cl/" part[2])
                    if (!((getline _ < ("cl/" part[2])) >= 0)) expand("src/" part[2])
                } else
                    print line
            close(path)
        }
        BEGIN { expand(file) }' < /dev/null
}

lines() {
    sources "$@" | xargs cat | wc -l
}

# Lines "UNIT UNIT" of includes by quotes, in all trees; a .c and its .h are one unit. An include leads to a path
# below src/ or the top, else beside the file, else to the one file of that name.
sources src tuner bench tests bindings | xargs grep -HE '^ *# *include "' |
    sed 's/^\([^:]*\):[^"]*"\([^"]*\)".*/\1 \2/' | awk -v sources="$work/sources" '
    BEGIN {
        while ((getline path < sources) > 0) {
            exists[path] = 1
            name = path
            sub(/.*\//, "", name)
            named[name] = path
        }
    }
    function unit(path) { sub(/\.[a-z]+$/, "", path); return path }
    {
        beside = $1
        sub(/[^\/]*$/, "", beside)
        name = $2
        sub(/.*\//, "", name)
        to = ("src/" $2) in exists ? "src/" $2 : ($2 in exists) ? $2 : \
            ((beside $2) in exists) ? beside $2 : named[name]
        if (to != "" && unit(to) != unit($1)) print unit($1), unit(to)
    }' | sort -u > "$work/includes"

# circles: of lines "FROM TO", those that lead back to themselves.
circles() {
    awk '
    { to[$1] = to[$1] " " $2; unit[$1] = 1 }
    END {
        for (start in unit) {
            split("", seen)
            split("", next_one)
            count = split(to[start], next_one)
            for (n = 1; n <= count; n++) {
                if (next_one[n] == start) { print start; break }
                if (next_one[n] in seen) continue
                seen[next_one[n]] = 1
                more = split(to[next_one[n]], reached)
                for (m = 1; m <= more; m++) next_one[++count] = reached[m]
            }
        }
    }' | sort
}

# Units in circles, counted as the files they consist of; and folders of the second level, such as bench/records.
circles < "$work/includes" > "$work/circles"
[ ! -s "$work/circles" ] || sed 's/.*/^&\\.[ch]$/' "$work/circles" | grep -f - "$work/sources" > "$work/circling" || true
touch "$work/circling"
sed -E 's#([^ ]+) ([^ ]+)#\1.unit \2.unit#' "$work/includes" |
    sed -E 's#(^| )([a-z]+/[^/ ]+)/[^ ]+#\1\2#g; s#(^| )([a-z]+)/[^/ ]+\.unit#\1\2#g' |
    awk '$1 != $2' | sort -u | circles > "$work/folders"

# "LINES NAME" of each function of kernels' sources: from its opening brace to its closing one, both
# in the first column.
sources cl | xargs awk '
    FNR == 1 { open = 0 }
    /^[A-Za-z_].*[(]/ && !/;$/ { name = $0; sub(/[(].*/, "", name); sub(/.*[ *]/, "", name) }
    /^\{/ { open = FNR }
    /^\}/ { if (open) print FNR - open + 1, name, FILENAME; open = 0 }' |
    sort -rn > "$work/functions"

if [ -n "$list" ]; then
    cat "$work/$list"
    exit
fi
option='alibi|slopes'
dtype='bf16'
row "files that an option of forward touches (ALiBi): library" "$(touched "$option" include src cl)"
row "... bench" "$(touched "$option" bench)"
row "... tests" "$(touched "$option" tests)"
row "files that a dtype touches (bf16): library" "$(touched "$dtype" include src cl)"
row "... bench" "$(touched "$dtype" bench)"
row "files in circles of includes, in all trees" "$(wc -l < "$work/circling")"
row "folders in circles of includes" "$(wc -l < "$work/folders")"
row "uses of macros that only carry arguments, in cl" "$(sources cl | xargs cat |
    grep -oE '\b[A-Z_]+_(PARAMS?|ARGS?|ARGUMENTS?)\b' | wc -l)"
row "names of functions in several files of cl" "$(awk '{ print $2, $3 }' "$work/functions" | sort -u |
    cut -d ' ' -f 1 | uniq -d | wc -l)"
row "macros that fused_gpu UNIT=mma sees" "$(expanded fused_gpu UNIT=mma | sed -n 's/^# *define *\([A-Za-z_0-9]*\).*/\1/p' | sort -u | wc -l)"
row "lines #if that fused_gpu UNIT=mma sees" "$(expanded fused_gpu UNIT=mma | grep -c '^# *if')"
row "lines of src + cl + tuner + bench" "$(lines src cl tuner bench)"
row "lines of tests" "$(lines tests)"
