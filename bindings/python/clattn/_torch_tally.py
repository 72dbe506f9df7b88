# SPDX-License-Identifier: Apache-2.0
"""How many calls clattn computed and how many went to PyTorch's function, and why: what patch() shows and says once."""
from __future__ import annotations

import contextlib
import logging
import threading
import warnings
from typing import Dict, Iterator, Set

_REASONS = 64  # different ones that are counted apart; sentences with shapes could be without number
_OTHERS = "other reasons"

logger = logging.getLogger("clattn")


def say(sentence: str, level: int) -> None:
    """Warns whoever called `level` calls above; also where warnings are errors (python -W error) nothing fails that PyTorch computes."""
    try:
        warnings.warn(sentence, RuntimeWarning, stacklevel=level + 1)
    except RuntimeWarning:
        pass


class Tally:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._told: Set[str] = set()
        self._hidden = threading.local()
        self.calls = 0
        self.reasons: Dict[str, int] = {}

    def computed(self) -> None:
        if not getattr(self._hidden, "on", False):
            with self.lock:
                self.calls += 1

    @contextlib.contextmanager
    def unseen(self) -> Iterator[None]:
        """Calls of this thread that nobody asked for."""
        self._hidden.on = True
        try:
            yield
        finally:
            self._hidden.on = False

    def say_once(self, sentence: str, level: int) -> None:
        with self.lock:
            known = sentence in self._told
            self._told.add(sentence)
        if not known:
            logger.info("%s", sentence)
            say(sentence, level + 1)

    def handed_over(self, reason: str, warn: bool) -> None:
        with self.lock:
            if reason not in self.reasons and len(self.reasons) >= _REASONS:
                reason = _OTHERS
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
            known = reason in self._told
            self._told.add(reason)
        if not known:
            sentence = f"PyTorch's own function computes calls of scaled_dot_product_attention: {reason}"
            logger.info("%s", sentence)
            if warn:
                say(sentence, 3)

    def now(self) -> "tuple[int, Dict[str, int]]":
        with self.lock:
            return self.calls, dict(self.reasons)


tally = Tally()
