# SPDX-License-Identifier: Apache-2.0
"""Formats of caches have the bits of the packages that define them: PyTorch's floats of eight bits, and ggml's blocks by its
package gguf."""
import clattn
import numpy as np
import pytest
import torch

FLOATS = [("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)]
BLOCKS = ["q8_0", "q4_0", "q5_0", "iq4_nl", "q4_1", "q5_1"]


def read(cache, blocks, dim):
    """What attention reads in rows of a cache: each is the value of a query's only key."""
    rows = blocks.shape[0]
    q = np.ones((rows, 1, 1, dim), np.float32)
    return clattn.attention(q, q, blocks.reshape(rows, 1, 1, -1), cache=(None, cache)).reshape(rows, dim)


@pytest.mark.parametrize("cache, dtype", FLOATS)
def test_floats_of_8_bits_are_rounded_as_by_pytorch(cache, dtype):
    halves = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.float16).float()
    x = torch.cat([halves, torch.randn(4096) * torch.exp2(torch.randint(-20, 20, (4096,)))]).reshape(-1, 64)
    want = x.to(dtype).view(torch.uint8).numpy()
    np.testing.assert_array_equal(clattn.quantize_host(x.numpy(), cache), want)
    np.testing.assert_array_equal(clattn.quantize(x.numpy(), cache), want)


@pytest.mark.parametrize("cache, dtype", FLOATS)
def test_tensors_of_8_bits_are_taken_as_they_are(cache, dtype):
    torch.manual_seed(1)
    q, k, v = torch.randn(2, 4, 3, 64), torch.randn(2, 2, 40, 64).to(dtype), torch.randn(2, 2, 40, 64).to(dtype)
    want = torch.nn.functional.scaled_dot_product_attention(q, k.float(), v.float(), enable_gqa=True)
    torch.testing.assert_close(clattn.attention(q, k, v), want, atol=1e-5, rtol=1e-5)
    out = torch.empty(2, 2, 40, 64, dtype=dtype)
    clattn.quantize(k.float(), cache, out=out)
    assert (out.view(torch.uint8) == k.view(torch.uint8)).all()


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_scales_of_tokens(dtype):
    """A scale of each token and kv head, values rounded by PyTorch and by clattn alike."""
    torch.manual_seed(2)
    q, k, v = torch.randn(2, 4, 3, 64), torch.randn(2, 2, 40, 64), torch.randn(2, 2, 40, 64)
    most, bytes_of, scales = 127 if dtype == torch.int8 else 448, [], []
    for x in (k, v):
        scales.append(x.abs().amax(-1, keepdim=True) / most)
        rounded = (x / scales[-1]).round() if dtype == torch.int8 else x / scales[-1]
        bytes_of.append(rounded.to(dtype))
        made = clattn.quantize(x / scales[-1], "int8" if dtype == torch.int8 else "e4m3")
        np.testing.assert_array_equal(np.asarray(made).view(np.uint8), bytes_of[-1].view(torch.uint8).numpy())
    want = torch.nn.functional.scaled_dot_product_attention(
        q, *(one.float() * scale for one, scale in zip(bytes_of, scales)), enable_gqa=True)
    got = clattn.attention(q, *bytes_of, k_scales=scales[0], v_scales=scales[1])
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("cache", BLOCKS)
def test_blocks_are_ggmls(cache):
    gguf = pytest.importorskip("gguf")
    kind, rng = gguf.GGMLQuantizationType[cache.upper()], np.random.default_rng(1)
    x = (rng.standard_normal((500, 64)) * np.exp2(rng.integers(-8, 8, (500, 1)))).astype(np.float32)
    blocks = clattn.quantize_host(x, cache)
    if cache != "iq4_nl":  # which gguf only reads
        np.testing.assert_array_equal(blocks, gguf.quantize(x, kind))
    np.testing.assert_array_equal(read(cache, blocks, 64), gguf.dequantize(blocks, kind))
