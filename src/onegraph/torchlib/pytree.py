"""Containers that torch's pytree registry knows, user classes among them, as the list of their leaves."""

from __future__ import annotations

from typing import Any

from onegraph.torchlib.private import tree_flatten, tree_leaves, tree_map, tree_unflatten

__all__ = ["flattened", "leaves_of", "map_leaves_of", "unflattened"]


def leaves_of(value: Any) -> list[Any]:
    """What is left when all registered containers are taken apart. A class that is not registered is a leaf."""
    return list(tree_leaves(value))


def map_leaves_of(function: Any, value: Any) -> Any:
    """The same containers with `function(leaf)` in the place of each leaf."""
    return tree_map(function, value)


def flattened(value: Any) -> tuple[list[Any], Any]:
    """The leaves, and what `unflattened` makes the containers of."""
    leaves, kind = tree_flatten(value)
    return leaves, kind


def unflattened(kind: Any, leaves: Any) -> Any:
    return tree_unflatten(leaves, kind)
