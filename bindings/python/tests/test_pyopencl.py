"""pyopencl's arrays in and out, on the caller's queue."""
import clattn
import numpy as np
import pytest
from conftest import reference

cl = pytest.importorskip("pyopencl")
cla = pytest.importorskip("pyopencl.array")


@pytest.fixture(scope="module")
def queue():
    device = clattn.default_context().device
    found = [d for platform in cl.get_platforms() for d in platform.get_devices() if d.name == device.name.decode()]
    return cl.CommandQueue(cl.Context(found[:1]))


def test_strides_and_offsets_are_kept_and_results_carry_the_event(rng, queue):
    host = rng.normal(size=(2, 5, 8, 16)).astype(np.float32)
    packed = cla.to_device(queue, host)
    q, k, v = (packed[:, :, first:last].transpose((0, 2, 1, 3)) for first, last in ((0, 4), (4, 6), (6, 8)))
    o, lse = clattn.attention(q, k, v, causal="tl", return_lse=True)
    assert isinstance(o, cla.Array) and o.queue is queue and o.events
    hq, hk, hv = (host[:, :, first:last].transpose(0, 2, 1, 3) for first, last in ((0, 4), (4, 6), (6, 8)))
    want, want_lse = reference(hq, hk, hv, visible=np.tri(5, 5, dtype=bool))
    np.testing.assert_allclose(o.get(), want, atol=3e-6)
    np.testing.assert_allclose(lse.get(), want_lse, atol=3e-6)

    d_o = cla.to_device(queue, rng.normal(size=(2, 4, 5, 16)).astype(np.float32))
    got = clattn.attention_backward(d_o, q, k, v, o, lse, causal="tl")
    on_host = clattn.attention_backward(d_o.get(), hq, hk, hv, o.get(), lse.get(), causal="tl")
    for one, other in zip(got, on_host):
        assert (one.get() == other).all()


def test_mistakes_with_arrays_of_a_device(rng, queue):
    host = rng.normal(size=(1, 4, 5, 16)).astype(np.float32)
    q = cla.to_device(queue, host)
    with pytest.raises(clattn.InvalidArgument, match="host memory"):
        clattn.attention(q, host, host)
    with pytest.raises(clattn.InvalidArgument, match="queue must be given"):
        clattn.attention(q.with_queue(None), q, q)
    other = cl.CommandQueue(cl.Context([queue.device]))
    with pytest.raises(clattn.InvalidArgument, match="context"):
        clattn.attention(q, q, q, queue=other)
    with pytest.raises(clattn.InvalidArgument, match="queue must be"):
        clattn.attention(q, q, q, queue=7)
    short = cla.Array(queue, (1, 4, 50, 16), np.float32, data=q.base_data, strides=(12800, 3200, 64, 4))
    with pytest.raises(clattn.BufferTooSmall, match="k"):
        clattn.attention(q, short, short)


def test_host_arrays_on_the_callers_queue(rng, queue):
    q, k, v = rng.normal(size=(3, 1, 4, 5, 16)).astype(np.float32)
    o = clattn.attention(q, k, v, queue=queue)
    assert isinstance(o, np.ndarray)
    np.testing.assert_allclose(o, reference(q, k, v)[0], atol=3e-6)
