# SPDX-License-Identifier: Apache-2.0
"""clattn.torch.flex_attention() beside the formula in double precision, with PyTorch's signature and BlockMask."""
import pathlib
import warnings

import clattn
import pytest
import torch
from clattn._torch_flex import _known
from clattn.torch import create_block_mask
from clattn.torch import flex_attention as ours
from torch.nn.attention import flex_attention as theirs

B, H, G, Q, K, D = 2, 4, 2, 150, 200, 16
torch.manual_seed(4)
table, documents, cap = torch.randn(H, 400), torch.randint(0, 3, (B, K)), torch.tensor(3.0)
middle, width, slope = 199, 33, 0.3


class Layer:
    bias = torch.randn(H, 7)


layer = Layer()


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(3)


def inputs(dtype=torch.float32, heads=G):
    return [torch.randn(B, n, s, D).to(dtype).requires_grad_() for n, s in ((H, Q), (heads, K), (heads, K))]


def formula(q, k, v, score=None, mask=None):
    """(o, lse) in double precision, of which autograd derives gradients."""
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    indices = [torch.arange(n) for n in s.shape]
    if score is not None:
        s = theirs._vmap_for_bhqkv(score, prefix=(0,))(s, *indices)
    if mask is not None:
        s = torch.where(theirs._vmap_for_bhqkv(mask, prefix=())(*indices), s, -torch.inf)
    lse = s.logsumexp(-1)
    return torch.where(lse[..., None].isneginf(), 0.0, (s - lse.nan_to_num(neginf=0.0)[..., None]).exp()) @ v, lse


def check(q, k, v, score=None, mask=None, block_mask=None, atol=1e-5):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        o, lse = ours(q, k, v, score, block_mask, enable_gqa=True, return_lse=True)
    want, want_lse = formula(q, k, v, score, mask)
    d_o = torch.randn(o.shape)
    torch.testing.assert_close(o.double(), want, rtol=0, atol=atol)
    torch.testing.assert_close(lse.double(), want_lse, rtol=0, atol=atol)
    for got, exact in zip(torch.autograd.grad(o, (q, k, v), d_o), torch.autograd.grad(want, (q, k, v), d_o.double())):
        torch.testing.assert_close(got, exact.to(got.dtype), rtol=0, atol=20 * atol)


def several(s, b, h, i, j):
    """What PyTorch's tutorials write: captured tensors, torch's functions, numbers."""
    s = cap * torch.tanh(s / cap) + table[h, i - j + middle] + layer.bias[h][(i - j) % 7]
    s = torch.where(i >= j, s * slope - torch.abs(i - j) / (h + 1) * 0.01, s)
    return torch.where(documents[b, j] == 2, torch.tensor(-float("inf")), torch.clamp(s, -4, 4) + 0.01 * 2.0 ** (-8.0 * (h + 1) / H) * (j - i))


def test_a_score_and_no_mask():
    check(*inputs(), several)


@pytest.mark.parametrize("batches, heads, size", [(B, H, 32), (None, None, 128)])
def test_a_block_mask(batches, heads, size):
    def mask(b, h, i, j):
        return ((i >= j) & (i - j < width)) | ((documents[b, i] == documents[b, j]) & (h > 0)) if batches else (i >= j) & (i - j < width)

    block_mask = theirs.create_block_mask(mask, batches, heads, Q, K, device="cpu", BLOCK_SIZE=size)
    check(*inputs(), lambda s, b, h, i, j: s + table[h, i - j + middle], mask, block_mask)
    lists = _known[block_mask].lists
    ours(*inputs(), None, block_mask, enable_gqa=True)
    assert lists is _known[block_mask].lists and lists.size == (size, size)


@pytest.mark.parametrize("batches, heads, size", [(B, H, 32), (None, None, (64, 32)), (1, H, 128)])
def test_a_block_mask_is_pytorchs(batches, heads, size):
    def mask(b, h, i, j):
        far = (i - j < width) | (j < 7)
        return (i >= j - 40) & far & ((documents[b, j] > 0) | (h != 1)) if batches and heads else (i >= j - 40) & far

    made = create_block_mask(mask, batches, heads, Q, K, BLOCK_SIZE=size)
    want = theirs.create_block_mask(mask, batches, heads, Q, K, device="cpu", BLOCK_SIZE=size)
    assert made.shape == want.shape and made.BLOCK_SIZE == want.BLOCK_SIZE
    for name in ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices"):
        assert torch.equal(getattr(made, name), getattr(want, name)), name
    check(*inputs(), None, mask, made)


def test_a_block_mask_by_pytorch_where_nothing_is_traced(monkeypatch):
    monkeypatch.setattr(theirs, "create_block_mask", lambda *arguments, **named: "theirs")
    with pytest.warns(RuntimeWarning, match="PyTorch's own function makes a BlockMask: .*erfinv"):
        assert create_block_mask(lambda b, h, i, j: torch.erfinv(0.1 * i) > j, None, None, Q, K) == "theirs"


def test_lists_that_hide_more_than_their_function():
    mask = lambda b, h, i, j: i >= j - 60  # noqa: E731
    whole = theirs.create_block_mask(mask, None, None, Q, K, device="cpu", BLOCK_SIZE=32)
    few = theirs.BlockMask.from_kv_blocks(whole.kv_num_blocks.clamp(max=1), whole.kv_indices, BLOCK_SIZE=32, mask_mod=mask,
                                          seq_lengths=(Q, K))
    listed = torch.repeat_interleave(few.to_dense()[0, 0].bool().repeat_interleave(32, 0)[:Q], 32, 1)[:, :K]
    check(*inputs(), None, lambda b, h, i, j: listed[i, j] & mask(b, h, i, j), few)
    check(*inputs(), None, mask, whole)
    assert [*_known[few].follow.values()] == [False] and [*_known[whole].follow.values()] == [True]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_tensors_of_a_mask_that_change(dtype):
    """What was found out about tiles is not taken for other contents."""
    kinds = torch.zeros(K, dtype=dtype)
    mask = lambda b, h, i, j: kinds[i] == kinds[j]  # noqa: E731
    block_mask = theirs.BlockMask.from_kv_blocks(torch.full((1, 1, 5), 7), torch.arange(7).expand(1, 1, 5, 7), BLOCK_SIZE=32, mask_mod=mask,
                                                 seq_lengths=(Q, K))  # which leaves all to the function
    versions = []
    for contents in (torch.zeros(K), torch.arange(K) // 70, torch.arange(K) // 70, torch.arange(K) // 40 % 2):
        if (kinds != contents).any():
            kinds.copy_(contents)
        check(*inputs(), None, mask, block_mask)
        versions.append(max(version for _, _, version in _known[block_mask].read.values()))
    assert versions[1] == versions[2] and len(set(versions)) == 3


def test_masks_joined_by_pytorch():
    mask = theirs.and_masks(lambda b, h, i, j: i >= j, theirs.or_masks(lambda b, h, i, j: j < 5, lambda b, h, i, j: i - j < width))
    check(*inputs(), None, mask, theirs.create_block_mask(mask, None, None, Q, K, device="cpu"))


def test_other_tensors_and_numbers_compile_nothing():
    q, k, v = (x.detach() for x in inputs())

    def score(biases, factor):
        return lambda s, b, h, i, j: s * factor + biases[h, i, j]

    ours(q, k, v, score(torch.randn(H, Q, K), 2.0), enable_gqa=True)
    builds = clattn.default_context().builds
    biases = torch.randn(H, Q, K)
    o = ours(q, k, v, score(biases, 0.5), enable_gqa=True)
    assert clattn.default_context().builds == builds
    torch.testing.assert_close(o.double(), formula(q, k, v, score(biases, 0.5))[0], rtol=0, atol=1e-5)


def test_half_precision():
    q, k, v = inputs(torch.bfloat16)
    o = ours(q, k, v, lambda s, b, h, i, j: s + table[h, i - j + middle].to(torch.bfloat16), enable_gqa=True)
    want = formula(q, k, v, lambda s, b, h, i, j: s + table[h, i - j + middle])[0]
    torch.testing.assert_close(o, want.to(torch.bfloat16), rtol=3e-2, atol=2e-2)


def t5_bucket(distance):
    """T5's bucket of a distance from query to key, as transformers has it: 32 of them, for distances up to 128."""
    apart = distance.abs()
    far = 8 + (torch.log(apart.float().clamp(1) / 8) / torch.log(torch.tensor(16.0)) * 8).long()
    return (distance > 0) * 16 + torch.where(apart < 8, apart, far.clamp(max=15))


def swin_places(side=7):
    """The place of each pair of a window in the table of relative positions, as Swin has it."""
    y, x = torch.arange(side * side) // side, torch.arange(side * side) % side
    return (y[:, None] - y + side - 1) * (2 * side - 1) + x[:, None] - x + side - 1


buckets, places = t5_bucket(torch.arange(-512, 512)).int(), swin_places().int()


@pytest.mark.parametrize("shape, tokens, score", [
    ((H, 32), 150, lambda table: lambda s, b, h, i, j: s + table[h, buckets[j - i + 512]]),
    ((H, 169), 49, lambda table: lambda s, b, h, i, j: s + table[h, places[i, j]]),
    ((H,), 60, lambda table: lambda s, b, h, i, j: s * torch.exp(0.1 * table[h])),
    ((B, H, 70, 70), 70, lambda table: lambda s, b, h, i, j: torch.tanh(s + table[b, h, i, j]) + table[0, h, j, i]),
])
@pytest.mark.parametrize("causal", [False, True])
def test_captured_tensors_have_gradients(shape, tokens, score, causal):
    q, k, v = (torch.randn(B, n, tokens, D, requires_grad=True) for n in (H, G, G))
    learned = torch.randn(shape, requires_grad=True)
    mask = (lambda b, h, i, j: i >= j) if causal else None
    block_mask = theirs.create_block_mask(mask, None, None, tokens, tokens, device="cpu", BLOCK_SIZE=32) if causal else None
    exact = learned.detach().double().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        o = ours(q, k, v, score(learned), block_mask, enable_gqa=True)
    want, _ = formula(q, k, v, score(exact), mask)
    d_o = torch.randn(o.shape)
    got = torch.autograd.grad(o, (q, k, v, learned), d_o)
    for one, other in zip(got, torch.autograd.grad(want, (q, k, v, exact), d_o.double())):
        torch.testing.assert_close(one.double(), other.double(), rtol=1e-5, atol=2e-4)
    again = torch.autograd.grad(ours(q, k, v, score(learned), block_mask, enable_gqa=True), learned, d_o)[0]
    assert torch.equal(got[3], again)


def test_a_library_function_has_t5s_and_swins_gradients():
    """The functions of the library beside PyTorch's autograd of the published models' own indexing."""
    for name, size, tokens, index in (("t5", 32, 150, buckets[torch.arange(150) - torch.arange(150)[:, None] + 512].long()),
                                      ("swin", 169, 49, places.long())):
        q, k, v = (torch.randn(B, H, tokens, D, requires_grad=True) for _ in range(3))
        learned = torch.randn(H, size, dtype=torch.float64, requires_grad=True)
        source = (pathlib.Path(__file__).parents[4] / "cl" / "functions" / f"{name}.cl").read_text()
        f = clattn.function(source, name)(table=learned.detach().float())
        o, lse = clattn.attention(q.detach(), k.detach(), v.detach(), score_mod=f, return_lse=True)
        d_o = torch.randn(o.shape)
        *_, got = clattn.attention_backward(d_o, q.detach(), k.detach(), v.detach(), o, lse, score_mod=f, gradients=["score_mod"])
        bias = learned[:, index]
        want = (q.double() @ k.double().transpose(-1, -2) * D ** -0.5 + bias).softmax(-1) @ v.double()
        torch.testing.assert_close(o.double(), want, rtol=0, atol=1e-5)
        exact, = torch.autograd.grad(want, learned, d_o.double())
        torch.testing.assert_close(got["table"].double().reshape(H, size), exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("score, reason", [
    (lambda s, b, h, i, j: torch.erfinv(s * 0.1), "erfinv"), (lambda s, b, h, i, j: torch.cumsum(s, -1), "cumsum"),
])
def test_pytorch_computes_what_cannot_be_traced(monkeypatch, score, reason):
    q, k, v = (x.detach() for x in inputs())
    called = []
    monkeypatch.setattr(theirs, "flex_attention", lambda *arguments, **named: called.append(arguments) or "theirs")
    with pytest.warns(RuntimeWarning, match=f"PyTorch's own function computes calls of flex_attention: .*{reason}") as seen:
        assert ours(q, k, v, score, enable_gqa=True) == ours(q, k, v, score, enable_gqa=True) == "theirs"
    assert len(called) == 2 and len(seen) == 1


def test_pytorch_says_what_is_wrong():
    q, k, v = (x.detach() for x in inputs())
    with pytest.raises(ValueError, match="number of heads"):
        ours(q, k, v)


@pytest.mark.parametrize("of_o", (False, True))
def test_lse_is_differentiable(of_o):
    q, k, v = inputs()
    weights = torch.randn(B, H, Q)

    def derive(o, lse):
        loss = (lse.square() * weights).sum() + (o.square().sum() if of_o else 0)
        return torch.autograd.grad(loss, (q, k, v), allow_unused=True, materialize_grads=True)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = derive(*ours(q, k, v, several, enable_gqa=True, return_lse=True))
    for one, exact in zip(got, derive(*formula(q, k, v, several))):
        torch.testing.assert_close(one, exact, rtol=1e-4, atol=2e-4)
