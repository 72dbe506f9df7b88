#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh doc/man.sh PROGRAM PAGE: makes a manual page of what the program's --help says, and that of its
# commands.
set -eu
program=$1
result=$2
name=$(basename "$program")
version=$("$program" --version)
help=$("$program" --help)

# The commands that --help names, a line each. Pages have no entry for "help" itself.
commands() {
    printf '%s\n' "$help" | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' | grep -vx help || true
}

# page LEVEL: turns help into a part of a page: usage, paragraphs, and lists of "  TERM  meaning" whose
# meanings go on in lines that begin further right.
page() {
    awk -v synopsis="$1" '
        function escape(text) {
            gsub(/\\/, "\\e", text)
            gsub(/-/, "\\-", text)
            gsub(/"/, "\\(dq", text)
            if (text ~ /^[.\047]/) text = "\\&" text
            return text
        }
        function paragraph() {
            if (listed || blank) print ".PP"
            listed = blank = 0
        }
        function item(line, at, term, meaning) {
            line = substr(line, 3)
            if (match(line, /^[0-9]+\. /)) at = RLENGTH
            else if (match(line, /   */)) at = column = RSTART + RLENGTH - 1
            else at = column > 0 && substr(line, column, 1) == " " ? column : length(line)
            term = substr(line, 1, at)
            meaning = substr(line, at + 1)
            sub(/ +$/, "", term)
            print ".TP\n.B " escape(term)
            print meaning == "" ? "\\&" : escape(meaning)
            listed = 1
            blank = 0
        }
        NR == 1 || (usage && /^       [^ ]/) {
            sub(/^(Usage:|      ) /, "")
            if (NR == 1 && synopsis != "") print synopsis
            print (usage ? ".br\n" : "") ".B " escape($0)
            usage = 1
            next
        }
        usage { usage = 0; print synopsis != "" ? ".SH DESCRIPTION" : ".PP" }
        /^$/ { blank = 1; column = 0; next }
        /^  [^ ]/ { item($0); next }
        /^   / && listed { sub(/^ +/, ""); print escape($0); next }
        /^Exit status:/ { listed = 1 }
        { paragraph(); print escape($0) }'
}

# In one piece: a page that is half made would pass for one that is up to date.
{
    printf '%s\n' "$help" | awk -v name="$name" -v version="$version" '
        /^Usage: / || /^  *clattn/ { next }
        {
            sub(/[:.].*| \(.*/, "")
            what = tolower(substr($0, 1, 1)) substr($0, 2)
            gsub(/-/, "\\-", name)
            printf ".TH %s 1 \"\" \"%s\" clattn\n.SH NAME\n%s \\- %s\n", toupper(name), version, name, what
            exit
        }'
    printf '%s\n' "$help" | page ".SH SYNOPSIS"
    named=$(commands)
    [ -z "$named" ] || echo .SH COMMANDS
    for command in $named; do
        echo ".SS $command"
        help=$("$program" help "$command") # assigned, so that a failure ends this
        printf '%s\n' "$help" | page ""
    done
} > "$result.part"
mv "$result.part" "$result"
