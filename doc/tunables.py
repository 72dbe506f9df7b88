# SPDX-License-Identifier: Apache-2.0
"""Tables of the tunables of kernel families, from src/families/NAME/*.def: doc/generate.py writes them into the pages of
doc/design/families."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = "doc/design/families"
TUNABLE = re.compile(r'TUNABLE\(\s*(\w+),\s*(\d+),\s*((?:"[^"]*"\s*)+),([^)]*)\)')


def families():
    """The names of all folders of families, of the programs beside them as well."""
    return sorted(folder.name for folder in (ROOT / "src/families").iterdir() if folder.is_dir())


def units(family):
    """{file of tunables: its units' words, none where a family has no units}, as the family's C files read these files."""
    found = {}
    for source in sorted((ROOT / "src/families" / family).glob("*.c")):
        file = unit = None
        for line in source.read_text(encoding="utf-8").split("\n"):
            if said := re.match(r'#define TUNABLES_DEF "(.*)"', line):
                file = said[1]
            elif said := re.match(r"#(?:define TUNABLES_UNIT UNIT_(\w+)|undef TUNABLES_UNIT)", line):
                unit = said[1] and said[1].lower()
            elif re.match(r'#include "families/(expand|table)\.h"', line):
                found.setdefault(file, []).extend([unit] if unit else [])
    return found


def tunables(file):
    """(name, meaning, candidates with the default in bold) of each tunable of a file."""
    for name, default, meaning, candidates in TUNABLE.findall((ROOT / "src" / file).read_text(encoding="utf-8")):
        values = [f"**{value}**" if value == default else value for value in re.findall(r"\d+", candidates)]
        yield name, "".join(re.findall('"([^"]*)"', meaning)), ", ".join(values)


def table(family):
    """A row for each tunable, a column for each file of tunables. Where a file has another meaning, the row says so."""
    files, rows = units(family), {}
    for file in files:
        for name, meaning, values in tunables(file):
            rows.setdefault(name, {})[file] = (meaning, values)
    heads = {file: ", ".join(f"`{unit}`" for unit in of) or "candidates" for file, of in files.items()}
    yield f"| `{family}` | what it is | " + " | ".join(heads.values()) + " |"
    yield "|---" * (2 + len(files)) + "|"
    for name, of in rows.items():
        first = next(iter(of.values()))[0]
        more = "; ".join(f"{heads[file]}: {meaning}" for file, (meaning, _) in of.items() if meaning != first)
        yield f"| `{name}` | {first}{f' ({more})' if more else ''} | " + " | ".join(of[file][1] if file in of else "-" for file in files) + " |"


def tables():
    """{page: {name of a table: what makes it}}: a page has the tables of the families that its first line names."""
    made = {}
    for page in sorted((ROOT / PAGES).glob("*.md")):
        title = page.read_text(encoding="utf-8").partition("\n")[0]
        named = [family for family in families() if re.search(rf"\b{family}\b", title) and any(tunables(file) for file in units(family))]
        made[f"{PAGES}/{page.name}"] = {f"tunables of {family}": lambda family=family: table(family) for family in named}
    return made


def complaints(texts):
    """Families that are on no page, or on several."""
    for family in families():
        of = [page for page, text in texts.items() if page.startswith(PAGES) and re.search(rf"\b{family}\b", text.partition("\n")[0])]
        if len(of) != 1:
            yield f"src/families/{family} is in the title of {' and '.join(of) or 'no page'} of {PAGES}"
