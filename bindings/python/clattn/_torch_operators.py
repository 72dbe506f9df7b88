# SPDX-License-Identifier: Apache-2.0
"""The operators clattn::attention and clattn::attention_backward: what they compute on the CPU, the shapes of what they return,
their gradients, and how many floating-point operations they count for."""
from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula, sdpa_backward_flop_count, sdpa_flop_count

from . import _torch_execute as execution
from . import errors
from .double_backward import attention_double_backward
from ._torch_tally import say, tally


class Refused(errors.InvalidArgument, RuntimeError):
    """Arguments that PyTorch's function would refuse as well, or tensors that clattn does not take."""


PLAIN = frozenset((Tensor, torch.nn.Parameter))
INPUTS = ("q", "k", "v", "mask", "bias", "sinks")
_OPTIONS = "Tensor? mask, Tensor? bias, Tensor? sinks, Tensor? seed, str? causal, float? scale, float? softcap, float dropout"
_INPUTS_BACKWARD = ("d_o", "q", "k", "v", "o", "lse", "dlse", "mask", "bias", "sinks")

_library = torch.library.Library("clattn", "DEF")
# o lies in memory as (batch, seq, heads, dim) if `transposed`; without `lse`, which gradients need, that has no elements.
_library.define(f"attention(Tensor q, Tensor k, Tensor v, {_OPTIONS}, bool transposed, bool lse) -> (Tensor, Tensor)")
_library.define(f"attention_backward(Tensor d_o, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor? dlse, {_OPTIONS}, "
                "bool dbias, bool dsinks) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")
attention = torch.ops.clattn.attention.default
attention_backward = torch.ops.clattn.attention_backward.default


def _expect_four(**tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        if tensor.dim() != 4:
            raise Refused(f"{name} has {tensor.dim()} dimensions, but must have 4: batch, heads, sequence and dim")


def _form(tensor: Optional[Tensor]) -> Any:
    return None if tensor is None else (tensor.shape, tensor.stride(), tensor.dtype)


def room(q: Tensor, v: Tensor, transposed: bool, lse: bool) -> Tuple[Tensor, Tensor]:
    batch, heads, seq, _ = q.shape
    o = (q.new_empty((batch, seq, heads, v.shape[-1])).transpose(1, 2) if transposed else
         q.new_empty((batch, heads, seq, v.shape[-1])))
    return o, q.new_empty((batch, heads, seq) if lse else (0,), dtype=torch.float32)


def key_of(q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], bias: Optional[Tensor], sinks: Optional[Tensor],
           *options: Any) -> Any:
    """Under which what a call needs is kept."""
    return (q.shape, q.stride(), q.dtype, k.shape, k.stride(), k.dtype, v.shape, v.stride(), v.dtype, _form(mask), _form(bias),
            sinks is None, *options)


def _sinks(sinks: Optional[Tensor]) -> Optional[Tensor]:
    return None if sinks is None else sinks.float().contiguous()


def attention_cpu(q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], bias: Optional[Tensor], sinks: Optional[Tensor],
                   seed: Optional[Tensor], causal: Optional[str], scale: Optional[float], softcap: Optional[float],
                   dropout: float, transposed: bool, lse: bool) -> Tuple[Tensor, Tensor]:
    key = key_of(q, k, v, mask, bias, sinks, causal, scale, softcap, dropout, transposed, lse)
    given = (q, k, v, mask, bias, _sinks(sinks))
    prepared = execution.prepared_of(key)
    if prepared is None:
        _expect_four(q=q, k=k, v=v)
        o, kept = room(q, v, transposed, lse)
        prepared = execution.prepare(key, INPUTS, given, dict(o=o, lse=kept) if lse else dict(o=o), causal, scale, softcap,
                                     dropout)
    results = execution.execute(prepared, given, 0 if seed is None else int(seed))
    tally.computed()
    return results[0], results[1] if lse else torch.empty(0)


def _gradients(q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor],
               sinks: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (torch.empty_like(q), torch.empty_like(k), torch.empty_like(v),
            q.new_empty(0, dtype=torch.float32) if bias is None else q.new_empty(bias.shape, dtype=bias.dtype),
            q.new_empty(0, dtype=torch.float32) if sinks is None else q.new_empty(sinks.shape, dtype=sinks.dtype))


def _attention_backward_cpu(d_o: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Optional[Tensor],
                            mask: Optional[Tensor], bias: Optional[Tensor], sinks: Optional[Tensor], seed: Optional[Tensor],
                            causal: Optional[str], scale: Optional[float], softcap: Optional[float], dropout: float,
                            dbias: bool, dsinks: bool) -> Tuple[Tensor, ...]:
    dbias, dsinks = dbias and bias is not None, dsinks and sinks is not None
    if dbias and bias is not None:
        bias = bias.contiguous()
    if dlse is not None:
        dlse = dlse.contiguous()
    key = (d_o.shape, d_o.stride(), d_o.dtype, _form(q), _form(k), _form(v), _form(o), _form(lse), _form(dlse), _form(mask), _form(bias),
           sinks is None, causal, scale, softcap, dropout, dbias, dsinks)
    given = (d_o, q, k, v, o, lse, dlse, mask, bias, _sinks(sinks))
    prepared = execution.prepared_of(key)
    if prepared is None:
        _expect_four(d_o=d_o, q=q, k=k, v=v, o=o)
        made = _gradients(q, k, v, bias if dbias else None, given[-1] if dsinks else None)
        wanted = [("dq", True), ("dk", True), ("dv", True), ("dbias", dbias), ("dsinks", dsinks)]
        prepared = execution.prepare(key, _INPUTS_BACKWARD, given,
                                     {name: one for (name, needed), one in zip(wanted, made) if needed}, causal, scale,
                                     softcap, dropout)
    got = iter(execution.execute(prepared, given, 0 if seed is None else int(seed)))
    dq, dk, dv = next(got), next(got), next(got)
    db = next(got) if dbias else torch.empty(0)
    ds = next(got).to(sinks.dtype) if dsinks and sinks is not None else torch.empty(0)
    return dq, dk, dv, db, ds


def _attention_fake(q, k, v, mask, bias, sinks, seed, causal, scale, softcap, dropout, transposed, lse):
    _expect_four(q=q, k=k, v=v)
    return room(q, v, transposed, lse)


def _attention_backward_fake(d_o, q, k, v, o, lse, dlse, mask, bias, sinks, seed, causal, scale, softcap, dropout, dbias, dsinks):
    return _gradients(q, k, v, bias if dbias else None, sinks if dsinks else None)


_library.impl("attention", attention_cpu, "CPU")
_library.impl("attention_backward", _attention_backward_cpu, "CPU")
torch.library.register_fake("clattn::attention", _attention_fake, lib=_library)
torch.library.register_fake("clattn::attention_backward", _attention_backward_fake, lib=_library)


# Gradients.


def keep(ctx, inputs, output):
    q, k, v, mask, bias, sinks, seed, *options = inputs
    *ctx.options, _transposed, lse = options
    ctx.save_for_backward(q, k, v, *output, mask, bias, sinks, seed)
    if not lse:
        ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def derive(ctx, d_o, dlse):
    if d_o is None and dlse is None:
        return (None,) * 13
    dbias, dsinks = ctx.needs_input_grad[4], ctx.needs_input_grad[5]
    q, k, v, o, lse, *rest = ctx.saved_tensors
    d_o = torch.zeros_like(o) if d_o is None else d_o
    inputs = (d_o, q, k, v, o, lse, dlse, *rest, *ctx.options, dbias, dsinks)
    if inputs[1].shape[:3] != inputs[5].shape:
        raise Refused("clattn::attention was called with lse=False, and so has no gradients")
    operator = (_TransformedBackward.apply if is_transformed() else
                attention_backward if torch.is_grad_enabled() or is_watched(*inputs[:10]) else _attention_backward_cpu)
    try:
        dq, dk, dv, db, ds = operator(*inputs)
    except errors.Error as error:  # a driver that fails, a problem that only forward has kernels for
        if inputs[14]:
            raise
        say(f"PyTorch's operations compute gradients of clattn's attention: {error}", 2)
        dq, dk, dv, db, ds = _gradients_by_formula(*inputs)
    return dq, dk, dv, None, db if dbias else None, ds if dsinks else None, *(None,) * 7


def _scores(q: Tensor, k: Tensor, mask: Optional[Tensor], bias: Optional[Tensor], causal: Optional[str],
            scale: Optional[float], softcap: Optional[float]) -> Tensor:
    s = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    if bias is not None:
        s = s + bias.float()
    visible = torch.ones(s.shape[-2:], dtype=torch.bool)
    if causal is not None:
        visible = visible.tril(s.shape[-1] - s.shape[-2] if causal == "br" else 0)
    return s.masked_fill(~(visible if mask is None else visible & mask.bool()), -torch.inf)


def _shared(x: Tensor, q: Tensor) -> Tensor:
    """Keys or values of each query head, in f32."""
    return x.float().repeat_interleave(q.shape[1] // x.shape[1], 1)


def weights_by_formula(q: Tensor, k: Tensor, mask: Optional[Tensor], bias: Optional[Tensor], sinks: Optional[Tensor],
                       causal: Optional[str], scale: Optional[float], softcap: Optional[float]) -> Tuple[Tensor, Tensor]:
    """The weights of all heads and lse."""
    s = _scores(q.float(), _shared(k, q), mask, bias, causal, scale, softcap)
    seen = (s > -torch.inf).any(-1, keepdim=True)
    s = torch.where(seen, s, 0.0)
    if sinks is not None:
        s = torch.cat([s, sinks.float()[None, :, None, None].expand(*s.shape[:3], 1)], -1)
    weights = torch.where(seen, s.softmax(-1)[..., :k.shape[-2]], 0.0)
    return weights, torch.where(seen, s.logsumexp(-1, keepdim=True), -torch.inf)[..., 0]


def by_formula(q: Tensor, k: Tensor, v: Tensor, *options: Any) -> Tuple[Tensor, Tensor]:
    """What clattn::attention computes, by operations of PyTorch, which can be derived as often as one likes."""
    weights, lse = weights_by_formula(q, k, *options)
    return (weights @ _shared(v, q)).to(q.dtype), lse


def _by_both(o, lse, d_o, dlse):
    """What is derived, and the gradients of it that are given."""
    return ([o], [d_o]) if dlse is None else ([o, lse], [d_o, torch.where(lse.isneginf(), 0.0, dlse)])


def _gradients_by_formula(d_o, q, k, v, _o, _lse, dlse, mask, bias, sinks, _seed, causal, scale, softcap, _dropout, dbias, dsinks):
    with torch.enable_grad():
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
        bias = bias.detach().requires_grad_(dbias) if bias is not None else None
        sinks = sinks.detach().requires_grad_(dsinks) if sinks is not None else None
        made, given = _by_both(*by_formula(q, k, v, mask, bias, sinks, causal, scale, softcap), d_o, dlse)
        got = iter(torch.autograd.grad(made, [q, k, v] + [bias] * dbias + [sinks] * dsinks, given))
    return next(got), next(got), next(got), next(got) if dbias else None, next(got) if dsinks else None


def _keep_backward(ctx, inputs, output):
    d_o, q, k, v, _o, _lse, dlse, mask, bias, sinks, _seed, *ctx.options = inputs
    ctx.save_for_backward(d_o, q, k, v, dlse, mask, bias, sinks)
    ctx.set_materialize_grads(False)


def _second_by_kernels(d_o, q, k, v, further, given, causal, scale):
    """(gq, gk, gv, gdo) where clattn has kernels for them; None where PyTorch's operations compute them: with further
    options, and where they are to be derived once more."""
    given = given[:3]
    if (any(one is not None for one in further) or torch.is_grad_enabled() or is_transformed() or
            is_watched(d_o, q, k, v, *given) or all(g is None for g in given)):
        return None
    d_o, q, k, v, *given = (None if x is None else (x if any(x.stride()) else x.contiguous()).detach() for x in (d_o, q, k, v, *given))
    try:
        return attention_double_backward(d_o, q, k, v, *given, causal=causal, scale=scale)
    except errors.Error as error:  # a driver that fails
        say(f"PyTorch's operations compute gradients of gradients of clattn's attention: {error}", 2)
        return None


def _derive_backward(ctx, *given):
    """Gradients of gradients: what the formula's gradients have as theirs."""
    d_o, q, k, v, dlse, mask, bias, sinks = ctx.saved_tensors
    causal, scale, softcap, dropout, dbias, dsinks = ctx.options
    if dropout:
        raise Refused("query, key or value: gradients of gradients are wanted, which clattn does not compute with dropout")
    second = _second_by_kernels(d_o, q, k, v, (dlse, mask, bias, sinks, softcap or None), given, causal, scale)
    if second is not None:
        return (second[3], *second[:3], *(None,) * 13)
    with torch.enable_grad():
        inputs = [x for x in (d_o, q, k, v, dlse, bias, sinks) if x is not None]
        inputs = [x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in inputs]  # not what they came from
        rest = iter(inputs[4:])
        d_o, q, k, v = inputs[:4]
        dlse, bias, sinks = (None if x is None else next(rest) for x in (dlse, bias, sinks))
        made, tangents = _by_both(*by_formula(q, k, v, mask, bias, sinks, causal, scale, softcap), d_o, dlse)
        wanted = [q, k, v] + ([bias] if dbias else []) + ([sinks] if dsinks else [])
        first = torch.autograd.grad(made, wanted, tangents, create_graph=True)
        given = [*given[:3], *([given[3]] if dbias else []), *([given[4]] if dsinks else [])]
        pairs = [(one, g) for one, g in zip(first, given) if g is not None]
        second = torch.autograd.grad([one for one, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True,
                                     create_graph=torch.is_grad_enabled()) if pairs else [None] * len(inputs)
    rest = iter(second[4:])
    dl, db, ds = (None if x is None else next(rest) for x in (dlse, bias, sinks))
    return (*second[:4], None, None, dl, None, db, ds, *(None,) * 7)


torch.library.register_autograd("clattn::attention", derive, setup_context=keep, lib=_library)
torch.library.register_autograd("clattn::attention_backward", _derive_backward, setup_context=_keep_backward, lib=_library)


class Recorded(torch.autograd.Function):
    """The operator where gradients are wanted and nothing watches, without what register_autograd() spends on the way."""

    @staticmethod
    def forward(ctx, *inputs):
        output = attention_cpu(*inputs)
        keep(ctx, inputs, output)
        return output

    backward = staticmethod(derive)


class Transformed(torch.autograd.Function):
    """The operator under torch.func's transforms, which do not see what register_autograd() registered."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs):
        return attention(*inputs)

    setup_context = staticmethod(keep)
    backward = staticmethod(derive)

    @staticmethod
    def jvp(ctx, *tangents):
        raise Refused("query, key or value has a tangent of forward-mode differentiation, which clattn does not compute")


class _TransformedBackward(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs):
        return attention_backward(*inputs)

    setup_context = staticmethod(_keep_backward)
    backward = staticmethod(_derive_backward)


def is_watched(*tensors: Optional[Tensor]) -> bool:
    """Whether more is to happen at a call than what the implementation on the CPU does: a mode or a profiler that sees it, a
    program that is traced, tensors that are not in memory what they stand for."""
    if (torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or torch._C._are_functorch_transforms_active() or
            torch._C._get_tracing_state() is not None or torch.autograd._profiler_enabled()):
        return True
    return any(x is not None and (type(x) not in PLAIN or not x.is_cpu or x.is_neg()) for x in tensors)


def is_transformed() -> bool:
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


@register_flop_formula(torch.ops.clattn.attention)
def _attention_flop(q, k, v, *options, out_shape=None, **named):
    return sdpa_flop_count(q, (*q[:2], *k[2:]), (*q[:2], *v[2:]))


@register_flop_formula(torch.ops.clattn.attention_backward)
def _attention_backward_flop(d_o, q, k, v, *options, out_shape=None, **named):
    return sdpa_backward_flop_count(d_o, q, (*q[:2], *k[2:]), (*q[:2], *v[2:]))
