#!/bin/sh
# sh tests/layers.sh BUILD_DIR: whether the library's layers hold (src/CMakeLists.txt has their order).
#
# - An include names its folder and leads to the file's own folder or to a layer below it.
# - No files include each other, in a round of any length: a .c and its .h are one.
# - No object calls what a layer above it defines.
# - What is the operating system's stays in src/os: nobody else includes its headers or asks for its functions.
# - The search engine knows nothing of attention; clattn-tune and clattn-bench nothing of each other, and
#   of the library, besides its public headers, only src/internal.h.
# - bench/reference, which judges the library, includes and calls nothing but its own and public headers.
# - No function of a kernel has over 100 lines, README.md not over 150 lines.
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
        if ($1 ~ /^bench\/reference\// && $2 !~ /^bench\/reference\//) {
            print $1 " includes " $2 ": the reference shares no code with what it judges"; bad = 1
        }
        if (to == "cl" || from == to || $1 == "src/internal.h" || (to == "os" && !(from in level))) next
        if (from in level) {
            if (!(to in level)) { print $1 " includes " $2 ", which is not of the library"; bad = 1 }
            else if (level[to] > level[from]) { print $1 " includes " $2 ", a layer above it"; bad = 1 }
            else if (from == "search" && to != "base") { print $1 " includes " $2 ": the search knows attention"; bad = 1 }
        } else if (to in level || (from == "tuner" && to == "cl") || (from == "bench" && to == "cl")) {
            print $1 " includes " $2 ", which src/internal.h is for"; bad = 1
        } else if ((from == "tuner" && to == "bench") || (from == "bench" && to == "tuner") ||
                   (from == "cli" && (to == "tuner" || to == "bench"))) {
            print $1 " includes " $2 ", another program'\''s"; bad = 1
        }
    }
    END { exit bad }' "$work/includes" || bad=1

# Headers of POSIX, of single systems and of Windows, and macros that ask for more than C11.
system='aio|arpa/.*|cpio|dirent|dlfcn|fcntl|fnmatch|ftw|getopt|glob|grp|iconv|io|langinfo|libgen|link|linux/.*|mach/.*|mqueue|net.*/.*|netdb|poll|process|pthread|pwd|regex|sched|search|semaphore|signal|spawn|strings|sys/.*|syslog|termios|unistd|utime|windows|wordexp'
if grep -rnE --include='*.[ch]' "^ *# *(include *<($system)\.h>|define +_[A-Z]+(_C)?_SOURCE)" src tuner bench | grep -vE '^(src/os|tuner/replay|bench/peers)/'; then
    echo "these are for src/os alone"
    bad=1
fi

# Of the reference, by symbols: what it does not define itself is libc's.
find "$build/bench/reference" -name '*.o' > "$work/judges"
[ -s "$work/judges" ] || { echo "there are no objects below $build/bench/reference" >&2; exit 1; }
xargs nm -A -u < "$work/judges" | grep -E ' U (ca_|clattn_|cl[A-Z])' | sed 's/^.*\//  /' > "$work/judged"
if [ -s "$work/judged" ]; then
    echo "the reference calls the library or OpenCL:"
    cat "$work/judged"
    bad=1
fi

# By name: internal.h may name all layers, and only programs include it.
sed 's/\.[ch]\b//g' "$work/includes" | grep '^src' | grep -v '^src/internal ' | awk '$1 != $2' |
    tsort > /dev/null 2> "$work/rounds"
if [ -s "$work/rounds" ]; then
    echo "these include each other:"
    sed 's/^tsort: /  /; s/^  -:.*/  -/' "$work/rounds"
    bad=1
fi

# What an object calls lies in its own layer or below, whatever its source includes.
find "$build/src/CMakeFiles" -name '*.o' -path '*/ca_*' > "$work/objects"
[ -s "$work/objects" ] || { echo "there are no objects below $build/src" >&2; exit 1; }
xargs nm -A < "$work/objects" 2> /dev/null | awk -v layers="$layers" -v out="$work/calls" '
    BEGIN { count = split(layers, name, /[ \n]+/); for (n = 1; n <= count; n++) if (name[n] != "") level[name[n]] = n }
    {
        layer = $0; sub(/:.*/, "", layer); sub(/.*\/ca_/, "", layer); sub(/\.dir\/.*/, "", layer)
        kind = $(NF - 1); symbol = $NF
        if (kind ~ /^[TDBRCV]$/) owner[symbol] = layer
        else if (kind == "U") needs[layer, symbol] = 1
    }
    END {
        for (pair in needs) {
            split(pair, part, SUBSEP)
            to = owner[part[2]]
            if (to == "") continue
            print part[1], to > out
            if (level[to] > level[part[1]]) { print part[1] " calls " part[2] "() of " to ", a layer above it"; bad = 1 }
        }
        exit bad
    }' || bad=1
touch "$work/calls"

# What doc/architecture.md holds sizes to, in a clone.
if git rev-parse --is-inside-work-tree > /dev/null 2>&1; then
    sh doc/figures.sh | awk -F '\t' '
        /^longest kernel function/ && $2 + 0 > 100 { print "a function of a kernel has over 100 lines: " $2; bad = 1 }
        /^lines of README/ && $2 + 0 > 150 { print "README.md has over 150 lines: " $2; bad = 1 }
        END { exit bad }' || bad=1
fi

# Variadic macros, which NVIDIA's compiler of OpenCL C refuses (doc/drivers.md), are for CPUs, and for what PoCL alone gets.
if grep -rn '^#define .*\.\.\.)' cl --include='*.h' --include='*.cl' | grep -v -e '^cl/cpu/' -e '^cl/bf16/' -e '^cl/common/builtins.h'; then
    echo "a kernel for GPUs has a variadic macro"
    bad=1
fi
[ "$bad" = 0 ] && echo "$(echo $layers | wc -w) layers, $(wc -l < "$work/includes") includes, $(wc -l < "$work/calls") calls between layers: one direction"
exit "$bad"
