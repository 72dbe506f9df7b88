# SPDX-License-Identifier: Apache-2.0
"""A zoo of architectures of Hugging Face's transformers, tiny and with random weights: by the name "clattn" and under patch() they
compute what transformers' eager code does, with padding, in generation and in gradients."""
import ast
import contextlib
import inspect
import os
import pathlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import clattn.torch
import pytest
import torch
from clattn import _transformers

transformers = pytest.importorskip("transformers", minversion="5.0")
clattn.torch.register()

VOCABULARY = 96
LENGTH = 19

# What most configurations call their sizes.
COMMON = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
              max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attention_dropout=0.0)
GROUPED = dict(COMMON, num_key_value_heads=2, head_dim=8, pad_token_id=0)
SEQ2SEQ = dict(vocab_size=VOCABULARY, d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4,
               decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64, dropout=0.0,
               attention_dropout=0.0, activation_dropout=0.0, pad_token_id=0, bos_token_id=1, eos_token_id=2,
               decoder_start_token_id=1, forced_eos_token_id=None)
T5 = dict(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0,
          initializer_factor=2.0, pad_token_id=0, decoder_start_token_id=0)
IMAGE = dict(COMMON, image_size=32, patch_size=8, num_channels=3)
MOE = dict(num_experts_per_tok=2, num_local_experts=4, num_experts=4, moe_intermediate_size=24)
MLA = dict(GROUPED, num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=8,
           head_dim=4, n_routed_experts=4, n_shared_experts=1, n_group=1, topk_group=1, first_k_dense_replace=1, **MOE)

# The class whose attention is looked at, and its configuration beside that class's defaults.
DECODERS = {
    "BloomForCausalLM": None,  # computes eagerly, whatever it is asked
    "CohereForCausalLM": GROUPED,
    "Cohere2ForCausalLM": dict(GROUPED, sliding_window=6),
    "DeepseekV2ForCausalLM": MLA,
    "DeepseekV3ForCausalLM": MLA,
    "GPT2LMHeadModel": dict(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0.0,
                            embd_pdrop=0.0, attn_pdrop=0.0),
    "GPTBigCodeForCausalLM": dict(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0.0,
                                  embd_pdrop=0.0, attn_pdrop=0.0),
    "GPTNeoXForCausalLM": COMMON,
    "GemmaForCausalLM": GROUPED,
    "Gemma2ForCausalLM": dict(GROUPED, sliding_window=6, attn_logit_softcapping=2.0, query_pre_attn_scalar=8),
    "Gemma3ForCausalLM": dict(GROUPED, sliding_window=6, query_pre_attn_scalar=8),
    "Glm4ForCausalLM": GROUPED,
    "GptOssForCausalLM": dict(GROUPED, sliding_window=6, **MOE),
    "GraniteForCausalLM": dict(GROUPED, attention_multiplier=0.4),
    "HeliumForCausalLM": GROUPED,
    "LlamaForCausalLM": GROUPED,
    "MistralForCausalLM": dict(GROUPED, sliding_window=6),
    "MixtralForCausalLM": dict(GROUPED, **MOE),
    "NemotronForCausalLM": GROUPED,
    "OPTForCausalLM": dict(COMMON, ffn_dim=48, word_embed_proj_dim=32, dropout=0.0, pad_token_id=0),
    "Olmo2ForCausalLM": GROUPED,
    "PersimmonForCausalLM": GROUPED,
    "PhiForCausalLM": GROUPED,
    "Phi3ForCausalLM": dict(GROUPED, sliding_window=6),
    "Qwen2ForCausalLM": GROUPED,
    "Qwen3ForCausalLM": GROUPED,
    "SmolLM3ForCausalLM": GROUPED,
    "StableLmForCausalLM": GROUPED,
    "Starcoder2ForCausalLM": dict(GROUPED, sliding_window=6),
}
ENCODERS = {
    "AlbertModel": dict(COMMON, embedding_size=16),
    "BertModel": COMMON,
    "CamembertModel": COMMON,
    "DistilBertModel": dict(vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=64,
                            dropout=0.0, attention_dropout=0.0),
    "ElectraModel": dict(COMMON, embedding_size=16),
    "ErnieModel": COMMON,
    "EsmModel": dict(COMMON, pad_token_id=1, mask_token_id=3, position_embedding_type="rotary"),
    "LayoutLMv3Model": dict(COMMON, max_2d_position_embeddings=64, coordinate_size=6, shape_size=4, has_relative_attention_bias=True,
                            has_spatial_attention_bias=True, visual_embed=False),
    "ModernBertModel": dict(COMMON, global_attn_every_n_layers=2, local_attention=8, pad_token_id=0, embedding_dropout=0.0),
    "RobertaModel": COMMON,
    "T5EncoderModel": T5,
    "XLMRobertaModel": COMMON,
}
SEQUENCE_TO_SEQUENCE = {
    "BartModel": SEQ2SEQ,
    "BlenderbotModel": SEQ2SEQ,
    "M2M100Model": SEQ2SEQ,
    "MBartModel": SEQ2SEQ,
    "MT5Model": T5,
    "MarianModel": SEQ2SEQ,
    "PegasusModel": SEQ2SEQ,
    "SwitchTransformersModel": dict(T5, num_experts=2, expert_capacity=64, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1,
                                    num_decoder_layers=2),
    "T5Model": T5,
    "UMT5Model": T5,
}
IMAGES = {
    "CLIPVisionModel": IMAGE,
    "DeiTModel": IMAGE,
    "Dinov2Model": dict(IMAGE, mlp_ratio=2),
    "IJepaModel": IMAGE,
    "SiglipVisionModel": IMAGE,
    "ViTModel": IMAGE,
}
SOUNDS = {
    "ASTModel": dict(COMMON, max_length=32, num_mel_bins=16, patch_size=8, time_stride=8, frequency_stride=8),
    "WhisperModel": dict(SEQ2SEQ, num_mel_bins=8, max_source_positions=16, max_target_positions=64, suppress_tokens=None,
                         begin_suppress_tokens=None),
}


def make(name, options):
    torch.manual_seed(7)
    architecture = getattr(transformers, name)
    model = architecture(architecture.config_class(**options))
    if "num_experts_per_tok" in options:
        model.set_experts_implementation("eager")  # the others multiply no float64
    with torch.no_grad():  # learned tables and sinks begin as zeros in some, and would hide that they are left out
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return model.eval()


def inputs_of(name, padded):
    draw = torch.Generator().manual_seed(3)
    tokens = torch.randint(4, VOCABULARY, (2, LENGTH), generator=draw)
    mask = torch.ones_like(tokens)
    if padded:
        mask[0, LENGTH - 3:] = 0  # at the end, shorter than the windows: rows that see nothing are NaN in eager code
    if name in IMAGES:
        return {"pixel_values": torch.randn(2, 3, 32, 32, generator=draw)}
    if name == "ASTModel":
        return {"input_values": torch.randn(2, 32, 16, generator=draw)}
    if name == "WhisperModel":
        return {"input_features": torch.randn(2, 8, 32, generator=draw), "decoder_input_ids": tokens}
    if name in SEQUENCE_TO_SEQUENCE:
        return {"input_ids": tokens, "attention_mask": mask, "decoder_input_ids": tokens.flip(1)[:, :11]}
    if name == "LayoutLMv3Model":
        corners = torch.randint(0, 30, (2, LENGTH, 2), generator=draw)
        return {"input_ids": tokens, "attention_mask": mask, "bbox": torch.cat([corners, corners + 5], -1)}
    return {"input_ids": tokens, "attention_mask": mask}


# transformers offers no sdpa for these: softcaps, sinks, and what it never adapted.
WITHOUT_SDPA = {"Gemma2ForCausalLM", "GptOssForCausalLM", "SwitchTransformersModel"}
WAYS = {"eager": "eager", "patched": "sdpa", "registered": "clattn"}


@contextlib.contextmanager
def through(model, way):
    model.set_attn_implementation(WAYS[way])
    with clattn.torch.patch(always=True) if way == "patched" else contextlib.nullcontext():
        with torch.profiler.profile() as profile:
            yield
    calls = sum(event.count for event in profile.key_averages() if event.key == "clattn::attention")
    assert (calls > 0) == (way != "eager"), f"{calls} calls of clattn"


def visible(model, name, inputs):
    """What the model says of tokens that are no padding."""
    out = model(**inputs)
    out = out.logits if "logits" in out else out.last_hidden_state
    mask = inputs.get("attention_mask")
    return out[mask.bool()] if mask is not None and mask.shape == out.shape[:2] and name not in SEQUENCE_TO_SEQUENCE else out


def answers(model, name, way, padded):
    inputs = inputs_of(name, padded)
    if next(model.parameters()).dtype == torch.float64:
        inputs = {key: value.double() if value.is_floating_point() else value for key, value in inputs.items()}
    model.zero_grad()
    with through(model, way):
        out = visible(model, name, inputs)
        weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(5))
        (out * weights).sum().backward()
    found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    found["the output"] = out.detach()
    return found


def expect_alike(got, eager, exact, what):
    """Each tensor is about as far from what float64 gives as transformers' own code in float32 is."""
    assert got.keys() == exact.keys()
    largest = max(value.abs().max().item() for name, value in exact.items() if name != "the output")
    for name, want in exact.items():
        error, theirs = ((found[name] - want).abs().max().item() for found in (got, eager))
        # A gradient that vanishes, as that of a key's bias, is held to the others.
        scale = max(want.abs().max().item(), 1e-3 * largest)
        assert error <= 4 * theirs + 1e-5 * scale, f"{what}: {name} is off by {error:.2e}, eager code by {theirs:.2e}, of {scale:.2e}"


ALL = {**DECODERS, **ENCODERS, **SEQUENCE_TO_SEQUENCE, **IMAGES, **SOUNDS}
SERVED = [name for name, options in ALL.items() if options is not None]


@pytest.mark.parametrize("name", SERVED)
def test_outputs_and_gradients(name):
    model = make(name, ALL[name])
    for padded in (False, True) if name not in IMAGES and name not in SOUNDS else (False,):
        exact = answers(model.double(), name, "eager", padded)
        eager = answers(model.float(), name, "eager", padded)
        for way in ("patched", "registered"):
            if way == "registered" or name not in WITHOUT_SDPA:
                expect_alike(answers(model, name, way, padded), eager, exact, f"{name} {way}{' padded' if padded else ''}")


@pytest.mark.parametrize("name", [name for name in DECODERS if name in SERVED])
def test_generation(name):
    model = make(name, ALL[name])
    tokens = torch.randint(4, VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(4))
    mask = torch.ones_like(tokens)
    mask[1, :3] = 0  # padding lies on the left
    generated = {}
    for way in WAYS:
        if way == "patched" and name in WITHOUT_SDPA:
            continue
        with through(model, way), torch.no_grad():
            generated[way] = model.generate(tokens, attention_mask=mask, max_new_tokens=8, min_new_tokens=8, do_sample=False,
                                            pad_token_id=0)
    for way, words in generated.items():
        assert torch.equal(words, generated["eager"]), way


def test_ten_steps_of_training_come_to_the_same_losses():
    losses = {}
    for way in ("eager", "patched"):
        model = make("LlamaForCausalLM", GROUPED)
        inputs = inputs_of("LlamaForCausalLM", True)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        losses[way] = []
        with through(model, way):
            for _ in range(10):
                optimizer.zero_grad()
                loss = model(**inputs, labels=inputs["input_ids"]).loss
                loss.backward()
                optimizer.step()
                losses[way].append(loss.item())
    assert losses["patched"] == pytest.approx(losses["eager"], rel=1e-4)
    assert losses["patched"][-1] < losses["patched"][0]


# Lists of keys that a model's own indexer has chosen, which no attention_mask says: refused (test_register.py).
REFUSED = {"indices", "block_indices"}


def test_each_keyword_of_the_attention_interface_is_known():
    known = set(inspect.signature(_transformers.attention_forward).parameters) | _transformers.CHANGE_NOTHING | REFUSED
    found = {}
    for path in pathlib.Path(transformers.__file__).parent.glob("models/*/modeling_*.py"):
        source = path.read_text()
        if "attention_interface" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "attention_interface":
                for keyword in node.keywords:
                    found.setdefault(keyword.arg, []).append(path.stem)
    assert len(found) > 10
    unknown = {name: files for name, files in found.items() if name is not None and name not in known}
    assert not unknown, f"models pass keywords that clattn neither takes nor refuses knowingly: {unknown}"
