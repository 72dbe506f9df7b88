#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/manual.sh BUILD: whether each manual page names every command and every option that the
# help of its program names, and the library's every function; and whether groff, where there is one, reads it without a warning.
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

# The library's page names every public function, and groff reads it.
page=$build/doc/clattn.3
include=$(cd "$(dirname "$0")/../include/clattn" && pwd)
cat "$include"/*.h | grep -v CLATTN_MPI_API | tr '\n' ' ' | sed 's/CLATTN_API/\n&/g' |
    sed -n 's/^CLATTN_API [^(]*[ *]\(clattn_[a-z_0-9]*\)(.*/\1/p' | grep -v '^clattn_mpi_' | sort -u > "$build/doc/functions"
for function in $(cat "$build/doc/functions"); do
    shown "$page" | grep -q "$function(" || complain "$page does not name $function()"
done
if command -v groff > /dev/null; then
    groff -man -Tascii -ww -z "$page" > "$build/doc/groff.log" 2>&1 || complain "groff fails on $page"
    [ ! -s "$build/doc/groff.log" ] || complain "$(cat "$build/doc/groff.log")"
fi
echo "clattn.3: $(wc -l < "$build/doc/functions") functions"
exit "$bad"
