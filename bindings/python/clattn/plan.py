"""A problem that was chosen and built for: plans, and their execution on arrays of any kind."""
from __future__ import annotations

import ctypes
import functools
import os
import sys
import weakref
from typing import Any, Mapping, Optional, Union

from . import _declarations as c
from ._checks import number, of_pyopencl, text, text_or_none, whole, whole_within
from ._library import ask_text, check, load, with_reason
from ._memory import Operands, fill, need_alive
from ._views import DTYPES, View, view
from .context import Context, _release, given_context
from .errors import InvalidArgument

# The operation of a problem: the function that executes it and its struct of tensors.
_EXECUTIONS = {
    c.FORWARD: ("clattn_attention_forward", c.clattn_forward, "forward"),
    c.BACKWARD: ("clattn_attention_backward", c.clattn_backward, "backward"),
    c.PROJECTION: ("clattn_project", c.clattn_projection, "projection"),
    c.MERGE: ("clattn_merge", c.clattn_merge_tensors, "merge_tensors"),
    c.APPEND: ("clattn_append", c.clattn_append_tensors, "append_tensors"),
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
    """Executes a plan on what the views show. On host memory it returns when the results are there; on a
    device it waits for what the arrays wait for, and their results carry the event that is returned."""
    struct.struct_size = ctypes.sizeof(struct)
    if queue is not None:
        need_alive(views.values(), of_pyopencl("queue", queue, "CommandQueue"))
    with Operands(context.opencl, dict(views), written) as operands:
        room = fill(struct, operands.places, prefixes)
        for name in views:
            if name not in room:
                raise InvalidArgument(f"{name} is given, but this operation has none")
        if not operands.on_device:
            handle = context.queue() if queue is None else queue.int_ptr
            check(function(plan, handle, ctypes.byref(struct), 0, None, None))
            operands.finish(handle)
            return None
        events = [of_pyopencl(f"an event of {one.name}", event, "Event")
                  for one in views.values() for event in getattr(one.array, "events", ())]
        wait = (ctypes.c_void_p * len(events))(*(event.int_ptr for event in events))
        done = ctypes.c_void_p()
        check(function(plan, queue.int_ptr, ctypes.byref(struct), len(events), wait if events else None,
                       ctypes.byref(done)))
    event = sys.modules["pyopencl"].Event.from_int_ptr(done.value, False)
    for name in written:
        if name in views:
            array = views[name].array
            array.add_event(event) if hasattr(array, "add_event") else event.wait()
    return event


class Plan:
    """What a problem gets on a device: chosen, built and checked once, executed often, also by threads.

    `problem` is a text form, as clattn/problem.h describes it. `family` and `tunables` force a choice;
    `measure_seconds` has a problem tuned first that never was; `known_only` takes only what was tuned, and
    `untuned` nothing that was.
    """

    def __init__(self, problem: Union[str, c.clattn_problem], *, context: Optional[Context] = None,
                 family: Optional[str] = None, tunables: Optional[str] = None,
                 measure_seconds: Optional[float] = None, known_only: bool = False, untuned: bool = False):
        self.context = given_context(context)
        self._problem = (c.clattn_problem.from_buffer_copy(problem) if isinstance(problem, c.clattn_problem) else
                         parse(problem))
        lib = load().lib
        flags = ((c.PLAN_MEASURE if measure_seconds is not None else 0) | (c.PLAN_KNOWN_ONLY if known_only else 0) |
                 (c.PLAN_UNTUNED if untuned else 0))
        options = c.clattn_plan_options(ctypes.sizeof(c.clattn_plan_options), text_or_none("family", family),
                                        text_or_none("tunables", tunables), flags,
                                        0.0 if measure_seconds is None else number("measure_seconds", measure_seconds))
        handle = ctypes.c_void_p()
        check(lib.clattn_plan_create(self.context.handle, ctypes.byref(self._problem), ctypes.byref(options),
                                     ctypes.byref(handle)))
        self._handle = handle.value or 0
        weakref.finalize(self, _release, lib.clattn_plan_release, self._handle, os.getpid())

    @property
    def info(self) -> dict[str, Any]:
        """Family, tunables, reason, problem, workspace_bytes, work_group_size, local_bytes, private_bytes."""
        info = c.clattn_plan_info(struct_size=ctypes.sizeof(c.clattn_plan_info))
        check(load().lib.clattn_plan_describe(self._handle, ctypes.byref(info)))
        values = {name: getattr(info, name) for name, *_ in info._fields_ if name != "struct_size"}
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}

    @property
    def problem(self) -> str:
        """The problem's text form."""
        return print_problem(self._problem)

    def execute(self, *, queue: Any = None, dropout_seed: int = 0, dropout_offset: int = 0,
                dropout_place: Mapping[str, int] = {}, **tensors: Any) -> Any:
        """Executes on the tensors that the operation's struct names: q, k, v, o, lse, d_o, dq, ... of
        clattn/attention.h, parts of clattn/merge.h, k_cache of clattn/append.h. Results are written to the arrays
        given for them. Returns None, or on pyopencl arrays the event of the work.

        Strides must be those of the problem, which the text form tells (q=bshd); a tensor without a layout of its
        own is packed. A part of a larger attention drops what the whole does if `dropout_place` says where it lies:
        the fields of clattn_dropout_place, such as {"key": 4096}.
        """
        views = {name: view(name, array) for name, array in tensors.items() if array is not None}
        for name, one in views.items():
            self._compare(name, one)
        on = queue if queue is not None else next(
            (one.array.queue for one in views.values() if one.on_device and getattr(one.array, "queue", None)), None)
        return self._run(views, on, dropout_seed, dropout_offset, dropout_place)

    def _run(self, views: Mapping[str, View], queue: Any, seed: int = 0, offset: int = 0,
             place: Mapping[str, int] = {}) -> Any:
        function, kind, written = _EXECUTIONS[self._problem.operation]
        self.context.handle  # refuses a child of fork()
        if queue is None and any(one.on_device for one in views.values()):
            raise InvalidArgument("queue must be given: none of the arrays has one")
        struct = kind()
        if hasattr(struct, "dropout_seed"):
            struct.dropout_seed = whole("dropout_seed", seed) & 0xFFFFFFFFFFFFFFFF
            struct.dropout_offset = whole("dropout_offset", offset) & 0xFFFFFFFF
            struct.dropout_place = _place(place)
        return run(getattr(load().lib, function), self._handle, self.context, struct, views, c.WRITTEN[written], queue)

    def _compare(self, name: str, one: View) -> None:
        """Refuses an array that is not of the problem's dtype, or does not lie as the problem says."""
        dtypes = dtypes_of(self._problem, name)
        need_dtype(one, dtypes)
        if dtypes == _BYTES:  # blocks, as the library counts them
            one.need_contiguous()
            return
        layout = getattr(self._problem, {"bias": "bias_layout", "mask": "mask_layout"}.get(name, name), None)
        if not isinstance(layout, c.clattn_layout) or self._problem.operation not in (c.FORWARD, c.BACKWARD):
            one.need_contiguous()
            return
        wanted = self._sizes(name)
        strides = tuple(layout.stride) if any(layout.stride) or name in ("bias", "mask") else _packed(wanted)
        have = one.strides_like(wanted) if name in ("bias", "mask") else one.strides
        if name not in ("bias", "mask") and one.shape != wanted:
            raise InvalidArgument(f"{name} is of shape {one.shape}, but of {wanted} in '{self.problem}'")
        if any(a != b for size, a, b in zip(wanted, have, strides) if size > 1):
            raise InvalidArgument(f"{name} has the strides {have} in elements, but {strides} in '{self.problem}'")

    def _sizes(self, name: str) -> tuple[int, ...]:
        p = self._problem
        if name in ("bias", "mask"):
            return (p.batch, p.heads, p.seq_q, p.mask_keys or p.seq_kv if name == "mask" else p.seq_kv)
        queries = name in ("q", "o", "d_o", "dq")
        dim = p.dim_v if name in ("v", "o", "d_o", "dv") else p.dim_qk
        if queries:
            return (1, p.heads, p.total_q, dim) if p.total_q else (p.batch, p.heads, p.seq_q, dim)
        if p.page_size:
            return (p.pages, p.kv_heads, p.page_size, dim)
        return (1, p.kv_heads, p.total_kv, dim) if p.total_kv else (p.batch, p.kv_heads, p.seq_kv, dim)

    def __repr__(self) -> str:
        return f"<clattn.Plan of '{self.problem}': {self.info['family']}>"


_FLOATS = frozenset("slopes sinks lse parts_lse scores dslopes dsinks cos sin weights".split())
_INTEGERS = frozenset("q_lengths kv_lengths page_table block_offsets block_entries q_starts kv_starts positions slots".split())
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_CACHES = {c.CACHE_F32: "float32", c.CACHE_F16: "float16", c.CACHE_BF16: "bfloat16"}
_BYTES = ("uint8", "int8")


def _cache(cache: int, plain: int) -> tuple[str, ...]:
    """Quantized blocks are bytes."""
    return (_NAMES[plain],) if cache == c.CACHE_PLAIN else (_CACHES[cache],) if cache in _CACHES else _BYTES


def dtypes_of(p: c.clattn_problem, name: str) -> tuple[str, ...]:
    """Which dtypes a problem's tensor may have; none: any."""
    if name in _FLOATS or (p.o_f32 and name in ("o", "dq", "dk", "dv")):
        return ("float32",)
    if name in _INTEGERS:
        return ("int32",)
    if name == "mask":
        return ("bool", *_BYTES)
    if name in ("bias", "dbias"):
        return (_NAMES[p.bias_dtype],)
    if name in ("k_cache", "v_cache"):
        return _cache(getattr(p, name), p.cache_dtype)
    if name in ("k", "v") and p.operation == c.FORWARD:
        return _cache(getattr(p, name + "_cache"), p.dtype)
    return () if name in ("workspace", "reserve") else (_NAMES[p.dtype],)


def need_dtype(one: View, dtypes: tuple[str, ...]) -> None:
    if dtypes and one.dtype not in dtypes:
        raise InvalidArgument(f"{one.name} is of dtype {one.dtype}, not {' or '.join(dtypes)}")


def _place(given: Mapping[str, int]) -> c.clattn_dropout_place:
    members = [name for name, *_ in c.clattn_dropout_place._fields_]
    if not isinstance(given, Mapping) or not set(given) <= set(members):
        raise InvalidArgument(f"dropout_place must map some of {', '.join(members)} to numbers, not {given!r}")
    return c.clattn_dropout_place(**{name: whole_within(f"dropout_place[{name!r}]", value, 0, 2 ** 32 - 1)
                                     for name, value in given.items()})


def _packed(sizes: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.append(strides[-1] * max(size, 1))
    return tuple(reversed(strides))
