# SPDX-License-Identifier: Apache-2.0
"""Attention in one call, forward and backward: arrays and options become a problem, a plan runs it."""
from __future__ import annotations

import difflib
import functools
import inspect
import math
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional, Sequence, overload

import numpy as np

from . import _declarations as c
from ._checks import items, number, truth, whole, whole_within
from ._tensors import BLOCK, BLOCK_CACHES, DTYPE_CACHES, OWN_CACHES, block_bytes, cache_dtypes, need_dtype, tensors_of
from ._types import Array, Blocks, Diagonal, ForwardOptions, Options
from ._views import View, empty_like, packed, value_dtype, vector, view
from .context import Context, given_context
from .errors import Error, InvalidArgument, OutOfMemory
from .function import Functions, gradient_place
from .plan import new_problem

if TYPE_CHECKING:
    from typing import Literal, Tuple, TypeVar, Union

    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from ._types import Kind

    Scalar = TypeVar("Scalar", bound=np.generic)

# What other libraries call it.
_ELSEWHERE = {"attn_mask": "mask= takes bool (True: visible), bias= what is added to the scores", "is_causal": "it is causal=",
              "dropout_p": "it is dropout=", "enable_gqa": "q may have a multiple of k's heads without it",
              "cu_seqlens_q": "it is q_starts=", "cu_seqlens_k": "it is kv_starts=", "max_seqlen_q": "it is max_q=",
              "max_seqlen_k": "it is max_kv=", "block_table": "it is page_table=", "softmax_scale": "it is scale=",
              "window_size": "it is window=", "seqused_k": "it is kv_lengths=",
              "block_mask": "its mask_mod is mask_mod=, its lists are blocks="}


def _integer(name: str, value: Any) -> int:
    return whole_within(name, value, -2 ** 63, 2 ** 63 - 1)


def _need_known(function: str, options: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for name in options:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = _ELSEWHERE.get(name) or (f"it has {close[0]}=" if close else f"help(clattn.{function}) lists those it has")
            raise InvalidArgument(f"{function}() has no option {name}=: {hint}")


@functools.lru_cache(maxsize=1024)
def steps_of_four(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of four axes, those of a packed tensor along axes of one."""
    missing = 4 - len(shape)
    sizes = (1,) * missing + shape
    return tuple(alone if size <= 1 else stride
                 for size, stride, alone in zip(sizes, (0,) * missing + strides, packed(sizes)))


def in_values(one: View, cache: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape and strides of a quantized tensor in values, of which it holds blocks."""
    size = one.block_bytes = block_bytes(cache)
    need_dtype(one, cache_dtypes(cache))
    *steps, last = one.strides if one.strides else (1,)
    if not one.shape or one.shape[-1] % size or (last != 1 and one.reach):
        raise InvalidArgument(f"{one.name} has rows of {one.shape[-1:]} bytes, {last} apart, which are no whole blocks of "
                              f"{cache}, of {size} bytes")
    if any(step % size for step in steps):
        raise InvalidArgument(f"{one.name} has steps of {tuple(steps)} bytes, which must be multiples of a block of {cache}, of "
                              f"{size} bytes")
    return (one.shape[:-1] + (one.shape[-1] // size * BLOCK,), tuple(step // size * BLOCK for step in steps) + (1,))


def set_diagonal(p: c.clattn_problem, name: str, value: Diagonal) -> None:
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


class Arguments:
    """The arrays of a call, and the problem that they are."""

    def __init__(self, q: Any, k: Any, v: Any, queue: Any, context: Optional[Context], options: Mapping[str, Any]):
        self.q, self.k, self.v = view("q", q), view("k", k), view("v", v)
        self.given = options.get
        self.queue = queue
        if queue is None and (self.q.on_device or hasattr(self.q.array, "base_data")):  # also without elements
            self.queue = getattr(self.q.array, "queue", None)
            if self.queue is None:
                raise InvalidArgument("queue must be given: q, which lies on a device, has none")
        self.context = Context.of_queue(self.queue) if context is None and self.queue is not None else given_context(context)
        self.views: dict[str, View] = {"q": self.q, "k": self.k, "v": self.v}
        self.problem = new_problem()
        self._sizes()
        self._options()
        self.functions = Functions(self.problem, self.given("score_mod"), self.given("mask_mod"))
        self.views.update(self.functions.views())
        self.version = whole_within("version", self.given("version") or 0, 0, 2 ** 64 - 1)

    # ---- sizes ----------------------------------------------------------------------------------

    def _sizes(self) -> None:
        p, rank = self.problem, len(self.q.shape)
        if not 2 <= rank <= 4:
            raise InvalidArgument(f"q is of shape {self.q.shape}, not (batch, heads, seq, dim), (heads, seq, dim) or (seq, dim)")
        p.dtype = value_dtype(self.q)
        in_values = [self._stored(one, *named) for one, named in zip((self.k, self.v), self._caches())]
        apart = any(self.given(name) is not None for name in ("q_starts", "kv_starts", "page_table"))
        for other in (self.k, self.v):
            if len(other.shape) != rank and not (apart and 2 <= len(other.shape) <= 4):
                raise InvalidArgument(f"{other.name} has {len(other.shape)} dimensions, q has {rank}")
        p.batch, p.heads, p.seq_q, p.dim_qk = self.q.as_rank(4)
        (k_shape, k_strides), (v_shape, v_strides) = in_values
        batch, p.kv_heads, p.seq_kv, _ = (1,) * (4 - len(k_shape)) + k_shape
        p.dim_v = v_shape[-1]
        self._expect(self.k, k_shape, (batch, p.kv_heads, p.seq_kv, p.dim_qk))
        self._expect(self.v, v_shape, (batch, p.kv_heads, p.seq_kv, p.dim_v))
        p.batch = self._pack("q", self.q, p.batch)
        self._keys(batch)
        self.place("q", self.q)
        for name, one, shape, strides in (("k", self.k, k_shape, k_strides), ("v", self.v, v_shape, v_strides)):
            self.place(name, one, shape, strides)

    def _caches(self) -> list[tuple[str, Optional[str]]]:
        """The problem's members for how k and v are stored, and what the caller says of them."""
        given = self.given("cache")
        pair = given if isinstance(given, (tuple, list)) else (given, given)
        if len(pair) != 2 or any(one is not None and not (isinstance(one, str) and one in BLOCK_CACHES) for one in pair):
            raise InvalidArgument(f"cache must be None, {' or '.join(map(repr, BLOCK_CACHES))}, or a pair of these for k and v, "
                                  f"not {given!r}")
        return [("k_cache", pair[0]), ("v_cache", pair[1])]

    def _stored(self, one: View, member: str, cache: Optional[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Tells the problem how k or v is stored; its shape and strides in values."""
        cache = cache or OWN_CACHES.get(one.dtype)
        if cache is not None:
            setattr(self.problem, member, BLOCK_CACHES[cache])
            return in_values(one, cache)
        dtype = value_dtype(one)
        if dtype != self.problem.dtype:
            setattr(self.problem, member, DTYPE_CACHES[dtype])
        return one.shape, one.strides

    def _expect(self, one: View, shape: tuple[int, ...], sizes: Sequence[int]) -> None:
        if (1,) * (4 - len(shape)) + shape != tuple(sizes):
            raise InvalidArgument(f"{one.name} is of shape {shape}, but must be of {tuple(sizes)[-len(shape):]} "
                                  f"beside q of {self.q.shape} and k of {self.k.shape}")

    def _pack(self, of: str, one: View, batch: int) -> int:
        """Of a packed batch: where each sequence begins, and the longest; else it stays as it is. Returns the batches."""
        p, starts, longest = self.problem, self.given(of + "_starts"), self.given("max_" + of)
        if starts is None:
            if longest is not None and not (of == "kv" and self.given("page_table") is not None):
                raise InvalidArgument(f"max_{of} is given, but {of}_starts, of which it is the longest sequence, is not")
            return batch
        list_ = vector(of + "_starts", starts, np.int32, None, self.q)
        if batch != 1 or not list_.shape[0]:
            raise InvalidArgument(f"{one.name} is of shape {one.shape}, but with {of}_starts, which begins with 0 and ends each "
                                  "sequence, must be of (heads, rows of all sequences, dim), or that with 1 in front")
        rows = getattr(p, "seq_" + of)
        if longest is None and not isinstance(list_.array, np.ndarray):
            raise InvalidArgument(f"max_{of}, the length of the longest sequence, must be given where {of}_starts lies on a device")
        if longest is None:
            longest = max(0, int(np.diff(list_.array.astype(np.int64)).max(initial=0)))
        longest = min(whole_within("max_" + of, longest, 0, 2 ** 63 - 1), rows)
        setattr(p, "seq_" + of, longest)
        if rows:  # without rows they are sequences of none, packed or not
            setattr(p, "total_" + of, rows)
            self.views[of + "_starts"] = list_
        return list_.shape[0] - 1

    def _keys(self, batch: int) -> None:
        p, table = self.problem, self.given("page_table")
        if table is None:
            batch = self._pack("kv", self.k, batch)
            if batch != p.batch:
                raise InvalidArgument(f"k and v are of {batch} batches, q of {p.batch}")
            return
        if self.given("kv_starts") is not None:
            raise InvalidArgument("kv_starts and page_table cannot both be given: pages are no packed batch")
        one = self.views["page_table"] = view("page_table", table)
        need_dtype(one, ("int32",))
        if len(one.shape) != 2 or one.shape[0] != p.batch:
            raise InvalidArgument(f"page_table is of shape {one.shape}, not ({p.batch}, pages of a batch)")
        one.need_contiguous()
        p.pages, p.page_size = batch, p.seq_kv
        room = one.shape[1] * p.page_size
        longest = self.given("max_kv")
        p.seq_kv = room if longest is None else whole_within("max_kv", longest, max(0, room - p.page_size + 1), room)

    def place(self, layout: str, one: View, shape: Optional[tuple[int, ...]] = None,
              strides: Optional[tuple[int, ...]] = None) -> None:
        """Tells the problem at which strides a tensor lies; one without elements counts as packed."""
        if not one.reach:
            return
        steps = steps_of_four(one.shape if shape is None else shape, one.strides if strides is None else strides)
        if not any(steps):  # which would stand for a packed tensor
            raise InvalidArgument(f"{one.name} is one element, broadcast along every axis; give it strides of its own "
                                  "(numpy.ascontiguousarray)")
        getattr(self.problem, layout).stride[:] = steps

    # ---- options --------------------------------------------------------------------------------

    def _options(self) -> None:
        p, given = self.problem, self.given
        self.seed = 0 if given("seed") is None else whole("seed", given("seed"))
        p.strict = int(truth("strict", given("strict")))
        p.invariant = int(truth("invariant", given("invariant")))
        if given("precision") not in (None, "int8"):
            raise InvalidArgument(f"precision must be None or 'int8', not {given('precision')!r}")
        p.int8 = int(given("precision") == "int8")
        p.alibi_symmetric = int(truth("alibi_symmetric", given("alibi_symmetric")))
        causal, diagonal = given("causal"), given("diagonal")
        causal = bool(causal) if isinstance(causal, np.bool_) else causal
        if causal is not None and causal is not False:
            if diagonal is not None:
                raise InvalidArgument("causal and diagonal are both given: causal says where the diagonal of all is")
            p.causal = 1
            set_diagonal(p, "causal", causal)
        elif diagonal is not None:
            set_diagonal(p, "diagonal", diagonal)
        if given("scale") is not None:
            p.scale = number("scale", given("scale"))
            if math.isnan(p.scale):  # which stands for the default
                raise InvalidArgument("scale must not be NaN")
        for name in ("softcap", "dropout"):
            setattr(p, name, 0.0 if given(name) is None else number(name, given(name)))
        window = given("window")
        if window is not None:
            if not isinstance(window, (tuple, list)) or len(window) != 2:
                raise InvalidArgument(f"window must be (left, right), not {window!r}")
            p.window_left, p.window_right = (c.UNLIMITED if side is None else _integer("window", side) for side in window)
        self._matrices(given("mask"), given("bias"))
        if given("blocks") is not None:
            self._blocks(given("blocks"))
        if given("topk_indices") is not None:
            self._chosen(given("topk_indices"))
        for name, one in (("k_scales", self.k), ("v_scales", self.v)):
            if given(name) is not None:
                self._scales(name, given(name), one)
        for name, field, flag, dtype, length in (
                ("alibi_slopes", "slopes", "alibi", np.float32, p.heads), ("sinks", "sinks", "sinks", np.float32, p.heads),
                ("q_lengths", "q_lengths", "q_lengths", np.int32, p.batch),
                ("kv_lengths", "kv_lengths", "kv_lengths", np.int32, p.batch)):
            if given(name) is not None:
                setattr(p, flag, 1)
                self.views[field] = vector(name, given(name), dtype, length, self.q)

    def _matrices(self, mask: Any, bias: Any) -> None:
        p, last = self.problem, self.given("mask_keys")
        sizes = (p.batch, p.heads, p.seq_q, p.seq_kv)
        if last is not None:
            if mask is None:
                raise InvalidArgument("mask_keys is given, but mask, which is of the last keys, is not")
            p.mask_keys = whole_within("mask_keys", last, 1, p.seq_kv)
        if mask is not None:
            one = self.views["mask"] = view("mask", mask)
            if one.dtype not in ("bool", "uint8"):
                raise InvalidArgument(f"mask is of dtype {one.dtype}, not bool (True: visible); an additive one is a bias")
            p.mask, p.mask_layout.stride[:] = 1, one.strides_like(sizes[:3] + (p.mask_keys or p.seq_kv,))
        if bias is not None:
            one = self.views["bias"] = view("bias", bias)
            p.bias, p.bias_dtype, p.bias_layout.stride[:] = 1, value_dtype(one), one.strides_like(sizes)

    def _blocks(self, blocks: Any) -> None:
        p = self.problem
        if not isinstance(blocks, (tuple, list)) or len(blocks) != 3 or \
                not isinstance(blocks[2], (tuple, list)) or len(blocks[2]) != 2:
            raise InvalidArgument(f"blocks must be clattn.Blocks(offsets, entries, (queries, keys)), not {blocks!r:.80}")
        p.block_q, p.block_kv = (whole_within("blocks.size", one, 1, 2 ** 48) for one in blocks[2])
        rows = -(-p.seq_q // p.block_q)
        offsets, entries = (view("blocks." + name, one) for name, one in zip(("offsets", "entries"), blocks))
        for one in (offsets, entries):
            need_dtype(one, ("int32",))
            one.need_contiguous()
        *lists, long = (1,) * (3 - len(offsets.shape)) + offsets.shape
        *same, p.max_blocks = (1,) * (3 - len(entries.shape)) + entries.shape or (0,)
        if long != rows + 1 or lists != same or len(lists) != 2 or lists[0] not in (1, p.batch) or lists[1] not in (1, p.heads):
            raise InvalidArgument(
                f"blocks are offsets of shape {offsets.shape} and entries of {entries.shape}, but {p.seq_q} queries in blocks "
                f"of {p.block_q} need offsets of (..., {rows + 1}), both after the same 1 or {p.batch} batches and 1 or "
                f"{p.heads} heads")
        if not p.max_blocks:
            raise InvalidArgument("blocks.entries must have room for one entry at least")
        p.block_batches, p.block_heads = int(lists[0] > 1), int(lists[1] > 1)
        self.views["block_offsets"], self.views["block_entries"] = offsets, entries

    def _scales(self, name: str, scales: Any, of: View) -> None:
        p, one = self.problem, view(name, scales)
        need_dtype(one, ("float32",))
        layout = getattr(p, name + "_layout")
        layout.stride[:] = one.strides_like((1,) * (4 - len(of.shape)) + of.shape[:-1] + (1,))
        setattr(p, name, 1)
        self.views[name] = one

    def _chosen(self, indices: Any) -> None:
        p, one = self.problem, view("topk_indices", indices)
        need_dtype(one, ("int32",))
        one.need_contiguous()
        rows = (p.total_q,) if p.total_q else (p.seq_q,)
        batch = () if p.total_q else self.q.shape[:-3]
        if len(one.shape) < 2 or one.shape[:-1] not in (batch + rows, batch + (1,) + rows, batch + (p.kv_heads,) + rows):
            raise InvalidArgument(f"topk_indices is of shape {one.shape}, but must be of {batch + rows} or "
                                  f"{batch + (p.kv_heads,) + rows}, and the length of a list behind")
        if not one.shape[-1]:
            raise InvalidArgument("topk_indices must have room for one key at least")
        p.topk, p.topk_heads = one.shape[-1], int(p.kv_heads > 1 and one.shape[:-1] == batch + (p.kv_heads,) + rows)
        self.views["topk_indices"] = one

    # ---- results --------------------------------------------------------------------------------

    def _room(self, name: str, shape: Sequence[int], dtype: Optional[str]) -> Any:
        """Of packed batches it holds what a query without keys has, for rows that are of no sequence."""
        p = self.problem
        try:
            made = empty_like(self.q, shape, dtype, self.queue)
            if p.total_q or p.total_kv:
                (made.fill_ if hasattr(made, "fill_") else made.fill)(-math.inf if name == "lse" else 0)
            return made
        except Error:
            raise
        except Exception as error:  # NumPy's, PyTorch's and pyopencl's have nothing in common
            raise OutOfMemory(f"there is no room for {name} of shape {tuple(shape)}: {error}") from None

    def result(self, name: str, given: Any, shape: Sequence[int], dtype: Optional[str] = None,
               said: Optional[str] = None) -> Any:
        """An array for a result: the one given, which the caller calls `said`, if it fits, or a new one."""
        array = given if given is not None else self._room(name, shape, dtype)
        one = view(said or name if given is not None else name, array)
        if one.shape != tuple(shape) or one.dtype != (dtype or self.q.dtype):
            raise InvalidArgument(f"{one.name} is of shape {one.shape} and dtype {one.dtype}, not {tuple(shape)} and "
                                  f"{dtype or self.q.dtype}")
        for other in self.views.values() if given is None and one.buffer else ():
            if other.buffer == one.buffer:
                raise InvalidArgument(f"{other.name} lies in a buffer that was released: its handle was given out again")
        self.views[name] = one
        return array

    def wide(self, results: Sequence[Any], o: Any = None) -> Optional[str]:
        """The dtype of results: float32 beside inputs of another where the caller has arrays for all, and these are so, or
        where forward wrote such an o."""
        if self.q.dtype == "float32":
            return None
        if all(one is not None and view("out", one).dtype == "float32" for one in results) or \
                (o is not None and view("o", o).dtype == "float32"):
            self.problem.o_f32 = 1
            return "float32"
        return None

    def run(self, check_tables: bool = False) -> None:
        plan = self.context.plan_of(self.problem)
        if check_tables:
            plan._check_tables(self.views, self.queue)
        plan._run(self.views, self.queue, self.seed, values=self.functions.values(), version=self.version)


def _shown(options: Any) -> Callable[[Any], Any]:
    """Has help() and inspect show the options that a function takes one by one."""
    def show(function: Any) -> Any:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        defaults: dict[str, Any] = dict(dropout=0.0, seed=0, strict=False, invariant=False, check_tables=False,
                                        alibi_symmetric=False, version=0)
        further = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name))
                   for name in options.__annotations__]
        function.__signature__ = signature.replace(parameters=own + further)
        return function
    return show


if TYPE_CHECKING:
    # The results are of q's kind: NumPy's of NumPy's, with float32 for lse.
    @overload
    def attention(q: NDArray[Scalar], k: Array, v: Array, *, return_lse: Literal[False] = False,
                  out: Optional[Array] = None, lse: Optional[Array] = None, queue: Any = None,
                  context: Optional[Context] = None, **options: Unpack[ForwardOptions]) -> NDArray[Scalar]: ...
    @overload
    def attention(q: NDArray[Scalar], k: Array, v: Array, *, return_lse: Literal[True],
                  out: Optional[Array] = None, lse: Optional[Array] = None, queue: Any = None,
                  context: Optional[Context] = None,
                  **options: Unpack[ForwardOptions]) -> Tuple[NDArray[Scalar], NDArray[np.float32]]: ...
    @overload
    def attention(q: Kind, k: Array, v: Array, *, return_lse: Literal[False] = False,
                  out: Optional[Array] = None, lse: Optional[Array] = None, queue: Any = None,
                  context: Optional[Context] = None, **options: Unpack[ForwardOptions]) -> Kind: ...
    @overload
    def attention(q: Kind, k: Array, v: Array, *, return_lse: Literal[True],
                  out: Optional[Array] = None, lse: Optional[Array] = None, queue: Any = None,
                  context: Optional[Context] = None, **options: Unpack[ForwardOptions]) -> Tuple[Kind, Kind]: ...
    @overload
    def attention(q: Kind, k: Array, v: Array, *, return_lse: bool = False, return_key_sums: bool = False,
                  return_mean_weights: bool = False, out: Optional[Array] = None, lse: Optional[Array] = None,
                  queue: Any = None, context: Optional[Context] = None,
                  **options: Unpack[ForwardOptions]) -> Union[Kind, Tuple[Kind, ...]]: ...


@_shown(ForwardOptions)
def attention(q: Any, k: Any, v: Any, *, return_lse: bool = False, return_key_sums: bool = False,
              return_mean_weights: bool = False, out: Any = None, lse: Any = None, queue: Any = None,
              context: Optional[Context] = None, **options: Any) -> Any:
    """softmax(scale q k^T, softcap, bias, ALiBi, masked, sinks) v, as clattn/problem.h defines it.

    q (batch, heads, seq_q, dim), k (batch, kv_heads, seq_kv, dim) and v (batch, kv_heads, seq_kv, dim_v), or without
    batch, or without batch and heads; float32, float16 or bfloat16, at any strides: no array is copied. NumPy arrays
    give a NumPy array when the result is there; pyopencl arrays give one on `queue`, or on q's, which carries the
    event of its end.

    causal        None, "tl" (query i sees keys 0 to i), "br" (the last query sees all keys), a number (query i sees
                  keys up to i + number), or True where these agree, for as many queries as keys
    diagonal      like causal, of windows and ALiBi where the problem is not causal
    window        (left, right) keys beside the diagonal that are seen, None for no limit on a side
    mask          bool, True where a query sees a key; broadcasts to (batch, heads, seq_q, seq_kv)
    mask_keys     the mask is of that many columns, those of the last keys in use; all keys before them are seen: a
                  tree of drafts behind a cached prefix
    blocks        clattn.Blocks: which blocks of keys each block of queries sees (blocks_window() and its neighbours)
    topk_indices  int32 (batch, seq_q, topk) or (batch, kv_heads, seq_q, topk), of packed queries (rows, topk) or (kv_heads,
                  rows, topk): the keys that each query may see, of which -1 is none ("Chosen keys" in clattn/problem.h)
    bias          added to the scores; broadcasts likewise; -inf masks
    scale         1 / sqrt(dim) if None
    softcap       s becomes softcap * tanh(s / softcap)
    alibi_slopes  float32 of each head: slope * (j - i - d) is added to the scores, key i + d being the diagonal's
    alibi_symmetric  -slope * |j - i - d| is added instead, as flash-attn does
    sinks         float32 of each head: a score without a value
    dropout       probability that a weight is dropped; `seed`, which changes nothing else, says which (dropout_mask()
                  shows them)
    strict        no weight is rounded to float16 or bfloat16 on the way ("Precision" in clattn/problem.h)
    precision     None, or "int8": q and k are rounded to bytes before they are multiplied ("Products of int8" in
                  clattn/problem.h), on processors that have an instruction for it
    invariant     a query's results have the same bits whatever stands beside it in a call, how large the cache is, and in
                  which pieces a prompt comes ("Batch invariance" in clattn/problem.h says what else must be the same)
    score_mod     a function (s, b, h, q, kv) that makes scores of scores after softcap, and what hides a pair by -inf: one
                  of Python, which is traced, or of function() or score_mod(), which describe it
    mask_mod      a function (b, h, q, kv) that says whether a query sees a key; likewise
    version       0, or a number that changes when the contents of the arrays that mask_mod reads, or of the lengths, change:
                  with the same number, in the same memory, tiles that mask_mod leaves empty or full are not looked for again

    Batches whose sequences differ in length:

    q_lengths     queries in use of each batch, int32
    kv_lengths    keys in use of each batch, int32: a cache that fills needs one plan for all its lengths
    q_starts      a packed batch: q is (heads, rows of all sequences, dim), and sequence b has the rows from q_starts[b]
                  to before q_starts[b + 1]; int32, one more than sequences (cu_seqlens)
    kv_starts     likewise of k and v; either may be packed without the other
    max_q, max_kv  the longest sequence of packed queries and keys, which a plan is made for: taken from the starts
                  where they lie in host memory. With pages the most keys that a batch may have

    Caches:

    page_table    k and v are pools of pages, (pages, kv_heads, page_size, dim); int32 (batch, pages of a batch) says
                  which page holds the keys of each, kv_lengths how many there are
    k_scales      float32 that k, of float8 or such a cache, is multiplied with: it broadcasts to (batch, kv_heads, seq_kv, 1),
                  of pages to (pages, kv_heads, page size, 1), as k.abs().amax(-1, keepdim=True) / 448 has them
    v_scales      likewise of v
    cache         "q8_0", "q4_0", "q5_0", "iq4_nl", "q4_1", "q5_1", "e4m3", "e5m2" or "int8": k and v are quantized, as quantize() makes
                  them: bytes, the blocks of a row one after the other along the last axis. A pair, such as ("q8_0", None),
                  has them of two kinds. k and v in another of the three dtypes than q need no word, nor those of
                  float8_e4m3fn, float8_e5m2 and int8
    check_tables  looks first whether lengths, starts, pages and blocks name what is not there (Plan.check_tables())

    Results:

    return_lse    (o, lse) instead of o; lse is float32 (batch, heads, seq_q)
    return_key_sums      float32 (batch, kv_heads, seq_kv) follows these: each key's sum of weights over all queries and the
                  query heads of its kv head, by which H2O and SnapKV evict keys from a cache; no weights are in memory
    return_mean_weights  float32 (batch, seq_q, seq_kv) follows these: the mean of the weights over the heads
    out, lse      arrays for the results, which must overlap nothing that is read; out in float32 is allowed beside
                  inputs of another dtype

    queue         None, or a pyopencl.CommandQueue, on which pyopencl arrays are computed
    context       None, the default: that of default_context(), or of the queue

    Raises a clattn.Error whose text names the argument: InvalidArgument for a shape, dtype or option that does not fit,
    InvalidProblem for options that contradict each other, Unsupported where no kernel of the device computes them, and
    OutOfMemory and NoDevice as they say.
    """
    _need_known("attention", options, ForwardOptions.__annotations__)
    call = Arguments(q, k, v, queue, context, options)
    o = call.result("o", out, call.q.shape[:-1] + (call.problem.dim_v,), call.wide([out]), "out")
    call.place("o", call.views["o"])
    sums, means = truth("return_key_sums", return_key_sums), truth("return_mean_weights", return_mean_weights)
    if truth("return_lse", return_lse) or lse is not None or sums or means:
        call.problem.lse = 1
        lse = call.result("lse", lse, call.q.shape[:-1], "float32")
        call.views["lse"].need_contiguous()
    p, made = call.problem, [o, lse] if return_lse else [o]
    lead = call.q.shape[:-3]
    if sums:
        p.key_sums = 1
        paged = lead + (p.kv_heads, p.seq_kv)
        made.append(call.result("key_sums", None, paged if p.page_size else call.k.shape[:-1], "float32"))
    if means:
        p.scores = c.SCORES_MEAN
        made.append(call.result("scores", None, lead + (p.seq_q, p.seq_kv), "float32"))
    call.run(truth("check_tables", options.get("check_tables")))
    return tuple(made) if len(made) > 1 else o


if TYPE_CHECKING:
    @overload
    def attention_backward(d_o: Array, q: NDArray[Scalar], k: Array, v: Array, o: Array, lse: Array, *,
                           dlse: Optional[Array] = None, gradients: Sequence[str] = (),
                           out: Sequence[Optional[Array]] = (None, None, None), queue: Any = None, context: Optional[Context] = None,
                           **options: Unpack[Options]) -> Tuple[NDArray[Scalar], ...]: ...
    @overload
    def attention_backward(d_o: Array, q: Kind, k: Array, v: Array, o: Array, lse: Array, *,
                           dlse: Optional[Array] = None, gradients: Sequence[str] = (),
                           out: Sequence[Optional[Array]] = (None, None, None), queue: Any = None, context: Optional[Context] = None,
                           **options: Unpack[Options]) -> Tuple[Kind, ...]: ...


@_shown(Options)
def attention_backward(d_o: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, *, dlse: Any = None, gradients: Sequence[str] = (),
                       out: Sequence[Any] = (None, None, None), queue: Any = None, context: Optional[Context] = None,
                       **options: Any) -> tuple[Any, ...]:
    """(dq, dk, dv) of attention() with the same arrays and options; the same bits on every run.

    d_o           the gradient with respect to o, (batch, heads, seq_q, dim_v), of q's dtype
    q, k, v       as in attention(), also of packed batches; pages and quantized caches have no gradients
    o, lse        as attention(..., return_lse=True) gave them
    dlse          None, or the gradient with respect to lse, of its shape, where the loss depends on that as well (a z-loss, a
                  merge)
    gradients     names among "bias", "alibi_slopes", "sinks" and "score_mod", whose gradients follow in this order; that of
                  score_mod is a dict of float32 arrays, by the names of its operands of floating-point numbers. None by default
    out           arrays for dq, dk and dv, or None for new ones. All three in float32 are allowed beside inputs of another
                  dtype; new ones are so for an o in float32
    queue, context  as in attention()

    Raises InvalidArgument for shapes or dtypes that do not fit, else as attention() does.
    """
    _need_known("attention_backward", options, Options.__annotations__)
    call = Arguments(q, k, v, queue, context, options)
    p = call.problem
    p.operation, p.lse = c.BACKWARD, 1
    out = items("out", out, "three arrays or None")
    if len(out) != 3:
        raise InvalidArgument(f"out must be of three arrays or None, for dq, dk and dv, not of {len(out)}")
    dtype = call.wide(out, o)
    stored = call.q.dtype if dtype is None else tensors_of(p)["o"].dtypes[0]
    for name, array, expected in (("o", o, stored), ("d_o", d_o, call.q.dtype)):
        one = call.views[name] = view(name, array)
        if one.shape != call.q.shape[:-1] + (p.dim_v,):
            raise InvalidArgument(f"{name} is of shape {one.shape}, but must be of {call.q.shape[:-1] + (p.dim_v,)} beside q of "
                                  f"{call.q.shape} and v of {call.v.shape}")
        need_dtype(one, (expected,))
        call.place(name, one)
    p.dlse = int(dlse is not None)
    for name, array in (("lse", lse), ("dlse", dlse)) if p.dlse else (("lse", lse),):
        kept = call.views[name] = view(name, array)
        if kept.shape != call.q.shape[:-1] or kept.dtype != "float32":
            raise InvalidArgument(f"{name} is of shape {kept.shape} and dtype {kept.dtype}, not {call.q.shape[:-1]} and float32")
        kept.need_contiguous()
    results = []
    for n, (one, given) in enumerate(zip((call.q, call.k, call.v), out)):
        results.append(call.result("d" + one.name, given, one.shape, dtype, f"out[{n}]"))
        call.place("d" + one.name, call.views["d" + one.name])
    results += _further(call, gradients)
    call.run()
    if p.dfunction:
        results[-1] = call.functions.parts(results[-1])
    return tuple(results)


def _further(call: Arguments, gradients: Sequence[str]) -> list[Any]:
    """Room for the gradients of options."""
    p, made = call.problem, []
    known = {"bias": ("bias", "dbias"), "alibi_slopes": ("slopes", "dslopes"), "sinks": ("sinks", "dsinks")}
    gradients = items("gradients", gradients, "names")
    given = {name for name, (field, _) in known.items() if field in call.views} | ({"score_mod"} if p.score_function else set())
    for name in gradients:
        if not isinstance(name, str) or name not in given:
            raise InvalidArgument(f"gradients names {name!r}, which is not an option that was given; it may name "
                                  "bias, alibi_slopes, sinks and score_mod")
    for name, (field, gradient) in known.items():
        if name in gradients:
            source = call.views[field]
            if field == "bias":
                source.need_contiguous()
            setattr(p, gradient, 1)
            made.append(call.result(gradient, None, source.shape, source.dtype))
    if "score_mod" in gradients:
        p.dfunction = 1
        made.append(call.result("dfunction", None, (gradient_place(p, c.FUNCTION_OPERANDS),), "float32"))
    return made
