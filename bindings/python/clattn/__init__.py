# SPDX-License-Identifier: Apache-2.0
"""clattn: attention for every OpenCL device, on NumPy arrays, pyopencl arrays and PyTorch tensors.

    o = clattn.attention(q, k, v, causal="br")

`python -m clattn doctor` says what there is and what is missing. The headers that these texts name, such as
clattn/problem.h, lie in the folder include of the package.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import _declarations
from ._types import Blocks
from .attention import attention, attention_backward
from .blocks import blocks_documents, blocks_mask, blocks_strided, blocks_window, function_blocks
from .context import Context, default_context
from .double_backward import attention_double_backward
from .dropout import dropout_mask
from .errors import (BufferTooSmall, BuildFailed, Error, FileError, InvalidArgument, InvalidProblem, Miscompiled,
                     NoCompiler, NoDevice, NotTuned, OpenCLError, OutOfMemory, Unsupported)
from .function import Function, function, mask_mod, score_mod
from .indexer import indexer, indexer_gradients
from .multihead import Multihead
from .plan import Plan
from .quantize import quantize, quantize_host, quantized_bytes
from .tuning import tune

if TYPE_CHECKING:
    from . import torch as torch

__all__ = ["Blocks", "BufferTooSmall", "BuildFailed", "Context", "Error", "FileError", "Function", "InvalidArgument", "InvalidProblem",
           "Miscompiled", "Multihead", "NoCompiler", "NoDevice", "NotTuned", "OpenCLError", "OutOfMemory", "Plan", "Unsupported", "attention", "attention_backward", "attention_double_backward", "blocks_documents",
           "blocks_mask", "blocks_strided", "blocks_window", "default_context", "dropout_mask", "function", "function_blocks", "indexer", "indexer_gradients", "mask_mod", "quantize",
           "quantize_host", "quantized_bytes", "score_mod", "tune", "version"]

__version__ = f"{_declarations.VERSION_MAJOR}.{_declarations.VERSION_MINOR}.{_declarations.VERSION_PATCH}"


if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        """clattn.torch, which imports PyTorch, when it is first named."""
        if name == "torch":
            return importlib.import_module(".torch", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def version() -> str:
    """The version of the library that is loaded, which CLATTN_LIBRARY may choose; __version__ is the package's.

    Raises Error where it cannot be loaded.
    """
    from ._library import load

    return load().lib.clattn_version_string().decode()
