# SPDX-License-Identifier: Apache-2.0
"""The blocks of Python of doc/guide/python.md and doc/guide/serving.md, one after the other, and the first function of doc/guide/functions.md."""
import re
import textwrap
from pathlib import Path

import clattn
import numpy as np
import pytest

PAGES = Path(__file__).parents[3] / "doc" / "guide"


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


def test_the_first_function_of_the_page_is_computed(tmp_path, monkeypatch):
    """Its source and its problem, as they stand in doc/guide/functions.md."""
    page = (PAGES / "functions.md").read_text()
    source = re.search(r"\n\n((?:    .*\n)+)", page)[1]
    problem = re.search(r'clattn-bench run "(.*score=(\S+))"', page)
    (tmp_path / problem[2]).write_text(textwrap.dedent(source))
    monkeypatch.chdir(tmp_path)
    q, k, v = np.random.default_rng(3).normal(size=(3, 4, 1024, 64)).astype(np.float32)
    o = np.empty_like(q)
    clattn.Plan(problem[1]).execute(q=q, k=k, v=v, o=o)
    places = np.arange(1024)
    s = q @ k.transpose(0, 2, 1) / 8 - 0.1 * abs(places[:, None] - places)
    w = np.exp(s - s.max(-1, keepdims=True))
    np.testing.assert_allclose(o, w / w.sum(-1, keepdims=True) @ v, atol=1e-5)
