# SPDX-License-Identifier: Apache-2.0
"""Models of Hugging Face's transformers with and without clattn: the same outputs, gradients and losses."""
import contextlib
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import clattn.torch
import pytest
import torch

transformers = pytest.importorskip("transformers")
clattn.torch.register()


def bert():
    return transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=128, max_position_embeddings=64))


@pytest.fixture(params=[bert, llama], ids=["bert", "llama"])
def model(request):
    torch.manual_seed(1)
    return request.param()


@contextlib.contextmanager
def through(model, way):
    """The model's attention as PyTorch computes it, patched, or by the name that is registered."""
    model.set_attn_implementation("clattn" if way == "registered" else "sdpa")
    with clattn.torch.patch(always=True) if way == "patched" else contextlib.nullcontext():
        with torch.profiler.profile() as profile:
            yield
    calls = sum(event.count for event in profile.key_averages() if event.key == "clattn::attention")
    assert (calls > 0) == (way != "pytorch")


def batch():
    tokens = torch.randint(0, 200, (3, 24), generator=torch.Generator().manual_seed(2))
    padding = torch.ones_like(tokens)
    padding[1, 17:] = 0
    return tokens, padding


def logits_and_gradients(model, way, padded):
    tokens, padding = batch()
    model.zero_grad()
    with through(model, way):
        out = model(tokens, attention_mask=padding if padded else None, labels=tokens)
        out.loss.backward()
    logits = out.logits.detach()[padding.bool()] if padded else out.logits.detach()
    return logits, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
def test_the_same_logits_and_gradients(model, padded):
    want, gradients = logits_and_gradients(model, "pytorch", padded)
    for way in ("patched", "registered"):
        got, others = logits_and_gradients(model, way, padded)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        assert gradients.keys() == others.keys()
        for name, gradient in gradients.items():
            torch.testing.assert_close(others[name], gradient, rtol=1e-3, atol=1e-5, msg=name)


def test_ten_steps_of_training_come_to_the_same_losses(model):
    start = {name: value.clone() for name, value in model.state_dict().items()}
    losses = {}
    for way in ("pytorch", "patched"):
        model.load_state_dict(start)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        tokens, padding = batch()
        losses[way] = []
        with through(model, way):
            for _ in range(10):
                optimizer.zero_grad()
                loss = model(tokens, attention_mask=padding, labels=tokens).loss
                loss.backward()
                optimizer.step()
                losses[way].append(loss.item())
    assert losses["patched"] == pytest.approx(losses["pytorch"], rel=1e-4)
    assert losses["patched"][-1] < losses["patched"][0]


def test_tokens_are_generated_alike():
    torch.manual_seed(1)
    model = llama().eval()
    tokens = batch()[0][:1, :8]
    generated = {}
    for way in ("pytorch", "registered"):
        with through(model, way), torch.no_grad():
            generated[way] = model.generate(tokens, max_new_tokens=12, do_sample=False, pad_token_id=0)
    assert torch.equal(generated["pytorch"], generated["registered"])
