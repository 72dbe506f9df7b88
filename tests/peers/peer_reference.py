# SPDX-License-Identifier: Apache-2.0
"""The formulas of clattn/problem.h and clattn/multihead.h in NumPy, in double precision."""
import numpy as np


def visible_keys(fields, t, b, h):
    """Booleans (queries, keys), and the distance behind the diagonal."""
    i, j = np.arange(fields["seq_q"])[:, None], np.arange(fields["seq_kv"])[None]
    queries = t["q_lengths"][b] if fields["q_lengths"] else fields["seq_q"]
    keys = t["kv_lengths"][b] if fields["kv_lengths"] else fields["seq_kv"]
    diagonal = {"tl": 0, "br": int(keys) - int(queries)}.get(
        fields["diagonal"], fields["diagonal"])
    seen = (j < keys) & (i < queries)
    if fields["causal"]:
        seen &= j <= i + diagonal
    if fields["window_left"] >= 0:
        seen &= j >= i + diagonal - fields["window_left"]
    if fields["window_right"] >= 0:
        seen &= j <= i + diagonal + fields["window_right"]
    if fields["mask"]:
        seen = seen & t["mask"][b % len(t["mask"]), h % t["mask"].shape[1]]
    return seen, j - i - diagonal


def weigh(fields, t, b, h, q, k):
    """Of one head: the weights, the derivative of softcap, the sums' logarithms."""
    s = fields["scale"] * q @ k.T
    slope = np.ones_like(s)
    if fields["softcap"]:
        tanh = np.tanh(s / fields["softcap"])
        s, slope = fields["softcap"] * tanh, 1 - tanh * tanh
    seen, distance = visible_keys(fields, t, b, h)
    if fields["bias"]:
        s = s + t["bias"][b % len(t["bias"]), h % t["bias"].shape[1]]
    if fields["alibi"]:
        s = s + float(t["slopes"][h]) * distance
    s = np.where(seen, s, -np.inf)
    rows = np.isfinite(s).any(axis=1)
    sink = float(t["sinks"][h]) if fields["sinks"] else -np.inf
    top = np.maximum(s[rows].max(axis=1, keepdims=True, initial=-np.inf), sink)
    p, lse = np.zeros_like(s), np.full(len(s), -np.inf)
    exps = np.exp(s[rows] - top)
    sums = exps.sum(axis=1, keepdims=True) + np.exp(sink - top)
    p[rows], lse[rows] = exps / sums, (top + np.log(sums))[:, 0]
    return p, slope, lse


def attend(fields, t, q, k, v):
    """O and lse, (batch, heads, seq_q, ...)."""
    o, lse = np.zeros(q.shape[:3] + v.shape[3:]), np.zeros(q.shape[:3])
    for b, h in np.ndindex(*q.shape[:2]):
        kv = h // (fields["heads"] // fields["kv_heads"])
        p, _, lse[b, h] = weigh(fields, t, b, h, q[b, h], k[b, kv])
        o[b, h] = p @ v[b, kv]
    return o, lse


def derive(fields, t, q, k, v, do):
    """dq, dk and dv."""
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for b, h in np.ndindex(*q.shape[:2]):
        kv = h // (fields["heads"] // fields["kv_heads"])
        p, slope, _ = weigh(fields, t, b, h, q[b, h], k[b, kv])
        dp = do[b, h] @ v[b, kv].T
        ds = p * (dp - (p * dp).sum(axis=1, keepdims=True)) * slope * fields["scale"]
        dq[b, h] = ds @ k[b, kv]
        dk[b, kv] += ds.T @ q[b, h]
        dv[b, kv] += p.T @ do[b, h]
    return dq, dk, dv


def split(rows, heads):
    """(batch, seq, heads * dim) as (batch, heads, seq, dim)."""
    return rows.reshape(*rows.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def merge(heads):
    return heads.transpose(0, 2, 1, 3).reshape(heads.shape[0], heads.shape[2], -1)


def layer(fields, t):
    """Y, or the gradients of inputs, weights and biases."""
    x = t["x"]
    context = t.get("context", x)
    inputs = {"q": x, "k": context, "v": t.get("values", context)}
    q, k, v = (split(inputs[n] @ t["w_" + n].T + t.get("b_" + n, 0),
                     fields["heads" if n == "q" else "kv_heads"]) for n in "qkv")
    o = merge(attend(fields, t, q, k, v)[0])
    if fields["operation"] == "layer fwd":
        return [o @ t["w_o"].T + t.get("b_o", 0)]
    inputs["o"], columns = o, {"o": t["dy"]}
    do = split(t["dy"] @ t["w_o"], fields["heads"])
    columns.update(zip("qkv", map(merge, derive(fields, t, q, k, v, do))))
    of_inputs = {}
    for n, name in (("q", "x"), ("k", "context"), ("v", "values")):
        while name not in t:
            name = {"values": "context", "context": "x"}[name]
        of_inputs[name] = of_inputs.get(name, 0) + columns[n] @ t["w_" + n]
    weights = [np.einsum("bsc,bsr->cr", columns[n], inputs[n]) for n in "qkvo"]
    biases = [columns[n].sum(axis=(0, 1)) for n in "qkvo" if "b_" + n in t]
    return [of_inputs[name] for name in ("x", "context", "values") if name in t] + weights + biases


def reference(fields, t):
    """All that a peer is asked for, in its order; t are the tensors as float64."""
    operation = fields["operation"]
    if operation == "proj":
        bias = t["bias"][None, :, None] if fields["bias"] else 0
        return [np.einsum("bhsd,hdgv->bgsv", t["x"], t["w"]) + bias]
    if operation.startswith("layer"):
        return layer(fields, t)
    qkv = [t[name] for name in "qkv"]
    return derive(fields, t, *qkv, t["do"]) if operation == "bwd" else [attend(fields, t, *qkv)[0]]
