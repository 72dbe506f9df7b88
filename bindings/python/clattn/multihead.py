# SPDX-License-Identifier: Apache-2.0
"""Multi-head attention layers: projections and attention as one plan, forward and backward."""
from __future__ import annotations

import ctypes
import functools
import inspect
from typing import Any, Optional

from . import _declarations as c
from ._checks import text, whole, whole_within
from ._library import check, described, load, with_reason
from ._tensors import Tensor, tensors_of, views_of
from ._views import DTYPES, packed
from .context import Compiling, Context, given_context, release_with
from .errors import InvalidArgument
from .function import Functions
from .plan import queue_of, run

# The gradients of parameters are named after them: dw_q, db_o.
_PREFIXES = {"gradients": "d"}


class Multihead:
    """A layer planned for a device.

        Multihead("layer fwd f32 b2 h12 q128 d64 model=768 packed biases obias")

    layer         its text form, which is described below
    context       a Context; None, the default: that of default_context()
    known_only    only kernels that were tuned; False by default
    untuned       only kernels that a device gets that was never tuned; False by default
    score_mod, mask_mod  as in attention(), None by default; where the text asks for dfunction, it names the function:
                  score={f.name}

    Raises InvalidProblem for a text that does not parse, Unsupported where no kernel computes a step of it, NotTuned where
    only tuned kernels may be used and there are none.
    """

    def __init__(self, layer: str, *, context: Optional[Context] = None, known_only: bool = False, untuned: bool = False,
                 score_mod: Any = None, mask_mod: Any = None):
        self.context = given_context(context)
        lib = load().lib
        self._layer = c.clattn_multihead()
        with_reason(lib.clattn_multihead_parse, text("layer", layer), ctypes.byref(self._layer))
        self._functions = Functions(self._layer.attention, score_mod, mask_mod)
        flags = (c.PLAN_KNOWN_ONLY if known_only else 0) | (c.PLAN_UNTUNED if untuned else 0)
        handle = ctypes.c_void_p()
        with Compiling():
            check(lib.clattn_multihead_plan_create(self.context.handle, ctypes.byref(self._layer), flags, ctypes.byref(handle)))
        self._handle = handle.value or 0
        release_with(self, lib.clattn_multihead_plan_release, self._handle)

    @property
    def info(self) -> dict[str, Any]:
        """layer, steps (a line for each plan inside), num_steps, workspace_bytes, reserve_bytes."""
        return described(load().lib.clattn_multihead_plan_describe, self._handle, c.clattn_multihead_info)

    def execute(self, *, queue: Any = None, dropout_seed: int = 0, dropout_offset: int = 0, score_mod: Any = None,
                mask_mod: Any = None, version: int = 0, **tensors: Any) -> Any:
        """Executes on packed arrays of the names in clattn/multihead.h, and writes results to the arrays given for them. Returns
        None, or on pyopencl arrays the event of the work.

        tensors       x, context, values, w_q, b_q, w_o, bias, mask and y; reserve, if training; backward dy, and for the gradients
                      that are wanted dx, dcontext, dvalues, dw_q, db_q and so on
        queue         as in attention()
        dropout_seed, dropout_offset  which weights are dropped; 0 by default
        score_mod, mask_mod, version  as in Plan.execute()

        Raises InvalidArgument, which names the tensor and the shape that it must have.
        """
        backward = self._layer.attention.operation == c.BACKWARD
        struct = c.clattn_multihead_backward_tensors() if backward else c.clattn_multihead_forward_tensors()
        struct.__getattribute__("in").dropout_seed = whole("dropout_seed", dropout_seed) & 0xFFFFFFFFFFFFFFFF
        struct.__getattribute__("in").dropout_offset = whole("dropout_offset", dropout_offset) & 0xFFFFFFFF
        views = views_of(tensors, self._tensors, ("reserve", "workspace"), lambda: str(self.info["layer"]))
        functions = self._functions.with_others(score_mod, mask_mod, lambda: str(self.info["layer"]))
        views.update(functions.views())
        values = functions.values()
        struct.function_values = None if values is None else ctypes.addressof(values)
        struct.function_version = whole_within("version", version, 0, 2 ** 64 - 1)
        self.context.handle
        on = queue_of(views, queue)
        written = [name for name in views if name.startswith("d")] if backward else ["y", "weights", "reserve"]
        if "dy" in written:
            written.remove("dy")
        function = load().lib.clattn_multihead_backward if backward else load().lib.clattn_multihead_forward
        return run(function, self._handle, self.context, struct, views, written, on, _PREFIXES)

    @functools.cached_property
    def _tensors(self) -> dict[str, Tensor]:
        """Those of the layer, all packed, and the options of its attention. Gradients are like what they are of."""
        p = self._layer.attention
        dtype = tuple(name for name, value in DTYPES.items() if value == p.dtype)
        found = tensors_of(p)
        for name, size in self._shapes().items():
            for one in (name, "d" + name):
                found[one] = Tensor(one, ("float32",) if name == "weights" else dtype, size, packed(size))
        return found

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the tensors whose names are a layer's alone."""
        layer, p = self._layer, self._layer.attention
        q, k, v, o = p.heads * p.dim_qk, p.kv_heads * p.dim_qk, p.kv_heads * p.dim_v, p.heads * p.dim_v

        def rows(seq: int, columns: int) -> tuple[int, ...]:
            return (seq, p.batch, columns) if layer.seq_first else (p.batch, seq, columns)

        def weight(columns: int, into: int) -> tuple[int, ...]:
            return (columns, into) if layer.order == c.IN_OUT else (into, columns)

        q = q + k + v if layer.packed else q
        scores = (p.batch, p.heads, p.seq_q, p.seq_kv)
        return dict(x=rows(p.seq_q, layer.model), context=rows(p.seq_kv, layer.context_model),
                    values=rows(p.seq_kv, layer.values_model), y=rows(p.seq_q, layer.output),
                    w_q=weight(layer.model, q), w_k=weight(layer.context_model, k), w_v=weight(layer.values_model, v),
                    w_o=weight(o, layer.output), b_q=(q,), b_k=(k,), b_v=(v,), b_o=(layer.output,),
                    weights=scores if layer.weights == c.WEIGHTS_HEADS else scores[:1] + scores[2:])

    def __repr__(self) -> str:
        return f"<clattn.Multihead of '{self.info['layer']}'>"


Multihead.__doc__ = inspect.cleandoc(Multihead.__doc__ or "") + "\n\n" + c.TEXT_FORMS["multihead"]
