# SPDX-License-Identifier: Apache-2.0
"""pyopencl's arrays in and out, on the caller's queue."""
import subprocess
import sys

import clattn
import numpy as np
import pytest
from clattn._library import load
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
    with pytest.raises(clattn.InvalidArgument, match="^q is of another OpenCL context than queue"):
        clattn.attention(q, q, q, queue=other)  # q has an event of its own context
    with pytest.raises(clattn.InvalidArgument, match="^v is of another OpenCL context than queue"):
        clattn.attention(q, q, cla.to_device(other, host))
    with pytest.raises(clattn.InvalidArgument, match="^out, which is written, overlaps k$"):
        clattn.attention(q.copy(), q, q.copy(), out=q)
    with pytest.raises(clattn.InvalidArgument, match="queue must be"):
        clattn.attention(q, q, q, queue=7)
    short = cla.Array(queue, (1, 4, 50, 16), np.float32, data=q.base_data, strides=(12800, 3200, 64, 4))
    with pytest.raises(clattn.BufferTooSmall, match="k"):
        clattn.attention(q, short, short)


def test_what_is_of_another_class_never_reaches_the_driver(rng, queue):
    q = cla.to_device(queue, rng.normal(size=(1, 4, 5, 16)).astype(np.float32))
    for bad in (q, q.base_data, queue.context):
        with pytest.raises(clattn.InvalidArgument, match="queue must be a pyopencl.CommandQueue"):
            clattn.attention(q, q, q, queue=bad)
    with pytest.raises(clattn.InvalidArgument, match="opencl must be a pyopencl.Context"):
        clattn.Context(opencl=queue)
    with pytest.raises(clattn.InvalidArgument, match="opencl_device must be a pyopencl.Device"):
        clattn.Context(opencl=queue.context, opencl_device=queue)
    q.events.append(5)
    with pytest.raises(clattn.InvalidArgument, match="an event of q must be"):
        clattn.attention(q, q, q)


def test_a_buffer_that_was_released_does_not_end_the_process(rng, queue):
    """Some drivers keep what was released for a while, and then it is still computed on; some give its handle to o."""
    code = """
import clattn, numpy, pyopencl as cl, pyopencl.array
context = cl.Context([next(d for p in cl.get_platforms() for d in p.get_devices() if d.name == %r)])
queue = cl.CommandQueue(context)
q, k = (cl.array.zeros(queue, (1, 4, 5, 16), numpy.float32) for _ in range(2))
queue.finish()
q.base_data.release()
try:
    clattn.attention(q, k, k)
except clattn.InvalidArgument as error:
    print(error)
""" % queue.device.name
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert not told.stdout or told.stdout.startswith("q lies in a buffer that was released")


def test_no_element(queue):
    q, k = cla.empty(queue, (1, 4, 0, 16), np.float32), cla.empty(queue, (1, 4, 5, 16), np.float32)
    assert clattn.attention(q, k, k).shape == (1, 4, 0, 16)
    o, lse = clattn.attention(q, k, k, return_lse=True)
    dq, dk, dv = clattn.attention_backward(q, q, k, k, o, lse)
    assert dq.shape == q.shape and not dk.get().any() and not dv.get().any()


def test_packed_batches_pages_and_quantized_caches(rng, queue):
    """As on host memory, with numbers that lie on the device."""
    def to(array):
        return cla.to_device(queue, np.ascontiguousarray(array))

    q, k, v = (rng.normal(size=(heads, rows, 32)).astype(np.float32) for heads, rows in ((4, 9), (2, 12), (2, 12)))
    starts = [np.array(numbers, np.int32) for numbers in ([0, 3, 9], [0, 5, 12])]
    want = clattn.attention(q, k, v, q_starts=starts[0], kv_starts=starts[1], causal="br")
    options = dict(q_starts=to(starts[0]), kv_starts=to(starts[1]), causal="br")
    np.testing.assert_array_equal(clattn.attention(to(q), to(k), to(v), max_q=6, max_kv=7, **options).get(), want)
    with pytest.raises(clattn.InvalidArgument, match="max_q, the length of the longest sequence, must be given"):
        clattn.attention(to(q), to(k), to(v), **options)

    table, lengths = np.array([[3, 1], [0, 2]], np.int32), np.array([6, 5], np.int32)
    q, k, v = (rng.normal(size=shape).astype(np.float32) for shape in ((2, 4, 3, 32), (4, 2, 3, 32), (4, 2, 3, 32)))
    blocks = [clattn.quantize(x, "q8_0") for x in (k, v)]
    on_device = [clattn.quantize(to(x), "q8_0") for x in (k, v)]
    for host, one in zip(blocks, on_device):
        assert isinstance(one, cla.Array) and one.events and (one.get() == host).all()
    want = clattn.attention(q, *blocks, cache="q8_0", page_table=table, kv_lengths=lengths)
    got = clattn.attention(to(q), *on_device, cache="q8_0", page_table=to(table), kv_lengths=to(lengths), check_tables=True)
    np.testing.assert_array_equal(got.get(), want)
    plan = clattn.Plan("fwd f32 b2 h4/2 q3 k6 d32 kcache=q8_0 vcache=q8_0 page=3 pages=4 klen", context=clattn.Context.of_queue(queue))
    with pytest.raises(clattn.InvalidArgument, match="kv_lengths.1. is 7"):
        plan.check_tables(page_table=to(table), kv_lengths=to(np.array([6, 7], np.int32)))
    rows = cla.zeros(queue, (4, 2, 5, 34), np.uint8)  # a cache that grows
    clattn.quantize(to(k), "q8_0", out=rows[:, :, 2:])
    assert (rows.get()[:, :, 2:] == blocks[0]).all() and not rows.get()[:, :, :2].any()


def test_the_mask_of_dropout_on_the_device(queue):
    mask = clattn.dropout_mask((2, 3, 4, 50), 0.3, 7, queue=queue)
    np.testing.assert_array_equal(mask.get(), clattn.dropout_mask((2, 3, 4, 50), 0.3, 7))


def test_host_arrays_on_a_queue_out_of_order(rng, queue, monkeypatch):
    """They are there when the call returns; what is mapped is so before it is unmapped."""
    asked, opencl = [], load().cl
    mapping = opencl.clEnqueueMapBuffer
    monkeypatch.setattr(opencl, "clEnqueueMapBuffer", lambda *a: (asked.append(a[2]), mapping(*a))[1])
    other = cl.CommandQueue(queue.context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    q = rng.normal(size=(1, 4, 200, 64)).astype(np.float32)
    want = clattn.attention(q, q, q)
    asked.clear()
    for _ in range(5):
        np.testing.assert_array_equal(clattn.attention(q, q, q, queue=other), want)
    assert len(asked) == 5 and all(asked)


def test_host_arrays_on_the_callers_queue(rng, queue):
    q, k, v = rng.normal(size=(3, 1, 4, 5, 16)).astype(np.float32)
    o = clattn.attention(q, k, v, queue=queue)
    assert isinstance(o, np.ndarray)
    np.testing.assert_allclose(o, reference(q, k, v)[0], atol=3e-6)


def test_shared_virtual_memory(rng, queue):
    tools = pytest.importorskip("pyopencl.tools")
    if not queue.device.svm_capabilities & cl.device_svm_capabilities.COARSE_GRAIN_BUFFER:
        pytest.skip("the device has no shared virtual memory")
    allocator = tools.SVMAllocator(queue.context, alignment=0, queue=queue)
    host = rng.normal(size=(3, 1, 4, 5, 16)).astype(np.float32)
    q, k, v = (cla.to_device(queue, x, allocator=allocator) for x in host)
    out = cla.empty(queue, (1, 4, 5, 16), np.float32, allocator=allocator)
    assert clattn.attention(q, k, v, out=out) is out
    np.testing.assert_allclose(out.get(), reference(*host)[0], atol=3e-6)
