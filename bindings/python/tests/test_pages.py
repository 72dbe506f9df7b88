# SPDX-License-Identifier: Apache-2.0
"""The blocks of Python of doc/python.md and doc/serving.md, one after the other."""
import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[3] / "doc"


def _run(page):
    """Its text, and the names that its blocks leave."""
    text, names = page.read_text(), {}
    for found in re.finditer(r"```python\n(.*?)```", text, re.S):
        line = text[:found.start()].count("\n") + 1
        exec(compile("\n" * line + found[1], str(page), "exec"), names)
    return text, names


def test_every_block_of_the_page_runs(capsys):
    pytest.importorskip("pyopencl")
    text, _ = _run(PAGES / "python.md")
    said = re.search(r"^    (k is of shape .*)$", text, re.M)[1]
    assert said in capsys.readouterr().out


def test_keys_are_evicted_from_a_cache():
    _, names = _run(PAGES / "serving.md")
    length, sums, weights = (names[name] for name in ("length", "sums", "weights"))
    assert 16 <= length[0] < names["room"]
    assert sums.sum() == pytest.approx(8, rel=1e-5)  # a query of 8 heads
    assert (sums[..., length[0]:] == 0).all() and (weights[..., length[0]:] == 0).all() and (weights[..., :length[0]] > 0).all()
