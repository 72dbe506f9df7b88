# SPDX-License-Identifier: Apache-2.0
"""register(): what transformers' attention interface hands over is taken, refused, or known to change nothing."""
import os
import sys
import types

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import clattn.torch
import pytest
import torch
from clattn import _transformers
from clattn._transformers import attention_forward

transformers = pytest.importorskip("transformers")
from transformers.integrations.sdpa_attention import sdpa_attention_forward

REFUSED = {"indices", "block_indices"}  # kernels that take a list of keys


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(6)


@pytest.fixture
def module():
    one = torch.nn.Module()
    one.num_key_value_groups = 2
    return one


def rand(*shape, grad=True):
    return torch.randn(shape).requires_grad_(grad)


@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float"])
@pytest.mark.parametrize("keys", [6, 9])
def test_position_bias_is_what_sdpa_makes_of_it(module, mask, keys):
    q, k, v, bias = rand(2, 4, 6, 16), rand(2, 2, keys, 16), rand(2, 2, keys, 16), rand(1, 4, 6, keys)
    options = dict(scaling=0.3, is_causal=mask == "causal", position_bias=bias)
    attention_mask = None
    if mask == "bool":
        attention_mask = torch.rand(2, 1, 6, keys) < 0.7
        attention_mask[..., 0] = True
    elif mask == "float":
        attention_mask = torch.randn(2, 1, 6, keys)
    want = sdpa_attention_forward(module, q, k, v, attention_mask, **options)[0]
    got = attention_forward(module, q, k, v, attention_mask, **options)[0]
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    d_o = torch.randn(want.shape)
    for one, other in zip(torch.autograd.grad(got, (q, k, v, bias), d_o), torch.autograd.grad(want, (q, k, v, bias), d_o)):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float"])
@pytest.mark.parametrize("biased", [False, True], ids=["", "biased"])
def test_sinks_of_each_query(module, mask, biased):
    """As Inkling2's eager attention has them: one more score of each query, without a value."""
    q, k, v, sinks = rand(2, 4, 6, 16), rand(2, 2, 6, 16), rand(2, 2, 6, 16), rand(2, 4, 6, 1)
    bias = rand(2, 4, 6, 6) if biased else None
    attention_mask, added = None, torch.zeros(6, 6)
    if mask == "bool":
        attention_mask = torch.rand(2, 1, 6, 6) < 0.7
        attention_mask[..., 0] = True
        added = torch.zeros(2, 1, 6, 6).masked_fill(~attention_mask, -torch.inf)
    elif mask == "float":
        attention_mask = added = torch.randn(2, 1, 6, 6)
    elif mask == "causal":
        added = torch.zeros(6, 6).masked_fill(~torch.ones(6, 6, dtype=torch.bool).tril(), -torch.inf)
    scores = q @ k.repeat_interleave(2, 1).transpose(2, 3) * 16 ** -0.5 + added + (0 if bias is None else bias)
    want = (torch.cat([scores, sinks], -1).softmax(-1)[..., :-1] @ v.repeat_interleave(2, 1)).transpose(1, 2)
    got = attention_forward(module, q, k, v, attention_mask, sinks=sinks, position_bias=bias, is_causal=mask == "causal")[0]
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    inputs = [x for x in (q, k, v, sinks, bias) if x is not None]
    d_o = torch.randn(want.shape)
    for one, other in zip(torch.autograd.grad(got, inputs, d_o), torch.autograd.grad(want, inputs, d_o)):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_sinks_of_each_head_are_s_aux(module):
    q, k, sinks = rand(2, 4, 6, 16), rand(2, 2, 6, 16), rand(4)
    want = attention_forward(module, q, k, k, None, s_aux=sinks)[0]
    for given in (sinks, sinks.reshape(1, 4, 1, 1)):
        assert torch.equal(attention_forward(module, q, k, k, None, sinks=given)[0], want)
    assert not torch.allclose(attention_forward(module, q, k, k, None)[0], want)
    with pytest.raises(RuntimeError, match="s_aux and sinks"):
        attention_forward(module, q, k, k, None, sinks=sinks, s_aux=sinks)


def test_what_is_not_known_is_refused(module):
    q, k = rand(2, 4, 6, 16), rand(2, 2, 6, 16)
    want = attention_forward(module, q, k, k, None)[0]
    assert torch.equal(attention_forward(module, q, k, k, None, invented=None, sliding_window=4, position_ids=torch.arange(6))[0], want)
    for name in ("invented", *REFUSED):
        with pytest.raises(RuntimeError, match=f"{name} is given by Module, and clattn does not know"):
            attention_forward(module, q, k, k, None, **{name: torch.ones(1)})


def test_weights_that_are_asked_for_are_not_returned_and_it_says_so(module, monkeypatch):
    monkeypatch.setattr(_transformers, "_said_that_there_are_no_weights", False)
    q, k = rand(2, 4, 6, 16), rand(2, 2, 6, 16)
    with pytest.warns(RuntimeWarning, match="output_attentions"):
        assert attention_forward(module, q, k, k, None, output_attentions=True)[1] is None


def test_dtypes_that_clattn_does_not_take_are_computed_by_sdpa(module):
    q, k = rand(2, 4, 6, 16).double(), rand(2, 2, 6, 16).double()
    with pytest.warns(RuntimeWarning, match="float64"):
        got = attention_forward(module, q, k, k, None)[0]
    torch.testing.assert_close(got, sdpa_attention_forward(module, q, k, k, None)[0])
    with pytest.raises(RuntimeError, match="float64"):
        attention_forward(module, q, k, k, None, softcap=2.0)


def test_transformers_without_the_interface_are_told_apart(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", types.ModuleType("transformers"))
    sys.modules["transformers"].__version__ = "4.46.3"
    with pytest.raises(ImportError, match=r"transformers 4\.53 or newer.*4\.46\.3.*patch"):
        clattn.torch.register()
