# SPDX-License-Identifier: Apache-2.0
"""Block lists: of the patterns of sparse attention, of masks, and of mask functions."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Tuple

import numpy as np

from . import _declarations as c
from ._checks import truth, whole_within
from ._library import check, load
from ._types import Array, Blocks, Integers
from ._views import vector, view
from .attention import set_diagonal
from .context import Context, given_context
from .errors import InvalidArgument
from .function import Functions
from .plan import new_problem

if TYPE_CHECKING:
    from ._types import FunctionOrCallable

_Pair = Tuple[int, int]


def _problem(shape: Any, size: Any, diagonal: Any) -> c.clattn_problem:
    """Of attention between so many queries and keys, in blocks of that size."""
    problem = new_problem()
    for name, pair, members, least in (("shape", shape, ("seq_q", "seq_kv"), 0), ("size", size, ("block_q", "block_kv"), 1)):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InvalidArgument(f"{name} must be (queries, keys), not {pair!r}")
        for member, number in zip(members, pair):
            setattr(problem, member, whole_within(name, number, least, 2 ** 48))
    problem.max_blocks = 1
    if diagonal is not None and diagonal is not False:
        set_diagonal(problem, "diagonal", diagonal)
    return problem


def _listed(function: Any, problem: c.clattn_problem, *arguments: Any) -> Blocks:
    """The list of a function of clattn/blocks.h, with room for exactly its entries, at least one."""
    needed = ctypes.c_size_t()
    check(function(ctypes.byref(problem), *arguments, None, None, ctypes.byref(needed)),
          f"{function.__name__}() refuses a number: clattn/blocks.h has their limits")
    problem.max_blocks = max(1, needed.value)
    offsets = np.zeros(-(-problem.seq_q // problem.block_q) + 1, np.int32)
    entries = np.full(problem.max_blocks, -1, np.int32)
    check(function(ctypes.byref(problem), *arguments, offsets.ctypes.data, entries.ctypes.data, None))
    return Blocks(offsets, entries, (problem.block_q, problem.block_kv))


def blocks_window(shape: _Pair, size: _Pair, *, left: Optional[int] = None, right: Optional[int] = None, globals: int = 0,
                  random: int = 0, seed: int = 0, diagonal: Any = None) -> Blocks:
    """Blocks of windows with global tokens (Longformer) and random blocks (BigBird).

    shape         (queries, keys)
    size          (queries, keys) of a block
    left, right   query i sees the keys from i - left to i + right; None (the default): no limit on that side
    globals       so many first keys are seen by all queries, and so many first queries see all keys; 0 by default
    random        so many blocks of each row are listed besides, drawn by `seed`; 0 and 0 by default
    diagonal      where the window's middle lies, as in attention(); None: "tl"

    Raises InvalidArgument for a number out of range.
    """
    sides = [c.UNLIMITED if side is None else whole_within(name, side, 0, 2 ** 48)
             for name, side in (("left", left), ("right", right))]
    return _listed(load().lib.clattn_blocks_window, _problem(shape, size, diagonal), *sides,
                   whole_within("globals", globals, 0, 2 ** 48), whole_within("random", random, 0, 2 ** 48),
                   whole_within("seed", seed, 0, 2 ** 64 - 1))


def blocks_strided(shape: _Pair, size: _Pair, stride: int, *, diagonal: Any = None) -> Blocks:
    """Blocks of the strided pattern of Sparse Transformers: the last `stride` keys up to the diagonal's, and before them each
    key whose distance from it is a multiple of `stride`.

    shape         (queries, keys)
    size          (queries, keys) of a block
    stride        1 or more
    diagonal      as in attention(); None: "tl"

    Raises InvalidArgument for a number out of range.
    """
    return _listed(load().lib.clattn_blocks_strided, _problem(shape, size, diagonal), whole_within("stride", stride, 1, 2 ** 48))


def blocks_documents(shape: _Pair, size: _Pair, starts: Integers) -> Blocks:
    """Blocks of documents in a packed row: query i and key j see each other if one document has both.

    shape         (queries, keys)
    size          (queries, keys) of a block
    starts        int32, one more than documents: document n has the positions from starts[n] to before starts[n + 1]; what lies
                  in none is not listed

    Raises InvalidArgument for no starts, or ones that fall.
    """
    one = vector("starts", starts, np.int32, None, view("starts", np.zeros(1, np.float32)))
    if not one.shape[0]:
        raise InvalidArgument("starts must have a number for each document and one for the end")
    return _listed(load().lib.clattn_blocks_documents, _problem(shape, size, None), one.pointer, one.shape[0] - 1)


def blocks_mask(mask: Array, size: _Pair, *, batches: bool = False) -> Blocks:
    """The blocks in which a boolean mask lets a pair through, as full where it lets all. With the mask besides, attention()
    computes what it would with the mask alone.

    mask          bool of (queries, keys), (heads, queries, keys) or (batch, heads, queries, keys) in host memory; a list for each
                  head that it has
    size          (queries, keys) of a block
    batches       a list for each batch; False by default: the mask must then be of one batch

    Raises InvalidArgument for a mask of another dtype or number of axes, or on a device.
    """
    one = view("mask", mask)
    if one.on_device or one.dtype not in ("bool", "uint8") or not 2 <= len(one.shape) <= 4:
        raise InvalidArgument(f"mask is of shape {one.shape} and dtype {one.dtype}, but must be bool, of two to four axes, in "
                              "host memory")
    sizes = one.as_rank(4)
    if sizes[0] != 1 and not truth("batches", batches):
        raise InvalidArgument(f"mask is of {sizes[0]} batches: batches=True makes a list for each")
    problem = _problem(sizes[2:], size, None)
    problem.batch, problem.heads, problem.kv_heads, problem.mask = sizes[0], sizes[1], sizes[1], 1
    problem.mask_layout.stride[:] = one.strides_like(sizes)
    lists = [_listed(load().lib.clattn_blocks_mask, problem, one.pointer, batch, head)
             for batch in range(sizes[0]) for head in range(sizes[1])]
    return _together(lists, sizes[:2])


def function_blocks(mask_mod: FunctionOrCallable, shape: Sequence[int], size: _Pair = (128, 128), *, q_lengths: Optional[Integers] = None,
                    kv_lengths: Optional[Integers] = None, context: Optional[Context] = None) -> Blocks:
    """The blocks in which a mask function leaves a pair visible, as full where it leaves all. The device evaluates it for all
    pairs.

    mask_mod      a function as attention() takes it; arrays that it reads lie in host memory
    shape         (batch, heads, queries, keys): a list for each batch and head; 1 stands for a list that all share
    size          (queries, keys) of a block, (128, 128) by default
    q_lengths     int32 (batch), or None: queries in use of each batch
    kv_lengths    likewise of keys
    context       as in attention()

    With `mask_mod` besides, attention() computes what it would without the lists. They hold until arrays, numbers or lengths
    change. attention() finds tiles of its own where it is given no lists: these are for pages, packed batches and decoding,
    and for looking at.

    Raises InvalidArgument for a shape that is not of four numbers or an array on a device, and as attention() does.
    """
    if not isinstance(shape, (tuple, list)) or len(shape) != 4:
        raise InvalidArgument(f"shape must be (batch, heads, queries, keys), not {shape!r}")
    problem = _problem(shape[2:], size, None)
    problem.batch, problem.heads = (whole_within("shape", one, 1, 2 ** 31 - 1) for one in shape[:2])
    problem.block_batches, problem.block_heads = int(problem.batch > 1), int(problem.heads > 1)
    return function_lists(mask_mod, problem, dict(q_lengths=q_lengths, kv_lengths=kv_lengths), context)


def function_lists(mask_mod: FunctionOrCallable, problem: c.clattn_problem, lengths: Mapping[str, Optional[Integers]] = {},
                   context: Optional[Context] = None) -> Blocks:
    """Those of a problem's batches and heads, for each of them or as its members block_batches and block_heads say."""
    problem.kv_heads = problem.heads
    functions = Functions(problem, None, mask_mod)
    struct = c.clattn_host_forward_tensors(struct_size=ctypes.sizeof(c.clattn_host_forward_tensors))
    operands, like = functions.views(), view("like", np.zeros(1, np.float32))
    for name, given in lengths.items():
        if given is not None:
            setattr(problem, name, 1)
            operands[name] = vector(name, given, np.int32, problem.batch, like)
    for name, one in operands.items():
        if one.on_device:
            raise InvalidArgument(f"{one.name} lies on a device; lists are made of arrays in host memory")
        setattr(struct, name, one.pointer)
    values = functions.values()
    struct.function_values = None if values is None else ctypes.addressof(values)
    rows, columns = -(-problem.seq_q // problem.block_q), -(-problem.seq_kv // problem.block_kv)
    lead = (problem.batch if problem.block_batches else 1, problem.heads if problem.block_heads else 1)
    problem.max_blocks = max(1, rows * columns)
    offsets, entries = np.zeros((*lead, rows + 1), np.int32), np.full((*lead, problem.max_blocks), -1, np.int32)
    needed = ctypes.c_size_t()
    check(load().lib.clattn_function_blocks(given_context(context).handle, ctypes.byref(problem), ctypes.byref(struct),
                                            offsets.ctypes.data, entries.ctypes.data, ctypes.byref(needed)))
    return Blocks(offsets, np.ascontiguousarray(entries[..., :max(1, needed.value)]), (problem.block_q, problem.block_kv))


def _together(lists: Sequence[Blocks], lead: Sequence[int]) -> Blocks:
    if len(lists) == 1:
        return lists[0]
    if not lists:
        raise InvalidArgument(f"mask is of {lead[0]} batches and {lead[1]} heads, of which there are no lists")
    offsets, listed = (np.stack([np.asarray(one.offsets) for one in lists]), [np.asarray(one.entries) for one in lists])
    room = max(map(len, listed))
    entries = np.full((len(lists), room), -1, np.int32)
    for row, some in zip(entries, listed):
        row[:len(some)] = some
    return Blocks(offsets.reshape(*lead, -1), entries.reshape(*lead, room), lists[0].size)
