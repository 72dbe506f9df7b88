# SPDX-License-Identifier: Apache-2.0
"""Functions of the caller's: sources of OpenCL C, and functions of Python, which NumPy computes in double precision as well."""
import clattn
import numpy as np
import pytest
from conftest import reference

ALIBI = """#pragma clattn operand float slopes[h]
#pragma clattn parameter int ahead = 0
#pragma clattn parameter float times = 1
float score(float s, pair p, operands o)
{
    return s + o.times * slopes_at(o, p.head) * (float)(p.key - p.query - o.ahead);
}
float score_derivative(float s, pair p, operands o)
{
    return 1.0f;
}
"""
SLOPES = np.array([0.5, 0.25, 0.125, 0.0], np.float32)


def arrays(rng, seq_q=21, seq_kv=37):
    q = rng.normal(size=(2, 4, seq_q, 16)).astype(np.float32)
    k, v = rng.normal(size=(2, 2, 2, seq_kv, 16)).astype(np.float32)
    return q, k, v


def close(got, want, atol=2e-5):
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=0, atol=atol)


def test_a_source_with_an_operand_and_parameters(rng):
    q, k, v = arrays(rng)
    alibi = clattn.function(ALIBI, name="alibi")
    assert alibi.operands == {"slopes": "[h]"} and alibi.parameters == {"ahead": 0, "times": 1.0}
    assert clattn.function(ALIBI, name="other").name == alibi.name  # equal sources are one function
    o, lse = clattn.attention(q, k, v, score_mod=alibi(slopes=SLOPES), return_lse=True)
    want, want_lse = clattn.attention(q, k, v, alibi_slopes=SLOPES, diagonal="tl", return_lse=True)
    close(o, want)
    close(lse, want_lse)
    builds = clattn.default_context().builds
    o, lse = clattn.attention(q, k, v, score_mod=alibi(slopes=SLOPES, ahead=3, times=2), return_lse=True)
    want, want_lse = clattn.attention(q, k, v, alibi_slopes=2 * SLOPES, diagonal=3, return_lse=True)
    close(o, want)
    close(lse, want_lse, 1e-4)
    clattn.attention(q, k, v, score_mod=alibi(slopes=SLOPES, ahead=4), return_lse=True)
    assert clattn.default_context().builds <= builds + 1  # that of ALiBi's option


@pytest.mark.parametrize("make, names", [
    (lambda f: clattn.function("float s;\nfloat x(float s) { return s; }", name="x"), "x, line 2: the source defines neither"),
    (lambda f: clattn.function(ALIBI, name="a b"), "name of a function"), (lambda f: f(width=1), "no operand or parameter width"),
    (lambda f: dict(score_mod=f), "operand slopes, which is not given"), (lambda f: dict(mask_mod=f(slopes=SLOPES)), "other kind"),
    (lambda f: dict(score_mod=f(slopes=SLOPES[:3])), "slopes is of shape .3,., but alibi.* has .h. of it, which is 4"),
    (lambda f: dict(score_mod=f(slopes=SLOPES.astype(np.float16))), "slopes is of dtype float16, not float32"),
    (lambda f: dict(score_mod=f(slopes=SLOPES, ahead=0.5)), "ahead must be a whole number"), (lambda f: dict(score_mod=3), "must be a function"),
])
def test_a_mistake_names_what_is_wrong(rng, make, names):
    q, k, v = arrays(rng)
    with pytest.raises(clattn.Error, match=names):
        clattn.attention(q, k, v, **make(clattn.function(ALIBI, name="alibi")))


def test_a_source_that_does_not_compile_says_where(rng):
    with pytest.raises(clattn.Error, match="wrong:3"):
        clattn.attention(*arrays(rng), score_mod=clattn.function("float score(float s, pair p, operands o)\n{\n    return s + x;\n}\n",
                                                                 name="wrong"))


TABLE = np.random.default_rng(1).normal(size=(4, 60)).astype(np.float32)
PAIRS = np.random.default_rng(2).normal(size=(4, 21, 37)).astype(np.float32)
WHOLE = np.random.default_rng(3).integers(-3, 4, 37)
BITS = np.random.default_rng(4).random((2, 37)) < 0.7
HALF = np.random.default_rng(5).normal(size=(2, 37)).astype(np.float16)
middle, temperature = 20, 0.7


def capped(s, b, h, i, j):
    """Operators, tables and elementary functions, of which NumPy computes the same."""
    s = 2.5 * np.tanh(s / 2.5) * temperature + TABLE[h, i - j + middle] + PAIRS[h, i, j] + HALF[b, j]
    s = 0.1 * s ** 3 - 0.1 * s * s + (h + 1) / (j + 1) - 0.3 * (-s)
    s = np.exp(-s * s) + np.log(1 + np.abs(s)) + np.sqrt(s * s + 1) + np.sin(s) * np.cos(s) + np.floor(s + 0.5)
    s = np.tanh(0.1 * s)
    return s / (1 + np.exp(-s)) + s * 2.0 ** (-(h + 1.0)) + (s * s + 0.5) ** 1.5 + (s * s + 1) ** 0.5


def chosen(s, b, h, i, j):
    """Conditions and whole numbers."""
    s = np.where((i >= j) & ~(j == 3) | (i - j < -30), s, -s * 0.5)
    s = np.where(j <= i + 16, np.minimum(s, 0.5) + np.maximum(s, h * 0.1), -np.inf)
    s = s + 0.1 * ((i - j) // 5) - 0.05 * ((i - j) % 7) + 0.01 * ((j - i) // -3) + WHOLE[j] * 0.2
    return np.where(BITS[b, j], s, s - (((i ^ j) & 3) + (j >> 1) % 2) * 0.25)


SCORES = {"table": lambda s, b, h, i, j: s + TABLE[h, i - j + middle], "capped": capped, "chosen": chosen}


@pytest.mark.spread
@pytest.mark.parametrize("name", SCORES)
def test_a_score_is_traced_and_derived(rng, name):
    q, k, v = arrays(rng)
    q, d_o = q * 0.5, rng.normal(size=q.shape).astype(np.float32)
    f = SCORES[name]
    o, lse = clattn.attention(q, k, v, score_mod=f, return_lse=True)
    want, want_lse = reference(q, k, v, score=f)
    close(o, want)
    close(lse, want_lse)
    gradients = clattn.attention_backward(d_o, q, k, v, o, lse, score_mod=f)
    inputs = [np.asarray(x, np.float64) for x in (q, k, v)]
    for n, gradient in enumerate(gradients):
        step = [rng.normal(size=x.shape) if m == n else np.zeros(x.shape) for m, x in enumerate(inputs)]
        ahead, behind = ((reference(*(x + sign * 1e-6 * s for x, s in zip(inputs, step)), score=f)[0] * d_o).sum() for sign in (1, -1))
        assert (gradient * step[n]).sum() == pytest.approx((ahead - behind) / 2e-6, rel=2e-3, abs=2e-3)


reach = 9
DOCUMENTS = np.repeat(np.arange(4), 10)[None, :37] * np.array([[1], [2]])


def window(b, h, i, j):
    return (i + 16 >= j) & (i + 16 - j < reach)


def documents(b, h, i, j):
    return (DOCUMENTS[b, i] == DOCUMENTS[b, j]) & (((j - i) % 3 == 0) | (j < 2) | (h != 1)) & BITS[b, j]


@pytest.mark.parametrize("f", [window, documents])
def test_a_mask_is_traced(rng, f):
    q, k, v = arrays(rng)
    visible = np.broadcast_to(f(*np.ogrid[:2, :4, :21, :37]), (2, 4, 21, 37))
    v = v.copy()
    for b, h in np.ndindex(2, 2):  # what nobody sees is never read to the output
        v[b, h, ~visible[b, 2 * h:2 * h + 2].any((0, 1))] = np.nan
    o, lse = clattn.attention(q, k, v, mask_mod=f, return_lse=True)
    want, want_lse = reference(q, k, np.nan_to_num(v), visible=visible)
    close(o, want)
    close(lse, want_lse)
    got = clattn.attention_backward(o, q, k, np.nan_to_num(v), o, lse, mask_mod=f)
    want = clattn.attention_backward(o, q, k, np.nan_to_num(v), o, lse, mask=visible)
    for one, other in zip(got, want):
        close(one, other, 1e-4)


def test_other_numbers_and_lengths_compile_nothing(rng):
    q, k, v = arrays(rng)

    def mask(width):
        return lambda b, h, i, j: abs(i - j) < width

    def score(bias, factor):
        return lambda s, b, h, i, j: s * factor + bias[h, i, j]

    bias = rng.normal(size=(4, 21, 37)).astype(np.float32)
    clattn.attention(q, k, v, score_mod=score(bias, 2.0), mask_mod=mask(5))
    builds = clattn.default_context().builds
    o = clattn.attention(q, k, v, score_mod=score(-bias, 0.5), mask_mod=mask(8))
    assert clattn.default_context().builds == builds
    i, j = np.ogrid[:21, :37]
    close(o, reference(q, k, v, visible=abs(i - j) < 8, score=score(-bias, 0.5))[0])
    one, other = (clattn.score_mod(score(x, 1.0), shape=(2, *x.shape)) for x in (bias, bias[:, :11, :13]))
    assert one.source == other.source and one.operands == {"u_bias": "[h][q][k]"}
    assert clattn.score_mod(score(bias, 1.0)).operands == {"u_bias": "[4][21][37]"}


def test_numbers_that_are_chosen_by_and_those_beyond_the_parameters(rng):
    q, k, v = arrays(rng)
    rounds, a, b, c, d, e = 3, 0.1, 0.2, 0.3, 0.4, 0.5

    def score(s, batch, h, i, j):
        for n in range(rounds):
            s = s * (n + 1) if rounds > 2 else s
        return s + a + b * h + c * i + d * j + e * batch
    assert not clattn.score_mod(score).parameters
    f = lambda s, batch, h, i, j: s + a + b * h + c * i + d * j + e * batch  # noqa: E731
    assert len(clattn.score_mod(f).parameters) == 4
    for each in (score, f):
        close(clattn.attention(q * 0.1, k, v, score_mod=each), reference(q * 0.1, k, v, score=each)[0])


def test_indices_count_from_the_end_and_stop_at_the_ends(rng):
    q, k, v = arrays(rng)
    far = clattn.attention(q, k, v, score_mod=lambda s, b, h, i, j: s + TABLE[h][j - i] + TABLE[-1, i] + TABLE[h, i * 1000])
    close(far, reference(q, k, v, score=lambda s, b, h, i, j: s + TABLE[h, j - i] + TABLE[-1, i] + TABLE[h, np.minimum(i * 1000, 59)])[0])


@pytest.mark.parametrize("f, names", [
    (lambda s, b, h, i, j: s if i > j else -s, "asked for its value .bool"), (lambda s, b, h, i, j: s + max(i, j), "bool"),
    (lambda s, b, h, i, j: s + TABLE[h], "without an index for each axis"), (lambda s, b, h, i, j: s + TABLE[h, i, j], "given 3 indices"),
    (lambda s, b, h, i, j: s + TABLE[h, s], "indexed with a floating-point number"), (lambda s, b, h, i, j: s + TABLE[h, :3], "indexed with slice"),
    (lambda s, b, h, i, j: s + TABLE[h, 60], "index 60 is out of bounds"), (lambda s, b, h, i, j: np.sort(s), "sort.., which cannot be traced"),
    (lambda s, b, h, i, j: float(s), "float"), (lambda s, b, h, i, j: "x", "computes with str"), (lambda s, b, h, i: s, "cannot be traced"),
    (lambda s, b, h, i, j: s & 1, "& takes whole numbers"), (lambda s, b, h, i, j: s + 2 ** 40 * i, "which 32 bits do not hold"),
    (lambda s, b, h, i, j: s + np.arange(3), "without an index"), (lambda s, b, h, i, j: s.rank, "has no rank"),
])
def test_what_cannot_be_traced_says_why(rng, f, names):
    with pytest.raises(clattn.InvalidArgument, match=names):
        clattn.attention(*arrays(rng), score_mod=f)


def test_a_plan_with_functions(rng):
    q, k, v = arrays(rng)
    alibi = clattn.function(ALIBI, name="alibi")
    plan = clattn.Plan("fwd f32 b2 h4/2 q21 k37 d16", score_mod=alibi(slopes=SLOPES), mask_mod=window)
    assert f"score={alibi.name}" in plan.problem
    o = np.empty_like(q)
    plan.execute(q=q, k=k, v=v, o=o)
    close(o, clattn.attention(q, k, v, alibi_slopes=SLOPES, diagonal="tl", mask_mod=window))
    plan.execute(q=q, k=k, v=v, o=o, score_mod=alibi(slopes=SLOPES, times=3))
    close(o, clattn.attention(q, k, v, alibi_slopes=SLOPES * 3, diagonal="tl", mask_mod=window))
    by_name = clattn.Plan(f"fwd f32 b2 h4/2 q21 k37 d16 score={alibi.name}")
    by_name.execute(q=q, k=k, v=v, o=o, score_mod=alibi(slopes=SLOPES))
    close(o, clattn.attention(q, k, v, alibi_slopes=SLOPES, diagonal="tl"))
    by_name.execute(q=q, k=k, v=v, o=o, function_0=SLOPES)
    close(o, clattn.attention(q, k, v, alibi_slopes=SLOPES, diagonal="tl"))
    with pytest.raises(clattn.InvalidArgument, match="of another source"):
        plan.execute(q=q, k=k, v=v, o=o, score_mod=SCORES["table"])


def test_arrays_of_pyopencl(rng):
    cl = pytest.importorskip("pyopencl")
    import pyopencl.array

    q, k, v = arrays(rng)
    name = clattn.default_context().device.name.decode()
    device = next(d for p in cl.get_platforms() for d in p.get_devices() if d.name == name)
    queue = cl.CommandQueue(cl.Context([device]))
    table = pyopencl.array.to_device(queue, TABLE)
    on_device = [pyopencl.array.to_device(queue, x) for x in (q, k, v)]
    o = clattn.attention(*on_device, score_mod=lambda s, b, h, i, j: s + table[h, i - j + middle])
    close(o.get(), reference(q, k, v, score=SCORES["table"])[0])


def test_gradients_of_what_a_function_reads(rng):
    q, k, v = arrays(rng)
    table, unused = TABLE.copy(), HALF

    def score(s, b, h, i, j):
        return s * (1 + 0.1 * table[h, i - j + middle + 16]) + unused[b, j].astype(np.float32) * WHOLE[j] * 0

    f = clattn.score_mod(score)
    o, lse = clattn.attention(q, k, v, score_mod=f, return_lse=True)
    d_o = rng.normal(size=o.shape).astype(np.float32)
    *_, gradients = clattn.attention_backward(d_o, q, k, v, o, lse, score_mod=f, gradients=["score_mod"])
    of_table = gradients[next(name for name in f.operands if "table" in name)]
    assert of_table.shape == table.shape and of_table.dtype == np.float32 and len(gradients) == 2

    def loss(place, step):
        other = table.copy()
        other[place] += step
        moved = f(**{next(name for name in f.operands if "table" in name): other})
        return float((clattn.attention(q, k, v, score_mod=moved).astype(np.float64) * d_o).sum())

    for place in ((0, 36), (2, 20), (3, 50)):
        close(of_table[place], (loss(place, 0.05) - loss(place, -0.05)) / 0.1, 2e-4)
    with pytest.raises(clattn.Error, match="it may name bias, alibi_slopes, sinks and score_mod"):
        clattn.attention_backward(d_o, q, k, v, o, lse, gradients=["score_mod"])


def test_a_version_says_whether_arrays_have_changed(rng):
    q, k, v = arrays(rng, 70, 150)
    kinds = np.zeros(150, np.int32)
    mask = lambda b, h, i, j: kinds[i] == kinds[j]  # noqa: E731
    plan = clattn.Plan("fwd f32 b2 h4/2 q70 k150 d16", mask_mod=clattn.mask_mod(mask, shape=(2, 4, 70, 150)))
    o = np.empty_like(q)
    for contents, version in ((np.zeros(150), 1), (np.arange(150) // 60, 2), (np.arange(150) // 60, 2), (np.arange(150) // 40, 0)):
        kinds[:] = contents
        want = reference(q, k, v, visible=kinds[:70, None] == kinds)[0]
        close(clattn.attention(q, k, v, mask_mod=mask, version=version), want)
        plan.execute(q=q, k=k, v=v, o=o, version=version)
        close(o, want)
    kinds[:] = np.arange(150) // 40  # behind the version's back: tiles that were full are not looked at again
    assert abs(clattn.attention(q, k, v, mask_mod=mask, version=1) - want).max() > 0.01
    with pytest.raises(clattn.InvalidArgument, match="version is -1"):
        clattn.attention(q, k, v, mask_mod=mask, version=-1)


def test_lists_of_a_mask_function():
    width = 30
    mask = lambda b, h, i, j: (abs(i - j) < width) & ((b == 0) | (j > 20 * h))  # noqa: E731
    visible = np.broadcast_to(mask(*np.ogrid[:2, :4, :70, :150]), (2, 4, 70, 150))
    lists, want = clattn.function_blocks(mask, (2, 4, 70, 150), (16, 32)), clattn.blocks_mask(visible, (16, 32), batches=True)
    assert lists.size == want.size and np.array_equal(lists.offsets, want.offsets) and np.array_equal(lists.entries, want.entries)
    in_use = clattn.function("bool visible(pair p, operands o) { return p.key < p.keys; }")
    shared = clattn.function_blocks(in_use, (2, 1, 70, 150), (16, 32), kv_lengths=[150, 10])
    assert shared.offsets.shape == (2, 1, 6) and [*shared.offsets[:, 0, -1]] == [25, 5]
    for wrong, says in (((70, 150), "shape must be .batch"), ((0, 1, 70, 150), "shape")):
        with pytest.raises(clattn.InvalidArgument, match=says):
            clattn.function_blocks(mask, wrong)


def test_differential_attention_is_two_calls(rng):
    """Softmax of one half of each head's queries and keys less `factor` times that of the other (T. Ye et al., 2024), on views
    of tensors that hold both halves."""
    q, k = (rng.normal(size=(2, 2, 4, 9, 32)).astype(np.float32) for _ in range(2))  # (half, batch, heads, seq, dim)
    v, factor = rng.normal(size=(2, 4, 9, 32)).astype(np.float32), 0.3
    one, other = (clattn.attention(q[half], k[half], v, causal="tl") for half in range(2))
    weights = []
    for half in range(2):
        s = q[half].astype(float) @ k[half].astype(float).swapaxes(-1, -2) / np.sqrt(32)
        w = np.exp(np.where(np.tril(np.ones((9, 9), bool)), s, -np.inf))
        weights.append(w / w.sum(-1, keepdims=True))
    np.testing.assert_allclose(one - factor * other, (weights[0] - factor * weights[1]) @ v, atol=2e-6)
