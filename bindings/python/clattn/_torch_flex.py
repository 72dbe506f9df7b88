# SPDX-License-Identifier: Apache-2.0
"""torch.nn.attention.flex_attention.flex_attention by clattn, for functions that can be traced."""
from __future__ import annotations

import ctypes
import importlib
import itertools
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
from ._torch_operators import PLAIN, Refused, is_transformed
from ._torch_tally import tally
from ._tracing import Budget, operand_of
from ._types import Blocks
from ._views import DTYPES
from .attention import attention, attention_backward
from .blocks import function_blocks, function_lists
from .function import Function, of_callable
from .plan import new_problem

_DTYPES = frozenset(getattr(torch, name) for name in DTYPES)
_NO_BLOCKS = 1 << 29  # blocks from this size on stand for no lists
_LEAST_Q, _LEAST_K = 32, 128  # queries and keys with which kernels find tiles (clattn/function.h)


class Call(NamedTuple):
    """The options of clattn's functions, and the operands of score_mod whose gradients are wanted."""

    options: Dict[str, Any]
    learned: Dict[str, Tensor]


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, call: Call, *learned: Tensor) -> Tuple[Tensor, Tensor]:
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
    """PyTorch's function of this name (torch.nn.attention.flex_attention) on tensors on the CPU. Query, key, value and the
    tensors that score_mod reads have gradients.

    query, key, value  as in scaled_dot_product_attention()
    score_mod     None, or a function (s, b, h, q, kv), which is traced and compiled for the device
    block_mask    None, or a BlockMask, whose mask_mod is traced as well
    scale, enable_gqa  as in scaled_dot_product_attention()
    return_lse    (o, lse) instead of o; False by default
    return_aux    None, or PyTorch's AuxRequest
    kernel_options  PyTorch's own

    PyTorch's function computes what clattn does not, among it functions that cannot be traced, after one warning.

    Raises what PyTorch's function does.
    """
    aux = return_aux is not None
    reason = _why_theirs(query, key, value, enable_gqa, return_aux)
    if reason is None:
        try:
            call = _call_of(query, key, score_mod, block_mask, scale)
            if key.shape[0] != query.shape[0]:
                key, value = (x.expand(query.shape[0], *x.shape[1:]) for x in (key, value))
            o, lse = Attention.apply(query, key, value, call, *call.learned.values())
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


def _call_of(query: Tensor, key: Tensor, score_mod: Any, block_mask: Any, scale: Optional[float]) -> Call:
    sizes = dict(b=query.shape[0], h=query.shape[1], q=query.shape[2], k=key.shape[2])
    budget, options = Budget(), {} if scale is None else {"scale": scale}  # type: Budget, Dict[str, Any]
    module = _theirs()
    if score_mod is not None and score_mod is not getattr(module, "_identity", None):
        options["score_mod"] = of_callable(score_mod, True, sizes, budget)
    if block_mask is not None:
        if block_mask.mask_mod is not None and block_mask.mask_mod is not getattr(module, "noop_mask", None):
            options["mask_mod"] = of_callable(block_mask.mask_mod, False, sizes, budget)
    learned: Dict[str, Tensor] = {}
    for name in ("score_mod", "mask_mod"):
        if name in options:
            tensors = {operand: x for operand, x in options[name].given.items() if isinstance(x, Tensor) and x.requires_grad}
            options[name] = options[name](**{operand: x.detach() for operand, x in tensors.items()})
            learned.update(tensors if name == "score_mod" and torch.is_grad_enabled() else {})
    if learned:
        _need_gradients(options["score_mod"])
    if block_mask is not None:
        _skip_blocks(options, block_mask, sizes)
    return Call(options, learned)


def _need_gradients(function: Function) -> None:
    """Refuses a function whose operands have no gradients."""
    problem = new_problem()
    problem.operation, problem.lse, problem.dfunction, problem.score_function = c.BACKWARD, 1, 1, function._handle
    with_reason(load().lib.clattn_problem_check, ctypes.byref(problem))


class _Known:
    """What is kept of a BlockMask for as long as its tensors do not change."""

    def __init__(self, state: Tuple[Any, ...], lists: Blocks):
        self.state, self.lists = state, lists
        self.follow: Dict[Any, bool] = {}  # by problem and mask function: whether the lists hide nothing that the function shows
        self.read: Dict[str, Tuple[Any, Any, int]] = {}  # by operand: its state, its tensor as kernels read it, and a version


_known: "weakref.WeakKeyDictionary[Any, _Known]" = weakref.WeakKeyDictionary()
_versions = itertools.count(1 << 63)  # far from those of clattn.attention()'s callers


def _state_of(*tensors: Optional[Tensor]) -> Optional[Tuple[Any, ...]]:
    """What differs when the contents do; None where that cannot be told."""
    if any(x is not None and x.is_inference() for x in tensors):
        return None
    return tuple(None if x is None else (x.data_ptr(), x._version, x.dtype, x.shape, x.stride()) for x in tensors)


def _lists_of(block_mask: Any, sizes: Dict[str, int]) -> Optional[_Known]:
    """The lists of a BlockMask, made once for each; None without lists."""
    size = block_mask.BLOCK_SIZE
    rows, columns = (size, size) if isinstance(size, int) else size
    if rows >= _NO_BLOCKS and columns >= _NO_BLOCKS:
        return None
    count = block_mask.kv_num_blocks
    if count.shape[-1] != math.ceil(sizes["q"] / rows) or tuple(block_mask.shape)[-1] < sizes["k"]:
        raise Refused(f"block_mask is of shape {tuple(block_mask.shape)}, but there are {sizes['q']} queries and {sizes['k']} keys")
    tensors = (count, block_mask.kv_indices, block_mask.full_kv_num_blocks, block_mask.full_kv_indices)
    state = _state_of(*tensors)
    known = _known.get(block_mask)
    if known is None or state is None or known.state != state:
        known = _known[block_mask] = _Known(state or (), _made(tensors, rows, columns))
    return known


def _skip_blocks(options: Dict[str, Any], block_mask: Any, sizes: Dict[str, int]) -> None:
    """Has attention() skip what a BlockMask does: by its lists, or where these follow from its mask_mod by the finer tiles that
    kernels find for mask functions, once for as long as the tensors that mask_mod reads do not change."""
    known = _lists_of(block_mask, sizes)
    if known is None:
        return
    function = options.get("mask_mod")
    if function is not None and sizes["q"] >= _LEAST_Q and sizes["k"] >= _LEAST_K and _read_once(known, function):
        key = (function.source, *function.parameters.values(), *sizes.values())
        if key not in known.follow:
            known.follow[key] = _follow(known.lists, function, sizes)
        if known.follow[key]:
            options["version"] = max([known.read[name][2] for name in function.operands], default=0)
            return
    options["blocks"] = known.lists


def _read_once(known: _Known, function: Function) -> bool:
    """Gives a mask function those of its tensors that kernels have read before, as long as they are the same; False for
    arrays of which that cannot be told."""
    for name in function.operands:
        x = function.given[name]
        state = _state_of(x) if isinstance(x, Tensor) else None
        if state is None:
            return False
        if name not in known.read or known.read[name][0] != state:
            known.read[name] = state, (x, operand_of(name, x).array), next(_versions)  # x, so that its memory stays its own
            known.follow.clear()
        function.given[name] = known.read[name][1][1]
    return True


def _follow(lists: Blocks, function: Function, sizes: Dict[str, int]) -> bool:
    """Whether a mask function hides all that the lists leave out, and shows all in blocks that they say are full."""
    problem = new_problem()
    problem.batch, problem.heads, problem.seq_q, problem.seq_kv = sizes.values()
    problem.block_q, problem.block_kv = lists.size
    problem.block_batches, problem.block_heads = (int(n > 1) for n in np.asarray(lists.offsets).shape[-3:-1])
    seen = function_lists(function, problem)
    columns = math.ceil(sizes["k"] / lists.size[1])
    theirs, ours = _dense(lists, columns), _dense(seen, columns)
    return bool(((theirs == ours) | ((theirs == 1) & (ours != 1))).all())


def _dense(lists: Blocks, columns: int) -> Any:
    """For each block of each list 0 where it is left out, 1 where it is seen in part, 2 where it is full."""
    offsets, entries = (one.reshape(-1, one.shape[-1]) for one in map(np.asarray, lists[:2]))
    made = np.zeros((len(offsets), offsets.shape[1] - 1, columns), np.int8)
    for one, begins, listed in zip(made, offsets, entries):
        listed = listed[:begins[-1]]
        rows, at = np.repeat(np.arange(len(one)), np.diff(begins)), listed & (c.BLOCK_FULL - 1)
        some = at < columns
        one[rows[some], at[some]] = 1 + (listed[some] >= c.BLOCK_FULL)
    return made


def create_block_mask(mask_mod: Any, B: Optional[int], H: Optional[int], Q_LEN: int, KV_LEN: int, device: Any = "cpu",
                      BLOCK_SIZE: Union[int, Tuple[int, int]] = 128, _compile: bool = False, **further: Any) -> Any:
    """PyTorch's function of this name (torch.nn.attention.flex_attention), without a matrix of all pairs where mask_mod can be
    traced: the device makes the lists. The BlockMask is PyTorch's, for either library's flex_attention().

    mask_mod      a function (b, h, q, kv) that says whether a query sees a key
    B, H          batches and heads; None, or 1: they share a list
    Q_LEN, KV_LEN  queries and keys
    device        "cpu", the default; PyTorch's own function makes lists on others
    BLOCK_SIZE    of blocks: a number, or (queries, keys); 128 by default

    `_compile` and other arguments are PyTorch's own, for which its function makes the lists.

    Raises what PyTorch's function does.
    """
    rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    if further or torch.device(device).type != "cpu" or torch.compiler.is_compiling() or is_transformed():
        return _theirs().create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device, BLOCK_SIZE, _compile, **further)
    try:
        lists = function_blocks(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), (rows, columns))
    except errors.Error as error:
        tally.say_once(f"PyTorch's own function makes a BlockMask: {error}", 2)
        return _theirs().create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device, BLOCK_SIZE, _compile)
    dense = _dense(lists, math.ceil(KV_LEN / columns)).reshape(B or 1, H or 1, -1, math.ceil(KV_LEN / columns))
    for beyond, last in ((Q_LEN % rows, dense[..., -1:, :]), (KV_LEN % columns, dense[..., -1:])):
        last[...] = np.minimum(last, 1) if beyond else last  # PyTorch takes no block for full that reaches beyond the ends
    parts = [torch.from_numpy(one.astype(np.int32)) for kind in (1, 2)
             for one in ((dense == kind).sum(-1), np.argsort(dense != kind, -1, kind="stable"))]
    return _theirs().BlockMask.from_kv_blocks(*parts, BLOCK_SIZE=(rows, columns), mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN))


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
