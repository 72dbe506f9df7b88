# SPDX-License-Identifier: Apache-2.0
"""Attention to chosen keys (token-sparse attention), and the indexer that chooses them, with gradients."""
from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar, Union

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._torch_flex import Attention, Call
from ._torch_operators import PLAIN, Refused, is_transformed
from .indexer import indexer as _choose
from .indexer import indexer_gradients

Function = TypeVar("Function", bound=Callable[..., Any])


def _expect(**tensors: Tensor) -> None:
    for name, x in tensors.items():
        if type(x) not in PLAIN or not x.is_cpu or x.layout != torch.strided:
            where = f" of {x.layout} on {x.device}" if isinstance(x, Tensor) else ""
            raise Refused(f"{name} is a {type(x).__name__}{where}; clattn takes dense tensors on the CPU")
    if is_transformed():
        raise Refused("transforms of torch.func are not taken")


def _not_compiled(function: Function) -> Function:
    """torch.compiler.disable(function), for which the compiler is imported no sooner than it compiles: that takes seconds."""
    disabled: List[Function] = []

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if "torch._dynamo" not in sys.modules:
            return function(*args, **options)
        if not disabled:
            disabled.append(torch.compiler.disable(function))  # type: ignore[no-untyped-call,unused-ignore]
        return disabled[0](*args, **options)

    return call  # type: ignore[return-value]


class _Indexer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, weights: Tensor, topk: int, causal: Any) -> Tuple[Tensor, Tensor]:
        chosen, scores = _choose(query, key, weights, topk, causal=causal, return_scores=True)
        ctx.causal = causal
        ctx.save_for_backward(query, key, weights, chosen)
        ctx.mark_non_differentiable(chosen)
        ctx.set_materialize_grads(False)
        return chosen, scores

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator,unused-ignore]
    def backward(ctx: Any, _chosen: None, dscores: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
        if dscores is None:
            return (None,) * 5
        query, key, weights, chosen = ctx.saved_tensors
        return (*indexer_gradients(query, key, weights, chosen, dscores.contiguous(), causal=ctx.causal), None, None)


@_not_compiled
def topk_attention(query: Tensor, key: Tensor, value: Tensor, topk_indices: Tensor, *, causal: Union[None, str, int] = None,
                   scale: Optional[float] = None, softcap: Optional[float] = None,
                   return_lse: bool = False) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """Attention of each query to the keys of its list, on tensors on the CPU. Query, key and value have gradients.

    query         (batch, heads, seq_q, dim), float32, float16 or bfloat16, at any strides
    key, value    (batch, kv_heads, seq_kv, dim) and (batch, kv_heads, seq_kv, dim_v)
    topk_indices  int32 (batch, seq_q, topk) or (batch, kv_heads, seq_q, topk), such as indexer() returns. Entries stand in any
                  order; -1, and what is no key, is none, and a key that stands twice is seen once
    causal        None, or "tl", "br" or a number as in clattn.attention(): keys that it hides are not seen though listed
    scale         None, the default: 1 / sqrt(dim)
    softcap       None, or the cap of scores
    return_lse    (o, lse) instead of o; False by default

    Raises Refused, which is a RuntimeError, for what clattn does not take, and other clattn.Errors.
    """
    _expect(query=query, key=key, value=value, topk_indices=topk_indices)
    options: Dict[str, Any] = {"topk_indices": topk_indices.contiguous(), "causal": causal, "scale": scale, "softcap": softcap}
    o, lse = Attention.apply(query, key, value, Call({name: x for name, x in options.items() if x is not None}, {}))
    return (o, lse) if return_lse else o


@_not_compiled
def indexer(query: Tensor, key: Tensor, weights: Tensor, topk: int, *,
            causal: Union[None, str, int] = None) -> Tuple[Tensor, Tensor]:
    """(topk_indices, scores) of an indexer as in DeepSeek V3.2: of each query the keys with the largest scores, int32 of
    (batch, seq_q, topk), -1 where it sees fewer; and these scores, float32 of the same shape, -inf beside -1. A score is the
    sum over heads of weights * relu(dot(query, key)). The scores have gradients of query, key and weights.

    query         (batch, heads, seq_q, dim), float32, float16 or bfloat16
    key           (batch, seq_kv, dim) of the same dtype
    weights       (batch, heads, seq_q), float32
    topk          1 or more
    causal        as in topk_attention()

    Raises Refused, which is a RuntimeError, for what clattn does not take, and other clattn.Errors.
    """
    _expect(query=query, key=key, weights=weights)
    chosen, scores = _Indexer.apply(query, key, weights, topk, causal)
    return chosen, scores
