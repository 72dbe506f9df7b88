# SPDX-License-Identifier: Apache-2.0
"""python3 doc/site.py FOLDER [REFERENCE]: makes a static site of the pages in FOLDER/site, searchable and without anything from
elsewhere, with the API reference if its folder is given. It needs MkDocs and its theme Material, which Debian has as
mkdocs-material: pages stay plain Markdown, which forges show as well, and the search needs no server."""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import docstrings

ROOT = Path(__file__).resolve().parents[1]
PARTS = {"Guide": "doc/guide", "Results": "doc/results", "Design": "doc/design"}


def entries(folder):
    """The pages of a folder in the order in which its README.md names them; those of a folder within it are a group."""
    text, found = (ROOT / folder / "README.md").read_text(encoding="utf-8"), [f"{folder}/README.md"]
    groups = {}
    for name in dict.fromkeys(re.findall(r"\]\(((?:[a-z]+/)?[a-z0-9_-]+\.md)\)", text)):
        if not (ROOT / folder / name).exists():
            continue
        group = name.rpartition("/")[0]
        if group and group not in groups:
            groups[group] = []
            found.append({group.capitalize(): groups[group]})
        (groups[group] if group else found).append(f"{folder}/{name}")
    return found


def mkdocs():
    """A Python that has MkDocs with Material, this one or the distribution's, and MkDocs' version."""
    for python in (sys.executable, "/usr/bin/python3"):
        found = subprocess.run([python, "-c", "import importlib.metadata, mkdocs.utils as u; assert 'material' in u.get_theme_names(); "
                                "print(importlib.metadata.version('mkdocs'))"],
                               capture_output=True, text=True) if os.access(python, os.X_OK) else None
        if found and not found.returncode:
            return python, tuple(int(part) for part in found.stdout.split(".")[:2])
    return None, None


def main(arguments):
    if not 1 <= len(arguments) <= 2:
        sys.exit("usage: python3 doc/site.py FOLDER [REFERENCE]")
    python, version = mkdocs()
    if not python:
        print("skipped: the site, for there is no MkDocs with Material (sh tests/packages.sh site, or pip install mkdocs-material)")
        return 77
    folder = Path(arguments[0]).resolve()
    pages = folder / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    for pattern in ("*.md", "doc/**/*.md", "doc/**/*.svg", "bench/**/*.md", "bench/results/*.svg", "bench/results/*.png"):
        for path in ROOT.glob(pattern):
            to = pages / path.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".md":  # MkDocs takes one word behind a fence
                to.write_text(re.sub(r"^(```\w+) .*$", r"\1", path.read_text(encoding="utf-8"), flags=re.M), encoding="utf-8")
            else:
                shutil.copy(path, to)
    (pages / "python.md").write_text(docstrings.page(), encoding="utf-8")
    nav = [{"clattn": "README.md"}] + [{part: entries(path)} for part, path in PARTS.items()]
    reference = [{"Python": "python.md"}]
    if len(arguments) == 2 and Path(arguments[1]).is_dir():
        shutil.copytree(arguments[1], pages / "reference")
        reference = [{"C": "reference/index.html"}] + reference
    nav += [{"Reference": reference}, {"More": ["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]}]
    configuration = {
        "site_name": "clattn", "site_description": "Attention for every OpenCL device", "docs_dir": str(pages),
        "site_dir": str(folder / "site"), "use_directory_urls": False, "nav": nav, "plugins": ["search"],
        "theme": {"name": "material", "font": False, "features": ["navigation.tabs", "navigation.indexes", "toc.follow"]},
        "markdown_extensions": ["tables", "fenced_code", {"toc": {"permalink": True}}],
        "extra_css": ["site.css"], "copyright": "The clattn authors, Apache-2.0"}
    if version >= (1, 6):
        configuration["validation"] = {"omitted_files": "ignore", "links": {"anchors": "warn"}}
    # A long heading breaks, rather than make a phone's page wider; a large screen has room for what programs print.
    (pages / "site.css").write_text(".md-typeset :is(h1, h2, h3, h4) { overflow-wrap: anywhere; }\n.md-grid { max-width: 76rem; }\n",
                                    encoding="utf-8")
    (folder / "mkdocs.yml").write_text(json.dumps(configuration, indent=1), encoding="utf-8")  # JSON is YAML
    status = subprocess.run([python, "-m", "mkdocs", "build", "--strict", "--config-file",
                             folder / "mkdocs.yml"], env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}).returncode
    if not status:
        print(f"{sum(1 for _ in (folder / 'site').rglob('*.html'))} pages, {folder / 'site' / 'index.html'}")
    return status


sys.exit(main(sys.argv[1:]))
