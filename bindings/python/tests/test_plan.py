# SPDX-License-Identifier: Apache-2.0
"""Plans and contexts."""
import os

import clattn
import numpy as np
import pytest
from conftest import reference

PROBLEM = "fwd f32 b2 h4/2 q5 k9 d16 q=bshd causal=br lse"


def test_a_plan_says_what_it_runs_and_runs_it(rng):
    plan = clattn.Plan(PROBLEM)
    assert plan.problem == PROBLEM and plan.info["problem"] == PROBLEM and plan.info["reason"]
    q = rng.normal(size=(2, 5, 4, 16)).astype(np.float32).transpose(0, 2, 1, 3)
    k, v = rng.normal(size=(2, 2, 2, 9, 16)).astype(np.float32)
    o, lse = np.empty((2, 4, 5, 16), np.float32), np.empty((2, 4, 5), np.float32)
    assert plan.execute(q=q, k=k, v=v, o=o, lse=lse) is None
    np.testing.assert_allclose(o, reference(q, k, v, visible=np.tri(5, 9, 4, dtype=bool))[0], atol=3e-6)
    for change, names in ((dict(q=np.ascontiguousarray(q)), "q has the strides"), (dict(k=k[:, :1]), "k is of shape"),
                          (dict(sinks=np.zeros(4, np.float32)), "sinks"), (dict(nonsense=q), "nonsense"),
                          (dict(lse=None), "lse")):
        with pytest.raises(clattn.InvalidArgument, match=names):
            plan.execute(**{**dict(q=q, k=k, v=v, o=o, lse=lse), **change})
    with pytest.raises(clattn.InvalidArgument, match="lse is of shape"):
        plan.execute(q=q, k=k, v=v, o=o, lse=lse[:1])


def test_states_merge_with_sinks(rng):
    """Queries 0 and 1 see no key of the first part, so that a sink given with that part would be lost to them."""
    q, k, v = (rng.normal(size=(1, 2, n, 8)).astype(np.float32) for n in (4, 9, 9))
    sinks = np.array([1.0, -2.0], np.float32)
    visible = np.array([[j >= 5 if i < 2 else True for j in range(9)] for i in range(4)])
    parts, parts_lse = np.empty((2, 1, 2, 4, 8), np.float32), np.empty((2, 1, 2, 4), np.float32)
    for n, keys in enumerate((slice(0, 5), slice(5, 9))):
        plan = clattn.Plan(f"fwd f32 h2 q4 k{keys.stop - keys.start} d8 mask=qk lse")
        plan.execute(q=q, k=k[:, :, keys].copy(), v=v[:, :, keys].copy(), mask=visible[:, keys].copy(), o=parts[n],
                     lse=parts_lse[n])
    assert np.isneginf(parts_lse[0, 0, :, :2]).all()
    o, lse = np.empty((1, 2, 4, 8), np.float32), np.empty((1, 2, 4), np.float32)
    clattn.Plan("merge f32 h2 q4 d8 n2 sinks").execute(parts=parts, parts_lse=parts_lse, sinks=sinks, o=o, lse=lse)
    want, want_lse = reference(q, k, v, visible=visible, sinks=sinks)
    np.testing.assert_allclose(o, want, atol=3e-6)
    np.testing.assert_allclose(lse, want_lse, atol=3e-6)


TENSORS = dict(q=(1, 1, 1, 8), k=(1, 1, 4, 8), v=(1, 1, 4, 8), o=(1, 1, 1, 8))


@pytest.mark.parametrize("change, names", [
    (dict(q=np.zeros((1, 1, 1, 8))), "q is of dtype float64, not float32"), (dict(o=np.zeros((1, 1, 1, 8))), "o is of dtype float64"),
    (dict(v=np.float32(0)), "v is of shape"), (dict(kv_lengths=np.array([2], np.int64)), "kv_lengths is of dtype int64, not int32"),
    (dict(dropout_place={"x": 1}), "dropout_place must map"), (dict(dropout_place={"key": -4}), "dropout_place.'key'. is -4"),
    (dict(dropout_place=None), "dropout_place must map"), (dict(dropout_seed="a"), "dropout_seed must"),
    (dict(dropout_offset=1.5), "dropout_offset must"), (dict(queue=4), "queue must be a pyopencl.CommandQueue"),
])
def test_what_cannot_be_executed_says_why(change, names):
    plan = clattn.Plan("fwd f32 q1 k4 d8 klen dropout=0.5")
    tensors = {name: np.zeros(shape, np.float32) for name, shape in TENSORS.items()}
    with pytest.raises(clattn.InvalidArgument, match=names):
        plan.execute(**{**tensors, "kv_lengths": np.array([2], np.int32), **change})


def test_quantized_keys_are_bytes(rng):
    """A block of ggml's q8_0: the step of 32 values in f16, and 32 bytes."""
    plan = clattn.Plan("fwd f32 q1 k4 d32 kcache=q8_0")
    q, v, o = (np.ascontiguousarray(rng.normal(size=(1, 1, n, 32)), np.float32) for n in (1, 4, 1))
    bytes_of = rng.integers(-127, 128, (1, 1, 4, 32), np.int8)
    steps = np.full((1, 1, 4, 1), 1 / 64, np.float16)
    blocks = np.concatenate([steps.view(np.int8), bytes_of], -1)
    plan.execute(q=q, k=blocks, v=v, o=o)
    np.testing.assert_allclose(o, reference(q, bytes_of / 64, v)[0], atol=1e-5)
    with pytest.raises(clattn.InvalidArgument, match="k is of dtype float32, not uint8 or int8"):
        plan.execute(q=q, k=v, v=v, o=o)
    with pytest.raises(clattn.InvalidArgument, match="k is of shape .1, 1, 4, 33., but of .1, 1, 4, 34."):
        plan.execute(q=q, k=blocks[..., :-1].copy(), v=v, o=o)


@pytest.mark.parametrize("options, names", [
    (dict(problem=None), "problem must be a text"), (dict(problem="fwd f32 q1 d8\0"), "problem must be a text"),
    (dict(problem="fwd \udcff"), "problem must be a text"), (dict(family=3), "family must be a text"),
    (dict(tunables=3), "tunables must be a text"), (dict(measure_seconds="a"), "measure_seconds must be a number"),
    (dict(context="cpu"), "context must be a clattn.Context"),
])
def test_what_is_no_text_and_no_number_is_refused(options, names):
    with pytest.raises(clattn.InvalidArgument, match=names):
        clattn.Plan(**{**dict(problem="fwd f32 q1 d8"), **options})


@pytest.mark.parametrize("options, names", [
    (dict(device="a\0b"), "device must be a text"), (dict(cache_directory=5), "cache_directory must be the path"),
    (dict(opencl=5), "opencl must be a pyopencl.Context"), (dict(device="0", opencl=5), "device and opencl are both given"),
    (dict(opencl_device=5), "opencl_device is given, but opencl"), (dict(skip_self_checks=np.ones(3)), "skip_self_checks must"),
])
def test_what_makes_no_context_is_refused(options, names):
    with pytest.raises(clattn.InvalidArgument, match=names):
        clattn.Context(**options)


def test_what_an_operation_has_not_is_refused():
    plan = clattn.Plan("proj f32 q4 d8")
    x, w, y = (np.zeros((1, 1, 4, 8), np.float32), np.zeros((1, 8, 1, 8), np.float32), np.zeros((1, 1, 4, 8), np.float32))
    plan.execute(x=x, w=w, y=y)
    with pytest.raises(clattn.InvalidArgument, match="dropout_seed, .* has no dropout"):
        plan.execute(x=x, w=w, y=y, dropout_seed=5)
    with pytest.raises(clattn.InvalidArgument, match="nonsense is given"):
        clattn.Plan("fwd f32 q4 d8 klen").check_tables(nonsense=x, kv_lengths=np.zeros(1, np.int32))


def test_what_cannot_be_planned_says_why():
    with pytest.raises(clattn.InvalidProblem, match="heads"):
        clattn.Plan("fwd f32 h3/2 q1 d8")
    with pytest.raises(clattn.InvalidProblem, match="nonsense"):
        clattn.Plan("fwd f32 q1 d8 nonsense")
    with pytest.raises(clattn.Unsupported, match="no_family"):
        clattn.Plan("fwd f32 q1 d8", family="no_family")
    with pytest.raises(clattn.NoDevice, match="no such device"):
        clattn.Context("no such device")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork()")
def test_a_child_of_fork_is_refused_and_does_not_hang(rng):
    context = clattn.default_context()
    child = os.fork()
    if child == 0:
        try:
            context.opencl
        except clattn.InvalidArgument as error:
            os._exit(7 if "fork" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_gradients_read_an_o_of_f32_where_they_are_f32(rng):
    """odtype=f32 says of what dtype o is, in both directions: an o that was not rounded loses nothing."""
    q, k, d_o = (rng.normal(size=(1, 2, 40, 16)).astype(np.float16) for _ in range(3))
    v = (rng.normal(size=(1, 2, 40, 16)) + 16).astype(np.float16)
    o, lse = np.empty((1, 2, 40, 16), np.float32), np.empty((1, 2, 40), np.float32)
    clattn.Plan("fwd f16 h2 q40 d16 strict odtype=f32 lse").execute(q=q, k=k, v=v, o=o, lse=lse)
    dq, dk, dv = np.empty((3, 1, 2, 40, 16), np.float32)
    plan = clattn.Plan("bwd f16 h2 q40 d16 strict odtype=f32")
    plan.execute(q=q, k=k, v=v, o=o, lse=lse, d_o=d_o, dq=dq, dk=dk, dv=dv)
    with pytest.raises(clattn.InvalidArgument, match="o is of dtype float16, not float32"):
        plan.execute(q=q, k=k, v=v, o=o.astype(np.float16), lse=lse, d_o=d_o, dq=dq, dk=dk, dv=dv)
    q, k, v, d_o = (x.astype(np.float64) for x in (q, k, v, d_o))
    p = np.exp(q @ k.swapaxes(2, 3) / 4)
    p /= p.sum(-1, keepdims=True)
    ds = p * (d_o @ v.swapaxes(2, 3) - (d_o * (p @ v)).sum(-1, keepdims=True))
    for got, want in ((dq, ds @ k / 4), (dk, ds.swapaxes(2, 3) @ q / 4), (dv, p.swapaxes(2, 3) @ d_o)):
        assert np.abs(got - want).max() < 2e-5 * np.abs(want).max()  # with o rounded to f16 5e-3
