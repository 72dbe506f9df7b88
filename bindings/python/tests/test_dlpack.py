# SPDX-License-Identifier: Apache-2.0
"""What DLPack hands out: host memory, bfloat16 without a NumPy that has it, OpenCL buffers."""
import ctypes

import clattn
import numpy as np
import pytest
from clattn._dlpack import _Tensor
from conftest import reference

FLOAT32, FLOAT16, BFLOAT16, FLOAT64 = (2, 32), (2, 16), (4, 16), (2, 64)


class Exporter:
    """Something that has only DLPack: memory at an address, or a buffer, with a shape and strides in elements."""

    def __init__(self, data, shape, kind=FLOAT32, *, strides=None, device=1, byte_offset=0, lanes=1):
        self.data, self.kept = data, []
        self.fields = (device, 0, len(shape), *kind, lanes)
        self.shape, self.strides, self.byte_offset = shape, strides, byte_offset

    def __dlpack__(self, **_options):
        numbers = ctypes.c_int64 * len(self.shape)
        sizes, steps = numbers(*self.shape), None if self.strides is None else numbers(*self.strides)
        pointer = ctypes.POINTER(ctypes.c_int64)
        tensor = _Tensor(self.data, *self.fields, ctypes.cast(sizes, pointer), ctypes.cast(steps, pointer), self.byte_offset)
        self.kept.append((sizes, steps, tensor))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(tensor), b"dltensor", None)


def of(array, kind=FLOAT32, **options):
    strides = tuple(step // array.itemsize for step in array.strides)
    return Exporter(array.ctypes.data, array.shape, kind, strides=strides, **options)


def bfloat16(values):
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def float32(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def test_host_memory_at_its_strides(rng):
    q = rng.normal(size=(2, 5, 4, 16)).astype(np.float32).transpose(0, 2, 1, 3)
    k, v = rng.normal(size=(2, 2, 4, 9, 16)).astype(np.float32)
    o = clattn.attention(of(q), Exporter(k.ctypes.data, k.shape), Exporter(v.ctypes.data - 64, v.shape, byte_offset=64))
    assert isinstance(o, np.ndarray)
    np.testing.assert_allclose(o, reference(q, k, v)[0], rtol=0, atol=3e-6)
    out = np.zeros((2, 4, 5, 16), np.float32)
    assert clattn.attention(q, k, v, out=of(out)).data == out.ctypes.data and (out == o).all()


def test_bfloat16_that_numpy_has_not(rng):
    q, k, v = (bfloat16(rng.normal(size=(1, 4, n, 16))) for n in (5, 9, 9))
    out = np.zeros_like(q)
    clattn.attention(*(of(x, BFLOAT16) for x in (q, k, v)), out=of(out, BFLOAT16))
    np.testing.assert_allclose(float32(out), reference(*map(float32, (q, k, v)))[0], rtol=0, atol=2 ** -7)
    try:
        import ml_dtypes  # noqa: F401
    except ImportError:
        with pytest.raises(clattn.InvalidArgument, match="q is of bfloat16, which NumPy has not"):
            clattn.attention(*(of(x, BFLOAT16) for x in (q, k, v)))


def test_buffers_of_opencl(rng):
    cl, cla = pytest.importorskip("pyopencl"), pytest.importorskip("pyopencl.array")
    name = clattn.default_context().device.name.decode()
    queue = cl.CommandQueue(cl.Context([d for p in cl.get_platforms() for d in p.get_devices() if d.name == name][:1]))
    host = rng.normal(size=(3, 1, 4, 5, 16)).astype(np.float32)
    on_device, out = cla.to_device(queue, host), cla.zeros(queue, (1, 4, 5, 16), np.float32)
    queue.finish()
    q, k, v = (Exporter(on_device.base_data.int_ptr, host.shape[1:], device=4, byte_offset=n * host[0].nbytes) for n in range(3))
    want = reference(*host)[0]
    np.testing.assert_allclose(clattn.attention(q, k, v, queue=queue).get(), want, rtol=0, atol=3e-6)
    clattn.attention(q, k, v, queue=queue, out=Exporter(out.base_data.int_ptr, out.shape, device=4))
    np.testing.assert_allclose(out.get(), want, rtol=0, atol=3e-6)
    with pytest.raises(clattn.InvalidArgument, match="queue must be given"):
        clattn.attention(q, k, v)
    other = cl.CommandQueue(cl.Context([queue.device]))
    with pytest.raises(clattn.InvalidArgument, match="context"):
        clattn.attention(q, k, v, queue=other)


class Refuses:
    def __dlpack__(self, **_options):
        raise BufferError("it is busy")


@pytest.mark.parametrize("made, sentence", [
    (lambda x: of(x, device=2), "k lies on a device of DLPack's type 2"), (lambda x: of(x, FLOAT64), "k is of dtype float64"),
    (lambda x: of(x, (5, 64)), "k has elements of DLPack's code 5"), (lambda x: of(x, lanes=4), "k has elements of"),
    (lambda x: Exporter(x.ctypes.data, x.shape, strides=(640, 160, -16, 1)), "k has a step"),
    (lambda x: Refuses(), "k is not handed out by DLPack: it is busy"),
])
def test_mistakes_name_the_argument(rng, made, sentence):
    q, k, v = rng.normal(size=(3, 1, 4, 5, 16)).astype(np.float32)
    with pytest.raises(clattn.InvalidArgument, match=sentence):
        clattn.attention(q, made(k), v)


class Failing:
    def __dlpack__(self, **_options):
        raise KeyError("mine")


def test_what_is_no_tensor_is_refused(rng):
    k = rng.normal(size=(1, 4, 9, 16)).astype(np.float32)
    for bad, names in ((Exporter(None, (1, 4, 5, 16)), "q has elements, but no memory"),
                       (Exporter(k.ctypes.data, (1, 4, -5, 16)), "q is of the shape .1, 4, -5, 16., with a negative"),
                       (Failing(), "q is not handed out by DLPack: 'mine'")):
        with pytest.raises(clattn.InvalidArgument, match=names):
            clattn.attention(bad, k, k)
