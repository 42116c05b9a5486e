"""Escape hatches are tested in both spellings: ours, and torch's own, which libraries use."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo

import onegraph

both_spellings = pytest.mark.parametrize("spelling", [onegraph, torch._dynamo], ids=["onegraph", "torch"])
