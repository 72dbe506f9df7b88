# SPDX-License-Identifier: Apache-2.0
"""The blocks of Python of doc/guide/pytorch.md, one after the other."""
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[4] / "doc" / "guide" / "pytorch.md"


def test_every_block_of_the_page_runs():
    pytest.importorskip("transformers")
    names = {}
    text = PAGE.read_text()
    for found in re.finditer(r"```python\n(.*?)```", text, re.S):
        exec(compile("\n" * (text[:found.start()].count("\n") + 1) + found[1], str(PAGE), "exec"), names)
    assert names["x"].grad is not None and names["o"].shape == (2, 4, 24, 16)
