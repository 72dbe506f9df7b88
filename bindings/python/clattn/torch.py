"""clattn under PyTorch, on CPU tensors and without a copy.

    from clattn.torch import scaled_dot_product_attention      # PyTorch's signature and semantics
    with clattn.torch.patch(): ...                             # every model that calls PyTorch's function
    clattn.torch.register()                                    # Hugging Face: attn_implementation="clattn"

The operators clattn::attention and clattn::attention_backward are custom ones of torch.library: torch.compile
traces them as they are. Gradients of gradients are not there.
"""
from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, Optional, Tuple

import torch
import torch.nn.functional
from torch import Tensor

from . import errors
from ._views import DTYPES
from .attention import attention as _attention
from .attention import attention_backward as _attention_backward

__all__ = ["patch", "register", "scaled_dot_product_attention"]

_theirs = torch.nn.functional.scaled_dot_product_attention


class Refused(errors.InvalidArgument, RuntimeError):
    """Arguments that PyTorch's function would refuse as well, or tensors that clattn does not take."""


def _plain(tensor: Optional[Tensor]) -> Optional[Tensor]:
    """Without autograd, and where all elements are one in memory with a place for each."""
    if tensor is None:
        return None
    tensor = tensor.detach()
    return tensor if any(tensor.stride()) or tensor.numel() <= 1 else tensor.contiguous()


def _options(mask: Optional[Tensor], bias: Optional[Tensor], sinks: Optional[Tensor], seed: Optional[Tensor],
             causal: bool, scale: Optional[float], softcap: Optional[float], dropout: float) -> Dict[str, Any]:
    return dict(causal="tl" if causal else None, mask=None if mask is None else mask.detach(),
                bias=None if bias is None else bias.detach(), sinks=None if sinks is None else sinks.detach().float(),
                scale=scale, softcap=softcap, dropout=dropout, seed=0 if seed is None else int(seed))


def _room(q: Tensor, v: Tensor) -> Tuple[Tensor, Tensor]:
    """o and lse; o lies in memory as (batch, seq, heads, dim), which models go on with."""
    batch, heads, seq, _ = q.shape
    return (q.new_empty((batch, seq, heads, v.shape[-1])).transpose(1, 2),
            q.new_empty((batch, heads, seq), dtype=torch.float32))


def _expect_four(**tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        if tensor.dim() != 4:
            raise Refused(f"{name} has {tensor.dim()} dimensions, but must have 4: batch, heads, sequence and dim")


@torch.library.custom_op("clattn::attention", mutates_args=(), device_types="cpu")
def _forward_op(q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], bias: Optional[Tensor],
                sinks: Optional[Tensor], seed: Optional[Tensor], causal: bool, scale: Optional[float],
                softcap: Optional[float], dropout: float) -> Tuple[Tensor, Tensor]:
    _expect_four(q=q, k=k, v=v)
    o, lse = _room(q, v)
    _attention(_plain(q), _plain(k), _plain(v), out=o, lse=lse,
               **_options(mask, bias, sinks, seed, causal, scale, softcap, dropout))
    return o, lse


@_forward_op.register_fake
def _(q, k, v, mask, bias, sinks, seed, causal, scale, softcap, dropout):
    _expect_four(q=q, k=k, v=v)
    return _room(q, v)


def _gradients(q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor],
               sinks: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (torch.empty_like(q), torch.empty_like(k), torch.empty_like(v),
            torch.empty(0) if bias is None else torch.empty(bias.shape, dtype=bias.dtype),
            torch.empty(0) if sinks is None else torch.empty(sinks.shape, dtype=sinks.dtype))


@torch.library.custom_op("clattn::attention_backward", mutates_args=(), device_types="cpu")
def _backward_op(d_o: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, mask: Optional[Tensor],
                 bias: Optional[Tensor], sinks: Optional[Tensor], seed: Optional[Tensor], causal: bool,
                 scale: Optional[float], softcap: Optional[float], dropout: float, dbias: bool,
                 dsinks: bool) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    _expect_four(d_o=d_o, q=q, k=k, v=v, o=o)
    made = _gradients(q, k, v, bias if dbias else None, sinks if dsinks else None)
    options = _options(mask, bias.contiguous() if dbias and bias is not None else bias, sinks, seed, causal, scale, softcap, dropout)
    further = [name for name, wanted in (("bias", dbias), ("sinks", dsinks)) if wanted]
    got = _attention_backward(_plain(d_o), _plain(q), _plain(k), _plain(v), o.detach(), lse.detach(), out=made[:3],
                              gradients=further, **options)
    for name, gradient in zip(further, got[3:]):
        made[3 if name == "bias" else 4].copy_(gradient)
    return made


@_backward_op.register_fake
def _(d_o, q, k, v, o, lse, mask, bias, sinks, seed, causal, scale, softcap, dropout, dbias, dsinks):
    return _gradients(q, k, v, bias if dbias else None, sinks if dsinks else None)


def _keep(ctx, inputs, output):
    q, k, v, mask, bias, sinks, seed, *ctx.options = inputs
    ctx.save_for_backward(q, k, v, *output, mask, bias, sinks, seed)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _derive(ctx, d_o, _dlse):
    if d_o is None:
        return (None,) * 11
    dbias, dsinks = ctx.needs_input_grad[4], ctx.needs_input_grad[5]
    derive = _TransformedBackward.apply if _is_transformed() else _backward_op
    dq, dk, dv, db, ds = derive(d_o, *ctx.saved_tensors, *ctx.options, dbias, dsinks)
    return dq, dk, dv, None, db if dbias else None, ds if dsinks else None, None, None, None, None, None


_forward_op.register_autograd(_derive, setup_context=_keep)


class _Transformed(torch.autograd.Function):
    """The operator under torch.func's transforms, which do not see what register_autograd() registered."""
    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs):
        return _forward_op(*inputs)

    setup_context = staticmethod(_keep)
    backward = staticmethod(_derive)

    @staticmethod
    def jvp(ctx, *tangents):
        raise Refused("query, key or value has a tangent of forward-mode differentiation, which clattn does not compute")


class _TransformedBackward(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs):
        return _backward_op(*inputs)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *gradients):
        raise Refused("query, key or value: gradients of gradients are wanted, which clattn does not compute")


def _is_transformed() -> bool:
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


def _has_tangent(tensor: Tensor) -> bool:
    from torch.autograd import forward_ad

    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None


def _refusal(tensors: Dict[str, Any], attn_mask: Optional[Tensor], is_causal: bool, dropout_p: float) -> Optional[str]:
    """Why clattn does not compute this, or None."""
    query = tensors["query"]
    if not isinstance(dropout_p, (int, float, torch.SymFloat)):
        return f"dropout_p must be a number, not {dropout_p!r}"
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            return f"{name} must be a tensor, not {type(tensor).__name__}"
        if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.is_nested:
            return (f"{name} must be a strided tensor on the CPU, not {'nested, ' if tensor.is_nested else ''}{tensor.layout} on "
                    f"{tensor.device}")
        if _has_tangent(tensor):
            return f"{name} has a tangent of forward-mode differentiation, which clattn does not compute"
        if str(tensor.dtype)[len("torch."):] not in DTYPES:
            return f"{name} is of dtype {tensor.dtype}; clattn takes {', '.join(DTYPES)}"
        if tensor.dtype != query.dtype:
            return f"{name} is of dtype {tensor.dtype}, but query of {query.dtype}"
        if tensor.dim() < 2:
            return f"{name} has {tensor.dim()} dimensions, but must have at least 2"
        if tensor.shape[-1] == 0:
            return f"{name} has a last dimension of 0"
    if attn_mask is None:
        return None
    if is_causal:
        return "attn_mask must not be given when is_causal is True"
    if not isinstance(attn_mask, Tensor):
        return f"attn_mask must be a tensor, not {type(attn_mask).__name__}"
    if _has_tangent(attn_mask):
        return "attn_mask has a tangent of forward-mode differentiation, which clattn does not compute"
    if attn_mask.device.type != "cpu" or attn_mask.layout != torch.strided:
        return f"attn_mask must be a strided tensor on the CPU, not {attn_mask.layout} on {attn_mask.device}"
    if attn_mask.dtype not in (torch.bool, torch.float32, query.dtype):
        return f"attn_mask is of dtype {attn_mask.dtype}, but must be of bool, float32 or {query.dtype}, as query is"
    return None


def _broadcast(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> Tuple[Tensor, Tensor, Tensor]:
    """Four dimensions each, with the leading ones broadcast as a product of matrices would, and folded."""
    own = 3 if enable_gqa and min(x.dim() for x in (query, key, value)) >= 3 else 2
    try:
        lead = torch.broadcast_shapes(*(x.shape[:-own] for x in (query, key, value)))
    except RuntimeError:
        raise Refused(f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} do not broadcast "
                      "to one another before their last two dimensions" +
                      ("" if enable_gqa else "; enable_gqa lets heads be shared")) from None

    def folded(x: Tensor) -> Tensor:
        x = x.expand(lead + x.shape[-own:])
        if own == 2 and not lead:
            return x[None, None]
        if x.dim() <= 4:
            return x[(None,) * (4 - x.dim())]
        return x.flatten(0, x.dim() - 4)

    return folded(query), folded(key), folded(value)


def _mask_like(attn_mask: Tensor, lead: torch.Size, queries: int, keys: int) -> Tensor:
    """The mask with four dimensions, of which those stay 1 that broadcast."""
    full = lead + (queries, keys)
    try:
        fits = torch.broadcast_shapes(attn_mask.shape, full) == full
    except RuntimeError:
        fits = False
    if not fits:
        raise Refused(f"attn_mask is of shape {tuple(attn_mask.shape)}, which does not broadcast to {tuple(full)}")
    if attn_mask.dim() > 4:
        return attn_mask.expand(full).flatten(0, len(full) - 4)
    return attn_mask[(None,) * (4 - attn_mask.dim())]


def _attend(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor], dropout_p: float, is_causal: bool,
            scale: Optional[float], enable_gqa: bool, softcap: Optional[float] = None,
            sinks: Optional[Tensor] = None) -> Tensor:
    tensors = dict(query=query, key=key, value=value)
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.get_autocast_dtype("cpu")
        query, key, value = (x.to(dtype) if x.dtype == torch.float32 else x for x in (query, key, value))
        tensors = dict(query=query, key=key, value=value)
    reason = _refusal(tensors, attn_mask, is_causal, dropout_p)
    if reason is not None:
        raise Refused(reason)
    q, k, v = _broadcast(query, key, value, enable_gqa)
    if k.shape[-1] != q.shape[-1] or v.shape[-2] != k.shape[-2]:
        raise Refused(f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} do not fit: the "
                      "last dimensions of query and key, and the lengths of key and value, must be equal")
    lead = torch.broadcast_shapes(*(x.shape[:-3] for x in (query, key, value))) + q.shape[1:2] \
        if max(x.dim() for x in (query, key, value)) > 2 else torch.Size()
    if attn_mask is not None:
        attn_mask = _mask_like(attn_mask, lead, q.shape[-2], k.shape[-2])
    additive = attn_mask is not None and attn_mask.dtype != torch.bool
    seed = torch.randint(0, 2 ** 63 - 1, (), dtype=torch.int64) if dropout_p > 0.0 else None
    attend = _Transformed.apply if _is_transformed() else _forward_op
    o, _ = attend(q, k, v, None if additive else attn_mask, attn_mask if additive else None, sinks, seed, is_causal, scale,
                  softcap, dropout_p)
    return o.reshape(lead + o.shape[-2:])


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: Optional[float] = None,
                                 enable_gqa: bool = False) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention on tensors on the CPU: float32, float16 and bfloat16, any
    strides, gradients of query, key, value and a floating-point attn_mask. What it refuses is a RuntimeError."""
    return _attend(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def _ours_or_theirs(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
                    is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False) -> Tensor:
    try:
        return _attend(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    except (Refused, errors.InvalidProblem, errors.Unsupported):
        return _theirs(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


@contextlib.contextmanager
def patch() -> Iterator[None]:
    """Within it torch.nn.functional.scaled_dot_product_attention is clattn's, in all threads. What clattn does not
    take (other devices and dtypes, and mistakes) goes to PyTorch's own function."""
    before = torch.nn.functional.scaled_dot_product_attention
    torch.nn.functional.scaled_dot_product_attention = _ours_or_theirs
    try:
        yield
    finally:
        torch.nn.functional.scaled_dot_product_attention = before


def _hugging_face(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Optional[Tensor],
                  dropout: float = 0.0, scaling: Optional[float] = None, is_causal: Optional[bool] = None,
                  softcap: Optional[float] = None, s_aux: Optional[Tensor] = None, **_others: Any) -> Tuple[Tensor, None]:
    """What AttentionInterface calls: heads of keys are shared as they are, softcap and sinks are the kernel's."""
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    causal = bool(is_causal) and attention_mask is None and query.shape[2] > 1
    o = _attend(query, key, value, attention_mask, dropout, causal, scaling, True, softcap, s_aux)
    return o.transpose(1, 2).contiguous(), None


def register(name: str = "clattn") -> None:
    """Makes attn_implementation=`name` available to the models of Hugging Face's transformers."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(name, _hugging_face)
    AttentionMaskInterface.register(name, sdpa_mask)
