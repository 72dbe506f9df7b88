# SPDX-License-Identifier: Apache-2.0
"""The tensors of a problem, as the library describes them, and whether an array is one of them."""
from __future__ import annotations

import ctypes
import functools
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from . import _declarations as c
from ._library import check, load
from ._views import View, view
from .errors import InvalidArgument

BLOCK = 32  # values in a block of a quantized tensor
# What the header's clattn_cache names: the caches in a dtype, by the dtype's number, and formats of blocks, by name.
DTYPE_CACHES = {vars(c)[name]: vars(c)["CACHE_" + name] for name in vars(c) if "CACHE_" + name in vars(c)}
BLOCK_CACHES = {name[len("CACHE_"):].lower(): number for name, number in vars(c).items()
                if name.startswith("CACHE_") and name != "CACHE_PLAIN" and name[len("CACHE_"):] not in vars(c)}


@functools.lru_cache(maxsize=None)
def block_bytes(cache: str) -> int:
    """Bytes of a block in one of BLOCK_CACHES."""
    number: int = load().lib.clattn_quantized_bytes(BLOCK_CACHES[cache], 1)
    return number


_BYTES = ("uint8", "int8")
# Dtypes whose elements are those of a format of bytes alone.
OWN_CACHES = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "int8": "int8"}


def cache_dtypes(cache: str) -> tuple[str, ...]:
    """What an array of blocks in one of BLOCK_CACHES may be of."""
    return _BYTES + tuple(dtype for dtype, name in OWN_CACHES.items() if name == cache)


_DTYPES = {"f32": ("float32",), "f16": ("float16",), "bf16": ("bfloat16",), "i32": ("int32",), "i8": ("int8",), "u8": ("bool", *_BYTES),
           **{cache: cache_dtypes(cache) for cache in BLOCK_CACHES}}


class Tensor(NamedTuple):
    """Sizes and strides along as many axes, in elements; of quantized tensors in bytes."""

    name: str
    dtypes: tuple[str, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...]
    block_bytes: int = 0
    broadcasts: bool = False


def in_bytes(numbers: Sequence[int], block: int) -> tuple[int, ...]:
    """Sizes or strides in values of quantized tensors as such in bytes, but for that of the last axis."""
    return tuple(number // BLOCK * block for number in numbers)


def tensors_of(problem: c.clattn_problem) -> dict[str, Tensor]:
    """By name, all that a problem has but the workspace."""
    ask, one = load().lib.clattn_problem_tensor, c.clattn_tensor(struct_size=ctypes.sizeof(c.clattn_tensor))
    found: dict[str, Tensor] = {}
    while True:
        check(ask(ctypes.byref(problem), len(found), ctypes.byref(one)))
        if one.name is None:
            return found
        name, kind, size, stride = one.name.decode(), (one.type or b"").decode(), tuple(one.size), tuple(one.stride)
        block = block_bytes(kind) if kind in BLOCK_CACHES else 0
        if block:
            size = size[:-1] + in_bytes(size[-1:], block)
            stride = in_bytes(stride[:-1], block) + (1,)
        found[name] = Tensor(name, _DTYPES[kind], size, stride, block, bool(one.broadcasts))


def need_dtype(one: View, dtypes: Sequence[str]) -> None:
    if one.dtype not in dtypes:
        raise InvalidArgument(f"{one.name} is of dtype {one.dtype}, not {' or '.join(dtypes)}")


def need(one: View, tensor: Tensor, of: Callable[[], str]) -> None:
    """Refuses an array that has not the dtype, shape and strides of the tensor of a problem, whose text is of(). Axes of
    one may be left out."""
    need_dtype(one, tensor.dtypes)
    one.block_bytes = tensor.block_bytes
    if tensor.broadcasts:
        size, stride = tensor.size[1:], tensor.stride[1:]
        shape, have = size, one.strides_like(size)
    else:
        size, stride = _sizes_like(one, tensor, of), tensor.stride
        stride = stride[-len(size):]
        shape, have = one.shape, one.strides
    if one.reach and _without_ones(shape, have) != _without_ones(size, stride):
        raise InvalidArgument(f"{one.name} has the strides {have} in elements, but {stride[-len(have):]} in '{of()}'")


def views_of(arrays: Mapping[str, Any], tensors: Mapping[str, Tensor], room: Sequence[str],
             of: Callable[[], str]) -> dict[str, View]:
    """Of arrays that are tensors of a problem, whose text is of(), or room for the library's own."""
    views = {name: view(name, array) for name, array in arrays.items() if array is not None}
    for name, one in views.items():
        if name in room:
            one.need_contiguous()
        elif name not in tensors:
            raise InvalidArgument(f"{name} is given, but '{of()}' has none")
        else:
            need(one, tensors[name], of)
    return views


def _without_ones(size: Sequence[int], of_axes: Sequence[int]) -> tuple[int, ...]:
    """What belongs to axes that are not of one."""
    return tuple(of_axis for long, of_axis in zip(size, of_axes) if long != 1)


def _from_the_first(size: tuple[int, ...]) -> tuple[int, ...]:
    """Without the axes of one in front."""
    return size[next((n for n, long in enumerate(size) if long != 1), len(size) - 1):]


def _fits(shape: tuple[int, ...], size: tuple[int, ...]) -> bool:
    """Whether all axes are there, or all but some of one."""
    wanted = _from_the_first(size)
    if len(shape) < len(wanted):
        return _without_ones(shape, shape) == _without_ones(size, size)
    return _from_the_first(shape) == wanted


def _sizes_like(one: View, tensor: Tensor, of: Callable[[], str]) -> tuple[int, ...]:
    """The tensor's sizes; where the array has them so, with a merge's states and batches as one axis."""
    size = tensor.size
    states = {"parts": 0, "parts_lse": 1}.get(tensor.name)
    folded = size if states is None else (size[states] * size[states + 1],) + size[states + 2:]
    for sizes in (size, folded):
        if _fits(one.shape, sizes):
            return sizes
    rank = max(len(one.shape), len(_from_the_first(size)))
    raise InvalidArgument(f"{one.name} is of shape {one.shape}, but of {((1,) * rank + size)[-rank:]} in '{of()}'")
