#!/bin/sh
# sh tests/exercises/run.sh [NAME...]: how many files some additions take. Each tests/exercises/NAME.patch, by default all, is
# applied to a copy of the last commit; its files are counted, the copy is built, and the test that its head names is run.
#   Files: N      it may change this many files
#   Test: LINE    a command, run in the copy, in whose folder build clattn_tests is built
# Fails if a patch does not apply, changes more files, does not build or does not pass.
set -u
cd "$(dirname "$0")/../.." || exit 1
[ $# -gt 0 ] || set -- $(basename -s .patch tests/exercises/*.patch)
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0

# exercise NAME: says what is wrong, if anything is.
exercise() {
    patch=$PWD/tests/exercises/$1.patch
    copy=$folder/$1
    most=$(sed -n 's/^Files: //p' "$patch")
    files=$(grep -c '^diff --git ' "$patch")
    test=$(sed -n 's/^Test: //p' "$patch")
    if [ -z "$most" ] || [ -z "$test" ]; then
        echo "its head names no number of files or no test"
        return
    fi
    [ "$files" -le "$most" ] || echo "it changes $files files, more than $most"
    mkdir -p "$copy" && git archive HEAD | tar -x -C "$copy" || return
    (
        cd "$copy" && git init -q . && git apply "$patch" || { echo "it does not apply"; exit; }
        { cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release && ninja -C build clattn_tests; } > build.log 2>&1 ||
            { echo "it does not build:"; tail -n 20 build.log; exit; }
        sh -c "$test" > test.log 2>&1 || { echo "its test fails:"; tail -n 20 test.log; }
    )
}

for name; do
    wrong=$(exercise "$name")
    count=$(grep -c '^diff --git ' "tests/exercises/$name.patch")
    if [ -n "$wrong" ]; then
        failed=1
        echo "FAIL $name, $count files: $wrong"
    else
        echo "ok   $name: $count files"
    fi
done
exit "$failed"
