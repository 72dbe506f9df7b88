# SPDX-License-Identifier: Apache-2.0
"""The keys that each query attends to, chosen by an indexer."""
from __future__ import annotations

from typing import Any, Optional

from . import _declarations as c
from ._checks import whole_within
from ._views import View, empty_like, view
from .attention import Diagonal, set_diagonal, steps_of_four
from .context import Context, given_context
from .errors import InvalidArgument
from .plan import new_problem, queue_of

_DTYPES = {"float32": c.F32, "float16": c.F16, "bfloat16": c.BF16}


def _steps(name: str, one: View, axis: int) -> "tuple[int, ...]":
    """Strides of four axes, with one of size 1 before number `axis`."""
    shape = one.shape[:axis] + (1,) + one.shape[axis:]
    steps = steps_of_four(shape, one.strides[:axis] + (0,) + one.strides[axis:])
    if one.reach and not any(steps):
        raise InvalidArgument(f"{name} is one element, broadcast along every axis; give it strides of its own "
                              "(numpy.ascontiguousarray)")
    return steps if one.reach else (0, 0, 0, 0)


def indexer(q: Any, k: Any, w: Any, topk: int, *, causal: Diagonal = None, q_lengths: Any = None, kv_lengths: Any = None,
            return_scores: bool = False, queue: Any = None, context: Optional[Context] = None) -> Any:
    """The topk keys of each query with the largest scores, the sums over heads of w * max(0, dot(q, k)): int32 of (batch,
    seq_q, topk), in rising order, -1 where a query sees fewer keys. Equal scores go to the lower key. attention(topk_indices=)
    takes such lists.

    q is (batch, heads, seq_q, dim), k (batch, seq_kv, dim) of the same dtype, w (batch, heads, seq_q) of float32; views by
    transposition are fine. `causal` and the lengths are as in attention(). With return_scores also the scores of the chosen
    keys, -inf beside -1. Pages and packed batches: Plan("indexer ... page=16 klen topk=64")."""
    views = {"q": view("q", q), "k": view("k", k), "w": view("w", w)}
    one = views["q"]
    if len(one.shape) != 4 or len(views["k"].shape) != 3 or views["w"].shape != one.shape[:3] or \
            views["k"].shape[::2] != one.shape[::3]:
        raise InvalidArgument(f"q, k and w must be (batch, heads, seq_q, dim), (batch, seq_kv, dim) and (batch, heads, seq_q), "
                              f"not {one.shape}, {views['k'].shape} and {views['w'].shape}")
    if one.dtype not in _DTYPES or views["k"].dtype != one.dtype or views["w"].dtype != "float32":
        raise InvalidArgument(f"q and k must be of one dtype, float32, float16 or bfloat16, and w of float32, not "
                              f"{one.dtype}, {views['k'].dtype} and {views['w'].dtype}")
    problem, diagonal = new_problem(), new_problem()
    problem.operation = c.INDEXER
    own = problem.indexer
    own.dtype, own.topk, own.scores = _DTYPES[one.dtype], whole_within("topk", topk, 1, 2 ** 31 - 1), int(return_scores)
    own.batch, own.heads, own.seq_q, own.dim = one.shape
    own.seq_kv = views["k"].shape[1]
    own.q_lengths, own.kv_lengths = int(q_lengths is not None), int(kv_lengths is not None)
    if causal is not None and causal is not False:
        diagonal.seq_q, diagonal.seq_kv = own.seq_q, own.seq_kv
        set_diagonal(diagonal, "causal", causal)
        own.causal, own.diagonal, own.diagonal_offset = 1, diagonal.diagonal, diagonal.diagonal_offset
    own.q.stride[:] = steps_of_four(one.shape, one.strides) if one.reach else (0, 0, 0, 0)
    own.k.stride[:] = _steps("k", views["k"], 1)
    own.w.stride[:] = _steps("w", views["w"], 3)
    on = queue_of(views, queue)
    shape = (own.batch, own.seq_q, own.topk)
    results = {"topk_indices": empty_like(one, shape, "int32", on)}
    if return_scores:
        results["scores"] = empty_like(one, shape, "float32", on)
    where = Context.of_queue(on) if context is None and on is not None else given_context(context)
    given = {"q_lengths": q_lengths, "kv_lengths": kv_lengths}
    where.plan_of(problem).execute(q=q, k=k, w=w, **{name: one for name, one in given.items() if one is not None}, **results,
                                   queue=on)
    return (results["topk_indices"], results["scores"]) if return_scores else results["topk_indices"]
