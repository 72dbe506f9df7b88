# SPDX-License-Identifier: Apache-2.0
"""clattn as an attention implementation of Hugging Face's transformers: what AttentionInterface hands over, taken or refused."""
from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from . import errors
from ._torch_function import attend
from ._torch_operators import Refused
from ._torch_tally import say, tally
from .context import default_context

# What models of transformers pass and transformers' own sdpa leaves alone as well, since mask, is_causal and scaling say it
# already, or since it concerns other kernels or what is computed after attention.
CHANGE_NOTHING = frozenset("""
    sliding_window position_ids cache_position position_embeddings cu_seq_lens_q cu_seq_lens_k max_length_q max_length_k
    seq_idx cu_seqlens max_seqlen deterministic kernel_options use_cache cache past_key_value past_key_values layer_past
    use_top_left_mask output_hidden_states output_router_logits output_attentions return_dict num_items_in_batch
    labels logits_to_keep token_type_ids mm_token_type_ids input_ids inputs_embeds layer_idx
    encoder_hidden_states encoder_attention_mask decoder_input_ids decoder_attention_mask target_dtype
    training implementation
    """.split())


def _with_extra_key(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], bias: Optional[Tensor],
                    is_causal: bool, sinks: Tensor) -> Tuple[Tensor, Tensor, Optional[Tensor], Tensor]:
    """Sinks that each query has its own of: a key in front, whose score is the bias, and whose value is 0."""
    batch, heads, queries, _ = query.shape
    keys = key.shape[2]
    key, value = (torch.cat([x.new_zeros(*x.shape[:2], 1, x.shape[3]), x], 2) for x in (key, value))
    dtype = sinks.dtype if bias is None else bias.dtype
    rest = sinks.new_zeros(1, 1, 1, 1, dtype=dtype) if bias is None else bias
    bias = torch.cat([sinks.to(dtype).expand(batch, heads, queries, 1), rest.expand(batch, heads, queries, keys)], -1)
    if is_causal:
        mask = torch.ones(queries, keys, dtype=torch.bool).tril()[None, None]
    if mask is not None:
        seen = mask.any(-1, keepdim=True)  # a query without keys stays without result
        mask = torch.cat([seen.expand(*mask.shape[:-1], 1), mask], -1)
    return key, value, mask, bias


def attention_forward(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Optional[Tensor],
                      dropout: float = 0.0, scaling: Optional[float] = None, is_causal: Optional[bool] = None,
                      softcap: Optional[float] = None, s_aux: Optional[Tensor] = None, position_bias: Optional[Tensor] = None,
                      sinks: Optional[Tensor] = None, **others: Any) -> Tuple[Tensor, None]:
    """What AttentionInterface calls: heads of keys are shared as they are; softcap, sinks and bias are the kernel's."""
    for name, given in others.items():
        if given is not None and name not in CHANGE_NOTHING:
            raise Refused(f"{name} is given by {type(module).__name__}, and clattn does not know what it does to attention: "
                          "attn_implementation=\"sdpa\" within clattn.torch.patch() computes it as transformers does")
    if others.get("output_attentions"):
        _say_that_there_are_no_weights()
    if sinks is not None and s_aux is not None:
        raise Refused("s_aux and sinks are both given, but are names of the same")
    s_aux = sinks if s_aux is None else s_aux
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    queries, keys = query.shape[2], key.shape[2]
    causal = bool(queries > 1 and attention_mask is None and is_causal)
    mask, bias = attention_mask, position_bias
    if causal and keys > queries:  # a cache that is empty yet
        key, value = key[:, :, :queries], value[:, :, :queries]
        bias = bias if bias is None else bias[..., :queries]
    if bias is not None and mask is not None and mask.dtype != torch.bool:
        mask, bias = None, bias + mask
    if mask is not None and mask.dtype != torch.bool:
        mask, bias = None, mask
    if bias is not None and bias.dtype not in (torch.float32, query.dtype):
        bias = bias.to(torch.float32)
    if s_aux is not None and s_aux.numel() == query.shape[1]:
        s_aux = s_aux.reshape(-1)
    elif s_aux is not None:
        key, value, mask, bias = _with_extra_key(query, key, value, mask, bias, causal, s_aux)
        s_aux, causal = None, False
    try:
        o = attend(query, key, value, mask, dropout, causal, scaling, True, bias=bias, softcap=softcap, sinks=s_aux,
                   transposed=True)
    except errors.Error as error:
        if softcap is not None or s_aux is not None or sinks is not None or torch.compiler.is_compiling():
            raise
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        given = {} if position_bias is None else dict(position_bias=position_bias)
        result: Tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout,
                                                             scaling=scaling, is_causal=is_causal, **given)
        tally.handed_over(str(error), True)
        return result
    return o.transpose(1, 2).contiguous(), None


_said_that_there_are_no_weights = False


def _say_that_there_are_no_weights() -> None:
    global _said_that_there_are_no_weights
    if not _said_that_there_are_no_weights and not torch.compiler.is_compiling():
        _said_that_there_are_no_weights = True
        say("clattn does not return the weights that output_attentions=True asks for; attn_implementation=\"eager\" does", 4)


def register(name: str = "clattn") -> None:
    """Makes attn_implementation=`name` available to the models of Hugging Face's transformers.

    name          "clattn" by default

    Raises ImportError where transformers is missing or older than 4.53.
    """
    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    except ImportError as error:
        try:
            from transformers import __version__ as version
        except ImportError:
            raise ImportError("clattn.torch.register() needs transformers, which is not installed") from error
        raise ImportError(f"clattn.torch.register() needs transformers 4.53 or newer, where attention is chosen by name; this is "
                          f"{version}, with which clattn.torch.patch() works") from error
    try:
        default_context().handle
    except errors.Error as error:
        say(f"models with attn_implementation=\"{name}\" are computed by PyTorch: {error}", 2)
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, sdpa_mask)
