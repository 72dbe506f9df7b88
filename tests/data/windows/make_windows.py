"""Writes ONNX's own cases of Attention 25 with windows as safetensors: pip install onnx==1.23.2"""

import json
import struct
import sys

import numpy as np
from onnx.backend.test.case.node import attention

NAMES = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
ANSWERS = ("Y", "present_key", "present_value", "qk_matmul_output")
DTYPES = {"float32": "F32", "float16": "F16", "bool": "BOOL", "int64": "I64"}


def write(node, inputs, outputs, name, opset_imports, **_):
    tensors = dict(zip((n for n, given in zip(NAMES, node.input) if given), inputs))
    tensors.update(zip((n for n, given in zip(ANSWERS, node.output) if given), outputs))
    header = {
        "__metadata__": {
            "name": name,
            "op": node.op_type,
            "opset": str(opset_imports[0].version),
            "license": "Apache-2.0",
            **{a.name: str(a.f if a.type == 1 else a.i) for a in node.attribute},
        }
    }
    data = b""
    for key, value in tensors.items():
        raw = np.ascontiguousarray(value).tobytes()
        header[key] = {
            "dtype": DTYPES[str(value.dtype)],
            "shape": list(value.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(name + ".safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


attention.expect = write
for case in sys.argv[1:]:
    np.random.seed(0)
    getattr(attention.Attention, "export_attention_" + case)()
