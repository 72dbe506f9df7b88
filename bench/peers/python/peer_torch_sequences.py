# SPDX-License-Identifier: Apache-2.0
"""PyTorch's attention of packed batches and paged caches, by what its users have for them."""
import functools

import numpy as np
from peer_problem import FAR
from peer_torch_attention import Ways, alike, widths


class LengthWays(Ways):
    """Those of a padded batch, and each sequence alone, which leaves out keys that are not in use."""

    def list(self, *tensors):
        alone = SequenceWays(self.peer, self.peer.alone)
        return super().list(*tensors) + alone.each_alone(*tensors)


class SequenceWays:
    """A loop over the sequences, nested tensors, or one batch of what was gathered from the pages.
    Ways as those of Ways."""

    def __init__(self, peer, problem=None):
        self.peer, self.torch, self.problem = peer, peer.torch, problem or peer.problem

    def list(self, q, k, v):
        problem, ways = self.problem, self.each_alone(q, k, v)
        if problem.in_pages and not problem.packed_q and self.gathered_bytes() <= (
                self.peer.memory() / 16):
            ways += self.padded(q, k, v)
        return ways

    def each_alone(self, q, k, v):
        problem, parts = self.problem, self.problem.parts
        gather = "gathered pages, " if problem.in_pages else ""
        plain = all(not part.softcap and part.sinks is None for part in parts)
        grouped = ["enable_gqa", "repeat_interleave"] if problem.heads > problem.kv_heads else [""]
        names = [f"scaled_dot_product_attention, {by}".rstrip(", ") for by in grouped]
        if not plain:
            grouped, names = [None], ["matmul, softmax"]
        count = q.numel() + problem.kv_heads * max(
            [part.length for part in parts], default=0) * (problem.dim_qk + problem.dim_v)
        made = [("a loop over the sequences", self.loop)]
        if plain and self.is_nested():
            made.append(("nested tensors", self.nested))
        return [(f"{before}{gather}{how}, {name}", functools.partial(make, by, least), False)
                for before, least in widths(self.peer, q, k, v, count=count)
                for how, make in made for by, name in zip(grouped, names)]

    # ---- a loop over the sequences ---------------------------------------------------------------

    def loop(self, by, least, *tensors):
        problem, torch = self.problem, self.torch
        some = alike(torch, *(t[:0] for t in tensors), least=least)  # As those that will come.
        attends = []
        for part in problem.parts:
            ways = Ways(self.peer, part)
            causal = part.added is None and part.band == (-FAR, 0)
            attends.append(ways.eager(*some) if by is None
                           else ways.sdpa(causal, by, False, *some))
        caches = [self.cache_of(part) for part in problem.parts]
        sizes, owners = self.pieces()

        def attend(q, k, v):
            pieces = []
            for rows, owner in zip(self.split(q, sizes), owners):
                if owner is None:
                    pieces.append(rows.new_zeros(rows.shape[:3] + (problem.dim_v,),
                                                 dtype=self.peer.o_dtype))
                    continue
                some = alike(torch, rows, caches[owner](k), caches[owner](v), least=least)
                pieces.append(attends[owner](*some).to(self.peer.o_dtype))
            return torch.cat(pieces, 2 if problem.packed_q else 0)
        return attend

    def pieces(self):
        """How q is cut, sizes, and which part each piece is; None: of rows whose o is 0."""
        at, sizes, owners = 0, [], []
        for n, part in enumerate(self.problem.parts):
            begin, end = part.at[1:] if self.problem.packed_q else (part.at[0], part.at[0] + 1)
            if begin > at:
                sizes.append(begin - at)
                owners.append(None)
            sizes.append(end - begin)
            owners.append(n)
            at = end
        left = self.problem.shape[2 if self.problem.packed_q else 0] - at
        return (sizes + [left], owners + [None]) if left else (sizes, owners)

    def split(self, q, sizes):
        return q.split(sizes, 2 if self.problem.packed_q else 0)

    def cache_of(self, part):
        """What takes its keys out of k, and its values out of v."""
        if not self.problem.in_pages:
            b, begin, end = part.keys
            return lambda values: values[b:b + 1, :, begin:end]
        pages, length = part.keys
        index = self.peer.on_device(pages.astype(np.int64))
        return lambda values: self.gathered(values, index, 1)[:, :, :length]

    def gathered(self, values, index, batch):
        """The pages, of as many sequences, as (batch, heads, keys, dim): a copy."""
        _, heads, rows, dim = values.shape
        pages = values.index_select(0, index).view(batch, -1, heads, rows, dim)
        return pages.transpose(1, 2).reshape(batch, heads, -1, dim)

    # ---- one batch of what was gathered ----------------------------------------------------------

    def gathered_bytes(self):
        problem = self.problem
        row = self.problem.k[0, :, 0].nbytes + self.problem.v[0, :, 0].nbytes
        return problem.batch * problem.seq_kv * row

    def padded(self, q, k, v):
        problem = self.problem
        index = self.peer.on_device(problem.table.clip(0, len(problem.k) - 1).ravel().astype("i8"))
        ways = Ways(self.peer, problem.whole())

        def gather(q, k, v):
            return q, *(self.gathered(values, index, problem.batch)[:, :, :problem.seq_kv]
                        for values in (k, v))

        def after(make, *tensors):
            attend = make(*gather(*tensors))
            return lambda *tensors: attend(*gather(*tensors))
        return [("gathered pages, " + name, functools.partial(after, make), last_resort)
                for name, make, last_resort in ways.list(*gather(q, k, v))]

    # ---- nested tensors --------------------------------------------------------------------------

    def is_nested(self):
        """Whether the sequences are all of q, k and v, one after the other, masked as is_causal does."""
        problem, parts = self.problem, self.problem.parts
        if not (problem.packed_q and problem.packed_kv) or len(parts) < problem.batch:
            return False
        ends = [(0, 0)] + [(part.at[2], part.keys[2]) for part in parts]
        begins = [(part.at[1], part.keys[1]) for part in parts]
        causal = {part.band == (-FAR, 0) for part in parts if part.visible is not None}
        whole = begins == ends[:-1] and ends[-1] == (problem.shape[2], problem.k.shape[2])
        square = all(part.seq_q == part.seq_kv for part in parts)
        hidden = any(part.visible is not None for part in parts)
        return whole and all(part.added is None for part in parts) and (
            not hidden or square and causal == {True})

    def nested(self, by, least, *_):
        problem, torch = self.problem, self.torch
        parts = problem.parts
        causal = any(part.visible is not None for part in parts)
        attention = torch.nn.functional.scaled_dot_product_attention
        offsets = [self.peer.on_device(np.array([0] + ends)) for ends in (
            [part.at[2] for part in parts], [part.keys[2] for part in parts])]
        longest = max(part.seq_q for part in parts), max(part.seq_kv for part in parts)
        least = min(part.seq_q for part in parts), min(part.seq_kv for part in parts)

        def jagged(values, n):
            return torch.nested.nested_tensor_from_jagged(
                values[0].transpose(0, 1), offsets[n], min_seqlen=least[n],
                max_seqlen=longest[n]).transpose(1, 2)

        def attend(q, k, v):
            q, k, v = alike(torch, q, k, v, least=least)
            if by == "repeat_interleave":
                k, v = (t.repeat_interleave(problem.heads // problem.kv_heads, 1) for t in (k, v))
            o = attention(jagged(q, 0), jagged(k, 1), jagged(v, 1), is_causal=causal,
                          scale=parts[0].scale, enable_gqa=by == "enable_gqa")
            return o.transpose(1, 2).values().transpose(0, 1).unsqueeze(0).to(self.peer.o_dtype)
        return attend
