# SPDX-License-Identifier: Apache-2.0
"""The package is for every Python from 3.9 on (pyproject.toml), whichever runs the tests."""
import ast
import inspect
import re
from pathlib import Path

import clattn
import pytest


@pytest.mark.parametrize("file", sorted(Path(clattn.__file__).parent.glob("*.py")), ids=lambda file: file.name)
def test_python_3_9_reads_it(file):
    ast.parse(file.read_text(), feature_version=(3, 9))


def _public():
    """(name, what is called, its text) of every public function, class and method."""
    for name in clattn.__all__:
        one = getattr(clattn, name)
        yield name, one, inspect.getdoc(one) or ""
        if inspect.isclass(one) and not issubclass(one, (Exception, tuple)):
            for inner, member in vars(one).items():
                if not inner.startswith("_") and not inspect.ismemberdescriptor(member):
                    yield f"{name}.{inner}", getattr(one, inner), inspect.getdoc(member) or ""


@pytest.mark.parametrize("name, one, text", [pytest.param(*one, id=one[0]) for one in _public()])
def test_help_has_every_argument_and_what_is_raised(name, one, text):
    assert text, f"{name} has no docstring"
    if not callable(one) or inspect.isclass(one) and issubclass(one, (Exception, tuple)):
        return
    arguments = [p.name for p in inspect.signature(one).parameters.values() if p.name not in ("self", "options")]
    if name == "attention_backward":  # attention() describes those that both have
        arguments = [p for p in arguments if p not in clattn._types.Options.__annotations__]
    lacking = [p for p in arguments if not re.search(rf"\b{p}\b", text)]
    assert not lacking, f"{name} does not describe {', '.join(lacking)}"
    assert not arguments or re.search(r"^Raises ", text, re.M), f"{name} does not say what it raises"


def _public_of_torch():
    """Likewise of clattn.torch, from its sources: what runs this need not have PyTorch."""
    folder = Path(clattn.__file__).parent
    files = [folder / "torch.py", *sorted(folder.glob("_torch_*.py")), folder / "_transformers.py"]
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    wanted = next(ast.literal_eval(node.value) for node in trees[0].body
                  if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__")
    found = {node.name: node for tree in trees for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    for name in wanted:
        yield name, found[name]
        if isinstance(found[name], ast.ClassDef):
            yield from ((f"{name}.{one.name}", one) for one in found[name].body
                        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"))


@pytest.mark.parametrize("name, node", [pytest.param(*one, id=one[0]) for one in _public_of_torch()])
def test_help_of_torch_has_every_argument_and_what_is_raised(name, node):
    text = ast.get_docstring(node)
    assert text, f"{name} has no docstring"
    call = node
    if isinstance(node, ast.ClassDef):
        call = next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    arguments = [one.arg for one in (call.args.posonlyargs + call.args.args + call.args.kwonlyargs if call else []) if one.arg != "self"]
    lacking = [one for one in arguments if not re.search(rf"\b{one}\b", text)]
    assert not lacking, f"{name} does not describe {', '.join(lacking)}"
    assert not arguments or re.search(r"^Raises ", text, re.M), f"{name} does not say what it raises"
