# SPDX-License-Identifier: Apache-2.0
"""torch.nn.functional.scaled_dot_product_attention by clattn's operators: which arguments they take, and how these are laid out."""
from __future__ import annotations

import sys
from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ._torch_execute import Prepared, execute, prepared_of
from ._torch_operators import PLAIN, Recorded, Refused, Transformed, attention, attention_cpu, is_transformed, is_watched, key_of
from ._torch_tally import tally
from ._views import DTYPES

_KEPT = 1024  # forms of arguments that are looked into once
_TANGENT = "{} has a tangent of forward-mode differentiation, which clattn does not compute"
_DTYPES = frozenset(getattr(torch, name) for name in DTYPES)


def is_plain(tensor: Any) -> bool:
    """Whether PyTorch says that the data of a tensor are in its memory: no subclass that acts through __torch_dispatch__, but
    those that PyTorch traces programs with."""
    kind = type(tensor)
    return (kind in PLAIN or kind.__torch_dispatch__ is Tensor.__torch_dispatch__ or
            kind.__module__.startswith("torch._subclasses."))


def causal_of(attn_mask: Any, query: Tensor, key: Tensor) -> Optional[str]:
    """Of a torch.nn.attention.bias.CausalBias, whose memory holds no mask."""
    module = sys.modules.get("torch.nn.attention.bias")
    if module is None or type(attn_mask) is not module.CausalBias:
        return None
    if (attn_mask.seq_len_q, attn_mask.seq_len_kv) != (query.shape[-2], key.shape[-2]):
        return None
    return {module.CausalVariant.UPPER_LEFT: "tl", module.CausalVariant.LOWER_RIGHT: "br"}.get(attn_mask.variant)


class _Form(NamedTuple):
    """How arguments of some shapes and dtypes are given to the operator."""

    own: int  # dimensions at the end of query, key and value that are not broadcast
    lead: Tuple[int, ...]  # of the result, before its last two
    as_they_are: bool  # query, key and value have the operator's four dimensions
    full: Tuple[int, ...]  # the shape of the scores


_forms: Dict[Any, Union[str, _Form]] = {}


def _refusal(tensors: Dict[str, Any], attn_mask: Optional[Tensor], is_causal: bool) -> Optional[str]:
    """Why clattn does not compute this, or None."""
    query = tensors["query"]
    for name, tensor in tensors.items():
        if not tensor.is_cpu or tensor.layout != torch.strided or tensor.is_nested:
            return (f"{name} must be a strided tensor on the CPU, not {'nested, ' if tensor.is_nested else ''}{tensor.layout} on "
                    f"{tensor.device}")
        if not is_plain(tensor):
            return f"{name} is a {type(tensor).__name__}, whose memory need not hold its data"
        if tensor.dtype not in _DTYPES:
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
    if not attn_mask.is_cpu or attn_mask.layout != torch.strided:
        return f"attn_mask must be a strided tensor on the CPU, not {attn_mask.layout} on {attn_mask.device}"
    if not is_plain(attn_mask):
        return f"attn_mask is a {type(attn_mask).__name__}, whose memory need not hold its data"
    if attn_mask.dtype not in (torch.bool, torch.float32, query.dtype):
        return f"attn_mask is of dtype {attn_mask.dtype}, but must be of bool, float32 or {query.dtype}, as query is"
    return None


def _broadcast(*shapes: Tuple[int, ...]) -> Optional[Tuple[int, ...]]:
    """torch.broadcast_shapes(), which imports half of PyTorch's compiler."""
    rank = max([len(shape) for shape in shapes])
    result = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if result[axis] == 1:
                result[axis] = size
            elif size != 1 and size != result[axis]:
                return None
    return tuple(result)


def form_of(query: Any, key: Any, value: Any, attn_mask: Optional[Tensor], is_causal: bool, enable_gqa: bool,
            bias: Optional[Tensor]) -> Union[str, _Form]:
    """How the operator gets these, or a sentence that says why it does not."""
    reason = _refusal(dict(query=query, key=key, value=value), attn_mask, is_causal)
    if reason is not None:
        return reason
    ranks = query.dim(), key.dim(), value.dim()
    own = 3 if enable_gqa and min(ranks) >= 3 else 2
    lead = _broadcast(query.shape[:-own], key.shape[:-own], value.shape[:-own])
    if lead is None:
        return (f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} do not broadcast to one "
                "another before their last two dimensions" + ("" if enable_gqa else "; enable_gqa lets heads be shared"))
    if key.shape[-1] != query.shape[-1] or value.shape[-2] != key.shape[-2]:
        return (f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} do not fit: the last "
                "dimensions of query and key, and the lengths of key and value, must be equal")
    as_they_are = ranks == (4, 4, 4) and all(x.shape[:-own] == lead for x in (query, key, value))
    if own == 3:
        lead = (*lead, query.shape[-3])
    full = (*lead, query.shape[-2], key.shape[-2])
    for name, matrix in (("attn_mask", attn_mask), ("bias", bias)):
        if matrix is not None and _broadcast(matrix.shape, full) != full:
            return f"{name} is of shape {tuple(matrix.shape)}, which does not broadcast to {full}"
    return _Form(own, lead, as_they_are, full)


def _known_form(query: Any, key: Any, value: Any, attn_mask: Optional[Tensor], is_causal: bool, enable_gqa: bool,
                bias: Optional[Tensor]) -> Union[str, _Form]:
    """The same of tensors with numbers for sizes, looked into once."""
    kinds = type(query), type(key), type(value)
    if not (kinds[0] in PLAIN and kinds[1] in PLAIN and kinds[2] in PLAIN and bias is None and
            (attn_mask is None or type(attn_mask) in PLAIN) and query.layout is torch.strided is key.layout is value.layout and
            not (query.is_nested or key.is_nested or value.is_nested)):
        return form_of(query, key, value, attn_mask, is_causal, enable_gqa, bias)
    known = (query.shape, query.dtype, query.is_cpu, key.shape, key.dtype, key.is_cpu, value.shape, value.dtype, value.is_cpu,
             is_causal, enable_gqa,
             attn_mask if attn_mask is None else (attn_mask.shape, attn_mask.dtype, attn_mask.is_cpu, attn_mask.layout))
    form = _forms.get(known)
    if form is None:
        form = form_of(query, key, value, attn_mask, is_causal, enable_gqa, bias)
        if len(_forms) >= _KEPT:
            _forms.clear()
        _forms[known] = form
    return form


def _folded(x: Tensor, form: _Form) -> Tensor:
    """Four dimensions, with the leading ones broadcast as a product of matrices would."""
    if form.own == 2:
        x = x.expand(*form.lead, *x.shape[-2:])
        if not form.lead:
            return x[None, None]
    else:
        x = x.expand(*form.lead[:-1], *x.shape[-3:])
    return x[(None,) * (4 - x.dim())] if x.dim() <= 4 else x.flatten(0, x.dim() - 4)


def _matrix(matrix: Optional[Tensor], form: _Form) -> Optional[Tensor]:
    """A mask or a bias with four dimensions at most, of which those stay 1 that broadcast."""
    if matrix is None or matrix.dim() <= 4:
        return matrix
    return matrix.expand(form.full).flatten(0, len(form.full) - 4)


def _has_tangent(tensor: Any) -> bool:
    return isinstance(tensor, Tensor) and forward_ad.unpack_dual(tensor).tangent is not None


_shortcuts: Dict[Any, Prepared] = {}


def _shortcut_of(query: Any, key: Any, value: Any, attn_mask: Any) -> Any:
    """What distinguishes calls that need no more than to be executed; None where more happens on the way to the operator's
    implementation: gradients, autocast, tracing, profiling, modes and transforms."""
    if (query is None or key is None or value is None or is_watched(query, key, value, attn_mask) or
            torch.is_autocast_enabled("cpu") or forward_ad._current_level >= 0):
        return None
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad or
                         (attn_mask is not None and attn_mask.requires_grad)):
        return None
    if not (query.layout is key.layout is value.layout is torch.strided and
            not (query.is_nested or key.is_nested or value.is_nested)):
        return None
    mask = None
    if attn_mask is not None:
        if attn_mask.layout is not torch.strided:
            return None
        mask = (attn_mask.shape, attn_mask.stride(), attn_mask.dtype)
    return (query.shape, query.stride(), query.dtype, key.shape, key.stride(), key.dtype, value.shape, value.stride(),
            value.dtype, mask)


def _take_next_time(shortcut: Any, prepared: Optional[Prepared]) -> None:
    if prepared is not None:
        if len(_shortcuts) >= _KEPT:
            _shortcuts.clear()
        _shortcuts[shortcut] = prepared


def attend(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor], dropout_p: float,
           is_causal: bool, scale: Optional[float], enable_gqa: bool, *, causal: Optional[str] = None,
           bias: Optional[Tensor] = None, softcap: Optional[float] = None, sinks: Optional[Tensor] = None,
           transposed: Optional[bool] = None) -> Tensor:
    """PyTorch's function, and what Hugging Face's interface has beyond it. `transposed` says how the result lies in
    memory; None: as PyTorch's would. Raises Refused, or another clattn.Error."""
    compiling = torch.compiler.is_compiling()
    if not (compiling or bias is not None or softcap is not None or sinks is not None or transposed is not None):
        shortcut = _shortcut_of(query, key, value, attn_mask)
        if shortcut is not None:
            shortcut += (dropout_p, is_causal, causal, scale, enable_gqa)
            prepared = _shortcuts.get(shortcut)
            if prepared is not None:
                additive = attn_mask is not None and attn_mask.dtype != torch.bool
                o, = execute(prepared, (query, key, value, None if additive else attn_mask, attn_mask if additive else None, None))
                tally.computed()
                return o
    else:
        shortcut = None
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise Refused(f"{name} must be a tensor, not {type(tensor).__name__}")
    if attn_mask is not None and not isinstance(attn_mask, Tensor):
        raise Refused(f"attn_mask must be a tensor, not {type(attn_mask).__name__}")
    if not isinstance(dropout_p, (int, float, torch.SymFloat)):
        raise Refused(f"dropout_p must be a number, not {dropout_p!r}")
    if forward_ad._current_level >= 0:
        for name, tensor in (("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask)):
            if _has_tangent(tensor):
                raise Refused(_TANGENT.format(name))
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.get_autocast_dtype("cpu")
        query, key, value = (x.to(dtype) if x.dtype == torch.float32 else x for x in (query, key, value))
    form = (form_of if compiling else _known_form)(query, key, value, attn_mask, is_causal or causal is not None, enable_gqa, bias)
    if isinstance(form, str):
        raise Refused(form)
    return attend_in(form, query, key, value, attn_mask, dropout_p, causal or ("tl" if is_causal else None), scale, bias,
                     softcap, sinks, transposed, shortcut)


def attend_in(form: _Form, query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor], dropout_p: float,
              causal: Optional[str], scale: Optional[float], bias: Optional[Tensor] = None, softcap: Optional[float] = None,
              sinks: Optional[Tensor] = None, transposed: Optional[bool] = None, shortcut: Any = None) -> Tensor:
    q, k, v, mask = query, key, value, attn_mask
    if not form.as_they_are:
        q, k, v = _folded(query, form), _folded(key, form), _folded(value, form)
    if mask is not None and mask.dtype != torch.bool:
        mask, bias = None, mask if bias is None else mask + bias
    mask, bias = _matrix(mask, form), _matrix(bias, form)
    if transposed is None:  # as PyTorch's, which takes the order of the query's dimensions where it does not multiply matrices
        heads, seq, dim = q.stride()[1:]
        transposed = (dim == 1 and 0 < heads < seq and query.dim() <= 4 and not dropout_p and q.shape[3] == v.shape[3] and
                      (form.as_they_are or query.dim() == 3) and (bias is None or not bias.requires_grad))
    derived = torch.is_grad_enabled() and (
        q.requires_grad or k.requires_grad or v.requires_grad or (bias is not None and bias.requires_grad) or
        (sinks is not None and sinks.requires_grad))
    seed = torch.randint(0, 2 ** 63 - 1, (), dtype=torch.int64) if dropout_p else None
    arguments = (q, k, v, mask, bias, sinks, seed, causal, scale, softcap, float(dropout_p), transposed)
    if not torch.compiler.is_compiling() and is_transformed():
        o, _ = Transformed.apply(*arguments, True)
    elif is_watched(*arguments[:6]):
        o, _ = attention(*arguments, derived or not torch.compiler.is_compiling())  # a traced program may be derived later
    elif derived:
        o, _ = Recorded.apply(*arguments, True)
    else:
        o, _ = attention_cpu(*arguments, False)
        if shortcut is not None and form.as_they_are and seed is None:
            _take_next_time(shortcut, prepared_of(key_of(*arguments[:6], *arguments[7:], False)))
    return o if form.as_they_are else o.reshape(*form.lead, *o.shape[-2:])
