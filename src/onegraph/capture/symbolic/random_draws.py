"""Draws from Python's and NumPy's random generators: the residual code makes them, in order, in front of the graph.

    r = random.random()            r1_ = random()                      residual code, in each call
    return x * (r + 1)             o0_, = graph(x, carried(r1_ + 1))

While tracing, draws are made from a copy of each generator: the real one goes on where it was, however often a frame
is traced. What they give serves as an example: a number is a symbol, of which nobody may ask for the digits, and an
array an input of the graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.capture.breaks import DRAWN_NUMBER, GraphBreak
from onegraph.capture.guards.source import Drawn, Item, Source, Through, is_drawn
from onegraph.capture.heap.world import World
from onegraph.capture.symbolic.generator_states import Kind, SavedStates
from onegraph.capture.symbolic.shapes import Symbols
from onegraph.ir.index import Symbol
from onegraph.torchlib.given import Within
from onegraph.torchlib.private import DisableTorchFunction, without_transforms
from onegraph.torchlib.shapes import Fact, Given, Whole
from onegraph.torchlib.size_expression import Outcome
from onegraph.torchlib.state import tracing_suspended

#: How many numbers a call may draw at once: each is a symbol of its own.
MOST_NUMBERS = 64
#: Integers up to this size fit a tensor, and what is computed of a few of them.
LARGEST_INTEGER = 1 << 62


@dataclass(frozen=True, slots=True)
class Draw:
    """A call of a function of a generator: `function(generator, *args, **kwargs)`. Without a generator, it makes one.

    The arguments are constants, and symbolic numbers. With these, the call may raise an error: then the frame runs as
    it was written, and until it does so the draw has given `instead`.
    """

    function: Callable[..., Any]
    generator: Source | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    instead: Any = None

    @property
    def may_raise(self) -> bool:
        return any(isinstance(arg, torch.SymInt | torch.SymFloat) for arg in self.args)


class RandomDraws:
    """The draws of one trace."""

    def __init__(self, world: World, recorder: Any, symbols: Symbols) -> None:
        #: In order, and integers that are computed from what was drawn.
        self.made: list[Draw | Whole] = []
        self.saved = SavedStates()
        self._world = world
        self._recorder = recorder
        self._symbols = symbols
        self._copies: dict[int, Any] = {}
        self._computed: dict[Whole, torch.SymInt] = {}
        symbols.note_drawn = self.note
        symbols.numbers.drawn_integer = self.computed

    def note(self, fact: Fact | Given) -> None:
        """A fact about the numbers: what operators ask, and the type of what Python computes, is checked in each call.

        Raises:
            GraphBreak: it is what the program asks.
        """
        if isinstance(fact, Given) or type(fact.answer) is tuple:  # a number, or an error
            raise GraphBreak(DRAWN_NUMBER)
        of_torch = self._recorder.running or self._symbols.sizes.sealed
        divides = fact.function is operator.ne  # which the program has not asked itself
        if not (of_torch or divides or isinstance(fact.function, Outcome | Within)):
            raise GraphBreak(DRAWN_NUMBER)
        self._expect(fact)

    def _expect(self, fact: Fact) -> None:
        self.saved.facts[fact.substitute(self._symbols.numbers.written)] = None

    def symbols(self) -> list[Given | Symbol]:
        """What facts may be about."""
        numbers = self._symbols.numbers
        return [*numbers.places, *numbers.sources, *self._symbols.places]

    def text(self, rebuild: Any, symbol: Given | Symbol | Whole | torch.SymInt | torch.SymFloat) -> str:
        """The residual code's expression for a number."""
        if isinstance(symbol, Whole | torch.SymInt | torch.SymFloat):
            return self._symbols.text(rebuild, symbol)
        return self._symbols.place_text(rebuild, symbol)

    def draw(self, kind: Kind, generator: Any, draw: Draw) -> Any:
        """What a draw gives, from the copy of the generator.

        Raises:
            Exception: what the function raises for these arguments. The draw is not noted.
        """
        assert draw.generator is not None
        if id(generator) not in self._copies:
            is_made = is_drawn(draw.generator)
            self._copies[id(generator)] = generator if is_made else kind.copy(generator)
            if not is_made:
                self.saved.add(draw.generator, kind)
        found = draw.function(self._copies[id(generator)], *map(self.known, draw.args), **draw.kwargs)
        self.made.append(replace(draw, instead=found))
        return found

    def known(self, value: Any) -> Any:
        """A symbolic number as it is in this trace, without a guard; anything else as it is."""
        symbolic = isinstance(value, torch.SymInt | torch.SymFloat)
        return self._symbols.sizes.value(value.node.value) if symbolic else value

    def generator(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """A generator that the program makes of a seed: another one in each call, in the same state."""
        made = function(*args)
        self.made.append(Draw(function, None, args, {}))
        self._world.drawn[id(made)] = Drawn(len(self.made) - 1)
        return self._world.keep(made)

    def value(self, found: Any, source: Source | None = None, least: int = 0) -> Any:
        """The symbols for the numbers that the last draw has given, which may be in a list or a tuple.

        Integers are at least `least`; operators take those that are not negative for sizes.
        """
        source = source or Drawn(len(self.made) - 1)
        if type(found) is float:
            return self._symbols.numbers.given(source, found, True)
        if type(found) is int and least < 0:
            self.made.append(Draw(operator.sub, source, (least,), {}))
            return self.value(found - least) + least
        if type(found) is int:
            tensor = self.tensor(Through(source, tensor_of), tensor_of(found))
            return self._symbols.scalars.drawn(self._recorder, tensor, source)
        if type(found) in (list, tuple):
            return type(found)([self.value(item, Item(source, at), least) for at, item in enumerate(found)])
        return found

    def computed(self, number: Whole) -> torch.SymInt:
        """The symbol for an integer that Python computes of what was drawn: one like those that are drawn."""
        if number not in self._computed:
            self._expect(Fact(is_storable, (number,), True))
            self.made.append(number)
            self._computed[number] = self.value(self._symbols.sizes.value(number))
        return self._computed[number]

    def tensor(self, source: Source, example: torch.Tensor) -> torch.Tensor:
        """The input of the graph for a tensor that residual code makes of what is drawn."""
        with DisableTorchFunction(), without_transforms():
            fake: torch.Tensor = self._recorder.fake.fakeify(example)
            self._recorder.add_input(fake, "random", source, example)
        self._world.drawn[id(fake)] = source
        return fake


def is_storable(number: int) -> bool:
    return abs(number) < LARGEST_INTEGER


def tensor_of(number: int) -> torch.Tensor:
    """A tensor that holds the integer; one that is too large is not what the graph is made for."""
    with tracing_suspended():
        return torch.tensor(number if is_storable(number) else 0, dtype=torch.int64, device="cpu")


def is_known(value: Any) -> bool:
    """Whether what a draw gives can be symbols."""
    if type(value) in (list, tuple):
        return len(value) <= MOST_NUMBERS and all(map(is_known, value))
    return type(value) in (int, float, type(None))
