# SPDX-License-Identifier: Apache-2.0
"""A device with the programs built for it, and the queues that calls on host memory go through."""
from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
import weakref
from collections import OrderedDict
from typing import Any, Optional

from . import _declarations as c
from . import _library
from ._checks import of_pyopencl, path, text, truth
from ._library import check, check_cl, load
from .errors import InvalidArgument

_hear = c.clattn_log_callback(_library.hear)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_hear))  # threads that nobody joins may log when modules are no more
_PLANS_KEPT = 256  # as many shapes as a program may have in turn; the rest is made again without compiling


def _release(function: Any, handle: int, process: int) -> None:
    if os.getpid() == process:  # a child of fork() must not touch what was made before
        function(handle)


def release_with(owner: Any, function: Any, handle: int) -> None:
    """Has a handle released when its owner is no more. Not at the interpreter's end, when functions that were registered
    earlier (atexit) and threads that nobody joins may still use it: then the process gives back all there is."""
    weakref.finalize(owner, _release, function, handle, os.getpid()).atexit = False


_alive: "weakref.WeakSet[Context]" = weakref.WeakSet()
_alive_lock = threading.Lock()


class Compiling:
    """A `with` block that may compile. A process that ends while a thread compiles dies in some drivers' compilers."""

    ending = False
    threads: "set[int]" = set()

    def __enter__(self) -> None:
        me = threading.get_ident()
        self.threads.add(me)
        if self.ending and threading.current_thread().daemon:  # before it looks: see _leave()
            self.threads.discard(me)
            time.sleep(1.0)  # the process is gone by then, unless somebody waits for this thread
            self.threads.add(me)

    def __exit__(self, *_exception: Any) -> None:
        self.threads.discard(threading.get_ident())


@atexit.register
def _leave(patience: float = 60.0) -> None:
    """What has to be done where no release comes any more; it may be done beside calls."""
    Compiling.ending, end = True, time.monotonic() + patience
    while Compiling.threads - {threading.get_ident()} and time.monotonic() < end:
        time.sleep(0.01)
    with _alive_lock:
        contexts = list(_alive)
    for context in contexts:
        if context._process == os.getpid():
            load().lib.clattn_context_leave(context._handle)


class Context:
    """A device that clattn computes on; may be shared by threads, not by a process and its fork().

    device        an index or a part of the device's, vendor's or platform's name; None, the default: the environment's
                  CLATTN_DEVICE, else the first GPU, else the first accelerator or CPU
    opencl        None, or a pyopencl.Context, whose first device is taken
    opencl_device  None, or another device of `opencl`, a pyopencl.Device
    cache_directory  where built programs are kept; "": nowhere; None, the default: the environment's CLATTN_CACHE_DIR
    skip_self_checks  programs are used without their self-check; False by default

    Raises NoDevice where there is none, or none of this name, and InvalidArgument for arguments that exclude each other.
    """

    def __init__(self, device: Optional[str] = None, *, opencl: Any = None, opencl_device: Any = None,
                 cache_directory: Optional[str] = None, skip_self_checks: bool = False):
        loaded = load()
        options = c.clattn_context_options(struct_size=ctypes.sizeof(c.clattn_context_options), log=_hear,
                                           skip_self_checks=truth("skip_self_checks", skip_self_checks),
                                           cache_directory=path("cache_directory", cache_directory)
                                           if cache_directory is not None else None)
        handle = ctypes.c_void_p()
        if opencl is not None and device is not None:
            raise InvalidArgument("device and opencl are both given: opencl_device chooses among the devices of opencl")
        if opencl is None and opencl_device is not None:
            raise InvalidArgument("opencl_device is given, but opencl, of which it is a device, is not")
        if opencl is not None:
            devices = of_pyopencl("opencl", opencl, "Context").devices
            chosen = of_pyopencl("opencl_device", opencl_device if opencl_device is not None else devices[0], "Device")
            check(loaded.lib.clattn_context_create(opencl.int_ptr, chosen.int_ptr, ctypes.byref(options),
                                                   ctypes.byref(handle)))
        else:
            selector = None if device is None else text("device", str(device))
            status = loaded.lib.clattn_context_create_default(selector, ctypes.byref(options), ctypes.byref(handle))
            check(status, "" if status != c.NO_DEVICE else
                  (f"no OpenCL device matches {device!r}" if device is not None else "there is no OpenCL device") +
                  "; `python -m clattn doctor` lists what there is")
        self._handle = handle.value or 0
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._queues = threading.local()
        self._plans: OrderedDict[bytes, Any] = OrderedDict()
        release_with(self, loaded.lib.clattn_context_release, self._handle)
        with _alive_lock:
            _alive.add(self)

    @classmethod
    def of_queue(cls, queue: Any) -> "Context":
        """The context of a queue's context and device, made at the first call for it.

        queue         a pyopencl.CommandQueue

        Raises InvalidArgument for anything else.
        """
        of_pyopencl("queue", queue, "CommandQueue")
        key = (queue.context.int_ptr, queue.device.int_ptr, os.getpid())
        with _of_queues_lock:
            if key not in _of_queues:
                _of_queues[key] = cls(opencl=queue.context, opencl_device=queue.device)
                if len(_of_queues) > 8:
                    _of_queues.popitem(last=False)
            return _of_queues[key]

    @property
    def handle(self) -> int:
        """The clattn_context, borrowed."""
        if self._process != os.getpid():
            raise InvalidArgument("this context was made before fork(): OpenCL drivers do not survive it; make another "
                                  "before the parent has made one, or start processes by spawn")
        return self._handle

    @property
    def opencl(self) -> int:
        """The cl_context, borrowed."""
        opencl: int = load().lib.clattn_context_opencl(self.handle)
        return opencl

    @property
    def device(self) -> c.clattn_device_info:
        """The facts of the device: name, vendor, driver_version, compute_units and more."""
        pointer = load().lib.clattn_context_device(self.handle)
        return ctypes.cast(pointer, ctypes.POINTER(c.clattn_device_info)).contents

    @property
    def builds(self) -> int:
        """Programs that were compiled so far."""
        builds: int = load().lib.clattn_context_builds(self.handle)
        return builds

    def queue(self) -> int:
        """The cl_command_queue of this thread, for calls on host memory."""
        held = getattr(self._queues, "held", None)
        if held is None:
            error = ctypes.c_int32()
            cl = load().cl
            handle = cl.clCreateCommandQueue(self.opencl, self.device.device, 0, ctypes.byref(error))
            check_cl(error.value, "clCreateCommandQueue")
            held = self._queues.held = _Queue(handle)
        return held.handle

    def plan_of(self, problem: c.clattn_problem) -> Any:
        """The plan of a problem, kept for the next call with the same.

        problem       a clattn_problem of clattn._declarations

        Raises as Plan does.
        """
        from .plan import Plan

        key = bytes(problem)
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
                return plan
        plan = Plan(problem, context=self)
        with self._lock:
            self._plans[key] = plan
            if len(self._plans) > _PLANS_KEPT:
                self._plans.popitem(last=False)
        return plan

    def forget_plans(self) -> None:
        """Has the next calls make their plans anew, with what was tuned meanwhile."""
        with self._lock:
            self._plans.clear()

    def __repr__(self) -> str:
        facts = self.device
        return f"<clattn.Context on {facts.name.decode()} ({facts.platform_name.decode()})>"


class _Queue:
    def __init__(self, handle: int):
        self.handle = handle
        release_with(self, load().cl.clReleaseCommandQueue, handle)


_of_queues: "OrderedDict[tuple[int, int, int], Context]" = OrderedDict()
_of_queues_lock = threading.Lock()
_default: Optional[Context] = None
_default_lock = threading.Lock()


def default_context() -> Context:
    """The context of calls that name none, made at the first of them.

    Raises NoDevice where there is no OpenCL device.
    """
    global _default
    if _default is None:
        with _default_lock:
            if _default is None:
                _default = Context()
    return _default


def given_context(context: Optional[Context]) -> Context:
    """The context that a caller names, or the default."""
    if context is None:
        return default_context()
    if not isinstance(context, Context):
        raise InvalidArgument(f"context must be a clattn.Context, not {type(context).__name__}")
    return context
