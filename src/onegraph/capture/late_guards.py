"""What traced backward passes assume of the world: it is asked again when they run, which may be long after the call.

That are the guards on what is found without the arguments of the call. What the program itself has written is not among
them: it holds something else from then on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch

from onegraph.capture.guards import Guard, GuardSet, assemble
from onegraph.capture.source import Arg, FreeCell, Item, Source, base_of, root_of
from onegraph.capture.world import World
from onegraph.torchlib.custom_function import applied_in


def is_of_call(guard: Guard) -> bool:
    """Whether a guard can only be asked where a call begins."""
    sources = [guard.source, *([guard.arg] if guard.kind in ("same", "different") else [])]
    relates = guard.kind in ("together", "memory")
    return relates or any(isinstance(root_of(source), Arg | FreeCell) for source in sources)


def guard_backwards(graph: torch.fx.Graph, world: World, facts: Sequence[Guard]) -> None:
    """Let the custom functions of a graph know what is assumed."""
    functions = applied_in(graph)
    if not functions:
        return
    written = {Item(space.source, name) for space in world.namespaces.values() for name in space.written}
    written |= {entry.source for entry in world.changed()}
    lasting = GuardSet()
    for guard in world.guards:
        if not is_of_call(guard) and written.isdisjoint(path_to(guard.source)):
            lasting.add(guard)
    program = assemble(lasting, (), None, {}, facts)
    for function in functions:
        function.unchanged = partial(program.native.check, guard_backwards, ())


def path_to(source: Source | None) -> Iterator[Source]:
    while source is not None:
        yield source
        source = base_of(source)
