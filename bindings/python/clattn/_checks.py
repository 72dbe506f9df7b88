# SPDX-License-Identifier: Apache-2.0
"""What a caller's numbers, texts and objects must be: ctypes would cut, wrap or misread what is not, or end the process."""
from __future__ import annotations

import os
import sys
from typing import Any, Iterable, Optional

import numpy as np

from .errors import InvalidArgument


def number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"{name} must be a number, not {value!r}") from None


def whole(name: str, value: Any) -> int:
    if not isinstance(value, (int, np.integer)):
        raise InvalidArgument(f"{name} must be a whole number, not {value!r}")
    return int(value)


def whole_within(name: str, value: Any, least: int, most: int) -> int:
    if not least <= whole(name, value) <= most:
        raise InvalidArgument(f"{name} is {value}, but must be from {least} to {most}")
    return int(value)


def truth(name: str, value: Any) -> bool:
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{name} must be True or False, not {value!r}") from None


def text(name: str, value: Any) -> bytes:
    """As C takes it, where a zero would be its end."""
    try:
        encoded = bytes(value.encode()) if isinstance(value, str) else None
    except UnicodeEncodeError:
        encoded = None
    if encoded is None or b"\0" in encoded:
        raise InvalidArgument(f"{name} must be a text without zeros, not {value!r:.80}")
    return encoded


def text_or_none(name: str, value: Any) -> Optional[bytes]:
    return None if value is None else text(name, value)


def path(name: str, value: Any) -> bytes:
    try:
        encoded = os.fsencode(value)
    except TypeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise InvalidArgument(f"{name} must be the path of a folder, not {value!r}")
    return encoded


def items(name: str, values: Any, of: str) -> list[Any]:
    """Of a list, a tuple or the like, but not of a text."""
    try:
        if not isinstance(values, (str, bytes)) and isinstance(values, Iterable):
            return list(values)
    except TypeError:  # arrays of no dimension
        pass
    raise InvalidArgument(f"{name} must be a list of {of}, not {values!r}")


def of_pyopencl(name: str, value: Any, kind: str) -> Any:
    """An object of one of pyopencl's classes: another one's address is no such object, and ends the process in the driver."""
    module = sys.modules.get("pyopencl")
    if module is None or not isinstance(value, getattr(module, kind)):
        raise InvalidArgument(f"{name} must be a pyopencl.{kind}, not {type(value).__name__}")
    return value
