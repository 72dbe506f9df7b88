#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch and ONNX Runtime as peers of clattn-bench: the protocol is in README.md.

Needs NumPy and the library itself, for ONNX Runtime also the package onnx, which makes its models.
"""
import argparse
import gc
import importlib
import json
import os
import statistics

from peer_refusal import Refusal, first_line, is_unsupported, need, package

REQUESTS, ANSWERS = 3, 4
LIBRARIES = {  # Module and class here, packages to install.
    "torch": ("peer_torch", "Torch", "torch"),
    "onnxruntime": ("peer_onnxruntime", "OnnxRuntime", "onnxruntime onnx"),
}


def parse(line):
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"The request is no JSON: {first_line(error)}.") from error


def stream(number, mode, **text):
    """A stream of clattn-bench's; Windows gives a program none but the standard streams, and a variable holds the handle."""
    handle = os.environ.get(f"CLATTN_STREAM_{number}")
    if os.name == "nt" and handle:
        import msvcrt
        number = msvcrt.open_osfhandle(int(handle), os.O_RDONLY if mode == "rb" else 0)
    return os.fdopen(number, mode, **text)


class Conversation:
    """One peer, once it has been greeted."""

    def __init__(self, library):
        self.library, self.peer = library, None

    def answer(self, line):
        """Of whatever a request is made of; an answer in any case."""
        try:
            request = parse(line)
            if not isinstance(request, dict):
                raise Refusal("A request is a JSON object.")
            answers = {"hello": self.hello, "open": self.open, "sample": self.sample,
                       "result": self.result, "close": self.close}
            do = request.get("do")
            if not isinstance(do, str) or do not in answers:
                raise Refusal(f"There is no request '{first_line(do)}'.")
            if do != "hello" and not self.peer:
                raise Refusal("The first request is 'hello'.")
            if do in ("sample", "result") and not self.peer.problem:
                raise Refusal(f"'{do}' needs an open problem.")
            return {"ok": True, **answers[do](request)}
        except KeyError as error:
            return {"ok": False, "why": f"The request or its data lack {first_line(error)}."}
        except Exception as error:  # A library may raise anything; the process lives on.
            refused = {"unsupported": True} if is_unsupported(error) else {}
            return {"ok": False, "why": first_line(error), **refused}

    def hello(self, request):
        module, kind, install = self.library
        package("numpy", f"numpy {install}")
        self.peer = getattr(importlib.import_module(module), kind)(
            max(1, need(request, "threads", int)), request.get("device_type", "cpu"),
            request.get("device_name", ""))
        return {key: getattr(self.peer, key)
                for key in ("name", "version", "on", "method", "operations", "options")}

    def open(self, request):
        try:
            return self.peer.open(request)
        except Exception:
            self.peer.close()
            raise

    def sample(self, request):
        busy = need(request, "busy", (int, float))
        gc.collect()
        gc.disable()
        try:
            seconds, host = self.peer.sample(busy)
        finally:
            gc.enable()
        return {"seconds": statistics.median(seconds), "executions": len(seconds),
                "host_seconds": host}

    def result(self, request):
        self.peer.result().tofile(need(request, "path", str))
        return {}

    def close(self, _):
        self.peer.close()
        return {}


def main():
    parser = argparse.ArgumentParser(
        description="Computes attention with a Python library when clattn-bench asks for it.")
    parser.add_argument("library", choices=LIBRARIES)
    conversation = Conversation(LIBRARIES[parser.parse_args().library])
    try:
        requests, answers = stream(REQUESTS, "rb"), stream(ANSWERS, "w", buffering=1, newline="\n")
    except OSError:
        parser.error("requests come on file descriptor 3 and answers go to 4: see README.md")
    for line in requests:
        print(json.dumps(conversation.answer(line)), file=answers, flush=True)


if __name__ == "__main__":
    main()
