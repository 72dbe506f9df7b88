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
