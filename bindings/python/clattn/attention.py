"""Attention in one call, forward and backward: arrays and options become a problem, a plan runs it."""
from __future__ import annotations

import functools
import math
from typing import Any, Optional, Sequence, Union

import numpy as np

from . import _declarations as c
from ._checks import items, number, truth, whole, whole_within
from ._views import View, empty_like, value_dtype, vector, view
from .context import Context, given_context
from .errors import Error, InvalidArgument, OutOfMemory
from .plan import _packed, new_problem

Diagonal = Union[None, bool, str, int]


def _integer(name: str, value: Any) -> int:
    return whole_within(name, value, -2 ** 63, 2 ** 63 - 1)


@functools.lru_cache(maxsize=1024)
def _steps(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of four axes, those of a packed tensor along axes of one."""
    missing = 4 - len(shape)
    sizes = (1,) * missing + shape
    return tuple(packed if size <= 1 else stride
                 for size, stride, packed in zip(sizes, (0,) * missing + strides, _packed(sizes)))


class _Call:
    """The arrays of a call, and the problem that they are."""

    def __init__(self, q: Any, k: Any, v: Any, queue: Any, context: Optional[Context]):
        self.q, self.k, self.v = view("q", q), view("k", k), view("v", v)
        self.queue = queue
        if queue is None and (self.q.on_device or hasattr(self.q.array, "base_data")):  # also without elements
            self.queue = getattr(self.q.array, "queue", None)
            if self.queue is None:
                raise InvalidArgument("queue must be given: q, which lies on a device, has none")
        self.context = Context.of_queue(self.queue) if context is None and self.queue is not None else given_context(context)
        self.views: dict[str, View] = {"q": self.q, "k": self.k, "v": self.v}
        self.problem = new_problem()
        self._sizes()

    def _sizes(self) -> None:
        rank = len(self.q.shape)
        if not 2 <= rank <= 4:
            raise InvalidArgument(f"q is of shape {self.q.shape}, not (batch, heads, seq, dim), (heads, seq, dim) or (seq, dim)")
        for other in (self.k, self.v):
            if len(other.shape) != rank:
                raise InvalidArgument(f"{other.name} has {len(other.shape)} dimensions, q has {rank}")
        p = self.problem
        p.dtype = value_dtype(self.q)
        p.batch, p.heads, p.seq_q, p.dim_qk = self.q.as_rank(4)
        _, p.kv_heads, p.seq_kv, _ = self.k.as_rank(4)
        p.dim_v = self.v.shape[-1]
        self._expect(self.k, (p.batch, p.kv_heads, p.seq_kv, p.dim_qk))
        self._expect(self.v, (p.batch, p.kv_heads, p.seq_kv, p.dim_v))
        self.place("q", self.q)
        for name, cache, one in (("k", "k_cache", self.k), ("v", "v_cache", self.v)):
            dtype = value_dtype(one)
            if dtype != p.dtype:
                setattr(p, cache, {c.F32: c.CACHE_F32, c.F16: c.CACHE_F16, c.BF16: c.CACHE_BF16}[dtype])
            self.place(name, one)

    def _expect(self, one: View, sizes: Sequence[int], dtype: Optional[str] = None) -> None:
        if one.as_rank(4) != tuple(sizes):
            raise InvalidArgument(f"{one.name} is of shape {one.shape}, but must be of {tuple(sizes)[-len(one.shape):]} "
                                  f"beside q of {self.q.shape} and k of {self.k.shape}")
        if dtype is not None and one.dtype != dtype:
            raise InvalidArgument(f"{one.name} is of dtype {one.dtype}, not {dtype}")

    def place(self, layout: str, one: View) -> None:
        """Tells the problem at which strides a tensor lies."""
        steps = _steps(one.shape, one.strides)
        if not any(steps):  # which would stand for a packed tensor
            raise InvalidArgument(f"{one.name} is one element, broadcast along every axis; give it strides of its own "
                                  "(numpy.ascontiguousarray)")
        getattr(self.problem, layout).stride[:] = steps

    def options(self, causal: Diagonal, mask: Any, bias: Any, scale: Optional[float], window: Any,
                softcap: Optional[float], alibi_slopes: Any, sinks: Any, q_lengths: Any, kv_lengths: Any,
                dropout: float, diagonal: Diagonal, strict: bool) -> None:
        p = self.problem
        p.strict = int(truth("strict", strict))
        causal = bool(causal) if isinstance(causal, np.bool_) else causal
        if causal is not None and causal is not False:
            p.causal = 1
            self._diagonal("causal", causal)
        elif diagonal is not None:
            self._diagonal("diagonal", diagonal)
        if scale is not None:
            p.scale = number("scale", scale)
            if math.isnan(p.scale):  # which stands for the default
                raise InvalidArgument("scale must not be NaN")
        p.softcap = 0.0 if softcap is None else number("softcap", softcap)
        p.dropout = number("dropout", dropout)
        if window is not None:
            if not isinstance(window, (tuple, list)) or len(window) != 2:
                raise InvalidArgument(f"window must be (left, right), not {window!r}")
            p.window_left, p.window_right = (c.UNLIMITED if side is None else _integer("window", side) for side in window)
        self._matrices(mask, bias)
        for name, field, flag, values, dtype, length in (
                ("alibi_slopes", "slopes", "alibi", alibi_slopes, np.float32, p.heads),
                ("sinks", "sinks", "sinks", sinks, np.float32, p.heads),
                ("q_lengths", "q_lengths", "q_lengths", q_lengths, np.int32, p.batch),
                ("kv_lengths", "kv_lengths", "kv_lengths", kv_lengths, np.int32, p.batch)):
            if values is not None:
                setattr(p, flag, 1)
                self.views[field] = vector(name, values, dtype, length, self.q)

    def _diagonal(self, name: str, value: Diagonal) -> None:
        p = self.problem
        named = {"tl": c.TOP_LEFT, "br": c.BOTTOM_RIGHT}
        if value is True and p.seq_q != p.seq_kv:
            raise InvalidArgument(f"{name}=True is ambiguous for {p.seq_q} queries and {p.seq_kv} keys: 'tl' has query 0 see "
                                  "key 0, 'br' the last query the last key, a number is query 0's last key")
        if value is True:
            p.diagonal = c.TOP_LEFT
        elif isinstance(value, str) and value in named:
            p.diagonal = named[value]
        elif isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            p.diagonal, p.diagonal_offset = c.OFFSET, _integer(name, value)
        else:
            raise InvalidArgument(f"{name} must be None, True, 'tl', 'br' or a number, not {value!r}")

    def _matrices(self, mask: Any, bias: Any) -> None:
        p = self.problem
        sizes = (p.batch, p.heads, p.seq_q, p.seq_kv)
        if mask is not None:
            one = self.views["mask"] = view("mask", mask)
            if one.dtype not in ("bool", "uint8"):
                raise InvalidArgument(f"mask is of dtype {one.dtype}, not bool (True: visible); an additive one is a bias")
            p.mask, p.mask_layout.stride[:] = 1, one.strides_like(sizes)
        if bias is not None:
            one = self.views["bias"] = view("bias", bias)
            p.bias, p.bias_dtype, p.bias_layout.stride[:] = 1, value_dtype(one), one.strides_like(sizes)

    def _room(self, name: str, shape: Sequence[int], dtype: Optional[str]) -> Any:
        try:
            return empty_like(self.q, shape, dtype, self.queue)
        except Error:
            raise
        except Exception as error:  # NumPy's, PyTorch's and pyopencl's have nothing in common
            raise OutOfMemory(f"there is no room for {name} of shape {tuple(shape)}: {error}") from None

    def result(self, name: str, given: Any, shape: Sequence[int], dtype: Optional[str] = None) -> Any:
        """An array for a result: the one given, if it fits, or a new one."""
        array = given if given is not None else self._room(name, shape, dtype)
        one = view(name, array)
        if one.shape != tuple(shape) or one.dtype != (dtype or self.q.dtype):
            raise InvalidArgument(f"{name} is of shape {one.shape} and dtype {one.dtype}, not {tuple(shape)} and "
                                  f"{dtype or self.q.dtype}")
        self.views[name] = one
        return array

    def run(self, seed: int) -> None:
        self.context.plan_of(self.problem)._run(self.views, self.queue, seed)


def attention(q: Any, k: Any, v: Any, *, causal: Diagonal = None, mask: Any = None, bias: Any = None,
              scale: Optional[float] = None, window: Optional[Sequence[Optional[int]]] = None,
              softcap: Optional[float] = None, alibi_slopes: Any = None, sinks: Any = None, q_lengths: Any = None,
              kv_lengths: Any = None, dropout: float = 0.0, seed: int = 0, return_lse: bool = False,
              queue: Any = None, out: Any = None, lse: Any = None, diagonal: Diagonal = None, strict: bool = False,
              alibi_symmetric: bool = False, context: Optional[Context] = None) -> Any:
    """softmax(scale q k^T, softcap, bias, ALiBi, masked, sinks) v, as clattn/problem.h defines it.

    q (batch, heads, seq_q, dim), k (batch, kv_heads, seq_kv, dim) and v (batch, kv_heads, seq_kv, dim_v), or without
    batch, or without batch and heads; float32, float16 or bfloat16, at any strides: no array is copied. NumPy arrays
    give a NumPy array when the result is there; pyopencl arrays give one on `queue`, or on q's, which carries the
    event of its end.

    causal        None, "tl" (query i sees keys 0 to i), "br" (the last query sees all keys), a number (query i sees
                  keys up to i + number), or True where these agree, for as many queries as keys
    mask          bool, True where a query sees a key; broadcasts to (batch, heads, seq_q, seq_kv)
    bias          added to the scores; broadcasts likewise; -inf masks
    scale         1 / sqrt(dim) if None
    window        (left, right) keys beside the diagonal that are seen, None for no limit on a side
    softcap       s becomes softcap * tanh(s / softcap)
    alibi_slopes  float32 of each head: slope * (j - i - d) is added to the scores, key i + d being the diagonal's
    alibi_symmetric  -slope * |j - i - d| is added instead, as flash-attn does
    sinks         float32 of each head: a score without a value
    q_lengths     queries in use of each batch, int32
    kv_lengths    keys in use of each batch, int32: a cache that fills needs one plan for all its lengths
    dropout       probability that a weight is dropped; `seed` says which
    return_lse    (o, lse) instead of o; lse is float32 (batch, heads, seq_q)
    out, lse      arrays for the results, which must overlap nothing that is read
    diagonal      like causal, of windows and ALiBi where the problem is not causal: "tl" if None; flash-attn's is "br"
    strict        no weight is rounded to float16 or bfloat16 on the way ("Precision" in clattn/problem.h)

    Raises a clattn.Error whose text names the argument.
    """
    call = _Call(q, k, v, queue, context)
    call.options(causal, mask, bias, scale, window, softcap, alibi_slopes, sinks, q_lengths, kv_lengths, dropout,
                 diagonal, strict)
    call.problem.alibi_symmetric = int(truth("alibi_symmetric", alibi_symmetric))
    seed = whole("seed", seed)
    o = call.result("o", out, call.q.shape[:-1] + (call.problem.dim_v,))
    call.place("o", call.views["o"])
    if truth("return_lse", return_lse) or lse is not None:
        call.problem.lse = 1
        lse = call.result("lse", lse, call.q.shape[:-1], "float32")
        call.views["lse"].need_contiguous()
    call.run(seed)
    return (o, lse) if return_lse else o


def attention_backward(d_o: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, *, causal: Diagonal = None,
                       mask: Any = None, bias: Any = None, scale: Optional[float] = None,
                       window: Optional[Sequence[Optional[int]]] = None, softcap: Optional[float] = None,
                       alibi_slopes: Any = None, sinks: Any = None, q_lengths: Any = None, kv_lengths: Any = None,
                       dropout: float = 0.0, seed: int = 0, queue: Any = None, diagonal: Diagonal = None,
                       gradients: Sequence[str] = (), out: Sequence[Any] = (None, None, None), strict: bool = False,
                       alibi_symmetric: bool = False, context: Optional[Context] = None) -> tuple[Any, ...]:
    """(dq, dk, dv) of attention() with the same arrays and options, given d_o, the gradient with respect to o,
    and o and lse as attention(..., return_lse=True) gave them; the same bits on every run.

    `gradients` may name "bias", "alibi_slopes" and "sinks", whose gradients then follow, in that order. `out` has
    arrays for dq, dk and dv, or None.
    """
    call = _Call(q, k, v, queue, context)
    call.options(causal, mask, bias, scale, window, softcap, alibi_slopes, sinks, q_lengths, kv_lengths, dropout,
                 diagonal, strict)
    call.problem.alibi_symmetric = int(truth("alibi_symmetric", alibi_symmetric))
    seed = whole("seed", seed)
    p = call.problem
    p.operation = c.BACKWARD
    for name, array, layout in (("o", o, "o"), ("d_o", d_o, "d_o")):
        one = call.views[name] = view(name, array)
        call._expect(one, (p.batch, p.heads, p.seq_q, p.dim_v), call.q.dtype)
        call.place(layout, one)
    kept = call.views["lse"] = view("lse", lse)
    if kept.shape != call.q.shape[:-1] or kept.dtype != "float32":
        raise InvalidArgument(f"lse is of shape {kept.shape} and dtype {kept.dtype}, not {call.q.shape[:-1]} and float32")
    kept.need_contiguous()
    p.lse = 1
    out = items("out", out, "three arrays or None")
    if len(out) != 3:
        raise InvalidArgument(f"out must be of three arrays or None, for dq, dk and dv, not of {len(out)}")
    results = [call.result("d" + one.name, given, one.shape) for one, given in zip((call.q, call.k, call.v), out)]
    for name in ("dq", "dk", "dv"):
        call.place(name, call.views[name])
    results += _further(call, gradients)
    call.run(seed)
    return tuple(results)


def _further(call: _Call, gradients: Sequence[str]) -> list[Any]:
    """Room for the gradients of options."""
    p, made = call.problem, []
    known = {"bias": ("bias", "dbias"), "alibi_slopes": ("slopes", "dslopes"), "sinks": ("sinks", "dsinks")}
    gradients = items("gradients", gradients, "names")
    for name in gradients:
        if not isinstance(name, str) or name not in known or known[name][0] not in call.views:
            raise InvalidArgument(f"gradients names {name!r}, which is not an option that was given; it may name "
                                  "bias, alibi_slopes and sinks")
    for name, (field, gradient) in known.items():
        if name in gradients:
            source = call.views[field]
            if field == "bias":
                source.need_contiguous()
            setattr(p, gradient, 1)
            made.append(call.result(gradient, None, source.shape, source.dtype))
    return made
