# SPDX-License-Identifier: Apache-2.0
"""Which of small problems PyTorch computes sooner, by what was measured on this machine.

A call of clattn goes through OpenCL, which costs microseconds that short sentences and single tokens do not make up for. The
first small problem of a class (dtype, one query or several, the mask, heads that share keys, weights that are returned, the work to a
factor of 2) is
timed both ways on its own tensors; what was found is kept in the cache directory, as torch.json.
"""
from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from typing import Any, Callable, Dict, List, Optional

import torch
from torch import Tensor

from . import errors
from ._torch_function import _DTYPES, PLAIN, attend
from ._torch_operators import is_transformed
from ._torch_tally import tally
from ._torch_weights import attend_with_weights, by_products
from .context import default_context

_LARGE = 1 << 26  # products of a query's element with a key's from which on clattn is taken unasked
_ROUNDS, _SECONDS = 25, 0.02  # at most, of both ways; but five rounds at least


def _folder() -> Optional[str]:
    """The cache directory as src/base/disk.h has it, or None."""
    given = os.environ.get("CLATTN_CACHE_DIR")
    if given is not None:
        return given or None
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base.startswith("/"):
        return os.path.join(base, "clattn")
    home = os.environ.get("HOME", "")
    return os.path.join(home, ".cache", "clattn") if home else None


def _kind(dtype: torch.dtype, queries: int, work: int, mask: Optional[bool], causal: bool = False, shared: bool = False,
          folded: bool = False, weights: bool = False) -> Any:
    """The class of a problem; `mask` says whether it is boolean, None that there is none; `weights`, that they are returned."""
    return dtype, queries == 1, mask, causal, shared, folded, weights, work.bit_length(), torch.get_num_threads()


class Choice:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._found: Dict[str, Dict[str, List[float]]] = {}  # of each machine the microseconds (PyTorch's, clattn's) of a class
        self._sooner: Dict[Any, bool] = {}
        self._machine = ""

    def is_theirs(self, theirs: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor],
                  dropout_p: float, is_causal: bool, scale: Optional[float], enable_gqa: bool, weights: bool = False) -> bool:
        """Whether PyTorch's function computes this sooner. False as well where it cannot be measured."""
        if any(x.is_nested or x.layout != torch.strided or x.dim() < 2 for x in (query, key, value)):
            return False
        work = query.numel() * key.shape[-2]
        if (work > _LARGE or dropout_p or value.shape[-1] != query.shape[-1] or  # PyTorch multiplies matrices for the latter two
                not query.is_cpu or query.dtype not in _DTYPES or torch.is_autocast_enabled("cpu")):
            return False
        if attn_mask is not None and (type(attn_mask) not in PLAIN or attn_mask.requires_grad):
            return False
        kind = _kind(query.dtype, query.shape[-2], work, None if attn_mask is None else attn_mask.dtype == torch.bool, is_causal,
                     query.dim() > 2 and key.dim() > 2 and query.shape[-3] != key.shape[-3], query.dim() > 4, weights)
        sooner = self._sooner.get(kind)
        if sooner is None:
            sooner = self._measured(kind, theirs, query, key, value, attn_mask, is_causal, scale, enable_gqa, weights)
        return sooner

    def is_known_theirs(self, x: Tensor, masked: bool, weights: bool) -> bool:
        """Whether PyTorch was found to be sooner with the attention of x (batch, sequence, width) to itself."""
        seq = x.shape[1]
        return self._sooner.get(_kind(x.dtype, seq, x.numel() * seq, False if masked else None, weights=weights), False)

    def _measured(self, kind: Any, theirs: Callable[..., Tensor], *arguments: Any) -> bool:
        if (torch._C._len_torch_dispatch_stack() or is_transformed() or torch._C._get_tracing_state() is not None or
                torch.autograd._profiler_enabled()):
            return False  # which would see the calls
        with self.lock:
            if kind in self._sooner:
                return self._sooner[kind]
            dtype, one, mask, causal, shared, many, weights, bits, threads = kind
            name = (f"{str(dtype)[6:]} {'one query' if one else 'queries'} {'no' if mask is None else 'bool' if mask else 'float'} "
                    f"mask{' causal' * causal}{' shared heads' * shared}{' folded' * many}{' weights' * weights} 2^{bits} {threads} threads")
            found = self._of_this_machine()
            if name not in found:
                try:
                    found[name] = _time_both(theirs, *arguments)
                except (errors.Error, RuntimeError):  # what is wrong the call itself will say
                    return False
                self._save()
            by_theirs, by_ours = found[name]
            self._sooner[kind] = by_theirs < by_ours
            return self._sooner[kind]

    def _of_this_machine(self) -> Dict[str, List[float]]:
        if not self._machine:
            facts = default_context().device
            self._machine = (f"{facts.name.decode()}, {facts.platform_name.decode()} {facts.driver_version.decode()}, "
                             f"PyTorch {torch.__version__}")
            self._found = _read(self._path())
        return self._found.setdefault(self._machine, {})

    def _path(self) -> str:
        folder = _folder()
        return os.path.join(folder, "torch.json") if folder else ""

    def _save(self) -> None:
        """Beside what other processes have found meanwhile, in the folder that the library has made for its programs. What
        cannot be written is measured again next time."""
        path = self._path()
        if not path:
            return
        merged = _read(path)
        merged.setdefault(self._machine, {}).update(self._found[self._machine])
        try:
            handle, name = tempfile.mkstemp(dir=os.path.dirname(path))
            with os.fdopen(handle, "w") as file:
                json.dump(merged, file, indent=1)
            os.replace(name, path)
        except OSError:
            pass


def _read(path: str) -> Dict[str, Dict[str, List[float]]]:
    """What is not of the form that is written here counts as nothing."""
    try:
        with open(path) as file:
            text = json.load(file)
        return {machine: {name: [float(theirs), float(ours)] for name, (theirs, ours) in found.items()}
                for machine, found in text.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _time_both(theirs: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor],
               is_causal: bool, scale: Optional[float], enable_gqa: bool, weights: bool = False) -> List[float]:
    """The least microseconds of calls that take turns, after one of each that is not counted."""
    def ours() -> None:
        if weights:
            attend_with_weights(query, key, value, attn_mask)
        else:
            attend(query, key, value, attn_mask, 0.0, is_causal, scale, enable_gqa)

    def others() -> None:
        if weights:
            by_products(query, key, value, attn_mask)
        else:
            theirs(query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa)

    least = [float("inf"), float("inf")]
    with torch.no_grad(), tally.unseen():
        end = time.perf_counter() + _SECONDS
        for turn in range(_ROUNDS + 1):
            if turn > 5 and time.perf_counter() > end:
                break
            for n, way in ((1, ours), (0, others)):  # clattn first, which refuses at once what it does not take
                begin = time.perf_counter()
                way()
                if turn:
                    least[n] = min(least[n], (time.perf_counter() - begin) * 1e6)
    return [round(x, 1) for x in least]


choice = Choice()
