# SPDX-License-Identifier: Apache-2.0
"""Attention with the mean of its weights over the heads, which torch.nn.MultiheadAttention returns with need_weights=True."""
from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor

from . import _torch_execute as execution
from ._torch_function import form_of
from ._torch_operators import INPUTS, Refused, derive, is_watched, keep, key_of, room, weights_by_formula
from ._torch_tally import tally

_WATCHED = ("torch.nn.MultiheadAttention returns weights, and a mode, a profiler, a transform or a program being traced watches "
            "what is computed")


def _compute(q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], bias: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
    """o, lse and the weights in f32, of which kernels write the mean alone."""
    key = ("weights", *key_of(q, k, v, mask, bias, None))
    given = (q, k, v, mask, bias, None)
    prepared = execution.prepared_of(key)
    if prepared is None:
        o, lse = room(q, v, True, True)
        weights = q.new_empty((q.shape[0], q.shape[2], k.shape[2]), dtype=torch.float32)
        prepared = execution.prepare(key, INPUTS, given, dict(o=o, lse=lse, scores=weights), None, None, None, 0.0)
    o, lse, weights = execution.execute(prepared, given)
    tally.computed()
    return o, lse, weights


class _Weighed(torch.autograd.Function):
    """The same with gradients. Those of the weights, which few programs want, are computed with a matrix of all weights."""

    @staticmethod
    def forward(ctx, *inputs):
        o, lse, weights = _compute(*inputs[:5])
        keep(ctx, inputs, (o, lse))
        return o, lse, weights

    @staticmethod
    def backward(ctx, d_o, dlse, dweights):
        gradients = list(derive(ctx, d_o, dlse))
        if dweights is not None:
            q, k, _v, _o, _lse, mask, bias, *_ = ctx.saved_tensors
            with torch.enable_grad():
                inputs = [x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in (q, k, bias) if x is not None]
                weights, _ = weights_by_formula(*inputs[:2], mask, inputs[2] if bias is not None else None, None, None, None, None)
                made = torch.autograd.grad(weights.mean(1), inputs, dweights, create_graph=torch.is_grad_enabled())
            for place, wanted, one in zip((0, 1, 4), ctx.needs_input_grad[:2] + ctx.needs_input_grad[4:5], made):
                if wanted:
                    gradients[place] = one if gradients[place] is None else gradients[place] + one
        return tuple(gradients)


def attend_with_weights(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    """The result and the mean weights, (batch, queries, keys), of tensors as torch.nn.MultiheadAttention makes them, (batch, heads,
    sequence, dim). Raises Refused, or another clattn.Error."""
    if is_watched(query, key, value, attn_mask) or torch.autograd.forward_ad._current_level >= 0:
        raise Refused(_WATCHED)
    form = form_of(query, key, value, attn_mask, False, False, None)
    if isinstance(form, str):
        raise Refused(form)
    is_mask = attn_mask is not None and attn_mask.dtype == torch.bool
    mask, bias = (attn_mask, None) if is_mask else (None, attn_mask)
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (query, key, value, bias)):
        o, _, weights = _Weighed.apply(query, key, value, mask, bias, None, None, None, None, None, 0.0, True, True)
    else:
        o, _, weights = _compute(query, key, value, mask, bias)
    return o, weights.to(query.dtype)


def by_products(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    """The same by PyTorch's products of matrices, as torch.nn.MultiheadAttention has it."""
    scores = query * query.shape[-1] ** -0.5 @ key.transpose(-2, -1)
    weights = (scores if attn_mask is None else scores + attn_mask).softmax(-1)
    return weights @ value, weights.mean(1)
