# SPDX-License-Identifier: Apache-2.0
"""Refusing in a sentence, and telling what a library cannot do from what went wrong."""
import importlib
import json


class Refusal(Exception):
    """Is told to whoever asked."""


class Unsupported(Refusal):
    """The library has no way to compute this."""


def first_line(error):
    words = str(error).strip() or type(error).__name__
    return "".join(c if c.isprintable() else " " for c in words.splitlines()[0])[:300]


def is_unsupported(error):
    """Whether a library says so, each in words of its own."""
    words = str(error).lower()
    return (isinstance(error, (Unsupported, NotImplementedError))
            or type(error).__name__ in ("NotImplemented", "InvalidGraph")
            or "not implemented" in words or "not supported" in words)


def package(name, install):
    try:
        return importlib.import_module(name)
    except Exception as error:  # Also what a broken installation raises.
        why = "" if isinstance(error, ModuleNotFoundError) else f" ({first_line(error)})"
        raise Refusal(f"Python cannot import {name}{why}: pip install {install}") from error


def need(request, key, kind):
    value = request.get(key)
    if not isinstance(value, kind) or isinstance(value, bool) and kind is not bool:
        raise Refusal(f"The request's '{key}' is {json.dumps(value)[:40]}.")
    return value
