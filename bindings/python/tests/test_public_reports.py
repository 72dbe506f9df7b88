# SPDX-License-Identifier: Apache-2.0
"""Public reports of wrong attention, in whatever library they were made, tried on clattn: doc/design/reports.md lists them.

Each test is one report: its inputs, as small as the fault allows, and what is right."""
import clattn
import numpy as np
import pytest
from conftest import reference


def arrays(rng, heads=2, kv_heads=2, queries=5, keys=9, dim=16, batch=2, dtype=np.float32):
    return (rng.normal(size=(batch, h, n, dim)).astype(dtype)
            for h, n in ((heads, queries), (kv_heads, keys), (kv_heads, keys)))


def close(got, want, eps=np.finfo(np.float32).eps):
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=0, atol=40 * eps)


def test_pytorch_101967_nan_behind_a_mask_stays_there(rng):
    q, k, v = arrays(rng)
    visible = np.ones((5, 9), bool)
    visible[:, 4] = False
    want = reference(q, k, v, visible=visible)[0]
    k[:, :, 4] = v[:, :, 4] = np.nan
    close(clattn.attention(q, k, v, mask=visible), want)
    k[:, :, 4] = v[:, :, 4] = np.inf
    close(clattn.attention(q, k, v, mask=visible), want)


def test_pytorch_103963_41508_a_row_that_sees_nothing_is_zero_and_so_are_its_gradients(rng):
    q, k, v = arrays(rng)
    visible = np.ones((5, 9), bool)
    visible[2] = False
    o, lse = clattn.attention(q, k, v, mask=visible, return_lse=True)
    assert (o[:, :, 2] == 0).all() and np.isneginf(lse[:, :, 2]).all()
    gradients = clattn.attention_backward(np.ones_like(o), q, k, v, o, lse, mask=visible)
    assert all(np.isfinite(g).all() for g in gradients) and (gradients[0][:, :, 2] == 0).all()


def test_pytorch_109517_a_row_of_the_least_finite_number_is_an_average(rng):
    q, k, v = arrays(rng)
    bias = np.zeros((5, 9), np.float32)
    bias[2] = np.finfo(np.float32).min
    o, lse = clattn.attention(q, k, v, bias=bias, return_lse=True)
    close(o[:, :, 2], v.mean(2))
    gradients = clattn.attention_backward(np.ones_like(o), q, k, v, o, lse, bias=bias)
    assert all(np.isfinite(g).all() for g in gradients)


def test_flash_attention_1778_more_queries_than_keys(rng):
    q, k, v = arrays(rng, queries=9, keys=4)
    o = clattn.attention(q, k, v, causal="br")
    close(o, reference(q, k, v, visible=np.tri(9, 4, -5, dtype=bool))[0])
    assert (o[:, :, :5] == 0).all()
    close(clattn.attention(q, k, v, causal="tl"), reference(q, k, v, visible=np.tri(9, 4, dtype=bool))[0])


@pytest.mark.parametrize("right", [4, 6, 2**31 - 1])
def test_flash_attention_895_a_window_wider_than_the_keys(rng, right):
    q, k, v = arrays(rng, queries=9, keys=4)
    i, j = np.arange(9)[:, None], np.arange(4)
    close(clattn.attention(q, k, v, window=(1, right)), reference(q, k, v, visible=(j >= i - 1) & (j <= i + right))[0])


def test_rocm_flash_attention_158_a_token_behind_a_window(rng):
    q, k, v = arrays(rng, queries=1, keys=40)
    o = clattn.attention(q, k, v, causal="br", window=(12, 0))
    close(o, reference(q, k, v, visible=np.arange(40)[None] >= 27)[0])


def test_onnxruntime_25927_a_window_of_n_to_the_left_has_the_token_itself_as_well(rng):
    q, k, v = arrays(rng, queries=1, keys=9)
    close(clattn.attention(q, k, v, causal="br", window=(0, 0)), v[:, :, 8:])


def test_flash_attention_907_alibi_is_the_same_token_by_token(rng):
    q, k, v = arrays(rng, queries=9, keys=9)
    slopes = [0.5, 0.25]
    whole = clattn.attention(q, k, v, causal="br", alibi_slopes=slopes)
    for n in range(9):
        token = clattn.attention(q[:, :, n:n + 1], k[:, :, :n + 1], v[:, :, :n + 1], causal="br", alibi_slopes=slopes)
        close(token, whole[:, :, n:n + 1])


def test_flash_attention_282_chunks_of_a_prompt_are_the_prompt(rng):
    q, k, v = arrays(rng, queries=9, keys=9)
    whole = clattn.attention(q, k, v, causal="br")
    for first, end in ((0, 4), (4, 5), (5, 9)):
        close(clattn.attention(q[:, :, first:end], k[:, :, :end], v[:, :, :end], causal="br"), whole[:, :, first:end])


@pytest.mark.parametrize("keys", [33, 34, 65])
def test_pytorch_191937_keys_that_one_head_lends_to_all(rng, keys):
    q, k, v = arrays(rng, heads=4, kv_heads=1, queries=7, keys=keys)
    k, v = (np.broadcast_to(x, (2, 4, keys, 16)) for x in (k, v))
    visible = rng.random((2, 1, 7, keys)) < 0.6
    close(clattn.attention(q, k, v, mask=visible), reference(q, k, v, visible=visible)[0])


def test_pytorch_128816_a_mask_of_one_column(rng):
    q, k, v = arrays(rng)
    visible, bias = np.array([[True], [False], [True], [True], [True]]), rng.normal(size=(2, 5, 1)).astype(np.float32)
    want = reference(q, k, v, visible=np.broadcast_to(visible, (5, 9)), bias=np.broadcast_to(bias, (2, 5, 9))[None])[0]
    close(clattn.attention(q, k, v, mask=visible, bias=bias), want)


def test_onnx_8108_a_mask_of_three_dimensions_is_of_heads(rng):
    q, k, v = arrays(rng, batch=2)
    visible = rng.random((2, 5, 9)) < 0.6  # as many heads as batches: the likely mistake would not be refused
    close(clattn.attention(q, k, v, mask=visible), reference(q, k, v, visible=visible[None])[0])
    with pytest.raises(clattn.InvalidArgument, match="mask"):
        clattn.attention(q[:1], k[:1], v[:1], mask=rng.random((3, 5, 9)) < 0.6)


def test_llama_cpp_7805_products_beyond_the_range_of_f16(rng):
    q, k, v = arrays(rng, dtype=np.float16)
    q, k = q * np.float16(300), k * np.float16(300)
    o = clattn.attention(q, k, v, scale=1e-5)
    close(o, reference(q, k, v, scale=1e-5)[0], np.finfo(np.float16).eps)


def test_kernl_108_strides_of_an_axis_of_one(rng):
    q, k, v = arrays(rng, batch=1, heads=1, kv_heads=1)
    odd = [np.lib.stride_tricks.as_strided(x, x.shape, (4 * 12345, 4 * 777, *x.strides[2:])) for x in (q, k, v)]
    close(clattn.attention(*odd), reference(q, k, v)[0])


def paged(rng, page, lengths, wild):
    """A cache in pages of which the last are filled in part, and a table whose unused entries are `wild`."""
    pages, most = sum(-(-n // page) for n in lengths), max(-(-n // page) for n in lengths)
    k, v = rng.normal(size=(2, pages, 2, page, 16)).astype(np.float32)
    table = np.full((len(lengths), most), wild, np.int32)
    order = iter(rng.permutation(pages))
    plain = []
    for b, length in enumerate(lengths):
        used = [next(order) for _ in range(-(-length // page))]
        table[b, :len(used)] = used
        rows = [np.concatenate(list(x[used]), 1)[:, :length] if used else x[0][:, :0] for x in (k, v)]
        plain.append(rows)
        if used and length % page:
            k[used[-1], :, length % page:] = v[used[-1], :, length % page:] = np.nan  # what an earlier request left
    return k, v, table, plain


@pytest.mark.parametrize("page,lengths", [(4, (9, 3, 0)), (256, (300, 256, 1))])
def test_vllm_42494_53856_flashinfer_4347_ends_of_tables_and_of_pages(rng, page, lengths):
    k, v, table, plain = paged(rng, page, lengths, wild=2**31 - 1)
    q = rng.normal(size=(3, 4, 1, 16)).astype(np.float32)
    o = np.full_like(q, np.nan)
    text = f"fwd f32 b3 h4/2 q1 k{table.shape[1] * page} d16 page={page} pages={k.shape[0]} klen"
    clattn.Plan(text).execute(q=q, k=k, v=v, o=o, page_table=table, kv_lengths=np.array(lengths, np.int32))
    for b, (keys, values) in enumerate(plain):
        close(o[b:b + 1], reference(q[b:b + 1], keys[None], values[None])[0] if lengths[b] else np.zeros((1, 4, 1, 16)))
