# SPDX-License-Identifier: Apache-2.0
"""What pages show of programs, and whether it is so. The first line of a block says what the block is:

    ```sh run                       commands: doc/check.sh runs them with a build's programs, in a folder and caches of the page's own
    ```c run                        a program: tests/install/use.sh builds it with the installed library, and runs it
    ```python                       bindings/python/tests/test_pages.py runs those of a page one after the other
    ```text output                  what the block before it prints, line by line; "..." stands for anything in a line, and alone
                                    in a line for any lines
    ```text output, other numbers   likewise, but each number stands for any

Any other word names what is shown and not run. What is indented is a command that is not run, and one that the programs
must know (doc/check.py)."""
import os
import re
import subprocess
import tempfile
from pathlib import Path

OUTPUTS = ("text output", "text output, other numbers")
RUN = ("sh run", "c run", "python")
SHOWN = ("sh", "c", "text", "cl", "python shown")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
# What an indented line may begin with, behind variables that it sets.
COMMAND = re.compile(r"(?:[A-Z_]+=\S* )*(?:sh|cd|cmake|export|mkdir|echo|cc|mpicc|mpirun|pip|(?:venv/bin/)?python3?|sudo|git|"
                     r"llama-bench|clattn-bench|clattn-tune|build/release/\S+) ?")


def rows(text, other_numbers):
    """Lines as they are compared: blanks count as one, and numbers not at all if others may stand there."""
    lines = [" ".join(line.split()) for line in text.strip("\n").split("\n")]
    return [NUMBER.sub("0", line) for line in lines] if other_numbers else lines


def difference(info, shown, said):
    """How what was said differs from what a page shows of it, in a sentence; None if it does not."""
    got, gap = rows(said, info != OUTPUTS[0]), False
    at, page = 0, rows(shown, info != OUTPUTS[0])
    for row in page:
        if row == "...":
            gap = True
            continue
        pattern = re.compile(".*".join(map(re.escape, re.split(r" ?\.\.\. ?", row))))
        found = next((n for n in range(at, len(got) if gap else min(at + 1, len(got))) if pattern.fullmatch(got[n])), None)
        if found is None:
            return f'nothing prints "{row}"'
        at, gap = found + 1, False
    return None if gap or at == len(got) else f'the page lacks "{got[at]}"'


def misplaced(blocks):
    """(line, sentence) of blocks of code that do not say what they are, and of outputs of nothing that runs."""
    ran, continued = False, False
    for line, kind, block in blocks:
        if kind != "code":
            continue
        info, _, code = block.partition("\n")
        if info == "indented":
            if not continued and not COMMAND.match(code.strip()):
                yield line, f"\"{code.strip()[:40]}\" is indented and no command: a fence says what it is (doc/outputs.py)"
            continued = code.endswith("\\")
        elif info not in OUTPUTS + RUN + SHOWN:
            yield line, f"a block of \"{info}\": doc/outputs.py has the words for what it is"
        elif info in OUTPUTS and not ran:
            yield line, "an output behind nothing that runs"
        ran = info in RUN or (ran and info in OUTPUTS + ("indented",))


def environment(build):
    """In which commands of pages run: a build's programs come first."""
    programs = [str(Path(build).resolve() / part) for part in ("bench", "tuner", "tests/examples")]
    # PoCL compiles without optimising, in a fifth of the time, as tests/support/unoptimised.h has it.
    made = dict({"POCL_EXTRA_BUILD_FLAGS": "-cl-opt-disable -Dalways_inline="}, **os.environ)
    made.update(PATH=":".join(programs + [os.environ["PATH"]]), ROOT=str(Path(__file__).resolve().parents[1]), COLUMNS="120")
    return made


def run(pages, build):
    """Runs the commands of pages, {name: blocks}, with a build's programs, and compares. Returns how many differ, and says which."""
    bad = ran = compared = 0
    for page, blocks in pages.items():
        said = None
        with tempfile.TemporaryDirectory() as folder:
            own = dict(environment(build), CLATTN_CACHE_DIR=folder + "/cache")
            for line, kind, block in blocks:
                info, _, code = block.partition("\n")
                if kind != "code":
                    continue
                if info == "sh run":
                    ran += 1
                    result = subprocess.run(["sh", "-e", "-c", code], cwd=folder, env=own, text=True, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, timeout=600)
                    said = result.stdout
                    if result.returncode:
                        bad += 1
                        print(f"{page}:{line}: status {result.returncode} of\n{code}\n{said[-2000:]}")
                elif info in OUTPUTS and said is not None:
                    compared += 1
                    differs = difference(info, code, said)
                    if differs:
                        bad += 1
                        print(f"{page}:{line}: {differs}, but\n{said[-2000:]}")
                elif info in RUN:
                    said = None  # other tests run and compare these
    print(f"{ran} blocks of commands ran and {compared} outputs were compared, {bad} not as their pages say")
    return bad
