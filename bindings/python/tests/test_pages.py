# SPDX-License-Identifier: Apache-2.0
"""The blocks of Python of doc/python.md, one after the other."""
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "doc" / "python.md"


def test_every_block_of_the_page_runs(capsys):
    pytest.importorskip("pyopencl")
    text, names = PAGE.read_text(), {}
    for found in re.finditer(r"```python\n(.*?)```", text, re.S):
        line = text[:found.start()].count("\n") + 1
        exec(compile("\n" * line + found[1], str(PAGE), "exec"), names)
    said = re.search(r"^    (k is of shape .*)$", text, re.M)[1]
    assert said in capsys.readouterr().out
