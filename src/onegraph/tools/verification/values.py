"""Where captured graphs compute a value that eager mode does not: what capture has made of the program is wrong there.

Eager mode is watched by operator, and remembers each result by its type, its shape and a sum over its elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Interpreter, Node

from onegraph.capture.directives.stance import set_stance
from onegraph.tools.verification.call import Call, Outcome
from onegraph.tools.verification.graphs import GraphCall
from onegraph.torchlib.fake import DispatchMode
from onegraph.torchlib.pytree import leaves_of

CLOSE = 1e-4
Key = tuple[torch.dtype, tuple[int, ...]]


def key_of(tensor: torch.Tensor) -> Key:
    return tensor.dtype, tuple(tensor.shape)


def sum_of(tensor: torch.Tensor) -> complex:
    """A sum over the elements in which each has a weight of its own."""
    flat = tensor.detach().to_dense().cpu().reshape(-1).to(torch.complex128)
    weights = torch.arange(1, flat.numel() + 1, dtype=torch.float64).cos() + 2
    return complex((flat.nan_to_num(nan=3.0, posinf=5.0, neginf=7.0) * weights).sum())


class Watching(DispatchMode):
    """Remembers what every operator gives while it is entered."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sums: dict[Key, list[complex]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in leaves_of(result):
            self.note(leaf)
        return result

    def note(self, value: object) -> None:
        if isinstance(value, torch.Tensor) and value.device.type != "meta":
            self.sums.setdefault(key_of(value), []).append(sum_of(value))

    def has(self, value: torch.Tensor) -> bool:
        found = sum_of(value)
        room = CLOSE * (1 + abs(found) + value.numel() ** 0.5)
        return any(abs(found - each) <= room for each in self.sums.get(key_of(value), ()))


def watched(call: Call) -> tuple[Outcome, Watching]:
    """The call in eager mode, and all values that it computes."""
    watching = Watching()

    def run(*args: Any, **kwargs: Any) -> Any:
        with watching:
            return call.target(*args, **kwargs)

    with set_stance("force_eager"):
        return call.run(run), watching


class Searching(Interpreter):
    """Runs a graph node by node until one gives what eager mode has not computed."""

    def __init__(self, call: GraphCall, watching: Watching) -> None:
        super().__init__(call.module, garbage_collect_values=False)
        self.watching = watching
        self.found: Node | None = None

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.op in ("placeholder", "get_attr", "output"):
            for leaf in leaves_of(result) if n.op != "output" else ():
                self.watching.note(leaf)
        elif self.found is None and not all(map(self.is_known, leaves_of(result))):
            self.found = n
        return result

    def is_known(self, value: object) -> bool:
        return not isinstance(value, torch.Tensor) or self.watching.has(value)


def first_unknown(calls: Sequence[GraphCall], watching: Watching) -> tuple[GraphCall, Node] | None:
    """The first node of these graphs that gives a value which eager mode has not computed, with its graph."""
    for each in calls:
        searching = Searching(each, watching)
        call = Call.of(each.module.forward, each.inputs, {})
        with torch.set_grad_enabled(each.gradients):
            call.run(searching.run)
        if searching.found is not None:
            return each, searching.found
    return None
