# SPDX-License-Identifier: Apache-2.0
"""Tests of the package that the build has put together; PYTHONPATH leads to it (tests/python.sh)."""
import numpy
import pytest


def reference(q, k, v, *, scale=None, visible=None, bias=None, softcap=None, slopes=None, symmetric=False, diagonal=0, sinks=None,
              score=None):
    """Attention in double precision by the formula of clattn/problem.h: (o, lse)."""
    q, k, v = (numpy.asarray(x, numpy.float64) for x in (q, k, v))
    k, v = (numpy.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = numpy.einsum("bhid,bhjd->bhij", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        s = softcap * numpy.tanh(s / softcap)
    if score is not None:  # a function (s, b, h, q, kv) of arrays that broadcast
        s = score(s, *numpy.ogrid[tuple(map(slice, s.shape))])
    if bias is not None:
        s = s + numpy.asarray(bias, numpy.float64)
    i, j = numpy.arange(s.shape[2])[:, None], numpy.arange(s.shape[3])[None, :]
    if slopes is not None:
        distance = j - i - diagonal
        s = s + numpy.asarray(slopes, numpy.float64)[:, None, None] * (-abs(distance) if symmetric else distance)
    if visible is not None:
        s = numpy.where(visible, s, -numpy.inf)
    m = s.max(-1, keepdims=True, initial=-numpy.inf)
    if sinks is not None:
        m = numpy.maximum(m, numpy.asarray(sinks)[:, None, None])
    with numpy.errstate(invalid="ignore", divide="ignore"):
        p = numpy.where(numpy.isneginf(s), 0, numpy.exp(s - m))
        total = p.sum(-1, keepdims=True)
        seen = total > 0
        if sinks is not None:
            total = total + numpy.exp(numpy.asarray(sinks)[:, None, None] - m)
        p = numpy.where(seen, p / total, 0)
        lse = numpy.where(seen, m + numpy.log(total), -numpy.inf)[..., 0]
    return p @ v, lse


@pytest.fixture
def rng():
    return numpy.random.default_rng(5)
