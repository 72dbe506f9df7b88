# SPDX-License-Identifier: Apache-2.0
"""Which weights dropout drops."""
from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence

import numpy as np

from . import _declarations as c
from ._checks import items, number, whole, whole_within
from ._library import check, load
from ._memory import Step
from ._types import Array
from ._views import need_bytes, room, view
from .context import Compiling, Context
from .errors import InvalidArgument
from .plan import execute, new_problem, queue_of


def dropout_mask(shape: Sequence[int], dropout: float, seed: int, *, offset: int = 0, out: Optional[Array] = None,
                 queue: Any = None, context: Optional[Context] = None) -> Any:
    """True where attention() keeps the weight of (batch, head, query, key), False where it drops it. What is kept is multiplied
    by 1 / (1 - dropout).

    shape         (batch, heads, seq_q, seq_kv), the shape of the result, which is bool
    dropout       the probability, from 0 to below 1
    seed          as in attention()
    offset        the dropout_offset of Plan.execute(), 0 by default
    out           None, or a C-contiguous array of bool or uint8 that receives it
    queue         None: the host computes. A queue of pyopencl: its device computes, and the result is a pyopencl array of uint8
    context       None: the queue's

    Raises InvalidProblem for a probability that is not from 0 to below 1, and InvalidArgument for a shape that is not of
    four numbers, or a context without a queue.
    """
    sizes = items("shape", shape, "four numbers")
    if len(sizes) != 4:
        raise InvalidArgument(f"shape must be (batch, heads, seq_q, seq_kv), not {shape!r}")
    p = new_problem()
    p.batch, p.heads, p.seq_q, p.seq_kv = (whole_within("shape", one, 0, 2 ** 48) for one in sizes)
    p.kv_heads, p.dropout = p.heads, number("dropout", dropout)
    number_of = [whole("seed", seed) & 0xFFFFFFFFFFFFFFFF, whole_within("offset", offset, 0, 2 ** 32 - 1)]
    wanted = (p.batch, p.heads, p.seq_q, p.seq_kv)
    made = room(wanted, np.bool_, queue) if out is None else out
    one = view("out", made)
    need_bytes(one, wanted)
    on = queue_of({"out": one}, queue)
    if on is None:
        if context is not None:
            raise InvalidArgument("context is given, but queue, without which the host computes, is not")
        if not one.writeable:
            raise InvalidArgument("out is read-only, but would be written")
        check(load().lib.clattn_dropout_mask_host(ctypes.byref(p), *number_of, 0, p.batch * p.heads * p.seq_q, one.pointer),
              f"shape {wanted} and dropout {p.dropout} are of no problem: the probability is below 1, and there are heads")
        return made
    where = Context.of_queue(on) if context is None else context

    def bind(places: dict[str, c.clattn_buffer], queue_: int, *events: Any) -> Step[int]:
        place = places.get("mask") or c.clattn_buffer()
        return Step(load().lib.clattn_dropout_mask, where.handle, ctypes.byref(p), *number_of, queue_, ctypes.byref(place),
                    *events)

    with Compiling():
        execute(bind, where, {"mask": one}, ("mask",), on)
    return made
