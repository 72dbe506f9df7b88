#!/bin/sh
# sh tests/layers.sh BUILD_DIR: whether the library's layers hold (src/CMakeLists.txt has their order).
#
# - An include names its folder and leads to the file's own folder or to a layer below it.
# - No files need each other, in a round of any length: neither by their includes (a .c and its .h are
#   one) nor by what their objects call.
# - The search engine knows nothing of attention; clattn-tune and clattn-bench nothing of each other, and
#   of the library only what src/programs.txt lists.
set -u
[ $# -eq 1 ] || { echo "usage: sh tests/layers.sh BUILD_DIR" >&2; exit 2; }
build=$1
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

layers=$(awk '/^set\(CLATTN_LAYERS/ { on = 1; sub(/^set\(CLATTN_LAYERS/, "") }
    on { line = $0; if (sub(/\).*/, "", line)) on = 2; print line; if (on == 2) exit }' src/CMakeLists.txt)
[ -n "$layers" ] || { echo "src/CMakeLists.txt names no layers" >&2; exit 1; }

# Lines "FILE INCLUDED", both from the top of the tree; of includes by quotes alone.
find src tuner bench -name '*.[ch]' -exec grep -H '^ *# *include "' {} + |
    sed 's/^\([^:]*\):[^"]*"\([^"]*\)".*/\1 \2/' > "$work/written"
awk -v out="$work/includes" '
    function exists(path, line, got) { got = (getline line < path); close(path); return got >= 0 }
    $2 ~ /\.(def|inc)$/ { next }
    exists("src/" $2) { print $1, "src/" $2 > out; next }
    exists($2) { print $1, $2 > out; next }
    { print $1 ": \"" $2 "\" does not name a folder of the tree"; bad = 1 }
    END { exit bad }' "$work/written"
bad=$?

awk -v layers="$layers" '
    BEGIN { count = split(layers, name, /[ \n]+/); for (n = 1; n <= count; n++) if (name[n] != "") level[name[n]] = n }
    function layer_of(path, part) { split(path, part, "/"); return part[1] == "src" ? part[2] : part[1] }
    {
        from = layer_of($1); to = layer_of($2)
        if (to == "cl" || from == to) next
        if (from in level) {
            if (!(to in level)) { print $1 " includes " $2 ", which is not of the library"; bad = 1 }
            else if (level[to] > level[from]) { print $1 " includes " $2 ", a layer above it"; bad = 1 }
            else if (from == "search" && to != "base") { print $1 " includes " $2 ": the search knows attention"; bad = 1 }
        } else if ((from == "tuner" && to == "bench") || (from == "bench" && to == "tuner") ||
                   (from == "cli" && (to == "tuner" || to == "bench"))) {
            print $1 " includes " $2 ", another program'\''s"; bad = 1
        }
    }
    END { exit bad }' "$work/includes" || bad=1

# What programs include of the library besides its public headers is listed, and all of the list is used.
awk '$1 !~ /^src\// || $1 ~ /^src\/cli\// { if ($2 ~ /^src\// && $2 !~ /^src\/cli\//) print substr($2, 5) }' \
    "$work/includes" | sort -u > "$work/used"
grep -v '^#' src/programs.txt | sed 's/ .*//' | sort > "$work/allowed"
if ! diff "$work/allowed" "$work/used" > "$work/diff"; then
    sed -n 's/^> /programs include it, but src\/programs.txt does not list it: /p
            s/^< /src\/programs.txt lists it, but no program includes it: /p' "$work/diff"
    bad=1
fi

# Calls between objects: lines "CALLER CALLED", like the includes.
find "$build/src/CMakeFiles" -name '*.o' -path '*/ca_*' > "$work/objects"
[ -s "$work/objects" ] || { echo "there are no objects below $build/src" >&2; exit 1; }
xargs nm -A < "$work/objects" 2> /dev/null | awk -v out="$work/calls" '
    {
        file = $0; sub(/:.*/, "", file); sub(/.*\/ca_[a-z_]*\.dir\//, "", file)
        if (file ~ /^cl\//) next
        kind = $(NF - 1); symbol = $NF
        if (kind ~ /^[TDBRCV]$/) owner[symbol] = file
        else if (kind == "U") needs[file, symbol] = 1
    }
    END {
        for (pair in needs) {
            split(pair, part, SUBSEP)
            to = owner[part[2]]
            if (to != "" && to != part[1]) print "src/" part[1], "src/" to > out
        }
    }'
touch "$work/calls"

for kind in includes calls; do
    sed 's/\.c\.o//g; s/\.[ch]\b//g' "$work/$kind" | grep '^src' | tsort > /dev/null 2> "$work/rounds"
    if [ -s "$work/rounds" ]; then
        echo "by $kind these need each other:"
        sed 's/^tsort: /  /; s/^  -:.*/  -/' "$work/rounds"
        bad=1
    fi
done
[ "$bad" = 0 ] && echo "$(echo $layers | wc -w) layers, $(wc -l < "$work/includes") includes, $(wc -l < "$work/calls") calls between files: one direction"
exit "$bad"
