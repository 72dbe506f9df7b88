# SPDX-License-Identifier: Apache-2.0
"""24: scores and masks of one's own, in Python. T5's relative positions, documents in a packed row and a learned
temperature, each a line or two, are compiled into the kernels, and NumPy computes the same in double precision."""
import math

import clattn
import numpy as np

HEADS, SEQ, DIM, BUCKETS, FARTHEST = 4, 96, 32, 16, 64

rng = np.random.default_rng(0)
q, k, v, d_o = rng.normal(size=(4, 1, HEADS, SEQ, DIM)).astype(np.float32)
biases = rng.normal(size=(HEADS, 2 * BUCKETS)).astype(np.float32)   # of T5: for each head, of buckets of distances
document = np.repeat([0, 1, 2], [20, 50, 26])                       # of each position of the row
temperature = np.array([1.0, 0.8, 0.5, 0.25], np.float32)           # of each head


def t5(s, b, h, i, j):
    """Buckets of T5's encoder: one for each short distance, for long ones their logarithm."""
    distance, exact = abs(j - i), BUCKETS // 2
    far = exact + np.floor(np.log(np.maximum(distance, 1) / exact) * ((BUCKETS - exact) / math.log(FARTHEST / exact)))
    bucket = np.where(distance < exact, distance, np.minimum(far, BUCKETS - 1).astype(np.int32))
    return s + biases[h, np.where(j > i, bucket + BUCKETS, bucket)]


def sharpened(s, b, h, i, j):
    return t5(s, b, h, i, j) / temperature[h]


def same_document(b, h, i, j):
    return document[i] == document[j]


def by_numpy(q, k, v):
    """The formula, with the same functions on whole arrays."""
    s = np.einsum("bhid,bhjd->bhij", q, k, dtype=np.float64) / math.sqrt(DIM)
    pairs = np.ogrid[:1, :HEADS, :SEQ, :SEQ]
    s = np.where(same_document(*pairs), sharpened(s, *pairs), -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def main():
    options = dict(score_mod=sharpened, mask_mod=same_document)
    o, lse = clattn.attention(q, k, v, return_lse=True, **options)
    worst = np.abs(o - by_numpy(q, k, v)).max()
    print(clattn.score_mod(sharpened).source)
    print(f"no element differs from NumPy's by more than {worst:.1e}")

    # Gradients: the derivative of the score was derived from its expression.
    dq, dk, dv, learned = clattn.attention_backward(d_o, q, k, v, o, lse, gradients=["score_mod"], **options)
    step = rng.normal(size=q.shape) * 1e-4
    difference = ((by_numpy(q + step, k, v) - by_numpy(q - step, k, v)) * d_o).sum() / 2
    print(f"a step along q changes the loss by {difference:.4e}, and its gradient says {(dq * step).sum():.4e}")

    # What the function reads has gradients, too.
    before = by_numpy(q, k, v)
    along = (1e-3 * rng.normal(size=biases.shape)).astype(np.float32)
    biases[:] += along
    change, said = ((by_numpy(q, k, v) - before) * d_o).sum(), (learned["u_biases"] * along).sum()
    print(f"a step along the biases changes it by {change:.4e}, and their gradient says {said:.4e}")
    assert abs(change - said) < 2e-2 * abs(change) + 1e-4

    # Other values of what the functions read compile nothing.
    builds = clattn.default_context().builds
    biases[:], document[:] = 0, 1
    clattn.attention(q, k, v, return_lse=True, **options)
    assert clattn.default_context().builds == builds
    assert worst < 1e-4 and abs(difference - (dq * step).sum()) < 1e-2 * abs(difference) + 1e-6


if __name__ == "__main__":
    main()
