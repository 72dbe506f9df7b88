#!/usr/bin/env python3
"""Checks the results of bench/peers/peers.py against NumPy in double precision.

    python3 tests/peers/check_peers.py [--every-way] [--seed N] [--count N] [LIBRARY...]

Needs what the peers need (pip install numpy torch onnxruntime onnx), so it is run by hand, with a
Python that has them. Each problem is seeded, passed to a peer as clattn-bench does it, and its
whole result compared. Prints what each peer computed by which way, what it refused, and ends with
1 if a result was wrong. With --every-way not only the fastest way is checked; where a library
compiles, that takes some seconds for each problem.
"""
import argparse
import collections
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy as np

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/peers/peers.py")
STORED = {"float32": "F32", "float16": "F16", "uint16": "BF16", "bool": "BOOL", "int32": "I32"}
TOLERANCE = {"f32": 2e-5, "f16": 8e-3, "bf16": 5e-2}  # Of values within +-2, and of scores +-20.
FAR_TOLERANCE = 4  # Times so many with ALiBi, whose scores reach 64: libraries add it in f16.
BUSY = 0.005


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


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": STORED[values.dtype.name], "shape": values.shape,
                        "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for values in tensors.values():
            file.write(values.tobytes())


def random_problem(number, seed):
    """Fields; the first numbers make sure that every option is there alone, in every dtype."""
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


def random_tensors(fields, seed):
    """As stored, and as float64."""
    dice = np.random.default_rng(seed)
    batch, heads, seq_q, seq_kv = (fields[n] for n in ("batch", "heads", "seq_q", "seq_kv"))
    shapes = {"q": (batch, heads, seq_q, fields["dim_qk"]),
              "k": (batch, fields["kv_heads"], seq_kv, fields["dim_qk"]),
              "v": (batch, fields["kv_heads"], seq_kv, fields["dim_v"])}
    stored, exact = {}, {}
    for name, shape in shapes.items():
        stored[name], exact[name] = rounded(dice.uniform(-2, 2, shape), fields["dtype"])
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
    return stored, {**stored, **exact}


def reference(fields, t):
    """clattn/problem.h's formula, a loop over batches and heads."""
    o = np.zeros((fields["batch"], fields["heads"], fields["seq_q"], fields["dim_v"]))
    i, j = np.arange(fields["seq_q"])[:, None], np.arange(fields["seq_kv"])[None]
    for b in range(fields["batch"]):
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
        for h in range(fields["heads"]):
            kv = h // (fields["heads"] // fields["kv_heads"])
            s = fields["scale"] * t["q"][b, h] @ t["k"][b, kv].T
            if fields["softcap"]:
                s = fields["softcap"] * np.tanh(s / fields["softcap"])
            if fields["bias"]:
                s = s + t["bias"][b % len(t["bias"]), h % t["bias"].shape[1]]
            if fields["alibi"]:
                s = s + float(t["slopes"][h]) * (j - i - diagonal)
            visible = seen
            if fields["mask"]:
                visible = seen & t["mask"][b % len(t["mask"]), h % t["mask"].shape[1]]
            s = np.where(visible, s, -np.inf)
            rows = np.isfinite(s).any(axis=1)
            sink = float(t["sinks"][h]) if fields["sinks"] else -np.inf
            top = np.maximum(s[rows].max(axis=1, keepdims=True), sink)
            p = np.exp(s[rows] - top)
            o[b, h, rows] = p @ t["v"][b, kv] / (p.sum(axis=1, keepdims=True) + np.exp(sink - top))
    return o


def tolerated(fields):
    far = fields["alibi"] and fields["dtype"] != "f32"
    return TOLERANCE[fields["dtype"]] * (FAR_TOLERANCE if far else 1)


class Peer:
    """The process, as clattn-bench talks to it."""

    def __init__(self, library):
        asks, self.requests = os.pipe()
        self.answers, tells = os.pipe()

        def arrange():  # Numbers above 4 first: the pipes may have 3 and 4 themselves.
            high = os.dup2(asks, 63), os.dup2(tells, 64)
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)
        self.process = subprocess.Popen([sys.executable, SCRIPT, library], preexec_fn=arrange,
                                        close_fds=False, stderr=subprocess.DEVNULL)
        os.close(asks)
        os.close(tells)
        self.lines = os.fdopen(self.answers)

    def ask(self, **request):
        os.write(self.requests, json.dumps(request).encode() + b"\n")
        line = self.lines.readline()
        if not line:
            sys.exit(f"The peer died with {self.process.wait()} on {request}")
        return json.loads(line)

    def end(self):
        os.close(self.requests)
        return self.process.wait(timeout=30)


def check(peer, fields, stored, exact, folder):
    """How the result was computed, and its error as a share of what is tolerated; or a refusal."""
    data, result = (os.path.join(folder, name) for name in ("data", "result"))
    write_safetensors(data, stored)
    opened = peer.ask(do="open", problem="", fields=fields, data=data, copies=2)
    if not opened["ok"]:
        return opened, None
    sample = peer.ask(do="sample", busy=BUSY)
    if not (sample["ok"] and sample["seconds"] > 0 and sample["executions"] > 0
            and opened["first_seconds"] > 0):
        return {"ok": False, "why": f"a sample of {sample}"}, None
    answer = peer.ask(do="result", path=result)
    if not answer["ok"]:
        return answer, None
    got = np.fromfile(result, {"f32": "f4", "f16": "f2", "bf16": "u2"}[fields["dtype"]])
    got = wide(got) if fields["dtype"] == "bf16" else got.astype("f8")
    want = reference(fields, exact)
    error = np.abs(got.reshape(want.shape) - want).max()
    return opened, error / tolerated(fields)


def check_library(library, seed, count, folder):
    peer, tally, wrong = Peer(library), collections.Counter(), 0
    hello = peer.ask(do="hello", device="0", device_type="cpu", device_name="", threads=2)
    if not hello["ok"]:
        sys.exit(hello["why"])
    print(f"{hello['name']} {hello['version']}: {hello['method']}", flush=True)
    worst = 0.0
    for number in range(count):
        fields = random_problem(number, seed)
        answer, error = check(peer, fields, *random_tensors(fields, seed + number), folder)
        if error is None and answer.get("unsupported"):
            tally["unsupported: " + answer["why"]] += 1
        elif error is None or not error <= 1:
            wrong += 1
            options = {name: value for name, value in fields.items() if value not in (False, -1)}
            print(f"  WRONG {number}: {error} {answer} {options}", flush=True)
        else:
            worst = max(worst, error)
            tally[answer["configuration"]] += 1
    for what, times in tally.most_common():
        print(f"  {times:3}  {what}")
    print(f"  {wrong} of {count} wrong; the worst other error is {worst:.2f} of what is tolerated",
          flush=True)
    return wrong + (peer.end() != 0)


def check_every_way(library, seed, count):
    """In this process, by the peer's own classes."""
    sys.path.insert(0, os.path.dirname(SCRIPT))
    peers, problems, refusal = (importlib.import_module(name)
                                for name in ("peers", "peer_problem", "peer_refusal"))
    module, kind, _ = peers.LIBRARIES[library]
    peer = getattr(importlib.import_module(module), kind)(2, "cpu", "")
    print(f"{peer.name} {peer.version}, every way", flush=True)
    tally, wrong = collections.Counter(), 0
    for number in range(count):
        fields = random_problem(number, seed)
        stored, exact = random_tensors(fields, seed + number)
        peer.close()
        peer.problem = problems.Problem(fields, stored)
        tensors = peer.tensors()
        try:
            ways = peer.ways(tensors)
        except refusal.Unsupported as error:
            tally[f"unsupported: {error}"] += 1
            continue
        for name, prepare, _ in ways:
            try:
                compute = prepare(tensors)
                got = peer.to_numpy(compute()).astype("f8")
            except Exception as error:  # The peer takes another way then.
                tally[f"{name} refuses: {refusal.first_line(error)[:60]}"] += 1
                continue
            error = np.abs(got - reference(fields, exact)).max() / tolerated(fields)
            tally[name] += 1
            if not error <= 1:
                wrong += 1
                print(f"  WRONG {number}: {error} {name} {fields}", flush=True)
    for what, times in tally.most_common():
        print(f"  {times:3}  {what}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY",
                        default=["torch", "onnxruntime"])
    parser.add_argument("--every-way", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=120)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wrong = sum(check_every_way(library, chosen.seed, chosen.count) if chosen.every_way
                    else check_library(library, chosen.seed, chosen.count, folder)
                    for library in chosen.libraries)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
