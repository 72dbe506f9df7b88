# SPDX-License-Identifier: Apache-2.0
"""Projections and multi-head layers by PyTorch."""
import functools

import numpy as np
from peer_refusal import Refusal
from peer_torch_attention import Ways


class TorchProjection:
    """torch.nn.functional.linear, whose weights are (out, in), or addmm, whose are (in, out)."""

    def __init__(self, peer):
        self.peer = peer

    def tensors(self):
        problem = self.peer.problem
        return [self.peer.on_device(values) for values in (problem.x, problem.w, problem.bias)]

    def ways(self, _):
        return [("linear", self.linear, False), ("addmm", self.addmm, False)]

    def linear(self, tensors):
        x, w, bias = self.of_one_dtype(tensors)
        w = w.t().contiguous()
        linear = self.peer.torch.nn.functional.linear
        return lambda: linear(x, w, bias)

    def addmm(self, tensors):
        torch = self.peer.torch
        x, w, bias = self.of_one_dtype(tensors)
        if bias is None:
            return lambda: torch.mm(x, w)
        return lambda: torch.addmm(bias, x, w)

    @staticmethod
    def of_one_dtype(tensors):
        x, w, bias = tensors
        return x, w, None if bias is None else bias.to(x.dtype)

    def results(self, y):
        return [y.view(self.peer.problem.split).transpose(1, 2)]


class TorchLayer:
    """linear, attention in one of its ways, linear; in self-attention one product for q, k and v
    together or three. Backward is autograd's."""
    parameters = [f"{kind}_{name}" for kind in "wb" for name in "qkvo"]

    def __init__(self, peer):
        self.peer, self.torch, self.problem = peer, peer.torch, peer.problem
        self.ways_to_attend = Ways(peer)
        names = {"self": ["x"], "cross": ["x", "context"], "separate": ["x", "context", "values"]}
        self.inputs = names[self.problem.source]
        self.columns = [self.problem.weights_of[name].shape[0] for name in "qkv"]

    # ---- tensors ---------------------------------------------------------------------------------

    def tensors(self):
        """By name, in the order of the gradients, then dy."""
        problem = self.problem
        values = {name: getattr(problem, name) for name in self.inputs}
        values.update((f"w_{name}", at) for name, at in problem.weights_of.items())
        values.update((f"b_{name}", at) for name, at in problem.biases_of.items()
                      if at is not None)
        tensors = {name: self.peer.on_device(at).requires_grad_(self.peer.backward)
                   for name, at in values.items()}
        return tensors, self.peer.on_device(problem.dy)

    def packed(self, tensors):
        """With the parameters of q, k and v in one."""
        torch = self.torch
        together = dict(tensors)
        for kind in "wb":
            parts = [together.pop(f"{kind}_{name}", None) for name in "qkv"]
            if parts[0] is not None:
                together[f"{kind}_qkv"] = torch.cat(parts).detach().requires_grad_(
                    self.peer.backward)
        return together

    def unpacked(self, gradients):
        """In the order of tensors()."""
        alone = {}
        for name, gradient in gradients.items():
            if name.endswith("_qkv"):
                alone.update(zip((f"{name[0]}_{part}" for part in "qkv"),
                                 gradient.split(self.columns)))
            else:
                alone[name] = gradient
        return [alone[name] for name in self.inputs + self.parameters if name in alone]

    # ---- computing -------------------------------------------------------------------------------

    def project(self, tensors):
        """Q, k and v as (batch, heads, seq, dim)."""
        problem, linear = self.problem, self.torch.nn.functional.linear
        if "w_qkv" in tensors:
            parts = linear(tensors["x"], tensors["w_qkv"], tensors.get("b_qkv")).split(
                self.columns, dim=2)
        else:
            context = tensors.get("context", tensors["x"])
            parts = [linear(values, tensors[f"w_{name}"], tensors.get(f"b_{name}"))
                     for name, values in (("q", tensors["x"]), ("k", context),
                                          ("v", tensors.get("values", context)))]
        return [part.unflatten(2, (heads, -1)).transpose(1, 2) for part, heads in zip(
            parts, (problem.heads, problem.kv_heads, problem.kv_heads))]

    def layer(self, attend, tensors):
        o = attend(*self.project(tensors)).transpose(1, 2).flatten(2)
        return self.torch.nn.functional.linear(o, tensors["w_o"], tensors.get("b_o"))

    def ways(self, tensors):
        together = [True, False] if self.problem.source == "self" else [False]
        ways = self.ways_to_attend.list(*self.project(tensors[0]))
        prepare = self.gradients if self.peer.backward else self.forward
        return [("autograd of " * self.peer.backward + ", ".join(filter(None, (
            "one product for q, k, v" * pack, name))),
                 functools.partial(prepare, pack, make), last_resort)
                for name, make, last_resort in ways for pack in together]

    def arranged(self, pack, make, tensors):
        chosen = self.packed(tensors) if pack else tensors
        return make(*self.project(chosen)), chosen

    def forward(self, pack, make, tensors):
        attend, chosen = self.arranged(pack, make, tensors[0])
        return lambda: self.layer(attend, chosen)

    def gradients(self, pack, make, tensors):
        """Backward alone: what forward leaves is kept, so that it can be used again."""
        attend, chosen = self.arranged(pack, make, tensors[0])
        grad, leaves, dy = self.torch.autograd.grad, list(chosen.values()), tensors[1]
        y = self.layer(attend, chosen)
        if not self.problem.is_forward_right(y.detach().float().cpu().numpy()):
            raise Refusal("its result is wrong")
        return lambda: self.unpacked(dict(zip(chosen, grad(y, leaves, dy, retain_graph=True))))

    def results(self, results):
        return results if self.peer.backward else [results]
