"""Whether the gradients that a device computes are right."""
from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Optional, Tuple

from . import _declarations as c
from ._checks import text_or_none, whole_within
from ._library import check, load
from .context import Compiling, Context, given_context
from .plan import parse


@dataclass(frozen=True)
class GradientElement:
    """The worst of the elements that were compared."""

    tensor: Optional[str]
    """ "dq", "dk", "dv", "dbias", "dslopes" or "dsinks"; None if nothing was compared."""
    index: Tuple[int, ...]
    value: float
    expected: float
    ratio: float
    """Their distance over the error that rounding may explain: right up to 1."""


@dataclass(frozen=True)
class GradientReport:
    """What gradient_check() found."""

    right: bool
    family: str
    num_analytic: int
    analytic: GradientElement
    num_differences: int
    difference: GradientElement


def _element(one: c.clattn_gradient_element) -> GradientElement:
    return GradientElement(one.tensor.decode() if one.tensor else None, tuple(one.index), one.value, one.expected, one.ratio)


def gradient_check(problem: str, *, seed: int = 0, family: Optional[str] = None, tunables: Optional[str] = None,
                   context: Optional[Context] = None) -> GradientReport:
    """Computes forward and backward of a problem's text, such as "bwd f32 h2 q64 d32 causal=br", on random data, and
    compares the gradients with what the formulas give in double precision, and these with finite differences of the
    forward formulas. It takes some ten seconds for "bwd f32 h8 q512 d64". `family` and `tunables` force what backward
    is computed by, other seeds give other data."""
    parsed = parse(problem)
    options = c.clattn_plan_options(ctypes.sizeof(c.clattn_plan_options), text_or_none("family", family),
                                    text_or_none("tunables", tunables), 0, 0.0)
    report = c.clattn_gradient_report(struct_size=ctypes.sizeof(c.clattn_gradient_report))
    with Compiling():
        check(load().lib.clattn_gradient_check(given_context(context).handle, ctypes.byref(parsed), ctypes.byref(options),
                                               whole_within("seed", seed, 0, 2 ** 32 - 1), ctypes.byref(report)))
    return GradientReport(bool(report.right), report.family.decode(), report.num_analytic, _element(report.analytic),
                          report.num_differences, _element(report.difference))
