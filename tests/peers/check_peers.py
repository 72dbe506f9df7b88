#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the results of bench/peers/python/peers.py against NumPy in double precision.

    python3 tests/peers/check_peers.py [--every-way] [--seed N] [--count N] [--operations A,B]
                                       [LIBRARY...]

Needs what the peers need (pip install numpy torch onnxruntime onnx), so it is run by hand, with a
Python that has them. Each problem is seeded, passed to a peer as clattn-bench does it, and its
whole results compared. Prints what each peer computed by which way, what it refused, and ends with
1 if a result was wrong. With --every-way not only the fastest way is checked; where a library
compiles, that takes some seconds for each problem.
"""
import argparse
import collections
import importlib
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from peer_cases import OPERATIONS, random_problem, random_tensors, rounded, wide
from peer_reference import attend, reference

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/peers/python/peers.py")
STORED = {"float32": "F32", "float16": "F16", "uint16": "BF16", "bool": "BOOL", "int32": "I32"}
TOLERANCE = {"f32": 2e-5, "f16": 8e-3, "bf16": 5e-2}  # Of values within +-2, and of scores +-20.
LAYER_TOLERANCE = 4  # Times so many: errors of one product go through others.
FAR_TOLERANCE = 4  # Times so many with ALiBi, whose scores reach 64: libraries add it in f16.
BUSY = 0.005


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


def tolerated(fields, want):
    """Errors of gradients and of layers grow with what they are made of."""
    tolerance = TOLERANCE[fields["dtype"]]
    if fields["operation"] != "fwd":
        tolerance *= max(1, np.abs(want).max())
    if fields["operation"].startswith("layer"):
        tolerance *= LAYER_TOLERANCE
    if fields.get("alibi") and fields["dtype"] != "f32":
        tolerance *= FAR_TOLERANCE
    return tolerance


def complete(fields, stored, exact):
    """With what forward came to, where it is backward."""
    if fields["operation"] == "bwd":
        o, lse = attend(fields, exact, *(exact[name] for name in "qkv"))
        stored = {**stored, "o": rounded(o, fields["dtype"])[0], "lse": lse.astype("f4")}
    return stored


def compare(fields, raw, exact):
    """The worst error of the results, one after the other, as a share of what is tolerated."""
    got = raw.view({"f32": "f4", "f16": "f2", "bf16": "u2"}[fields["dtype"]])
    got = wide(got) if fields["dtype"] == "bf16" else got.astype("f8")
    wants, worst, at = reference(fields, exact), 0.0, 0
    if got.size != sum(want.size for want in wants):
        return np.nan
    for want in wants:
        error = np.abs(got[at:at + want.size].reshape(want.shape) - want).max()
        worst = np.fmax(worst, error / tolerated(fields, want)) if error == error else np.inf
        at += want.size
    return worst


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
    write_safetensors(data, complete(fields, stored, exact))
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
    return opened, compare(fields, np.fromfile(result, "u1"), exact)


def check_library(library, operations, seed, count, folder):
    peer, wrong = Peer(library), 0
    hello = peer.ask(do="hello", device="0", device_type="cpu", device_name="", threads=2)
    if not hello["ok"]:
        sys.exit(hello["why"])
    print(f"{hello['name']} {hello['version']}: {hello['method']}", flush=True)
    for operation in operations:
        if operation in hello["operations"]:
            wrong += check_operation(peer, operation, seed, count, folder)
    return wrong + (peer.end() != 0)


def check_operation(peer, operation, seed, count, folder):
    tally, wrong, worst = collections.Counter(), 0, 0.0
    for number in range(count):
        fields = random_problem(operation, number, seed)
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
    print(f"  {operation}: {wrong} of {count} wrong; the worst other error is {worst:.2f} of what "
          "is tolerated", flush=True)
    return wrong


def check_every_way(library, operations, seed, count):
    """In this process, by the peer's own classes."""
    sys.path.insert(0, os.path.dirname(SCRIPT))
    peers, refusal = (importlib.import_module(name) for name in ("peers", "peer_refusal"))
    module, kind, _ = peers.LIBRARIES[library]
    peer = getattr(importlib.import_module(module), kind)(2, "cpu", "")
    print(f"{peer.name} {peer.version}, every way", flush=True)
    tally, wrong = collections.Counter(), 0
    for operation in operations:
        for number in range(count) if operation in peer.operations else ():
            fields = random_problem(operation, number, seed)
            stored, exact = random_tensors(fields, seed + number)
            peer.close()
            peer.take(fields, complete(fields, stored, exact))
            tensors = peer.tensors()
            try:
                ways = peer.ways(tensors)
            except refusal.Unsupported as error:
                tally[f"unsupported: {error}"] += 1
                continue
            for name, prepare, _ in ways:
                try:
                    raw = peer.raw(prepare(tensors)())
                except Exception as error:  # The peer takes another way then.
                    tally[f"{name} refuses: {refusal.first_line(error)[:60]}"] += 1
                    continue
                error = compare(fields, np.ascontiguousarray(raw).ravel().view("u1"), exact)
                tally[f"{operation}: {name}"] += 1
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
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    chosen = parser.parse_args()
    operations = chosen.operations.split(",")
    with tempfile.TemporaryDirectory() as folder:
        wrong = sum(check_every_way(library, operations, chosen.seed, chosen.count)
                    if chosen.every_way
                    else check_library(library, operations, chosen.seed, chosen.count, folder)
                    for library in chosen.libraries)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
