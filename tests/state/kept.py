"""Programs that keep state between calls, in twin worlds: a file of programs is loaded twice, one copy runs eagerly and
one with its functions compiled. Each world has random streams of its own, which go on from call to call.

A program is a function decorated with the file's `kept = Kept()`; it builds what it needs, and returns what one call
is, and what it keeps:

    @kept(recompiles=1)
    def averages(compile):
        model, average = ...
        return compile(update), lambda: (model, average)

`breaks` are the codes of all graph breaks that it has, `recompiles` how often functions are compiled once more at most.
One that is `limited` runs eagerly in the end, since it asks for another number in each call.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import torch

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from onegraph.tools.record import recording
from tests.capture.bisimulation import Bisimulation

PROGRAMS = Path(__file__).parent / "programs"
CALLS = 10

Compile = Callable[[Any], Any]
Build = Callable[[Compile], tuple[Callable[[], Any], Callable[[], Any]]]


@dataclass(frozen=True, slots=True)
class Entry:
    build: Build
    breaks: frozenset[str]
    recompiles: int
    limited: bool


class Kept(dict[str, Entry]):
    """The programs of one file, by name."""

    def __call__(
        self, *, breaks: tuple[str, ...] = (), recompiles: int = 0, limited: bool = False
    ) -> Callable[[Build], Build]:
        def add(build: Build) -> Build:
            assert build.__name__ not in self, f"two programs named {build.__name__}"
            self[build.__name__] = Entry(build, frozenset(breaks), recompiles, limited)
            return build

        return add


def load(stem: str) -> ModuleType:
    """A new copy of a file of programs."""
    spec = importlib.util.spec_from_file_location(f"kept_{stem}", PROGRAMS / f"{stem}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class World:
    """One copy of a file of programs, with random streams that go on from call to call."""

    def __init__(self, stem: str, name: str, compile: Compile) -> None:
        torch.manual_seed(7)
        random.seed(7)
        numpy.random.seed(7)
        self.module = load(stem)
        self.entry: Entry = self.module.kept[name]
        self.call, self.state = self.entry.build(compile)
        self.results: list[Any] = []
        self.streams = streams()

    def step(self) -> None:
        sys.modules[self.module.__name__] = self.module
        set_streams(self.streams)
        self.results.append(self.call())
        self.streams = streams()

    def seen(self) -> Any:
        """All that can be seen of the world."""
        own = vars(self.module).copy()
        state = {name: own[name] for name in sorted(own) if not name.startswith("__") and name != "kept"}
        torch_state, python_state, numpy_state = self.streams
        numbers = (numpy_state[1].tolist(), *numpy_state[2:])
        return self.results, self.state(), state, (torch_state.tolist(), python_state, numbers)


def streams() -> tuple[Any, ...]:
    return torch.get_rng_state(), random.getstate(), numpy.random.get_state()


def set_streams(states: tuple[Any, ...]) -> None:
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    numpy.random.set_state(states[2])


def check(stem: str, name: str, backend: str) -> None:
    """Ten calls in both worlds: equal after each, compiled as often as is said, broken where it is said."""
    onegraph.reset()
    options = {"check_unchanged": True}
    eager = World(stem, name, lambda function: function)
    compiled = World(stem, name, lambda function: onegraph.compile(function, backend=backend, options=options))
    kinds = (ev.GraphCaptured, ev.GraphBroken, ev.FrameSkipped, ev.Recompiled, ev.RecompileLimitReached, ev.GraphFailed)
    with recording(EVENTS, kinds) as recorded:
        for number in range(CALLS):
            eager.step()
            compiled.step()
            difference = Bisimulation().difference(eager.seen(), compiled.seen())
            assert difference is None, f"call {number}: {difference}"

    def of(kind: type[ev.Event]) -> list[Any]:
        return [one.event for one in recorded if isinstance(one.event, kind)]

    breaks = of(ev.GraphBroken)
    assert {event.code for event in breaks} == eager.entry.breaks, [(e.code, e.reason, str(e.frame)) for e in breaks]
    assert breaks or not of(ev.FrameSkipped), [event.reason for event in of(ev.FrameSkipped)]
    assert not of(ev.GraphFailed), [event.error for event in of(ev.GraphFailed)]
    limits = [event.reason for event in of(ev.RecompileLimitReached)]
    assert bool(limits) is eager.entry.limited, limits
    recompiled = of(ev.Recompiled)
    assert len(recompiled) <= eager.entry.recompiles, [event.reason for event in recompiled]
    graphs = len(of(ev.GraphCaptured))
    assert graphs, "nothing was compiled"
    assert breaks or limits or graphs <= 1 + len(recompiled), f"{graphs} graphs"
