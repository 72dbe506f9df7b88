#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/offline/variants.sh [BUILD]: asks for each line of bench/gpu/variants-*.txt, "PROBLEM | FAMILY NAME=value ...",
# whether an H100 would take it, by its profile: a text that is no problem, or a tunable that is no more, would else be
# found when a GPU is there for minutes. Prints the lines that it would refuse. sh tests/offline.sh --variants compiles them.
set -u
cd "$(dirname "$0")/../.." || exit 1
cases=${1:-build/release}/tests/offline/offline_cases
[ -x "$cases" ] || { echo "skipped: no $cases" >&2; exit 77; }
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cat bench/gpu/variants-*.txt | "$cases" "$folder" bench/profiles 0 1 variants
