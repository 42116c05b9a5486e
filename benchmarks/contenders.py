"""The three ways of running one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import onegraph

CONTENDERS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda target: target,
    "stock": torch.compile,
    "onegraph": onegraph.compile,
}


def reset() -> None:
    """Let each case start afresh: remembering another one makes sizes symbolic, or reaches a recompile limit."""
    torch.compiler.reset()
    onegraph.reset()
