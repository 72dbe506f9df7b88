#!/usr/bin/env python3
"""Makes attention_*.safetensors and layer_*.safetensors: what PyTorch computes in double precision.

    python3 -m venv venv
    venv/bin/pip install torch numpy
    venv/bin/python make_cases.py

Inputs are seeded random numbers that f32 holds exactly; results are computed from
those very numbers in float64. The cases are listed at the end of this file; README.md says what a
file holds.

Attention: `formula` is the definition of clattn/problem.h in float64, its gradients are PyTorch's
autograd. Where torch.nn.functional.scaled_dot_product_attention can compute the case, its results
are the ones stored, and the formula must agree with them to 1e-12. It lacks softcap, sinks and
lengths; windows and ALiBi are given to it as masks.

Layers: torch.nn.MultiheadAttention. Its boolean attn_mask and key_padding_mask are True where a key
is hidden; the stored `mask` is clattn's, 1 where a key is visible.
"""
import argparse
import json
import math
import pathlib
import platform
import struct
import zlib

import torch

F64 = torch.float64
NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.uint8: "U8",
}


def write_safetensors(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, values in tensors.items():
        raw = values.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {
            "dtype": NAMES[values.dtype],
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts on a multiple of 8 bytes
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def seeded(name):
    """A generator of its own for each case, so that adding one changes no other."""
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def normal(generator, *shape):
    """Random numbers that f32 holds exactly, as float64 leaves of the graph."""
    return torch.randn(*shape, generator=generator).to(F64).requires_grad_()


def agree(name, got, want):
    worst = (got - want).abs().max().item() if got.numel() else 0.0
    assert got.shape == want.shape and worst <= 1e-12, f"{name}: {worst}"


# ---- attention -----------------------------------------------------------------------------------


class Problem:
    """What the words of clattn's text form say, for the words that the cases below use."""

    def __init__(self, text):
        words = text.split()[1:]  # all are f32
        self.batch, self.heads, self.causal, self.window = 1, 1, None, (None, None)
        self.diagonal, self.scale, self.softcap, self.bias, self.mask = None, None, 0.0, None, None
        self.layouts = dict.fromkeys("qkvo", "bhsd")
        self.flags = set()
        self.seq_kv = None
        for word in words:
            key, _, value = word.partition("=")
            if key in ("alibi", "sinks", "qlen", "klen"):
                self.flags.add(key)
            elif key in self.layouts:
                self.layouts[key] = value
            elif key in ("causal", "diagonal"):
                self.causal = key == "causal"
                self.diagonal = value
            elif key == "window":
                self.window = tuple(None if s == "*" else int(s) for s in value.split(","))
            elif key in ("scale", "softcap"):
                setattr(self, key, float(value))
            elif key == "bias":
                assert value.startswith("f32:")
                self.bias = value[4:]
            elif key == "mask":
                self.mask = value
            else:
                self.set_size(word)
        self.kv_heads = getattr(self, "kv_heads", self.heads)
        self.seq_kv = self.seq_q if self.seq_kv is None else self.seq_kv
        self.scale = 1.0 / math.sqrt(self.dim_qk) if self.scale is None else self.scale

    def set_size(self, word):
        first, *second = (int(n) for n in word[1:].split("/"))
        if word[0] == "h":
            self.heads, self.kv_heads = first, (second or [first])[0]
        elif word[0] == "d":
            self.dim_qk, self.dim_v = first, (second or [first])[0]
        else:
            setattr(self, {"b": "batch", "q": "seq_q", "k": "seq_kv"}[word[0]], first)

    def broadcast_shape(self, axes):
        """Of a bias or mask that spans the given ones of bhqk."""
        sizes = (self.batch, self.heads, self.seq_q, self.seq_kv)
        return [n if axis in axes else 1 for axis, n in zip("bhqk", sizes)]


def seeing(p, tensors):
    """(visible, distance): booleans and j - i - diagonal, (batch, 1 or heads, seq_q, seq_kv)."""
    i = torch.arange(p.seq_q).view(1, 1, -1, 1)
    j = torch.arange(p.seq_kv).view(1, 1, 1, -1)
    queries = tensors.get("q_lengths", torch.full((p.batch,), p.seq_q)).view(-1, 1, 1, 1)
    keys = tensors.get("kv_lengths", torch.full((p.batch,), p.seq_kv)).view(-1, 1, 1, 1)
    queries, keys = queries.clamp(0, p.seq_q), keys.clamp(0, p.seq_kv)
    diagonal = {None: 0, "tl": 0, "br": keys - queries}.get(p.diagonal)
    distance = j - i - (int(p.diagonal) if diagonal is None else diagonal)
    visible = (i < queries) & (j < keys)
    if p.causal:
        visible = visible & (distance <= 0)
    left, right = p.window
    if left is not None:
        visible = visible & (distance >= -left)
    if right is not None:
        visible = visible & (distance <= right)
    if p.mask is not None:
        visible = visible & (tensors["mask"] != 0)
    return visible.expand(p.batch, p.heads, p.seq_q, p.seq_kv), distance


def formula(p, t):
    """(o, lse) by the definition in clattn/problem.h."""
    group = p.heads // p.kv_heads
    k, v = (t[name].repeat_interleave(group, dim=1) for name in "kv")
    visible, distance = seeing(p, t)
    s = p.scale * (t["q"] @ k.transpose(-1, -2))
    if p.softcap:
        s = p.softcap * torch.tanh(s / p.softcap)
    if p.bias is not None:
        s = s + t["bias"]
    if "alibi" in p.flags:
        s = s + t["slopes"].view(1, -1, 1, 1) * distance
    s = torch.where(visible, s, -math.inf)
    m = s.detach().amax(-1, keepdim=True)
    nothing = m == -math.inf
    if "sinks" in p.flags:
        m = torch.maximum(m, t["sinks"].detach().view(1, -1, 1, 1))
    m = torch.where(nothing, 0.0, m)
    e = torch.exp(s - m)
    total = e.sum(-1, keepdim=True)
    if "sinks" in p.flags:
        total = total + torch.exp(t["sinks"].view(1, -1, 1, 1) - m)
    o = e @ v / torch.where(nothing, 1.0, total)
    lse = torch.where(nothing, -math.inf, m + torch.log(total))
    return o, lse.squeeze(-1)


def sdpa(p, t):
    """The same by PyTorch's own function, or None where it cannot."""
    if p.softcap or p.flags - {"alibi"}:
        return None
    visible, distance = seeing(p, t)
    arguments = {"scale": p.scale, "enable_gqa": p.heads != p.kv_heads}
    hides = p.causal or p.window != (None, None) or p.mask is not None
    if p.bias is not None or "alibi" in p.flags:
        bias = t["bias"] if p.bias is not None else torch.zeros((), dtype=F64)
        if "alibi" in p.flags:
            bias = bias + t["slopes"].view(1, -1, 1, 1) * distance
        arguments["attn_mask"] = torch.where(visible, bias, -math.inf)
    elif p.causal and p.diagonal == "tl" and p.mask is None and p.window == (None, None):
        arguments["is_causal"] = True  # PyTorch's diagonal is the top left one: j <= i
    elif hides:
        arguments["attn_mask"] = visible
    return torch.nn.functional.scaled_dot_product_attention(t["q"], t["k"], t["v"], **arguments)


def gradients(output, upstream, leaves):
    return dict(zip(leaves, torch.autograd.grad(output, leaves.values(), upstream)))


def attention_inputs(name, p, hidden_rows):
    g = seeded(name)
    t = {
        "q": normal(g, p.batch, p.heads, p.seq_q, p.dim_qk),
        "k": normal(g, p.batch, p.kv_heads, p.seq_kv, p.dim_qk),
        "v": normal(g, p.batch, p.kv_heads, p.seq_kv, p.dim_v),
        "do": normal(g, p.batch, p.heads, p.seq_q, p.dim_v),
    }
    if p.bias is not None:
        bias = normal(g, *p.broadcast_shape(p.bias)).detach()
        if hidden_rows is not None:  # a bias of -inf masks
            bias[torch.rand(bias.shape, generator=g) < 0.25] = -math.inf
            bias[..., hidden_rows, :] = -math.inf
        t["bias"] = bias.requires_grad_()
    elif p.mask is not None:
        t["mask"] = (torch.rand(p.broadcast_shape(p.mask), generator=g) < 0.7).to(torch.uint8)
        t["mask"][..., hidden_rows or [], :] = 0
    if "alibi" in p.flags:  # the slopes of the ALiBi paper
        slopes = [2.0 ** (-8.0 * (h + 1) / p.heads) for h in range(p.heads)]
        t["slopes"] = torch.tensor(slopes).to(F64).requires_grad_()
    if "sinks" in p.flags:
        t["sinks"] = normal(g, p.heads)
    for flag, tensor, most in (("qlen", "q_lengths", p.seq_q), ("klen", "kv_lengths", p.seq_kv)):
        if flag in p.flags:  # from none to all
            t[tensor] = torch.linspace(most, 0, p.batch).to(torch.int32)
    return t


def attention(out, metadata, name, text, hidden_rows=None):
    p = Problem(text)
    t = attention_inputs(name, p, hidden_rows)
    leaves = {n: t[n] for n in ("q", "k", "v", "bias", "slopes", "sinks") if n in t}
    o, lse = formula(p, t)
    d = gradients(o, t["do"], leaves)
    own = sdpa(p, t)
    if own is not None:
        d_own = gradients(own, t["do"], leaves)
        agree(name + " o", own, o)
        for leaf in leaves:
            agree(f"{name} d{leaf}", d_own[leaf], d[leaf])
        o, d = own, d_own

    stored = {n: x.detach().float() if x.dtype == F64 else x for n, x in t.items()}
    stored |= {"o": o, "lse": lse} | {"d" + n: x for n, x in d.items()}
    for n, layout in (*zip("qkvo", "qkvo"), ("do", "o")):
        stored[n] = stored[n].permute(*("bhsd".index(axis) for axis in p.layouts[layout]))
    with_gradient = [w for n, w in (("bias", "dbias"), ("slopes", "dslopes"), ("sinks", "dsinks"))
                     if n in t]
    do_layout = [f"do={p.layouts['o']}"] if p.layouts["o"] != "bhsd" else []
    metadata = metadata | {
        "name": name,
        "forward": f"fwd {text} lse",
        "backward": " ".join(["bwd", text, *do_layout, *with_gradient]),
        "computed_by": "formula" if own is None else "scaled_dot_product_attention",
    }
    order = sorted(stored, key=lambda n: -stored[n].element_size())  # each where its type may lie
    stored = {n: stored[n] for n in order}
    write_safetensors(out / f"attention_{name}.safetensors", stored, metadata)


# ---- layers --------------------------------------------------------------------------------------


def layer_masks(g, sizes, mask, lengths):
    """(words of the text form, arguments of MultiheadAttention, tensors to store)."""
    batch, heads, seq_q, seq_kv = sizes
    words, arguments, stored = [], {}, {}
    if mask == "causal":
        words = ["causal=tl"]
        arguments["attn_mask"] = torch.ones(seq_q, seq_kv, dtype=torch.bool).triu(1)
    elif mask in ("qk", "bhqk"):
        words = ["mask=" + mask]
        shape = sizes if mask == "bhqk" else (1, 1, seq_q, seq_kv)
        hidden = torch.rand(shape, generator=g) < 0.3
        hidden[..., 0] = False  # PyTorch makes NaN of a query that sees no key
        hidden_pairs = hidden.reshape(-1, seq_q, seq_kv)  # of rank 3: (batch * heads, ...)
        arguments["attn_mask"] = hidden_pairs if mask == "bhqk" else hidden_pairs[0]
        stored["mask"] = (~hidden).to(torch.uint8)
    elif mask == "bk":
        words = ["mask=bk"]
        hidden = torch.rand((batch, seq_kv), generator=g) < 0.4
        hidden[:, 0] = False
        arguments["key_padding_mask"] = hidden
        stored["mask"] = (~hidden).to(torch.uint8).view(batch, 1, 1, seq_kv)
    elif mask == "float":
        words = ["bias=f32:qk"]
        arguments["attn_mask"] = stored["bias"] = normal(g, seq_q, seq_kv)
    if lengths:
        words.append("klen")
        stored["kv_lengths"] = torch.tensor(lengths, dtype=torch.int32)
        hidden = torch.arange(seq_kv).view(1, -1) >= stored["kv_lengths"].view(-1, 1)
        arguments["key_padding_mask"] = hidden
    return words, arguments, stored


def layer_module(g, model, heads, bias, seq_first, key_width, value_width):
    m = torch.nn.MultiheadAttention(model, heads, bias=bias, batch_first=not seq_first, dtype=F64,
                                    kdim=key_width, vdim=value_width)
    with torch.no_grad():
        for parameter in m.parameters():
            spread = 0.5 if parameter.dim() == 1 else parameter.shape[1] ** -0.5
            drawn = torch.randn(parameter.shape, generator=g, dtype=F64)
            parameter.copy_((spread * drawn).float().double())
    return m


def layer(out, metadata, name, model, heads, batch, seq_q, cross=None, bias=True, mask=None,
          lengths=None, weights=None, seq_first=False):
    """cross: None or (seq_kv, columns of the context, columns of the values if they are others)."""
    g = seeded(name)
    seq_kv, key_width, *separate = cross or (seq_q, model)
    value_width = (separate or [key_width])[0]
    m = layer_module(g, model, heads, bias, seq_first, key_width, value_width)

    def rows(seq, width):
        return normal(g, *((seq, batch) if seq_first else (batch, seq)), width)

    leaves = {"x": rows(seq_q, model)}
    if cross:
        leaves["context"] = rows(seq_kv, key_width)
    if separate:
        leaves["values"] = rows(seq_kv, value_width)
    key = leaves.get("context", leaves["x"])
    dy = rows(seq_q, model)
    words, arguments, stored = layer_masks(g, (batch, heads, seq_q, seq_kv), mask, lengths)
    y, p = m(leaves["x"], key, leaves.get("values", key), need_weights=weights is not None,
             average_attn_weights=weights == "mean", **arguments)
    assert torch.isfinite(y).all()
    leaves |= dict(m.named_parameters())
    packed = "in_proj_weight" in leaves
    d = gradients(y, dy, leaves | ({"bias": stored["bias"]} if "bias" in stored else {}))

    stored = {n: x.detach().float() if x.dtype == F64 else x for n, x in stored.items()}
    stored |= {n: x.detach().float() for n, x in (leaves | {"dy": dy}).items()}
    stored |= {"y": y} | {"d_" + n: x for n, x in d.items()}
    if weights:
        stored["weights"] = p
    sizes = [f"b{batch} h{heads} q{seq_q} k{seq_kv} d{model // heads}"]
    own = [f"model={model}"]
    if cross:
        own.append(f"separate={key_width},{value_width}" if separate else f"cross={key_width}")
    own += ["packed"] * packed + ["biases obias"] * bias + ["seqfirst"] * seq_first + ["training"]
    metadata = metadata | {
        "name": name,
        "forward": " ".join(["layer fwd f32", *sizes, *words, *own]
                            + [f"weights={weights}"] * (weights is not None)),
        "backward": " ".join(["layer bwd f32", *sizes, *words, *["dbias"] * ("bias" in d), *own]),
        "computed_by": "torch.nn.MultiheadAttention",
    }
    order = sorted(stored, key=lambda n: -stored[n].element_size())
    write_safetensors(out / f"layer_{name}.safetensors", {n: stored[n] for n in order}, metadata)


# ---- the cases -----------------------------------------------------------------------------------

# All are f32. Many share dimensions and options on purpose: the tests compile a program once for
# all of those. A list after the text is of queries that see no key.
ATTENTION = [
    ("plain", "f32 b2 h2 q9 d8"),
    ("cross", "f32 b2 h2 q5 k15 d8"),
    ("one_query", "f32 b2 h2 q1 k16 d8"),
    ("one_key", "f32 b2 h2 q11 k1 d8"),
    ("one_of_each", "f32 h2 q1 k1 d8"),
    ("scale", "f32 b2 h2 q9 k12 d8 scale=1.25"),
    ("scale_negative", "f32 h2 q9 k12 d8 scale=-0.5"),
    ("gqa", "f32 b2 h4/2 q7 k10 d8"),
    ("mqa", "f32 b2 h5/1 q6 k9 d8"),
    ("layouts", "f32 b2 h4/2 q7 k10 d8 q=bshd k=bshd v=sbhd o=bshd"),
    ("causal", "f32 b2 h2 q11 d8 causal=tl"),
    ("causal_more_keys", "f32 b2 h2 q6 k14 d8 causal=tl"),
    ("causal_more_queries", "f32 b2 h2 q14 k6 d8 causal=tl"),
    ("causal_bottom_right", "f32 b2 h2 q6 k14 d8 causal=br"),
    ("causal_bottom_right_hidden_rows", "f32 b2 h2 q14 k6 d8 causal=br"),
    ("causal_cache", "f32 b2 h4/2 q5 k16 d8 causal=11"),
    ("causal_blocks", "f32 h2/1 q53 k75 d8 causal=br"),
    ("mask_qk", "f32 b2 h2 q7 k9 d24/7 mask=qk", []),
    ("mask_bk", "f32 b3 h1 q6 k8 d24/7 mask=bk", []),
    ("mask_hq", "f32 h3 q9 k7 d24/7 mask=hq", []),
    ("mask_all", "f32 b2 h4/2 q7 k9 d24/7 mask=bhqk", []),
    ("mask_hidden_rows", "f32 b2 h2 q9 k7 d24/7 mask=qk", [0, 4, 8]),
    ("bias_qk", "f32 b2 h2 q9 k12 d8 bias=f32:qk"),
    ("bias_all", "f32 b2 h2 q9 k12 d8 bias=f32:bhqk"),
    ("bias_heads", "f32 b2 h3 q7 k9 d8 bias=f32:hqk"),
    ("bias_keys", "f32 b2 h2 q9 k12 d8 bias=f32:bk"),
    ("bias_queries", "f32 b2 h2 q9 k12 d8 bias=f32:hq"),
    ("bias_one_value", "f32 b2 h2 q9 k12 d8 bias=f32:0.0.0.0"),
    ("bias_infinite", "f32 b2 h2 q9 k12 d8 bias=f32:qk", [2, 3]),
    ("dim_1_softcap_bias", "f32 b2 h3 q9 k16 d1 softcap=2.5 bias=f32:bhqk"),
    ("dim_3_alibi", "f32 b2 h4 q9 k12 d3 causal=br alibi"),
    ("dim_17_sinks_window", "f32 h4/2 q14 k16 d17 diagonal=br window=5,3 sinks"),
    ("dim_33_lengths", "f32 b3 h1 q8 k13 d33 qlen klen"),
    ("dim_80_causal", "f32 h1 q12 d80 causal=tl"),
    ("dim_5_12_bias_alibi", "f32 b2 h2 q9 k12 d5/12 bias=f32:hqk alibi"),
    ("everything", "f32 b3 h4/2 q12 k16 d8 softcap=4 causal=br window=9,* bias=f32:hqk alibi sinks "
     "qlen klen"),
]

LAYERS = [
    ("self", dict(model=18, heads=3, batch=2, seq_q=7)),
    ("self_one_head", dict(model=6, heads=1, batch=1, seq_q=6)),
    ("self_one_token", dict(model=15, heads=3, batch=3, seq_q=1)),
    ("self_no_bias", dict(model=18, heads=3, batch=2, seq_q=7, bias=False)),
    ("self_odd", dict(model=15, heads=3, batch=3, seq_q=11)),
    ("self_seq_first", dict(model=15, heads=3, batch=3, seq_q=7, seq_first=True)),
    ("self_causal", dict(model=18, heads=3, batch=2, seq_q=9, mask="causal")),
    ("self_mask", dict(model=18, heads=3, batch=2, seq_q=9, mask="qk")),
    ("self_mask_all", dict(model=18, heads=3, batch=2, seq_q=7, mask="bhqk", bias=False)),
    ("self_padding", dict(model=18, heads=3, batch=3, seq_q=8, mask="bk")),
    ("self_lengths", dict(model=18, heads=3, batch=3, seq_q=8, lengths=[8, 5, 1])),
    ("self_lengths_causal",
     dict(model=18, heads=3, batch=2, seq_q=9, mask="causal", lengths=[9, 4])),
    ("self_float_mask", dict(model=18, heads=3, batch=2, seq_q=7, mask="float")),
    ("self_weights_mean", dict(model=18, heads=3, batch=2, seq_q=7, weights="mean")),
    ("self_weights_causal",
     dict(model=18, heads=3, batch=2, seq_q=9, mask="causal", weights="heads")),
    ("cross", dict(model=18, heads=3, batch=2, seq_q=5, cross=(12, 18))),
    ("cross_context", dict(model=18, heads=3, batch=2, seq_q=5, cross=(12, 10))),
    ("cross_context_no_bias",
     dict(model=15, heads=3, batch=2, seq_q=9, cross=(4, 33), bias=False)),
    ("cross_separate", dict(model=18, heads=3, batch=2, seq_q=6, cross=(11, 10, 7))),
    ("cross_lengths", dict(model=18, heads=3, batch=3, seq_q=5, cross=(12, 10), lengths=[12, 7, 3],
                           weights="heads")),
    ("cross_mask_mean",
     dict(model=18, heads=3, batch=2, seq_q=6, cross=(9, 18), mask="bhqk", weights="mean")),
    ("cross_one_query", dict(model=18, heads=3, batch=2, seq_q=1, cross=(9, 10))),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    out = parser.parse_args().out

    torch.set_num_threads(1)  # sums in one order
    metadata = {
        "torch": torch.__version__.split("+")[0],
        "python": platform.python_version(),
        "license": "that of clattn",
    }
    for name, text, *hidden_rows in ATTENTION:
        attention(out, metadata, name, text, *hidden_rows)
    for name, sizes in LAYERS:
        layer(out, metadata, name, **sizes)
    print(f"{len(ATTENTION)} attention cases, {len(LAYERS)} layers; {metadata}")


if __name__ == "__main__":
    main()
