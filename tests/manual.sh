#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/manual.sh BUILD: whether each manual page names every command and every option that the
# help of its program names, and is one that groff reads without a warning, where there is groff.
set -eu
build=$1
bad=0

complain() {
    echo "$1"
    bad=1
}

# What the page shows, without its formatting.
shown() {
    sed 's/\\-/-/g; s/\\(dq/"/g; s/\\&//g; s/\\e/\\/g' "$1"
}

words() {
    tr -cs '[:alpha:]' '\n' | LC_ALL=C sort -u
}

for program in bench/clattn-bench tuner/clattn-tune; do
    name=${program##*/}
    page=$build/doc/$name.1
    text=$(shown "$page")
    help=$("$build/$program" --help)
    commands=$(printf '%s\n' "$help" | awk '/^  [a-z]/ && $1 != "help" { print $1 }')
    for command in $commands; do
        printf '%s\n' "$text" | grep -qx ".SS $command" || complain "$page has no part on '$command'"
        help="$help
$("$build/$program" help "$command")"
    done
    for option in $(printf '%s\n' "$help" | grep -o -e '--[a-z][a-z0-9-]*' | sort -u); do
        printf '%s\n' "$text" | grep -q -e "$option" || complain "$page does not name $option"
    done
    # Word for word: all that the help says is on the page, whatever its lines.
    printf '%s\n' "$help" | words | grep -vx Usage > "$build/doc/help.words"
    lost=$(printf '%s\n' "$text" | words | LC_ALL=C comm -23 "$build/doc/help.words" -)
    [ -z "$lost" ] || complain "$page lacks words of the help: $(echo $lost)"
    if command -v groff > /dev/null; then
        groff -man -Tascii -ww -z "$page" > "$build/doc/groff.log" 2>&1 || complain "groff fails on $page"
        [ ! -s "$build/doc/groff.log" ] || complain "$(cat "$build/doc/groff.log")"
    fi
    echo "$name: $(echo $commands | wc -w) commands"
done
exit "$bad"
