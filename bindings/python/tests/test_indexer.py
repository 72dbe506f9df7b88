# SPDX-License-Identifier: Apache-2.0
"""clattn.indexer() on NumPy arrays: lists against a sort of scores that are exact."""
import numpy as np
import pytest

import clattn


def want(q, k, w, topk, visible):
    """Lists and scores by a stable sort in double precision."""
    scores = np.einsum("bhq,bhqk->bqk", w, np.maximum(np.einsum("bhqd,bkd->bhqk", q, k), 0))
    scores = np.where(visible, scores, -np.inf)
    lists = np.sort(np.argsort(-scores, axis=-1, kind="stable")[..., :topk], axis=-1)
    chosen = np.take_along_axis(scores, lists, -1)
    order = np.argsort(chosen == -np.inf, axis=-1, kind="stable")  # hidden keys last
    lists, chosen = np.take_along_axis(lists, order, -1), np.take_along_axis(chosen, order, -1)
    return np.where(chosen == -np.inf, -1, lists), chosen


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_lists_are_those_of_a_sort(rng, dtype):
    q, k, w = rng.integers(-2, 3, (2, 9, 3, 6)), rng.integers(-2, 3, (2, 50, 6)), rng.integers(-1, 3, (2, 9, 3))
    visible = np.tril(np.ones((9, 50), bool), 41)
    lists, scores = want(q.transpose(0, 2, 1, 3), k, w.transpose(0, 2, 1), 12, visible)
    got = clattn.indexer(q.astype(dtype).transpose(0, 2, 1, 3), k.astype(dtype), w.astype(np.float32).transpose(0, 2, 1), 12,
                         causal="br", return_scores=True)
    assert got[0].dtype == np.int32 and (got[0] == lists).all() and (got[1] == scores).all()
    short = clattn.indexer(q.astype(dtype).transpose(0, 2, 1, 3), k.astype(dtype), w.astype(np.float32).transpose(0, 2, 1), 12,
                           kv_lengths=np.array([7, 50], np.int32))
    assert (short[0, :, 7:] == -1).all() and (short[0, :, :7] == np.arange(7)).all() and (short[1] >= 0).all()


def test_gradients(rng):
    q, k, w = rng.integers(-2, 3, (2, 3, 9, 6)), rng.integers(-2, 3, (2, 50, 6)), rng.integers(-1, 3, (2, 3, 9))
    q, k, w = (x.astype(np.float32) for x in (q, k, w))
    chosen, dscores = rng.integers(-1, 50, (2, 9, 12)).astype(np.int32), rng.integers(-3, 4, (2, 9, 12)).astype(np.float32)
    counts = np.where(chosen < 0, 0, dscores)[:, None]
    keys = k[np.arange(2)[:, None, None], chosen][:, None]
    x = np.einsum("bhqd,bhqnd->bhqn", q, np.broadcast_to(keys, (2, 3, 9, 12, 6)))
    by_key = counts * w[..., None] * (x > 0)
    dk = np.zeros_like(k)
    for b, h, i, n in np.argwhere(by_key != 0):
        dk[b, chosen[b, i, n]] += by_key[b, h, i, n] * q[b, h, i]
    got = clattn.indexer_gradients(q, k, w, chosen, dscores)
    for one, right in zip(got, (np.einsum("bhqn,bhqnd->bhqd", by_key, np.broadcast_to(keys, (2, 3, 9, 12, 6))), dk,
                                (counts * np.maximum(x, 0)).sum(-1))):
        assert one.shape == right.shape and (one == right).all()
    with pytest.raises(clattn.InvalidArgument, match="must be \\(batch, seq_q, topk\\)"):
        clattn.indexer_gradients(q, k, w, chosen[:, :3], dscores)


@pytest.mark.parametrize("change, sentence", [
    (dict(topk=0), "topk"),
    (dict(w=np.zeros((1, 2, 4), np.float32)), "q, k and w must be"),
    (dict(k=np.zeros((1, 5, 8), np.float16)), "of one dtype"),
    (dict(causal="middle"), "causal must be"),
])
def test_what_is_refused(change, sentence):
    given = dict(q=np.zeros((1, 2, 3, 8), np.float32), k=np.zeros((1, 5, 8), np.float32), w=np.zeros((1, 2, 3), np.float32), topk=2)
    with pytest.raises(clattn.InvalidArgument, match=sentence):
        clattn.indexer(**{**given, **change})
