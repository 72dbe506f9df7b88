# SPDX-License-Identifier: Apache-2.0
"""Finding the fastest kernels for problems on a device; the library keeps them for every later plan."""
from __future__ import annotations

import ctypes
import threading
from typing import Callable, Iterable, Optional, Union

from . import _declarations as c
from ._checks import items, number, text_or_none, truth, whole_within
from ._library import check, load
from .context import Compiling, Context, given_context
from .errors import InvalidArgument
from .plan import parse


def tune(problems: Union[str, Iterable[str]], *, seconds: float = 0.0, evaluations: int = 0,
         strategy: Optional[str] = None, seed: int = 0, again: bool = False,
         progress: Optional[Callable[[c.clattn_tuning_progress], object]] = None,
         context: Optional[Context] = None) -> int:
    """Searches for the fastest configuration of each problem, and keeps what it finds in the cache directory, where all programs
    find it. Returns how many classes of problems were searched.

    problems      a text such as "fwd f16 b1 h32/8 q512 d128", or several
    seconds       the time for all of them; 0, the default, stands for 60
    evaluations   at most so many configurations; 0, the default: any number
    strategy      None, the default: "guided"; else "random" or "exhaustive"
    seed          of the search, 0 by default
    again         also problems that the store knows, which are passed over otherwise; False by default
    progress      None, or a function that is called after each configuration, and ends the search where it returns a true value
    context       as in attention()

    It runs in this process; `python -m clattn tune` does the same in one that a driver's crash does not end.

    Raises InvalidProblem for a text that does not parse, FileError where results cannot be kept, and what `progress` raises.
    """
    texts = [problems] if isinstance(problems, str) else items("problems", problems, "texts")
    if progress is not None and not callable(progress):
        raise InvalidArgument(f"progress must be a function, not {progress!r}")
    parsed = (c.clattn_problem * len(texts))(*map(parse, texts))
    raised: list[BaseException] = []

    @c.clattn_tuning_observer
    def observe(pointer: int, _user: int) -> int:
        if Compiling.ending and threading.current_thread().daemon:
            return 1
        try:
            return bool(progress and progress(ctypes.cast(pointer, ctypes.POINTER(c.clattn_tuning_progress)).contents))
        except BaseException as error:  # an exception cannot pass through the library: it ends the search first
            raised.append(error)
            return 1

    options = c.clattn_tuning_options(ctypes.sizeof(c.clattn_tuning_options), number("seconds", seconds),
                                      whole_within("evaluations", evaluations, 0, 2 ** 63 - 1), text_or_none("strategy", strategy),
                                      whole_within("seed", seed, 0, 2 ** 64 - 1), truth("again", again), observe, None)
    tuned = ctypes.c_size_t()
    context = given_context(context)
    with Compiling():
        status = load().lib.clattn_tune(context.handle, parsed, len(texts), ctypes.byref(options), ctypes.byref(tuned))
    if raised:
        raise raised[0]
    check(status)
    context.forget_plans()
    return tuned.value
