# SPDX-License-Identifier: Apache-2.0
"""Projections and multi-head layers with their tensors, as README.md describes them, in NumPy."""
import functools

import numpy as np
from peer_problem import Attention, Problem, check_shapes, near, widened
from peer_refusal import need
from peer_sequences import Sequences, is_of_sequences


class Projection:
    """y = x w + bias as one product; x is (rows, inner), w (inner, columns)."""

    def __init__(self, fields, tensors):
        self.operation, self.dtype = need(fields, "operation", str), need(fields, "dtype", str)
        batch, heads, kv_heads, seq, dim, dim_v = (need(fields, name, int) for name in (
            "batch", "heads", "kv_heads", "seq_q", "dim_qk", "dim_v"))
        check_shapes(tensors, {"x": (batch, kv_heads, seq, dim), "w": (kv_heads, dim, heads, dim_v),
                               **({"bias": (heads, dim_v)} if fields["bias"] else {})})
        self.split = (batch, seq, heads, dim_v)  # A row of y has heads side by side.
        self.x = np.ascontiguousarray(tensors["x"].transpose(0, 2, 1, 3)).reshape(batch * seq, -1)
        self.w = tensors["w"].reshape(kv_heads * dim, heads * dim_v)
        self.bias = tensors["bias"].reshape(-1) if fields["bias"] else None

    def is_right(self, y):
        """Whether three rows of y (batch, heads, seq, dim_v), as float32, are near the formula."""
        rows = y.transpose(0, 2, 1, 3).reshape(len(self.x), -1)
        bias = 0 if self.bias is None else widened(self.bias)
        return all(near(rows[n], widened(self.x[n]).astype("f8") @ widened(self.w) + bias)
                   for n in (0, len(rows) // 2, len(rows) - 1))


class Layer(Attention):
    """Its weights are (columns of the product, columns of what is multiplied): out, in.

    x, context, values  (batch, seq, columns); the latter two are those before where there is none
    weights, biases     Of q, k, v and y; biases are None where there are none
    dy                  Of backward, the gradient to start from
    """

    def __init__(self, fields, tensors):
        super().__init__(fields, tensors)
        self.source = need(fields, "source", str)
        model, context_model, values_model, output = (need(fields, name, int) for name in (
            "model", "context_model", "values_model", "output"))
        q, o = (self.heads * dim for dim in (self.dim_qk, self.dim_v))
        k, v = (self.kv_heads * dim for dim in (self.dim_qk, self.dim_v))
        wanted = {"x": (self.batch, self.seq_q, model), "w_q": (q, model),
                  "w_k": (k, context_model), "w_v": (v, values_model), "w_o": (output, o)}
        if self.source != "self":
            wanted["context"] = (self.batch, self.seq_kv, context_model)
        if self.source == "separate":
            wanted["values"] = (self.batch, self.seq_kv, values_model)
        if fields["biases"]:
            wanted.update(b_q=(q,), b_k=(k,), b_v=(v,))
        if fields["output_bias"]:
            wanted["b_o"] = (output,)
        if self.operation == "layer bwd":
            wanted["dy"] = (self.batch, self.seq_q, output)
        check_shapes(tensors, wanted)
        self.x, self.dy = tensors["x"], tensors.get("dy")
        self.context = tensors.get("context", self.x)
        self.values = tensors.get("values", self.context)
        self.weights_of = {name: tensors[f"w_{name}"] for name in "qkvo"}
        self.biases_of = {name: tensors.get(f"b_{name}") for name in "qkvo"}

    def project(self, name, rows):
        """In single precision."""
        bias = self.biases_of[name]
        return widened(rows) @ widened(self.weights_of[name]).T + (
            0 if bias is None else widened(bias))

    def row(self, b, i, k, v):
        """One row of y by the formulas in clattn/multihead.h and clattn/problem.h."""
        q = self.project("q", self.x[b, i]).reshape(self.heads, -1)
        o = []
        for h in range(self.heads):
            weights, seen, _ = self.weights(q[h], k[:, h // self.group], b, h, i)
            o.append(weights @ v[seen, h // self.group])
        return self.project("o", np.concatenate(o).astype("f4"))

    @functools.cached_property
    def some_rows(self):
        """Places in y and what belongs there; of the first batch and the last."""
        rows = []
        for b, places in ((0, (0, self.seq_q - 1)), (self.batch - 1, (self.seq_q // 2,))):
            k, v = (self.project(name, values[b]).reshape(self.seq_kv, self.kv_heads, -1)
                    for name, values in (("k", self.context), ("v", self.values)))
            rows += [(b, i, self.row(b, i, k, v)) for i in places]
        return rows

    def is_forward_right(self, y):
        """Whether these rows of y, as float32, are near the formula."""
        return all(near(y[b, i], row) for b, i, row in self.some_rows)

    def is_right(self, result):
        """Of y; or of the gradient of x, where y has been found right."""
        if self.operation == "layer bwd":
            return np.isfinite(result).all()
        return self.is_forward_right(result)


def attention(fields, tensors):
    return (Sequences if is_of_sequences(fields) else Problem)(fields, tensors)


KINDS = {"fwd": attention, "bwd": attention, "proj": Projection, "layer fwd": Layer,
         "layer bwd": Layer}


def read_problem(fields, tensors):
    return KINDS[need(fields, "operation", str)](fields, tensors)
