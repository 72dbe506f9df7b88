# SPDX-License-Identifier: Apache-2.0
"""Tests that need PyTorch and transformers (tests/frameworks.sh)."""
import clattn.torch
import pytest


@pytest.fixture(autouse=True)
def _reasons_are_new(monkeypatch):
    """As if no reason had been told in this process before."""
    monkeypatch.setattr(clattn.torch.tally, "_told", set())
