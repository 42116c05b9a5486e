"""The statements that draw random numbers, in the order of the program: in front of the graph, and of all writes."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import torch

from onegraph import _C
from onegraph.capture.guards.source import Drawn
from onegraph.capture.residual.rebuild import Rebuild, literal
from onegraph.capture.symbolic.random_draws import Draw, RandomDraws
from onegraph.torchlib.shapes import Whole


def write_random_draws(rebuild: Rebuild, random: RandomDraws, has_graph: bool) -> tuple[list[str], list[str]]:
    """Write the draws, and around them what a frame needs that is to run as it was written.

    Returns what is drawn, in words, and the statements that follow the graph.

    r1_ = k0_(s1_)             the draws, in order
    k1_(r1_)                   fails as a graph does, if the frame is not traced for what they give
    r2_ = int(r1_ * 5)         integers that are computed of it
    """
    draws = {place: draw for place, draw in enumerate(random.made) if isinstance(draw, Draw)}
    may_fail = bool(has_graph or random.saved.facts or any(draw.may_raise for draw in draws.values()))
    if not draws:
        return [], []
    generators = {source: rebuild.source(source) for source in random.saved.sources}
    if may_fail:
        rebuild.loads.append(f"{rebuild.const(random.saved.take)}({', '.join(generators.values())})")
    for place, draw in draws.items():
        rebuild.name_source(Drawn(place), _call(rebuild, random, draw))
    if may_fail:
        random.saved.symbols = random.symbols()
        values = ", ".join(random.text(rebuild, symbol) for symbol in random.saved.symbols)
        rebuild.loads.append(f"{rebuild.const(_C.Graph(random.saved.check, random.saved.failed))}({values})")
    for place, computed in enumerate(random.made):
        if isinstance(computed, Whole):
            rebuild.name_source(Drawn(place), random.text(rebuild, computed))
    said = [f"a call of {getattr(draw.function, '__qualname__', 'a generator')}" for draw in draws.values()]
    return said, [f"{rebuild.const(random.saved.forget)}()"] if may_fail else []


def _call(rebuild: Rebuild, random: RandomDraws, draw: Draw) -> str:
    function = _C.disabled(draw.function) if isinstance(draw.function, FunctionType) else draw.function
    given = [] if draw.generator is None else [rebuild.source(draw.generator)]
    for value in draw.args:
        symbolic = isinstance(value, torch.SymInt | torch.SymFloat)
        given.append(random.text(rebuild, value) if symbolic else _constant(rebuild, value))
    given += [f"{name}={_constant(rebuild, value)}" for name, value in draw.kwargs.items()]
    if draw.may_raise:
        attempt, instead = rebuild.const(random.saved.attempt), _constant(rebuild, draw.instead)
        return f"{attempt}({instead}, {rebuild.const(function)}, {', '.join(given)})"
    return f"{rebuild.const(function)}({', '.join(given)})"


def _constant(rebuild: Rebuild, value: Any) -> str:
    text = literal(value)
    return rebuild.const(value) if text is None else text
