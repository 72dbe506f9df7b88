# SPDX-License-Identifier: Apache-2.0
"""The shared library and OpenCL's loader, both loaded at the first use and not before.

`import clattn` works where there is no OpenCL at all; the first call says what is missing. The loader is
the file that the environment variable CLATTN_LIBOPENCL names, else the system's (libOpenCL.so.1, OpenCL.dll, Apple's framework).
On Linux its symbols are global, and those are what the library, which is linked to none, calls. A call through ctypes.CDLL gives up the GIL.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple, Optional, Sequence

from . import errors

logger = logging.getLogger("clattn")
logger.addHandler(logging.NullHandler())


class _System(NamedTuple):
    """What shared libraries are called on a system, and where its OpenCL loader comes from."""

    loaders: list[str]
    name: str  # of a library of this package
    installed: str  # the library where there is none beside this file
    install: str


_SYSTEM = {
    "win32": _System(["OpenCL.dll"], "{}.dll", "clattn.dll", "a driver of the GPU or the CPU brings it"),
    "darwin": _System(["/System/Library/Frameworks/OpenCL.framework/OpenCL"], "lib{}.dylib", "libclattn.0.1.dylib",
                      "macOS has it"),
}.get(sys.platform, _System(
    ["libOpenCL.so.1"], "lib{}.so", "libclattn.so.0.1",
    "install one, on Debian and Ubuntu `apt install ocl-icd-libopencl1`, and a driver, such as pocl-opencl-icd for the CPU"))


def beside(name: str) -> Path:
    """The file of a library of this package, as "clattn"."""
    return Path(__file__).with_name(_SYSTEM.name.format(name))


_CL_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "clCreateBuffer": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p,
                                         ctypes.c_void_p]),
    "clReleaseMemObject": (ctypes.c_int32, [ctypes.c_void_p]),
    "clCreateCommandQueue": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]),
    "clReleaseCommandQueue": (ctypes.c_int32, [ctypes.c_void_p]),
    "clFinish": (ctypes.c_int32, [ctypes.c_void_p]),
    "clEnqueueMapBuffer": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64,
                                             ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_void_p,
                                             ctypes.c_void_p, ctypes.c_void_p]),
    "clEnqueueUnmapMemObject": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32,
                                                 ctypes.c_void_p, ctypes.c_void_p]),
    "clGetPlatformIDs": (ctypes.c_int32, [ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p]),
}

_lock = threading.Lock()
_loaded: Optional[_Loaded] = None


class _Loaded:
    """Both libraries, with their functions' types."""

    def __init__(self) -> None:
        from . import _declarations

        self.opencl_file, self.cl = _load_opencl()
        self.file, self.lib = _load_clattn()
        for name, (result, arguments) in _declarations.FUNCTIONS.items():
            _declare(self.lib, name, result, arguments)
        for name, (result, arguments) in _CL_FUNCTIONS.items():
            _declare(self.cl, name, result, arguments)


def _declare(library: ctypes.CDLL, name: str, result: Any, arguments: Sequence[Any]) -> None:
    function = getattr(library, name)
    function.restype = result
    function.argtypes = arguments


def _load_opencl() -> tuple[str, ctypes.CDLL]:
    named = os.environ.get("CLATTN_LIBOPENCL")
    reasons = []
    for candidate in [named] if named else [*_SYSTEM.loaders, ctypes.util.find_library("OpenCL")]:
        try:
            if candidate:
                return candidate, ctypes.CDLL(candidate, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            reasons.append(str(error))
    raise errors.NoDevice("there is no OpenCL loader (" + "; ".join(reasons or [f"no {_SYSTEM.loaders[0]}"]) +
                          f"): {_SYSTEM.install}; `python -m clattn doctor` says more")


def _load_clattn() -> tuple[str, ctypes.CDLL]:
    own = beside("clattn")
    candidates = [os.environ.get("CLATTN_LIBRARY"), str(own) if own.exists() else None, _SYSTEM.installed]
    for candidate in candidates:
        if candidate:
            try:
                return candidate, ctypes.CDLL(candidate)
            except OSError as error:
                raise errors.Error(f"the library cannot be loaded: {error}") from None
    raise AssertionError


def load() -> _Loaded:
    """The libraries; NoDevice with a sentence where there is no OpenCL."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = _Loaded()
    return _loaded


def hear(level: int, message: bytes, _user_data: Any) -> None:
    """A context's log goes to `logging`, but for errors, whose sentences are the exceptions' (check())."""
    from . import _declarations

    if level != _declarations.LOG_ERROR:
        levels = {_declarations.LOG_WARNING: logging.WARNING, _declarations.LOG_INFO: logging.INFO}
        logger.log(levels.get(level, logging.DEBUG), "%s", message.decode("utf-8", "replace"))


def check(status: int, sentence: str = "") -> None:
    """Raises the exception of a status. Its sentence is the one given, else that of the thread's last error."""
    if status == 0:
        return
    lib = load().lib
    name = lib.clattn_status_string(status).decode()
    sentence = sentence or lib.clattn_context_last_error(None).decode("utf-8", "replace") or name
    raise errors.BY_STATUS.get(name, errors.Error)(sentence)


def check_cl(error: int, call: str) -> None:
    if error:
        raise errors.OpenCLError(f"{call}: error {error}")


def described(function: Any, handle: int, kind: Any) -> dict[str, Any]:
    """The members of the struct that a function (handle, info) fills in."""
    info = kind(struct_size=ctypes.sizeof(kind))
    check(function(handle, ctypes.byref(info)))
    values = {name: getattr(info, name) for name, *_ in info._fields_ if name != "struct_size"}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def ask_text(function: Any, *arguments: Any) -> str:
    """The text that a function (..., text, text_bytes, needed) prints."""
    needed = ctypes.c_size_t()
    function(*arguments, None, 0, ctypes.byref(needed))
    text = ctypes.create_string_buffer(max(1, needed.value))
    check(function(*arguments, text, len(text), None))
    return text.value.decode()


def with_reason(function: Any, *arguments: Any) -> None:
    """Calls a function (..., reason, reason_bytes), whose reason is also the thread's last error."""
    check(function(*arguments, None, 0))
