# SPDX-License-Identifier: Apache-2.0
"""python -m clattn doctor|bench|tune: what there is and what is missing; the programs of the package."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

USAGE = """usage: python -m clattn doctor          what there is, and what to install where something is missing
       python -m clattn bench ARGUMENT...  clattn-bench: verify and measure (bench --help)
       python -m clattn tune ARGUMENT...   clattn-tune: find the fastest kernels (tune --help)"""


def program(name: str) -> str | None:
    beside = Path(__file__).parent / (name + ".exe" if sys.platform == "win32" else name)
    return str(beside) if os.access(beside, os.X_OK) else shutil.which(name)


def pass_through(name: str, arguments: list[str]) -> int:
    path = program(name)
    if path is None:
        print(f"{name} is neither in the package nor in PATH: build clattn with it, or install clattn-tools", file=sys.stderr)
        return 1
    return subprocess.run([path, *arguments]).returncode


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["doctor"] and len(arguments) == 1:
        from .doctor import doctor

        return doctor()
    if arguments[:1] in (["bench"], ["tune"]):
        return pass_through("clattn-" + arguments[0], arguments[1:])
    print(USAGE, file=sys.stderr if arguments != ["--help"] else sys.stdout)
    return 0 if arguments == ["--help"] else 2


def run(arguments: list[str]) -> int:
    """main(), whose reader may go away: what is left to say is dropped then."""
    try:
        status = main(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # which Python flushes once more when it ends
        return 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
