# SPDX-License-Identifier: Apache-2.0
"""The numbered programs of tests/examples that are in Python: each checks what it computes."""
import runpy
from pathlib import Path

import pytest


@pytest.mark.parametrize("file", sorted((Path(__file__).parents[3] / "tests" / "examples").glob("[0-9]*.py")), ids=lambda file: file.stem)
def test_an_example_runs(file):
    runpy.run_path(str(file), run_name="__main__")
