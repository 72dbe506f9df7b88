# SPDX-License-Identifier: Apache-2.0
"""Every array's shape, dtype and strides are compared with the problem's, for every operation and operand."""
import clattn
import numpy as np
import pytest
from clattn._tensors import tensors_of
from clattn.plan import parse

# Together they have every operand but those of layers. No two neighbouring sizes of a tensor are equal, unless they are 1.
PROBLEMS = ["fwd f32 b2 h6/3 q4 k12 d8 bias=f16:bhqk mask=hqk sinks alibi qlen klen lse",
            "fwd f16 b2 h6/3 q4 k12 d8/5 q=bshd o=bshd page=4 pages=7 klen blocks=2x5:9:bh odtype=f32",
            "fwd f32 b3 h4/2 q5 k64 d32 kcache=q8_0 vcache=q4_0 scores=raw",
            "fwd f32 b3 h4/2 q5 k6 d8 totalq=11 totalkv=13 lse",
            "bwd f16 b2 h6/3 q4 k12 d8 lse bias=f32:hqk alibi sinks dbias dslopes dsinks odtype=f32",
            "proj f32 b2 h3/5 q4 d8/5 bias=f16 w=oi", "merge f16 b2 h3 q4 d8 n5",
            "merge f32 h3 q4 d8 n2",
            "append f32 b2 h4/2 q3 k16 d32 cache=f16 vcache=q4_0 klen pos rope=halves:16:tables:9 queries",
            "append f32 b2 h4/2 q3 k16 d8 page=4 pages=9 klen dk=bshd", "append f32 b2 h2 q3 k16 d8 slots"]


def array_of(tensor, size=None, dtype=None):
    """Zeros that lie as a tensor does, from the 8th of its elements on."""
    dtype = np.dtype(dtype or tensor.dtypes[0])
    memory = np.zeros(8 + sum((long - 1) * step for long, step in zip(tensor.size, tensor.stride)) + 1, dtype)
    steps = [step * dtype.itemsize for step in tensor.stride]
    return np.lib.stride_tricks.as_strided(memory[8:], tensor.size if size is None else size, steps)


def arrays_of(text):
    tensors = tensors_of(parse(text))
    return tensors, {name: array_of(tensor)[0] if tensor.size[0] == 1 else array_of(tensor) for name, tensor in tensors.items()}


@pytest.mark.parametrize("text", PROBLEMS)
def test_what_lies_as_the_problem_says_is_taken_and_nothing_else(text):
    plan = clattn.Plan(text)
    tensors, arrays = arrays_of(text)
    plan.execute(**arrays)
    for name, array in arrays.items():
        array = arrays[name] = array.reshape([long for long in array.shape if long != 1]) if not tensors[name].broadcasts else array
        other = "int64" if array.dtype == np.int32 else "float64"
        for wrong, says in ((array.astype(other), f"dtype {other}, not "), (array[..., :-1], "shape"),
                            (array.swapaxes(-1, -2) if array.ndim > 1 else np.zeros(array.size + 1, array.dtype), "shape")):
            with pytest.raises(clattn.InvalidArgument, match=f"^{name} is of {says}"):
                plan.execute(**{**arrays, name: wrong})
        apart = np.lib.stride_tricks.as_strided(np.zeros(4 * array_of(tensors[name]).size + 64, array.dtype), array.shape,
                                                [2 * step for step in array.strides])
        with pytest.raises(clattn.InvalidArgument, match=f"{name} has the strides"):
            plan.execute(**{**arrays, name: apart})
    plan.execute(**arrays)  # without axes of one
    with pytest.raises(clattn.InvalidArgument, match="^nonsense is given, but '.*' has none$"):
        plan.execute(**arrays, nonsense=array)


@pytest.mark.parametrize("text, name, shape, wanted", [
    ("append f32 h2 q3 k5 d8", "k", (1, 3, 2, 8), (1, 2, 3, 8)), ("append f32 h2 q3 k5 d8", "k_cache", (1, 5, 2, 8), (1, 2, 5, 8)),
    ("append f32 h1 q3 k5 d8", "k", (1, 3, 1, 8), (1, 1, 3, 8)), ("proj f32 b2 h3 q4 d8/5", "x", (4, 2, 3, 8), (2, 3, 4, 8)),
    ("fwd f32 b2 q4 k12 d8 page=4 pages=6", "page_table", (3, 2), (2, 3)), ("fwd f32 b2 h3 q4 d8 lse", "lse", (4, 3, 2), (2, 3, 4)),
    ("merge f32 b2 h3 q4 d8 n5", "parts", (2, 5, 3, 4, 8), (5, 2, 3, 4, 8)),
    ("merge f32 h3 q4 d8 n2", "lse", (1, 4, 3), (1, 3, 4)), ("fwd f32 b2 q4 d8 klen", "kv_lengths", (1,), (2,)),
])
def test_the_likely_mistakes_are_told_with_both_shapes(text, name, shape, wanted):
    tensors, arrays = arrays_of(text)
    arrays[name] = np.zeros(shape, arrays[name].dtype)
    with pytest.raises(clattn.InvalidArgument) as raised:
        clattn.Plan(text).execute(**arrays)
    assert str(raised.value).startswith(f"{name} is of shape {shape}, but of {wanted} in '{text[:4]}")


def test_a_cache_that_is_part_of_a_larger_array(rng):
    """Its strides are those of the text, for operations other than attention as well."""
    big = np.zeros((1, 2, 5, 16), np.float32)
    k, v = rng.normal(size=(2, 1, 2, 3, 8)).astype(np.float32)
    plan = clattn.Plan("append f32 h2 q3 k5 d8 dk=160.80.16.1 dv=160.80.16.1")
    plan.execute(k=k, v=v, k_cache=big[..., :8], v_cache=big[..., 8:])
    np.testing.assert_array_equal(big[:, :, :3], np.concatenate([k, v], -1))
    assert not big[:, :, 3:].any()
    with pytest.raises(clattn.InvalidArgument, match="k_cache has the strides"):
        plan.execute(k=k, v=v, k_cache=np.zeros((1, 2, 5, 8), np.float32), v_cache=big[..., 8:])


def test_states_and_batches_as_one_axis(rng):
    parts, lse = rng.normal(size=(5, 2, 3, 4, 8)).astype(np.float32), rng.normal(size=(5, 2, 3, 4)).astype(np.float32)
    weights = np.exp(lse - lse.max(0)) / np.exp(lse - lse.max(0)).sum(0)
    plan = clattn.Plan("merge f32 b2 h3 q4 d8 n5")
    for shape in ((5, 2), (10,)):
        o, total = np.empty((2, 3, 4, 8), np.float32), np.empty((2, 3, 4), np.float32)
        plan.execute(parts=parts.reshape(shape + (3, 4, 8)), parts_lse=lse.reshape(shape + (3, 4)), o=o, lse=total)
        np.testing.assert_allclose(o, (weights[..., None] * parts).sum(0), atol=1e-6)


def test_gradients_in_float32_of_half_precision(rng):
    """o is of the dtype that the library reads, not of that of what is written."""
    q, k, v, d_o = (rng.normal(size=(1, 1, 4, 8)).astype(np.float16) for _ in range(4))
    o, lse = np.empty((1, 1, 4, 8), np.float16), np.empty((1, 1, 4), np.float32)
    clattn.Plan("fwd f16 q4 d8 lse").execute(q=q, k=k, v=v, o=o, lse=lse)
    text = "bwd f16 q4 d8 lse odtype=f32"
    o = o.astype(tensors_of(parse(text))["o"].dtypes[0])
    got = [np.empty((1, 1, 4, 8), np.float32) for _ in range(3)]
    clattn.Plan(text).execute(q=q, k=k, v=v, o=o, lse=lse, d_o=d_o, dq=got[0], dk=got[1], dv=got[2])
    for one, other in zip(got, clattn.attention_backward(*(x.astype(np.float32) for x in (d_o, q, k, v, o)), lse)):
        np.testing.assert_allclose(one, other, atol=4e-3)
    for one, other in zip(got, clattn.attention_backward(d_o, q, k, v, o, lse, out=[np.empty_like(x) for x in got])):
        np.testing.assert_array_equal(one, other)


def test_arrays_without_elements_of_other_operations():
    def zeros(*shape):
        return np.zeros(shape, np.float32)

    clattn.Plan("merge f32 b0 h1 q4 d8 n2").execute(parts=zeros(0, 1, 4, 8), parts_lse=zeros(2, 0, 1, 4), o=zeros(0, 1, 4, 8),
                                                    lse=zeros(0, 1, 4))
    clattn.Plan("append f32 h2 q0 k4 d8").execute(k=zeros(1, 2, 0, 8), v=zeros(1, 2, 0, 8), k_cache=zeros(1, 2, 4, 8),
                                                  v_cache=zeros(1, 2, 4, 8))
    clattn.Multihead("layer fwd f32 b0 h2 q3 d8 model=16").execute(
        x=zeros(0, 3, 16), y=zeros(0, 3, 16), **{f"w_{n}": zeros(16, 16) for n in "qkvo"})


@pytest.mark.parametrize("change, says", [
    (dict(x=np.zeros((3, 2, 24), np.float32)), "x is of shape"), (dict(w_q=np.zeros((64, 25), np.float32)[:, 1:]), "w_q has the strides"),
    (dict(mask=np.ones((2, 2), bool)), "mask is of shape .2, 2., which does not broadcast to .2, 4, 3, 3."),
    (dict(mask=np.ones((3, 3), np.float32)), "mask is of dtype"), (dict(sinks=np.zeros(3, np.float32)), "sinks is of shape .3,., but of .4,."),
    (dict(weights=np.zeros((2, 4, 3, 3), np.float16)), "weights is of dtype float16, not float32"), (dict(q=np.zeros(3)), "q is"),
    (dict(dx=np.zeros((2, 3, 24), np.float32)), "dx is given"), (dict(reserve=np.zeros((4, 4))[:, 1:]), "reserve must be C-contiguous"),
])
def test_arrays_of_layers(change, says):
    layer = clattn.Multihead("layer fwd f32 b2 h4 q3 d16 mask=qk sinks model=24 weights=heads")
    zeros = {"x": (2, 3, 24), "y": (2, 3, 24), "w_q": (64, 24), "w_k": (64, 24), "w_v": (64, 24), "w_o": (24, 64), "sinks": (4,),
             "weights": (2, 4, 3, 3)}
    arrays = {**{name: np.zeros(shape, np.float32) for name, shape in zeros.items()}, "mask": np.ones((3, 3), bool)}
    layer.execute(**arrays)
    with pytest.raises(clattn.InvalidArgument, match=says):
        layer.execute(**{**arrays, **change})
