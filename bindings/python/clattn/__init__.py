"""clattn: attention for every OpenCL device, on NumPy arrays, pyopencl arrays and PyTorch tensors.

    o = clattn.attention(q, k, v, causal="br")

`python -m clattn doctor` says what there is and what is missing.
"""
from .attention import attention, attention_backward
from .context import Context, default_context
from .errors import (BufferTooSmall, BuildFailed, Error, FileError, InvalidArgument, InvalidProblem, Miscompiled,
                     NoCompiler, NoDevice, NotTuned, OpenCLError, OutOfMemory, Unsupported)
from .multihead import Multihead
from .plan import Plan
from .tuning import tune

__all__ = ["BufferTooSmall", "BuildFailed", "Context", "Error", "FileError", "InvalidArgument", "InvalidProblem",
           "Miscompiled", "Multihead", "NoCompiler", "NoDevice", "NotTuned", "OpenCLError", "OutOfMemory", "Plan",
           "Unsupported", "attention", "attention_backward", "default_context", "tune", "version"]


def version() -> str:
    """The version of the library."""
    from ._library import load

    return load().lib.clattn_version_string().decode()
