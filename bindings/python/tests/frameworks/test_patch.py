# SPDX-License-Identifier: Apache-2.0
"""patch(): a program computes what it did, and is told what clattn computed and what not."""
import json
import logging
import os
import subprocess
import sys
import threading
import warnings

import clattn
import clattn.torch
import pytest
import torch
import torch.nn.functional as F
from clattn import _torch_choice, _torch_operators
from clattn.torch import patch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.overrides import TorchFunctionMode

theirs = F.scaled_dot_product_attention
TIME_BOTH = _torch_choice._time_both
HANDLED = {}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(4)


def rand(*shape, grad=False):
    return torch.randn(shape, requires_grad=grad)


def close(got, want, atol=1e-5):
    torch.testing.assert_close(got, want, rtol=1e-4, atol=atol)


@pytest.mark.parametrize("make", [causal_upper_left, causal_lower_right])
@pytest.mark.parametrize("queries, keys", [(5, 9), (6, 6)])
def test_causal_bias_is_the_mask_that_it_stands_for(make, queries, keys):
    q, k = rand(2, 3, queries, 16), rand(2, 3, keys, 16)
    want = theirs(q, k, k, attn_mask=make(queries, keys))
    with patch(always=True) as patched:
        got = F.scaled_dot_product_attention(q, k, k, attn_mask=make(queries, keys))
    before = clattn.torch.tally.calls
    direct = clattn.torch.scaled_dot_product_attention(q, k, k, attn_mask=make(queries, keys))
    assert clattn.torch.tally.calls == before + 1
    for one in (got, direct):
        assert type(one) is torch.Tensor
        close(one, want)
    assert patched.calls == 1 and not patched.reasons


def test_causal_bias_where_pytorch_computes():
    q, k = rand(2, 3, 5, 16).double(), rand(2, 3, 9, 16).double()
    want = theirs(q, k, k, attn_mask=causal_lower_right(5, 9))
    with pytest.warns(RuntimeWarning, match="float64"), patch():
        close(F.scaled_dot_product_attention(q, k, k, attn_mask=causal_lower_right(5, 9)), want)


def test_causal_bias_of_other_lengths_is_left_to_its_class():
    q, k = rand(2, 3, 5, 16), rand(2, 3, 9, 16)
    want = theirs(q, k, k, attn_mask=causal_upper_left(7, 7))
    with patch(always=True):
        close(F.scaled_dot_product_attention(q, k, k, attn_mask=causal_upper_left(7, 7)), want)


class Doubling(torch.Tensor):
    """Its memory is half of what it stands for, as only its __torch_function__ knows."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in HANDLED:
            return HANDLED[func](*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})


def _doubled(query, *args, **kwargs):
    return F.scaled_dot_product_attention(query.as_subclass(torch.Tensor) * 2, *args, **kwargs)


HANDLED[theirs] = _doubled


def test_classes_with_a_torch_function_are_asked():
    q, k = rand(2, 3, 5, 16), rand(2, 3, 9, 16)
    want = theirs(q * 2, k, k)
    with patch(always=True) as patched:
        close(F.scaled_dot_product_attention(q.as_subclass(Doubling), k, k), want)
    assert patched.calls == 1
    close(clattn.torch.scaled_dot_product_attention(q.as_subclass(Doubling), k, k), want)


def test_classes_that_only_add_to_tensor_are_computed_as_they_are():
    class Named(torch.Tensor):
        pass

    q, k = rand(2, 3, 5, 16), rand(2, 3, 9, 16)
    with patch(always=True) as patched:
        got = F.scaled_dot_product_attention(q.as_subclass(Named), k, k)
    assert type(got) is Named and patched.calls == 1
    close(got.as_subclass(torch.Tensor), theirs(q, k, k))


def test_a_function_mode_sees_the_call():
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((func == theirs, func is F.scaled_dot_product_attention, func.__name__))
            return func(*args, **(kwargs or {}))

    q = rand(2, 3, 5, 16)
    with patch(always=True) as patched, Mode():
        got = F.scaled_dot_product_attention(q, q, q)
        biased = F.scaled_dot_product_attention(q, q, q, causal_lower_right(5, 5))
    close(got, theirs(q, q, q))
    close(biased, theirs(q, q, q, is_causal=True))
    assert (True, True, "scaled_dot_product_attention") in seen and patched.calls == 2


def test_what_is_kept_beyond_the_patch_is_pytorchs_again():
    q = rand(2, 3, 5, 16)
    with patch(always=True) as patched:
        kept = F.scaled_dot_product_attention
        kept(q, q, q)
    before = clattn.torch.tally.calls
    assert torch.equal(kept(q, q, q), theirs(q, q, q)) and clattn.torch.tally.calls == before and patched.calls == 1


@pytest.mark.parametrize("options, word", [
    (dict(value=(2, 4, 9, 16), enable_gqa=True), "v is of shape"), (dict(scale=float("nan")), "scale"),
    (dict(dropout_p=1.0), "dropout"), (dict(query=(2, 2, 7, 0), key=(2, 2, 9, 0)), "last dimension of 0")])
def test_what_clattn_refuses_pytorch_computes_and_says_so_once(options, word):
    shapes = dict(query=(2, 4, 7, 16), key=(2, 2, 9, 16), value=(2, 2, 9, 16))
    if "enable_gqa" not in options:
        shapes["query"] = (2, 2, 7, 16)
    options = dict(options)
    tensors = {name: rand(*options.pop(name, shape)) for name, shape in shapes.items()}
    want = theirs(**tensors, **options)
    with patch(always=True) as patched:
        with pytest.warns(RuntimeWarning, match=word):
            got = F.scaled_dot_product_attention(**tensors, **options)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            F.scaled_dot_product_attention(**tensors, **options)
        assert not said
        F.scaled_dot_product_attention(*[rand(1, 2, 3, 8)] * 3)
    torch.testing.assert_close(got, want, equal_nan=True)
    assert patched.calls == 1 and patched.handed_over == 2 and list(patched.reasons.values()) == [2]


@pytest.mark.filterwarnings("ignore:.*nested")
@pytest.mark.filterwarnings("ignore:.*clattn computed no attention")
@pytest.mark.parametrize("options", [{}, dict(always=True)], ids=["", "always"])
def test_tensors_of_other_kinds_are_pytorchs(options):
    nested = torch.nested.nested_tensor([torch.randn(3, 6, 16), torch.randn(3, 7, 16)])
    meta = torch.empty(2, 3, 6, 16, device="meta")
    with patch(**options) as patched, pytest.warns(RuntimeWarning, match="nested|meta"):
        got = F.scaled_dot_product_attention(nested, nested, nested)
        assert F.scaled_dot_product_attention(meta, meta, meta).shape == meta.shape
    for one, x in zip(got.unbind(), nested.unbind()):
        close(one, theirs(x, x, x))
    assert patched.handed_over == 2


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_transforms_and_default_devices_within_the_patch():
    q, k = rand(3, 2, 2, 6, 16), rand(2, 2, 9, 16)

    def wanted(attention):
        return torch.func.vmap(torch.func.grad(lambda q: attention(q, k, k).square().sum()))(q)

    want = wanted(theirs)
    for options in ({}, dict(always=True)):
        with patch(**options) as patched, torch.device("cpu"):
            close(wanted(F.scaled_dot_product_attention), want)
            F.scaled_dot_product_attention(k, k, k)
        assert patched.calls >= 1


def test_threads_compute_what_one_does():
    inputs = [(rand(1, 2, 3 + n % 5, 8), rand(1, 2, 7, 8)) for n in range(40)]
    want = [theirs(q, k, k) for q, k in inputs]
    got = {}

    def work(offset):
        with torch.no_grad():
            for n in range(offset, 40, 4):
                for _ in range(10):
                    got[n] = F.scaled_dot_product_attention(inputs[n][0], inputs[n][1], inputs[n][1])

    with patch(always=True) as patched:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert patched.calls == 400
    for n, o in enumerate(want):
        close(got[n], o)


def test_what_the_driver_fails_at_pytorch_computes(monkeypatch):
    def fail(*_):
        raise clattn.OpenCLError("clEnqueueNDRangeKernel: error -5")

    q = rand(1, 2, 5, 16, grad=True)
    want = torch.autograd.grad(theirs(q, q, q).square().sum(), q)[0]
    with patch(always=True):
        o = F.scaled_dot_product_attention(q, q, q)
        monkeypatch.setattr(_torch_operators.execution, "execute", fail)
        with pytest.warns(RuntimeWarning, match="error -5"):
            close(torch.autograd.grad(o.square().sum(), q)[0], want)
        with pytest.warns(RuntimeWarning, match="error -5"):
            close(F.scaled_dot_product_attention(q, q, q), o)


def test_mistakes_are_pytorchs_to_name():
    with warnings.catch_warnings(record=True) as said, patch():
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError, match="Expected size"):
            F.scaled_dot_product_attention(rand(2, 3, 5, 16), rand(2, 3, 9, 8), rand(2, 3, 9, 8))
        F.scaled_dot_product_attention(rand(2, 3, 5, 16), rand(2, 3, 9, 16), rand(2, 3, 9, 16))
        clattn.torch.scaled_dot_product_attention(*[rand(1, 2, 3, 8)] * 3)
    assert not said


def run(program, **environment):
    told = subprocess.run([sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True,
                          timeout=300)
    assert told.returncode == 0, told.stderr
    return told.stdout


def test_a_child_of_fork_is_computed_by_pytorch():
    out = run("""
import os, warnings, torch, clattn.torch
import torch.nn.functional as F
warnings.simplefilter("ignore", DeprecationWarning)
q = torch.randn(1, 2, 3, 8)
with clattn.torch.patch(always=True):
    want = F.scaled_dot_product_attention(q, q, q)
    clattn.torch.tally.lock.acquire()  # as another thread may at the time
    if os.fork() == 0:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            ok = torch.allclose(F.scaled_dot_product_attention(q, q, q), want, atol=1e-5)
        print(ok, "fork" in str(said[0].message), clattn.torch.tally.lock.locked(), flush=True)
        os._exit(0)
    clattn.torch.tally.lock.release()
    os.wait()
""")
    assert out.split() == ["True", "True", "False"]


def test_without_a_device_patch_and_register_say_so_and_pytorch_computes():
    out = run("""
import warnings, torch, clattn.torch
import torch.nn.functional as F
q = torch.randn(1, 2, 3, 8)
want = F.scaled_dot_product_attention(q, q, q)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    with clattn.torch.patch() as patched:
        print(torch.equal(F.scaled_dot_product_attention(q, q, q), want), patched.calls, patched.handed_over)
    clattn.torch.register()
    from transformers import AttentionInterface
    module = torch.nn.Module()
    o, _ = AttentionInterface()["clattn"](module, q, q, q, None, is_causal=False)
    print(torch.equal(o.transpose(1, 2), want))
print(sum("there is no OpenCL" in str(one.message) for one in said if "computes nothing" in str(one.message)),
      sum("there is no OpenCL" in str(one.message) for one in said if "are computed by PyTorch" in str(one.message)))
""", OCL_ICD_VENDORS="/nonexistent", CLATTN_DEVICE="")
    assert out.split() == ["True", "0", "1", "True", "1", "1"]


def test_patches_that_overlap_end_with_the_last():
    one, other = patch(), patch()
    one.__enter__()
    other.__enter__()
    one.__exit__(ValueError, None, None)
    assert F.scaled_dot_product_attention is not theirs
    other.__exit__(ValueError, None, None)
    assert F.scaled_dot_product_attention is theirs


def test_patches_of_threads_are_counted():
    begun, leave = threading.Barrier(5), threading.Barrier(4)
    q, within = rand(1, 2, 3, 8), []

    def work():
        with patch(always=True):
            begun.wait()
            F.scaled_dot_product_attention(q, q, q)
            within.append(F.scaled_dot_product_attention is not theirs)
            leave.wait()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    begun.wait()
    for thread in threads:
        thread.join()
    assert within == [True] * 4 and F.scaled_dot_product_attention is theirs


def test_what_another_puts_there_meanwhile_stays():
    def another(*args, **kwargs):
        return theirs(*args, **kwargs)

    one = patch()
    one.__enter__()
    try:
        F.scaled_dot_product_attention = another
        one.__exit__(ValueError, None, None)
        assert F.scaled_dot_product_attention is another
    finally:
        F.scaled_dot_product_attention = theirs


def layouts():
    yield rand(2, 4, 6, 16)
    yield rand(2, 6, 4, 16).transpose(1, 2)
    yield rand(2, 6, 4, 48)[..., :16].transpose(1, 2)
    yield rand(2, 4, 6, 48)[..., :16]
    yield rand(2, 4, 16, 6).transpose(2, 3)
    yield rand(1, 1, 6, 16).expand(2, 4, 6, 16)
    yield rand(2, 1, 6, 16)
    yield rand(6, 4, 16).transpose(0, 1)
    yield rand(2, 3, 6, 4, 16).transpose(2, 3)
    yield rand(6, 16)


@pytest.mark.parametrize("options", [{}, dict(dropout_p=0.1), dict(attn_mask="learned"), dict(attn_mask="bool")],
                         ids=["plain", "dropout", "learned", "bool"])
def test_results_lie_in_memory_as_pytorchs_do(options):
    options = dict(options)
    if options.get("attn_mask") == "learned":
        options["attn_mask"] = rand(6, 9, grad=True)
    elif options:
        options.update(attn_mask=torch.rand(6, 9) < 0.5) if "attn_mask" in options else None
    for q in layouts():
        k = rand(*q.shape[:-3], *((4,) if q.dim() > 2 else ()), 9, 16)
        for v in (k, k[..., :8]):
            want = theirs(q, k, v, **options)
            with patch(always=True) as patched:
                assert F.scaled_dot_product_attention(q, k, v, **options).stride() == want.stride()
            assert patched.calls == 1


def test_choices_that_exclude_flash_attention_are_kept():
    q = rand(1, 2, 3, 8)
    with patch(always=True) as patched:
        with sdpa_kernel(SDPBackend.MATH):
            F.scaled_dot_product_attention(q, q, q)
        F.scaled_dot_product_attention(q, q, q)
    assert patched.calls == 1 and patched.handed_over == 1 and "sdpa_kernel" in list(patched.reasons)[0]


@pytest.mark.parametrize("options", [{}, dict(is_causal=True), dict(attn_mask="bool"), dict(attn_mask="learned")],
                         ids=["plain", "causal", "bool", "learned"])
def test_gradients_of_gradients(options):
    q, k, v = rand(2, 3, 6, 16, grad=True), rand(2, 3, 6, 16, grad=True), rand(2, 3, 6, 8, grad=True)
    options, inputs = dict(options), [q, k, v]
    if options.get("attn_mask") == "bool":
        options["attn_mask"] = torch.rand(6, 6) < 0.6
        options["attn_mask"][2] = False
    elif "attn_mask" in options:
        options["attn_mask"] = rand(1, 3, 6, 6, grad=True)
        inputs.append(options["attn_mask"])

    def penalty(function):
        o = function(q, k, v, **options)
        first = torch.autograd.grad(o.square().sum(), inputs, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), inputs)

    with sdpa_kernel(SDPBackend.MATH):
        want = penalty(theirs)
    for got, expected in zip(penalty(clattn.torch.scaled_dot_product_attention), want):
        close(got, expected, atol=1e-3)


def test_gradients_of_gradients_with_dropout_are_refused():
    q = rand(1, 2, 6, 8, grad=True)
    gradient, = torch.autograd.grad(clattn.torch.scaled_dot_product_attention(q, q, q, dropout_p=0.5).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="gradients of gradients are wanted"):
        gradient.sum().backward()


@pytest.mark.filterwarnings("ignore:.*torch.jit:")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripting_takes_pytorchs_function():
    class Module(torch.nn.Module):
        def forward(self, q: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(q, q, q)

    q = rand(1, 2, 5, 8)
    with patch(always=True) as patched:
        scripted = torch.jit.script(Module())
        close(scripted(q), theirs(q, q, q))
        F.scaled_dot_product_attention(q, q, q)
    assert patched.calls == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_tracing_takes_the_operator():
    class Module(torch.nn.Module):
        def forward(self, q):
            return F.scaled_dot_product_attention(q, q, q)

    q = rand(1, 2, 5, 8, grad=True)
    with patch(always=True):
        traced = torch.jit.trace(Module(), (q,))
    assert "clattn::attention" in str(traced.graph) and "PythonOp" not in str(traced.graph)
    want, = torch.autograd.grad(theirs(q, q, q).square().sum(), q)
    close(torch.autograd.grad(traced(q).square().sum(), q)[0], want)


def test_compiled_without_a_break_within_the_patch():
    q, k = rand(2, 3, 5, 16), rand(2, 3, 9, 16)
    mask = torch.rand(5, 9) < 0.5
    double = q.double()

    def model(q, k, double):
        return (F.scaled_dot_product_attention(q, k, k, mask) + F.scaled_dot_product_attention(q, k, k, is_causal=True),
                F.scaled_dot_product_attention(double, double, double))

    want = model(q, k, double)
    torch._dynamo.reset()
    with patch() as patched:
        got = torch.compile(model, fullgraph=True, backend="aot_eager")(q, k, double)
    torch._dynamo.reset()
    for one, other in zip(got, want):
        close(one, other)
    assert patched.calls == 2


def test_operations_are_counted():
    from torch.utils.flop_counter import FlopCounterMode

    q, k = rand(1, 4, 8, 16, grad=True), rand(1, 4, 8, 16)

    def count():
        with FlopCounterMode(display=False) as counter:
            F.scaled_dot_product_attention(q, k, k).sum().backward()
        return counter.get_total_flops()

    want = count()
    with patch(always=True) as patched:
        assert count() == want > 0
    assert patched.calls == 1


def test_pytorchs_encoder_in_evaluation_is_computed():
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    attention = torch.nn.MultiheadAttention(32, 4, batch_first=True).eval()
    x = rand(2, 5, 32)
    enabled = torch.backends.mha.get_fastpath_enabled
    with torch.no_grad():
        want = layer(x), attention(x, x, x, need_weights=False)[0]
        with patch(always=True) as patched:
            got = layer(x), attention(x, x, x, need_weights=False)[0]
            assert not torch.backends.mha.get_fastpath_enabled()
    for one, other in zip(got, want):
        close(one, other)
    assert patched.calls == 2 and torch.backends.mha.get_fastpath_enabled is enabled and enabled()


def _weighing(layer, x, kwargs, shape=None):
    """What a layer returns with its weights, and gradients of all its parameters and x."""
    x = x.detach().requires_grad_()
    o, weights = layer(x, x, x, **kwargs)
    if shape is not None:
        assert weights.shape == shape and weights.dtype == x.dtype
    torch.manual_seed(9)
    loss = (o * torch.randn_like(o)).sum() + (weights * torch.randn_like(weights)).sum()
    return o, weights, *torch.autograd.grad(loss, [x, *layer.parameters()])


@pytest.mark.parametrize("make, shape, kwargs", [
    (dict(batch_first=True), (2, 9, 32), {}),
    (dict(), (9, 2, 32), dict(key_padding_mask=torch.tensor([[False] * 9, [False] * 6 + [True] * 3]))),
    (dict(batch_first=True, add_bias_kv=True), (2, 9, 32), dict(attn_mask=torch.ones(9, 9, dtype=torch.bool).triu(1))),
    (dict(add_zero_attn=True), (9, 2, 32), dict(attn_mask=torch.linspace(-1, 1, 8 * 81).view(8, 9, 9))),
    (dict(), (9, 32), dict(attn_mask=torch.ones(9, 9, dtype=torch.bool).triu(1), is_causal=True))])
def test_weights_of_multihead_attention_are_means_over_heads(make, shape, kwargs):
    layer, x = torch.nn.MultiheadAttention(32, 4, **make), rand(*shape)
    keys = 9 + ("add_bias_kv" in make) + ("add_zero_attn" in make)
    want = _weighing(layer, x, kwargs)
    with patch(always=True) as patched:
        got = _weighing(layer, x, kwargs, (9, keys) if len(shape) == 2 else (2, 9, keys))
    for one, other in zip(got, want):
        close(one, other)
    assert patched.calls == 1 and not patched.reasons
    with torch.no_grad(), patch(always=True) as patched:
        for one, other in zip(layer.eval()(x, x, x, **kwargs), want[:2]):
            close(one, other)
    assert patched.calls == 1


def test_gradients_of_gradients_through_returned_weights():
    layer, x = torch.nn.MultiheadAttention(8, 2), rand(4, 1, 8, grad=True)

    def second():
        o, weights = layer(x, x, x)
        first, = torch.autograd.grad((o.square().sum() + weights.square().sum()), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    want = second()
    with patch(always=True):
        close(second(), want, 1e-4)


@pytest.mark.filterwarnings("ignore:.*clattn computed no attention")
@pytest.mark.parametrize("make, kwargs, dtype, word", [
    (dict(dropout=0.5), {}, torch.float32, "dropout"),
    (dict(), dict(average_attn_weights=False), torch.float32, "each head"), (dict(), {}, torch.float64, "float64")])
def test_weights_that_pytorch_computes(make, kwargs, dtype, word):
    layer, x = torch.nn.MultiheadAttention(32, 4, dtype=dtype, **make), rand(9, 2, 32).to(dtype)
    torch.manual_seed(5)
    want = layer(x, x, x, **kwargs)
    torch.manual_seed(5)
    with patch(always=True) as patched, pytest.warns(RuntimeWarning, match=word):
        got = layer(x, x, x, **kwargs)
    for one, other in zip(got, want):
        close(one, other)
    assert patched.handed_over == 1 and not patched.calls


@pytest.mark.filterwarnings("ignore:.*torch.jit:")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*watches what is computed")
def test_weights_where_programs_are_watched_or_compiled():
    layer, x = torch.nn.MultiheadAttention(32, 4).eval(), rand(9, 2, 32)
    want = layer(x, x, x)
    torch._dynamo.reset()
    with patch(always=True) as patched:
        with torch.device("cpu"):
            got = [layer(x, x, x)]
        assert patched.calls == 1
        got.append(torch.jit.script(layer)(x, x, x))
        got.append(torch.compile(layer, fullgraph=True, backend="aot_eager")(x, x, x))
        with torch.autograd.profiler.profile():
            got.append(layer(x, x, x))
        assert patched.handed_over == 1
        with pytest.raises(RuntimeError, match="is_causal"):
            layer(x, x, x, is_causal=True)
        with pytest.raises(RuntimeError, match="attn_mask"):
            layer(x, x, x, attn_mask=torch.zeros(3, 3))
        assert not clattn.torch._weights.wanted
    torch._dynamo.reset()
    for pair in got:
        for one, other in zip(pair, want):
            close(one, other)


def test_small_weights_are_pytorchs_where_it_is_sooner(fresh_choice, monkeypatch):
    fresh_choice()
    taken = []
    monkeypatch.setattr(_torch_choice, "by_products", lambda *a: taken.append("theirs"))
    monkeypatch.setattr(_torch_choice, "attend_with_weights", lambda *a: taken.append("ours"))
    monkeypatch.setattr(_torch_choice, "_time_both", TIME_BOTH)
    layer, x = torch.nn.MultiheadAttention(32, 4).eval(), rand(9, 2, 32)
    want = layer(x, x, x)
    with torch.no_grad(), patch() as patched:
        for one, other in zip(layer(x, x, x), want):
            close(one, other)
    assert {"theirs", "ours"} == set(taken) and patched.calls + patched.handed_over == 1


@pytest.mark.filterwarnings("ignore:.*nested")
def test_what_pytorchs_encoder_has_at_padding_stays():
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2).eval()
    x, padding = rand(2, 5, 32), torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    with torch.no_grad():
        want, full = encoder(x, src_key_padding_mask=padding), encoder(x)
        with patch(always=True) as patched:
            F.scaled_dot_product_attention(*[x[:, None]] * 3)
            close(encoder(x, src_key_padding_mask=padding), want)
            assert patched.calls == 1
            close(encoder(x), full)
    assert (want[1, 3:] == 0).all() and patched.calls == 3


def test_nothing_computed_is_said():
    with pytest.warns(RuntimeWarning, match="clattn computed no attention.*nothing called"):
        with patch():
            pass
    double = rand(1, 2, 3, 8).double()
    with pytest.warns(RuntimeWarning, match="clattn computed no attention.*float64"):
        with patch() as patched:
            F.scaled_dot_product_attention(double, double, double)
    assert patched.calls == 0 and patched.handed_over == 1
    with pytest.raises(KeyError), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with patch():
            raise KeyError
    assert not said


def test_nothing_fails_where_warnings_are_errors():
    double = rand(1, 2, 3, 8).double()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with patch() as patched:
            assert torch.equal(F.scaled_dot_product_attention(double, double, double), theirs(double, double, double))
    assert patched.handed_over == 1 and F.scaled_dot_product_attention is theirs


def test_the_first_call_of_each_reason_is_logged(caplog):
    double = rand(1, 2, 3, 8).double()
    with caplog.at_level(logging.INFO, "clattn"), pytest.warns(RuntimeWarning):
        with patch():
            for _ in range(3):
                F.scaled_dot_product_attention(double, double, double)
    assert sum("float64" in record.message for record in caplog.records) == 1


@pytest.mark.filterwarnings("ignore:.*checkpoint")
def test_checkpoints_are_computed_anew_within_the_patch():
    from torch.utils.checkpoint import checkpoint

    q = rand(1, 2, 5, 8, grad=True)
    want, = torch.autograd.grad(theirs(q, q, q).square().sum(), q)
    with patch(always=True) as patched:
        o = checkpoint(lambda q: F.scaled_dot_product_attention(q, q, q), q, use_reentrant=False)
        close(torch.autograd.grad(o.square().sum(), q)[0], want)
    assert patched.calls == 2


def test_it_decorates_functions():
    @patch(always=True)
    def model(q):
        return F.scaled_dot_product_attention(q, q, q), F.scaled_dot_product_attention is theirs

    q = rand(1, 2, 3, 8)
    for _ in range(2):
        o, is_theirs = model(q)
        close(o, theirs(q, q, q))
        assert not is_theirs


def test_the_first_call_imports_no_compiler():
    out = run("""
import sys, torch, clattn.torch
q = torch.randn(1, 2, 3, 8, requires_grad=True)
with clattn.torch.patch(always=True):
    torch.nn.functional.scaled_dot_product_attention(q, q, q, torch.randn(3, 3)).sum().backward()
print([name for name in ("torch._dynamo", "torch._inductor", "sympy") if name in sys.modules])
""")
    assert out.strip() == "[]"


@pytest.fixture
def fresh_choice(tmp_path, monkeypatch):
    """A machine on which nothing was measured yet; of which the least microseconds are what a test says."""
    monkeypatch.setenv("CLATTN_CACHE_DIR", str(tmp_path))
    measured = []
    monkeypatch.setattr(_torch_choice, "_time_both", lambda theirs, q, *rest: (measured.append(q.dtype), times[q.dtype])[1])
    times = {torch.float32: [10.0, 20.0], torch.bfloat16: [20.0, 10.0]}

    def make():
        monkeypatch.setattr(clattn.torch, "choice", _torch_choice.Choice())
        return measured
    return make


def test_what_pytorch_computes_sooner_is_left_to_it(fresh_choice, tmp_path):
    q = rand(1, 2, 3, 8)

    def calls(q, **options):
        with patch(**options) as patched:
            for _ in range(3):
                F.scaled_dot_product_attention(q, q, q)
        return patched.calls, patched.handed_over

    measured = fresh_choice()
    assert calls(q) == (0, 3) and calls(q.bfloat16()) == (3, 0) and calls(q, always=True) == (3, 0)
    assert measured == [torch.float32, torch.bfloat16]
    fresh_choice()  # another process
    assert calls(q) == (0, 3) and calls(q.bfloat16()) == (3, 0) and len(measured) == 2
    large = rand(1, 1, 1, 16).expand(1, 64, 4096, 16)
    assert not clattn.torch.choice.is_theirs(theirs, large, large, large, None, 0.0, False, None, False)
    for text in ("{", "[1]", '{"a": {"b": [1]}}', json.dumps({"another machine": {}})):
        (tmp_path / "torch.json").write_text(text)
        fresh_choice()
        assert calls(q) == (0, 3)


def test_pytorchs_fast_path_is_taken_where_it_is_sooner(fresh_choice):
    fresh_choice()
    layer, x = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), rand(2, 5, 32)
    taken = []
    fast = torch._transformer_encoder_layer_fwd
    torch._transformer_encoder_layer_fwd = lambda *a: (taken.append(1), fast(*a))[1]
    try:
        with torch.no_grad(), patch() as patched:
            got = [layer(x) for _ in range(3)]
    finally:
        torch._transformer_encoder_layer_fwd = fast
    assert len(taken) == 2 and patched.handed_over == 3 and patched.calls == 0
    close(got[0], got[1])


def test_both_are_really_timed():
    q = rand(1, 2, 3, 8)
    before = clattn.torch.tally.calls
    by_theirs, by_ours = _torch_choice._time_both(theirs, q, q, q, None, False, None, False)
    assert by_theirs > 0 and by_ours > 0 and clattn.torch.tally.calls == before
