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


def _problem(q: Any, k: Any, w: Any, topk: int, causal: Diagonal, lengths: "dict[str, Any]") -> "tuple[Any, dict[str, View]]":
    """The problem of these tensors, and their views."""
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
    own.dtype, own.topk = _DTYPES[one.dtype], whole_within("topk", topk, 1, 2 ** 31 - 1)
    own.batch, own.heads, own.seq_q, own.dim = one.shape
    own.seq_kv = views["k"].shape[1]
    own.q_lengths, own.kv_lengths = (int(lengths[name] is not None) for name in ("q_lengths", "kv_lengths"))
    if causal is not None and causal is not False:
        diagonal.seq_q, diagonal.seq_kv = own.seq_q, own.seq_kv
        set_diagonal(diagonal, "causal", causal)
        own.causal, own.diagonal, own.diagonal_offset = 1, diagonal.diagonal, diagonal.diagonal_offset
    own.q.stride[:] = steps_of_four(one.shape, one.strides) if one.reach else (0, 0, 0, 0)
    own.k.stride[:] = _steps("k", views["k"], 1)
    own.w.stride[:] = _steps("w", views["w"], 3)
    return problem, views


def _execute(problem: Any, on: Any, context: Optional[Context], **tensors: Any) -> None:
    where = Context.of_queue(on) if context is None and on is not None else given_context(context)
    where.plan_of(problem).execute(**{name: one for name, one in tensors.items() if one is not None}, queue=on)


def indexer(q: Any, k: Any, w: Any, topk: int, *, causal: Diagonal = None, q_lengths: Any = None, kv_lengths: Any = None,
            return_scores: bool = False, queue: Any = None, context: Optional[Context] = None) -> Any:
    """The topk keys of each query with the largest scores: int32 of (batch, seq_q, topk), in rising order, -1 where a query
    sees fewer keys. A score is the sum over heads of w * max(0, dot(q, k)). Equal scores go to the lower key.
    attention(topk_indices=) takes such lists.

    q             (batch, heads, seq_q, dim), float32, float16 or bfloat16
    k             (batch, seq_kv, dim) of the same dtype
    w             (batch, heads, seq_q), float32
    topk          1 or more
    causal, q_lengths, kv_lengths  as in attention(), None by default
    return_scores  also the scores of the chosen keys, float32 of the same shape, -inf beside -1; False by default
    queue, context  as in attention()

    Views by transposition are fine. Pages and packed batches: Plan("indexer ... page=16 klen topk=64").

    Raises InvalidArgument for shapes or dtypes that do not fit, else as attention() does.
    """
    lengths = {"q_lengths": q_lengths, "kv_lengths": kv_lengths}
    problem, views = _problem(q, k, w, topk, causal, lengths)
    problem.indexer.scores = int(return_scores)
    on = queue_of(views, queue)
    shape = (problem.indexer.batch, problem.indexer.seq_q, problem.indexer.topk)
    results = {"topk_indices": empty_like(views["q"], shape, "int32", on)}
    if return_scores:
        results["scores"] = empty_like(views["q"], shape, "float32", on)
    _execute(problem, on, context, q=q, k=k, w=w, **lengths, **results)
    return (results["topk_indices"], results["scores"]) if return_scores else results["topk_indices"]


def indexer_gradients(q: Any, k: Any, w: Any, chosen: Any, dscores: Any, *, causal: Diagonal = None, q_lengths: Any = None,
                      kv_lengths: Any = None, queue: Any = None, context: Optional[Context] = None) -> Any:
    """(dq, dk, dw): the gradients of an indexer's tensors, from those of the scores of chosen keys.

    q, k, w       as in indexer()
    chosen        int32 of (batch, seq_q, topk), such as indexer() returns; an entry that is no key that its query sees counts
                  nothing
    dscores       float32 of the same shape
    causal, q_lengths, kv_lengths  as in indexer(), and the same as there
    queue, context  as in attention()

    Sums have the same bits on every run.

    Raises InvalidArgument for shapes or dtypes that do not fit, else as attention() does.
    """
    lengths = {"q_lengths": q_lengths, "kv_lengths": kv_lengths}
    lists = {"chosen": view("chosen", chosen), "dscores": view("dscores", dscores)}
    problem, views = _problem(q, k, w, max(1, lists["chosen"].shape[-1] if lists["chosen"].shape else 1), causal, lengths)
    own = problem.indexer
    if any(one.shape != (own.batch, own.seq_q, own.topk) for one in lists.values()):
        raise InvalidArgument(f"chosen and dscores must be (batch, seq_q, topk), not {lists['chosen'].shape} and "
                              f"{lists['dscores'].shape}")
    own.gradients = 1
    on = queue_of({**views, **lists}, queue)
    results = {"d" + name: empty_like(views[name], views[name].shape, views[name].dtype, on) for name in ("q", "k", "w")}
    _execute(problem, on, context, q=q, k=k, w=w, chosen=chosen, dscores=dscores, **lengths, **results)
    return results["dq"], results["dk"], results["dw"]
