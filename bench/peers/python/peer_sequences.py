# SPDX-License-Identifier: Apache-2.0
"""Packed batches and paged caches as sequences of their own, in NumPy."""
import functools

import numpy as np
from peer_problem import Attention, Problem, check_shapes
from peer_refusal import Unsupported, need


def is_of_sequences(fields):
    return any(fields.get(name) for name in ("total_q", "total_kv", "page_size"))


def rows_of(starts, b, longest, total):
    """Where a sequence's rows begin and end, as clattn/problem.h has it."""
    begin = min(max(int(starts[b]), 0), total)
    return begin, max(begin, min(int(starts[b + 1]), begin + longest, total))


class Sequence(Problem):
    """One of a batch, with the keys that are in use; q, k and v are made when they are asked for.

    at     (batch, begin, end) in q and o
    keys   Likewise in k and v, or where these lie in pages, (pages, keys)
    """

    def __init__(self, fields, tensors, b, whole):
        self.whole, self.fields = whole, fields
        self.at = (b, 0, whole.seq_q)
        if fields.get("total_q"):
            self.at = (0, *rows_of(tensors["q_starts"], b, whole.seq_q, whole.q.shape[2]))
        self.keys = self.keys_in_use(tensors, b)
        own = {name: values[b:b + 1] if len(values) > 1 else values
               for name, values in tensors.items() if name in
               ("bias", "mask", "block_offsets", "block_entries", "q_lengths")}
        seq_q, seq_kv = self.at[2] - self.at[1], self.length
        for name in ("bias", "mask"):
            if name in own:
                columns = seq_kv if name == "bias" or not fields.get("mask_keys") else None
                own[name] = own[name][:, :, :seq_q, :columns]
        own.update((name, tensors[name]) for name in ("slopes", "sinks") if name in tensors)
        if seq_q > 0 and seq_kv > 0:
            Attention.__init__(self, {**fields, "batch": 1, "seq_q": seq_q, "seq_kv": seq_kv,
                                      "kv_lengths": False}, own)

    def keys_in_use(self, tensors, b):
        fields, most = self.fields, self.whole.seq_kv
        begin, end, batch = 0, most, b
        if fields.get("total_kv"):
            begin, end = rows_of(tensors["kv_starts"], b, most, self.whole.k.shape[2])
            batch = 0
        if fields["kv_lengths"]:
            end = begin + min(end - begin, max(int(tensors["kv_lengths"][b]), 0))
        self.length = end - begin
        if not fields.get("page_size"):
            return batch, begin, end
        pages = tensors["page_table"][b, :-(-self.length // fields["page_size"])]
        if pages.size and not 0 <= pages.min() <= pages.max() < self.whole.k.shape[0]:
            raise Unsupported("Its table names pages that do not exist.")
        return pages, self.length

    def rows(self, values):
        """Of q, o and their like."""
        b, begin, end = self.at
        return values[b:b + 1, :, begin:end]

    def cached(self, values):
        """Of k and v."""
        if len(self.keys) == 3:
            b, begin, end = self.keys
            return values[b:b + 1, :, begin:end]
        pages, length = self.keys
        rows = values[pages].transpose(1, 0, 2, 3).reshape(1, values.shape[1], -1, values.shape[3])
        return rows[:, :, :length]

    q = property(lambda self: self.rows(self.whole.q))
    k = property(lambda self: self.cached(self.whole.k))
    v = property(lambda self: self.cached(self.whole.v))
    do = property(lambda self: self.rows(self.whole.do))


class Sequences:
    """A batch of them: `parts`, without those that have no queries or no keys; `shape` is o's."""

    def __init__(self, fields, tensors):
        if fields.get("topk"):
            raise Unsupported("Its lists of chosen keys are of sequences.")
        self.operation, self.dtype = need(fields, "operation", str), need(fields, "dtype", str)
        for name in "batch heads kv_heads seq_q seq_kv dim_qk dim_v".split():
            setattr(self, name, need(fields, name, int))
        if 0 in (self.batch, self.heads, self.seq_q, self.dim_qk):
            raise Unsupported("There is nothing to compute.")
        self.o_dtype = fields.get("o_dtype", self.dtype)
        self.q, self.k, self.v = (tensors[name] for name in "qkv")
        queries = (1, fields["total_q"]) if fields.get("total_q") else (self.batch, self.seq_q)
        self.shape = (queries[0], self.heads, queries[1], self.dim_v)
        check_shapes(tensors, {"q": self.shape[:3] + (self.dim_qk,)})
        if self.operation == "bwd":
            self.do = tensors["do"]
            check_shapes(tensors, {"o": self.shape, "do": self.shape})
        parts = [Sequence(fields, tensors, b, self) for b in range(self.batch)]
        self.parts = sorted((part for part in parts if part.at[1] < part.at[2] and part.length),
                            key=lambda part: part.at)
        if any(a.at[0] == b.at[0] and a.at[2] > b.at[1]
               for a, b in zip(self.parts, self.parts[1:])):
            raise Unsupported("Its sequences overlap.")
        self.whole = functools.partial(Attention, fields, tensors)
        self.in_pages, self.packed_q, self.packed_kv = (
            bool(fields.get(name)) for name in ("page_size", "total_q", "total_kv"))
        self.table = tensors.get("page_table")

    def is_right(self, o):
        """Whether three rows of some sequences are near the formula."""
        some = [self.parts[n] for n in sorted({0, len(self.parts) // 2, len(self.parts) - 1})
                if n < len(self.parts)]
        return all(part.is_right(part.rows(o)) for part in some)
