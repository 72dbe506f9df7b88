#!/bin/sh
# sh tests/paths.sh: whether the files that README.md and doc/ name are there. Checked are words in
# backquotes that begin with a folder of the tree; words with a capital such as NAME stand for a name
# of the reader's, and * for any. And whether the lines that tests/mutations.txt changes are there.
cd "$(dirname "$0")/.." || exit 1
bad=0
for page in README.md doc/*.md; do
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
[ "$bad" = 0 ] && echo "all files that the pages name are there, and all lines of mutations"
exit "$bad"
