#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/paths.sh: whether the files that README.md, CONTRIBUTING.md, SECURITY.md and doc/ name are there. Checked are words in
# backquotes that begin with a folder of the tree; words with a capital such as NAME stand for a name
# of the reader's, and * for any. And whether the lines that tests/mutations.txt changes are there,
# and the list of environment variables is whole.
cd "$(dirname "$0")/.." || exit 1
bad=0
for page in README.md CONTRIBUTING.md SECURITY.md doc/*.md; do
    for path in $(grep -o '`[^`]*`' "$page" | tr -d '`' | tr ' ' '\n' |
        grep -E '^(include|src|cl|bench|tuner|tests|doc)/[A-Za-z0-9_./*-]+$' | sort -u); do
        case $path in
        *NAME* | *VERB* | tests/races/races) ;; # the last is a program
        *)
            # shellcheck disable=SC2086 # a pattern
            set -- $path
            [ -e "$1" ] || { echo "$page names $path, which is not there"; bad=1; }
            ;;
        esac
    done
done
while IFS= read -r line; do
    case $line in
    '' | '#'* | '+ '* | '= '* | '@ '* | '! '*) ;;
    '- '*) grep -qF -e "${line#- }" "$changed" ||
        { echo "tests/mutations.txt changes '${line#- }', which $changed lacks"; bad=1; } ;;
    *) changed=$line ;;
    esac
done < tests/mutations.txt
# The list of environment variables is the page's table, and nothing of clattn's is read that it lacks.
tr -d '\\' < src/base/variables.def | tr '\n' ' ' | sed 's/VARIABLE(/\n&/g' |
    sed -n 's/^VARIABLE([A-Z_]*, *"\([^"]*\)", *"\([^"]*\)", *"\(.*\)") *$/| `\1` | \2 | \3 |/p' | sed 's/" *"//g' |
    while IFS= read -r row; do
        grep -qxF -e "$row" doc/environment.md || echo "doc/environment.md lacks the row $row"
    done | grep . && bad=1
for name in $(grep -rhoE '(getenv\(|environ\.get\(|environ\[)"CLATTN_[A-Z_]+"' src tuner bench bindings/ggml bindings/python/clattn |
    sed 's/.*"\(.*\)"/\1/' | sort -u) $(sed -n 's/^| `\(CLATTN_[A-Z_]*\)`.*/\1/p' doc/environment.md); do
    grep -qF -e "\"$name\"" src/base/variables.def ||
        { echo "src/base/variables.def lacks $name"; bad=1; }
done
sh tests/spdx.sh --check || bad=1
[ "$bad" = 0 ] && echo "all files that the pages name are there, and all lines of mutations"
exit "$bad"
