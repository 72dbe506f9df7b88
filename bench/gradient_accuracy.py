# SPDX-License-Identifier: Apache-2.0
"""python gradient_accuracy.py: how far gradients are from those of double precision for the same inputs, as a share of
the gradient's largest element: the figures of clattn/problem.h ("What gradients cannot promise") and doc/guide/training.md.
Needs NumPy, ml_dtypes for bfloat16, and the package clattn."""
import numpy as np

import clattn

try:
    import ml_dtypes
    BF16 = ml_dtypes.bfloat16
except ImportError:
    BF16 = None
DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": BF16}


def exact(q, k, v, d_o, bias):
    """In double precision; a bias that rounds scores in f32 does so here."""
    q, k, v, d_o = (x.astype(np.float64) for x in (q, k, v, d_o))
    scale = 1 / np.sqrt(q.shape[-1])
    s = scale * q @ k.swapaxes(-1, -2)
    if bias is not None:
        s = (s + bias.astype(np.float64)).astype(np.float32).astype(np.float64)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    ds = p * (d_o @ v.swapaxes(-1, -2) - (d_o * (p @ v)).sum(-1, keepdims=True))
    return {"dq": scale * ds @ k, "dk": scale * ds.swapaxes(-1, -2) @ q, "dv": p.swapaxes(-1, -2) @ d_o}


def by_clattn(dtype, words, q, k, v, d_o, bias):
    heads, rows, dim = q.shape
    wide = np.float32 if "odtype=f32" in words else DTYPES[dtype]
    text = f"{dtype} h{heads} q{rows} d{dim} {words}" + (" bias=f32:qk" if bias is not None else "")
    given = {"q": q[None], "k": k[None], "v": v[None], "o": np.empty((1, *v.shape), wide),
             "lse": np.empty((1, heads, rows), np.float32)}
    if bias is not None:
        given["bias"] = bias
    clattn.Plan("fwd " + text + " lse").execute(**given)
    got = {name: np.empty((1, *q.shape), wide) for name in ("dq", "dk", "dv")}
    clattn.Plan("bwd " + text).execute(**given, d_o=d_o[None], **got)
    return {name: x[0] for name, x in got.items()}


def errors(dtype, words, tensors, bias=None):
    want = exact(*tensors, bias)
    got = by_clattn(dtype, words, *tensors, bias)
    off = {name: np.abs(got[name].astype(np.float64) - x).max() / np.abs(x).max() for name, x in want.items()}
    return max(off["dq"], off["dk"]), off["dv"]


def draw(dtype, heads, rows, dim, large=1.0, mean=0.0):
    r = np.random.default_rng(1)
    x = [r.normal(size=(heads, rows, dim)) for _ in range(4)]
    return [y.astype(DTYPES[dtype]) for y in (x[0] * large, x[1] * large, x[2] + mean, x[3])]


def line(name, errors_of):
    print(f"{name:34s}" + "".join(f" {a:8.1e} {b:8.1e} |" for a, b in errors_of))


def main():
    kinds = [("f32", ""), ("f16", ""), ("bf16", ""), ("f16", "strict odtype=f32"), ("bf16", "strict odtype=f32")]
    kinds = [(dtype, words) for dtype, words in kinds if DTYPES[dtype]]
    print("dq and dk, dv. h2 q128 d64, v around a mean of 0, 1, 4, 16")
    for dtype, words in kinds:
        line(f"{dtype} {words}", [errors(dtype, words, draw(dtype, 2, 128, 64, mean=mean)) for mean in (0, 1, 4, 16)])
    print("h1 q73 d16, q and k times 1, 3, 10, 30")
    line("f32", [errors("f32", "", draw("f32", 1, 73, 16, large)) for large in (1, 3, 10, 30)])
    print("h1 q64 d64 bias=f32:qk, every 16th row of it -1e3, -1e4, -1e6, -1e9, -1e30")
    for dtype, words in kinds[:3]:
        found = []
        for value in (-1e3, -1e4, -1e6, -1e9, -1e30):
            bias = np.zeros((64, 64), np.float32)
            bias[::16] = value
            found.append(errors(dtype, words, draw(dtype, 1, 64, 64), bias))
        line(f"{dtype} {words}", found)


if __name__ == "__main__":
    main()
