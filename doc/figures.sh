#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh doc/figures.sh [TREE]: counts what doc/design/figures.md says of the source's shape, of the tracked
# files of TREE, a clone or a worktree of any commit (default: this one).
# sh doc/figures.sh --table BEFORE [TREE]: the table of that page, with the goals.
# sh doc/figures.sh --list sources|includes|circling|folders|carried|repeated|twice [TREE]: what is counted.
#   CLATTN_LIBRARY=FILE   a built libclattn.so, whose size is counted
#
# The sources are the tracked *.c, *.h, *.cl, *.def, *.py, *.js, *.sh, *.css and *.html.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
list=
if [ "${1:-}" = --table ]; then
    before=$(mktemp)
    now=$(mktemp)
    CLATTN_LIBRARY=${CLATTN_LIBRARY_BEFORE:-} sh "$here/figures.sh" "$2" > "$before"
    sh "$here/figures.sh" "${3:-$here/..}" > "$now"
    # The goals, by the rows' names.
    awk -F '\t' '
        FILENAME == ARGV[1] { goal[$1] = $2; next }
        FILENAME == ARGV[2] { before[$1] = $2; next }
        FNR == 1 { print "| | before | now | goal |\n|---|--:|--:|--:|" }
        { print "| " $1 " | " ($1 in before ? before[$1] : "-") " | " $2 " | " ($1 in goal ? goal[$1] : "") " |" }
    ' - "$before" "$now" << END
lines of all sources	112000
size of libclattn.so, MB	1.6
families	13
macros that the largest kernel sees	150
conditions (#if) that it sees	110
uses of macros that only carry arguments	0
functions that repeat the sizes of arrays	0
names of functions in several files of cl	20
files in circles of includes	0
folders in circles of includes	0
files of the exercise format	6
files of the exercise option: library, benchmark, tests	8, 2, 2
files of the exercise unit	3
END
    rm -f "$before" "$now"
    exit
elif [ "${1:-}" = --list ]; then
    list=$2
    shift 2
fi
cd "${1:-$here/..}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git ls-files > "$work/files"
grep -E '\.(c|h|cl|def|py|js|sh|css|html)$' "$work/files" > "$work/sources"

row() {
    printf '%s\t%s\n' "$1" "$2"
}

# sources FOLDER...: the sources below these folders, a line each.
sources() {
    for folder; do
        grep "^$folder/" "$work/sources" || true
    done
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

# Uses of macros that only carry arguments: what they are called is their rule.
sources cl src/families | { grep -E '^cl/.*\.h$|\.cl$' || true; } |
    xargs grep -noE '\b[A-Z_]+_(PARAMS?|ARGS?)\b' > "$work/carried" || true
# Functions of the host that repeat the sizes of a kernel's arrays say so.
grep -rnE 'Follows the (arrays|layout of local|local memory)' src > "$work/repeated" || true
# Names of functions that several files of kernels define. Files of cl/functions are whole programs of callers: all of
# them define score() or visible().
sources cl src/families | grep -v '^cl/functions/' | { grep -E '^cl/.*\.h$|\.cl$|\.clh$' || true; } | xargs awk '
    /^[A-Za-z_].*[(]/ && !/;$/ && !/^#/ && !/\\$/ { name = $0; sub(/[(].*/, "", name); sub(/.*[ *]/, "", name); said = name }
    /^\{/ { if (said != "" && said != "__attribute__" && !((said, FILENAME) in seen)) { seen[said, FILENAME] = 1; files[said]++ } said = "" }
    END { for (name in files) if (files[name] > 1) print files[name], name }' | sort -rn > "$work/twice"

# seen KERNEL: "MACROS CONDITIONS" of the file and all that it includes.
seen() {
    awk -v start="$1" -v sources="$work/sources" '
    function take(path, line, name, beside, file) {
        if (path in taken) return
        taken[path] = 1
        while ((getline line < path) > 0) {
            if (line ~ /^ *# *define/) { sub(/^ *# *define +/, "", line); sub(/[^A-Za-z0-9_].*/, "", line); macros[line] = 1 }
            else if (line ~ /^ *# *if/) conditions++
            else if (line ~ /^ *# *include "/) {
                name = line; sub(/^[^"]*"/, "", name); sub(/".*/, "", name)
                beside = path; sub(/[^\/]*$/, "", beside)
                found = ""
                while ((getline file < sources) > 0)
                    if (file == "cl/" name || file == "src/" name || file == beside name) found = file
                close(sources)
                if (found != "") wanted[++count] = found
            }
        }
        close(path)
    }
    BEGIN {
        take(start)
        for (n = 1; n <= count; n++) take(wanted[n])
        for (name in macros) m++
        print m + 0, conditions + 0
    }'
}

if [ -n "$list" ]; then
    cat "$work/$list"
    exit
fi
# What a patch of tests/exercises changes below the folders.
exercise() {
    patch=tests/exercises/$1.patch
    shift
    [ -e "$patch" ] || { echo -; return; }
    for folder; do
        sed -n "s#^+++ b/\($folder/.*\)#\1#p; s#^--- a/\($folder/.*\)#\1#p" "$patch"
    done | sort -u | wc -l
}

row "lines of all sources" "$(xargs cat < "$work/sources" | wc -l)"
for folder in include src cl tuner bench tests bindings; do
    row "... $folder" "$(lines "$folder")"
done
row "size of libclattn.so, MB" "$([ -z "${CLATTN_LIBRARY:-}" ] && echo - || wc -c < "$CLATTN_LIBRARY" | awk '{ printf "%.2f\n", $1 / 1e6 }')"
row "families" "$(grep -c '^FAMILY(' src/families/families.def)"
largest="0 0" kernel=
for file in $(grep '\.cl$' "$work/sources" | grep -v ^tests/); do
    figures=$(seen "$file")
    [ "${figures% *}" -le "${largest% *}" ] || { largest=$figures; kernel=${file##*/}; }
done
row "macros that the largest kernel sees" "${largest% *} ($kernel)"
row "conditions (#if) that it sees" "${largest#* }"
row "uses of macros that only carry arguments" "$(wc -l < "$work/carried")"
row "functions that repeat the sizes of arrays" "$(wc -l < "$work/repeated")"
row "names of functions in several files of cl" "$(wc -l < "$work/twice")"
row "files in circles of includes" "$(wc -l < "$work/circling")"
row "folders in circles of includes" "$(wc -l < "$work/folders")"
# Files that name an operation, besides those that are called after it.
naming() {
    grep -v "$1" "$work/sources" | xargs grep -li "$1" | wc -l | sed 's/^ *0$/-/; s/ //g'
}
row "files that name double backward, and indexers, besides their own" "$(naming double_backward), $(naming indexer)"
row "files of the exercise format" "$(exercise format include src cl tuner bench tests bindings)"
row "files of the exercise option: library, benchmark, tests" \
    "$(exercise option include src cl), $(exercise option bench), $(exercise option tests)"
row "files of the exercise unit" "$(exercise unit include src cl tuner bench tests bindings)"
