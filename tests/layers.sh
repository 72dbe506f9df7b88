#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/layers.sh BUILD_DIR: whether the library's layers hold (src/CMakeLists.txt has their order).
#
# - An include names its folder and leads to the file's own folder or to a layer below it.
# - No files include each other in a circle of any length, and no folders do, in any tree: a .c and its .h
#   are one; folders are those of the second level, such as bench/records.
# - In bench/ a folder includes from itself and from those before it (CLATTN_BENCH_FOLDERS).
# - No object calls what a layer above it defines.
# - What is the operating system's stays in src/os: nobody else includes its headers or asks for its functions.
# - The search engine knows nothing of attention; clattn-tune and clattn-bench nothing of each other, and
#   of the library, besides its public headers, only src/internal.h.
# - bench/judge, which judges the library, includes and calls nothing but its own and public headers; it asks
#   the library for the source of a function.
set -u
[ $# -eq 1 ] || { echo "usage: sh tests/layers.sh BUILD_DIR" >&2; exit 2; }
build=$1
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# folders FILE NAME: the words of set(NAME ...) in a CMakeLists.txt.
folders() {
    awk -v begin="^set\\($2[ )]?" '$0 ~ begin { on = 1; sub(begin, "") }
        on { line = $0; if (sub(/\).*/, "", line)) on = 2; print line; if (on == 2) exit }' "$1"
}

layers=$(folders src/CMakeLists.txt CLATTN_LAYERS)
[ -n "$layers" ] || { echo "src/CMakeLists.txt names no layers" >&2; exit 1; }
bench=$(folders bench/CMakeLists.txt CLATTN_BENCH_FOLDERS)
[ -n "$bench" ] || { echo "bench/CMakeLists.txt names no folders" >&2; exit 1; }

# Lines "FILE INCLUDED", both from the top of the tree; of includes by quotes alone. Tests and bindings may
# include what lies beside them, and what a build generates.
find src tuner bench tests bindings -name '*.[ch]' -exec grep -H '^ *# *include "' {} + |
    sed 's/^\([^:]*\):[^"]*"\([^"]*\)".*/\1 \2/' > "$work/written"
awk -v out="$work/includes" '
    function exists(path, line, got) {
        if (!(path in known)) { known[path] = (getline line < path) >= 0; close(path) }
        return known[path]
    }
    $2 ~ /\.(def|inc)$/ { next }
    { beside = $1; sub(/[^\/]*$/, "", beside); beside = beside $2; free = $1 ~ /^(tests|bindings)\// }
    free && exists(beside) { print $1, beside > out; next }
    exists("src/" $2) { print $1, "src/" $2 > out; next }
    exists($2) { print $1, $2 > out; next }
    free { next }
    { print $1 ": \"" $2 "\" does not name a folder of the tree"; bad = 1 }
    END { exit bad }' "$work/written"
bad=$?

awk -v layers="$layers" -v bench="$bench" '
    function number(list, into, name, count, n) {
        count = split(list, name, /[ \n]+/)
        for (n = 1; n <= count; n++) if (name[n] != "") into[name[n]] = n
    }
    BEGIN { number(layers, level); number(bench, place) }
    function layer_of(path, part) { split(path, part, "/"); return part[1] == "src" ? part[2] : part[1] }
    function room_of(path, part) { return split(path, part, "/") > 2 && part[1] == "bench" ? part[2] : "" }
    $1 ~ /^(tests|bindings)\// { next }
    {
        from = layer_of($1); to = layer_of($2)
        if ($1 ~ /^bench\/judge\// && $2 !~ /^bench\/judge\//) {
            print $1 " includes " $2 ": the judge shares no code with what it judges"; bad = 1
        }
        if (room_of($1) in place && room_of($2) in place && place[room_of($2)] > place[room_of($1)]) {
            print $1 " includes " $2 ", of a folder after its own"; bad = 1
        }
        if (to == "cl" || from == to || $1 == "src/internal.h" || (to == "os" && !(from in level))) next
        if (from == "mpi" && $2 == "src/base/structs.h") next # how public structs grow; nothing to link
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
if grep -rnE --include='*.[ch]' "^ *# *(include *<($system)\.h>|define +_[A-Z]+(_C)?_SOURCE)" src tuner bench | grep -v '^src/os/'; then
    echo "these are for src/os alone"
    bad=1
fi
# getenv() of Windows gives neither UTF-8 nor a text that stays.
if grep -rnw --include='*.c' 'getenv(' src bench tuner | grep -v '^src/os/'; then
    echo "ca_environment_value() is for this"
    bad=1
fi

# Of the judge, by symbols: what it does not define itself is libc's, but for the source of a function.
find "$build/bench/judge" -name '*.o' > "$work/judges"
[ -s "$work/judges" ] || { echo "there are no objects below $build/bench/judge" >&2; exit 1; }
xargs nm -A -u < "$work/judges" | grep -E ' U (ca_|clattn_|cl[A-Z])' | grep -v ' U clattn_function_source$' | sed 's/^.*\//  /' > "$work/judged"
if [ -s "$work/judged" ]; then
    echo "the judge calls the library or OpenCL:"
    cat "$work/judged"
    bad=1
fi

# circles: of lines "A B", those that lead back to where they begin.
circles() {
    awk '$1 != $2' | sort -u | tsort > /dev/null 2> "$work/rounds" && [ ! -s "$work/rounds" ] && return
    echo "these $1 include each other:"
    sed 's/^tsort: /  /; s/^  -:.*/  -/' "$work/rounds"
    bad=1
}
sed 's/\.[ch]\b//g' "$work/includes" > "$work/units"
circles files < "$work/units"
# Of folders the second level counts: a folder in one of those, such as src/problem/text, is a part of it.
sed -E 's#([a-z]+/[^/ ]+)/[^ ]+#\1#g; s#([a-z]+)/[^/ ]+\.[ch]\b#\1#g' "$work/includes" > "$work/folders"
circles folders < "$work/folders"

# What an object calls lies in its own layer or below, whatever its source includes.
find "$build/src/CMakeFiles" -name '*.o' -path '*/ca_*' > "$work/objects"
[ -s "$work/objects" ] || { echo "there are no objects below $build/src" >&2; exit 1; }
xargs nm -A < "$work/objects" 2> /dev/null | awk -v layers="$layers" -v out="$work/calls" '
    BEGIN { count = split(layers, name, /[ \n]+/); for (n = 1; n <= count; n++) if (name[n] != "") level[name[n]] = n }
    {
        layer = $0; sub(/:.*/, "", layer); sub(/.*\/ca_/, "", layer); sub(/\.dir\/.*/, "", layer)
        if (!(layer in level)) next # left in the build by an earlier version
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

# Variadic macros, which NVIDIA's compiler of OpenCL C refuses (doc/design/drivers.md), are for CPUs, and for what PoCL alone gets.
if grep -rn '^#define .*\.\.\.)' cl --include='*.h' --include='*.cl' | grep -v -e '^cl/cpu/' -e '^cl/bf16/' -e '^cl/common/builtins.h'; then
    echo "a kernel for GPUs has a variadic macro"
    bad=1
fi
# Processors without FMA have no instruction for fma(): kernels for CPUs say FMA(), but where results need one rounding.
if grep -rnE '\bfma\(' cl src/families --include='*.h' --include='*.cl' |
    grep -vE '^cl/(mma|gpu|bf16)/|^cl/(score/tanh|common/multiply_add|formats/quotients|elementwise/rotation)\.h|_(gpu|item)[a-z_]*\.cl'; then
    echo "a kernel for CPUs calls fma() (cl/common/multiply_add.h)"
    bad=1
fi
[ "$bad" = 0 ] && echo "$(echo $layers | wc -w) layers, $(wc -l < "$work/includes") includes, $(wc -l < "$work/calls") calls between layers: one direction"
exit "$bad"
