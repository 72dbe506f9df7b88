# SPDX-License-Identifier: Apache-2.0
"""What attention() has for packed batches, pages, block lists, masks of the last keys and quantized caches, and the
functions that make what it takes, against double precision."""
import clattn
import numpy as np
import pytest
from conftest import reference


def normal(rng, *shape, dtype=np.float32):
    return rng.normal(size=shape).astype(dtype)


def bottom_right(queries, keys):
    return np.tri(queries, keys, keys - queries, dtype=bool)


@pytest.mark.parametrize("in_front", [(), (1,)])
def test_packed_batches_and_their_gradients(rng, in_front):
    q, k, v, d_o = (normal(rng, *in_front, *shape) for shape in ((4, 9, 16), (2, 12, 16), (2, 12, 16), (4, 9, 16)))
    q_starts, kv_starts = [0, 3, 3, 8], np.array([0, 5, 7, 12])  # the last query is of no sequence
    options = dict(q_starts=q_starts, kv_starts=kv_starts, causal="br")
    o, lse = clattn.attention(q, k, v, return_lse=True, **options)
    gradients = clattn.attention_backward(d_o, q, k, v, o, lse, **options)
    assert o.shape == q.shape and lse.shape == q.shape[:-1] and (o[..., 8, :] == 0).all() and np.isneginf(lse[..., 8]).all()
    want = [np.zeros(x.shape) for x in (q, k, v)]
    for (a, b), (c, d) in zip(zip(q_starts, q_starts[1:]), zip(kv_starts, kv_starts[1:])):
        each = [x.reshape(1, -1, x.shape[-2], 16)[:, :, rows] for x, rows in
                ((q, slice(a, b)), (d_o, slice(a, b)), (k, slice(c, d)), (v, slice(c, d)))]
        one, one_lse = reference(each[0], each[2], each[3], visible=bottom_right(b - a, d - c))
        np.testing.assert_allclose(o[..., a:b, :].reshape(one.shape), one, atol=3e-6)
        np.testing.assert_allclose(lse[..., a:b].reshape(one_lse.shape), one_lse, atol=3e-6)
        alone = clattn.attention_backward(each[1], each[0], each[2], each[3], one.astype(np.float32), one_lse.astype(np.float32),
                                          causal="br")
        for whole, part, (first, last) in zip(want, alone, ((a, b), (c, d), (c, d))):
            whole[..., first:last, :] = part.reshape(whole[..., first:last, :].shape)
    for got, wanted in zip(gradients, want):
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_packed_queries_beside_a_cache_and_one_plan_for_all(rng):
    k, v = normal(rng, 2, 3, 2, 8, 16)
    for starts in ([0, 1, 2, 3], [0, 0, 2, 3]):
        q = normal(rng, 4, 3, 16)
        o = clattn.attention(q, k, v, q_starts=starts, max_q=2, kv_lengths=[8, 4, 6])
        made = len(clattn.default_context()._plans)
        for b, n in enumerate([8, 4, 6]):
            rows = slice(starts[b], starts[b + 1])
            np.testing.assert_allclose(o[:, rows], reference(q[None, :, rows], k[b:b + 1, :, :n], v[b:b + 1, :, :n])[0][0], atol=3e-6)
    clattn.attention(q, k, v, q_starts=[0, 2, 2, 3], max_q=2, kv_lengths=[1, 1, 1])
    assert len(clattn.default_context()._plans) == made
    assert clattn.attention(q[:, :0], k, v, q_starts=[0, 0, 0, 0]).shape == (4, 0, 16)


def test_pages(rng):
    k_pool, v_pool = normal(rng, 2, 7, 2, 4, 16)
    table, lengths = np.array([[3, 1, 6], [0, 3, -1]], np.int32), [10, 6]
    q = normal(rng, 2, 4, 3, 16)
    o = clattn.attention(q, k_pool, v_pool, page_table=table, kv_lengths=lengths, causal="br", check_tables=True)
    for b, n in enumerate(lengths):
        k, v = (np.concatenate([pool[page] for page in table[b]], 1)[None, :, :n] for pool in (k_pool, v_pool))
        np.testing.assert_allclose(o[b:b + 1], reference(q[b:b + 1], k, v, visible=bottom_right(3, n))[0], atol=3e-6)
    with pytest.raises(clattn.InvalidArgument, match=r"page_table\[1\]\[2\] is -1"):
        clattn.attention(q, k_pool, v_pool, page_table=table, kv_lengths=[10, 9], check_tables=True)
    plan = clattn.Plan("fwd f32 b2 h4/2 q3 k12 d16 page=4 pages=7 klen")
    plan.check_tables(page_table=table, kv_lengths=np.array(lengths, np.int32))
    with pytest.raises(clattn.InvalidArgument, match=r"page_table\[1\]\[2\] is -1"):
        plan.check_tables(page_table=table, kv_lengths=np.array([10, 9], np.int32), q=q)
    np.testing.assert_array_equal(o, clattn.attention(q, k_pool, v_pool, page_table=table, kv_lengths=lengths, causal="br", max_kv=10))


def small_floats(codes, digits, bias):
    """The numbers of finite floats of eight bits."""
    exponent, rest = (codes & 127) >> digits, (codes & (1 << digits) - 1) / 2.0 ** digits
    numbers = np.where(exponent == 0, rest * 2.0 ** (1 - bias), (1 + rest) * 2.0 ** (exponent.astype(float) - bias))
    return np.where(codes < 128, numbers, -numbers)


@pytest.mark.parametrize("paged", [False, True])
def test_scales_of_tokens_and_heads(rng, paged):
    """Scales that broadcast as they do; in pages, and between the rows of a cache."""
    q, k, v = normal(rng, 1, 4, 3, 64), normal(rng, 1, 2, 40, 64), normal(rng, 1, 2, 40, 64)
    k_scales, v_scales = np.abs(k).max(3, keepdims=True) / 448, np.abs(v).max((2, 3), keepdims=True) / 448
    k_cache, v_cache = clattn.quantize(k / k_scales, "e4m3"), clattn.quantize(v / v_scales, "e4m3")
    want = clattn.attention(q, small_floats(k_cache, 3, 7).astype(np.float32) * k_scales,
                            small_floats(v_cache, 3, 7).astype(np.float32) * v_scales)
    rows = np.zeros((1, 2, 40, 96), np.uint8)
    rows[..., :64] = k_cache
    rows[..., 64:68] = k_scales.view(np.uint8)
    k_cache, k_scales = rows[..., :64], rows[..., 64:].view(np.float32)[..., :1]
    options = {}
    if paged:
        order = np.array([3, 1, 4, 0, 2], np.int32)
        options = dict(page_table=np.argsort(order).astype(np.int32)[None], kv_lengths=[40])
        k_cache, v_cache, k_scales, v_scales = (
            np.ascontiguousarray(np.broadcast_to(x, (1, 2, 40, x.shape[3])).reshape(2, 5, 8, -1).swapaxes(0, 1)[order])
            for x in (k_cache, v_cache, k_scales, v_scales))
    np.testing.assert_allclose(clattn.attention(q, k_cache, v_cache, cache="e4m3", k_scales=k_scales, v_scales=v_scales,
                                                **options), want, atol=1e-5)
    with pytest.raises(clattn.Error, match="k_scales are of keys in a format of bytes"):
        clattn.attention(q, k, v, k_scales=np.ones((1, 2, 40, 1), np.float32))
    with pytest.raises(clattn.Error, match="v_scales is of shape"):
        clattn.attention(q, k, v, v_scales=np.ones(3, np.float32))


@pytest.mark.spread
@pytest.mark.parametrize("cache, error", [("q8_0", 0.02), ("q4_0", 0.4), ("q5_0", 0.2), ("iq4_nl", 0.5), ("q4_1", 0.4),
                                          ("q5_1", 0.2), ("e4m3", 0.15), ("e5m2", 0.3), ("int8", 0.51)])
def test_quantized_caches(rng, cache, error):
    """Rows are quantized to their place in a cache, of strides of its own, on the device and on the host."""
    both = np.zeros((1, 2, 40, 2, clattn.quantized_bytes(cache, 64)), np.uint8)
    k_cache, v_cache = both[:, :, :, 0], both[:, :, :, 1]
    k, v, q = normal(rng, 1, 2, 40, 64), normal(rng, 1, 2, 40, 64), normal(rng, 1, 4, 3, 64)
    for first in range(0, 40, 10):
        clattn.quantize(k[:, :, first:first + 10], cache, out=k_cache[:, :, first:first + 10])
        clattn.quantize_host(v[:, :, first:first + 10], cache, out=v_cache[:, :, first:first + 10])
    np.testing.assert_array_equal(clattn.quantize_host(k, cache), k_cache)
    np.testing.assert_array_equal(clattn.quantize(v, cache), v_cache)

    def values(blocks):
        if cache == "int8":
            return blocks.view(np.int8).astype(np.float64)
        if cache in ("e4m3", "e5m2"):
            return small_floats(blocks, *((3, 7) if cache == "e4m3" else (2, 15)))
        size = clattn.quantized_bytes(cache, 32)
        blocks = blocks.reshape(1, 2, 40, 2, size)
        steps = np.ascontiguousarray(blocks[..., :2]).view(np.float16).astype(np.float64)
        begin, fifth = (4 if cache.endswith("_1") else 2), (4 if cache.startswith("q5") else 0)
        bytes_of = np.ascontiguousarray(blocks[..., begin + fifth:])
        if cache == "q8_0":
            return (steps * bytes_of.view(np.int8)).reshape(1, 2, 40, 64)
        codes = np.concatenate([bytes_of & 15, bytes_of >> 4], -1)
        if cache == "iq4_nl":
            numbers = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])
            return (steps * numbers[codes]).reshape(1, 2, 40, 64)
        if fifth:
            codes = codes + 16 * np.unpackbits(blocks[..., begin:begin + 4], axis=-1, bitorder="little")
        if begin == 4:
            offsets = np.ascontiguousarray(blocks[..., 2:4]).view(np.float16).astype(np.float64)
            return (steps * codes + offsets).reshape(1, 2, 40, 64)
        return (steps * (codes - (16.0 if fifth else 8.0))).reshape(1, 2, 40, 64)

    k_read, v_read = values(k_cache), values(v_cache)
    assert np.abs(k_read - k).max() < error
    o = clattn.attention(q, k_cache, v_cache, cache=cache, kv_lengths=[33])
    np.testing.assert_allclose(o, reference(q, k_read[:, :, :33], v_read[:, :, :33])[0], atol=1e-5)
    o = clattn.attention(q, k_cache, v, cache=(cache, None))
    np.testing.assert_allclose(o, reference(q, k_read, v)[0], atol=1e-5)
    plan = clattn.Plan(f"fwd f32 h4/2 q3 k40 d64 kcache={cache} vcache={cache} k=10240.5120.128.1 v=10240.5120.128.1")
    plan.execute(q=q, k=k_cache, v=v_cache, o=o)  # both lie in one buffer, v from the middle of it on
    np.testing.assert_allclose(o, reference(q, k_read, v_read)[0], atol=1e-5)


def test_block_lists(rng):
    q, k, v, d_o = (normal(rng, 2, heads, rows, 16) for heads, rows in ((4, 50), (2, 70), (2, 70), (4, 50)))
    i, j = np.arange(50)[:, None], np.arange(70)
    window = ((j >= i + 20 - 10) & (j <= i + 20 + 3)) | (i < 4) | (j < 4)
    now = i + 20
    strided = (j <= now) & ((j > now - 16) | ((now - j) % 16 == 0))
    starts = np.array([0, 13, 13, 40])
    documents = np.zeros((50, 70), bool)
    for first, last in zip(starts, starts[1:]):
        documents[first:last, first:last] = True
    drawn = rng.random((2, 4, 50, 70)) < 0.05
    for blocks, visible in (
            (clattn.blocks_window((50, 70), (8, 8), left=10, right=3, globals=4, diagonal="br"), window),
            (clattn.blocks_strided((50, 70), (8, 8), 16, diagonal=20), strided),
            (clattn.blocks_documents((50, 70), (8, 8), starts), documents),
            (clattn.blocks_mask(documents, (8, 8)), documents), (clattn.blocks_mask(drawn, (8, 8), batches=True), drawn)):
        o, lse = clattn.attention(q, k, v, blocks=blocks, mask=visible, return_lse=True, check_tables=True)
        np.testing.assert_allclose(o, reference(q, k, v, visible=visible)[0], atol=1e-5)
        listed = np.zeros((1 if blocks.offsets.ndim == 1 else 8, 50, 70), bool)
        for one, offsets, entries in zip(listed, blocks.offsets.reshape(-1, blocks.offsets.shape[-1]),
                                         blocks.entries.reshape(-1, blocks.entries.shape[-1])):
            for row, (a, b) in enumerate(zip(offsets, offsets[1:])):
                for column in entries[a:b] % 2 ** 30:
                    one[row * blocks.size[0]:(row + 1) * blocks.size[0], column * blocks.size[1]:(column + 1) * blocks.size[1]] = True
        listed = listed.reshape((1, 1, 50, 70) if len(listed) == 1 else (2, 4, 50, 70))
        np.testing.assert_allclose(clattn.attention(q, k, v, blocks=blocks), reference(q, k, v, visible=listed)[0], atol=1e-5)
    for got, want in zip(clattn.attention_backward(d_o, q, k, v, o, lse, blocks=blocks, mask=visible),
                         clattn.attention_backward(d_o, q, k, v, o, lse, mask=visible)):
        np.testing.assert_allclose(got, want, atol=1e-5)
    one = clattn.blocks_window((50, 70), (8, 8), left=0, right=0, random=2, seed=3)
    assert one.offsets[-1] == len(one.entries) > clattn.blocks_window((50, 70), (8, 8), left=0, right=0).offsets[-1]


def test_masks_of_the_last_keys(rng):
    q, k, v, tree, lengths = normal(rng, 2, 2, 3, 16), *normal(rng, 2, 2, 2, 9, 16), np.tri(3, dtype=bool), [9, 5]
    o = clattn.attention(q, k, v, mask=tree, mask_keys=3, kv_lengths=lengths)
    for b, n in enumerate(lengths):
        visible = np.concatenate([np.ones((3, n - 3), bool), tree], 1)
        np.testing.assert_allclose(o[b:b + 1], reference(q[b:b + 1], k[b:b + 1, :, :n], v[b:b + 1, :, :n], visible=visible)[0], atol=3e-6)


def test_which_weights_dropout_drops(rng):
    q, k = normal(rng, 2, 2, 5, 16), normal(rng, 2, 2, 9, 16)
    v = np.broadcast_to(np.eye(9, 16, dtype=np.float32), (2, 2, 9, 16)).copy()  # o shows the weights
    kept = clattn.dropout_mask((2, 2, 5, 9), 0.4, seed=11)
    assert kept.dtype == np.bool_ and 0.3 < kept.mean() < 0.9
    weights = reference(q, k, v)[0][..., :9]
    np.testing.assert_allclose(clattn.attention(q, k, v, dropout=0.4, seed=11)[..., :9], weights * kept / 0.6, atol=1e-5)
    out = np.empty((2, 2, 5, 9), np.uint8)
    assert clattn.dropout_mask((2, 2, 5, 9), 0.4, seed=11, offset=1, out=out) is out and (out != kept).any()


def test_results_in_float32_beside_half_precision(rng):
    q, k, v = (normal(rng, 1, 2, n, 16, dtype=np.float16) for n in (3, 9, 9))
    out = np.empty((1, 2, 3, 16), np.float32)
    clattn.attention(q, k, v, out=out, strict=True)
    np.testing.assert_allclose(out, reference(q, k, v)[0], atol=2e-6)


ZEROS = dict(q=np.zeros((4, 9, 16), np.float32), k=np.zeros((2, 12, 16), np.float32), v=np.zeros((2, 12, 16), np.float32))
POOL = dict(q=np.zeros((2, 4, 3, 16), np.float32), k=np.zeros((7, 2, 4, 16), np.float32), v=np.zeros((7, 2, 4, 16), np.float32),
            page_table=np.zeros((2, 3), np.int32))
BLOCKS = clattn.Blocks(np.zeros(3, np.int32), np.zeros(1, np.int32), (8, 8))


@pytest.mark.parametrize("given, says", [
    (dict(ZEROS, q_starts=[0, 4, 9], kv_starts=[0, 12]), "k and v are of 1 batches, q of 2"),
    (dict(ZEROS, max_q=3), "max_q is given, but q_starts"), (dict(ZEROS, q_starts=[]), "q is of shape"),
    (dict(ZEROS, q_starts=[0.0, 9.0]), "q_starts is of dtype"), (dict(ZEROS, q_starts=np.array(3)), "q_starts must be a list of int32, not one number"),
    (dict(ZEROS, q_starts=[0, 9], kv_starts=[0, 12], max_q=-1), "max_q is -1"),
    (dict(POOL, kv_starts=[0, 1, 2]), "kv_starts and page_table"), (dict(POOL, page_table=np.zeros((3, 2), np.int32)), "page_table is of shape"),
    (dict(POOL, page_table=np.zeros((2, 3))), "page_table is of dtype"), (dict(POOL, max_kv=13), "max_kv is 13, but must be from 9 to 12"),
    (dict(POOL, cache="q5"), "cache must be"), (dict(POOL, cache="q8_0"), "k is of dtype float32, not uint8"),
    (dict(ZEROS, k=np.zeros((2, 12, 33), np.uint8), v=np.zeros((2, 12, 33), np.uint8), cache="q8_0"), "k has rows of"),
    (dict(ZEROS, k=np.zeros((2, 12, 34), np.uint8), v=np.zeros((2, 12, 34), np.uint8)), "k is of dtype uint8"),
    (dict(ZEROS, mask=np.ones((9, 4), bool), mask_keys=3), "mask is of shape"), (dict(ZEROS, mask=np.ones((9, 3), bool), mask_keys=13), "mask_keys is 13"),
    (dict(ZEROS, blocks=3), "blocks must be"), (dict(ZEROS, blocks=BLOCKS._replace(offsets=np.zeros(4, np.int32))), "blocks are offsets"),
    (dict(ZEROS, blocks=BLOCKS._replace(entries=np.zeros(0, np.int32))), "blocks.entries must have"),
    (dict(ZEROS, blocks=BLOCKS._replace(entries=np.zeros(3))), "blocks.entries is of dtype"), (dict(ZEROS, blocks=BLOCKS._replace(size=(0, 8))), "blocks.size is 0"),
])
def test_mistakes_in_words(given, says):
    with pytest.raises(clattn.InvalidArgument, match=says):
        clattn.attention(**given)


@pytest.mark.parametrize("call, says", [
    (lambda: clattn.quantize(np.zeros((2, 31), np.float32), "q8_0"), "values are of shape"), (lambda: clattn.quantize(np.zeros(64), "q8_0"), "values is of dtype float64"),
    (lambda: clattn.quantize(np.zeros(64, np.float32), "q8"), "cache must be"), (lambda: clattn.quantize(np.array(1, np.float32), "q8_0"), "values are of shape"),
    (lambda: clattn.quantize(np.zeros((3, 64), np.float32), "q8_0", out=np.zeros((3, 67), np.uint8)), "out is of shape"),
    (lambda: clattn.quantize_host(np.zeros((3, 64), np.float32), "q8_0", out=np.zeros((3, 68), np.float32)), "out is of dtype"),
    (lambda: clattn.quantize(np.zeros((3, 64), np.float32), "q8_0", out=np.zeros((3, 70), np.uint8)[:, :68]), "out has steps of"),
    (lambda: clattn.quantized_bytes("q8_0", -1), "values is -1"), (lambda: clattn.blocks_window((5,), (8, 8)), "shape must be"),
    (lambda: clattn.blocks_window((5, 5), (8, 0)), "size is 0"), (lambda: clattn.blocks_window((5, 5), (8, 8), left=-1), "left is -1"),
    (lambda: clattn.blocks_strided((5, 5), (8, 8), 0), "stride is 0"), (lambda: clattn.blocks_documents((5, 5), (8, 8), [3, 1]), "clattn_blocks_documents"),
    (lambda: clattn.blocks_documents((5, 5), (8, 8), []), "starts must"), (lambda: clattn.blocks_mask(np.ones((2, 5, 5, 5), bool), (8, 8)), "batches=True"),
    (lambda: clattn.blocks_mask(np.ones((5, 5)), (8, 8)), "mask is of shape"), (lambda: clattn.dropout_mask((1, 2, 3), 0.5, 1), "shape must be"),
    (lambda: clattn.dropout_mask((1, 2, 3, 4), 1.5, 1), "shape .* of no problem"), (lambda: clattn.dropout_mask((1, 2, 3, 4), "a", 1), "dropout must be"),
    (lambda: clattn.dropout_mask((1, 2, 3, 4), 0.5, 1, out=np.ones((1, 2, 3, 4))), "out is of shape"),
    (lambda: clattn.dropout_mask((1, 2, 3, 4), 0.5, 1, context=clattn.default_context()), "context is given, but queue"),
    (lambda: clattn.Plan("bwd f32 q4 d8").check_tables(), "check_tables"),
])
def test_mistakes_of_what_makes_arrays(call, says):
    with pytest.raises((clattn.InvalidArgument, clattn.InvalidProblem), match=says):
        call()
