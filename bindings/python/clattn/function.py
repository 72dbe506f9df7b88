# SPDX-License-Identifier: Apache-2.0
"""Functions of the caller's, as clattn/function.h has them: a score of one's own, a mask of one's own."""
from __future__ import annotations

import ctypes
import functools
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from . import _declarations as c
from ._checks import number, text, whole_within
from ._library import load, with_reason
from ._tensors import need_dtype
from ._tracing import Budget, Traced, operand_of, trace
from ._views import View
from .errors import InvalidArgument

_DTYPES = {c.FUNCTION_FLOAT: ("float32",), c.FUNCTION_HALF: ("float16",), c.FUNCTION_BFLOAT: ("bfloat16",),
           c.FUNCTION_INT: ("int32",), c.FUNCTION_CHAR: ("int8",), c.FUNCTION_UCHAR: ("uint8", "bool")}
_MEMBERS = {"b": "batch", "h": "heads", "g": "kv_heads", "q": "seq_q", "k": "seq_kv"}


class Function:
    """A function that function(), score_mod() or mask_mod() made, with what is bound to its operands and parameters.
    Called with arrays and numbers by name it gives one that these are bound to: f(slopes=slopes, window=512). It has its
    `name`, its `source` in OpenCL C, whether it `is_score`, and what was `given`.

    Raises InvalidArgument where it is called with a name that is none of its operands and parameters.
    """

    __slots__ = ("_handle", "is_score", "name", "source", "_operands", "_parameters", "given")

    def __init__(self, name: str, source: str, given: Mapping[str, Any] = {}):
        known = _known(source, name)
        self._handle, self.is_score, self.name, self._operands, self._parameters = known
        self.source, self.given = source, dict(given)

    def __call__(self, **given: Any) -> "Function":
        known = [name for name, *_ in (*self._operands, *self._parameters)]
        for name in given:
            if name not in known:
                raise InvalidArgument(f"{self.name} has no operand or parameter {name}; it has {', '.join(known) or 'none'}")
        return Function(self.name.partition(":")[0], self.source, {**self.given, **given})

    @property
    def operands(self) -> Dict[str, str]:
        """Their extents, by name, in the order of the source."""
        return {name: extents for name, _, extents in self._operands}

    @property
    def parameters(self) -> Dict[str, float]:
        """Their values, by name: those that were given, else the source's."""
        return {name: self.given.get(name, value) for name, _, value in self._parameters}

    def __repr__(self) -> str:
        return f"<clattn.Function {self.name}>"


_Known = Tuple[int, bool, str, List[Tuple[str, int, str]], List[Tuple[str, bool, float]]]


@functools.lru_cache(maxsize=4096)
def _known(source: str, name: str) -> _Known:
    """The library's function, and what it says of it."""
    lib, handle = load().lib, ctypes.c_void_p()
    with_reason(lib.clattn_function_create, text("name", name), text("source", source), ctypes.byref(handle))
    operands: List[Tuple[str, int, str]] = []
    parameters: List[Tuple[str, bool, float]] = []
    operand = c.clattn_function_operand(struct_size=ctypes.sizeof(c.clattn_function_operand))
    while not lib.clattn_function_get_operand(handle, len(operands), ctypes.byref(operand)) and operand.name:
        operands.append((operand.name.decode(), operand.type, (operand.extents or b"").decode()))
    parameter = c.clattn_function_parameter(struct_size=ctypes.sizeof(c.clattn_function_parameter))
    while not lib.clattn_function_get_parameter(handle, len(parameters), ctypes.byref(parameter)) and parameter.name:
        value = parameter.float_value if parameter.is_float else parameter.int_value
        parameters.append((parameter.name.decode(), bool(parameter.is_float), value))
    return (handle.value or 0, lib.clattn_function_kind_of(handle) == c.SCORE_FUNCTION,
            lib.clattn_function_name(handle).decode(), operands, parameters)


def function(source: Optional[str] = None, name: str = "function") -> Function:
    """A function of OpenCL C, which defines `float score(float s, pair p, operands o)` or `bool visible(pair p, operands o)`;
    clattn/function.h describes it. attention() takes it as score_mod or mask_mod.

    source        the text; None, the default: that of a function that comes with the library, or of a file
    name          for messages and problem texts, "function" by default; without a source the name of a function that comes with
                  the library, such as "t5", or the path of a file

    Raises InvalidProblem, with the line, for a source that defines neither, and FileError where there is neither such a
    function nor such a file. A source that does not compile fails a plan's making: BuildFailed.
    """
    if source is None:
        lib, handle = load().lib, ctypes.c_void_p()
        with_reason(lib.clattn_function_read, text("name", name), ctypes.byref(handle))
        source = lib.clattn_function_source(handle).decode()
    return Function(name, source)


def score_mod(f: Callable[..., Any], *, shape: Optional[Sequence[int]] = None) -> Function:
    """The function of f(s, b, h, q, kv), which is called once, with numbers that remember what is computed with them:
    operators, comparisons, & | ~, and functions of NumPy or PyTorch, such as where, minimum, maximum, abs, exp, log, tanh,
    sqrt and floor. Arrays that f finds in variables become operands, numbers there parameters; its derivative is derived.

    f             a function of Python: a score, batch, query head, query and key; it returns the score
    shape         (batch, heads, seq_q, seq_kv) of problems that it is for: arrays as long as these keep their source for other
                  lengths; None by default

    attention(score_mod=f) does the same at each call.

    Raises InvalidArgument where f is no function or computes what cannot be traced.
    """
    return of_callable(f, True, _sizes(shape), Budget())


def mask_mod(f: Callable[..., Any], *, shape: Optional[Sequence[int]] = None) -> Function:
    """The same of f(b, h, q, kv), which says whether a query sees a key.

    f             a function of Python: batch, query head, query and key; it returns a truth value
    shape         as in score_mod()

    Raises InvalidArgument where f is no function or computes what cannot be traced.
    """
    return of_callable(f, False, _sizes(shape), Budget())


def _sizes(shape: Optional[Sequence[int]]) -> Dict[str, int]:
    if shape is None:
        return {}
    if not isinstance(shape, (tuple, list)) or len(shape) != 4:
        raise InvalidArgument(f"shape must be (batch, heads, seq_q, seq_kv), not {shape!r}")
    return dict(zip("bhqk", shape))


def of_callable(f: Any, is_score: bool, sizes: Mapping[str, int], budget: Budget) -> Function:
    if not callable(f):
        raise InvalidArgument(f"{'score_mod' if is_score else 'mask_mod'} must be a function, not {type(f).__name__}")
    traced: Traced = trace(f, is_score, sizes, budget)
    return Function(traced.name, traced.source, traced.given)


def gradient_place(problem: c.clattn_problem, n: int) -> int:
    """The elements before operand n's in the gradients of operands; of all, if there are not so many."""
    place: int = load().lib.clattn_problem_function_gradient(ctypes.byref(problem), n)
    return place


class Functions:
    """Those of a problem, whose members they become. `views` are their operands, by the members of structs of tensors."""

    def __init__(self, problem: c.clattn_problem, score: Any, mask: Any):
        sizes, budget = {letter: getattr(problem, _MEMBERS[letter]) for letter in "bhqk"}, Budget()
        self.all: List[Function] = []
        for given, is_score in ((score, True), (mask, False)):
            if given is None:
                continue
            one = given if isinstance(given, Function) else of_callable(given, is_score, sizes, budget)
            said = "score_mod" if is_score else "mask_mod"
            if one.is_score != is_score:
                raise InvalidArgument(f"{said} is {one.name}, which is of the other kind")
            setattr(problem, "score_function" if is_score else "mask_function", one._handle)
            self.all.append(one)
        self._problem = problem

    def with_others(self, score: Any, mask: Any, of: Callable[[], str]) -> "Functions":
        """The same functions with the arrays and numbers of score and mask, where these are given; of(): the plan's text."""
        if score is None and mask is None:
            return self
        problem, own = c.clattn_problem.from_buffer_copy(self._problem), {one.is_score: one for one in self.all}
        made = Functions(problem, score or own.get(True), mask or own.get(False))
        if bytes(problem) != bytes(self._problem):
            raise InvalidArgument(f"score_mod or mask_mod is of another source than in '{of()}'")
        return made

    def views(self) -> Dict[str, View]:
        found: Dict[str, View] = {}
        for one in self.all:
            for name, kind, extents in one._operands:
                if name not in one.given:
                    raise InvalidArgument(f"{one.name} has an operand {name}, which is not given: bind it by calling the function")
                made = operand_of(name, one.given[name])
                need_dtype(made, _DTYPES[kind])
                made.need_contiguous()
                sizes = [getattr(self._problem, _MEMBERS[extent]) if extent in _MEMBERS else int(extent)
                         for extent in re.findall(r"\[(\w+)\]", extents)]
                have, want = functools.reduce(int.__mul__, made.shape, 1), functools.reduce(int.__mul__, sizes, 1)
                if have != want:
                    raise InvalidArgument(f"{name} is of shape {made.shape}, but {one.name} has {extents} of it, which is "
                                          f"{'x'.join(map(str, sizes))} in this problem")
                found[f"function_{len(found)}"] = made
        return found

    def parts(self, gradients: Any) -> Dict[str, Any]:
        """The gradients of the score function's operands, by name, in shape of these, of all of them in one array."""
        score, found = self.all[0], {}
        for n, (name, kind, _) in enumerate(score._operands):
            if kind in (c.FUNCTION_FLOAT, c.FUNCTION_HALF, c.FUNCTION_BFLOAT):
                first, end = gradient_place(self._problem, n), gradient_place(self._problem, n + 1)
                found[name] = gradients[first:end].reshape(tuple(score.given[name].shape))
        return found

    def values(self) -> Optional[c.clattn_function_values]:
        """None where there is no parameter."""
        made = c.clattn_function_values()
        ints = floats = 0
        for one in self.all:
            for name, is_float, value in one._parameters:
                value = one.given.get(name, value)
                if is_float:
                    made.floats[floats] = number(name, value)
                    floats += 1
                else:
                    made.ints[ints] = whole_within(name, value, -2 ** 31, 2 ** 31 - 1)
                    ints += 1
        return made if ints or floats else None
