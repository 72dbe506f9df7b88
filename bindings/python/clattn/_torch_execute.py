# SPDX-License-Identifier: Apache-2.0
"""Attention of PyTorch's tensors on the CPU, executed where they lie, in a few microseconds beside the library's own.

What depends on shapes, strides and options alone is made at the first call with them and kept: the problem, and what
call_on_host.c needs besides addresses to lay buffers over the tensors, execute, and have the host see the results.
"""
from __future__ import annotations

import ctypes
import math
import threading
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import _declarations as c
from ._library import check, check_cl, load
from ._views import DTYPES
from .context import Context, default_context
from .errors import InvalidArgument
from .plan import new_problem

_KEPT = 1024  # shapes and options of which what is prepared is kept
_CODES = {getattr(torch, name): code for name, code in DTYPES.items()}
_MATRIX = ("q", "k", "v", "o", "d_o", "dq", "dk", "dv")  # tensors of four dimensions with a layout of their own
_FAILURES = {1: "clCreateBuffer over {}",
             2: "{} shares memory with another tensor, at a distance that is not a multiple of its elements",
             3: "clEnqueueMapBuffer of {}", 4: "clEnqueueUnmapMemObject of {}", 5: "clFinish", 6: "too many tensors"}


class _Operand(ctypes.Structure):
    """struct operand of call_on_host.c: of a tensor."""

    _fields_ = [("reach", ctypes.c_uint64), ("itemsize", ctypes.c_uint64), ("word", ctypes.c_uint64)]
    reach: int
    itemsize: int


class _Call(ctypes.Structure):
    """struct call of call_on_host.c."""

    _fields_ = [*((name, ctypes.c_void_p) for name in ("create", "release", "map", "unmap", "finish", "execute", "opencl", "blank")),
                *((name, ctypes.c_uint64) for name in ("words", "seed_word", "read", "written")), ("operands", ctypes.c_void_p)]


class _Result(NamedTuple):
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    dtype: torch.dtype


class Prepared(NamedTuple):
    context: Context
    problem: c.clattn_problem
    key: bytes  # of the problem among the context's plans
    call: _Call
    addresses: Any  # the type of an array of as many as there are tensors
    inputs: List[Tuple[int, str, int, int, bool]]  # place among those given, name, reach, itemsize, and whether it is made dense
    results: List[_Result]
    names: List[str]  # of inputs and results
    held: Any  # what call points to


class _Functions:
    def __init__(self) -> None:
        loaded = load()
        self.call_on_host = ctypes.CDLL(str(Path(__file__).with_name("libclattn_call_on_host.so"))).clattn_call_on_host
        self.call_on_host.restype = ctypes.c_int
        self.call_on_host.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p,
                                      ctypes.c_void_p]
        cl, lib = loaded.cl, loaded.lib
        self.opencl = {name: _address(function) for name, function in (
            ("create", cl.clCreateBuffer), ("release", cl.clReleaseMemObject), ("map", cl.clEnqueueMapBuffer),
            ("unmap", cl.clEnqueueUnmapMemObject), ("finish", cl.clFinish))}
        self.forward, self.backward = map(_address, (lib.clattn_attention_forward, lib.clattn_attention_backward))


def _address(function: Any) -> Any:
    return ctypes.cast(function, ctypes.c_void_p).value


_functions: Optional[_Functions] = None
_prepared: Dict[Any, Prepared] = {}
_lock = threading.Lock()


def _sizes_and_steps(tensor: Tensor) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
    """Strides along axes of one element are those of a packed tensor, so that equal problems have equal bytes."""
    shape, strides, packed = tuple(tensor.shape), list(tensor.stride()), 1
    for axis in reversed(range(len(shape))):
        if shape[axis] <= 1:
            strides[axis] = packed
        packed *= max(shape[axis], 1)
    return shape, tuple(strides)


def _reach(tensor: Tensor) -> int:
    if tensor.numel() == 0:
        return 0
    return (1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))) * tensor.element_size()


def _broadcast_steps(name: str, tensor: Tensor, sizes: Tuple[int, ...]) -> Tuple[int, ...]:
    missing = len(sizes) - tensor.dim()
    shape = (1,) * missing + tuple(tensor.shape)
    if missing < 0 or any(have not in (1, want) for have, want in zip(shape, sizes)):
        raise InvalidArgument(f"{name} is of shape {tuple(tensor.shape)}, which does not broadcast to {sizes}")
    return tuple(0 if size == 1 else step for size, step in zip(shape, (0,) * missing + tuple(tensor.stride())))


def _expect(name: str, tensor: Tensor, sizes: Tuple[int, ...], dtype: torch.dtype) -> None:
    if tuple(tensor.shape) != sizes or tensor.dtype != dtype:
        raise InvalidArgument(f"{name} is of shape {tuple(tensor.shape)} and dtype {tensor.dtype}, but must be of {sizes} and {dtype}")


def _problem_of(tensors: Dict[str, Tensor], results: Dict[str, Tensor], causal: Optional[str], scale: Optional[float],
                softcap: Optional[float], dropout: float) -> c.clattn_problem:
    q, k, v = tensors["q"], tensors["k"], tensors["v"]
    if q.dtype not in _CODES:
        raise InvalidArgument(f"q is of dtype {q.dtype}; clattn takes {', '.join(DTYPES)}")
    p = new_problem()
    p.operation = c.BACKWARD if "d_o" in tensors else c.FORWARD
    p.dtype = _CODES[q.dtype]
    p.batch, p.heads, p.seq_q, p.dim_qk = q.shape
    p.kv_heads, p.seq_kv = k.shape[1:3]
    p.dim_v = v.shape[3]
    _expect("k", k, (p.batch, p.kv_heads, p.seq_kv, p.dim_qk), q.dtype)
    _expect("v", v, (p.batch, p.kv_heads, p.seq_kv, p.dim_v), q.dtype)
    for name in ("o", "d_o"):
        if name in tensors:
            _expect(name, tensors[name], (p.batch, p.heads, p.seq_q, p.dim_v), q.dtype)
    if "lse" in tensors:
        _expect("lse", tensors["lse"], (p.batch, p.heads, p.seq_q), torch.float32)
    for name, tensor in (*tensors.items(), *results.items()):
        if name in _MATRIX:
            getattr(p, name).stride[:] = _sizes_and_steps(tensor)[1]
    p.lse = int("lse" in tensors or "lse" in results)
    if causal is not None:
        if causal not in ("tl", "br"):
            raise InvalidArgument(f"causal must be None, 'tl' or 'br', not {causal!r}")
        p.causal, p.diagonal = 1, c.TOP_LEFT if causal == "tl" else c.BOTTOM_RIGHT
    if scale is not None:
        p.scale = scale
        if math.isnan(scale):  # which stands for the default
            raise InvalidArgument("scale must not be NaN")
    p.softcap, p.dropout = softcap or 0.0, dropout
    scores = (p.batch, p.heads, p.seq_q, p.seq_kv)
    if "mask" in tensors:
        if tensors["mask"].dtype not in (torch.bool, torch.uint8):
            raise InvalidArgument(f"mask is of dtype {tensors['mask'].dtype}, not bool")
        p.mask, p.mask_layout.stride[:] = 1, _broadcast_steps("mask", tensors["mask"], scores)
    if "bias" in tensors:
        if tensors["bias"].dtype not in _CODES:
            raise InvalidArgument(f"bias is of dtype {tensors['bias'].dtype}; clattn takes {', '.join(DTYPES)}")
        p.bias, p.bias_dtype = 1, _CODES[tensors["bias"].dtype]
        p.bias_layout.stride[:] = _broadcast_steps("bias", tensors["bias"], scores)
    if "sinks" in tensors:
        _expect("sinks", tensors["sinks"], (p.heads,), torch.float32)
        p.sinks = 1
    p.dbias, p.dsinks = int("dbias" in results), int("dsinks" in results)
    return p


def prepare(key: Any, names: Sequence[str], given: Sequence[Optional[Tensor]], results: Dict[str, Tensor],
            causal: Optional[str], scale: Optional[float], softcap: Optional[float], dropout: float) -> Prepared:
    """Of the tensors `given` under `names`, and of results like those of `results`."""
    global _functions
    tensors, inputs = {}, []
    kind = c.clattn_backward_tensors if "d_o" in names else c.clattn_forward_tensors
    for position, (name, tensor) in enumerate(zip(names, given)):
        if tensor is None:
            continue
        sparse = not any(tensor.stride()) and tensor.numel() > 1  # one element for all: strides of 0 would say "packed"
        tensors[name] = tensor = tensor.contiguous() if sparse else tensor
        inputs.append((position, name, sparse))
    problem = _problem_of(tensors, results, causal, scale, softcap, dropout)
    context = default_context()
    context.handle  # refuses a child of fork()
    if _functions is None:
        _functions = _Functions()
    size = ctypes.sizeof(kind)
    operands = [_operand(kind, name, tensor) for name, tensor in (*tensors.items(), *results.items())]
    held = (kind(struct_size=size), (_Operand * len(operands))(*operands))
    call = _Call(**_functions.opencl, execute=_functions.backward if "d_o" in names else _functions.forward, opencl=context.opencl,
                 blank=ctypes.addressof(held[0]), words=size // 8, seed_word=_word(kind, "dropout_seed"), read=len(tensors),
                 written=len(results), operands=ctypes.addressof(held[1]))
    prepared = Prepared(context, problem, bytes(problem), call, ctypes.c_uint64 * len(operands),
                        [(position, name, operand.reach, operand.itemsize, sparse)
                         for (position, name, sparse), operand in zip(inputs, operands)],
                        [_Result(tuple(tensor.shape), tensor.stride(), tensor.dtype) for tensor in results.values()],
                        [*tensors, *results], held)
    context.plan_of(problem)  # says what is wrong before anything is kept
    with _lock:
        if len(_prepared) >= _KEPT:
            _prepared.clear()
        _prepared[key] = prepared
    return prepared


def _operand(kind: Any, name: str, tensor: Tensor) -> _Operand:
    return _Operand(_reach(tensor), tensor.element_size(), _word(kind, name))


def _word(kind: Any, name: str) -> int:
    """Where a struct has a member, in words of 8 bytes."""
    return int(getattr(kind, name).offset // 8)


prepared_of = _prepared.get


def execute(prepared: Prepared, given: Sequence[Optional[Tensor]], seed: int = 0) -> List[Tensor]:
    """The results, when they are there."""
    context, problem, key, call, addresses_of, inputs, wanted, names, _ = prepared
    context.handle  # refuses a child of fork()
    plan = context._plans.get(key) or context.plan_of(problem)
    results = [torch.empty_strided(shape, strides, dtype=dtype) for shape, strides, dtype in wanted]
    addresses, kept = [], []
    for position, name, reach, itemsize, sparse in inputs:
        tensor: Any = given[position]
        if sparse:
            tensor = tensor.contiguous()
            kept.append(tensor)  # until the work is done
        if tensor.storage_offset() * itemsize + reach > tensor.untyped_storage().nbytes() and reach:
            raise InvalidArgument(f"{name} reaches beyond its storage, which was shrunk or freed to "
                                  f"{tensor.untyped_storage().nbytes()} bytes")
        addresses.append(tensor.data_ptr())
    for tensor in results:
        addresses.append(tensor.data_ptr())
    error = ctypes.c_int32()
    assert _functions is not None
    status = _functions.call_on_host(ctypes.byref(call), plan._handle, context.queue(), seed, addresses_of(*addresses),
                                     ctypes.byref(error))
    if status:
        _fail(status, error.value, names)
    return results


def _fail(status: int, error: int, names: List[str]) -> None:
    if status > 0:
        check(status)
    failure, operand = divmod(-status, 0x100)
    sentence = _FAILURES[failure].format(names[operand])
    if not error:
        raise InvalidArgument(sentence)
    check_cl(error, sentence)
