# SPDX-License-Identifier: Apache-2.0
"""The gradients of attention's gradients, of arrays of any kind."""
from __future__ import annotations

from typing import Any, Optional

from . import _declarations as c
from ._views import View, view
from .attention import Arguments, _need_known, steps_of_four
from .context import Context
from .errors import InvalidArgument
from .plan import new_problem

_OPTIONS = ("causal", "diagonal", "window", "scale", "q_lengths", "kv_lengths")
_SAME = ("dtype", "batch", "heads", "kv_heads", "seq_q", "seq_kv", "dim_qk", "dim_v", "scale", "causal", "diagonal",
         "diagonal_offset", "window_left", "window_right", "q_lengths", "kv_lengths")


def _problem_of(p: c.clattn_problem) -> c.clattn_problem:
    """The double backward of an attention problem, without layouts."""
    made = new_problem()
    made.operation = c.DOUBLE_BACKWARD
    for name in _SAME:
        setattr(made.double_backward, name, getattr(p, name))
    return made


def attention_double_backward(d_o: Any, q: Any, k: Any, v: Any, ggq: Any = None, ggk: Any = None, ggv: Any = None, *,
                              causal: Any = None, diagonal: Any = None, window: Any = None, scale: Optional[float] = None,
                              q_lengths: Any = None, kv_lengths: Any = None, queue: Any = None,
                              context: Optional[Context] = None) -> "tuple[Any, Any, Any, Any]":
    """(gq, gk, gv, gdo): the gradients, with respect to q, k, v and d_o, of a loss of attention_backward()'s dq, dk and dv.

    d_o           (batch, heads, seq_q, dim_v), as attention_backward() took it
    q, k, v       as in attention(), all of one dtype, that of the results
    ggq, ggk, ggv  gradients of the loss with respect to dq, dk and dv, of these shapes; None, the default, counts as zeros,
                  but one must be given
    causal, diagonal, window, scale, q_lengths, kv_lengths  as in attention(), and the same as there; other options have no
                  double backward
    queue, context  as in attention()

    Neither o nor lse is needed. Sums have the same bits on every run.

    Raises InvalidArgument for shapes or dtypes that do not fit and for other options, InvalidProblem where none of the three
    is given, else as attention() does.
    """
    options = {name: one for name, one in zip(_OPTIONS, (causal, diagonal, window, scale, q_lengths, kv_lengths))
               if one is not None}
    _need_known("attention_double_backward", options, _OPTIONS)
    call = Arguments(q, k, v, queue, context, options)
    if call.k.dtype != call.q.dtype or call.v.dtype != call.q.dtype:
        raise InvalidArgument(f"q, k and v must be of one dtype, not of {call.q.dtype}, {call.k.dtype} and {call.v.dtype}")
    problem, call.problem = call.problem, _problem_of(call.problem)
    own = call.problem.double_backward
    shape = call.q.shape[:-1] + (problem.dim_v,)

    def place(name: str, one: View) -> None:
        """One without elements counts as packed."""
        steps = steps_of_four(one.shape, one.strides) if one.reach else None
        if steps is not None and not any(steps):
            raise InvalidArgument(f"{name} is one element, broadcast along every axis; give it strides of its own "
                                  "(numpy.ascontiguousarray)")
        if steps is not None:
            getattr(own, name).stride[:] = steps

    for name in ("q", "k", "v"):
        place(name, call.views[name])
    for name, array, sizes in (("d_o", d_o, shape), ("ggq", ggq, call.q.shape), ("ggk", ggk, call.k.shape),
                               ("ggv", ggv, call.v.shape)):
        if array is None and name != "d_o":
            setattr(own, "no_" + name, 1)
            continue
        one = call.views[name] = view(name, array)
        if one.shape != tuple(sizes) or one.dtype != call.q.dtype:
            raise InvalidArgument(f"{name} is of shape {one.shape} and dtype {one.dtype}, not {tuple(sizes)} and {call.q.dtype}")
        place(name, one)
    made = []
    for name, sizes in (("gq", call.q.shape), ("gk", call.k.shape), ("gv", call.v.shape), ("gdo", shape)):
        made.append(call.result(name, None, sizes))
        place(name, call.views[name])
    call.run()
    return made[0], made[1], made[2], made[3]
