#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/spdx.sh [--check]: puts the licence's line (SPDX) at the head of every source that lacks it; with --check it
# only names these, and exits with 1 if there are any. Sources are tracked *.c *.h *.cl *.def *.inc *.py *.sh *.js *.css *.cmake
# and CMakeLists.txt, but for data.
set -u
cd "$(dirname "$0")/.." || exit 1
lacking=$(git ls-files '*.c' '*.h' '*.cl' '*.def' '*.inc' '*.py' '*.sh' '*.js' '*.css' '*.cmake' '*CMakeLists.txt' '.ci/run' |
    grep -v -e '^tests/data/' -e '^bench/results/' -e '^tests/fuzz/.*/' |
    while IFS= read -r file; do
        [ ! -f "$file" ] || head -n 2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2\.0' || echo "$file"
    done)
if [ "${1:-}" = --check ]; then
    [ -z "$lacking" ] || echo "$lacking" | sed 's/$/ lacks its SPDX line: sh tests\/spdx.sh adds it/'
    [ -z "$lacking" ]
    exit
fi
{ # read whole by the shell before it changes this file
for file in $lacking; do
    case $file in
    *.py | *.sh | *.cmake | *CMakeLists.txt | .ci/run) line='# SPDX-License-Identifier: Apache-2.0' ;;
    *.js) line='// SPDX-License-Identifier: Apache-2.0' ;;
    *) line='/* SPDX-License-Identifier: Apache-2.0 */' ;;
    esac
    after=0 # a script's interpreter comes first
    ! head -n 1 "$file" | grep -q '^#!' || after=1
    {
        head -n "$after" "$file"
        echo "$line"
        tail -n "+$((after + 1))" "$file"
    } > "$file.spdx" && cat "$file.spdx" > "$file" && rm "$file.spdx"
done
exit
}
