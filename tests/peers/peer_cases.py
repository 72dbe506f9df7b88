# SPDX-License-Identifier: Apache-2.0
"""Seeded problems for check_peers.py: fields and tensors as clattn-bench sends them."""
import random

import numpy as np

OPERATIONS = ("fwd", "bwd", "proj", "layer fwd", "layer bwd")


def rounded(values, dtype):
    """As stored, and as a float64 of the same value."""
    if dtype != "bf16":
        stored = values.astype({"f32": "f4", "f16": "f2"}[dtype])
        return stored, stored.astype("f8")
    bits = values.astype("f4").view(np.uint32)
    words = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return words, wide(words)


def wide(words):
    return (words.astype(np.uint32) << 16).view(np.float32).astype("f8")


def random_problem(operation, number, seed):
    """Fields; the first numbers make sure that every option is there alone, in every dtype."""
    if operation == "proj":
        return random_projection(number, seed)
    fields = random_attention(number, seed)
    fields["operation"] = operation
    return random_layer(fields, number, seed) if operation.startswith("layer") else fields


def random_projection(number, seed):
    dice = random.Random(seed * 1000003 + number)
    return {"operation": "proj", "dtype": ("f32", "f16", "bf16")[number % 3],
            "batch": dice.choice([1, 2]), "heads": dice.choice([1, 3]),
            "kv_heads": dice.choice([1, 4]), "seq_q": dice.choice([1, 5, 33]), "seq_kv": 1,
            "dim_qk": dice.choice([1, 8, 40]), "dim_v": dice.choice([1, 24, 64]),
            "bias": dice.random() < 0.5}


def random_layer(fields, number, seed):
    """Around the attention."""
    dice = random.Random(seed * 1000003 + number + 1)
    source = dice.choice(["self", "cross", "separate"])
    if source == "self":
        fields["seq_kv"] = fields["seq_q"]
    model, context_model, values_model, output = (dice.choice([8, 24, 60]) for _ in range(4))
    context_model = model if source == "self" else context_model
    fields.update(source=source, model=model, context_model=context_model, output=output,
                  values_model=values_model if source == "separate" else context_model,
                  biases=dice.random() < 0.5, output_bias=dice.random() < 0.5)
    return fields


def random_attention(number, seed):
    dice = random.Random(seed * 1000003 + number)
    single = ("none causal br offset window_left window_right windows softcap bias mask alibi "
              "sinks q_lengths kv_lengths gqa mla prompt decode decode_window decode_softcap "
              "decode_sinks").split()
    only = single[number // 3] if number < 3 * len(single) else None

    def has(name, odds=0.25):
        return only == name if only else dice.random() < odds

    kv_heads = dice.choice([1, 2, 3])
    fields = {
        "dtype": ("f32", "f16", "bf16")[number % 3], "batch": dice.choice([1, 2]),
        "heads": kv_heads * (dice.choice([2, 3, 4]) if has("gqa", 0.5) else 1),
        "kv_heads": kv_heads, "seq_q": dice.choice([1, 5, 16, 33]),
        "seq_kv": dice.choice([1, 7, 32, 50, 130]), "dim_qk": dice.choice([8, 16, 40, 64]),
        "scale": dice.choice([0.1, 0.125, 0.3]), "softcap": 5.0 if has("softcap") else 0.0,
        "causal": has("causal") or has("br"), "diagonal": "tl",
        "window_left": -1, "window_right": -1, "bias": has("bias"), "mask": has("mask"),
        "alibi": has("alibi"), "sinks": has("sinks"), "q_lengths": has("q_lengths"),
        "kv_lengths": has("kv_lengths")}
    if has("br", 0.5):
        fields["diagonal"] = "br"
    elif has("offset"):
        fields.update(causal=True, diagonal=dice.choice([-3, 4, 17]))
    if has("window_left") or has("windows"):
        fields["window_left"] = dice.choice([0, 3, 20])
    if has("window_right") or has("windows"):
        fields["window_right"] = dice.choice([0, 3, 20])
    if only.startswith("decode") if only else has("decode", 0.2):
        fields.update(seq_q=1, causal=True, diagonal="br", seq_kv=dice.choice([32, 130]))
        if has("decode_window"):
            fields.update(window_left=3)
        if only == "decode_softcap":
            fields.update(softcap=5.0)
        if only == "decode_sinks":
            fields.update(sinks=True)
    if has("prompt", 0.1):
        fields.update(seq_kv=fields["seq_q"], causal=True, diagonal="br")
    fields["dim_v"] = dice.choice([8, 24, 32]) if has("mla") else fields["dim_qk"]
    return fields


def option_tensors(fields, dice):
    """Of attention's options."""
    stored, exact = {}, {}
    batch, heads, seq_q, seq_kv = (fields[n] for n in ("batch", "heads", "seq_q", "seq_kv"))
    broadcast = [(n if dice.random() < 0.5 else 1) for n in (batch, heads)]
    if fields["bias"]:
        values = dice.uniform(-2, 2, (*broadcast, seq_q, seq_kv))
        values[dice.random(values.shape) < 0.1] = -np.inf
        stored["bias"], exact["bias"] = rounded(values, dice.choice(["f32", fields["dtype"]]))
    if fields["mask"]:
        rows = seq_q if dice.random() < 0.7 else 1
        stored["mask"] = dice.random((*broadcast, rows, seq_kv)) < 0.75
    for name, wanted in (("slopes", "alibi"), ("sinks", "sinks")):
        if fields[wanted]:
            stored[name] = dice.uniform(-0.5, 0.5, heads).astype("f4")
    for name, most in (("q_lengths", seq_q), ("kv_lengths", seq_kv)):
        if fields[name]:
            stored[name] = dice.integers(0, most + 1, batch).astype(np.int32)
    return stored, exact


def layer_shapes(fields):
    """And how large the values are: such that q, k, v and y are like x."""
    q, o = (fields["heads"] * fields[dim] for dim in ("dim_qk", "dim_v"))
    k, v = (fields["kv_heads"] * fields[dim] for dim in ("dim_qk", "dim_v"))
    batch, seq_q, seq_kv = (fields[n] for n in ("batch", "seq_q", "seq_kv"))
    shapes = {"x": (batch, seq_q, fields["model"])}
    if fields["source"] != "self":
        shapes["context"] = (batch, seq_kv, fields["context_model"])
    if fields["source"] == "separate":
        shapes["values"] = (batch, seq_kv, fields["values_model"])
    shapes.update(w_q=(q, fields["model"]), w_k=(k, fields["context_model"]),
                  w_v=(v, fields["values_model"]), w_o=(fields["output"], o))
    if fields["biases"]:
        shapes.update(b_q=(q,), b_k=(k,), b_v=(v,))
    if fields["output_bias"]:
        shapes["b_o"] = (fields["output"],)
    if fields["operation"] == "layer bwd":
        shapes["dy"] = (batch, seq_q, fields["output"])
    return {name: (shape, (3 / shape[1]) ** 0.5 if name[:2] == "w_" else 2)
            for name, shape in shapes.items()}


def tensor_shapes(fields):
    operation = fields["operation"]
    if operation.startswith("layer"):
        return layer_shapes(fields)
    batch, heads, kv_heads, seq_q, seq_kv, dim_qk, dim_v = (fields[n] for n in (
        "batch", "heads", "kv_heads", "seq_q", "seq_kv", "dim_qk", "dim_v"))
    if operation == "proj":
        rows = kv_heads * dim_qk
        shapes = {"x": ((batch, kv_heads, seq_q, dim_qk), 2),
                  "w": ((kv_heads, dim_qk, heads, dim_v), (3 / rows) ** 0.5)}
        return {**shapes, **({"bias": ((heads, dim_v), 2)} if fields["bias"] else {})}
    shapes = {"q": ((batch, heads, seq_q, dim_qk), 2), "k": ((batch, kv_heads, seq_kv, dim_qk), 2),
              "v": ((batch, kv_heads, seq_kv, dim_v), 2)}
    return {**shapes, **({"do": ((batch, heads, seq_q, dim_v), 2)} if operation == "bwd" else {})}


def random_tensors(fields, seed):
    """As stored, and as float64; without backward's o and lse."""
    dice = np.random.default_rng(seed)
    stored, exact = {}, {}
    for name, (shape, size) in tensor_shapes(fields).items():
        stored[name], exact[name] = rounded(dice.uniform(-size, size, shape), fields["dtype"])
    if fields["operation"] != "proj":
        for to, some in zip((stored, exact), option_tensors(fields, dice)):
            to.update(some)
    return stored, {**stored, **exact}
