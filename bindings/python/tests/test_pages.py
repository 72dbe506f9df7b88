# SPDX-License-Identifier: Apache-2.0
"""The blocks of Python of pages in doc/guide, one after the other, and the first function of doc/guide/functions.md."""
import contextlib
import inspect
import io
import re
import sys
from pathlib import Path

import clattn
import numpy as np
import pytest
from clattn import _declarations
from clattn.plan import parse

PAGES = Path(__file__).parents[3] / "doc" / "guide"
sys.path.insert(0, str(PAGES.parent))
import commands  # noqa: E402
import subjects  # noqa: E402
import tunables  # noqa: E402
from check import blocks  # noqa: E402
from check import pages as tracked_pages  # noqa: E402
from outputs import OUTPUTS, difference  # noqa: E402

sys.path.pop(0)  # which has a site.py


def _run(page):
    """The names that its blocks leave; what they print is what the page says."""
    names, said = {}, None
    for line, kind, block in blocks(page.read_text(encoding="utf-8")):
        info, _, code = block.partition("\n")
        if kind == "code" and info == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile("\n" * line + code, str(page), "exec"), names)
            said = printed.getvalue()
        elif kind == "code" and info in OUTPUTS and said is not None:
            assert difference(info, code, said) is None, f"{page}:{line}, of {said}"
        elif kind == "code":
            said = None
    return names


def test_every_page_with_blocks_that_run_is_run_by_a_test():
    pages = {page.name for page in PAGES.glob("*.md") if re.search(r"^```python$", page.read_text(encoding="utf-8"), re.M)}
    assert pages == {"python.md", "python-functions.md", "python-plans.md", "serving.md",
                     "pytorch.md"}  # the last by frameworks/test_page.py


def test_every_block_of_the_page_runs():
    pytest.importorskip("pyopencl")
    _run(PAGES / "python.md")


def test_the_lines_of_readme_run():
    names = _run(PAGES / "../../README.md")
    q, places = names["q"], np.arange(512)
    s = q @ q.swapaxes(2, 3) / 8 - 0.1 * abs(places[:, None] - places)
    w = np.exp(s - s.max(-1, keepdims=True))
    np.testing.assert_allclose(names["o"], w / w.sum(-1, keepdims=True) @ q, atol=1e-5)


def test_figures_of_pages_are_those_of_files_of_results():
    """doc/check.py complains of a figure that is changed, and of one that no file has."""
    pages = {page: (PAGES / "../.." / page).read_text(encoding="utf-8") for page in tracked_pages()}
    assert not list(subjects.complaints(pages, blocks))
    page = "doc/results/pytorch.md"
    changed = dict(pages, **{page: pages[page].replace("9 us", "8 us") + "\nIt is 1.5 times as fast elsewhere.\n"})
    said = list(subjects.complaints(changed, blocks))
    assert len(said) == 3 and "The smallest call" in said[0] and '"32 us"' in said[1] and '"1.5"' in said[2]


def test_each_family_is_on_one_page_with_all_its_tunables():
    pages = {page: (PAGES / "../.." / page).read_text(encoding="utf-8") for page in tracked_pages()}
    assert not list(tunables.complaints(pages))
    said = list(tunables.complaints({page: text for page, text in pages.items() if not page.endswith("/split.md")}))
    assert len(said) == 2 and "split_cpu is in the title of no page" in said[0] and "split_gpu" in said[1]
    assert "| `BLOCK_N` | keys in a tile | 24, 48, 64, **96**, 192 | 64, 96, 128, **192**, 256, 384 |" in tunables.table("fused_cpu")
    for family in tunables.families():
        for file in tunables.units(family):
            source = re.sub(r"/\*.*?\*/", "", (PAGES / "../../src" / file).read_text(encoding="utf-8"), flags=re.S)
            found = list(tunables.tunables(file))
            assert len(found) == source.count("TUNABLE(") and all("**" in values for _, _, values in found), file


@pytest.mark.parametrize("command", [
    "sh tests/run.sh --no-such", "sh tests/no_such.sh", "sh tests/ggml.sh perff", "cmake --preset none", "cmake --build . --target none",
    "cmake -B build -DCLATTN_NO=1", "-DCLATTN_NO=1", "python -m clattn dokter", "pip install ./none"])
def test_a_command_that_names_what_is_not_there_is_found(command):
    assert list(commands.strangers("page", list(blocks(f"So: `{command}`."))))
    assert not list(commands.strangers("page", list(blocks("So: `sh tests/ggml.sh perf`, `cmake --build . --target site`."))))


@pytest.mark.parametrize("page", ["python-functions.md", "python-plans.md"])
def test_every_block_of_further_pages_runs(page):
    names = _run(PAGES / page)
    assert names["o"].shape == (2, 4, 5, 16) and np.isfinite(names["o"]).all()


def test_options_have_their_names_in_c_as_text_and_in_python():
    """Each row of doc/guide/options.md: members of clattn_problem, words that parse, arguments of attention()."""
    members = {name for name, *_ in _declarations.clattn_problem._fields_}
    arguments = set(inspect.signature(clattn.attention).parameters) | set(inspect.signature(clattn.attention_backward).parameters)
    rows = re.findall(r"^\| [^|]+ \| `([^|]+)` \| `([^|]+)` \| (.+) \|$", (PAGES / "options.md").read_text(encoding="utf-8"), re.M)
    assert len(rows) > 40
    for c, text, python in rows:
        assert set(re.findall(r"problem\.(\w+)", c)) <= members, c
        begin = "bwd" if re.search(r"\bd(bias|slopes|sinks|function|lse)\b", text) else "fwd"
        given = {re.match("[a-z]*", word)[0] for word in text.split() if re.fullmatch(r"[a-z]+\d[\d/]*", word)}
        words = [word for word in ("f32", "b2", "h4/2", "q64", "k64", "d32") if re.match("[a-z]*", word)[0] not in given]
        parse(" ".join([begin] + words + [text]))
        assert set(re.findall(r"(\w+)=", python)) <= arguments, python


def _stored_values(blocks, kind):
    """What blocks of q8_0 or q5_1 hold, in double precision."""
    blocks = blocks.reshape(*blocks.shape[:-1], -1, clattn.quantized_bytes(kind, 32))
    scale, offset = (blocks[..., at:at + 2].copy().view(np.float16).astype(np.float64) for at in (0, 2))
    if kind == "q8_0":
        values = scale * blocks[..., 2:].view(np.int8)
    else:
        fifth = np.unpackbits(blocks[..., 4:8], axis=-1, bitorder="little")
        codes = np.concatenate([blocks[..., 8:] & 15, blocks[..., 8:] >> 4], -1) + 16 * fifth
        values = scale * codes + offset
    return values.reshape(*blocks.shape[:-2], -1)


def test_keys_are_evicted_from_a_cache_and_quantized():
    names = _run(PAGES / "serving.md")
    length, sums, weights = (names[name] for name in ("length", "sums", "weights"))
    assert 16 <= length[0] < names["room"]
    assert sums.sum() == pytest.approx(8, rel=1e-5)  # a query of 8 heads
    exact = clattn.attention(names["q"], names["k"], names["v"])
    for name in ("o_of_floats", "o_of_parts"):  # the blocks after it
        assert np.abs(names[name] - exact).max() < 0.05, name
    k, v = (np.concatenate([_stored_values(older, kind), names[name][:, :, -names["recent"]:]], 2)
            for older, kind, name in zip(names["older"], names["kinds"], "kv"))  # a window of recent tokens is exact
    weighed = np.exp(names["q"].reshape(1, 2, 4, 64) @ k.swapaxes(2, 3) / 8)
    merged = (weighed / weighed.sum(-1, keepdims=True) @ v).reshape(exact.shape)
    assert np.abs(names["o_of_parts"] - merged).max() < 1e-5
    assert (sums[..., length[0]:] == 0).all() and (weights[..., length[0]:] == 0).all() and (weights[..., :length[0]] > 0).all()


def test_the_first_function_of_the_page_is_computed(tmp_path, monkeypatch):
    """Its source and its problem, as they stand in doc/guide/functions.md."""
    page = (PAGES / "functions.md").read_text(encoding="utf-8")
    source = re.search(r"```cl\n(.*?)```", page, re.S)[1]
    problem = re.search(r'clattn-bench run "(.*score=(\S+))"', page)
    (tmp_path / problem[2]).write_text(source)
    monkeypatch.chdir(tmp_path)
    q, k, v = np.random.default_rng(3).normal(size=(3, 4, 1024, 64)).astype(np.float32)
    o = np.empty_like(q)
    clattn.Plan(problem[1]).execute(q=q, k=k, v=v, o=o)
    places = np.arange(1024)
    s = q @ k.transpose(0, 2, 1) / 8 - 0.1 * abs(places[:, None] - places)
    w = np.exp(s - s.max(-1, keepdims=True))
    np.testing.assert_allclose(o, w / w.sum(-1, keepdims=True) @ v, atol=1e-5)
