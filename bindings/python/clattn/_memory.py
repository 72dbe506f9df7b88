# SPDX-License-Identifier: Apache-2.0
"""Operands of a call: device buffers as they are, host memory through buffers that lie over it.

Arrays that share memory (q, k and v of one packed array) get one buffer, since OpenCL leaves commands
undefined that use several over the same memory. Mapping what was written makes it visible on the host;
where the device shares the host's memory neither step copies anything.

Python's handlers of signals run between bytecodes, and their exceptions begin there. So a call on host memory is
enqueued, waited for and mapped by one call of list(): no exception comes between, after which a caller might free an
array that a kernel still writes to.
"""
from __future__ import annotations

import ctypes
import functools
from typing import Any, Iterable, Optional

from . import _declarations as c
from ._library import check, check_cl, load
from ._views import View
from .errors import InvalidArgument

_READ_WRITE, _READ_ONLY, _USE_HOST_PTR = 1, 4, 8  # CL_MEM_...
_MAP_READ = 1  # CL_MAP_READ

Step = functools.partial  # of a function of C, so that no bytecode runs when it is called
_call = functools.partial.__call__


class _Region:
    """Host memory that views share, from `begin` to before `end`."""

    def __init__(self, view: View):
        self.views = [view]
        self.begin, self.end = view.pointer, view.pointer + view.reach
        self.buffer = 0


def _regions(views: Iterable[View]) -> list[_Region]:
    found: list[_Region] = []
    for one in sorted(map(_Region, views), key=lambda region: region.begin):
        if found and one.begin < found[-1].end:
            found[-1].views += one.views
            found[-1].end = max(found[-1].end, one.end)
        else:
            found.append(one)
    return found


class Operands:
    """Buffers for the views of a call, for as long as a `with` block lasts."""

    def __init__(self, opencl: int, views: dict[str, View], written: Iterable[str]):
        self._opencl = opencl
        self._views = views
        self._written = {name for name in written if name in views}
        self._regions: list[_Region] = []
        self._queue: Optional[int] = None
        self.places: dict[str, c.clattn_buffer] = {}
        for name in self._written:
            if not views[name].writeable:
                raise InvalidArgument(f"{views[name].name} is read-only, but would be written")
        kinds = {view.on_device for view in views.values() if view.reach}
        if len(kinds) > 1:
            host = next(view.name for view in views.values() if view.reach and not view.on_device)
            raise InvalidArgument(f"{host} lies in host memory, other arrays on a device; give all of one kind")
        self.on_device = True in kinds

    def __enter__(self) -> "Operands":
        for name, view in self._views.items():
            if view.on_device and view.reach:
                self.places[name] = c.clattn_buffer(buffer=view.buffer, offset=view.place_at(view.offset)) if view.buffer else \
                    c.clattn_buffer(pointer=view.pointer, bytes=view.svm_bytes, offset=view.place_at(view.offset))
        try:
            if not self.on_device:
                self._lay_buffers()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _lay_buffers(self) -> None:
        cl = load().cl
        names = {id(view): name for name, view in self._views.items()}
        for region in _regions(view for view in self._views.values() if view.reach):
            writes = any(names[id(view)] in self._written for view in region.views)
            error = ctypes.c_int32()
            region.buffer = cl.clCreateBuffer(self._opencl, _USE_HOST_PTR | (_READ_WRITE if writes else _READ_ONLY),
                                              region.end - region.begin, region.begin, ctypes.byref(error))
            check_cl(error.value, f"clCreateBuffer over {region.views[0].name}")
            self._regions.append(region)
            for view in region.views:
                offset, rest = divmod(view.pointer - region.begin, view.itemsize)
                if rest:
                    raise InvalidArgument(f"{view.name} shares memory with {region.views[0].name}, at a distance that is "
                                          "not a multiple of its elements")
                self.places[names[id(view)]] = c.clattn_buffer(buffer=region.buffer, offset=view.place_at(offset))

    def run(self, queue: int, enqueue: Step[int], in_order: bool) -> None:
        """Takes the step that enqueues, and waits until the host sees what was written."""
        cl = load().cl
        finish = Step(cl.clFinish, queue)
        written = [region for region in self._regions if any(self._views[name] in region.views for name in self._written)]
        errors = [ctypes.c_int32() for _ in written]
        steps = [enqueue] if in_order else [enqueue, finish]
        for region, error in zip(written, errors):
            # the pointer that mapping gives is that of the host's memory; out of order unmapping would not wait for it
            steps += [Step(cl.clEnqueueMapBuffer, queue, region.buffer, not in_order, _MAP_READ, 0,
                           region.end - region.begin, 0, None, None, ctypes.byref(error)),
                      Step(cl.clEnqueueUnmapMemObject, queue, region.buffer, region.begin, 0, None, None)]
        steps.append(finish)
        self._queue = queue
        status, *_, finished = list(map(_call, steps))
        self._queue = None
        check(status)
        for region, error in zip(written, errors):
            check_cl(error.value, f"clEnqueueMapBuffer of {region.views[0].name}")
        check_cl(finished, "clFinish")

    def __exit__(self, *_exception: Any) -> None:
        if self._queue is not None:  # an exception from the middle of the steps
            load().cl.clFinish(self._queue)
        for region in self._regions:
            load().cl.clReleaseMemObject(region.buffer)
        self._regions = []


def need_alive(views: Iterable[View], queue: Any) -> None:
    """Refuses buffers that were released by hand, which a driver would fall over. OpenCL cannot tell them from those that
    live, but loaders have every object begin with the address of its driver's table of functions (cl_khr_icd), and memory
    that was given back does not. Where a queue, its context and its device do not agree on one, there is no such table."""
    tables = {ctypes.c_void_p.from_address(one.int_ptr).value for one in (queue, queue.context, queue.device)}
    for one in views:
        if one.buffer and len(tables) == 1 and ctypes.c_void_p.from_address(one.buffer).value not in tables:
            raise InvalidArgument(f"{one.name} lies in a buffer that was released, or that is of another driver than the queue")


def need_context(views: Iterable[View], queue: Any) -> None:
    """Refuses pyopencl's arrays that are of another OpenCL context than the queue."""
    for one in views:
        context = getattr(one.array, "context", None) if one.on_device else None
        if context is not None and context.int_ptr != queue.context.int_ptr:
            raise InvalidArgument(f"{one.name} is of another OpenCL context than queue: give a queue of the arrays' context")


@functools.lru_cache(maxsize=None)
def _members(kind: type[ctypes.Structure], prefixes: tuple[tuple[str, str], ...],
             prefix: str = "") -> dict[str, tuple[str, ...]]:
    """The names of the tensors that a struct has room for, and the path of members to each."""
    found: dict[str, tuple[str, ...]] = {}
    for name, member, *_ in kind._fields_:
        if member is c.clattn_buffer:
            found[prefix + name] = (name,)
        elif issubclass(member, ctypes.Structure):
            inner = _members(member, prefixes, dict(prefixes).get(name, ""))
            found.update((key, (name,) + path) for key, path in inner.items())
    return found


def fill(struct: ctypes.Structure, places: dict[str, c.clattn_buffer],
         prefixes: dict[str, str] | None = None) -> Iterable[str]:
    """Sets the members of a struct of tensors, nested ones too; returns the names that it has room for."""
    members = _members(type(struct), tuple((prefixes or {}).items()))
    for name, place in places.items():
        *path, last = members.get(name, ("",))
        if last:
            setattr(functools.reduce(getattr, path, struct), last, place)
    return members
