# SPDX-License-Identifier: Apache-2.0
"""Tensors that DLPack hands out, read from the capsule itself: NumPy's reader has no bfloat16 and no OpenCL, for whose
buffers DLPack has a device type. The capsule owns the tensor and is kept for as long as a call needs it."""
from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Optional

from .errors import InvalidArgument

HOST, OPENCL = 1, 4  # kDLCPU, kDLOpenCL

# By code and bits.
_DTYPES = {(0, 8): "int8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64", (1, 8): "uint8", (2, 16): "float16",
           (2, 32): "float32", (2, 64): "float64", (4, 16): "bfloat16", (6, 8): "bool",
           (10, 8): "float8_e4m3fn", (12, 8): "float8_e5m2"}


class _Tensor(ctypes.Structure):
    """DLTensor, which a DLManagedTensor begins with."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Exported(NamedTuple):
    """What a capsule says of a tensor; strides in bytes, None of a packed one."""

    capsule: Any
    on_device: bool
    data: int
    byte_offset: int
    shape: tuple[int, ...]
    strides: Optional[tuple[int, ...]]
    dtype: str
    itemsize: int


def _pointer_of(capsule: Any) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, b"dltensor") or 0)


def read(name: str, array: Any) -> Exported:
    """Of host memory or an OpenCL buffer; else InvalidArgument that names the argument."""
    try:
        capsule = array.__dlpack__()
        tensor = ctypes.cast(_pointer_of(capsule), ctypes.POINTER(_Tensor)).contents
    except Exception as error:  # whatever the exporter raises
        raise InvalidArgument(f"{name} is not handed out by DLPack: {error}") from None
    if tensor.device_type not in (HOST, OPENCL):
        raise InvalidArgument(f"{name} lies on a device of DLPack's type {tensor.device_type}; clattn takes host memory "
                              f"({HOST}) and OpenCL buffers ({OPENCL})")
    dtype = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise InvalidArgument(f"{name} has elements of DLPack's code {tensor.code}, {tensor.bits} bits and {tensor.lanes} "
                              "lanes, which clattn does not take")
    itemsize = tensor.bits // 8
    shape = tuple(tensor.shape[:tensor.ndim])
    if any(size < 0 for size in shape):
        raise InvalidArgument(f"{name} is of the shape {shape}, with a negative size")
    strides = tuple(step * itemsize for step in tensor.strides[:tensor.ndim]) if tensor.strides else None
    return Exported(capsule, tensor.device_type == OPENCL, tensor.data or 0, tensor.byte_offset, shape, strides, dtype,
                    itemsize)
