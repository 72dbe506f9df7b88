# SPDX-License-Identifier: Apache-2.0
"""python figures.py [ROW...]: the tables of doc/guide/pytorch.md, PyTorch's attention beside clattn's, in one process; all rows, or those
that begin with a word given, "training" for the step of a model.

The two take turns; a row is the median of the pairs' ratios and of each one's times. PyTorch computes with as
many threads as the device has units.
"""
import os
import statistics
import sys
import time

os.environ.setdefault("POCL_AFFINITY", "1")  # else PoCL may run several of its threads on one core
os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # else PyTorch's threads keep a core for milliseconds after each operation
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import clattn
import clattn.torch
import torch
import torch.nn.functional as F

PAIRS = int(os.environ.get("CLATTN_PAIRS", "9"))
SHAPES = [  # name, batch, heads, kv_heads, queries, keys, dim, causal
    ("bert-base 512", 1, 12, 12, 512, 512, 64, False),
    ("gpt2 1024", 1, 12, 12, 1024, 1024, 64, True),
    ("llama3-8b 512", 1, 32, 8, 512, 512, 128, True),
    ("vit-b16, 8 images", 8, 12, 12, 197, 197, 64, False),
    ("sd15 4096", 2, 8, 8, 4096, 4096, 40, False),
]


def pairs(theirs, ours, count):
    """Median times and the median of the ratios, after one call of each that is not counted."""
    times = ([], [])
    for turn in range(count + 1):
        for n in (0, 1) if turn % 2 else (1, 0):
            begin = time.perf_counter()
            (theirs, ours)[n]()
            times[n].append(time.perf_counter() - begin)
    theirs, ours = (t[1:] for t in times)
    return statistics.median(theirs), statistics.median(ours), statistics.median(a / b for a, b in zip(theirs, ours))


def row(name, kind, result):
    print(f"{name:20} {kind:24} {result[0] * 1e3:10.2f} {result[1] * 1e3:10.2f} {result[2]:8.2f}", flush=True)


def asked_for(name):
    return not sys.argv[1:] or any(name.startswith(word) for word in sys.argv[1:])


def attention_rows():
    for name, batch, heads, kv_heads, queries, keys, dim, causal in filter(lambda shape: asked_for(shape[0]), SHAPES):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            q, k, v = (torch.randn(batch, n, h, dim).to(dtype).transpose(1, 2).requires_grad_()
                       for n, h in ((queries, heads), (keys, kv_heads), (keys, kv_heads)))
            options = dict(is_causal=causal, enable_gqa=heads != kv_heads)

            def forward(function):
                with torch.no_grad():
                    function(q, k, v, **options)

            def both(function):
                torch.autograd.grad(function(q, k, v, **options).sum(), (q, k, v))

            ways = F.scaled_dot_product_attention, clattn.torch.scaled_dot_product_attention
            for kind, run in (("forward", forward), ("forward and backward", both)):
                row(name, f"{kind}, {str(dtype)[6:]}", pairs(lambda: run(ways[0]), lambda: run(ways[1]), PAIRS))


def share_of_attention(step):
    """Of the time that the operators of a step take, that of PyTorch's attention."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        step()
    events = profiled.key_averages()
    attention = sum(event.cpu_time_total for event in events if event.key.startswith("aten::_scaled_dot_product"))
    return attention / sum(event.self_cpu_time_total for event in events)


def training_row():
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_layer=12, n_embd=768, n_head=12, n_positions=1024, vocab_size=2048, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, 2048, (1, 1024))

    def step():
        optimizer.zero_grad()
        model(tokens, labels=tokens).loss.backward()
        optimizer.step()

    def patched():
        with clattn.torch.patch():
            step()

    step()
    share = share_of_attention(step)
    result = pairs(step, patched, max(3, PAIRS // 3))
    row("12 x 768, 1024 tokens", "a step of training", result)
    print(f"attention, forward and backward, is {100 * share:.0f} % of PyTorch's step: with attention in no time at all the "
          f"ratio were {1 / (1 - share):.2f}")


def main():
    torch.manual_seed(0)
    context = clattn.default_context()
    torch.set_num_threads(context.device.compute_units)
    print(f"{context.device.name.decode()}, {context.device.platform_name.decode()} {context.device.driver_version.decode()}; "
          f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{'':20} {'':24} {'PyTorch ms':>10} {'clattn ms':>10} {'ratio':>8}")
    attention_rows()
    if asked_for("training"):
        training_row()


if __name__ == "__main__":
    main()
