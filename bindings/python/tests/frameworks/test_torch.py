# SPDX-License-Identifier: Apache-2.0
"""clattn.torch under PyTorch: the function's own expectations, gradients, compilation, patching."""
import subprocess
import sys

import clattn.torch
import pytest
import torch
import torch.nn.functional as F
from clattn._transformers import attention_forward
from clattn.torch import scaled_dot_product_attention as ours

theirs = F.scaled_dot_product_attention
TOLERANCE = {torch.float32: dict(rtol=2e-5, atol=2e-6), torch.float16: dict(rtol=4e-3, atol=2e-3),
             torch.bfloat16: dict(rtol=3e-2, atol=2e-2)}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(3)


def rand(*shape, dtype=torch.float32, grad=False):
    return torch.randn(shape).to(dtype).requires_grad_(grad)


def same(got, want, dtype=torch.float32):
    assert got.shape == want.shape and got.dtype == want.dtype
    torch.testing.assert_close(got, want, **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "additive"])
def test_values_and_gradients(dtype, mask):
    """In half precision the answer is PyTorch's in f32 on the same values."""
    q, k, v = (rand(2, 3, n, 16, dtype=dtype, grad=True) for n in (6, 9, 9))
    attn_mask = None
    if mask == "bool":
        attn_mask = torch.rand(2, 1, 6, 9) < 0.7
        attn_mask[0, 0, 2] = False
    elif mask == "additive":
        attn_mask = rand(3, 6, 9, dtype=dtype, grad=True)
    inputs = [q, k, v] + ([attn_mask] if mask == "additive" else [])
    exact = [x.detach().float().requires_grad_() for x in inputs]
    o = ours(q, k, v, attn_mask, is_causal=mask == "causal")
    want = theirs(*exact[:3], exact[3] if mask == "additive" else attn_mask, is_causal=mask == "causal")
    same(o, want.to(dtype), dtype)
    d_o = rand(*o.shape, dtype=dtype)
    for got, expected in zip(torch.autograd.grad(o, inputs, d_o), torch.autograd.grad(want, exact, d_o.float())):
        same(got, expected.to(dtype), dtype)


@pytest.mark.parametrize("shapes, mask", [
    (((6, 16), (9, 16), (9, 8)), (6, 9)), (((3, 6, 16), (3, 9, 16), (3, 9, 8)), (9,)),
    (((2, 3, 6, 16), (3, 9, 16), (9, 8)), (6, 1)), (((2, 1, 6, 16), (1, 3, 9, 16), (2, 3, 9, 8)), (2, 1, 1, 9)),
    (((2, 2, 3, 6, 16), (2, 1, 3, 9, 16), (2, 2, 3, 9, 8)), (2, 1, 1, 6, 9)), (((0, 3, 6, 16), (0, 3, 9, 16), (0, 3, 9, 8)), None),
    (((1, 3, 0, 16), (1, 3, 9, 16), (1, 3, 9, 8)), None),
])
def test_shapes_that_broadcast(shapes, mask):
    q, k, v = (rand(*shape, grad=True) for shape in shapes)
    attn_mask = None if mask is None else rand(*mask)
    got, want = ours(q, k, v, attn_mask), theirs(q, k, v, attn_mask)
    same(got, want)
    d_o = torch.randn(got.shape)
    for one, other in zip(torch.autograd.grad(got, (q, k, v), d_o), torch.autograd.grad(want, (q, k, v), d_o)):
        same(one, other)


def test_grouped_heads_scale_and_strides():
    packed = rand(2, 7, 10, 16, grad=True)
    q, k, v = (x.transpose(1, 2) for x in packed.split((6, 2, 2), dim=2))
    got = ours(q, k, v, scale=0.3, is_causal=True, enable_gqa=True)
    want = theirs(q, k, v, scale=0.3, is_causal=True, enable_gqa=True)
    same(got, want)
    assert got.transpose(1, 2).is_contiguous()
    d_o = rand(*got.shape)
    same(*(torch.autograd.grad(o, packed, d_o)[0] for o in (got, want)))
    expanded = rand(1, 1, 1, 1, grad=True).expand(2, 3, 4, 16)  # strides of 0 along every axis
    same(ours(expanded, expanded, expanded), theirs(expanded, expanded, expanded))


def test_nothing_is_copied(monkeypatch):
    """The library gets the addresses of the tensors themselves."""
    from clattn import _torch_execute as execution

    q, k, v = (rand(2, 3, 6, 16).transpose(0, 1) for _ in range(3))
    ours(q, k, v)
    seen, call = set(), execution._functions.call_on_host
    monkeypatch.setattr(execution._functions, "call_on_host", lambda *a: (seen.update(a[4]), call(*a))[1])
    o = ours(q, k, v)
    assert seen == {x.data_ptr() for x in (q, k, v, o)}


@pytest.mark.parametrize("change", [
    dict(query=torch.zeros(16)), dict(key=torch.zeros(2, 3, 9, 8)),
    dict(key=torch.zeros(2, 2, 9, 16)), dict(attn_mask=torch.zeros(5, 9)), dict(attn_mask=torch.zeros(6, 9, dtype=torch.int32)),
    dict(attn_mask=torch.zeros(6, 9), is_causal=True), dict(key=torch.zeros(2, 3, 9, 16, dtype=torch.float16)),
    dict(query=torch.zeros(2, 3, 6, 16).to_sparse()), dict(query=torch.zeros(2, 3, 6, 16, device="meta")),
])
def test_what_pytorch_refuses_is_refused(change):
    arguments = dict(query=rand(2, 3, 6, 16), key=rand(2, 3, 9, 16), value=rand(2, 3, 9, 16))
    arguments.update(change)
    with pytest.raises(Exception):
        theirs(**arguments)
    with pytest.raises(RuntimeError) as raised:
        ours(**arguments)
    assert isinstance(raised.value, clattn.Error) and any(name in str(raised.value) for name in change)


def test_values_of_another_length_than_keys_are_refused():
    """Which PyTorch's function does not notice."""
    with pytest.raises(RuntimeError, match="lengths of key and value"):
        ours(rand(2, 3, 6, 16), rand(2, 3, 9, 16), rand(2, 3, 8, 16))


def test_attention_itself_has_no_gradients():
    q, k, v = (rand(2, 3, 6, 16) for _ in range(3))
    assert isinstance(clattn.attention(q, k, v), torch.Tensor)
    with pytest.raises(clattn.InvalidArgument, match="k needs a gradient"):
        clattn.attention(q, k.requires_grad_(), v)
    with pytest.raises(clattn.InvalidArgument, match="sinks needs a gradient"):
        clattn.attention(q, v, v, sinks=rand(3, grad=True))


@pytest.mark.filterwarnings("ignore:.*nested")
def test_what_attention_itself_would_misread_is_refused():
    k = rand(2, 3, 6, 16)
    negated = torch.randn(2, 3, 6, 16, dtype=torch.complex64).conj().imag  # whose memory has the other sign
    same(ours(negated, k, k), theirs(negated, k, k))
    with pytest.raises(clattn.InvalidArgument, match="q has the values of its memory negated"):
        clattn.attention(negated, k, k)
    nested = torch.nested.nested_tensor([torch.randn(3, 6, 16), torch.randn(3, 7, 16)])
    with pytest.raises(clattn.InvalidArgument, match="q is of layout torch.strided, nested"):
        clattn.attention(nested, k, k)


@pytest.mark.filterwarnings("ignore:.*double precision")
def test_gradcheck():
    inputs = [rand(1, 2, 3, 8, grad=True) for _ in range(3)] + [rand(3, 3, grad=True)]
    assert torch.autograd.gradcheck(ours, inputs, eps=1e-2, atol=2e-3, rtol=1e-2, nondet_tol=0.0)


def test_tensors_whose_storage_is_gone_are_refused():
    q, k = rand(2, 3, 600, 16), rand(2, 3, 6, 16)
    q.untyped_storage().resize_(64)
    with pytest.raises(clattn.InvalidArgument, match="q reaches beyond its storage"):
        clattn.attention(q, k, k)
    v = torch.clone(k)
    v.untyped_storage().resize_(0)
    with pytest.raises(clattn.InvalidArgument, match="v has elements, but no memory"):
        clattn.attention(k, k, v)


def test_nothing_is_read_beyond_a_storage():
    q, k = rand(2, 3, 600, 16), rand(2, 3, 6, 16)
    for _ in range(2):  # the second time by what the first has prepared
        ours(q, k, k)
    q.untyped_storage().resize_(64)
    v = torch.clone(k)
    v.untyped_storage().resize_(0)
    for arguments, name in (((q, k, k), "q"), ((k, k, v), "v"), ((k.clone().requires_grad_(), k, v), "v")):
        with pytest.raises(clattn.InvalidArgument, match=f"^{name} reaches beyond its storage"):
            ours(*arguments)


def test_what_is_no_tensor_and_no_number_is_refused():
    q = rand(2, 3, 6, 16)
    for change, name in ((dict(attn_mask=[[1]]), "attn_mask must"), (dict(dropout_p="a"), "dropout_p must"),
                         (dict(dropout_p=None), "dropout_p must"), (dict(key=None), "key must")):
        with pytest.raises(RuntimeError, match=name):
            ours(**{**dict(query=q, key=q, value=q), **change})


def test_tangents_are_refused():
    from torch.autograd import forward_ad

    q, tangent = rand(2, 3, 6, 16), rand(2, 3, 6, 16)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(q, tangent)
        for arguments, name in (((dual, q, q), "query"), ((q, q, q, forward_ad.make_dual(rand(6, 6), rand(6, 6))), "attn_mask")):
            with pytest.raises(RuntimeError, match=name + " has a tangent"):
                ours(*arguments)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_transforms_of_torch_func_give_gradients_for_each_sample():
    q, k, v, mask = rand(3, 2, 2, 6, 16), rand(2, 2, 9, 16), rand(2, 2, 9, 16), rand(6, 9)

    def wanted(attention):
        def loss(q, k, v, mask):
            return attention(q, k, v, mask).square().sum()
        return torch.func.vmap(torch.func.grad(loss, argnums=(0, 1, 2, 3)), in_dims=(0, None, None, None))(q, k, v, mask)

    for got, want in zip(wanted(ours), wanted(theirs)):
        same(got, want)


def test_what_transforms_of_torch_func_cannot_have_is_refused():
    q = rand(2, 3, 6, 16)

    def loss(x):
        return ours(x, x, x).square().sum()

    with pytest.raises(RuntimeError, match="has a tangent of forward-mode"):
        torch.func.hessian(loss)(q)


def test_gradients_of_gradients_by_transforms():
    q = rand(2, 3, 6, 16)

    def second(attention):
        return torch.func.grad(lambda x: torch.func.grad(lambda y: attention(y, y, y).square().sum())(x).square().sum())(q)

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        want = second(theirs)
    torch.testing.assert_close(second(ours), want, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype, heads, causal", [(torch.float32, 2, True), (torch.float32, 4, False), (torch.float16, 2, True)])
def test_gradients_of_gradients_by_kernels(monkeypatch, dtype, heads, causal):
    from clattn import _torch_operators as operators
    calls = []

    def counted(*arguments, **options):
        calls.append(options)
        return attention_double_backward(*arguments, **options)

    attention_double_backward = operators.attention_double_backward
    monkeypatch.setattr(operators, "attention_double_backward", counted)
    inputs = [rand(2, n, s, 16).to(dtype).requires_grad_() for n, s in ((heads, 6), (2, 9), (2, 9))]
    weights = [rand(*x.shape).to(dtype) for x in inputs]

    def twice(attention, q, k, v):
        o = attention(q, k, v, is_causal=causal, enable_gqa=True)
        first = torch.autograd.grad(o.square().sum(), (q, k, v), create_graph=True)
        return torch.autograd.grad(sum((x * w.to(x.dtype)).sum() for x, w in zip(first, weights)), (q, k, v))

    got = twice(ours, *inputs)
    assert len(calls) == 1  # no operation of PyTorch's computed it
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        want = twice(theirs, *(x.detach().double().requires_grad_() for x in inputs))
    for one, other in zip(got, want):
        atol = 1e-4 if dtype == torch.float32 else 4e-2
        torch.testing.assert_close(one.double(), other, rtol=1e-4 if dtype == torch.float32 else 2e-2, atol=atol)


def test_the_operators_keep_the_rules_of_torch_library():
    q, k, v = (rand(2, 3, n, 16, grad=True) for n in (6, 9, 9))
    torch.library.opcheck(torch.ops.clattn.attention, 
                          (q, k, v, None, rand(6, 9, grad=True), None, None, None, None, None, 0.0, True, True))


def test_the_operators_lse_has_gradients_and_these_have_theirs():
    q, k, v, bias = rand(2, 3, 6, 16, grad=True), rand(2, 3, 9, 16, grad=True), rand(2, 3, 9, 8, grad=True), rand(6, 9, grad=True)
    inputs, weights = (q, k, v, bias), [rand(*x.shape) for x in (q, k, v, bias)]
    mask = torch.ones(6, 9, dtype=torch.bool)
    mask[2] = False  # lse is -inf, which has no gradient

    def twice(attention):
        o, lse = attention(q, k, v)
        loss = (o.square().sum() + lse[:, :, mask.any(-1)].square().sum())
        first = torch.autograd.grad(loss, inputs, create_graph=True)
        return first, torch.autograd.grad(sum((x * w).sum() for x, w in zip(first, weights)), inputs)

    def exact(q, k, v):
        s = (q.double() @ k.double().transpose(-1, -2) / 4 + bias.double()).masked_fill(~mask, -torch.inf)
        return torch.where(mask.any(-1)[:, None], s, 0.0).softmax(-1).masked_fill(~mask, 0.0) @ v.double(), s.logsumexp(-1)

    def operator(q, k, v):
        return torch.ops.clattn.attention(q, k, v, mask, bias, None, None, None, None, None, 0.0, False, True)

    for got, want in zip(twice(operator), twice(exact)):
        for one, other in zip(got, want):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_the_operator_itself_names_what_has_other_dimensions():
    q = rand(2, 3, 6, 16)
    with pytest.raises(RuntimeError, match="k has 3 dimensions, but must have 4"):
        torch.ops.clattn.attention(q, q[0], q, None, None, None, None, None, None, None, 0.0, True, False)


def test_compiled_without_a_break():
    def model(q, k, v):
        return (ours(q * 2, k, v, is_causal=True) + 1).sum()

    inputs = [rand(2, 3, 6, 16, grad=True) for _ in range(3)]
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    want = torch.autograd.grad(model(*inputs), inputs)
    for got, expected in zip(torch.autograd.grad(compiled(*inputs), inputs), want):
        torch.testing.assert_close(got, expected)


def test_dropout_follows_pytorchs_seed():
    q, k, v = (rand(2, 3, 32, 16, grad=True) for _ in range(3))
    torch.manual_seed(1)
    one = ours(q, k, v, dropout_p=0.5)
    torch.manual_seed(1)
    again, other = ours(q, k, v, dropout_p=0.5), ours(q, k, v, dropout_p=0.5)
    assert torch.equal(one, again) and not torch.equal(one, other)
    one.sum().backward()
    kept = ours(q, k, torch.ones_like(v), dropout_p=0.5)
    assert kept.mean().item() == pytest.approx(1.0, abs=0.1)


def test_autocast():
    q, k, v = (rand(2, 3, 6, 16) for _ in range(3))
    with torch.autocast("cpu", torch.bfloat16):
        got, want = ours(q, k, v), theirs(q, k, v)
    same(got, want, torch.bfloat16)


def test_softcap_and_sinks_as_hugging_face_hands_them_over():
    q, k, v = (rand(2, heads, 6, 16, grad=True) for heads in (4, 2, 2))
    sinks = rand(4, grad=True)
    got, _ = attention_forward(torch.nn.Module(), q, k, v, None, softcap=2.0, s_aux=sinks, is_causal=False)
    scores = 2.0 * torch.tanh(q @ k.repeat_interleave(2, 1).transpose(2, 3) * 16 ** -0.5 / 2.0)
    scores = torch.cat([scores, sinks[None, :, None, None].expand(2, 4, 6, 1)], -1)
    want = (scores.softmax(-1)[..., :-1] @ v.repeat_interleave(2, 1)).transpose(1, 2)
    same(got, want)
    d_o = rand(*got.shape)
    for one, other in zip(torch.autograd.grad(got, (q, k, v, sinks), d_o), torch.autograd.grad(want, (q, k, v, sinks), d_o)):
        same(one, other)


@pytest.mark.filterwarnings("ignore:.*float64")
def test_patch_takes_what_it_can_and_leaves_the_rest():
    layer = torch.nn.MultiheadAttention(32, 4, batch_first=True)
    x, double = rand(2, 5, 32, grad=True), torch.randn(1, 2, 3, 8, dtype=torch.float64)
    want, plain = layer(x, x, x, need_weights=False)[0], theirs(double, double, double)
    with clattn.torch.patch(always=True), torch.profiler.profile() as profile:
        same(layer(x, x, x, need_weights=False)[0], want)
        assert torch.equal(F.scaled_dot_product_attention(double, double, double), plain)
    assert [event.key for event in profile.key_averages()].count("clattn::attention") == 1
    assert F.scaled_dot_product_attention is theirs


def test_systems_that_copy_no_process():
    """Such as Windows, which has no os.register_at_fork()."""
    script = "import os, torch; vars(os).pop('register_at_fork', None); import clattn.torch"
    subprocess.run([sys.executable, "-c", script], check=True)
