# SPDX-License-Identifier: Apache-2.0
"""What a Python function of scores or masks sees when it is traced: numbers that remember how they were computed.

Every operation makes an Expression, which belongs to a Trace and is made once for equal operands. derivative() derives
them with respect to the score, and _source.py writes them as OpenCL C.
"""
from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from .errors import InvalidArgument

FLOAT, INT, BOOL = "float", "int", "bool"


class Trace:
    """The expressions of one function, in the order in which they were made, and what they read."""

    def __init__(self, load: Callable[[Any, Tuple[Any, ...]], "Expression"], scalar: Callable[[Any], Any]):
        self.made: Dict[Any, Expression] = {}
        self.load = load  # the element of an array at indices
        self.scalar = scalar  # what an array without axes stands for

    def make(self, operation: str, kind: str, *operands: "Expression", text: str = "", low: bool = False) -> "Expression":
        key = (operation, kind, text, *map(id, operands))
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = Expression(self, len(self.made), operation, kind, operands, text, low)
        return found

    def constant(self, value: Any) -> "Expression":
        if isinstance(value, (bool, np.bool_)):
            return self.make("constant", BOOL, text=str(int(value)), low=True)
        if isinstance(value, (int, np.integer)):
            if not -2 ** 31 <= value < 2 ** 31:
                raise InvalidArgument(f"a function of scores has the number {value}, which 32 bits do not hold")
            text = str(int(value)) if value > -2 ** 31 else "(-2147483647 - 1)"
            return self.make("constant", INT, text=f"({text})" if value < 0 else text, low=bool(value >= 0))
        single = float(np.float32(value))
        if not math.isfinite(single):
            return self.make("constant", FLOAT, text="NAN" if single != single else "INFINITY" if single > 0 else "(-INFINITY)")
        text = format(single, ".9g")
        text += "f" if set(text) & set(".e") else ".0f"
        return self.make("constant", FLOAT, text=f"({text})" if single < 0 else text, low=single >= 0)

    def lift(self, value: Any) -> "Expression":
        """A number, an array without axes or an expression as an expression."""
        if isinstance(value, Expression):
            if value.trace is not self:
                raise InvalidArgument("a traced number was kept beyond the function that it was given to")
            return value
        if isinstance(value, Table):
            return value.whole()
        if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic):
            if tuple(value.shape):
                raise InvalidArgument(f"an array of shape {tuple(value.shape)} is used without an index for each axis")
            value = self.scalar(value)
            return self.constant(value) if not isinstance(value, Expression) else value
        if isinstance(value, (bool, int, float, np.generic)):
            return self.constant(value)
        raise InvalidArgument(f"a function of scores computes with {type(value).__name__}, which cannot be traced")


class Table:
    """An array that a function indexes, some axes of which may have their indices already."""

    def __init__(self, trace: Trace, array: Any, indices: Tuple[Any, ...] = ()):
        self.trace, self.array, self.indices = trace, array, indices

    @property
    def shape(self) -> Tuple[int, ...]:
        return tuple(self.array.shape)[len(self.indices):]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def size(self, axis: Optional[int] = None) -> Any:
        return self.shape if axis is None else self.shape[axis]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        indices = self.indices + (index if isinstance(index, tuple) else (index,))
        if len(indices) > len(self.array.shape):
            raise InvalidArgument(f"an array of shape {tuple(self.array.shape)} is given {len(indices)} indices")
        if len(indices) == len(self.array.shape):
            return self.trace.load(self.array, indices)
        return Table(self.trace, self.array, indices)

    def whole(self) -> "Expression":
        if self.shape:
            raise InvalidArgument(f"an array of shape {self.shape} is used without an index for each axis")
        return self.trace.load(self.array, self.indices)

    def __torch_function__(self, function: Any, types: Any, arguments: Tuple[Any, ...] = (), named: Any = None) -> Any:
        return apply(function, arguments, named or {})

    def __array_ufunc__(self, function: Any, method: str, *arguments: Any, **named: Any) -> Any:
        return apply(function, arguments, named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.whole(), name)


def _not_a_number(name: str) -> Any:
    def refuse(self: Any, *_arguments: Any) -> Any:
        raise InvalidArgument(f"a traced number is asked for its value ({name}): it has none before the kernel runs. Choose by "
                              "where(), and let minimum() and maximum() of NumPy or PyTorch compare")
    return refuse


class Expression:
    """A number of a pair of a query and a key. `low`: it is surely not below 0."""

    __slots__ = ("trace", "number", "operation", "kind", "operands", "text", "low")
    __array_priority__ = 1000
    shape: Tuple[int, ...] = ()
    ndim = 0
    requires_grad = False
    if TYPE_CHECKING:  # what _operators() sets
        __add__: Any; __radd__: Any; __sub__: Any; __rsub__: Any; __mul__: Any; __rmul__: Any; __truediv__: Any
        __rtruediv__: Any; __floordiv__: Any; __rfloordiv__: Any; __mod__: Any; __rmod__: Any; __pow__: Any
        __rpow__: Any; __and__: Any; __rand__: Any; __or__: Any; __ror__: Any; __xor__: Any; __rxor__: Any
        __lt__: Any; __le__: Any; __gt__: Any; __ge__: Any; __neg__: Any; __pos__: Any; __abs__: Any; __invert__: Any

    def __init__(self, trace: Trace, number: int, operation: str, kind: str, operands: Tuple["Expression", ...], text: str,
                 low: bool):
        self.trace, self.number, self.operation, self.kind = trace, number, operation, kind
        self.operands, self.text, self.low = operands, text, low

    __bool__, __index__, __float__, __int__ = map(_not_a_number, ("bool()", "as an index", "float()", "int()"))
    item = _not_a_number("item()")
    __hash__ = object.__hash__

    def __iter__(self) -> Any:
        raise InvalidArgument("a traced number has no elements")

    def __torch_function__(self, function: Any, types: Any, arguments: Tuple[Any, ...] = (), named: Any = None) -> Any:
        return apply(function, arguments, named or {})

    def __array_ufunc__(self, function: Any, method: str, *arguments: Any, **named: Any) -> Any:
        return apply(function, arguments, named)

    def __array_function__(self, function: Any, types: Any, arguments: Tuple[Any, ...], named: Any) -> Any:
        return apply(function, arguments, named)

    def __getattr__(self, name: str) -> Any:
        if name in ("dtype", "device") and "torch" in sys.modules:
            torch = sys.modules["torch"]
            kinds = {FLOAT: torch.float32, INT: torch.int32, BOOL: torch.bool}
            return kinds[self.kind] if name == "dtype" else torch.device("cpu")
        if name.startswith("__") or name not in CALLS:
            raise AttributeError(f"a traced number has no {name}")
        return lambda *arguments, **named: CALLS[name](self, *arguments, **named)


def trace_of(values: Any) -> Trace:
    for value in values:
        if isinstance(value, (Expression, Table)):
            return value.trace
    raise AssertionError


def apply(function: Any, arguments: Tuple[Any, ...], named: Dict[str, Any]) -> Any:
    """A function of NumPy's or PyTorch's, by its name."""
    name = function.__name__
    if name == "__getitem__":
        tensor, index = arguments
        return tensor[index] if isinstance(tensor, Table) else Table(trace_of(_flat(index)), tensor)[index]
    if name == "__get__":  # of an attribute of a tensor
        raise InvalidArgument("a traced number is asked for what only tensors have")
    plain = name.strip("_")
    if name.startswith("__r") and plain[1:] in CALLS and plain not in CALLS:
        return CALLS[plain[1:]](*reversed(arguments))
    if plain not in CALLS:
        raise InvalidArgument(f"a traced number is given to {name}(), which cannot be traced")
    return CALLS[plain](*arguments, **named)


def _flat(index: Any) -> Tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


# ---- operations ----------------------------------------------------------------------------------


def as_float(x: Expression) -> Expression:
    return x if x.kind == FLOAT else x.trace.make("float", FLOAT, x, low=x.low)


def as_int(x: Expression) -> Expression:
    return x if x.kind != FLOAT else x.trace.make("int", INT, x, low=x.low)


def as_bool(x: Expression) -> Expression:
    return x if x.kind == BOOL else x.trace.make("!=", BOOL, x, x.trace.lift(0.0 if x.kind == FLOAT else 0), low=True)


def _lifted(*values: Any) -> List[Expression]:
    trace = trace_of(values)
    return [trace.lift(value) for value in values]


def _together(*values: Any) -> List[Expression]:
    """Of one kind: float if one is, else int."""
    lifted = _lifted(*values)
    if any(x.kind == FLOAT for x in lifted):
        return [as_float(x) for x in lifted]
    return lifted


def _arithmetic(operation: str, low: bool) -> Callable[[Any, Any], Expression]:
    def compute(a: Any, b: Any, alpha: Any = 1) -> Expression:
        if not isinstance(alpha, int) or alpha != 1:
            b = mul(*_lifted(b, trace_of((a, b)).lift(alpha)))
        x, y = _together(a, b)
        kind = FLOAT if x.kind == FLOAT else INT
        return x.trace.make(operation, kind, x, y, low=low and x.low and y.low)
    return compute


add, sub, mul = _arithmetic("+", True), _arithmetic("-", False), _arithmetic("*", True)


def div(a: Any, b: Any, rounding_mode: Optional[str] = None) -> Expression:
    x, y = _lifted(a, b)
    if rounding_mode == "floor":
        return floor_divide(x, y)
    if rounding_mode == "trunc" and FLOAT not in (x.kind, y.kind):
        return x.trace.make("/", INT, x, _divisor(y), low=x.low and y.low)
    quotient = x.trace.make("/", FLOAT, as_float(x), as_float(y), low=x.low and y.low)
    return quotient if rounding_mode is None else where(quotient < 0.0, -floor(-quotient), floor(quotient))


def _divisor(y: Expression) -> Expression:
    """A whole number that is divided by; processors stop at 0."""
    return y if y.operation == "constant" and y.text != "0" else where(y == 0, 1, y)


def floor_divide(a: Any, b: Any) -> Expression:
    x, y = _together(a, b)
    if x.kind == FLOAT:
        return floor(x.trace.make("/", FLOAT, x, y))
    y = _divisor(y)
    quotient = x.trace.make("/", INT, x, y, low=x.low and y.low)
    if x.low and y.low:
        return quotient
    rest = x.trace.make("%", INT, x, y)
    return quotient - ((rest != 0) & ((rest < 0) != (y < 0)))


def remainder(a: Any, b: Any) -> Expression:
    """With the sign of the divisor."""
    x, y = _together(a, b)
    if x.kind == FLOAT:
        return x - y * floor(x / y)
    y = _divisor(y)
    rest = x.trace.make("%", INT, x, y, low=x.low and y.low)
    return rest if rest.low else where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def power(a: Any, b: Any) -> Expression:
    if isinstance(b, (int, float)) and b in (0.5, -0.5) or (isinstance(b, (int, float)) and b == int(b) and abs(b) <= 16):
        x, = _lifted(a)
        x = as_float(x) if isinstance(b, float) or b < 0 else x
        if abs(b) == 0.5:
            return sqrt(x) if b > 0 else 1.0 / sqrt(x)
        product = x.trace.lift(1.0 if x.kind == FLOAT else 1)
        for _ in range(abs(int(b))):
            product = x if product.operation == "constant" else product * x
        return product if b >= 0 else 1.0 / product
    x, y = (as_float(one) for one in _lifted(a, b))
    return x.trace.make("pow", FLOAT, x, y, low=x.low)


def _comparison(operation: str) -> Callable[[Any, Any], Expression]:
    def compute(a: Any, b: Any) -> Expression:
        x, y = _together(a, b)
        return x.trace.make(operation, BOOL, x, y, low=True)
    return compute


def _logical(operation: str) -> Callable[[Any, Any], Expression]:
    def compute(a: Any, b: Any) -> Expression:
        x, y = map(as_bool, _lifted(a, b))
        return x.trace.make(operation, BOOL, x, y, low=True)
    return compute


def _bitwise(operation: str) -> Callable[[Any, Any], Expression]:
    def compute(a: Any, b: Any) -> Expression:
        x, y = _lifted(a, b)
        if FLOAT in (x.kind, y.kind):
            raise InvalidArgument(f"{operation} takes whole numbers and conditions, not floating-point numbers")
        kind = BOOL if x.kind == y.kind == BOOL else INT
        return x.trace.make(operation, kind, x, y, low=x.low and y.low)
    return compute


def _shift(operation: str) -> Callable[[Any, Any], Expression]:
    def compute(a: Any, b: Any) -> Expression:
        x, y = _lifted(a, b)
        if FLOAT in (x.kind, y.kind):
            raise InvalidArgument(f"{operation} takes whole numbers, not floating-point numbers")
        return x.trace.make(operation, INT, x, y, low=x.low and operation == ">>")
    return compute


def invert(a: Any) -> Expression:
    x, = _lifted(a)
    if x.kind == FLOAT:
        raise InvalidArgument("~ takes whole numbers and conditions, not floating-point numbers")
    return x.trace.make("!" if x.kind == BOOL else "~", x.kind, x, low=x.kind == BOOL)


def logical_not(a: Any) -> Expression:
    x, = _lifted(a)
    return x.trace.make("!", BOOL, as_bool(x), low=True)


def negative(a: Any) -> Expression:
    x, = _lifted(a)
    return x.trace.make("negative", FLOAT if x.kind == FLOAT else INT, x)


def absolute(a: Any) -> Expression:
    x, = _lifted(a)
    if x.kind == FLOAT:
        return x.trace.make("fabs", FLOAT, x, low=True)
    made = where(x < 0, -x, x)
    made.low = True
    return made


def where(condition: Any, a: Any, b: Any) -> Expression:
    chosen = as_bool(trace_of((condition, a, b)).lift(condition))
    x, y = _together(*map(chosen.trace.lift, (a, b)))
    kind = FLOAT if x.kind == FLOAT else BOOL if x.kind == y.kind == BOOL else INT
    return x if x is y else chosen.trace.make("?", kind, chosen, x, y, low=x.low and y.low)


def _extreme(operation: str, sign: int) -> Callable[[Any, Any], Expression]:
    def compute(a: Any, b: Any) -> Expression:
        x, y = _together(a, b)
        low = (x.low or y.low) if sign > 0 else x.low and y.low
        if x.kind == FLOAT:
            return x.trace.make(operation, FLOAT, x, y, low=low)
        made = where(x > y if sign > 0 else x < y, x, y)
        made.low = low
        return made
    return compute


minimum, maximum = _extreme("fmin", -1), _extreme("fmax", 1)


def clamp(a: Any, min: Any = None, max: Any = None, *, a_min: Any = None, a_max: Any = None) -> Expression:
    least, most = a_min if min is None else min, a_max if max is None else max
    x, = _lifted(a)
    if least is not None:
        x = maximum(x, least)
    return x if most is None else minimum(x, most)


def _function(name: str, low: bool = False) -> Callable[[Any], Expression]:
    def compute(a: Any) -> Expression:
        x = as_float(_lifted(a)[0])
        return x.trace.make(name, FLOAT, x, low=low)
    return compute


exp, log, tanh, sqrt = _function("exp", True), _function("log"), _function("tanh"), _function("sqrt", True)
sin, cos, floor_ = _function("sin"), _function("cos"), _function("floor")


def floor(a: Any) -> Expression:
    x, = _lifted(a)
    return floor_(x) if x.kind == FLOAT else x


def _cast(a: Any, dtype: Any = None, *_further: Any, **_named: Any) -> Expression:
    """To a dtype of NumPy's or PyTorch's, with no narrower range than 32 bits."""
    x, = _lifted(a)
    if isinstance(dtype, type):  # np.int32, int
        dtype = np.dtype(dtype)
    name = str(dtype if isinstance(dtype, np.dtype) else getattr(dtype, "dtype", dtype)).replace("torch.", "")
    if dtype is None or "device" in name or name == "cpu":
        return x
    return as_bool(x) if "bool" in name else as_int(x) if "int" in name or name == "long" else as_float(x)


def _new(a: Any, size: Any, value: Any, dtype: Any) -> Expression:
    if tuple(size if isinstance(size, (tuple, list)) else (size,)):
        raise InvalidArgument(f"a traced number makes a tensor of shape {size}, which cannot be traced")
    x, = _lifted(a)
    made = x.trace.lift(value)
    return _cast(made, x.dtype if dtype is None else dtype)


CALLS: Dict[str, Callable[..., Any]] = {
    "add": add, "sub": sub, "subtract": sub, "mul": mul, "multiply": mul, "div": div, "divide": div, "truediv": div,
    "true_divide": div, "floordiv": floor_divide, "floor_divide": floor_divide, "mod": remainder, "remainder": remainder,
    "pow": power, "power": power, "float_power": power, "lt": _comparison("<"), "less": _comparison("<"), "le": _comparison("<="),
    "less_equal": _comparison("<="), "gt": _comparison(">"), "greater": _comparison(">"), "ge": _comparison(">="),
    "greater_equal": _comparison(">="), "eq": _comparison("=="), "equal": _comparison("=="), "ne": _comparison("!="),
    "not_equal": _comparison("!="), "logical_and": _logical("&"), "logical_or": _logical("|"), "logical_xor": _logical("^"),
    "logical_not": logical_not, "and": _bitwise("&"), "or": _bitwise("|"), "xor": _bitwise("^"),
    "bitwise_and": _bitwise("&"), "bitwise_or": _bitwise("|"), "bitwise_xor": _bitwise("^"), "lshift": _shift("<<"),
    "rshift": _shift(">>"), "left_shift": _shift("<<"), "right_shift": _shift(">>"), "bitwise_left_shift": _shift("<<"),
    "bitwise_right_shift": _shift(">>"), "invert": invert, "bitwise_not": invert, "bitwise_invert": invert,
    "neg": negative, "negative": negative, "pos": lambda a: a, "positive": lambda a: a, "abs": absolute, "absolute": absolute,
    "fabs": lambda a: absolute(as_float(_lifted(a)[0])), "where": where, "minimum": minimum, "maximum": maximum, "fmin": minimum,
    "fmax": maximum, "min": minimum, "max": maximum, "clamp": clamp, "clip": clamp, "exp": exp, "log": log, "tanh": tanh,
    "sqrt": sqrt, "sin": sin, "cos": cos, "floor": floor, "ceil": lambda a: -floor(-_lifted(a)[0]),
    "square": lambda a: mul(a, a), "reciprocal": lambda a: div(1.0, a), "rsqrt": lambda a: div(1.0, sqrt(a)),
    "sigmoid": lambda a: 1.0 / (1.0 + exp(-_lifted(a)[0])), "exp2": lambda a: exp(mul(a, math.log(2))),
    "log2": lambda a: log(a) * (1 / math.log(2)), "log10": lambda a: log(a) * (1 / math.log(10)),
    "sign": lambda a: where(_lifted(a)[0] > 0, 1.0, where(_lifted(a)[0] < 0, -1.0, 0.0)),
    "relu": lambda a: maximum(a, 0.0), "masked_fill": lambda a, condition, value: where(condition, value, a),
    "to": _cast, "type": _cast, "astype": _cast, "type_as": _cast, "float": as_float, "double": as_float, "half": as_float,
    "bfloat16": as_float, "int": as_int, "long": as_int, "bool": as_bool, "detach": lambda a: a, "clone": lambda a: a,
    "contiguous": lambda a: a, "item": _not_a_number("item()"), "dim": lambda a: 0,
    "new_ones": lambda a, size=(), dtype=None, **_: _new(a, size, 1, dtype),
    "new_zeros": lambda a, size=(), dtype=None, **_: _new(a, size, 0, dtype),
    "new_full": lambda a, size, fill_value, dtype=None, **_: _new(a, size, fill_value, dtype),
    "ones_like": lambda a, dtype=None, **_: _new(a, (), 1, dtype), "zeros_like": lambda a, dtype=None, **_: _new(a, (), 0, dtype),
    "full_like": lambda a, fill_value, dtype=None, **_: _new(a, (), fill_value, dtype),
}


def _operators(kind: Any) -> None:
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"):
        setattr(kind, f"__{name}__", lambda a, b, call=CALLS[name]: call(a, b))
        setattr(kind, f"__r{name}__", lambda a, b, call=CALLS[name]: call(b, a))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(kind, f"__{name}__", lambda a, b, call=CALLS[name]: call(a, b))
    for name in ("neg", "pos", "abs", "invert"):
        setattr(kind, f"__{name}__", lambda a, call=CALLS[name]: call(a))


_operators(Expression)
_operators(Table)


# ---- derivatives ---------------------------------------------------------------------------------

# Of an operation with operands x and y and result z, what its operands' derivatives are multiplied with.
_SLOPES: Dict[str, Callable[..., Tuple[Any, ...]]] = {
    "+": lambda z, x, y: (1, 1), "-": lambda z, x, y: (1, -1), "*": lambda z, x, y: (y, x),
    "/": lambda z, x, y: (1.0 / y, -z / y), "negative": lambda z, x: (-1,), "exp": lambda z, x: (z,), "log": lambda z, x: (1.0 / x,),
    "tanh": lambda z, x: (1.0 - z * z,), "sqrt": lambda z, x: (0.5 / z,), "sin": lambda z, x: (cos(x),),
    "cos": lambda z, x: (-sin(x),), "fabs": lambda z, x: (where(x < 0.0, -1.0, 1.0),), "floor": lambda z, x: (0,),
    "pow": lambda z, x, y: (y * power(x, y - 1.0), z * log(x)),
    "fmin": lambda z, x, y: (where(x <= y, 1.0, 0.0), where(x <= y, 0.0, 1.0)),
    "fmax": lambda z, x, y: (where(x >= y, 1.0, 0.0), where(x >= y, 0.0, 1.0)),
    "float": lambda z, x: (1,),
}


def below(*results: Expression) -> List[Expression]:
    """The expressions that these need, each after its operands."""
    found: Dict[int, Expression] = {}
    left = list(results)
    while left:
        one = left.pop()
        if one.number not in found:
            found[one.number] = one
            left += one.operands
    return [found[number] for number in sorted(found)]


def derivative(result: Expression, by: Expression) -> Expression:
    """Of a floating-point expression by one that it is made of."""
    zero, one = result.trace.lift(0.0), result.trace.lift(1.0)
    of: Dict[int, Optional[Expression]] = {by.number: one}
    for each in below(result):
        if each is by or each.kind != FLOAT or not any(of.get(x.number) is not None for x in each.operands):
            continue
        if each.operation == "?":
            condition, *chosen = each.operands
            a, b = (of.get(x.number) for x in chosen)
            of[each.number] = where(condition, zero if a is None else a, zero if b is None else b)
            continue
        total: Optional[Expression] = None
        # slopes of operands without a derivative are made as well, and left out of the source
        for x, slope in zip(each.operands, _SLOPES[each.operation](each, *each.operands)):
            d = of.get(x.number)
            if d is None or (isinstance(slope, int) and slope == 0):
                continue
            part = d if isinstance(slope, int) and slope == 1 else -d if isinstance(slope, int) else slope if d is one else slope * d
            total = part if total is None else total + part
        of[each.number] = total
    found = of.get(result.number)
    return zero if found is None else found
