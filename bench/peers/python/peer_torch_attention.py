# SPDX-License-Identifier: Apache-2.0
"""PyTorch's attention, of tensors that lie anyhow."""
import functools
import tempfile

import numpy as np
from peer_problem import FAR
from peer_refusal import Unsupported, package

SMALL_SCORES = 1 << 28  # Bytes up to which an eager computation is tried beside a fused one.


DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def alike(torch, *tensors, least=None):
    """In the widest of their dtypes, `least` among them: it has no attention on several."""
    dtypes = [t.dtype for t in tensors] + [least or tensors[0].dtype]
    dtype = functools.reduce(torch.promote_types, dtypes)
    return [t.to(dtype) for t in tensors]


def widths(peer, *tensors, count=None):
    """What is put before a way's name, and the dtype that it computes in at the least. Processors
    often compute faster in f32, converting included, than its kernels do in 16 bits. count: of
    elements that are converted at a time, if not all of them: their copies must have room."""
    count = count or sum(t.numel() for t in tensors)
    dtypes = {t.dtype for t in tensors}
    own = [("converted, " if len(dtypes) > 1 else "", None)]
    if peer.device != "cpu" or peer.torch.float32 in dtypes or 4 * count > peer.memory() / 16:
        return own
    return own + [("converted to f32, ", peer.torch.float32)]


class Ways:
    """torch.nn.functional.scaled_dot_product_attention; what it cannot do, by flex_attention, or
    by matrix products and a softmax.

    A way is a name, a function that makes a function of q, k and v, which gives o, and whether it
    is worth a trial only if nothing else worked. What makes it takes q, k and v as well: as those
    will lie that it is going to be called with."""

    def __init__(self, peer, problem=None):
        self.peer, self.torch, self.problem = peer, peer.torch, problem or peer.problem
        self.flexible = None

    def list(self, *tensors):
        def converting(make, least, *tensors):
            attend = make(*alike(self.torch, *tensors, least=least))
            return lambda *tensors: attend(*alike(self.torch, *tensors, least=least)).to(
                self.peer.o_dtype)

        return [(before + name, functools.partial(converting, make, least)
                 if before else make, last_resort)
                for before, least in widths(self.peer, *tensors)
                for name, make, last_resort
                in self.list_of_one_dtype(*alike(self.torch, *tensors, least=least))]

    def list_of_one_dtype(self, q, k, v):
        problem = self.problem
        if problem.functions:
            return self.list_of_functions()
        ways = []
        scores = 4 * problem.batch * problem.heads * problem.seq_q * problem.seq_kv
        memory = self.peer.memory()
        fused = False
        if not problem.softcap and problem.sinks is None:
            causal = problem.added is None and problem.band == (-FAR, 0)
            grouped = ["enable_gqa", "repeat_interleave"] if problem.group > 1 else [""]
            padded = [False, True] if problem.dim_v < problem.dim_qk else [False]
            for by in grouped:
                copies = (k.nbytes + v.nbytes) * problem.group
                if by == "repeat_interleave" and copies > memory / 16:
                    continue
                for pad in padded:
                    backend = self.backend(causal, by, pad, q, k, v)
                    if backend == "math" and scores > memory / 8:
                        continue
                    fused = fused or backend != "math"
                    name = ", ".join(filter(None, (
                        "scaled_dot_product_attention", backend, by, "v padded" if pad else "",
                        "is_causal" if causal else "")))
                    ways.append((name, functools.partial(self.sdpa, causal, by, pad), False))
            if causal:
                ways.append(("scaled_dot_product_attention, attn_mask",
                             functools.partial(self.sdpa, False, grouped[0], False), True))
        if scores <= SMALL_SCORES or not fused and scores <= memory / 8:
            ways.append(("matmul, softmax", self.eager, False))
        sparse = problem.blocks or problem.band is not None and problem.band[0] > -FAR
        # On the CPU it does not hand out the sums that sinks need.
        possible = problem.sinks is None or self.peer.device != "cpu"
        if possible and (problem.softcap or problem.sinks is not None or sparse):
            ways.append(("flex_attention", self.flex, False))
        if not ways:
            raise Unsupported(f"Its scores would take {scores / 1e9:.1f} GB.")
        return ways

    def list_of_functions(self):
        """On CPUs flex_attention has no gradients: they are those of products and a softmax, as they are and compiled."""
        problem = self.problem
        if problem.added is not None or problem.visible is not None or problem.sinks is not None:
            raise Unsupported("Functions are asked for without other options.")
        flexible = self.peer.device != "cpu" or not self.peer.backward
        return ([("flex_attention", self.flex, False)] * flexible +
                [("matmul, functions, softmax", self.dense, flexible),
                 ("matmul, functions, softmax, compiled",
                  lambda *_: self.torch.compile(self.dense(), dynamic=False), flexible)])

    def dense(self, *_):
        torch, problem, functions = self.torch, self.problem, self.problem.functions
        pairs = [numbers.to(self.peer.device) for numbers in functions.grid()]
        hidden = ~functions.mask(*pairs) if functions.mask else None

        def attend(q, k, v):
            if problem.group > 1:
                k, v = (t.repeat_interleave(problem.group, 1) for t in (k, v))
            scores = torch.matmul(q, k.transpose(2, 3)) * problem.scale
            if problem.softcap:
                scores = problem.softcap * torch.tanh(scores / problem.softcap)
            if functions.score:
                scores = functions.score(scores, *pairs)
            if hidden is not None:
                scores = scores.masked_fill(hidden, -np.inf)
            return torch.matmul(torch.softmax(scores, dim=3), v)
        return attend

    def mask(self, boolean, dtype=None):
        """Without leading dimensions of 1; additions in the dtype, or the problem's, if that is exact."""
        problem = self.problem
        values = problem.boolean() if boolean and problem.added is None else problem.merged()
        if values is None:
            return None
        while values.ndim > 2 and values.shape[0] == 1:
            values = values[0]
        mask = self.peer.on_device(np.ascontiguousarray(values))
        narrow = mask.to(dtype or getattr(self.torch, DTYPES[problem.dtype])) if mask.dtype.is_floating_point else mask
        return narrow if (narrow.to(mask.dtype) == mask).all() else mask

    def backend(self, causal, by, pad, q, k, v):
        """What scaled_dot_product_attention is going to choose, or "" if that cannot be known."""
        torch = self.torch
        try:
            number = torch._fused_sdp_choice(
                q, *self.widened(k, v, by, pad), None if causal else self.mask(True, q.dtype), 0.0, causal,
                scale=self.problem.scale, enable_gqa=by == "enable_gqa")
            backends = torch.nn.attention.SDPBackend.__members__.items()
            return {int(b): name for name, b in backends}[number].lower().replace("_attention", "")
        except Exception:  # It is no public function: what it is good for is only a word.
            return ""

    def widened(self, k, v, by, pad):
        """With as many heads, or columns of v, as q has."""
        problem = self.problem
        if pad:
            v = self.torch.nn.functional.pad(v, (0, problem.dim_qk - problem.dim_v))
        if by == "repeat_interleave":
            k, v = (t.repeat_interleave(problem.group, 1) for t in (k, v))
        return k, v

    def zeroed(self, attend):
        """With zeros for the queries that see no key, where there are any."""
        hidden = self.peer.on_device(self.problem.hidden_rows)
        if hidden is None:
            return attend
        if self.peer.backward:  # Which may need what was there before.
            return lambda *tensors: attend(*tensors).masked_fill(hidden, 0)
        return lambda *tensors: attend(*tensors).masked_fill_(hidden, 0)

    def sdpa(self, causal, by, pad, q, *_):
        problem = self.problem
        attention = self.torch.nn.functional.scaled_dot_product_attention
        options = {"attn_mask": None if causal else self.mask(True, q.dtype), "is_causal": causal,
                   "scale": problem.scale, **({"enable_gqa": True} if by == "enable_gqa" else {})}
        return self.zeroed(lambda q, k, v: attention(
            q, *self.widened(k, v, by, pad), **options)[..., :problem.dim_v])

    def eager(self, *_):
        torch, problem = self.torch, self.problem
        mask = self.mask(False)
        sinks = self.peer.on_device(problem.sinks)
        grouped = (problem.batch, problem.kv_heads, problem.group * problem.seq_q, -1)
        backward = self.peer.backward

        def attend(q, k, v):
            scores = torch.matmul(q.reshape(grouped), k.transpose(2, 3)).view(q.shape[:3] + (-1,))
            scores *= problem.scale
            if problem.softcap:
                scores = scores.div_(problem.softcap).tanh_()  # Which backward reads.
                scores = scores * problem.softcap if backward else scores.mul_(problem.softcap)
            if mask is not None:
                scores = scores + mask
            if sinks is not None:
                column = sinks.to(scores.dtype).view(1, -1, 1, 1).expand(q.shape[:3] + (1,))
                scores = torch.cat((scores, column), dim=3)
            weights = torch.softmax(scores, dim=3, dtype=torch.float32).to(q.dtype)
            weights = weights[..., :problem.seq_kv].reshape(grouped)
            return torch.matmul(weights, v).view(problem.shape)
        return self.zeroed(attend)

    def flex(self, *tensors):
        torch, problem = self.torch, self.problem
        sinks = self.peer.on_device(problem.sinks)
        first = self.flexible is None
        compiled, options = self.flexible = self.flexible or self.flex_options()

        def attend(q, k, v):
            if sinks is None:
                return compiled(q, k, v, **options)
            o, lse = compiled(q, k, v, return_lse=True, **options)
            return o * torch.sigmoid(lse - sinks.view(1, -1, 1)).unsqueeze(3).to(o.dtype)
        if first:
            # Compiling is part of the first computation, so what another process left is not used.
            inductor = package("torch._inductor.utils", self.peer.packages)
            with tempfile.TemporaryDirectory(prefix="clattn-torch-") as folder:
                with inductor.fresh_inductor_cache(dir=folder):
                    attend(*tensors)
        return self.zeroed(attend)

    def flex_options(self):
        """flex_attention, compiled at its first call, and what it gets besides q, k and v. Once
        for all sets of tensors: other functions among its arguments would be compiled again."""
        attention = package("torch.nn.attention.flex_attention", self.peer.packages)
        torch, problem = self.torch, self.problem
        softcap, band = problem.softcap, problem.band
        block_mask = score_mod = None
        functions = problem.functions

        def lookup(values):
            steps = [int(size > 1) for size in values.shape]
            table = self.peer.on_device(values)
            return lambda b, h, i, j: table[
                b * steps[0], h * steps[1], i * steps[2], j * steps[3]]

        if problem.visible is not None:
            seen = lookup(problem.visible) if band is None else (
                lambda b, h, i, j: (j - i <= band[1]) & (j - i >= band[0]))
            b, h = (size if size > 1 else None for size in problem.visible.shape[:2])
            block_mask = attention.create_block_mask(
                seen, b, h, problem.seq_q, problem.seq_kv, device=self.peer.device,
                **({"BLOCK_SIZE": problem.blocks} if problem.blocks else {}))
        if functions and functions.mask:
            block_mask = attention.create_block_mask(
                functions.mask, problem.batch if functions.of_batch else None, None, problem.seq_q,
                problem.seq_kv, device=self.peer.device)
        if functions:
            of_function = functions.score

            def score_mod(score, b, h, i, j):
                score = softcap * torch.tanh(score / softcap) if softcap else score
                return of_function(score, b, h, i, j) if of_function else score
        elif softcap or problem.added is not None:
            added = None if problem.added is None else lookup(problem.added)

            def score_mod(score, b, h, i, j):
                score = softcap * torch.tanh(score / softcap) if softcap else score
                return score + added(b, h, i, j) if added else score
        return torch.compile(attention.flex_attention, dynamic=False, fullgraph=True), {
            "score_mod": score_mod, "block_mask": block_mask, "scale": problem.scale,
            "enable_gqa": problem.group > 1}


class TorchAttention:
    """Forward or backward; of a set of tensors q, k, v and, for autograd to start from, do."""

    def __init__(self, peer, ways):
        self.peer, self.ways_to_attend = peer, ways(peer)

    def tensors(self):
        problem, backward = self.peer.problem, self.peer.backward
        qkv = [self.peer.on_device(getattr(problem, name)) for name in "qkv"]
        if not backward:
            return qkv
        return [values.requires_grad_() for values in qkv] + [self.peer.on_device(problem.do)]

    def ways(self, tensors):
        backward = self.peer.backward
        prepare = self.gradients if backward else self.forward
        return [("autograd of " * backward + name, functools.partial(prepare, make), last_resort)
                for name, make, last_resort in self.ways_to_attend.list(*tensors[:3])]

    def forward(self, make, tensors):
        attend = make(*tensors)
        return lambda: attend(*tensors).to(self.peer.o_dtype)

    def gradients(self, make, tensors):
        """Backward alone: what forward leaves is kept, so that it can be used again."""
        qkv, do = tensors[:3], tensors[3]
        o = make(*qkv)(*qkv)
        return lambda: self.peer.torch.autograd.grad(o, qkv, do, retain_graph=True)

    def results(self, results):
        return results if self.peer.backward else [results]
