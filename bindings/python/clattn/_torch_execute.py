# SPDX-License-Identifier: Apache-2.0
"""Attention of PyTorch's tensors on the CPU, executed where they lie, in a few microseconds beside the library's own.

What depends on shapes, strides and options alone is made at the first call with them and kept: the problem, and what
call_on_host.c needs besides addresses to lay buffers over the tensors, execute, and have the host see the results.
"""
from __future__ import annotations

import ctypes
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import _declarations as c
from ._library import beside, check, check_cl, load
from ._views import View, view
from .attention import Arguments
from .context import Context, default_context
from .errors import InvalidArgument

_KEPT = 1024  # shapes and options of which what is prepared is kept
_BEYOND = "{} reaches beyond its storage, which was shrunk or freed to {} bytes"
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
        self.call_on_host = ctypes.CDLL(str(beside("clattn_call_on_host"))).clattn_call_on_host
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


def _expect(name: str, tensor: Tensor, sizes: Tuple[int, ...], dtype: torch.dtype) -> None:
    if tuple(tensor.shape) != sizes or tensor.dtype != dtype:
        raise InvalidArgument(f"{name} is of shape {tuple(tensor.shape)} and dtype {tensor.dtype}, but must be of {sizes} and {dtype}")


def _problem_of(tensors: Dict[str, Tensor], views: Dict[str, View], **options: Any) -> c.clattn_problem:
    """That of attention() and attention_backward() with these arrays and options; views: of results as well."""
    q, k, v = tensors["q"], tensors["k"], tensors["v"]
    sinks = tensors["sinks"].detach() if "sinks" in tensors else None
    arguments = Arguments(views["q"], views["k"], views["v"], None, None,
                          dict(options, mask=views.get("mask"), bias=views.get("bias"), sinks=sinks))
    p = arguments.problem
    p.operation = c.BACKWARD if "d_o" in tensors else c.FORWARD
    o = (*q.shape[:3], v.shape[3])
    for name, sizes, dtype in (("k", k.shape, q.dtype), ("v", v.shape, q.dtype), ("o", o, q.dtype), ("d_o", o, q.dtype),
                               ("lse", q.shape[:3], torch.float32), ("dlse", q.shape[:3], torch.float32),
                               ("sinks", (p.heads,), torch.float32)):
        if name in tensors:
            _expect(name, tensors[name], tuple(sizes), dtype)
    for name in ("o", "d_o", "dq", "dk", "dv"):
        if name in views:
            arguments.place(name, views[name])
    p.scores = c.SCORES_MEAN if "scores" in views else c.SCORES_NONE
    p.lse, p.dlse, p.dbias, p.dsinks = (int(name in views) for name in ("lse", "dlse", "dbias", "dsinks"))
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
        if tensor.numel() and not tensor.untyped_storage().nbytes():
            raise InvalidArgument(_BEYOND.format(name, 0))
        sparse = not any(tensor.stride()) and tensor.numel() > 1  # one element for all: strides of 0 would say "packed"
        tensors[name] = tensor = tensor.contiguous() if sparse else tensor
        inputs.append((position, name, sparse))
    views = {name: view(name, tensor.detach()) for name, tensor in (*tensors.items(), *results.items())}
    problem = _problem_of(tensors, views, causal=causal, scale=scale, softcap=softcap, dropout=dropout)
    context = default_context()
    context.handle  # refuses a child of fork()
    if _functions is None:
        _functions = _Functions()
    size = ctypes.sizeof(kind)
    operands = [_Operand(one.reach, one.itemsize, _word(kind, name)) for name, one in views.items()]
    held = (kind(struct_size=size), (_Operand * len(operands))(*operands))
    call = _Call(**_functions.opencl, execute=_functions.backward if "d_o" in names else _functions.forward, opencl=context.opencl,
                 blank=ctypes.addressof(held[0]), words=size // 8, seed_word=_word(kind, "dropout_seed"), read=len(tensors),
                 written=len(results), operands=ctypes.addressof(held[1]))
    prepared = Prepared(context, problem, bytes(problem), call, ctypes.c_uint64 * len(operands),
                        [(position, name, operand.reach, operand.itemsize, sparse)
                         for (position, name, sparse), operand in zip(inputs, operands)],
                        [_Result(tuple(tensor.shape), tensor.stride(), tensor.dtype) for tensor in results.values()],
                        [*views], held)
    context.plan_of(problem)  # says what is wrong before anything is kept
    with _lock:
        if len(_prepared) >= _KEPT:
            _prepared.clear()
        _prepared[key] = prepared
    return prepared


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
            raise InvalidArgument(_BEYOND.format(name, tensor.untyped_storage().nbytes()))
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
