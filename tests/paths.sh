#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/paths.sh: whether the lines that tests/mutations.txt changes are there, the list of environment variables is whole,
# and sources name their licence. Files that pages name are looked for by doc/check.sh.
cd "$(dirname "$0")/.." || exit 1
bad=0
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
        grep -qxF -e "$row" doc/guide/environment.md || echo "doc/guide/environment.md lacks the row $row"
    done | grep . && bad=1
for name in $(grep -rhoE '(getenv\(|environ\.get\(|environ\[)"CLATTN_[A-Z_]+"' src tuner bench bindings/ggml bindings/python/clattn |
    sed 's/.*"\(.*\)"/\1/' | sort -u) $(sed -n 's/^| `\(CLATTN_[A-Z_]*\)`.*/\1/p' doc/guide/environment.md); do
    grep -qF -e "\"$name\"" src/base/variables.def ||
        { echo "src/base/variables.def lacks $name"; bad=1; }
done
sh tests/spdx.sh --check || bad=1
[ "$bad" = 0 ] && echo "all lines of mutations are there, and all variables"
exit "$bad"
