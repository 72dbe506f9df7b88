# SPDX-License-Identifier: Apache-2.0
"""Tests of the package that the build has put together; PYTHONPATH leads to it (tests/python.sh)."""
import os
import time

import numpy
import pytest


def run_number():
    """The seed of what a run takes (tests/support/unoptimised.h)."""
    seed = os.environ.get("CLATTN_TEST_SEED") or "1"
    return int(time.time()) // 86400 if seed == "day" else int(seed)


def pytest_configure(config):
    config.addinivalue_line("markers", "spread: a run takes one in four of the parameters, by CLATTN_TEST_SEED; CLATTN_TEST_ALL=1: all")


def pytest_collection_modifyitems(config, items):
    """Leaves out what neighbouring seeds take of tests that are marked as spread."""
    counts, taken, others = {}, [], []
    for item in items:
        turn = counts[item.function] = counts.get(item.function, run_number()) + 1
        spread = item.get_closest_marker("spread") and os.environ.get("CLATTN_TEST_ALL") != "1"
        (others if spread and turn % 4 else taken).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = taken


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
