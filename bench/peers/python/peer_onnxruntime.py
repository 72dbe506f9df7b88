# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's attention."""
import functools

import numpy as np
from peer_problem import FAR
from peer_refusal import Refusal, Unsupported, package
from peer_ways import Peer


class OnnxRuntime(Peer):
    """A model of one node: Attention of ONNX, MultiHeadAttention or GroupQueryAttention."""
    options = ["mask_keys", "blocks"]
    name, packages = "ONNX Runtime", "onnxruntime onnx"
    method = "ONNX Attention, com.microsoft MultiHeadAttention or GroupQueryAttention: the fastest"

    def __init__(self, threads, device_type, device_name):
        self.library = package("onnxruntime", self.packages)
        self.onnx = package("onnx", self.packages)
        self.version = self.library.__version__
        self.library.set_default_logger_severity(4)
        providers = self.library.get_available_providers()
        gpu = device_type == "gpu"
        if gpu and not ("CUDAExecutionProvider" in providers and "nvidia" in device_name.lower()):
            raise Refusal(f"This ONNX Runtime has no provider for the GPU '{device_name}'; "
                          "one for CUDA is installed with: pip install onnxruntime-gpu onnx")
        self.device, self.on = ("cuda", "device") if gpu else ("cpu", "cpu")
        self.provider = "CUDAExecutionProvider" if gpu else "CPUExecutionProvider"
        self.session_options = self.library.SessionOptions()
        self.session_options.intra_op_num_threads = threads
        self.session_options.inter_op_num_threads = 1
        super().__init__()

    def tensors(self):
        return [np.array(getattr(self.problem, name)) for name in "qkv"]

    def ways(self, tensors):
        problem = self.problem
        if problem.dtype == "bf16":
            raise Unsupported("It has no attention in bf16 on the CPU." if self.device == "cpu"
                              else "NumPy, through which it gets its tensors, has no bf16.")
        square = problem.added is None and problem.band == (-FAR, 0) and (
            problem.seq_q == problem.seq_kv)
        plain = problem.softcap == 0 and problem.sinks is None
        ways = []

        def add(name, prepare, *arguments, last_resort=False):
            ways.append((name, functools.partial(prepare, *arguments), last_resort))

        if problem.sinks is None:
            add("Attention of opset 24", self.attention, 24, square)
            add("Attention of opset 23", self.attention, 23, square, last_resort=True)
        if plain and problem.group == 1 and problem.hidden_rows is None:
            add("MultiHeadAttention, (batch, seq, heads, dim)", self.multi_head, square)
        past = problem.seq_kv - problem.seq_q
        band = (-FAR, FAR) if problem.visible is None else problem.band
        last = past if band and (band[1] == FAR and problem.seq_q == 1) else band and band[1]
        if problem.added is None and last == past >= 0 and problem.dim_qk == problem.dim_v:
            add("GroupQueryAttention, cached keys", self.grouped, past, band[0])
        if not ways:
            raise Unsupported("None of its operators has sinks beside the other options.")
        return ways

    def full(self, mask):
        """With the two last dimensions in full, as the operators want it."""
        problem = self.problem
        return np.broadcast_to(mask, mask.shape[:2] + (problem.seq_q, problem.seq_kv))

    def attention(self, opset, square, tensors):
        problem = self.problem
        mask = None
        if not square and problem.added is not None:
            mask = problem.merged().astype(problem.q.dtype)
        elif not square and problem.visible is not None:
            mask = problem.boolean()
        inputs = tensors + ([] if mask is None else [self.full(mask)])
        return self.model("Attention", "", opset, inputs, problem.shape, is_causal=int(square),
                          scale=problem.scale, softcap=problem.softcap)

    def sequences(self, values):
        """(batch, heads, seq, dim) as (batch, seq, heads * dim)."""
        return values.transpose(0, 2, 1, 3).reshape(values.shape[0], values.shape[2], -1)

    def multi_head(self, square, tensors):
        problem = self.problem
        inputs = [self.sequences(values) for values in tensors]
        mask = None if square else problem.merged()
        if mask is not None:
            inputs += [None, None, self.full(mask).astype(problem.q.dtype)]
        return self.model("MultiHeadAttention", "com.microsoft", 17, inputs,
                          (problem.batch, problem.seq_q, problem.heads * problem.dim_v),
                          num_heads=problem.heads, scale=problem.scale, unidirectional=int(square))

    def grouped(self, past, low, tensors):
        """As in decoding: all keys but the new ones lie in a cache, to which the new are added."""
        problem = self.problem
        q, k, v = tensors
        lengths = np.full(problem.batch, problem.seq_kv - 1, np.int32)
        new = [self.sequences(values) for values in (q, k[:, :, past:], v[:, :, past:])]
        inputs = new + [k, v, lengths, np.array(problem.seq_kv, np.int32)]
        if problem.sinks is not None:
            inputs += [None, None, None, None, problem.sinks.astype(q.dtype)]
        window = past - low + 1 if low > -FAR else -1
        return self.model("GroupQueryAttention", "com.microsoft", 17, inputs,
                          (problem.batch, problem.seq_q, problem.heads * problem.dim_v),
                          updated=(3, 4), num_heads=problem.heads, kv_num_heads=problem.kv_heads,
                          scale=problem.scale, softcap=problem.softcap, local_window_size=window)

    def model(self, operator, domain, opset, inputs, shape, updated=(), **attributes):
        """A computation on tensors that are bound to it; updated: inputs that are outputs too."""
        helper, problem = self.onnx.helper, self.problem
        kind = helper.np_dtype_to_tensor_dtype(problem.q.dtype)
        outputs = {"o": (kind, shape)}
        outputs.update({f"new{i}": (kind, inputs[i].shape) for i in updated})
        nodes = [helper.make_node(
            operator, ["" if values is None else f"in{i}" for i, values in enumerate(inputs)],
            list(outputs), domain=domain, **attributes)]
        bound = {f"in{i}": values for i, values in enumerate(inputs) if values is not None}
        if problem.hidden_rows is not None:
            nodes[0].output[0] = "some"
            nodes.append(helper.make_node("Where", ["hidden", "zero", "some"], ["o"]))
            bound.update(hidden=problem.hidden_rows, zero=np.zeros(1, problem.q.dtype))
        graph = helper.make_graph(
            nodes, "attention",
            [helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(values.dtype), values.shape)
             for name, values in bound.items()],
            [helper.make_tensor_value_info(name, *what) for name, what in outputs.items()])
        model = helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)])
        session = self.library.InferenceSession(
            model.SerializeToString(), self.session_options, providers=[self.provider])
        binding = session.io_binding()
        on_device = functools.partial(self.library.OrtValue.ortvalue_from_numpy,
                                      device_type=self.device)
        values = {name: on_device(np.ascontiguousarray(at)) for name, at in bound.items()}
        values["o"] = on_device(np.empty(shape, problem.q.dtype))
        values.update({f"new{i}": values[f"in{i}"] for i in updated})
        for name in bound:
            binding.bind_ortvalue_input(name, values[name])
        for name in outputs:
            binding.bind_ortvalue_output(name, values[name])

        def compute():
            session.run_with_iobinding(binding)
            return values["o"]
        return compute

    def result(self):
        o = self.computations[0]()
        o.update_inplace(np.full(o.shape(), np.nan, self.problem.q.dtype))
        return super().result()

    def to_numpy(self, o):
        values = o.numpy()
        if values.ndim == 4:
            return values
        return values.reshape(values.shape[:2] + (self.problem.heads, -1)).transpose(0, 2, 1, 3)

    raw = to_numpy
