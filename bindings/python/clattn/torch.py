# SPDX-License-Identifier: Apache-2.0
"""clattn under PyTorch, on CPU tensors and without a copy.

    from clattn.torch import scaled_dot_product_attention      # PyTorch's signature and semantics
    with clattn.torch.patch() as patched: ...                  # every model that calls PyTorch's function
    from clattn.torch import flex_attention                    # PyTorch's, for scores and masks of one's own
    from clattn.torch import topk_attention, indexer           # token-sparse attention, and what chooses its keys
    clattn.torch.register()                                    # Hugging Face: attn_implementation="clattn"

The operators clattn::attention and clattn::attention_backward are custom ones of torch.library: torch.compile
traces them as they are.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import threading
from typing import Any, Dict, List, Optional

import torch
import torch.nn.functional
from torch import Tensor
from torch._C import _has_torch_function_variadic as _has_torch_function

from . import errors
from ._torch_choice import choice
from ._torch_chosen import indexer, topk_attention
from ._torch_flex import create_block_mask, flex_attention
from ._torch_function import PLAIN, attend, causal_of, form_of
from ._torch_operators import Refused
from ._torch_tally import say, tally
from ._torch_weights import attend_with_weights, by_products
from ._transformers import register
from .context import default_context

__all__ = ["Refused", "create_block_mask", "flex_attention", "indexer", "patch", "register", "scaled_dot_product_attention",
           "topk_attention"]

_signature_of = functools.lru_cache(inspect.signature)

_SOONER = "PyTorch was measured to be sooner with problems as small (patch(always=True) has clattn compute them)"
_CHOSEN = "torch.nn.attention.sdpa_kernel() or torch.backends.cuda excludes flash attention, and so clattn"
_HEADS = "torch.nn.MultiheadAttention(average_attn_weights=False) returns the weights of each head"
_DROPPED = "torch.nn.MultiheadAttention returns weights after dropout; pass need_weights=False where nobody reads them"
_BY_CHOICE = frozenset((_SOONER, _CHOSEN))  # which no warning is about


def _overridden(function: Any, query: Any, key: Any, value: Any, attn_mask: Any, *further: Any, **named: Any) -> Tensor:
    """By the tensors' __torch_function__ and by TorchFunctionMode, as PyTorch's own function has it."""
    tensors = query, key, value, attn_mask
    if any(x is not None and type(x) not in PLAIN for x in tensors):
        function = torch.nn.functional.scaled_dot_product_attention  # which such classes compare with
    return torch.overrides.handle_torch_function(function, tensors, *tensors, *further, **named)


def _causal_bias(query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool) -> Optional[str]:
    """What a CausalBias stands for, where nobody else has a say in it."""
    if attn_mask is None or type(attn_mask) in PLAIN or is_causal or _has_torch_function(query, key, value):
        return None
    return causal_of(attn_mask, query, key)


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: Optional[float] = None,
                                 enable_gqa: bool = False) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention on tensors on the CPU.

    query         (..., heads, seq_q, dim), float32, float16 or bfloat16, at any strides
    key, value    (..., kv_heads, seq_kv, dim) and (..., kv_heads, seq_kv, dim_v)
    attn_mask     None, bool (True: visible) or floats that are added to the scores; broadcasts to (..., heads, seq_q, seq_kv)
    dropout_p     the probability that a weight is dropped, 0 by default, by PyTorch's random seed
    is_causal     query i sees keys 0 to i; False by default
    scale         None, the default: 1 / sqrt(dim)
    enable_gqa    fewer kv_heads than heads are allowed; False by default

    Query, key, value and a floating-point attn_mask have gradients.

    Raises Refused, which is a RuntimeError, for what clattn does not take, and other clattn.Errors.
    """
    causal = _causal_bias(query, key, value, attn_mask, is_causal)
    attn_mask = None if causal else attn_mask
    if _has_torch_function(query, key, value, attn_mask):
        return _overridden(scaled_dot_product_attention, query, key, value, attn_mask, dropout_p, is_causal, scale=scale,
                           enable_gqa=enable_gqa)
    return attend(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, causal=causal)


class _StandIn:
    """What stands in for a function of PyTorch's while a patch is on."""

    __module__ = "torch.nn.functional"

    def __init__(self, name: str) -> None:
        self.theirs: Any = getattr(torch.nn.functional, name)
        functools.update_wrapper(self, self.theirs)  # type: ignore[arg-type]
        self.__qualname__ = name

    def step_in(self) -> None:
        now = getattr(torch.nn.functional, self.__qualname__)
        if now is not self:
            self.theirs = now
            setattr(torch.nn.functional, self.__qualname__, self)

    def step_back(self) -> None:
        if getattr(torch.nn.functional, self.__qualname__) is self:
            setattr(torch.nn.functional, self.__qualname__, self.theirs)

    def __reduce__(self) -> str:
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<clattn.torch.patch() of {self.theirs!r}>"


class _Weights(threading.local):
    """What scaled_dot_product_attention leaves for the torch.nn.MultiheadAttention that calls it."""

    wanted = False
    made: Optional[Tensor] = None


_weights = _Weights()


class _Attention(_StandIn):
    """It compares and hashes as PyTorch's does: classes with a __torch_function__ look it up."""

    def __call__(self, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
                 scale: Optional[float] = None, enable_gqa: bool = False) -> Tensor:
        if not torch.compiler.is_compiling() and _weights.wanted:
            return self._weigh(query, key, value, attn_mask)
        causal = _causal_bias(query, key, value, attn_mask, is_causal)
        attn_mask = None if causal else attn_mask
        if _has_torch_function(query, key, value, attn_mask):
            return _overridden(self, query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        try:
            reason = self._why_theirs(query, key, value, attn_mask, dropout_p, is_causal or causal == "tl", scale, enable_gqa)
            if reason is None:
                return attend(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, causal=causal)
        except errors.Error as error:
            reason = str(error)
        if causal == "br":
            attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril(key.shape[-2] - query.shape[-2])
        o = self.theirs(query, key, value, attn_mask, dropout_p, is_causal or causal == "tl", scale=scale, enable_gqa=enable_gqa)
        if reason and not torch.compiler.is_compiling():
            tally.handed_over(reason, reason not in _BY_CHOICE)
        return o

    def _weigh(self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor]) -> Tensor:
        """As torch.nn.MultiheadAttention calls it, which returns the weights as well."""
        _weights.wanted = False
        try:
            reason = self._why_theirs(query, key, value, attn_mask, 0.0, False, None, False, True)
            if reason is None:
                o, _weights.made = attend_with_weights(query, key, value, attn_mask)
                return o
        except errors.Error as error:
            reason = str(error)
        o, _weights.made = by_products(query, key, value, attn_mask)
        tally.handed_over(reason, reason not in _BY_CHOICE)
        return o

    def _why_theirs(self, query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool,
                    scale: Optional[float], enable_gqa: bool, weights: bool = False) -> Optional[str]:
        """Why PyTorch's function is to compute this though clattn could, in a sentence or an empty one; None if it is not."""
        if torch.compiler.is_compiling():  # whose older versions trace no exceptions
            form = form_of(query, key, value, attn_mask, is_causal, enable_gqa, None)
            return form if isinstance(form, str) else None
        if not _state.on:  # kept by somebody beyond the patch
            return ""
        if not torch.backends.cuda.flash_sdp_enabled():
            return _CHOSEN
        if _state.unavailable is not None:
            return _state.unavailable
        if not _state.always and type(query) in PLAIN and type(key) in PLAIN and type(value) in PLAIN and choice.is_theirs(
                self.theirs, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, weights):
            return _SOONER
        return None

    def __eq__(self, other: Any) -> bool:
        return other is self or other is self.theirs

    def __hash__(self) -> int:
        return hash(self.theirs)


class _Multihead(_StandIn):
    """torch.nn.functional.multi_head_attention_forward, which multiplies matrices where the weights are to be returned. Here it
    calls scaled_dot_product_attention then as well, which leaves their mean over the heads."""

    def __init__(self) -> None:
        super().__init__("multi_head_attention_forward")
        # torch.jit.script compiles PyTorch's function, whatever it is called with
        torch._jit_internal.boolean_dispatched[self] = {"if_true": self.theirs, "if_false": self.theirs, "index": 1 << 10,
                                                        "default": True, "arg_name": "", "fn_name": self.__qualname__}

    def __call__(self, *given: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling() or not _state.on:
            return self.theirs(*given, **named)
        arguments = _signature_of(self.theirs).bind(*given, **named).arguments
        if not arguments.get("need_weights", True):
            return self.theirs(*given, **named)
        tensors = tuple(x for x in arguments.values() if isinstance(x, Tensor))
        if _has_torch_function(*tensors):
            function = self if all(type(x) in PLAIN for x in tensors) else self.theirs
            return torch.overrides.handle_torch_function(function, tensors, *given, **named)
        reason = None
        if not arguments.get("average_attn_weights", True):
            reason = _HEADS
        elif arguments["dropout_p"] and arguments.get("training", True):
            reason = _DROPPED
        elif not tensors or any(x.is_nested for x in tensors):
            reason = ""
        elif arguments.get("is_causal") and arguments.get("attn_mask") is None:
            reason = ""  # PyTorch's function says what is wrong with it
        if reason is not None:
            if reason:
                tally.handed_over(reason, True)
            return self.theirs(*given, **named)
        _weights.wanted, _weights.made = True, None
        try:
            arguments.update(need_weights=False, is_causal=False)  # the mask alone counts where weights are returned
            o, _ = self.theirs(**arguments)
            weights = _weights.made
        finally:
            _weights.wanted, _weights.made = False, None
        if weights is None:  # a function of somebody else's, which calls no scaled_dot_product_attention
            return self.theirs(*given, **named)
        return o, weights.squeeze(0) if arguments["query"].dim() == 2 else weights


class _State:
    """Of the patches that are on, in all threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.on: List[patch] = []
        self.always = False
        self.unavailable: Optional[str] = None  # why clattn computes nothing here
        self.fast_path: Any = None  # torch.backends.mha.get_fastpath_enabled, as it was


_state = _State()
_attention = _Attention("scaled_dot_product_attention")
_multihead = _Multihead()


def _renew_locks() -> None:
    """In a child of fork(), where the thread that holds one may be no more."""
    for owner in (_state, tally, choice):
        owner.lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, where no process is copied
    os.register_at_fork(after_in_child=_renew_locks)


def _fast_path_enabled() -> bool:
    """torch.backends.mha.get_fastpath_enabled() while a patch is on: no, so that torch.nn.MultiheadAttention and
    TransformerEncoderLayer call the function that is patched, but as it was where PyTorch is sooner, and where
    TransformerEncoder leaves out padding: nested tensors take no other path, and what stands at the padding is part of
    its result."""
    if not torch.jit.is_scripting():
        if not torch.compiler.is_compiling():
            names = sys._getframe(1).f_locals
            module, x = names.get("self"), names.get("src", names.get("query"))
            if isinstance(module, torch.nn.TransformerEncoder):
                return names.get("src_key_padding_mask") is not None and bool(_state.fast_path())
            if isinstance(x, Tensor) and (x.is_nested or _is_sooner_by_fast_path(module, x, names)):
                return bool(_state.fast_path())
        return False
    return True


def _is_sooner_by_fast_path(module: Any, x: Tensor, names: Dict[str, Any]) -> bool:
    masked = any(names.get(name) is not None for name in ("src_mask", "src_key_padding_mask", "attn_mask", "key_padding_mask"))
    if module is None or module.training or x.dim() != 3 or _state.always or not choice.is_known_theirs(
            x, masked, bool(names.get("need_weights", False))):
        return False
    tally.handed_over(_SOONER, False)
    return True


def _no_device() -> Optional[str]:
    """Why clattn can compute nothing in this process, or None."""
    try:
        default_context().handle
    except errors.Error as error:
        return str(error)
    return None


class patch(contextlib.ContextDecorator):
    """Within it torch.nn.functional.scaled_dot_product_attention is clattn's, in all threads. What clattn does not take (other
    devices and dtypes, and mistakes), what it fails at, and what PyTorch computes sooner goes to PyTorch's own function.
    `with patch() as patched:` counts the calls. doc/guide/pytorch.md says when clattn is called.

    always        clattn computes small problems, too, which PyTorch computes sooner; False by default

    Raises nothing: without a device PyTorch computes, and a warning says so.
    """

    def __init__(self, always: bool = False):
        self._always = always
        self._begin: Any = None
        self._end: Any = None

    def _recreate_cm(self) -> "patch":
        return patch(self._always)

    def __enter__(self) -> "patch":
        reason = _no_device()
        with _state.lock:
            self._begin, self._end = tally.now(), None
            if not _state.on:
                torch.jit._builtins._register_builtin(_attention, "aten::scaled_dot_product_attention")
                _attention.step_in()
                _multihead.step_in()
                _state.fast_path = torch.backends.mha.get_fastpath_enabled
                torch.backends.mha.get_fastpath_enabled = _fast_path_enabled
            _state.on.append(self)
            _state.unavailable = reason
            _state.always = any(one._always for one in _state.on)
        if reason is not None:
            say(f"clattn computes nothing, and PyTorch's own function everything: {reason}", 2)
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        with _state.lock:
            _state.on.remove(self)
            _state.always = any(one._always for one in _state.on)
            self._end = tally.now()
            if not _state.on:
                _attention.step_back()
                _multihead.step_back()
                if torch.backends.mha.get_fastpath_enabled is _fast_path_enabled:
                    torch.backends.mha.get_fastpath_enabled = _state.fast_path
        if kind is None and not self.calls and _state.unavailable is None and not (_BY_CHOICE & set(self.reasons)):
            say("clattn computed no attention within clattn.torch.patch(): " +
                ("; ".join(self.reasons) if self.reasons else
                 "nothing called torch.nn.functional.scaled_dot_product_attention, as models do that compute attention by "
                 "themselves") + " (doc/guide/pytorch.md, \"When clattn is called\")", 2)

    def _since(self) -> "tuple[int, Dict[str, int]]":
        if self._begin is None:
            return 0, {}
        before, reasons = self._begin
        calls, now = self._end or tally.now()
        return calls - before, {reason: count - reasons.get(reason, 0) for reason, count in now.items()
                                if count > reasons.get(reason, 0)}

    @property
    def calls(self) -> int:
        """Calls that clattn computed while the patch was on, in all threads."""
        return self._since()[0]

    @property
    def reasons(self) -> Dict[str, int]:
        """Why calls went to PyTorch's function, and how many did for each reason."""
        return self._since()[1]

    @property
    def handed_over(self) -> int:
        """Calls that went to PyTorch's function."""
        return sum(self.reasons.values())
