#!/bin/sh
# sh tests/exercises/run.sh [WORK [PATCH...]]: whether each exercise, a change that this tree should make easy, still
# applies to a clean copy of HEAD, changes no more files than it may, builds, and passes its tests.
#   WORK   a folder for the copies, by default build/exercises
#   PATCH  by default all of tests/exercises; the text before its first file has these lines:
#     most files: N
#     build: TARGET...
#     test: PROGRAM PATTERN           a program below tests/ of the build, and Criterion's filter
#     compute: FAMILY PROBLEM         any number: the family's result of the problem is compared with the judge's
# Prints for each patch its files, and fails at the first that does not pass.
set -eu
cd "$(dirname "$0")/../.."
work=${1:-build/exercises}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- tests/exercises/*.patch

lines_of() { sed -n "/^diff --git/q; s/^$1: //p" "$patch"; }

for patch; do
    name=$(basename "$patch" .patch)
    copy=$work/$name
    rm -rf "$copy"
    mkdir -p "$copy"
    git archive HEAD | tar -x -C "$copy"
    git apply --directory="$copy" --unsafe-paths "$patch" 2> /dev/null ||
        patch -s -p1 -d "$copy" < "$patch" || { echo "$name: the patch does not apply"; exit 1; }
    files=$(grep -c '^diff --git' "$patch")
    most=$(lines_of 'most files')
    echo "$name: $files files of at most $most"
    [ "$files" -le "$most" ] || exit 1
    cmake -S "$copy" -B "$copy/build" -G Ninja -DCMAKE_BUILD_TYPE=Release > "$copy/cmake.log"
    # shellcheck disable=SC2046 # a list of words
    cmake --build "$copy/build" --target $(lines_of build) > "$copy/build.log" ||
        { tail -n 30 "$copy/build.log"; exit 1; }
    lines_of test | while read -r program pattern; do
        "$copy/build/tests/$program" --filter "$pattern" -j1 > "$copy/test.log" 2>&1 ||
            { cat "$copy/test.log"; exit 1; }
        echo "$name: $pattern passes"
    done
    lines_of compute | while read -r family problem; do
        CLATTN_TEST_FAMILY=$family CLATTN_TEST_PROBLEM=$problem \
            "$copy/build/tests/clattn_tests" --filter sweep/one -j1 > "$copy/test.log" 2>&1 ||
            { cat "$copy/test.log"; echo "$name: $family $problem fails"; exit 1; }
        echo "$name: $family computes $problem"
    done
done
