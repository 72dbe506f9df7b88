"""Tests that need PyTorch and transformers (tests/frameworks.sh)."""
