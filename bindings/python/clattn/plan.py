# SPDX-License-Identifier: Apache-2.0
"""A problem that was chosen and built for: plans, and their execution on arrays of any kind."""
from __future__ import annotations

import ctypes
import functools
import inspect
import re
import sys
from typing import Any, Callable, Iterable, Mapping, Optional, Union

from . import _declarations as c
from ._checks import number, of_pyopencl, text, text_or_none, whole, whole_within
from ._library import ask_text, check, described, load, with_reason
from ._memory import Operands, Step, fill, need_alive, need_context
from ._tensors import Tensor, tensors_of, views_of
from ._views import View
from .context import Compiling, Context, given_context, release_with
from .errors import Error, InvalidArgument
from .function import Functions

# The operation of a problem: the function that executes it and its struct of tensors.
_EXECUTIONS = {
    c.FORWARD: ("clattn_attention_forward", c.clattn_forward_tensors, "forward"),
    c.BACKWARD: ("clattn_attention_backward", c.clattn_backward_tensors, "backward"),
    c.PROJECTION: ("clattn_project", c.clattn_projection_tensors, "projection"),
    c.MERGE: ("clattn_merge", c.clattn_merge_tensors, "merge"),
    c.APPEND: ("clattn_append", c.clattn_append_tensors, "append"),
    c.DOUBLE_BACKWARD: ("clattn_double_backward", c.clattn_double_backward_tensors, "double_backward"),
    c.INDEXER: ("clattn_indexer", c.clattn_indexer_tensors, "indexer"),
}


@functools.lru_cache(maxsize=None)
def _blank_problem() -> bytes:
    problem = c.clattn_problem()
    load().lib.clattn_problem_init(ctypes.byref(problem))
    return bytes(problem)


def new_problem() -> c.clattn_problem:
    return c.clattn_problem.from_buffer_copy(_blank_problem())


def parse(form: str) -> c.clattn_problem:
    """The problem of a text form, such as "fwd f16 b1 h32/8 q1024 k4096 d128 causal=br"."""
    problem = c.clattn_problem()
    with_reason(load().lib.clattn_problem_parse, text("problem", form), ctypes.byref(problem))
    return problem


def print_problem(problem: c.clattn_problem) -> str:
    return ask_text(load().lib.clattn_problem_print, ctypes.byref(problem))


def run(function: Any, plan: int, context: Context, struct: ctypes.Structure, views: Mapping[str, View],
        written: Any, queue: Any, prefixes: Optional[dict[str, str]] = None) -> Any:
    """Executes a plan on what the views show: see execute()."""
    struct.struct_size = ctypes.sizeof(struct)

    def bind(places: dict[str, c.clattn_buffer], on: int, *events: Any) -> Step[int]:
        room = fill(struct, places, prefixes)
        for name in views:
            if name not in room:
                raise InvalidArgument(f"{name} is given, but this operation has none")
        return Step(function, plan, on, ctypes.byref(struct), *events)

    return execute(bind, context, views, written, queue)


def queue_of(views: Mapping[str, View], queue: Any) -> Any:
    """The queue that the caller names, or that of an array on a device; None for the context's own."""
    if queue is not None:
        return of_pyopencl("queue", queue, "CommandQueue")
    for one in views.values():
        if one.on_device and getattr(one.array, "queue", None) is not None:
            return one.array.queue
    if any(one.on_device for one in views.values()):
        raise InvalidArgument("queue must be given: none of the arrays has one")
    return None


def execute(bind: Callable[..., Step[int]], context: Context, views: Mapping[str, View], written: Any, queue: Any) -> Any:
    """Takes the step that bind(places of the views, queue, number of events, events, event) makes. On host memory it
    returns when the results are there; on a device it waits for what the arrays wait for, and their results carry the
    event that is returned."""
    if queue is not None:
        need_alive(views.values(), of_pyopencl("queue", queue, "CommandQueue"))
        need_context(views.values(), queue)
    handle = context.queue() if queue is None else queue.int_ptr
    try:
        with Operands(context.opencl, dict(views), written) as operands:
            if not operands.on_device:
                operands.run(handle, bind(operands.places, handle, 0, None, None), queue is None)
                return None
            events = _events_of(views.values())
            wait = (ctypes.c_void_p * len(events))(*(event.int_ptr for event in events))
            done = ctypes.c_void_p()
            step = bind(operands.places, handle, len(events), wait if events else None, ctypes.byref(done))
            return _enqueue(step, done, handle, [views[name].array for name in written if name in views])
    except Error as error:
        raise _named_by_caller(error, views) from None


def _events_of(views: Iterable[View]) -> list[Any]:
    return [of_pyopencl(f"an event of {one.name}", event, "Event") for one in views for event in getattr(one.array, "events", ())]


def _enqueue(step: Step[int], done: ctypes.c_void_p, queue: int, written: Iterable[Any]) -> Any:
    finish = load().cl.clFinish
    try:
        check(step())
        event = sys.modules["pyopencl"].Event.from_int_ptr(done.value, False)
        for array in written:
            array.add_event(event) if hasattr(array, "add_event") else event.wait()
        return event
    except BaseException:  # the caller may free what is still in use
        finish(queue)
        raise


def _named_by_caller(error: Error, views: Mapping[str, View]) -> Error:
    """The same, where the library's sentence has its own names, with those that the caller gave to the arrays."""
    names = {name: one.name for name, one in views.items() if name != one.name}
    if not names:
        return error
    pattern = r"(?<![\w.])(" + "|".join(map(re.escape, names)) + r")(?![\w(])"
    return type(error)(re.sub(pattern, lambda found: names[found[1]], str(error)))


class Plan:
    """What a problem gets on a device: chosen, built and checked once, executed often, also by threads.

    problem       its text form, which is described below; clattn/problem.h has what it computes
    context       a Context; None, the default: that of default_context()
    family, tunables  force a choice, such as "fused_cpu UNIT=vector" and "SIMD_WIDTH=8"; None by default
    measure_seconds  a problem that was never tuned is tuned first, for so long; None, the default: it is not
    known_only    only what was tuned; False by default
    untuned       nothing that was tuned; False by default
    score_mod, mask_mod  as in attention(), None by default

    Raises InvalidProblem for a text that does not parse, Unsupported where no kernel of the device or of the family computes
    it, NotTuned where `known_only` finds nothing, Miscompiled where no program passes its self-check.
    """

    def __init__(self, problem: Union[str, c.clattn_problem], *, context: Optional[Context] = None,
                 family: Optional[str] = None, tunables: Optional[str] = None,
                 measure_seconds: Optional[float] = None, known_only: bool = False, untuned: bool = False,
                 score_mod: Any = None, mask_mod: Any = None):
        self.context = given_context(context)
        self._problem = (c.clattn_problem.from_buffer_copy(problem) if isinstance(problem, c.clattn_problem) else
                         parse(problem))
        self._functions = Functions(self._problem, score_mod, mask_mod)
        lib = load().lib
        flags = ((c.PLAN_MEASURE if measure_seconds is not None else 0) | (c.PLAN_KNOWN_ONLY if known_only else 0) |
                 (c.PLAN_UNTUNED if untuned else 0))
        options = c.clattn_plan_options(ctypes.sizeof(c.clattn_plan_options), text_or_none("family", family),
                                        text_or_none("tunables", tunables), flags,
                                        0.0 if measure_seconds is None else number("measure_seconds", measure_seconds))
        handle = ctypes.c_void_p()
        with Compiling():
            check(lib.clattn_plan_create(self.context.handle, ctypes.byref(self._problem), ctypes.byref(options),
                                         ctypes.byref(handle)))
        self._handle = handle.value or 0
        release_with(self, lib.clattn_plan_release, self._handle)

    @property
    def info(self) -> dict[str, Any]:
        """Family, tunables, reason, problem, workspace_bytes, work_group_size, local_bytes, private_bytes."""
        return described(load().lib.clattn_plan_describe, self._handle, c.clattn_plan_info)

    @property
    def problem(self) -> str:
        """The problem's text form."""
        return print_problem(self._problem)

    def execute(self, *, queue: Any = None, dropout_seed: int = 0, dropout_offset: int = 0,
                dropout_place: Mapping[str, int] = {}, score_mod: Any = None, mask_mod: Any = None, version: int = 0,
                **tensors: Any) -> Any:
        """Executes on the tensors that the operation's struct names, and writes results to the arrays given for them. Returns None,
        or on pyopencl arrays the event of the work.

        tensors       q, k, v, o, lse, d_o, dq, ... of clattn/attention.h, parts of clattn/merge.h, k_cache of clattn/append.h, ggq
                      of clattn/double_backward.h
        queue         as in attention()
        dropout_seed, dropout_offset  which weights are dropped; 0 by default
        dropout_place  where a part of a larger attention lies, so that it drops what the whole does: fields of clattn_dropout_place,
                      such as {"key": 4096}; empty by default
        score_mod, mask_mod  the plan's functions with other arrays and numbers than those that it was made with
        version       as in attention(), 0 by default

        Shapes, dtypes and strides must be those of the problem, which the text form tells (q=bshd). Axes of one may be left out,
        and a merge's states and batches be one axis. Quantized tensors are bytes (uint8), the blocks of a row one after the other
        along the last axis.

        Raises InvalidArgument, which names the tensor and what it must be, and BufferTooSmall.
        """
        views, functions = self._views(tensors), self._functions.with_others(score_mod, mask_mod, lambda: self.problem)
        views.update(functions.views())
        return self._run(views, queue_of(views, queue), dropout_seed, dropout_offset, dropout_place, functions.values(),
                         whole_within("version", version, 0, 2 ** 64 - 1))

    def check_tables(self, *, queue: Any = None, **tensors: Any) -> None:
        """Looks for what is wrong in the integers of a forward execution: lengths, starts, page tables and block lists that name
        what is not there. An execution takes them all, as clattn/problem.h says; mostly they are mistakes.

        tensors       those of execute(), of which these suffice
        queue         as in execute(); it waits for the work on it: for debugging

        Raises InvalidArgument, which names the first mistake.
        """
        views = self._views(tensors)
        self._check_tables(views, queue_of(views, queue))

    def _check_tables(self, views: Mapping[str, View], queue: Any) -> None:
        if self._problem.operation != c.FORWARD:
            raise InvalidArgument(f"check_tables() is of forward problems, not of '{self.problem}'")
        for event in _events_of(views.values()):
            event.wait()
        struct = c.clattn_forward_tensors(struct_size=ctypes.sizeof(c.clattn_forward_tensors))
        with Operands(self.context.opencl, {name: one for name, one in views.items() if name in _TABLES}, ()) as operands:
            fill(struct, operands.places)
            check(load().lib.clattn_check_tables(self._handle, self.context.queue() if queue is None else queue.int_ptr,
                                                 ctypes.byref(struct)))

    @functools.cached_property
    def _tensors(self) -> dict[str, Tensor]:
        return tensors_of(self._problem)

    def _views(self, tensors: Mapping[str, Any]) -> dict[str, View]:
        return views_of(tensors, self._tensors, ("workspace",), lambda: self.problem)

    def _run(self, views: Mapping[str, View], queue: Any, seed: int = 0, offset: int = 0,
             place: Mapping[str, int] = {}, values: Optional[c.clattn_function_values] = None, version: int = 0) -> Any:
        function, kind, written = _EXECUTIONS[self._problem.operation]
        self.context.handle  # refuses a child of fork()
        if queue is None and any(one.on_device for one in views.values()):
            raise InvalidArgument("queue must be given: none of the arrays has one")
        struct = kind()
        if not hasattr(struct, "dropout_seed"):
            if seed or offset or place:
                raise InvalidArgument(f"dropout_seed, dropout_offset or dropout_place is given, but '{self.problem}' has no dropout")
        else:
            struct.dropout_seed = whole("dropout_seed", seed) & 0xFFFFFFFFFFFFFFFF
            struct.dropout_offset = whole("dropout_offset", offset) & 0xFFFFFFFF
            struct.dropout_place = _place(place)
            struct.function_values = None if values is None else ctypes.addressof(values)
            struct.function_version = version
        return run(getattr(load().lib, function), self._handle, self.context, struct, views, c.WRITTEN[written], queue)

    def __repr__(self) -> str:
        return f"<clattn.Plan of '{self.problem}': {self.info['family']}>"


Plan.__doc__ = inspect.cleandoc(Plan.__doc__ or "") + "\n\n" + c.TEXT_FORMS["problem"]
_TABLES = ("q_lengths", "kv_lengths", "page_table", "q_starts", "kv_starts", "block_offsets", "block_entries",
           "topk_indices")


def _place(given: Mapping[str, int]) -> c.clattn_dropout_place:
    members = [name for name, *_ in c.clattn_dropout_place._fields_]
    if not isinstance(given, Mapping) or not set(given) <= set(members):
        raise InvalidArgument(f"dropout_place must map some of {', '.join(members)} to numbers, not {given!r}")
    return c.clattn_dropout_place(**{name: whole_within(f"dropout_place[{name!r}]", value, 0, 2 ** 32 - 1)
                                     for name, value in given.items()})
