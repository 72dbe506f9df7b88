# SPDX-License-Identifier: Apache-2.0
"""A page of the Python package's docstrings, for the site. It reads the sources, so that nothing need be built or imported."""
import ast
import inspect
import re
import textwrap
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "bindings/python/clattn"
# The page's parts, and the modules that its names come from.
PARTS = (("Attention", ("attention", "double_backward", "indexer")), ("Plans and layers", ("plan", "multihead")),
         ("Functions of scores and masks", ("function",)), ("Block lists", ("blocks", "_types")), ("Caches", ("quantize",)),
         ("Dropout", ("dropout",)), ("Devices and tuning", ("context", "tuning", "__init__")), ("Exceptions", ("errors",)))
TORCH = ("torch", *sorted(file.stem for file in PACKAGE.glob("_torch_*.py")), "_transformers")
ROW = re.compile(r"(\w+(?:, \w+)*)  +(\S.*)$")


def names(module):
    """__all__ of a module's source."""
    for node in ast.parse((PACKAGE / module).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
    return []


def markdown(docstring):
    """Its rows of arguments are a table; the rest is as it stands."""
    made, row = [], False
    for line in inspect.cleandoc(docstring).split("\n"):
        found = ROW.match(line)
        if found:
            if not row:
                made += ["", "| argument | |", "|---|---|"]
            words = ", ".join(f"`{name}`" for name in found[1].split(", "))
            made.append(f"| {words} | {cell(found[2])} |")
        elif row and line.startswith("  "):
            made[-1] = f"{made[-1][:-2]} {cell(line.strip())} |"
        else:
            made += ["", line] if row and line else [line]
        row = bool(found) or (row and line.startswith("  "))
    return "\n".join(made)


def cell(text):
    return re.sub(r"([|<*])", r"\\\1", text)


def signature(name, function, prefix=""):
    """Names and defaults: types are in the text."""
    arguments = function.args
    for one in arguments.posonlyargs + arguments.args + arguments.kwonlyargs + [arguments.vararg, arguments.kwarg]:
        if one:
            one.annotation = None
    arguments.args = [one for one in arguments.args if one.arg not in ("self", "cls")]
    return "```python\n" + "\n    ".join(textwrap.wrap(f"{prefix}{name}({ast.unparse(arguments)})", 92, break_long_words=False)) + "\n```"


def entry(node, prefix):
    """A function, or a class with its methods."""
    doc = ast.get_docstring(node) or ""
    yield f"### {prefix}{node.name}"
    if isinstance(node, ast.FunctionDef):
        yield signature(node.name, node, prefix)
        yield markdown(doc)
        return
    members = [one for one in node.body if isinstance(one, ast.FunctionDef)]
    yield from (signature(node.name, one, prefix) for one in members if one.name == "__init__")
    yield markdown(doc)
    for one in members:
        text = ast.get_docstring(one)
        if text and not one.name.startswith("_"):
            yield f"#### {node.name}.{one.name}"
            if not any(isinstance(mark, ast.Name) and mark.id == "property" for mark in one.decorator_list):
                yield signature(one.name, one)
            yield markdown(text)


def entries(modules, wanted, prefix):
    for module in modules:
        for node in ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in wanted and ast.get_docstring(node):
                wanted.discard(node.name)
                yield from entry(node, prefix)


def page():
    wanted = set(names("__init__.py"))
    made = ["# Reference of the Python package", "What `help(clattn)` says, by task. [python.md](doc/guide/python.md) shows how it goes together."]
    for title, modules in PARTS:
        made += [f"## {title}", *entries(modules, wanted, "clattn.")]
    further = set(names("torch.py"))
    made += ["## PyTorch", *entries(TORCH, further, "clattn.torch.")]
    assert not wanted | further, f"no docstring, or no part of this page, has {', '.join(sorted(wanted | further))}"
    return "\n\n".join(made) + "\n"
