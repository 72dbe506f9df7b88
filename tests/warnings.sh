#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/warnings.sh BUILD [JOBS]: lets the compiler of a configured build check, with its options, each source that was not
# compiled there, without making code: what it warns of does not depend on that. Fails if one has a warning.
set -eu
[ $# -ge 1 ] || { echo "usage: sh tests/warnings.sh BUILD [JOBS]" >&2; exit 2; }
python3 - "$1" "${2:-1}" << 'END'
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys

build, jobs = sys.argv[1], int(sys.argv[2])


def without_code(command):
    """The command without what it makes, and what it would make."""
    words = shlex.split(command)
    at = words.index("-o")
    made = words[at + 1]
    return [word for word in words[:at] + words[at + 2:] if word != "-c"] + ["-fsyntax-only"], made


compiled, left = set(), {}
with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
    for entry in json.load(file):
        words, made = without_code(entry["command"])
        if os.path.exists(os.path.join(entry["directory"], made)):
            compiled.add(entry["file"])
        elif os.path.exists(entry["file"]):  # else the build makes it: tables of texts
            left[entry["file"]] = words, entry["directory"]
left = [left[file] for file in left if file not in compiled]
with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    bad = sum(pool.map(lambda one: subprocess.run(one[0], cwd=one[1]).returncode != 0, left))
print(f"{len(compiled)} sources were compiled, {len(left)} more looked at, {bad} of them with warnings or errors")
sys.exit(bad != 0)
END
