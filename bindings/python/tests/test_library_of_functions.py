# SPDX-License-Identifier: Apache-2.0
"""The functions that come with the library, each beside a formula of the publication that it is from, in NumPy and double precision.
No formula here is read from a function's source, which elsewhere is what tests interpret."""
import functools
from pathlib import Path

import clattn
import numpy as np
import pytest
from conftest import reference

SOURCES = Path(__file__).parents[3] / "cl" / "functions"


# ---- score functions: what becomes of scores s of (batch, heads, queries, keys) ---------------------------------------------

def alibi(s, slopes):
    """Press et al., section 3: behind each query's row of scores m * [-(i - 1), ..., -2, -1, 0]."""
    queries, keys = s.shape[-2:]
    steps = np.array([[-float(i - j) for j in range(keys)] for i in range(queries)])
    return s + slopes[:, None, None] * steps


def softcap(s, cap=50.0):
    return cap * np.tanh(s / cap)


def temperature(s, temperature):
    return np.einsum("bhij,h->bhij", s, temperature)


def bucket_of(position, two_sided, buckets=32, furthest=128):
    """The bucket of key position - query position, as T5's code has it (mesh_tensorflow, _relative_position_bucket)."""
    bucket, n = 0, -position
    if two_sided:
        buckets //= 2
        bucket, n = (buckets, -n) if n < 0 else (0, n)
    n = max(n, 0)
    exact = buckets // 2
    if n < exact:
        return bucket + n
    return bucket + min(buckets - 1, exact + int(np.log(n / exact) / np.log(furthest / exact) * (buckets - exact) + 1e-9))


def t5(s, table, two_sided=True):
    queries, keys = s.shape[-2:]
    of_pair = np.array([[bucket_of(j - i, two_sided) for j in range(keys)] for i in range(queries)])
    return s + table[:, of_pair]


def t5_decoder(s, table):
    return t5(s, table, two_sided=False)


def swin(s, table, width=7):
    """relative_position_index of Swin's WindowAttention: coordinates of tokens, their differences, shifted to begin with 0."""
    coordinates = np.stack(np.meshgrid(np.arange(width), np.arange(width), indexing="ij")).reshape(2, -1)
    apart = coordinates[:, :, None] - coordinates[:, None, :] + width - 1
    index = apart[0] * (2 * width - 1) + apart[1]
    return s + table.reshape(len(table), -1)[:, index]


def sam(s, rows, columns, width):
    """add_decomposed_rel_pos of Segment Anything, from rel_h and rel_w on."""
    b, h, queries, keys = s.shape
    height = keys // width
    grid = s.reshape(b, h, queries, height, width)
    return (grid + rows[..., :height, None] + columns[..., None, :width]).reshape(s.shape)


# ---- mask functions: which keys queries see -----------------------------------------------------------------------------------

def sliding_window(shape, window=512, globals=0):
    visible = np.zeros(shape[-2:], bool)
    for i, row in enumerate(visible):
        row[:globals] = True
        row[max(0, i - window + 1):] = True
        row[i + 1:] = False
    return visible


def dilated(shape, window=128, dilation=2):
    visible = np.zeros(shape[-2:], bool)
    for i, row in enumerate(visible):
        seen = i - dilation * np.arange(window)
        row[seen[(seen >= 0) & (seen < len(row))]] = True
    return visible


def neighborhood(shape, width, height, radius):
    """NATTEN: along each axis a window of 2 radius + 1 tokens, which begins as near to the query as the borders allow."""
    def along(length):
        visible = np.zeros((length, length), bool)
        for i, row in enumerate(visible):
            begin = min(max(i - radius, 0), length - 2 * radius - 1)
            row[begin:begin + 2 * radius + 1] = True
        return visible
    return np.einsum("ab,cd->acbd", along(height), along(width)).reshape(width * height, width * height)


def prefix_lm(shape, prefix):
    visible = np.stack([np.tril(np.ones(shape[-2:], bool))] * len(prefix))
    for batch, length in zip(visible, prefix):
        batch[:, :length] = True
    return visible[:, None]


def documents(shape, document, causal=1):
    visible = np.zeros((shape[0], *shape[-2:]), bool)
    for row, batch in zip(document, visible):
        for one in np.unique(row):
            own = np.flatnonzero(row == one)
            batch[np.ix_(own, own)] = True
    return (np.tril(visible) if causal else visible)[:, None]


def draft_tree(shape, ancestors):
    queries, keys = shape[-2:]
    return np.concatenate([np.ones((queries, keys - queries), bool), ancestors != 0], 1)


# ---- the tests ------------------------------------------------------------------------------------------------------------------

def drawn(*shape):
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


def rows_of_documents():
    return np.stack([np.repeat(np.arange(4), 10), np.repeat([3, 1, 8, 5, 1], 8)]).astype(np.int32)  # one comes twice


def a_tree():
    """Drafts with parents before them; each has itself and the ancestors of its parent as ancestors."""
    parents, ancestors = [-1, 0, 0, 1, 1, 2, 5], np.eye(7, dtype=np.uint8)
    for draft, parent in enumerate(parents):
        if parent >= 0:
            ancestors[draft] |= ancestors[parent]
    return ancestors


# A function's operands and parameters, and the queries and keys of its problem.
CASES = {
    "alibi": (alibi, dict(slopes=np.float32([0.5, 0.25, 0.125, 0.0625])), 21, 37),
    "softcap": (softcap, dict(cap=1.5), 21, 37),
    "temperature": (temperature, dict(temperature=np.float32([0.5, 1, 1.5, -0.25])), 21, 37),
    "t5": (t5, dict(table=drawn(4, 32)), 150, 170),
    "t5_decoder": (t5_decoder, dict(table=drawn(4, 32)), 150, 140),
    "swin": (swin, dict(table=drawn(4, 13, 13)), 49, 49),
    "sam": (sam, dict(rows=drawn(2, 4, 30, 64), columns=drawn(2, 4, 30, 64)[..., ::-1].copy(), width=6), 30, 30),
    "sliding_window": (sliding_window, dict(window=9, globals=3), 70, 150),
    "dilated": (dilated, dict(window=7, dilation=3), 70, 150),
    "neighborhood": (neighborhood, dict(width=9, height=17, radius=2), 153, 153),
    "prefix_lm": (prefix_lm, dict(prefix=np.int32([5, 33])), 37, 37),
    "documents": (documents, dict(document=rows_of_documents(), causal=1), 40, 40),
    "draft_tree": (draft_tree, dict(ancestors=a_tree()), 7, 40),
}
SCORES = [name for name, (formula, *_) in CASES.items() if clattn.function(name=name).is_score]


def test_each_function_has_a_formula():
    assert sorted(CASES) == sorted(file.stem for file in SOURCES.glob("*.cl"))


def of_case(rng, name):
    formula, given, queries, keys = CASES[name]
    q = rng.normal(size=(2, 4, queries, 16)).astype(np.float32)
    k, v = rng.normal(size=(2, 2, 2, keys, 16)).astype(np.float32)
    return formula, given, q, k, v


def in_double(formula, given):
    """The formula of s alone, with arrays of floats in double precision."""
    wide = {key: x.astype(float) if getattr(x, "dtype", None) == np.float32 else x for key, x in given.items()}
    return lambda s, *_: formula(s, **wide)


@pytest.mark.spread
@pytest.mark.parametrize("name", CASES)
def test_forward_is_that_of_the_formula(rng, name):
    formula, given, q, k, v = of_case(rng, name)
    f = clattn.function(name=name)(**given)
    if f.is_score:
        o, lse = clattn.attention(q, k, v, score_mod=f, return_lse=True)
        want = reference(q, k, v, score=in_double(formula, given))
    else:
        visible = np.broadcast_to(formula((2, 4, q.shape[2], k.shape[2]), **given), (2, 4, q.shape[2], k.shape[2]))
        assert 0 < visible.mean() < 1
        o, lse = clattn.attention(q, k, v, mask_mod=f, return_lse=True)
        want = reference(q, k, v, visible=visible)
    np.testing.assert_allclose(o, want[0], rtol=0, atol=2e-5)
    np.testing.assert_allclose(lse, want[1], rtol=0, atol=2e-5)


@pytest.mark.spread
@pytest.mark.parametrize("name", SCORES)
def test_gradients_are_those_of_the_formula(rng, name):
    """Along a direction of each tensor, and of each operand of floats, by differences of the formula."""
    formula, given, q, k, v = of_case(rng, name)
    f = clattn.function(name=name)(**given)
    learned = [key for key in given if key in f.operands]
    o, lse = clattn.attention(q, k, v, score_mod=f, return_lse=True)
    d_o = rng.normal(size=o.shape).astype(np.float32)
    gradients = clattn.attention_backward(d_o, q, k, v, o, lse, score_mod=f, **({"gradients": ["score_mod"]} if learned else {}))
    found = dict(zip("qkv", gradients), **(gradients[3] if learned else {}))
    inputs = {"q": q, "k": k, "v": v, **{key: given[key] for key in learned}}
    assert sorted(found) == sorted(inputs)

    def loss(moved):
        other = functools.partial(formula, **{**given, **{key: moved[key] for key in learned}})
        return (reference(moved["q"], moved["k"], moved["v"], score=lambda s, *_: other(s))[0] * d_o).sum()

    for key, x in inputs.items():
        step = rng.normal(size=x.shape)
        ahead, behind = (loss({**inputs, key: x + sign * 1e-6 * step}) for sign in (1, -1))
        assert (found[key] * step).sum() == pytest.approx((ahead - behind) / 2e-6, rel=1e-3, abs=2e-3), key
