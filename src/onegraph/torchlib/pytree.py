"""Containers that torch's pytree registry knows, user classes among them, as the list of their leaves."""

from __future__ import annotations

from typing import Any

from onegraph.torchlib.private import tree_leaves, tree_map

__all__ = ["leaves_of", "map_leaves_of"]


def leaves_of(value: Any) -> list[Any]:
    """What is left when all registered containers are taken apart. A class that is not registered is a leaf."""
    return list(tree_leaves(value))


def map_leaves_of(function: Any, value: Any) -> Any:
    """The same containers with `function(leaf)` in the place of each leaf."""
    return tree_map(function, value)
