# SPDX-License-Identifier: Apache-2.0
"""A problem and its tensors, as README.md describes them, in NumPy."""
import functools
import json
import math

import numpy as np
from peer_refusal import Refusal, Unsupported, need

STORED = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "|u1", "U8": "|u1", "I8": "|i1", "I32": "<i4"}
FAR = 1 << 30  # Farther than any key.
FULL = 1 << 30  # In an entry of a block list: no mask counts there.


def read_safetensors(path):
    """Its tensors by name; bf16 as 16-bit words, booleans as such."""
    raw = np.fromfile(path, dtype=np.uint8)
    start = 8 + int.from_bytes(raw[:8].tobytes(), "little")
    tensors = {}
    for name, entry in json.loads(raw[8:start].tobytes()).items():
        if name == "__metadata__":
            continue
        begin, end = (start + offset for offset in entry["data_offsets"])
        values = raw[begin:end].view(STORED[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = values != 0 if entry["dtype"] == "BOOL" else values
    return tensors


def widened(values):
    """As floating-point numbers of at least 32 bits; 16-bit words are bf16."""
    if values.dtype == np.uint16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def near(got, want):
    """Enough to choose a way by."""
    return np.abs(got - want).max() <= 0.05 * np.abs(want).max() + 1e-6


def mask_of_last_keys(mask, shape, keys, columns):
    """A mask of so many columns, of each batch's last keys, as one of all keys."""
    j = np.arange(shape[3]).reshape(1, 1, 1, -1)
    column = j - (keys - columns)
    wide = np.broadcast_to(mask, mask.shape[:3] + (columns,))
    wide = np.broadcast_to(wide, np.broadcast_shapes(wide.shape, column.shape[:1] + (1, 1, 1)))
    at = np.broadcast_to(column.clip(0, columns - 1), wide.shape[:3] + (shape[3],))
    return np.take_along_axis(wide, at, 3) | (column < 0) | (column >= columns)


def listed_pairs(fields, tensors, shape):
    """The pairs in blocks that are listed, and in blocks where no mask counts."""
    offsets, entries = tensors["block_offsets"], tensors["block_entries"]
    block_q, block_kv = (need(fields, name, int) for name in ("block_q", "block_kv"))
    rows, columns = -(-shape[2] // block_q), -(-shape[3] // block_kv)
    listed = np.zeros((2,) + offsets.shape[:2] + (rows, columns), bool)
    offsets = offsets.clip(0, entries.shape[2])
    for b, h, row in np.ndindex(offsets.shape[:2] + (rows,)):
        some = entries[b, h, offsets[b, h, row]:offsets[b, h, row + 1]]
        some = some[some >= 0]
        for n, of in enumerate((some, some[some & FULL != 0])):
            of = of & ~FULL
            listed[n, b, h, row, of[of < columns]] = True
    wide = listed.repeat(block_q, 3).repeat(block_kv, 4)
    return wide[..., :shape[2], :shape[3]]


def chosen_pairs(lists, keys):
    """The pairs of queries and keys that stand in the queries' lists."""
    pairs = np.zeros(lists.shape[:3] + (keys + 1,), bool)
    np.put_along_axis(pairs, np.where((lists >= 0) & (lists < keys), lists, keys), True, 3)
    return pairs[..., :keys]


def check_shapes(tensors, wanted):
    for name, shape in wanted.items():
        if tensors[name].shape != shape:
            raise Refusal(f"The data's {name} is {tensors[name].shape}, not {shape}.")


class Attention:
    """Sizes and options, with all masks merged into one and all that is added into another.

    operation    "fwd" or "bwd", or that of a layer
    visible      None, or booleans of rank 4 with 1 where they broadcast
    band         (low, high) if visible says low <= key - query <= high and nothing else
    added        None, or float32 values likewise: the bias and ALiBi
    hidden_rows  None, or True for queries that see no key, which give zeros
    lists        None, or the keys that each query has chosen, which `visible` has, too
    functions    None, or those of scores and masks (peer_functions.py), which nothing else here speaks of
    blocks       None, or (queries, keys) of a block, if the pairs that are visible come in such
    """

    def __init__(self, fields, tensors):
        self.operation = need(fields, "operation", str)
        for name in "batch heads kv_heads seq_q seq_kv dim_qk dim_v".split():
            setattr(self, name, need(fields, name, int))
        for name in "scale softcap".split():
            setattr(self, name, float(need(fields, name, (int, float))))
        self.dtype = need(fields, "dtype", str)
        if 0 in (self.batch, self.heads, self.seq_q, self.seq_kv, self.dim_qk):
            raise Unsupported("There is nothing to compute.")
        self.group = self.heads // self.kv_heads
        self.shape = (self.batch, self.heads, self.seq_q, self.dim_v)
        self.sinks = tensors["sinks"] if fields["sinks"] else None
        self.o_dtype, self.blocks, self.functions = fields.get("o_dtype", self.dtype), None, None

        i = np.arange(self.seq_q).reshape(1, 1, -1, 1)
        j = np.arange(self.seq_kv).reshape(1, 1, 1, -1)
        queries, keys = (np.clip(tensors[name], 0, most).reshape(-1, 1, 1, 1)
                         if fields[name] else np.full((1, 1, 1, 1), most)
                         for name, most in (("q_lengths", self.seq_q),
                                            ("kv_lengths", self.seq_kv)))
        diagonal = {"tl": np.zeros_like(keys), "br": keys - queries}.get(
            fields["diagonal"], fields["diagonal"])
        now = i + diagonal  # The diagonal's key for a query.

        left, right = fields["window_left"], fields["window_right"]
        if fields["causal"]:
            right = 0
        bias = widened(tensors["bias"]) if fields["bias"] else None
        limits = [j <= now + right] * (right >= 0) + [j >= now - left] * (left >= 0)
        others = [j < keys] * fields["kv_lengths"] + [i < queries] * fields["q_lengths"]
        listed = full = None
        if fields.get("block_q"):
            self.blocks = tuple(need(fields, name, int) for name in ("block_q", "block_kv"))
            listed, full = listed_pairs(fields, tensors, self.shape[:3] + (self.seq_kv,))
            others.append(listed)
        self.lists = tensors["topk_indices"] if fields.get("topk") else None
        if self.lists is not None:
            chosen = chosen_pairs(self.lists, self.seq_kv)
            others.append(chosen.repeat(self.heads // chosen.shape[1], 1) if chosen.shape[1] > 1 else chosen)
        if fields["mask"]:
            columns = fields.get("mask_keys")
            mask = tensors["mask"] if not columns else mask_of_last_keys(
                tensors["mask"], self.shape[:3] + (self.seq_kv,), keys, columns)
            others.append(mask if full is None else mask | full)
        if bias is not None and np.isneginf(bias).any():
            others.append(~np.isneginf(bias))
        self.added = bias
        if fields["alibi"]:
            distance = (j - now).astype(np.float32)
            alibi = tensors["slopes"].reshape(1, -1, 1, 1) * distance
            self.added = alibi if bias is None else bias + alibi

        self.visible = self.hidden_rows = self.band = None
        visible = functools.reduce(np.logical_and, limits + others, np.ones((1, 1, 1, 1), bool))
        if visible.all():
            return
        self.visible = visible
        rows = ~visible.any(axis=3, keepdims=True)
        self.hidden_rows = rows if rows.any() else None
        if not others and np.size(diagonal) == 1:
            at = int(np.asarray(diagonal).item())
            self.band = (max(at - left, -FAR) if left >= 0 else -FAR,
                         min(at + right, FAR) if right >= 0 else FAR)

    def boolean(self):
        """The mask to choose by, or None. Queries that see no key, whose results are replaced, are
        shown all: from NaN in one row a library may make NaN in another."""
        if self.visible is None or self.hidden_rows is None:
            return self.visible
        return self.visible | self.hidden_rows

    def merged(self):
        """The mask to add, likewise: what is added, -inf where hidden; None if neither is."""
        if self.visible is None:
            return self.added
        added = np.float32(0) if self.added is None else self.added
        masked = np.where(self.visible, added, np.float32(-np.inf))
        return masked if self.hidden_rows is None else np.where(self.hidden_rows, 0, masked)

    def weights(self, q, k, b, h, i):
        """One row of weights by the formula in clattn/problem.h, in the precision of q, its row,
        and k; which keys have any, and the derivative of softcap."""
        def of(values):
            shape = (self.batch, self.heads, self.seq_q, self.seq_kv)
            return np.broadcast_to(values, shape)[b, h, i]

        scores = k @ q * self.scale
        slope = np.ones(self.seq_kv)
        if self.softcap:
            tanh = np.tanh(scores / self.softcap)
            scores, slope = self.softcap * tanh, 1 - tanh * tanh
        by_function = np.ones(self.seq_kv, bool)
        if self.functions:
            scores, slope, by_function = self.functions.row(scores, b, h, i)
        if self.added is not None:
            scores = scores + of(self.added)
        seen = by_function if self.visible is None else by_function & of(self.visible)
        if not seen.any():
            return np.zeros(0), seen, slope[seen]
        sink = -np.inf if self.sinks is None else float(self.sinks[h])
        top = max(scores[seen].max(), sink)
        weights = np.exp(scores[seen] - top)
        return weights / (weights.sum() + math.exp(sink - top)), seen, slope[seen]


class Problem(Attention):
    """Attention, or its gradients, which have o, lse and do besides q, k and v."""

    def __init__(self, fields, tensors):
        super().__init__(fields, tensors)
        self.q, self.k, self.v = (tensors[name] for name in "qkv")
        wanted = {"q": (self.batch, self.heads, self.seq_q, self.dim_qk),
                  "k": (self.batch, self.kv_heads, self.seq_kv, self.dim_qk),
                  "v": (self.batch, self.kv_heads, self.seq_kv, self.dim_v)}
        if self.operation == "bwd":
            self.o, self.lse, self.do = (tensors[name] for name in ("o", "lse", "do"))
            wanted.update({"o": self.shape, "do": self.shape, "lse": self.shape[:3]})
        check_shapes(tensors, wanted)

    def is_right(self, o):
        """Whether three rows of o, or of dq, as float32, are near the formula."""
        for b, h, i in ((0, 0, 0), (0, self.heads - 1, self.seq_q - 1),
                        (self.batch - 1, self.heads // 2, self.seq_q // 2)):
            want = self.row(b, h, i) if self.operation == "fwd" else self.row_gradient(b, h, i)
            if not near(o[b, h, i], want):
                return False
        return True

    def row_of_weights(self, b, h, i):
        """In double precision."""
        return self.weights(widened(self.q[b, h, i]).astype("f8"),
                            widened(self.k[b, h // self.group]), b, h, i)

    def row(self, b, h, i):
        """One row of o."""
        weights, seen, _ = self.row_of_weights(b, h, i)
        return weights @ widened(self.v[b, h // self.group])[seen]

    def row_gradient(self, b, h, i):
        """One row of dq."""
        weights, seen, slope = self.row_of_weights(b, h, i)
        do, head = widened(self.do[b, h, i]).astype("f8"), h // self.group
        by_weight = widened(self.v[b, head])[seen] @ do
        by_score = weights * (by_weight - weights @ by_weight) * slope
        return self.scale * by_score @ widened(self.k[b, head])[seen]
