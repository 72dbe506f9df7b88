# SPDX-License-Identifier: Apache-2.0
"""python3 doc/check.py: whether the pages are ones that a person reads (sh doc/check.sh says more)."""
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import commands
import outputs
import subjects
import tunables

ROOT = Path(__file__).resolve().parents[1]
WORDS, COLUMNS, LINES = 40, 120, 200
# What a newcomer asks, and the page and the heading that answer it.
TASKS = {
    "run BERT's attention on my GPU": ("doc/guide/install.md", "Choose a device"),
    "which device and which kernels does a call take": ("doc/guide/concepts.md", "From a problem to a result"),
    "what does causal=br mean": ("doc/guide/options.md", "Causal masks and windows"),
    "which options work on which family": ("doc/guide/support.md", "Forward on CPUs"),
    "why is my first call slow": ("doc/guide/deploying.md", "The first call"),
    "what does this error mean": ("doc/guide/errors.md", "Statuses"),
    "how precise are results in bf16": ("doc/guide/numerics.md", "How precise results are"),
    "I come from PyTorch, FlashAttention, cuDNN or ONNX": ("doc/guide/coming.md", "PyTorch"),
    "how fast is it on a device like mine": ("doc/results/README.md", "Which page is about a device like mine"),
    "add an option with an operand": ("doc/design/adding.md", "An option"),
    "how does decoding divide its keys": ("doc/design/families/split.md", "Algorithm"),
    "why are gradients the same on every run": ("doc/design/decisions/no-atomics.md", "What we chose"),
}
# Names of families, tunables and people are one word each; so is what stands in backquotes.
CODE, LINK = commands.CODE, re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def pages():
    """Every page: the tracked ones, or all of an unpacked archive."""
    try:
        found = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, text=True, check=True,
                               capture_output=True).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        found = []
    if "README.md" not in found:
        found = [page.relative_to(ROOT).as_posix() for page in ROOT.rglob("*.md") if "build" not in page.relative_to(ROOT).parts]
    return sorted({page for page in found if page and (ROOT / page).exists()})


def blocks(text):
    """(line, kind, text) of what a page has: "code", "heading", "cell" or "prose". Code begins with what stands behind its
    fence, or with "indented"."""
    kept, begin, fence, code = [], 0, None, []

    def end():
        nonlocal kept
        if kept:
            yield begin, "prose", " ".join(kept)
        kept = []

    for number, line in enumerate(text.split("\n"), 1):
        if fence is not None:
            if line.strip().startswith("```"):
                yield fence, "code", "\n".join(code)
                fence = None
            else:
                code.append(line)
        elif line.strip().startswith("```"):
            yield from end()
            fence, code = number, [line.strip()[3:]]
        elif line.startswith("    ") and not kept:
            yield number, "code", "indented\n" + line
        elif not line.strip():
            yield from end()
        elif line.startswith("#"):
            yield from end()
            yield number, "heading", line.lstrip("# ")
        elif line.lstrip().startswith("|"):
            yield from end()
            for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")):
                yield number, "cell", cell.strip()
        else:
            if re.match(r" *([*-]|\d+\.) ", line):
                yield from end()
                line = re.sub(r"^ *([*-]|\d+\.) ", "", line)
            if not kept:
                begin = number
            kept.append(line.strip())
    yield from end()


def sentences(text, cell=False):
    """Those of a paragraph, or of a cell of a table, where a semicolon parts what is listed."""
    plain = LINK.sub(lambda link: "\u2060" + link[1], text).replace("<br>", " ")
    for sentence in re.split(r"(?<=[.!?])[)\"*]*\s+(?=[(\"*]*[A-Z`0-9\[\u2060]|clattn|ggml|[a-z]+\d*\b is )|(?<=:)\s+(?=[A-Z])" + (r"|; " if cell else ""), plain):
        if sentence.strip():
            yield sentence.strip().replace("\u2060", "")


def count(sentence):
    return sum(any(c.isalnum() for c in word) for word in CODE.sub("code", sentence).split())


def forbidden():
    """Words that the glossary does not want on pages, from the first column of its last table."""
    glossary = (ROOT / "doc/design/glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \|", glossary.split("## Words that pages do without")[1], re.M)[1:]
    return {word: re.compile(rf"\b{re.escape(word)}\b", re.I) for row in rows if set(row) - set("-: ") for word in row.split(", ")}


def anchors(text):
    """Of headings, as forges make them."""
    return {re.sub(r"[^\w\- ]", "", CODE.sub(lambda code: code[0].strip("`"), heading).lower()).strip().replace(" ", "-")
            for _, kind, heading in blocks(text) if kind == "heading"}


def complaints(texts):
    words = forbidden()
    links = {page: set() for page in texts}
    for page, text in texts.items():
        lines = text.rstrip("\n").split("\n")
        if len(lines) > LINES:
            yield f"{page}: {len(lines)} lines, {LINES} at most"
        in_code = False
        for number, line in enumerate(lines, 1):
            in_code ^= line.strip().startswith("```")
            if len(line) > COLUMNS and not in_code and not line.startswith(("|", "    ", "![")):
                yield f"{page}:{number}: {len(line)} columns, {COLUMNS} at most"
        of_commands = (commands.strangers, commands.untested) if page != "CHANGELOG.md" else ()
        for number, sentence in [*outputs.misplaced(blocks(text)), *(one for look in of_commands for one in look(page, blocks(text)))]:
            yield f"{page}:{number}: {sentence}"
        before = None
        for number, kind, block in blocks(text):
            if before == "code" and kind == "prose" and re.match(r"(?!clattn|ggml|llama\.cpp|whisper\.cpp)[a-z]", block):
                yield f"{page}:{number}: goes on with a sentence that a block of code interrupted: {block[:40]}..."
            before = kind
            if kind == "code":
                continue
            for target in (link[1] for link in LINK.findall(CODE.sub("", block) if kind != "heading" else "")):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                to = (ROOT / page).parent / path if path else ROOT / page
                if not to.exists():
                    yield f"{page}:{number}: {target} is not there"
                    continue
                name = str(to.resolve().relative_to(ROOT))
                if to.is_dir() and (to / "README.md").exists():
                    name += "/README.md"
                links[page].add(name)
                if anchor and name in texts and anchor not in anchors(texts[name]):
                    yield f"{page}:{number}: {name} has no heading #{anchor}"
            if kind == "heading":
                continue
            for sentence in sentences(block, kind == "cell"):
                if count(sentence) > WORDS:
                    yield f"{page}:{number}: {count(sentence)} words: {sentence[:70]}..."
            plain = CODE.sub("", block)
            if page != "doc/design/glossary.md":
                for word in (word for word, pattern in words.items() if pattern.search(plain)):
                    yield f"{page}:{number}: \"{word}\" (doc/design/glossary.md has a better word)"
        # Files in backquotes; words with a capital such as NAME stand for a name of the reader's, and * for any.
        for path in set(re.findall(r"(?:^|[\s`])((?:include|src|cl|bench|tuner|tests|doc|bindings)/[A-Za-z0-9_./*-]*[A-Za-z0-9*/])",
                                   "\n".join(code.strip("`").replace(" ", "\n") for code in CODE.findall(text)))):
            if not re.search(r"NAME|VERB|^tests/races/races$|^doc/[a-z.-]+$", path) and not any(ROOT.glob(path)):
                yield f"{page} names {path}, which is not there"
        for name in sorted(set(re.findall(r"`(?:bench/results/)?([\w-]+-20\d\d-\d\d-\d\d\.(?:json|txt|tsv))`", text))):
            if page != "CHANGELOG.md" and not (ROOT / "bench/results" / name).exists():
                yield f"{page} names {name}, which is not in bench/results"
    for status in re.findall(r"^    (CLATTN_[A-Z_]+) = [1-9]", (ROOT / "include/clattn/status.h").read_text(encoding="utf-8"), re.M):
        if f"| `{status}` |" not in texts.get("doc/guide/errors.md", ""):
            yield f"doc/guide/errors.md lacks {status}"
    yield from subjects.complaints(texts, blocks)
    yield from tunables.complaints(texts)
    near = {"README.md"}
    for _ in range(2):
        near |= {to for page in near for to in links.get(page, ())}
    for task, (page, heading) in TASKS.items():
        if page not in texts or heading not in {block for _, kind, block in blocks(texts[page]) if kind == "heading"}:
            yield f"\"{task}\": {page} has no heading \"{heading}\""
        elif page not in near:
            yield f"\"{task}\": {page} is more than two links from README.md"
    for page in texts:
        if page.startswith("doc/") and page not in near:
            yield f"{page} is more than two links from README.md"


def comments(*patterns):
    """Of tracked sources: (file, comment) of five words or more."""
    for path in subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, text=True, check=True, capture_output=True).stdout.split():
        for comment in re.findall(r"/\*+(.*?)\*/", (ROOT / path).read_text(encoding="utf-8"), re.S):
            text = " ".join(re.sub(r"^\s*\*", "", line).strip() for line in comment.split("\n")).strip()
            if len(text.split()) >= 5 and "SPDX" not in text:
                yield path, text[:400]


def draw(texts, seed, sources):
    """Twenty sentences of the pages, or of comments in src and in kernels twenty each, to be read aloud."""
    prose = [(page, sentence) for page, text in texts.items() if not page.startswith((".github", "tests/data")) and "made by `doc/generate.py`" not in text
             for _, kind, block in blocks(text) if kind == "prose" for sentence in sentences(block) if count(sentence) > 4]
    chosen = random.Random(seed)
    for found in [list(comments("src/*.c", "src/*.h")), list(comments("cl/*.h", "cl/*.cl", "src/families/*/*.cl"))] if sources else [prose]:
        for page, sentence in chosen.sample(found, 20):
            print(f"{page}: {sentence}\n")


def run(texts, build):
    """How many commands and problems of pages a build's programs refuse, and outputs are others than pages show."""
    shown = {page: list(blocks(text)) for page, text in texts.items()}
    wrong = list(commands.refused(shown, build))
    print("\n".join(wrong + [f"{len(wrong)} commands and problems that the programs would refuse"]))
    wrong += [None] * commands.pieces(shown, outputs.environment(build))
    if subprocess.run([Path(build) / "bench/clattn-bench", "devices"], capture_output=True).returncode:
        print("no commands of pages were run, for there is no OpenCL device")
        return len(wrong)
    return len(wrong) + outputs.run(shown, build) + commands.run(shown, build, outputs.environment(build))


def main(arguments):
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in pages()}
    if arguments[:1] == ["--draw"]:
        draw(texts, arguments[1] if arguments[1:] else "1", arguments[2:] == ["comments"])
        return 0
    if arguments[:1] == ["--run"] and len(arguments) == 2:
        return 1 if run(texts, arguments[1]) else 0
    if arguments:
        sys.exit("usage: python3 doc/check.py [--draw [SEED [comments]] | --run BUILD]")
    found = list(complaints(texts))
    print("\n".join(found + [f"{len(texts)} pages, {sum(text.count(chr(10)) for text in texts.values())} lines, "
                             f"{len(found)} complaints"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
