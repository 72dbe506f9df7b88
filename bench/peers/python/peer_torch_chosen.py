# SPDX-License-Identifier: Apache-2.0
"""PyTorch's attention to lists of chosen keys, by what its users have for them: keys that are gathered, and attention to these."""
import functools

from peer_torch_attention import Ways, alike, widths

QUERIES = 64  # That are gathered for at a time.


class ChosenWays(Ways):
    """Attention to all keys by a mask is tried if nothing else works."""

    def list(self, *tensors):
        count = 2 * sum(t.numel() for t in tensors)
        gathered = [(f"{before}gathered keys, scaled_dot_product_attention", functools.partial(self.gather, least), False)
                    for before, least in widths(self.peer, *tensors, count=count)]
        return gathered + [(name, make, True) for name, make, _ in super().list(*tensors)]

    def gather(self, least, *_):
        torch, problem = self.torch, self.problem
        lists = self.peer.on_device(problem.lists).long().expand(problem.batch, problem.kv_heads, -1, -1)
        listed = None if (lists >= 0).all() else (lists >= 0)
        lists = lists.clamp(min=0)
        of_batch = torch.arange(problem.batch, device=self.peer.device).view(-1, 1, 1, 1)
        of_head = torch.arange(problem.kv_heads, device=self.peer.device).view(1, -1, 1, 1)

        def some(first, q, k, v):
            """Of a few queries: each is a batch of its own, whose rows are the heads of a kv head."""
            last = min(first + QUERIES, problem.seq_q)
            rows = (of_batch, of_head, lists[:, :, first:last])
            q = q[:, :, first:last].unflatten(1, (problem.kv_heads, problem.group)).transpose(2, 3)
            mask = None if listed is None else listed[:, :, first:last, None, None].flatten(0, 2)
            k, v = (values[rows].flatten(0, 2).unsqueeze(1) for values in (k, v))
            q, k, v = alike(torch, q.flatten(0, 2).unsqueeze(1), k, v, least=least)
            o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=problem.scale)
            o = o.squeeze(1).unflatten(0, (problem.batch, problem.kv_heads, last - first))
            return o.transpose(2, 3).flatten(1, 2).to(self.peer.o_dtype)

        return self.zeroed(lambda *tensors: torch.cat(
            [some(first, *tensors) for first in range(0, problem.seq_q, QUERIES)], 2))
