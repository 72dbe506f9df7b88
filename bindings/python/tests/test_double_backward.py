# SPDX-License-Identifier: Apache-2.0
"""clattn.attention_double_backward() on NumPy arrays: slopes of the gradients' formula in double precision."""
import numpy as np
import pytest

import clattn


def first(q, k, v, d_o, visible, scale):
    """(dq, dk, dv) in double precision; k and v have q's heads."""
    s = np.where(visible, q @ k.swapaxes(-1, -2) * scale, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = d_o @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    return ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ d_o


@pytest.mark.parametrize("without", [None, "ggk"])
def test_gradients_are_slopes_of_the_gradients(rng, without):
    inputs = {name: rng.standard_normal((2, n, d)) for name, n, d in (("q", 5, 6), ("k", 7, 6), ("v", 7, 4), ("d_o", 5, 4))}
    given = {"gg" + name: rng.standard_normal(inputs[name].shape) for name in "qkv" if "gg" + name != without}
    visible = np.tril(np.ones((5, 7), bool), 2)

    def loss(**changed):
        return sum((given["gg" + name] * one).sum() for name, one in
                   zip("qkv", first(**{**inputs, **changed}, visible=visible, scale=0.4)) if "gg" + name in given)

    single = {name: one.astype(np.float32) for name, one in inputs.items()}
    got = clattn.attention_double_backward(single["d_o"], single["q"], single["k"], single["v"],
                                           **{name: one.astype(np.float32) for name, one in given.items()}, causal="br", scale=0.4)
    for name, result in zip(("q", "k", "v", "d_o"), got):
        assert result.shape == inputs[name].shape and result.dtype == np.float32
        direction, step = rng.standard_normal(inputs[name].shape), 1e-5
        above, below = (loss(**{name: inputs[name] + sign * step * direction}) for sign in (1, -1))
        assert (result * direction).sum() == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("change, sentence", [
    (dict(ggq=None), "nothing would be derived"),
    (dict(ggq=np.zeros((2, 5, 5), np.float32)), r"ggq is of shape \(2, 5, 5\)"),
    (dict(d_o=np.zeros((2, 5, 6), np.float16)), "d_o is of shape .* and dtype float16"),
    (dict(v=np.zeros((2, 7, 6), np.float16)), "q, k and v must be of one dtype")])
def test_mistakes_are_named(change, sentence):
    q, k = np.zeros((2, 5, 6), np.float32), np.zeros((2, 7, 6), np.float32)
    with pytest.raises(clattn.Error, match=sentence):
        clattn.attention_double_backward(**{**dict(d_o=q, q=q, k=k, v=k, ggq=q), **change})
