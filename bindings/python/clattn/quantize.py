# SPDX-License-Identifier: Apache-2.0
"""Quantized caches of keys and values."""
from __future__ import annotations

import ctypes
from typing import Any, Optional

import numpy as np

from . import _declarations as c
from ._checks import whole_within
from ._library import check, load
from ._memory import Step
from ._tensors import BLOCK, BLOCK_CACHES, block_bytes, cache_dtypes, need_dtype
from ._types import Array
from ._views import View, room, value_dtype, view
from .attention import in_values, steps_of_four
from .context import Compiling, Context, given_context
from .errors import InvalidArgument
from .plan import execute, queue_of


def _cache(cache: Any) -> int:
    if not isinstance(cache, str) or cache not in BLOCK_CACHES:
        raise InvalidArgument(f"cache must be {' or '.join(map(repr, BLOCK_CACHES))}, not {cache!r}")
    return BLOCK_CACHES[cache]


def quantized_bytes(cache: str, values: int) -> int:
    """Bytes of the blocks that hold so many values, in whole blocks of 32: 34 each in "q8_0", 18 in "q4_0" and "iq4_nl", 20 in
    "q4_1", 22 in "q5_0", 24 in "q5_1", 32 in "e4m3", "e5m2" and "int8".

    cache         the name of a format
    values        how many

    Raises InvalidArgument for another name or a negative number.
    """
    number: int = load().lib.clattn_quantized_bytes(_cache(cache), whole_within("values", values, 0, 2 ** 58))
    return number


def _problem(values: View, cache: str, out: View) -> c.clattn_quantization:
    """What is to be quantized, and where to: checked, but for what the library checks."""
    rank = len(values.shape)
    if not 1 <= rank <= 4 or values.shape[-1] % BLOCK:
        raise InvalidArgument(f"values are of shape {values.shape}, but must have one to four axes, the last a multiple of {BLOCK}")
    wanted = values.shape[:-1] + (values.shape[-1] // BLOCK * block_bytes(cache),)
    if out.shape != wanted:
        raise InvalidArgument(f"{out.name} is of shape {out.shape}, but values of {values.shape} have {wanted} bytes in {cache}")
    shape, strides = in_values(out, cache)
    what = c.clattn_quantization(struct_size=ctypes.sizeof(c.clattn_quantization), to=_cache(cache))
    setattr(what, "from", value_dtype(values))
    what.size[:] = (1,) * (4 - rank) + values.shape
    what.values.stride[:] = steps_of_four(values.shape, values.strides)
    what.cache.stride[:] = steps_of_four(shape, strides)
    if values.reach and not any(what.values.stride):
        raise InvalidArgument("values are one element, broadcast along every axis; give them strides (numpy.ascontiguousarray)")
    return what


def _room(values: View, cache: str, queue: Any) -> Any:
    shape = values.shape[:-1] + (values.shape[-1] // BLOCK * block_bytes(cache),) if values.shape else ()
    return room(shape, np.uint8, queue if values.on_device else None)


def quantize(values: Array, cache: str, *, out: Optional[Array] = None, queue: Any = None,
             context: Optional[Context] = None) -> Any:
    """Keys or values as blocks of 32 values that attention() reads with `cache`: uint8 of the same shape, but with the bytes of
    a row along the last axis. The bits are those of clattn/quantize.h on every device.

    values        (batch, kv_heads, seq, dim) or fewer axes, float32, float16 or bfloat16 at any strides; dim is a multiple of 32
    cache         the format: "q8_0", "q4_0", "q5_0", "iq4_nl", "q4_1", "q5_1", "e4m3", "e5m2" or "int8"; the last three have
                  a byte a value, which `out` may hold as float8_e4m3fn, float8_e5m2 or int8
    out           None, or the array that receives them, such as new rows of a cache, cache[:, :, n:n + 1]: its rows are whole,
                  and its other steps multiples of a block
    queue, context  as in attention(); pyopencl arrays are quantized where they lie

    Raises InvalidArgument for shapes, dtypes or steps that do not fit, else as attention() does.
    """
    _cache(cache)
    one = view("values", values)
    on = queue_of({"values": one}, queue)
    where = Context.of_queue(on) if context is None and on is not None else given_context(context)
    given = _room(one, cache, on) if out is None else out
    two = view("out", given)
    what = _problem(one, cache, two)

    def bind(places: dict[str, c.clattn_buffer], queue_: int, *events: Any) -> Step[int]:
        buffers = [places.get(name) or c.clattn_buffer() for name in ("values", "cache")]
        return Step(load().lib.clattn_quantize, where.handle, ctypes.byref(what), queue_, *map(ctypes.byref, buffers), *events)

    with Compiling():
        execute(bind, where, {"values": one, "cache": two}, ("cache",), on)
    return given


def quantize_host(values: Array, cache: str, *, out: Optional[Array] = None) -> Any:
    """The same by the host, without a device.

    values, cache, out  as in quantize(), in host memory

    Raises InvalidArgument as quantize() does, for arrays on a device, and where out is read-only or overlaps values.
    """
    _cache(cache)
    one = view("values", values)
    given = _room(one, cache, None) if out is None and not one.on_device else out
    two = view("out", given)
    for array in (one, two):
        if array.on_device:
            raise InvalidArgument(f"{array.name} lies on a device: quantize() is for such arrays")
    if not two.writeable:
        raise InvalidArgument("out is read-only, but would be written")
    what = _problem(one, cache, two)
    if one.reach and one.pointer < two.pointer + two.reach and two.pointer < one.pointer + one.reach:
        raise InvalidArgument("out, which is written, overlaps values")
    need_dtype(two, cache_dtypes(cache))
    check(load().lib.clattn_quantize_host(ctypes.byref(what), one.pointer, two.pointer))
    return given
