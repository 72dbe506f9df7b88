# SPDX-License-Identifier: Apache-2.0
"""The package is for every Python from 3.9 on (pyproject.toml), whichever runs the tests."""
import ast
from pathlib import Path

import clattn
import pytest


@pytest.mark.parametrize("file", sorted(Path(clattn.__file__).parent.glob("*.py")), ids=lambda file: file.name)
def test_python_3_9_reads_it(file):
    ast.parse(file.read_text(), feature_version=(3, 9))
