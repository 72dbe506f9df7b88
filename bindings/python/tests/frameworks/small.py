# SPDX-License-Identifier: Apache-2.0
"""python small.py: what a call costs where problems are small, as doc/guide/pytorch.md says it: the least CPU time of calls of PyTorch's
function and of clattn's that take turns, one thread each (POCL_MAX_PTHREAD_COUNT=1 OMP_NUM_THREADS=1)."""
import os
import time

os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import clattn
import clattn.torch
import torch
import torch.nn.functional as F

SHAPES = [  # name, heads, kv_heads, queries, keys, dim
    ("4 heads, 8 x 8, dim 16", 4, 4, 8, 8, 16), *((f"12 heads, {n} x {n}, dim 64", 12, 12, n, n, 64) for n in (16, 32, 64, 128, 256)),
    *((f"32 heads over 8, 1 x {n}, dim 128", 32, 8, 1, n, 128) for n in (16, 64, 256, 1024, 4096))]
TURNS = 30


def least(ways):
    """Microseconds of each, the least of turns of some 5 ms."""
    begin = time.process_time()
    ways[0]()
    count = max(1, int(0.005 / max(time.process_time() - begin, 1e-6)))
    found = [float("inf")] * len(ways)
    for _ in range(TURNS):
        for n, way in enumerate(ways):
            begin = time.process_time()
            for _ in range(count):
                way()
            found[n] = min(found[n], (time.process_time() - begin) / count * 1e6)
    return found


def main():
    torch.manual_seed(0)
    facts = clattn.default_context().device
    print(f"{facts.name.decode()}, {facts.platform_name.decode()} {facts.driver_version.decode()}; PyTorch {torch.__version__}")
    print("| | dtype | PyTorch us | clattn us | ratio |\n|---|---|--:|--:|--:|")
    for name, heads, kv_heads, queries, keys, dim in SHAPES:
        for dtype in (torch.float32, torch.bfloat16):
            q = torch.randn(1, heads, queries, dim).to(dtype)
            k, v = (torch.randn(1, kv_heads, keys, dim).to(dtype) for _ in range(2))
            ways = [lambda function=function: function(q, k, v, enable_gqa=heads != kv_heads)
                    for function in (F.scaled_dot_product_attention, clattn.torch.scaled_dot_product_attention)]
            for way in ways:
                way()
            theirs, ours = least(ways)
            print(f"| {name} | {str(dtype)[6:]} | {theirs:.0f} | {ours:.0f} | {theirs / ours:.2f} |", flush=True)


if __name__ == "__main__":
    main()
