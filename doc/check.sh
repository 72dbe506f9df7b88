#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh doc/check.sh [BUILD]: whether the pages (*.md) can be read. No sentence has more than 40 words, no line of prose more than
# 120 columns, no page more than 200 lines; no word is one that the glossary does without; every link and file is there;
# each kernel family is on a page; twelve questions of a newcomer are answered at most two links from README.md. With a build
# also whether what is made of the sources is as the sources say (doc/generate.py), and as --run.
# sh doc/check.sh --run BUILD: runs the commands of the pages that are marked so, and compares what they print
# (doc/outputs.py has the marks); and those of sentences and tables that end within seconds, with CLATTN_TEST_ALL=1 those of
# minutes as well. doc/commands.py says what runs the others: a command that nothing runs is a complaint.
# sh doc/check.sh --draw [SEED]: prints twenty sentences, to be read aloud to an engineer of the field.
# sh doc/check.sh --draw SEED comments: comments of sources instead.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 > /dev/null || { echo "skipped: there is no python3"; exit 77; }
case ${1:-} in
--*) exec python3 "$here/check.py" "$@" ;;
'') exec python3 "$here/check.py" ;;
esac
bad=0
python3 "$here/check.py" || bad=1
python3 "$here/generate.py" --check "$1" || bad=1
python3 "$here/check.py" --run "$1" || bad=1
exit "$bad"
