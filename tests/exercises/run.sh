#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/exercises/run.sh [--count] [PATCH...]: applies each patch of this folder, or those named, to a clean copy
# of the last commit, and says how many files it takes of the library, of judge and benchmark, and of the tests.
# Without --count it builds the targets and runs the programs that the head of the patch names. Fails where a patch
# does not apply, takes more files than its head allows, does not build or does not pass.
#
# The head of a patch, before its first diff, has these lines:
#     files: library 8, judge and benchmark 2, tests 2
#     build: targets
#     run: a program below build/tests with its arguments        (any number of such lines)
#     compute: FAMILY, PROBLEM        (any number) the family's result is compared with the judge's
set -eu
cd "$(dirname "$0")/../.."
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || { echo "skipped: this is no clone"; exit 77; }
count=0
[ "${1:-}" = --count ] && count=1 && shift
[ $# -gt 0 ] || set -- tests/exercises/*.patch
copy=$(mktemp -d "${TMPDIR:-/tmp}/clattn-exercise.XXXXXX")
trap 'rm -rf "$copy"' EXIT
trap 'exit 1' INT TERM
failed=0

of() { # of PATCH FOLDER...: files of these folders that the patch changes or adds
    patch=$1
    shift
    sed -n 's|^diff --git a/\([^ ]*\) .*|\1|p' "$patch" | grep -cE "^($(echo "$*" | tr ' ' '|'))/" || true
}

allowed() { # allowed PATCH WORDS: the number behind these words of the head
    sed -n "/^diff --git/q; s/^files:.*$2 \([0-9]*\).*/\1/p" "$1"
}

for patch in "$@"; do
    name=$(basename "$patch" .patch)
    library=$(of "$patch" include src cl) bench=$(of "$patch" bench) tests=$(of "$patch" tests)
    echo "$name: library $library, judge and benchmark $bench, tests $tests"
    if [ "$library" -gt "$(allowed "$patch" library)" ] || [ "$bench" -gt "$(allowed "$patch" benchmark)" ] ||
        [ "$tests" -gt "$(allowed "$patch" tests)" ]; then
        echo "$name takes more files than: $(sed -n 's/^files: //p' "$patch")" >&2
        failed=1
    fi
    rm -rf "$copy/tree"
    mkdir "$copy/tree"
    git archive HEAD | tar -x -C "$copy/tree"
    if ! (cd "$copy/tree" && git apply -) <"$patch"; then
        echo "$name does not apply" >&2
        failed=1
        continue
    fi
    [ $count = 1 ] && continue
    targets=$(sed -n '/^diff --git/q; s/^build: //p' "$patch")
    cmake -S "$copy/tree" -B "$copy/tree/build" -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
    # shellcheck disable=SC2086
    if ! ninja -C "$copy/tree/build" $targets >"$copy/log" 2>&1; then
        tail -n 30 "$copy/log" >&2
        echo "$name does not build" >&2
        failed=1
        continue
    fi
    sed -n '/^diff --git/q; s/^run: //p; s/^compute: /compute /p' "$patch" >"$copy/runs"
    while read -r program arguments; do
        unset CLATTN_TEST_FAMILY CLATTN_TEST_PROBLEM
        if [ "$program" = compute ]; then # a family and a problem, which the test reads in the environment
            CLATTN_TEST_FAMILY=${arguments%%, *} CLATTN_TEST_PROBLEM=${arguments#*, }
            export CLATTN_TEST_FAMILY CLATTN_TEST_PROBLEM
            program=clattn_tests arguments="--filter sweep/one -j1"
        fi
        # The arguments are words of a filter, not files.
        set -f
        # shellcheck disable=SC2086
        if ! "$copy/tree/build/tests/$program" $arguments >"$copy/log" 2>&1 </dev/null; then
            tail -n 30 "$copy/log" >&2
            echo "$name: $program $arguments fails ${CLATTN_TEST_FAMILY:-} ${CLATTN_TEST_PROBLEM:-}" >&2
            failed=1
        fi
        set +f
    done <"$copy/runs"
done
exit $failed
