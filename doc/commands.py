# SPDX-License-Identifier: Apache-2.0
"""Commands that pages show in the midst of their sentences, in tables and indented: whether what they name is there, whether the
programs take them, and what they return. Those of seconds run in each check, those of minutes with CLATTN_TEST_ALL=1, and
ELSEWHERE says what runs the others. Blocks that say that they run are doc/outputs.py's."""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = re.compile(r"``[^`]+``|`[^`]*`")
NAMES = ("bench/clattn-bench", "tuner/clattn-tune")
# What a reader may try at once: it needs no file, no other library and no second device, and ends within seconds.
QUICK = re.compile(r"(clattn-bench (devices|plan [^|]*\"|verify \"|--help)|clattn-tune (list|show|--help)|"
                   r"sh tests/offline/tile_time\.sh|sh doc/check\.sh --draw SEED|python -m clattn doctor)")
# ... or within minutes; the words of FILLED stand in capitals.
LONG = re.compile(r"clattn-bench (run \"(?!.*\.cl)|verify (\"PROBLEM|--profile|tests/)|duel '|plan PROBLEM --family)|clattn-tune (--problem \"|--budget \d+ )|"
                  r"sh tests/layers\.sh BUILD|build/release/tests/clattn_tests|"
                  r"python3 doc/generate\.py build")
FILLED = {"PROBLEM": "fwd f32 h4 q128 d64", "FAMILY": "naive"}
# Other commands, and what runs them: a test, a script that a release needs (doc/design/releasing.md), or nobody, with the reason.
ELSEWHERE = tuple((re.compile(pattern), by) for pattern, by in (
    (r"sh (bench/quickstart|tests/run)\.sh", "tests/machines.sh"),
    (r"(sh tests/packages\.sh build( device)?( &&.*)?|cmake --preset release.*|cmake --build --preset release|sudo cmake --install \S+|"
     r"cmake (-B|--build) build/packages .*)$", "tests/machines.sh, tests/install/packages.sh and the test install"),
    (r"cmake --build \. --target (doc|site)$", "the tests doxygen and site"),
    (r"cmake .*build/ggml-backend|llama-bench ", "tests/ggml.sh"),
    (r"mpicc |mpirun ", "tests/mpi.sh"),
    (r"pip install |python3 -m venv |venv/bin/python |sh tests/packages\.sh (peers|site)", "nobody: it fetches from PyPI"),
    (r"sh (tests|bench|doc|packaging)/[\w/]+\.sh|python3 (bench|doc)/\w+\.py", "who releases: they test, measure or package"),
    (r"python -m clattn (tune|bench)", "bindings/python/tests"),
    (r"(\w+=\S+ )*clattn-bench run .*(--peers|--device all|--workload|--mpi)|clattn-bench run standard|CLATTN_DEVICE=Graphics ", "who measures: bench/results has what came of it"),
    (r"clattn-tune --budget 10m$", "tests/tuner, with smaller budgets"),
    (r"clattn-bench (run|verify) --family \"?\w+_gpu ", "nobody: it shows a fault of a GPU's driver"),
    (r"clattn-bench run \".*\.cl\"", "the block with that file on the same page"),
    (r"clattn-bench compare before\.json after\.json", "tests/bench"),
))
# Words in capitals stand for what a reader has.
PLACEHOLDER = re.compile(r"\b(PROBLEM|FILE|FOLDER|BUILD|DIR|NAME|FAMILY|OLD|NEW|PAGE|BEFORE|N|V|RANKS|HASH)\b|\.\.\.|[\[\]]")


def spans(blocks):
    """(line, command) of a page: what stands in backquotes, and indented lines, joined where they go on."""
    joined = ""
    for line, kind, block in blocks:
        if kind == "code":
            info, _, code = block.partition("\n")
            lines = code.replace("\\\n", " ").split("\n")
            if info == "indented":
                joined += code.strip().rstrip("\\") + " "
                lines = [] if code.endswith("\\") else [joined.strip()]
            if lines:
                joined = ""
            yield from ((line, one) for one in lines)
        else:
            yield from ((line, span.strip("`")) for span in CODE.findall(block))


def words_of(command):
    """Of a command in a shell, without comments; of each part that && and the like join."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        words = command.split()
    part = []
    for word in words + [";"]:
        if word in (";", "&&", "||", "|") or word.endswith(";"):
            while part and (re.match(r"[A-Z_]+=", part[0]) or part[0] == "sudo"):
                part.pop(0)
            if part:
                yield part
            part = []
        else:
            part.append(word)


def script_text(path):
    """Of a script, of what lies beside it and is named in it, and the names of what does."""
    text = path.read_text(encoding="utf-8")
    return text + " ".join(one.name for one in path.parent.iterdir()) + "".join(
        (path.parent / name).read_text(encoding="utf-8") for name in set(re.findall(r"\b(\w+\.(?:py|sh|awk|txt))\b", text))
        if (path.parent / name).is_file() and name != path.name)


def cmake_text():
    return "".join(path.read_text(encoding="utf-8") for pattern in ("CMakeLists.txt", "*/CMakeLists.txt", "*/*/CMakeLists.txt", "*/*.cmake", "CMakePresets.json")
                   for path in sorted(ROOT.glob(pattern)) if "build" not in path.relative_to(ROOT).parts)


def strangers(page, blocks, cmake=cmake_text()):
    """(line, sentence) of what commands name and is not there: scripts, their options and words, presets, targets and options of
    CMake."""
    for line, span in spans(blocks):
        for option in re.findall(r"-D(\w+)=", span) if re.match(r"-D|.*\bcmake ", span) else ():
            if not re.search(rf"\b{option}\b", cmake) and not option.startswith("DNNL"):
                yield line, f"CMake knows no {option}"
        for words in words_of(span):
            program, rest = words[0], words[1:]
            if program in ("sh", "python", "python3") and rest and re.fullmatch(r"[\w./-]+\.(sh|py)", rest[0]):
                path = ROOT / rest[0]
                if not path.is_file():
                    yield line, f"there is no {rest[0]}"
                    continue
                text = script_text(path)
                for word in rest[1:]:
                    known = word.split("=")[0]
                    if re.fullmatch(r"--?[a-z][\w-]*|[a-z][a-z_-]+", known) and (known == word or known[0] == "-") and not re.search(rf"(?<![\w-]){re.escape(known)}(?!\w)", text):
                        yield line, f"{rest[0]} does not take {word}"
            elif program in ("python", "python3") and rest[:2] == ["-m", "clattn"]:
                text = (ROOT / "bindings/python/clattn/__main__.py").read_text(encoding="utf-8")
                if len(rest) > 2 and not re.search(rf"\b{rest[2]}\b", text):
                    yield line, f"python -m clattn has no {rest[2]}"
            elif program == "cmake":
                for option, value in zip(rest, rest[1:]):
                    if option == "--preset" and f'"name": "{value}"' not in cmake:
                        yield line, f"there is no preset {value}"
                    if option == "--target" and not re.search(rf"add_(custom_target|executable|library)\({value}\b", cmake):
                        yield line, f"there is no target {value}"
            elif program == "pip" and rest[:1] == ["install"]:
                for word in rest[1:]:
                    if word.startswith("./") and not (ROOT / word).exists():
                        yield line, f"there is no {word}"


def refused(pages, build):
    """What is wrong in commands and problems that pages, {name: blocks}, show: a verb or an option that a program has not, a text
    that does not parse."""
    helps, problems, verbs, commands = {}, {}, {}, 0
    for program in NAMES:
        name = program.split("/")[1]
        helps[name, ""] = subprocess.run([Path(build) / program, "--help"], capture_output=True, text=True, check=True).stdout
        verbs[name] = set(re.findall(r"^  ([a-z]+) ", helps[name, ""], re.M)) - {"help"}
        for verb in verbs[name]:
            helps[name, verb] = subprocess.run([Path(build) / program, "help", verb], capture_output=True, text=True, check=True).stdout
    for page, blocks in pages.items():
        if page == "CHANGELOG.md":
            continue
        for line, span in spans(blocks):
            for words in words_of(span):
                if words[0] == "!":
                    continue  # a refusal is what it shows
                begin = next((n for n, word in enumerate(words) if word in verbs), None)
                if begin is not None:
                    commands += 1
                    program, rest = words[begin], words[begin + 1:]
                    verb = rest[0] if rest and rest[0] in verbs[program] else ""
                    if rest and program == "clattn-bench" and not verb and re.fullmatch("[a-z]+", rest[0]) and rest[0] != "help":
                        yield f"{page}:{line}: {program} has no command {rest[0]}"
                    for option in (word.split("=")[0] for word in rest if re.fullmatch(r"--[a-z][a-z-]*(=.*)?", word)):
                        if option not in helps[program, verb] + helps[program, ""]:
                            yield f"{page}:{line}: {program} {verb} has no option {option}"
                for one in words if begin is not None else [span]:
                    if re.match(r"(fwd|bwd2?|proj|merge|append) (f32|f16|bf16) .*\d", one) and not re.search(r"\.\.\.|\.cl\b|:[0-9a-f]{16}|, |NAME|[<>;(]", one):
                        problems.setdefault(one.split("   ")[0], f"{page}:{line}")
    print(f"{commands} commands and {len(problems)} problems of pages looked at")
    program = Path(build) / "doc/clattn-support"
    if program.exists():
        for said in subprocess.run([program, "--parse", *problems], capture_output=True, text=True).stdout.splitlines():
            yield f"{problems[said.split(chr(39))[1]]}: {said}"


def is_run(command):
    """\"quick\" if it runs in each check, \"long\" if where CLATTN_TEST_ALL=1, \"\" if not here."""
    quick = (QUICK.fullmatch(command) or (QUICK.match(command) and command.endswith('"'))) and not (PLACEHOLDER.search(command) and "--draw" not in command)
    return "quick" if quick else "long" if LONG.match(command) else ""


def untested(page, blocks):
    """(line, sentence) of commands that nothing runs. In a sentence a program's name may stand with one word alone."""
    blocks = list(blocks)
    at_once = {code for _, kind, block in blocks if kind == "code" for info, _, code in [block.partition("\n")] if info.endswith(" run")}
    for line, span in spans(blocks):
        command = span.split("   #")[0].strip()
        if not re.match(r"([A-Z_]+=\S+ )*(sudo )?(sh \w+/|cmake -|mpicc |mpirun |pip install |(venv/bin/)?python3? |llama-bench -|clattn-bench (\w+ )*[\"'-]|clattn-tune -|build/release/)", command):
            continue
        if is_run(command) or any(command in code for code in at_once) or any(pattern.match(command) for pattern, _ in ELSEWHERE):
            continue
        if PLACEHOLDER.search(command) or re.fullmatch(r"clattn-(bench|tune) (\w+ )?(--\w+ ?)+", command):
            continue  # of a sentence about the option
        yield line, f"nothing runs \"{command}\": LONG or ELSEWHERE in doc/commands.py"


# What a reader of a piece of C has: its names come from the text around it.
PIECE = """#include <clattn/clattn.h>
%s
void piece(clattn_context *context, clattn_problem problem, cl_command_queue queue, clattn_forward_tensors tensors, %s);
void piece(clattn_context *context, clattn_problem problem, cl_command_queue queue, clattn_forward_tensors tensors, %s)
{
    cl_event done;
    char why[200];
    int64_t number_of_the_batch = 1;
    (void)context, (void)problem, (void)queue, (void)tensors, (void)done, (void)why, (void)number_of_the_batch;
%s
}
"""
RANKS = ("#include <clattn/mpi.h>", "clattn_mpi_plan *plan, int rank, clattn_problem whole, clattn_mpi_shard shard, clattn_mpi_options options")


def pieces(pages, environment):
    """Compiles pieces of C that the guide shows. Returns how many a compiler refuses, and says which."""
    bad = tried = 0
    for page, blocks in pages.items():
        for line, kind, block in blocks:
            info, _, code = block.partition("\n")
            if kind != "code" or info != "c" or not page.startswith("doc/guide/"):
                continue
            compiler = "mpicc" if "clattn_mpi" in code else "cc"
            if not shutil.which(compiler):
                print(f"{page}:{line}: not compiled, for there is no {compiler}")
                continue
            header, further = RANKS if compiler == "mpicc" else ("", "int unused")

            def compiled(text):
                return subprocess.run([compiler, "-std=c11", "-fsyntax-only", "-Werror", "-DCL_TARGET_OPENCL_VERSION=120",
                                       f"-I{ROOT / 'include'}", "-x", "c", "-"], input=text, text=True, env=environment,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

            if compiled("#include <CL/cl.h>\n").returncode:
                print(f"{page}:{line}: not compiled, for {compiler} finds no OpenCL headers by itself")
                continue
            said = compiled(PIECE % (header, further, further, code))
            tried += 1
            if said.returncode:
                bad += 1
                print(f"{page}:{line}: a compiler refuses\n{code}\n{said.stdout[-1000:]}")
    print(f"{tried} pieces of C were compiled, {bad} refused")
    return bad


def run(pages, build, environment):
    """Runs what a reader may try at once. Returns how many commands fail, and says which."""
    tried, bad, left_out, package = {}, 0, 0, Path(build).resolve() / "bindings/python"
    environment = dict(environment, PYTHONPATH=str(package))
    python = next((one for one in ("/usr/bin/python3", sys.executable) if os.access(one, os.X_OK) and
                   not subprocess.run([one, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode), None)
    with tempfile.TemporaryDirectory() as folder:
        for page, blocks in pages.items():
            for line, span in spans(blocks) if page != "CHANGELOG.md" else ():
                command = span.split("   #")[0].strip()
                how = is_run(command)
                if command in tried or how != "quick" and not (how and os.environ.get("CLATTN_TEST_ALL") == "1"):
                    continue
                if command.startswith("python ") and not (python and package.is_dir()):
                    continue
                at = folder if how == "quick" and not command.startswith("sh ") else ROOT
                filled = re.sub("^python ", f"{python} ", command).replace("build/release", str(Path(build).resolve()))
                for word, value in dict(FILLED, BUILD=str(Path(build).resolve())).items():
                    filled = re.sub(rf"(['\"]?)\b{word}\b\1", shlex.quote(value), filled)
                own = dict(environment, CLATTN_CACHE_DIR=folder + "/cache")
                if how == "long":
                    own.pop("POCL_EXTRA_BUILD_FLAGS", None)  # these run longer than their kernels take to compile
                tried[command] = subprocess.run(["sh", "-c", filled], cwd=at, env=own,
                                                text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300 if how == "quick" else 3600)
                if tried[command].returncode and "--family" in command and "CLATTN_UNSUPPORTED" in tried[command].stdout:
                    left_out += 1
                    print(f"{page}:{line}: not run, for this device lacks what the forced family needs: {command}")
                elif tried[command].returncode:
                    bad += 1
                    print(f"{page}:{line}: status {tried[command].returncode} of {command}\n{tried[command].stdout[-1000:]}")
    print(f"{len(tried) - left_out} commands in sentences and tables ran, {bad} failed")
    return bad
