# SPDX-License-Identifier: Apache-2.0
"""clattn.torch.topk_attention() and indexer() beside the formulas in double precision, and their gradients."""
import clattn
import pytest
import torch
from clattn.torch import indexer, topk_attention

B, H, Q, K, D, DV = 2, 4, 7, 90, 16, 24


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(5)


def inputs(kv_heads, dtype=torch.float32):
    shapes = (B, H, Q, D), (B, kv_heads, K, D), (B, kv_heads, K, DV)
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def lists(*shape):
    """Keys of which some stand twice, and some are none."""
    made = torch.randint(0, K, shape, dtype=torch.int32)
    made[..., 0] = -1
    made[..., 1] = made[..., 2]
    return made


def formula(q, k, v, chosen, causal=False, softcap=None):
    q, k, v = (x.double() for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    chosen = chosen[:, None] if chosen.dim() == 3 else chosen
    seen = torch.zeros(B, chosen.shape[1], Q, K + 1, dtype=torch.bool)
    seen.scatter_(-1, torch.where(chosen < 0, K, chosen).long(), True)
    seen = seen[..., :K].repeat_interleave(H // chosen.shape[1], 1)
    if causal:
        seen = seen & torch.ones(Q, K, dtype=torch.bool).tril(K - Q)
    s = q @ k.repeat_interleave(group, 1).transpose(-1, -2) * D ** -0.5
    s = s if softcap is None else softcap * torch.tanh(s / softcap)
    s = s.masked_fill(~seen, -torch.inf)
    return s.softmax(-1) @ v.repeat_interleave(group, 1), s.logsumexp(-1)


@pytest.mark.parametrize("kv_heads, own, options", [(1, False, {}), (2, True, {"causal": "br"}), (2, False, {"softcap": 2.0})])
def test_attention_and_its_gradients(kv_heads, own, options):
    q, k, v = inputs(kv_heads)
    chosen = lists(B, kv_heads, Q, 6) if own else lists(B, Q, 6)
    chosen[..., 3] = 0  # which every query sees
    o, lse = topk_attention(q, k, v, chosen, return_lse=True, **options)
    want, want_lse = formula(q, k, v, chosen, options.get("causal") == "br", options.get("softcap"))
    d_o, dlse = torch.randn(o.shape), torch.randn(lse.shape)
    torch.testing.assert_close(o.double(), want, rtol=0, atol=1e-5)
    torch.testing.assert_close(lse.double(), want_lse, rtol=0, atol=1e-5)
    exact = torch.autograd.grad((want, want_lse), (q, k, v), (d_o.double(), dlse.double()))
    for got, one in zip(torch.autograd.grad((o, lse), (q, k, v), (d_o, dlse)), exact):
        torch.testing.assert_close(got, one.to(got.dtype), rtol=0, atol=1e-4)


def test_bfloat16_and_views():
    q, k, v = inputs(1, torch.bfloat16)
    o = topk_attention(q.transpose(1, 2).contiguous().transpose(1, 2), k, v, lists(B, 1, Q, 9)[:, 0])
    o.float().sum().backward()
    assert o.dtype == torch.bfloat16 and all(x.grad.isfinite().all() for x in (q, k, v))


def test_an_indexer_and_its_gradients():
    q, k, w = torch.randn(B, 3, Q, D), torch.randn(B, K, D), torch.rand(B, 3, Q)
    for x in (q, k, w):
        x.requires_grad_()
    chosen, scores = indexer(q, k, w, 8, causal="br")
    assert chosen.dtype == torch.int32 and not chosen.requires_grad and chosen.shape == (B, Q, 8)
    double = [x.double() for x in (q, k, w)]
    all_scores = (double[2][..., None] * (double[0] @ double[1][:, None].transpose(-1, -2)).relu()).sum(1)
    hidden = all_scores.masked_fill(~torch.ones(Q, K, dtype=torch.bool).tril(K - Q), -torch.inf)
    assert (hidden.topk(8).indices.sort().values == chosen).all()
    want = all_scores.gather(-1, chosen.long())
    torch.testing.assert_close(scores.double(), want, rtol=0, atol=1e-5)
    dscores = torch.randn(scores.shape)
    exact = torch.autograd.grad(want, (q, k, w), dscores.double())
    for got, one in zip(torch.autograd.grad(scores, (q, k, w), dscores), exact):
        torch.testing.assert_close(got, one.to(got.dtype), rtol=0, atol=1e-4)


def test_mistakes_are_named():
    q, k, v = inputs(1)
    with pytest.raises(clattn.Error, match="topk_indices is of shape"):
        topk_attention(q, k, v, lists(B, Q + 1, 6))
    with pytest.raises(clattn.Error, match="topk_indices .*int64.*int32"):
        topk_attention(q, k, v, lists(B, Q, 6).long())
    with pytest.raises(clattn.torch.Refused, match="key is a Tensor of torch.strided on meta"):
        topk_attention(q, k.to("meta"), v, lists(B, Q, 6))
    with pytest.raises(clattn.Error, match="causal"):
        topk_attention(q, k, v, lists(B, Q, 6), causal="left")
    with pytest.raises(clattn.torch.Refused, match="torch.func"):
        torch.func.grad(lambda x: topk_attention(x, k, v, lists(B, Q, 6)).sum())(q)


@pytest.mark.filterwarnings("error:Dynamo detected:UserWarning")  # of what stands in clattn, and is to be left out
def test_compiled_programs_call_it():
    q, k, v = inputs(1)
    chosen = lists(B, Q, 6)

    def loss(q):
        return topk_attention(2 * q, k, v, chosen).sin().sum()

    want, = torch.autograd.grad(loss(q), q)
    got, = torch.autograd.grad(torch.compile(loss, backend="eager")(q), q)
    torch.testing.assert_close(got, want)
