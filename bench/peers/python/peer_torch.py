# SPDX-License-Identifier: Apache-2.0
"""PyTorch as a peer: its device, its tensors and its clock."""
import ctypes
import functools
import os
import sys

import numpy as np
from peer_functions import Functions
from peer_refusal import Refusal, need, package
from peer_sequences import Sequences
from peer_torch_attention import DTYPES, TorchAttention, Ways
from peer_torch_chosen import ChosenWays
from peer_torch_layer import TorchLayer, TorchProjection
from peer_torch_sequences import LengthWays, SequenceWays
from peer_ways import CLOCK, Peer


class Torch(Peer):
    """What is computed, `work`, is known by its operation."""
    name, packages = "PyTorch", "torch"
    method = ("scaled_dot_product_attention, flex_attention or matmul and softmax: the fastest; "
              "linear or addmm")
    operations = ["fwd", "bwd", "proj", "layer fwd", "layer bwd"]
    options = ["mask_keys", "blocks", "caches", "o_f32", "pages", "packed", "functions", "topk"]

    def __init__(self, threads, device_type, device_name):
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # No workers beside.
        self.torch = package("torch", self.packages)
        self.version = str(self.torch.__version__)
        self.device = self.gpu(device_name) if device_type == "gpu" else "cpu"
        self.on = "cpu" if self.device == "cpu" else "device"
        self.torch.set_num_threads(threads)
        super().__init__()

    def gpu(self, name):
        for i in range(self.torch.cuda.device_count()):
            properties = self.torch.cuda.get_device_properties(i)
            if name in (properties.name, getattr(properties, "gcnArchName", "").split(":")[0]):
                return f"cuda:{i}"
        raise Refusal(f"This PyTorch ({self.version}) sees no GPU called '{name}'; a build for "
                      "it is installed with: pip install torch")

    def close(self):
        super().close()
        self.work, self.alone, self.backward = None, None, False
        if "torch._dynamo" in sys.modules:
            sys.modules["torch._dynamo"].reset()
        if self.device != "cpu":
            self.torch.cuda.empty_cache()

    def on_device(self, values):
        if values is None:
            return None
        torch = self.torch
        if values.dtype == np.uint16:
            return torch.tensor(values.view(np.int16)).view(torch.bfloat16).to(self.device)
        return torch.tensor(values).to(self.device)

    def take(self, fields, tensors):
        super().take(fields, tensors)
        operation = self.problem.operation
        self.backward = operation.endswith("bwd")
        if operation != "proj":
            self.o_dtype = getattr(self.torch, DTYPES[self.problem.o_dtype])
        if fields.get("score_function") or fields.get("mask_function"):
            self.problem.functions = Functions(self, fields, tensors)
        ways = SequenceWays if isinstance(self.problem, Sequences) else Ways
        if fields.get("topk"):
            ways = ChosenWays
        if operation == "fwd" and ways is Ways and fields["kv_lengths"]:
            ways, self.alone = LengthWays, Sequences(fields, tensors)
        attention = functools.partial(TorchAttention, ways=ways)
        self.work = {"proj": TorchProjection, "layer fwd": TorchLayer,
                     "layer bwd": TorchLayer}.get(operation, attention)(self)

    def tensors(self):
        return self.work.tensors()

    def ways(self, tensors):
        return self.work.ways(tensors)

    def memory(self):
        if self.device != "cpu":
            return self.torch.cuda.mem_get_info(self.device)[1]
        if hasattr(os, "sysconf"):
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        status = (ctypes.c_uint64 * 8)(64)  # Windows' MEMORYSTATUSEX: its size; after it, what is installed
        ctypes.windll.kernel32.GlobalMemoryStatusEx(status)
        return status[1]

    def mode(self):
        return self.torch.inference_mode(not self.backward)

    def open(self, request):
        self.backward = need(need(request, "fields", dict), "operation", str).endswith("bwd")
        with self.mode():
            return super().open(request)

    def finish(self):
        if self.device != "cpu":
            self.torch.cuda.synchronize(self.device)

    def sample(self, busy):
        with self.mode():
            return super().sample(busy) if self.device == "cpu" else self.sample_on_gpu(busy)

    def sample_on_gpu(self, busy):
        executions = min(max(int(busy / self.seconds), 1), 200)
        marks = [self.torch.cuda.Event(enable_timing=True) for _ in range(executions + 1)]
        start = CLOCK()
        marks[0].record()
        for mark in marks[1:]:
            self.next()()
            mark.record()
        host = (CLOCK() - start) / executions
        self.finish()
        return [a.elapsed_time(b) / 1e3 for a, b in zip(marks, marks[1:])], host

    def result(self):
        with self.mode():
            return super().result()

    def raw(self, results):
        return np.concatenate([t.detach().contiguous().view(self.torch.uint8).cpu().numpy().ravel()
                               for t in self.work.results(results)])

    def to_numpy(self, results):
        """The first of them."""
        return self.work.results(results)[0].detach().float().cpu().numpy()
