"""Pickling of plain values: names and numbers in containers, of which programs make keys for caches of their own."""

from __future__ import annotations

import pickle
from typing import Any

from onegraph.capture.breaks import PICKLING, GraphBreak
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.heap.tensor_texts import holds_marked
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.torchlib.state import untraced

CONTAINERS = (tuple, list, dict)
#: What occurs twice in what is pickled is referred to by its place, if it is one object.
REFERRED = (str, bytes)


@policy(pickle.dumps)
def dumps(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """What the program would get in each call: nothing in it is told by which object it is."""
    given = [tracer.numbers.concrete_deep(tracer.world.realize_deep(value), "value") for value in args]
    if kwargs or holds_marked(given) or not is_plain(given, set(), set()):
        raise GraphBreak(PICKLING, name="pickle.dumps", what="pickle.dumps")
    with untraced():
        return pickle.dumps(*given)


def is_plain(value: Any, containers: set[int], texts: set[Any]) -> bool:
    """Whether a value consists of atoms in tuples, lists and dicts, and no text and no container is there twice."""
    if type(value) in CONTAINERS:
        if id(value) in containers and value:
            return False
        containers.add(id(value))
        items = [*value, *value.values()] if type(value) is dict else value
        return all(is_plain(item, containers, texts) for item in items)
    if type(value) in REFERRED:
        if value in texts:
            return False
        texts.add(value)
    return type(value) in ATOMS
