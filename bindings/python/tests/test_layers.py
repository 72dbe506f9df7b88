# SPDX-License-Identifier: Apache-2.0
"""Multi-head layers, caches that fill, tuning."""
import clattn
import numpy as np
import pytest
from conftest import reference

LAYER = "f32 b2 h4 q5 k5 d16 model=24 biases obias training"


def test_a_layer_forward_and_backward(rng):
    layer, back = clattn.Multihead("layer fwd " + LAYER), clattn.Multihead("layer bwd " + LAYER)
    assert layer.info["num_steps"] == len(layer.info["steps"].strip().split("\n"))
    x, dy = (rng.normal(size=(2, 5, 24)).astype(np.float32) for _ in range(2))
    p = {f"w_{n}": rng.normal(size=(64, 24)).astype(np.float32) * 0.2 for n in "qkv"}
    p.update({f"b_{n}": rng.normal(size=64).astype(np.float32) for n in "qkv"})
    p.update(w_o=rng.normal(size=(24, 64)).astype(np.float32) * 0.2, b_o=rng.normal(size=24).astype(np.float32))

    def expected(x, p):
        heads = [(x @ p["w_" + n].T + p["b_" + n]).reshape(2, 5, 4, 16).transpose(0, 2, 1, 3) for n in "qkv"]
        return reference(*heads)[0].transpose(0, 2, 1, 3).reshape(2, 5, 64) @ p["w_o"].T + p["b_o"]

    y = np.empty((2, 5, 24), np.float32)
    reserve = np.empty(layer.info["reserve_bytes"] // 4, np.float32)
    layer.execute(x=x, y=y, reserve=reserve, **p)
    np.testing.assert_allclose(y, expected(x, p), atol=2e-5)

    dx, gradients = np.empty_like(x), {"d" + name: np.empty_like(value) for name, value in p.items()}
    back.execute(x=x, dy=dy, dx=dx, reserve=reserve, **p, **gradients)
    x64, p64 = x.astype(float), {name: value.astype(float) for name, value in p.items()}
    for name, gradient in [("x", dx)] + [(name, gradients["d" + name]) for name in p]:
        step = rng.normal(size=gradient.shape)
        ahead, behind = ((expected(x64 + s * step, p64) if name == "x" else
                          expected(x64, {**p64, name: p64[name] + s * step})) for s in (1e-5, -1e-5))
        assert (gradient * step).sum() == pytest.approx(((ahead - behind) * dy).sum() / 2e-5, rel=1e-3, abs=1e-3)
    for change, names in ((dict(w_q=None), "w_q"), (dict(w_q=p["w_q"].T.copy()), "w_q is of shape .24, 64., but of .64, 24."),
                          (dict(x=x.transpose(1, 0, 2)), "x is of shape"), (dict(x=x.astype(float)), "x is of dtype float64, not float32"),
                          (dict(dropout_seed="a"), "dropout_seed must")):
        with pytest.raises(clattn.InvalidArgument, match=names):
            layer.execute(**{**dict(x=x, y=y, reserve=reserve), **p, **change})
    with pytest.raises(clattn.InvalidArgument, match="dw_k is of shape"):
        back.execute(x=x, dy=dy, dx=dx, reserve=reserve, **p, **{**gradients, "dw_k": gradients["dw_k"][:3]})
    with pytest.raises(clattn.InvalidArgument, match="layer must be a text"):
        clattn.Multihead(None)


def test_a_layer_with_a_function_and_its_gradient(rng):
    text = "f32 b2 h4 q5 k5 d16 model=24 packed training "
    x, dy = (rng.normal(size=(2, 5, 24)).astype(np.float32) for _ in range(2))
    p = dict(w_q=rng.normal(size=(192, 24)).astype(np.float32) * 0.2, w_o=rng.normal(size=(24, 64)).astype(np.float32) * 0.2)
    slopes, found = np.array([0.5, 0.25, 0.1, 0.0], np.float32), []
    for option, gradient, name, dname in (("alibi", "dslopes", "slopes", "dslopes"),
                                          ("score=alibi", "dfunction", "function_0", "dfunction")):
        layer = clattn.Multihead("layer fwd " + text + option)
        back = clattn.Multihead("layer bwd " + text + f"{option} {gradient}")
        y, dx, dslopes = np.empty_like(x), np.empty_like(x), np.empty_like(slopes)
        reserve = np.empty(layer.info["reserve_bytes"] // 4, np.float32)
        layer.execute(x=x, y=y, reserve=reserve, **p, **{name: slopes})
        back.execute(x=x, dy=dy, dx=dx, reserve=reserve, **p, **{name: slopes, dname: dslopes})
        found.append((y, dx, dslopes))
    f = clattn.score_mod(lambda s, b, h, i, j: s + slopes[h] * (j - i), shape=(2, 4, 5, 5))
    y, dx, dslopes = np.empty_like(x), np.empty_like(x), np.empty_like(slopes)
    layer = clattn.Multihead("layer fwd " + text, score_mod=f(**{name: 0 * slopes for name in f.operands}))
    layer.execute(x=x, y=y, reserve=reserve, score_mod=f, **p)
    back = clattn.Multihead("layer bwd " + text + f"score={f.name} dfunction", score_mod=f)
    back.execute(x=x, dy=dy, dx=dx, reserve=reserve, dfunction=dslopes, **p)
    found.append((y, dx, dslopes))
    for each in zip(*found):
        for other in each[1:]:
            np.testing.assert_allclose(each[0], other, rtol=1e-4, atol=1e-5)
    with pytest.raises(clattn.InvalidArgument, match="of another source than in 'layer fwd"):
        layer.execute(x=x, y=y, reserve=reserve, score_mod=lambda s, b, h, i, j: s - j, **p)


def test_a_layer_with_a_mask_and_parameters(rng):
    x, y = rng.normal(size=(2, 5, 24)).astype(np.float32), np.empty((2, 5, 24), np.float32)
    p = dict(w_q=rng.normal(size=(192, 24)).astype(np.float32) * 0.2, w_o=rng.normal(size=(24, 64)).astype(np.float32) * 0.2)
    window = clattn.function(name="sliding_window")
    layer = clattn.Multihead("layer fwd f32 b2 h4 q5 k5 d16 model=24 packed", mask_mod=window(window=2))
    for width in (2, 3):
        layer.execute(x=x, y=y, mask_mod=window(window=width), **p)
        q, k, v = (x @ w.T for w in p["w_q"].reshape(3, 64, 24))
        heads = [one.reshape(2, 5, 4, 16).transpose(0, 2, 1, 3) for one in (q, k, v)]
        seen = np.tri(5, dtype=bool) & ~np.tri(5, k=-width, dtype=bool)
        o = reference(*heads, visible=seen)[0].transpose(0, 2, 1, 3).reshape(2, 5, 64)
        np.testing.assert_allclose(y, o @ p["w_o"].T, atol=2e-5)


def test_a_cache_that_fills_has_one_plan(rng):
    """Decoding: rows are appended where lengths say, and attention sees as many."""
    k_cache, v_cache = np.zeros((2, 2, 2, 8, 16), np.float16)
    lengths = np.array([3, 0], np.int32)
    append = clattn.Plan("append f32 b2 h2 q1 k8 d16 cache=f16 klen")
    keys, values = [], []
    for _ in range(3):
        q, k, v = (rng.normal(size=(2, heads, 1, 16)).astype(np.float32) for heads in (4, 2, 2))
        append.execute(k=k, v=v, k_cache=k_cache, v_cache=v_cache, kv_lengths=lengths)
        lengths += 1
        o = clattn.attention(q, k_cache, v_cache, kv_lengths=lengths)
        builds = clattn.default_context().builds if not keys else builds
        keys.append(k[1]), values.append(v[1])
        want = reference(q[1:], np.concatenate(keys, 1)[None], np.concatenate(values, 1)[None])[0]
        np.testing.assert_allclose(o[1:], want, atol=3e-3)
    assert clattn.default_context().builds == builds and lengths.tolist() == [6, 3]
    assert (k_cache[1, :, 3:] == 0).all()


def test_tuning_is_kept_and_its_observer_may_end_it(tmp_path):
    context = clattn.Context(cache_directory=str(tmp_path))
    problem = "fwd f32 h4/2 q5 k9 d16"
    assert clattn.tune(problem, evaluations=1, context=context) == 1
    assert clattn.tune(problem, evaluations=1, context=context) == 0  # the store knows it
    seen = []

    def progress(state):
        seen.append(state.configuration)
        return True

    clattn.tune(problem, evaluations=9, again=True, progress=progress, context=context)
    assert len(seen) == 1

    def fails(state):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        clattn.tune(problem, evaluations=1, again=True, progress=fails, context=context)
    with pytest.raises(clattn.InvalidProblem):
        clattn.tune("fwd nonsense", context=context)
    for options in (dict(strategy="luck"), dict(strategy=5), dict(evaluations=-1), dict(evaluations="a"), dict(seed=-1),
                    dict(seconds="a"), dict(progress=5), dict(problems=None), dict(problems=np.array(problem)), dict(context="cpu")):
        with pytest.raises(clattn.InvalidArgument, match=next(iter(options))):
            clattn.tune(**{**dict(problems=problem, again=True, context=context), **options})
