# SPDX-License-Identifier: Apache-2.0
"""What can go wrong: an exception for each status of clattn/status.h, with the library's sentence."""
from __future__ import annotations


class Error(Exception):
    """A call of the library failed. The text is the sentence that the library logged."""

    status = "CLATTN_OPENCL_ERROR"


class InvalidArgument(Error, ValueError):
    """An argument cannot be used: a wrong type, an overlap, a queue of another context."""

    status = "CLATTN_INVALID_ARGUMENT"


class InvalidProblem(Error, ValueError):
    """Shapes and options contradict each other; no device can compute it."""

    status = "CLATTN_INVALID_PROBLEM"


class Unsupported(Error, NotImplementedError):
    """The problem is sound, but not for this device or the family that was forced."""

    status = "CLATTN_UNSUPPORTED"


class BufferTooSmall(Error, ValueError):
    """An array is shorter than what the call would read or write."""

    status = "CLATTN_BUFFER_TOO_SMALL"


class NoDevice(Error):
    """No OpenCL loader, no platform, or no device of that name; `python -m clattn doctor` says more."""

    status = "CLATTN_NO_DEVICE"


class NoCompiler(Error):
    """The device has no OpenCL C compiler."""

    status = "CLATTN_NO_COMPILER"


class BuildFailed(Error):
    """The device's compiler refused a kernel."""

    status = "CLATTN_BUILD_FAILED"


class OutOfMemory(Error, MemoryError):
    """Host or device memory ran out."""

    status = "CLATTN_OUT_OF_MEMORY"


class OpenCLError(Error):
    """An OpenCL call failed."""

    status = "CLATTN_OPENCL_ERROR"


class Miscompiled(Error):
    """The device's compiler made wrong code of a kernel."""

    status = "CLATTN_MISCOMPILED"


class NotTuned(Error):
    """Only what is known may be used, and nothing is known."""

    status = "CLATTN_NOT_TUNED"


class FileError(Error, OSError):
    """A file cannot be read, understood or written."""

    status = "CLATTN_FILE_ERROR"


BY_STATUS = {kind.status: kind for kind in Error.__subclasses__()}
