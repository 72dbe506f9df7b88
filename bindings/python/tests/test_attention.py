# SPDX-License-Identifier: Apache-2.0
"""clattn.attention() and attention_backward() on NumPy arrays."""
import threading

import clattn
import numpy as np
import pytest
from conftest import reference


def arrays(rng, heads=4, kv_heads=2, seq_q=5, seq_kv=9, dim=16, dtype=np.float32):
    q = rng.normal(size=(2, seq_q, heads, dim)).astype(dtype).transpose(0, 2, 1, 3)  # bshd in memory
    k, v = rng.normal(size=(2, 2, kv_heads, seq_kv, dim)).astype(dtype)
    return q, k, v


def close(got, want, dtype=np.float32):
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=0, atol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_causal_grouped_heads_with_lse(rng, dtype):
    q, k, v = arrays(rng, dtype=dtype)
    o, lse = clattn.attention(q, k, v, causal="br", return_lse=True)
    want, want_lse = reference(q, k, v, visible=np.tri(5, 9, 4, dtype=bool))
    assert o.dtype == dtype and lse.dtype == np.float32
    close(o, want, dtype)
    close(lse, want_lse)


def test_bias_of_any_strides_softcap_sinks_and_slopes(rng):
    q, k, v = arrays(rng)
    bias = rng.normal(size=(9, 4)).astype(np.float32).T[:, None, :]  # (heads, 1, keys), its keys 4 apart
    sinks, slopes = rng.normal(size=4), [0.5, 0.25, 0.125, 0.0]
    visible = rng.random((2, 1, 5, 9)) < 0.7
    visible[0, 0, 2] = False
    o, lse = clattn.attention(q, k, v, mask=visible, bias=bias, softcap=2.0, sinks=sinks, alibi_slopes=slopes,
                              scale=0.5, return_lse=True)
    want, want_lse = reference(q, k, v, visible=visible, bias=bias[None], softcap=2.0, sinks=sinks, slopes=slopes, scale=0.5)
    close(o, want)
    assert (o[0, :, 2] == 0).all()
    close(lse, want_lse)


def test_symmetric_alibi_as_flash_attn_has_it(rng):
    """-slope * |i + keys - queries - j|, and a window on both sides of that diagonal."""
    q, k, v = arrays(rng)
    slopes, i, j = [0.5, 0.25, 0.125, 1.0], np.arange(5)[:, None], np.arange(9)[None, :]
    options = dict(alibi_slopes=slopes, alibi_symmetric=True, window=(3, 1), diagonal="br")
    o, lse = clattn.attention(q, k, v, return_lse=True, **options)
    visible = (j >= i + 4 - 3) & (j <= i + 4 + 1)
    want, want_lse = reference(q, k, v, visible=visible, slopes=slopes, symmetric=True, diagonal=4)
    close(o, want)
    close(lse, want_lse)
    assert np.abs(reference(q, k, v, visible=visible, slopes=slopes, diagonal=4)[0] - want).max() > 0.01
    dslopes = clattn.attention_backward(np.ones_like(o), q, k, v, o, lse, gradients=["alibi_slopes"], **options)[3]
    step = np.array([0, 0, 1e-4, 0])
    ends = [reference(q, k, v, visible=visible, slopes=slopes + s * step, symmetric=True, diagonal=4)[0][:, 2].sum() for s in (1, -1)]
    np.testing.assert_allclose(dslopes[2], (ends[0] - ends[1]) / 2e-4, atol=1e-4)
    with pytest.raises(clattn.Error, match="alibi_symmetric is given, but there is no alibi"):
        clattn.attention(q, k, v, alibi_symmetric=True)


def test_lengths_window_and_fewer_dimensions(rng):
    q, k, v = arrays(rng)
    o = clattn.attention(q, k, v, kv_lengths=[7, 0], causal="tl", window=(1, 0))
    i, j = np.arange(5)[:, None], np.arange(9)
    close(o[0], reference(q, k, v, visible=(j <= i) & (j >= i - 1))[0][0])
    assert (o[1] == 0).all()
    close(clattn.attention(q[0], k[0], v[0], causal="br"), reference(q, k, v, visible=np.tri(5, 9, 4, dtype=bool))[0][0])


def test_arrays_of_one_packed_array_and_out(rng):
    packed = rng.normal(size=(2, 5, 3, 2, 16)).astype(np.float32)
    q, k, v = (packed[:, :, n].transpose(0, 2, 1, 3) for n in range(3))
    out = np.full((2, 5, 2, 16), np.nan, np.float32)
    assert np.shares_memory(clattn.attention(q, k, v, out=out.transpose(0, 2, 1, 3)), out)
    close(out.transpose(0, 2, 1, 3), reference(q, k, v)[0])
    with pytest.raises(clattn.InvalidArgument, match="^out, which is written, overlaps q$"):
        clattn.attention(q, k, v, out=q)


@pytest.mark.parametrize("of_lse", (False, True))
def test_backward_is_the_derivative(rng, of_lse):
    q, k, v = arrays(rng)
    bias = rng.normal(size=(4, 5, 9)).astype(np.float32)
    d_o = rng.normal(size=(2, 4, 5, 16)).astype(np.float32)
    o, lse = clattn.attention(q, k, v, bias=bias, causal="br", return_lse=True)
    dlse = rng.normal(size=(2, 4, 5)).astype(np.float32) if of_lse else None
    gradients = clattn.attention_backward(d_o, q, k, v, o, lse, dlse=dlse, bias=bias, causal="br", gradients=["bias"])

    def loss(q, k, v, bias):
        o, lse = reference(q, k, v, bias=bias, visible=np.tri(5, 9, 4, dtype=bool))
        return (o * d_o).sum() + ((lse * dlse).sum() if of_lse else 0)

    inputs = [np.asarray(x, np.float64) for x in (q, k, v, bias)]
    for n, gradient in enumerate(gradients):
        step = [rng.normal(size=x.shape) if m == n else np.zeros(x.shape) for m, x in enumerate(inputs)]
        ahead, behind = (loss(*(x + sign * 1e-5 * s for x, s in zip(inputs, step))) for sign in (1, -1))
        assert (gradient * step[n]).sum() == pytest.approx((ahead - behind) / 2e-5, rel=1e-4, abs=1e-4)


def weights_of(q, k, visible):
    s = np.where(visible, q.astype(float) @ np.repeat(k, q.shape[1] // k.shape[1], 1).astype(float).swapaxes(-1, -2) / 4, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def test_sums_and_means_of_weights(rng):
    q, k, v = arrays(rng)
    o, lse, sums, means = clattn.attention(q, k, v, causal="br", return_lse=True, return_key_sums=True, return_mean_weights=True)
    p = weights_of(q, k, np.tri(5, 9, 4, dtype=bool))
    close(sums, p.reshape(2, 2, 2, 5, 9).sum((2, 3)))
    close(means, p.mean(1))
    assert (o == clattn.attention(q, k, v, causal="br")).all() and lse.shape == (2, 4, 5)
    assert (clattn.attention(q[0], k[0], v[0], causal="br", return_key_sums=True)[1] == sums[0]).all()
    pages = np.arange(2, dtype=np.int32)[:, None]  # one of each batch
    close(clattn.attention(q, k, v, page_table=pages, causal="br", return_key_sums=True)[1], sums)
    seen = np.zeros((5, 9), bool)
    seen[:4, 4:8] = seen[4:, 8:] = True
    lists = clattn.blocks_mask(seen, (4, 4))
    close(clattn.attention(q, k, v, blocks=lists, return_key_sums=True)[1], weights_of(q, k, seen).reshape(2, 2, 2, 5, 9).sum((2, 3)))


def test_chosen_keys(rng):
    q, k, v = arrays(rng)
    lists = np.array([[[0, 3, -1, 3], [8, 9, 1, -5], [2, 1, 0, 4], [-1, -1, -1, -1], [7, 5, 6, 8]]] * 2, np.int32)
    seen = np.zeros((2, 1, 5, 9), bool)
    for place, key in np.ndenumerate(lists):
        if 0 <= key < 9:
            seen[place[0], 0, place[1], key] = True
    close(clattn.attention(q, k, v, topk_indices=lists), clattn.attention(q, k, v, mask=seen))
    heads = np.stack([lists, lists[:, ::-1]], 1)
    masks = np.repeat(np.concatenate([seen, seen[:, :, ::-1]], 1), 2, 1)
    close(clattn.attention(q, k, v, causal="br", topk_indices=heads), clattn.attention(q, k, v, causal="br", mask=masks))
    o, lse = clattn.attention(q, k, v, topk_indices=heads, return_lse=True)
    d_o = rng.normal(size=o.shape).astype(np.float32)
    for got, want in zip(clattn.attention_backward(d_o, q, k, v, o, lse, topk_indices=heads),
                         clattn.attention_backward(d_o, q, k, v, o, lse, mask=masks)):
        close(got, want)
    with pytest.raises(clattn.InvalidArgument, match="below seq_kv, 9, or -1"):
        clattn.attention(q, k, v, topk_indices=lists, check_tables=True)
    with pytest.raises(clattn.InvalidArgument, match="must be of"):
        clattn.attention(q, k, v, topk_indices=lists[0])


def test_dropout_repeats_by_its_seed(rng):
    q, k, v = arrays(rng)
    one, same, other = (clattn.attention(q, k, v, dropout=0.5, seed=seed) for seed in (1, 1, 2))
    assert (one == same).all() and (one != other).any()


def test_no_key_no_query_no_batch(rng):
    q, k, v = arrays(rng)
    assert (clattn.attention(q, k[:, :, :0], v[:, :, :0]) == 0).all()
    assert clattn.attention(q[:, :, :0], k, v).shape == (2, 4, 0, 16)
    assert clattn.attention(q[:0], k[:0], v[:0]).shape == (0, 4, 5, 16)


@pytest.mark.parametrize("batch, seq_q, seq_kv", [(0, 5, 9), (2, 0, 9), (2, 5, 0)])
def test_arrays_without_elements(batch, seq_q, seq_kv):
    """NumPy gives them strides of 0."""
    q, k = np.zeros((batch, 4, seq_q, 16), np.float32), np.zeros((batch, 2, seq_kv, 16), np.float32)
    bias, mask = np.zeros((4, seq_q, seq_kv), np.float32), np.ones((seq_q, seq_kv), bool)
    o, lse = clattn.attention(q, k, k, return_lse=True, bias=bias, mask=mask, kv_lengths=[0] * batch)
    assert o.shape == q.shape and lse.shape == q.shape[:-1] and (o == 0).all() and np.isneginf(lse).all()
    gradients = clattn.attention_backward(q, q, k, k, o, lse, bias=bias, mask=mask, kv_lengths=[0] * batch, gradients=["bias"])
    assert [x.shape for x in gradients] == [q.shape, k.shape, k.shape, bias.shape] and not any(x.any() for x in gradients)
    plan = clattn.Plan(f"fwd f32 b{batch} h4/2 q{seq_q} k{seq_kv} d16 lse")
    plan.execute(q=q, k=k, v=k, o=q.copy(), lse=lse)


@pytest.mark.parametrize("change, names", [
    (dict(q=[[1.0]]), "q must be"), (dict(k=np.zeros((2, 2, 9, 8), np.float32)), "k is of shape"),
    (dict(v=np.zeros((9, 16), np.float32)), "v has 2 dimensions"), (dict(q=np.zeros((2, 4, 5, 16))), "q is of dtype float64"),
    (dict(k=np.zeros((2, 2, 9, 32), np.float32)[..., ::-2]), "k has a step"), (dict(causal=True), "causal=True is ambiguous"),
    (dict(causal="down"), "causal must be"), (dict(mask=np.zeros((9, 5), bool)), "mask is of shape"),
    (dict(mask=np.zeros((5, 9), np.float32)), "mask is of dtype"), (dict(bias=np.zeros((5, 9), np.int32)), "bias is of dtype"),
    (dict(kv_lengths=[1, 2, 3]), "kv_lengths must be 2"), (dict(kv_lengths=[1.5, 2]), "kv_lengths is of dtype"),
    (dict(q=np.broadcast_to(np.float32(1), (2, 4, 5, 16))), "q is one element"), (dict(sinks=np.zeros(3)), "sinks must be 4"), (dict(dropout=1.5), "dropout"), (dict(dropout=float("nan")), "dropout"),
    (dict(scale=float("nan")), "scale"), (dict(scale=float("inf")), "scale"), (dict(softcap=-1.0), "softcap"),
    (dict(scale="x"), "scale must be a number"), (dict(softcap=[1]), "softcap must"), (dict(window=3), "window must be"),
    (dict(window=(2 ** 70, 0)), "window is"), (dict(causal=2 ** 70), "causal is"), (dict(window=("a", 0)), "window must"), (dict(seed=1.5), "seed must"),
    (dict(kv_lengths=[2 ** 32 + 1, 0]), "kv_lengths has"), (dict(window=(-7, 0)), "window"), (dict(out=np.zeros((2, 4, 5, 8), np.float32)), "out is of shape"),
    (dict(k=np.zeros((2, 3, 9, 16), np.float32), v=np.zeros((2, 3, 9, 16), np.float32)), "heads"),
    (dict(q=np.zeros((2, 4, 5, 16), np.dtype("f4").newbyteorder())), "q is of dtype [<>]f4"),
    (dict(k=np.ma.zeros((2, 2, 9, 16), np.float32)), "k is a masked array"),
    (dict(lse=np.zeros((2, 4, 10), np.float32)[..., ::2]), "lse must be C-contiguous"), (dict(scale=10 ** 400), "scale must"),
    (dict(softcap=np.ones(3)), "softcap must"), (dict(alibi_slopes=[[1], [1, 2]]), "alibi_slopes cannot be read"),
    (dict(context="cpu"), "context must be"), (dict(attn_mask=1), "no option attn_mask=: mask= takes bool"), (dict(casual=1), "it has causal="),
    (dict(is_causal=True), "no option is_causal=: it is causal="), (dict(xyz=1), r"no option xyz=: help\(clattn.attention\)"),
    (dict(sinks=np.array(1, np.float32)), "sinks must be 4"),
    (dict(mask=np.array(True), mask_keys=3, bias=np.array("x")), "bias is of dtype"), (dict(mask_keys=3), "mask_keys is given"),
    (dict(causal="br", diagonal="tl"), "causal and diagonal are both given"), (dict(cache=np.array("q8_0")), "cache must be None"), (dict(strict=np.ones(3)), "strict must"), (dict(precision="int4"), "precision must be None or 'int8'"), (dict(precision="int8", invariant=True), "precision=int8 excludes invariant"), (dict(return_lse=np.ones(3)), "return_lse must"),
])
def test_a_mistake_is_an_exception_that_names_the_argument(rng, change, names):
    q, k, v = arrays(rng)
    with pytest.raises((clattn.InvalidArgument, clattn.InvalidProblem), match=names) as raised:
        clattn.attention(**{**dict(q=q, k=k, v=v), **change})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("change, names", [
    (dict(out=(None, None)), "out must be of three"), (dict(out=None), "out must be a list"), (dict(gradients="bias"), "gradients must"),
    (dict(gradients=5), "gradients must"), (dict(gradients=[[1]]), "gradients names"), (dict(gradients=["sinks"]), "gradients names"),
    (dict(lse=np.array(1, np.float32)), "lse is of shape"), (dict(dlse=np.array(1, np.float32)), "dlse is of shape"),
    (dict(gradients=np.array("bias")), "gradients must"),
    (dict(out=np.array(1.0)), "out must be a list"), (dict(page_table=1), "attention_backward.. has no option page_table="),
    (dict(out=(None, np.zeros((2, 2, 9, 8), np.float32), None)), r"out\[1\] is of shape"), (dict(d_o=np.zeros((2, 4, 5, 16), np.float16)), "d_o is of dtype"),
])
def test_a_mistake_of_gradients_too(rng, change, names):
    q, k, v = arrays(rng)
    o, lse = clattn.attention(q, k, v, return_lse=True)
    with pytest.raises(clattn.InvalidArgument, match=names):
        clattn.attention_backward(**{**dict(d_o=o, q=q, k=k, v=v, o=o, lse=lse), **change})


def test_a_result_that_no_memory_holds(rng):
    q, k, v = (x[:1, :1] for x in arrays(rng))
    with pytest.raises(clattn.OutOfMemory, match="no room for o"):
        clattn.attention(np.broadcast_to(q[:, :, :1], (1, 1, 2 ** 44, 16)), k, v)


def test_read_only_arrays_are_read_and_not_written(rng):
    q, k, v = arrays(rng)
    for array in (q, k, v):
        array.flags.writeable = False
    o = clattn.attention(q, k, v, causal="br")
    o.flags.writeable = False
    with pytest.raises(clattn.InvalidArgument, match="out is read-only"):
        clattn.attention(q, k, v, causal="br", out=o)


def test_threads_share_plans_and_no_call_compiles_anew(rng):
    q, k, v = arrays(rng)
    want = clattn.attention(q, k, v, causal="br")
    builds = clattn.default_context().builds
    failures = []

    def work():
        for _ in range(20):
            if not (clattn.attention(q, k, v, causal="br") == want).all():
                failures.append("another result")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and clattn.default_context().builds == builds


def test_strict_is_asked_for(rng, monkeypatch):
    q, k, v = arrays(rng, dtype=np.float16)
    asked, plan_of = [], clattn.Context.plan_of

    def watched(context, problem):
        asked.append(problem.strict)
        return plan_of(context, problem)

    monkeypatch.setattr(clattn.Context, "plan_of", watched)
    for strict in (False, True):
        o, lse = clattn.attention(q, k, v, return_lse=True, strict=strict)
        clattn.attention_backward(o, q, k, v, o, lse, strict=strict)
    assert asked == [0, 0, 1, 1]


def test_int8_is_asked_for(rng, monkeypatch):
    q, k, v = arrays(rng)
    asked, plan_of = [], clattn.Context.plan_of

    def watched(context, problem):
        asked.append(problem.int8)
        problem.int8 = 0  # which not every processor multiplies
        return plan_of(context, problem)

    monkeypatch.setattr(clattn.Context, "plan_of", watched)
    for precision in (None, "int8"):
        clattn.attention(q, k, v, precision=precision)
    assert asked == [0, 1]
