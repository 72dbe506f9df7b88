# SPDX-License-Identifier: Apache-2.0
"""torch.nn.attention.flex_attention.flex_attention by clattn, for functions that can be traced."""
from __future__ import annotations

import ctypes
import importlib
import math
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import _declarations as c
from . import errors
from ._library import load, with_reason
from ._tracing import Budget
from ._torch_operators import PLAIN, Refused, is_transformed
from ._torch_tally import tally
from ._types import Blocks
from ._views import DTYPES
from .attention import attention, attention_backward
from .function import Function, of_callable
from .plan import new_problem

_DTYPES = frozenset(getattr(torch, name) for name in DTYPES)
_NO_BLOCKS = 1 << 29  # blocks from this size on stand for no lists


class _Call(NamedTuple):
    """The options of clattn's functions, and the operands of score_mod whose gradients are wanted."""

    options: Dict[str, Any]
    learned: Dict[str, Tensor]


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, call: _Call, *learned: Tensor) -> Tuple[Tensor, Tensor]:
        o, lse = attention(query, key, value, return_lse=True, **call.options)
        ctx.call = call
        ctx.save_for_backward(query, key, value, o, lse)
        ctx.set_materialize_grads(False)
        return o, lse

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator,unused-ignore]
    def backward(ctx: Any, d_o: Optional[Tensor], dlse: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
        query, key, value, o, lse = ctx.saved_tensors
        learned = ctx.call.learned
        if d_o is None and dlse is None:
            return (None,) * (4 + len(learned))
        d_o = torch.zeros_like(o) if d_o is None else d_o.contiguous()
        dlse = None if dlse is None else dlse.contiguous()
        wanted = ["score_mod"] if any(ctx.needs_input_grad[4:]) else []
        dq, dk, dv, *further = attention_backward(d_o, query, key, value, o, lse, dlse=dlse, gradients=wanted, **ctx.call.options)
        of_learned = [further[0][name].to(x.dtype) if further else None for name, x in learned.items()]
        return (dq, dk, dv, None, *of_learned)


def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: Any = None, block_mask: Any = None,
                   scale: Optional[float] = None, enable_gqa: bool = False, return_lse: bool = False, kernel_options: Any = None, *,
                   return_aux: Any = None) -> Any:
    """PyTorch's function of this name (torch.nn.attention.flex_attention) on tensors on the CPU: score_mod and the mask_mod
    of a BlockMask are traced, compiled for the device and derived in query, key, value and tensors that score_mod reads.
    PyTorch's own computes what clattn does not, among it functions that cannot be traced, after one warning. `kernel_options`
    are PyTorch's own."""
    aux = return_aux is not None
    reason = _why_theirs(query, key, value, enable_gqa, return_aux)
    if reason is None:
        try:
            call = _call_of(query, key, score_mod, block_mask, scale)
            if key.shape[0] != query.shape[0]:
                key, value = (x.expand(query.shape[0], *x.shape[1:]) for x in (key, value))
            o, lse = _Attention.apply(query, key, value, call, *call.learned.values())
            tally.computed()
            return (o, _theirs().AuxOutput(lse=lse if return_aux.lse else None, max_scores=None)) if aux else (
                (o, lse) if return_lse else o)
        except errors.Error as error:
            reason = str(error)
    if reason and not torch.compiler.is_compiling():
        tally.say_once(f"PyTorch's own function computes calls of flex_attention: {reason}", 2)
    further = {"return_aux": return_aux} if aux else {}
    return _theirs().flex_attention(query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse, kernel_options, **further)


def _theirs() -> Any:
    return importlib.import_module("torch.nn.attention.flex_attention")


def _why_theirs(query: Any, key: Any, value: Any, enable_gqa: bool, return_aux: Any) -> Optional[str]:
    """A sentence, an empty one where PyTorch's function says what is wrong or traces its caller, or None."""
    tensors = dict(query=query, key=key, value=value)
    if torch.compiler.is_compiling() or is_transformed():
        return ""
    if any(not isinstance(x, Tensor) or x.dim() != 4 for x in tensors.values()):
        return ""
    if not enable_gqa and query.shape[1] != key.shape[1]:
        return ""
    for name, x in tensors.items():
        if type(x) not in PLAIN or not x.is_cpu or x.layout != torch.strided or x.dtype not in _DTYPES or x.dtype != query.dtype:
            return f"{name} is a {type(x).__name__} of {x.dtype} on {x.device}; clattn takes tensors of one dtype of " \
                   f"{', '.join(DTYPES)} on the CPU"
    if return_aux is not None and return_aux.max_scores:
        return "the largest scores are asked for, which clattn does not return"
    return None


def _call_of(query: Tensor, key: Tensor, score_mod: Any, block_mask: Any, scale: Optional[float]) -> _Call:
    sizes = dict(b=query.shape[0], h=query.shape[1], q=query.shape[2], k=key.shape[2])
    budget, options = Budget(), {} if scale is None else {"scale": scale}  # type: Budget, Dict[str, Any]
    module = _theirs()
    if score_mod is not None and score_mod is not getattr(module, "_identity", None):
        options["score_mod"] = of_callable(score_mod, True, sizes, budget)
    if block_mask is not None:
        if block_mask.mask_mod is not None and block_mask.mask_mod is not getattr(module, "noop_mask", None):
            options["mask_mod"] = of_callable(block_mask.mask_mod, False, sizes, budget)
        options["blocks"] = _blocks_of(block_mask, sizes)
    learned: Dict[str, Tensor] = {}
    for name in ("score_mod", "mask_mod"):
        if name in options:
            tensors = {operand: x for operand, x in options[name].given.items() if isinstance(x, Tensor) and x.requires_grad}
            options[name] = options[name](**{operand: x.detach() for operand, x in tensors.items()})
            learned.update(tensors if name == "score_mod" and torch.is_grad_enabled() else {})
    if learned:
        _need_gradients(options["score_mod"])
    return _Call(options, learned)


def _need_gradients(function: Function) -> None:
    """Refuses a function whose operands have no gradients."""
    problem = new_problem()
    problem.operation, problem.lse, problem.dfunction, problem.score_function = c.BACKWARD, 1, 1, function._handle
    with_reason(load().lib.clattn_problem_check, ctypes.byref(problem))


_lists: "weakref.WeakKeyDictionary[Any, Tuple[Tuple[Any, ...], Optional[Blocks]]]" = weakref.WeakKeyDictionary()


def _blocks_of(block_mask: Any, sizes: Dict[str, int]) -> Optional[Blocks]:
    """The lists of a BlockMask, made once for each."""
    size = block_mask.BLOCK_SIZE
    rows, columns = (size, size) if isinstance(size, int) else size
    if rows >= _NO_BLOCKS and columns >= _NO_BLOCKS:
        return None
    count = block_mask.kv_num_blocks
    if count.shape[-1] != math.ceil(sizes["q"] / rows) or tuple(block_mask.shape)[-1] < sizes["k"]:
        raise Refused(f"block_mask is of shape {tuple(block_mask.shape)}, but there are {sizes['q']} queries and {sizes['k']} keys")
    tensors = (count, block_mask.kv_indices, block_mask.full_kv_num_blocks, block_mask.full_kv_indices)
    state = tuple(None if x is None else (id(x), x._version) for x in tensors)
    known = _lists.get(block_mask)
    if known is None or known[0] != state:
        known = _lists[block_mask] = state, _made(tensors, rows, columns)
    return known[1]


def _made(tensors: Tuple[Any, ...], rows: int, columns: int) -> Blocks:
    arrays: List[Any] = [None if x is None else x.numpy().astype(np.int32) for x in tensors]
    count, indices, full_count, full_indices = arrays
    parts: List[Tuple[Any, Any]] = [(count, indices)]
    if full_count is not None:
        parts.append((full_count, full_indices + c.BLOCK_FULL))
    listed = np.concatenate([entries for _, entries in parts], -1)
    used = np.concatenate([np.arange(entries.shape[-1]) < n[..., None] for n, entries in parts], -1)
    lead, long = count.shape[:-1], count.shape[-1]
    offsets = np.zeros((*lead, long + 1), np.int32)
    offsets[..., 1:] = used.sum(-1).cumsum(-1)
    entries = np.full((*lead, max(1, int(offsets[..., -1].max(initial=0)))), -1, np.int32)
    for place in np.ndindex(*lead):
        some = listed[place][used[place]]
        entries[place][:len(some)] = some
    return Blocks(offsets, entries, (rows, columns))
