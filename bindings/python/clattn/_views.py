# SPDX-License-Identifier: Apache-2.0
"""Arrays as clattn sees them: where the elements lie, of which type, at which strides."""
from __future__ import annotations

import functools
import importlib
import sys
from typing import Any, Optional, Sequence

import numpy as np

from . import _declarations as c
from . import _dlpack
from .errors import InvalidArgument

DTYPES = {"float32": c.F32, "float16": c.F16, "bfloat16": c.BF16}


class View:
    """An array under the name that the caller knows it by. Of host memory @pointer is the address of the first
    element; on a device @buffer is a cl_mem, or @pointer an address in shared virtual memory of @svm_bytes.
    @offset and @strides count elements, @reach the bytes from the first element to behind the last. What has no element
    lies at any strides: they are those of a packed array. @block_bytes is 0, or of a block of a quantized tensor's."""

    __slots__ = ("name", "array", "shape", "strides", "dtype", "itemsize", "pointer", "buffer", "svm_bytes", "offset",
                 "writeable", "on_device", "reach", "owner", "block_bytes")

    def __init__(self, name: str, array: Any, shape: Sequence[int], byte_strides: Sequence[int], dtype: str,
                 itemsize: int, *, pointer: int = 0, buffer: int = 0, svm_bytes: int = 0, byte_offset: int = 0, writeable: bool = True,
                 owner: Any = None):
        self.name, self.array, self.dtype, self.itemsize = name, array, dtype, itemsize
        self.shape = tuple(shape)
        self.pointer, self.buffer, self.svm_bytes, self.writeable = pointer, buffer, svm_bytes, writeable
        self.block_bytes = 0
        self.owner = owner  # of the memory, where that is not the array
        self.on_device = bool(buffer or svm_bytes)
        try:
            self.strides, self.reach = _geometry(self.shape, tuple(byte_strides), itemsize)
            self.offset = _in_elements("offset", byte_offset, itemsize)
        except InvalidArgument as error:
            raise InvalidArgument(f"{name} has {error}") from None
        if self.reach and not (pointer or buffer):
            raise InvalidArgument(f"{name} has elements, but no memory")

    def strides_like(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Strides along `sizes`, with which the shape, aligned at the right, is broadcast as NumPy does."""
        shape = (1,) * (len(sizes) - len(self.shape)) + self.shape
        strides = (0,) * (len(sizes) - len(self.shape)) + self.strides
        if len(shape) != len(sizes) or any(have not in (1, want) for have, want in zip(shape, sizes)):
            raise InvalidArgument(f"{self.name} is of shape {self.shape}, which does not broadcast to {tuple(sizes)}")
        return strides

    def as_rank(self, rank: int) -> tuple[int, ...]:
        return (1,) * (rank - len(self.shape)) + self.shape

    def place_at(self, elements: int) -> int:
        """The place of the first element, in the library's count: values of quantized tensors."""
        if not self.block_bytes:
            return elements
        blocks, rest = divmod(elements, self.block_bytes)
        if rest:
            raise InvalidArgument(f"{self.name} begins {rest} bytes behind the beginning of a block")
        return 32 * blocks

    def need_contiguous(self) -> None:
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            if size > 1 and stride != step:
                raise InvalidArgument(f"{self.name} must be C-contiguous")
            step *= max(size, 1)


def packed(sizes: Sequence[int]) -> tuple[int, ...]:
    """The strides of a C-contiguous array."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.append(strides[-1] * max(size, 1))
    return tuple(reversed(strides))[:len(sizes)]


def _in_elements(what: str, step: int, itemsize: int) -> int:
    if step < 0 or step % itemsize:
        raise InvalidArgument(f"{what} of {step} bytes; steps must be multiples of the {itemsize} bytes of an element and "
                              "not negative (numpy.ascontiguousarray makes a copy that is)")
    return step // itemsize


@functools.lru_cache(maxsize=1024)  # programs call with the same few shapes again and again
def _geometry(shape: tuple[int, ...], byte_strides: tuple[int, ...], itemsize: int) -> tuple[tuple[int, ...], int]:
    """Strides in elements, 0 along an axis of one, and the bytes from the first element to behind the last."""
    if 0 in shape:
        return tuple(0 if size == 1 else step for size, step in zip(shape, packed(shape))), 0
    strides = tuple(_in_elements("a step", step, itemsize) if size > 1 else 0 for size, step in zip(shape, byte_strides))
    return strides, (1 + sum((size - 1) * stride for size, stride in zip(shape, strides))) * itemsize


def _is_pyopencl(array: Any) -> bool:
    module = sys.modules.get("pyopencl.array")
    return module is not None and isinstance(array, module.Array)


def _is_torch(array: Any) -> bool:
    module = sys.modules.get("torch")
    return module is not None and isinstance(array, module.Tensor)


def view(name: str, array: Any) -> View:
    """A view of a NumPy array, a pyopencl array, a PyTorch tensor on the CPU, or what DLPack or the array
    interface hands out of host memory; nothing is copied."""
    if isinstance(array, View):
        return array
    if _is_pyopencl(array):
        return _view_of_pyopencl(name, array)
    if _is_torch(array):
        return _view_of_torch(name, array)
    if isinstance(array, np.ma.MaskedArray):
        raise InvalidArgument(f"{name} is a masked array, whose mask would be lost: give its data, and a mask of scores as mask=")
    if not isinstance(array, np.ndarray):
        if not hasattr(array, "__array_interface__") and hasattr(array, "__dlpack__"):
            return _view_of_dlpack(name, array)
        array = _to_numpy(name, array)
    interface = array.__array_interface__
    return View(name, array, array.shape, array.strides, _dtype_name(array.dtype), array.dtype.itemsize,
                pointer=interface["data"][0], writeable=not interface["data"][1])


@functools.lru_cache(maxsize=None)
def _dtype_name(dtype: np.dtype) -> str:
    return dtype.name if dtype.isnative else dtype.str  # of which NumPy puts the first together anew each time


def _to_numpy(name: str, array: Any) -> np.ndarray:
    try:
        if hasattr(array, "__array_interface__"):
            return np.asarray(array)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise InvalidArgument(f"{name} cannot be read as a NumPy array: {error}") from None
    raise InvalidArgument(f"{name} must be a NumPy array or a pyopencl array, not {type(array).__name__}")


def _view_of_dlpack(name: str, array: Any) -> View:
    one = _dlpack.read(name, array)
    host, buffer = (0, one.data) if one.on_device else (one.data + one.byte_offset, 0)
    strides = one.strides or [step * one.itemsize for step in packed(one.shape)]
    return View(name, array, one.shape, strides, one.dtype, one.itemsize, pointer=host, buffer=buffer,
                byte_offset=one.byte_offset if one.on_device else 0, owner=one.capsule)


def _view_of_pyopencl(name: str, array: Any) -> View:
    memory = array.base_data
    place = {}
    if hasattr(memory, "int_ptr"):
        place = dict(buffer=memory.int_ptr)
    elif memory is not None:  # None where there is no element
        place = dict(pointer=memory.svm_ptr, svm_bytes=memory.size)
    return View(name, array, array.shape, array.strides, _dtype_name(array.dtype), array.dtype.itemsize,
                byte_offset=array.offset, **place)


def _need_no_gradient(name: str, tensor: Any) -> None:
    if tensor.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise InvalidArgument(f"{name} needs a gradient, which this function does not give: take clattn.torch, or "
                              f"{name}.detach()")


def _view_of_torch(name: str, tensor: Any) -> View:
    if tensor.device.type != "cpu":
        raise InvalidArgument(f"{name} is on the device {tensor.device}; clattn takes tensors on the CPU")
    _need_no_gradient(name, tensor)
    if tensor.layout is not sys.modules["torch"].strided or tensor.is_nested:
        raise InvalidArgument(f"{name} is of layout {tensor.layout}{', nested' if tensor.is_nested else ''}; clattn takes "
                              "strided tensors")
    if tensor.is_neg() or tensor.is_conj():
        raise InvalidArgument(f"{name} has the values of its memory negated or conjugated: give {name}.resolve_neg()")
    size = tensor.element_size()
    made = View(name, tensor, tensor.shape, [step * size for step in tensor.stride()], str(tensor.dtype)[len("torch."):],
                size, pointer=tensor.data_ptr())
    if made.reach and tensor.storage_offset() * size + made.reach > tensor.untyped_storage().nbytes():
        raise InvalidArgument(f"{name} reaches beyond its storage, which was shrunk or freed to {tensor.untyped_storage().nbytes()} bytes")
    return made


def value_dtype(view_: View) -> int:
    """The clattn_dtype of a tensor of values."""
    if view_.dtype not in DTYPES:
        raise InvalidArgument(f"{view_.name} is of dtype {view_.dtype}; clattn takes {', '.join(DTYPES)}")
    return DTYPES[view_.dtype]


def need_bytes(one: View, shape: Sequence[int]) -> None:
    """Of a packed array of bytes."""
    if one.dtype not in ("bool", "uint8") or one.shape != tuple(shape):
        raise InvalidArgument(f"{one.name} is of shape {one.shape} and dtype {one.dtype}, not {tuple(shape)} and bool or uint8")
    one.need_contiguous()


def vector(name: str, values: Any, dtype: type, length: Optional[int], like: View) -> View:
    """A small vector of an option (slopes, lengths): host values of any kind are converted."""
    wanted = f"{'a list' if length is None else length} of {np.dtype(dtype)}"
    if not _is_pyopencl(values) and not like.on_device:
        if _is_torch(values):
            _need_no_gradient(name, values)
        try:
            values = np.asarray(values.detach() if _is_torch(values) else values)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InvalidArgument(f"{name} cannot be read as a NumPy array: {error}") from None
        if values.dtype.kind not in ("f" if dtype is np.float32 else "iu") and values.size:
            raise InvalidArgument(f"{name} is of dtype {values.dtype}, not {np.dtype(dtype)}")
        if not values.ndim:  # of which NumPy would make one of one
            raise InvalidArgument(f"{name} must be {wanted}, not one number")
        given, values = values, np.ascontiguousarray(values, dtype=dtype)
        if dtype is np.int32 and (given != values).any():
            raise InvalidArgument(f"{name} has numbers that 32 bits do not hold")
    made = view(name, values)
    if made.dtype != np.dtype(dtype).name or len(made.shape) != 1 or length not in (None, *made.shape):
        raise InvalidArgument(f"{name} must be {wanted}, not {made.shape} of {made.dtype}")
    made.need_contiguous()
    return made


def _numpy_dtype(name: str, dtype: str) -> np.dtype[Any]:
    try:
        if dtype == "bfloat16":
            return np.dtype(importlib.import_module("ml_dtypes").bfloat16)
        return np.dtype(dtype)
    except ImportError:
        raise InvalidArgument(f"{name} is of bfloat16, which NumPy has not: give arrays for the results (out=), or install "
                              "ml_dtypes") from None


def empty_like(like: View, shape: Sequence[int], dtype: str | None = None, queue: Any = None) -> Any:
    """A packed array of the same kind: NumPy's, PyTorch's, or pyopencl's on the caller's queue."""
    if _is_torch(like.array):
        torch = sys.modules["torch"]
        return torch.empty(tuple(shape), dtype=getattr(torch, dtype or like.dtype))
    kind = like.array.dtype if dtype is None and hasattr(like.array, "dtype") else _numpy_dtype(like.name, dtype or like.dtype)
    if not _is_pyopencl(like.array) and not like.on_device:
        return np.empty(tuple(shape), kind)
    return sys.modules["pyopencl.array"].empty(queue, tuple(shape), kind)


def room(shape: Sequence[int], dtype: type, queue: Any) -> Any:
    """NumPy's array; on a caller's queue pyopencl's, of bytes."""
    if queue is None:
        return np.empty(tuple(shape), dtype)
    return importlib.import_module("pyopencl.array").empty(queue, tuple(shape), np.uint8)
