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
    with pytest.raises(clattn.BufferTooSmall, match="lse"):
        plan.execute(q=q, k=k, v=v, o=o, lse=lse[:1])


def test_what_cannot_be_planned_says_why():
    with pytest.raises(clattn.InvalidProblem, match="heads"):
        clattn.Plan("fwd f32 h3/2 q1 d8")
    with pytest.raises(clattn.InvalidProblem, match="nonsense"):
        clattn.Plan("fwd f32 q1 d8 nonsense")
    with pytest.raises(clattn.Unsupported, match="no_family"):
        clattn.Plan("fwd f32 q1 d8", family="no_family")
    with pytest.raises(clattn.NoDevice, match="no such device"):
        clattn.Context("no such device")


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
