# SPDX-License-Identifier: Apache-2.0
"""Python functions of scores and masks as OpenCL C: they are called once with expressions for their arguments.

Numbers that the function finds in variables of its own or of its module become parameters, arrays there become
operands. So the source is the same for other values, and nothing is compiled for them.
"""
from __future__ import annotations

import contextlib
import math
import re
import sys
import types
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from . import _declarations as c
from ._expressions import BOOL, FLOAT, INT, Expression, Table, Trace, as_bool, as_float, below, derivative, where
from ._views import View, view
from .errors import Error, InvalidArgument

_PAIR = {"b": "p.batch", "h": "p.head", "q": "p.query", "k": "p.key"}
_WORDS = {"float32": "float", "float16": "half", "bfloat16": "bfloat", "int32": "int", "int8": "char", "uint8": "uchar", "bool": "uchar"}
_INFIX = frozenset(("+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^", "<<", ">>"))


class Traced(NamedTuple):
    """A source, and what it was traced with: arrays by the operands' names, numbers by the parameters'."""

    name: str
    source: str
    given: Dict[str, Any]


class Budget:
    """Parameters of each type that the functions of one problem may still have."""

    def __init__(self) -> None:
        self.left = {INT: c.FUNCTION_PARAMETERS, FLOAT: c.FUNCTION_PARAMETERS}


class _Operand(NamedTuple):
    name: str
    array: Any  # as the caller has it
    word: str
    extents: str


class _Inputs:
    """What a function reads besides its arguments."""

    def __init__(self, sizes: Mapping[str, int], budget: Budget):
        self.sizes, self.budget = sizes, budget
        self.trace = Trace(self.load, self.scalar)
        self.pair = {letter: self.trace.make("leaf", INT, text=text, low=True) for letter, text in _PAIR.items()}
        self.operands: Dict[Any, _Operand] = {}
        self.parameters: Dict[str, Tuple[str, Any]] = {}
        self.names: Dict[int, str] = {}  # of arrays, as the function calls them
        self.scalars: Dict[int, Tuple[Any, Any]] = {}

    def _name(self, wanted: str) -> str:
        base = "u_" + re.sub(r"[^A-Za-z0-9_]", "_", wanted)[:24]
        taken = {one.name for one in self.operands.values()} | set(self.parameters)
        name, n = base, 1
        while name in taken:
            n += 1
            name = f"{base}_{n}"
        return name

    def parameter(self, wanted: str, value: Any) -> Optional[Expression]:
        """A number that may change; None if it is to be a part of the source."""
        kind = INT if isinstance(value, (int, np.integer)) else FLOAT
        if isinstance(value, (bool, np.bool_)) or self.budget.left[kind] == 0:
            return None
        if not math.isfinite(value) or (kind == INT and not -2 ** 31 <= value < 2 ** 31):
            return None
        self.budget.left[kind] -= 1
        name = self._name(wanted)
        self.parameters[name] = kind, value
        return self.trace.make("leaf", kind, text=f"o.{name}")

    def scalar(self, array: Any) -> Any:
        """An array without axes: an operand where it needs a gradient or lies on a device, else a number."""
        if getattr(array, "requires_grad", False) or hasattr(array, "base_data"):
            return self.load(array, ())
        known = self.scalars.get(id(array))
        if known is None:
            value = array.item()
            made = self.parameter(self.names.get(id(array), "scalar"), value)
            known = self.scalars[id(array)] = array, value if made is None else made  # the array, so that its id stays its own
        return known[1]

    def load(self, array: Any, indices: Tuple[Any, ...]) -> Expression:
        """The element of an array: by the pair where it is indexed with what the pair is, else by its number."""
        word = _WORDS.get(_stored(array))
        if word is None:
            raise InvalidArgument(f"{self._called(array)} is of dtype {array.dtype}, which functions of scores cannot read")
        shape = tuple(array.shape)
        if math.prod(shape) >= 2 ** 31 or 0 in shape:
            raise InvalidArgument(f"{self._called(array)} is of shape {shape}; a function of scores reads 1 to 2^31 - 1 elements")
        places = [self._index(array, one) for one in indices]
        letters = [self._letter(place, extent) for place, extent in zip(places, shape)]
        by_pair = bool(letters) and None not in letters and len(set(letters)) == len(letters)
        extents = [letter if letter and (by_pair or n == 0) else str(extent) for n, (letter, extent) in enumerate(zip(letters, shape))]
        text = "".join(f"[{one}]" for one in extents) or "[1]"
        operand = self.operands.get((id(array), text))
        if operand is None:
            operand = self.operands[id(array), text] = _Operand(self._name(self.names.get(id(array), "array")), array, word, text)
        if by_pair:
            return self._element(operand, f"{operand.name}_of(o, p)")
        number: Optional[Expression] = None
        for place, letter, extent in zip(places, letters, shape):
            place = place if letter else _within(place, extent)
            number = place if number is None else number * extent + place
        return self._element(operand, f"{operand.name}_at(o, {{0}})", self.trace.lift(0) if number is None else number)

    def _element(self, operand: _Operand, text: str, *number: Expression) -> Expression:
        kind = FLOAT if operand.word in ("float", "half", "bfloat") else INT
        low = operand.word == "uchar"
        made = self.trace.make("load", kind, *number, text=text, low=low)
        return as_bool(made) if "bool" in str(operand.array.dtype) else made

    def _called(self, array: Any) -> str:
        name = self.names.get(id(array))
        return "an array" if name is None else name

    def _index(self, array: Any, index: Any) -> Expression:
        if not isinstance(index, (int, np.integer, Expression, Table)) and not (hasattr(index, "shape") and not tuple(index.shape)):
            raise InvalidArgument(f"{self._called(array)} is indexed with {type(index).__name__}; a function of scores indexes each "
                                  "axis with a number")
        made = self.trace.lift(index)
        if made.kind == FLOAT:
            raise InvalidArgument(f"{self._called(array)} is indexed with a floating-point number")
        return made

    def _letter(self, place: Expression, extent: int) -> Optional[str]:
        """Of an index that is one of the pair's own, where the array has as many elements as the problem."""
        for letter, one in self.pair.items():
            if place is one and self.sizes.get(letter) == extent:
                return letter
        return None


def _stored(array: Any) -> str:
    """The dtype in which an array becomes an operand: 64 bits become 32."""
    name = str(getattr(array, "dtype", "")).replace("torch.", "")
    return {"float64": "float32", "int64": "int32", "uint64": "int32", "uint32": "int32", "int16": "int32", "uint16": "int32"}.get(name, name)


def _within(place: Expression, extent: int) -> Expression:
    """An index as Python counts, from the end if negative; beyond the ends it is that of the nearest element."""
    if place.operation == "constant":
        value = int(place.text.strip("()").split(" ")[0])
        if not -extent <= value < extent:
            raise InvalidArgument(f"index {value} is out of bounds for an axis of {extent}")
        return place.trace.lift(value % extent)
    if not place.low:
        place = where(place < 0, place + extent, place)
        place = where(place < 0, 0, place)
    return where(place < extent, place, extent - 1)


def operand_of(name: str, array: Any) -> View:
    """An array as an operand is given: packed, in a dtype that functions read. A copy where it is not so."""
    if hasattr(array, "base_data"):  # pyopencl's
        return view(name, array)
    torch = sys.modules.get("torch")
    wanted = _stored(array)
    if torch is not None and isinstance(array, torch.Tensor):
        array = array.detach()
        if wanted == "int32" and array.dtype == torch.int64 and array.numel():
            _need_32_bits(name, int(array.min()), int(array.max()))
        array = array.to(getattr(torch, wanted)).contiguous()
    else:
        array = np.asarray(array)
        if wanted == "int32" and array.dtype != np.int32 and array.size:
            _need_32_bits(name, int(array.min()), int(array.max()))
        if str(array.dtype) != wanted:
            array = array.astype(wanted)
        array = np.ascontiguousarray(array)
    return view(name, array)


def _need_32_bits(name: str, least: int, most: int) -> None:
    if least < -2 ** 31 or most >= 2 ** 31:
        raise InvalidArgument(f"{name} has numbers that 32 bits do not hold")


# ---- calling a function with expressions ---------------------------------------------------------


class _Substitution:
    """Copies of functions that find expressions where they had numbers, and tables where they had arrays."""

    def __init__(self, inputs: _Inputs, numbers: bool):
        self.inputs, self.numbers = inputs, numbers
        self.made: Dict[int, Any] = {}
        self.kept: List[Any] = []  # whose ids are keys

    def of(self, name: str, value: Any, module: Optional[Dict[str, Any]] = None) -> Any:
        if isinstance(value, (tuple, list)) and value and all(isinstance(one, types.FunctionType) for one in value):
            return type(value)(self.of(name, one) for one in value)
        if isinstance(value, types.FunctionType):
            return self.function(value) if module is None or value.__globals__ is module else value
        if isinstance(value, np.ndarray) or _is_device_array(value):
            self.inputs.names.setdefault(id(value), name)
            return Table(self.inputs.trace, value)
        if _is_tensor(value):
            self.inputs.names.setdefault(id(value), name)
            return value
        if self.numbers and isinstance(value, (int, float, np.integer, np.floating)):
            found = self.inputs.parameter(name, value)
            return value if found is None else found
        return value

    def function(self, function: types.FunctionType) -> Any:
        if id(function) in self.made:
            return self.made[id(function)]
        module = function.__globals__
        names = _names_in(function.__code__)
        own = {"__builtins__": module.get("__builtins__", __builtins__)}
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        copy = types.FunctionType(function.__code__, own, function.__name__, None, cells)
        self.made[id(function)] = copy
        self.kept.append(function)
        own.update({name: self.of(name, module[name], module) for name in names if name in module})
        for name, cell, old in zip(function.__code__.co_freevars, cells, function.__closure__ or ()):
            with contextlib.suppress(ValueError):  # of a cell that is empty yet
                cell.cell_contents = self.of(name, old.cell_contents)
        arguments = function.__code__.co_varnames[:function.__code__.co_argcount]
        defaults = function.__defaults__ or ()
        copy.__defaults__ = tuple(self.of(name, value) for name, value in zip(arguments[len(arguments) - len(defaults):], defaults))
        copy.__kwdefaults__ = {name: self.of(name, value) for name, value in (function.__kwdefaults__ or {}).items()}
        return copy


def _names_in(code: Any) -> List[str]:
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _names_in(constant)
    return list(dict.fromkeys(names))


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_device_array(value: Any) -> bool:
    module = sys.modules.get("pyopencl.array")
    return module is not None and isinstance(value, module.Array)


def _watching_tensors() -> Any:
    """Has tensors that are indexed with expressions give expressions."""
    torch = sys.modules.get("torch")
    if torch is None:
        return contextlib.nullcontext()

    class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[name-defined,unused-ignore]
        def __torch_function__(self, function: Any, types: Any, arguments: Tuple[Any, ...] = (), named: Any = None) -> Any:
            from ._expressions import apply

            if any(isinstance(one, (Expression, Table)) for one in _each(arguments, named or {})):
                return apply(function, arguments, named or {})
            return function(*arguments, **(named or {}))

    return Mode()


def _each(arguments: Tuple[Any, ...], named: Mapping[str, Any]) -> Iterator[Any]:
    for one in (*arguments, *named.values()):
        if isinstance(one, (tuple, list)):
            yield from one
        else:
            yield one


def _called_with(function: Any, inputs: _Inputs, arguments: List[Expression], numbers: bool) -> Expression:
    substitution = _Substitution(inputs, numbers)
    call = substitution.of("function", function)
    with _watching_tensors():
        return inputs.trace.lift(call(*arguments))


def trace(function: Callable[..., Any], is_score: bool, sizes: Mapping[str, int], budget: Budget) -> Traced:
    """The source of score(s, b, h, q, kv), or of visible(b, h, q, kv), for a problem of the sizes b, h, q and k as far as
    they are known. Numbers in variables become parameters, or where the function chooses by them a part of the source."""
    failure: Optional[Exception] = None
    for numbers in (True, False):
        before = dict(budget.left)
        inputs = _Inputs(sizes, budget)
        s = inputs.trace.make("leaf", FLOAT, text="s")
        arguments = [s] * is_score + list(inputs.pair.values())
        try:
            result = _called_with(function, inputs, arguments, numbers)
            break
        except Exception as error:
            failure = error
            budget.left = before
    else:
        if isinstance(failure, Error):
            raise failure
        raise InvalidArgument(f"{_name_of(function)} cannot be traced: {failure}") from failure
    if not is_score:
        bodies = [("bool visible(pair p, operands o)", as_bool(result))]
    else:
        result = as_float(result)
        bodies = [("float score(float s, pair p, operands o)", result),
                  ("float score_derivative(float s, pair p, operands o)", derivative(result, s))]
    given = {**{one.name: one.array for one in inputs.operands.values()},
             **{name: value for name, (_, value) in inputs.parameters.items()}}
    return Traced(_name_of(function), _written(inputs, bodies), given)


def _name_of(function: Any) -> str:
    return re.sub(r"[^A-Za-z0-9_.]", "", getattr(function, "__name__", type(function).__name__))[:100] or "function"


# ---- writing -------------------------------------------------------------------------------------


def _written(inputs: _Inputs, bodies: List[Tuple[str, Expression]]) -> str:
    lines = [f"#pragma clattn operand {one.word} {one.name}{one.extents}" for one in inputs.operands.values()]
    # of 1, which self-checks of the kernels take: functions divide by parameters
    lines += [f"#pragma clattn parameter {kind} {name} = 1" for name, (kind, _) in inputs.parameters.items()]
    for head, result in bodies:
        names: Dict[int, str] = {}
        lines += [head, "{"]
        written = 0
        for one in below(result):
            names[one.number] = text = _text(one, [names[x.number] for x in one.operands])
            if one.operation not in ("leaf", "constant"):
                names[one.number] = f"x{written}"
                lines.append(f"    {'float' if one.kind == FLOAT else 'int'} x{written} = {text};")
                written += 1
        lines += [f"    return {names[result.number]}{' != 0' if result.kind == BOOL else ''};", "}"]
    return "\n".join(lines) + "\n"


def _text(one: Expression, operands: List[str]) -> str:
    if one.operation in ("leaf", "constant"):
        return one.text
    if one.operation == "load":
        return one.text.format(*operands)
    if one.operation in _INFIX:
        return f"{operands[0]} {one.operation} {operands[1]}"
    if one.operation == "?":
        return "{} ? {} : {}".format(*operands)
    if one.operation in ("!", "~"):
        return one.operation + operands[0]
    if one.operation == "negative":
        return "-" + operands[0]
    if one.operation in ("float", "int"):
        return f"({one.operation}){operands[0]}"
    return f"{one.operation}({', '.join(operands)})"
