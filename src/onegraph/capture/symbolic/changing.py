"""Numbers of the program that change from one call to the next: symbols in the place of guards.

An argument, an attribute or a global that was seen to change is a symbol: arithmetic is symbolic, tensors are computed
with it, and what is asked of it becomes a guard; what needs its digits is compiled for the number that it is. A resume
function behind a break in a loop is called with the loop's counters: there, what needs the digits breaks the graph.

A floating-point number is one input of the graph for each expression of it that a tensor is computed with: the residual
code computes it, as Python does, and the graph takes it out of a tensor, so that operators are given a Python number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch

from onegraph import _C
from onegraph.capture.guards.guard import ShapeCondition
from onegraph.capture.guards.source import (
    Arg,
    Attr,
    DictOf,
    Item,
    Source,
    Through,
    base_of,
    is_drawn,
    placeholder_name,
    written,
)
from onegraph.capture.heap.iterator_reads import counted
from onegraph.ir.index import Index, Symbol
from onegraph.torchlib.private import DisableTorchFunction, without_transforms
from onegraph.torchlib.shapes import LARGEST, Computed, Condition, Float, Given, SizeNode, Sizes, Whole, given_in
from onegraph.torchlib.state import tracing_suspended


def is_counter(source: Source) -> bool:
    """Whether the source is the number that an iterator has come to."""
    match source:
        case Item(Item(Through(_, function), 1), int()):
            return function is counted
    return False


def is_variable(source: Source) -> bool:
    """Whether the source is a variable of the frame, or an item of a tuple in one, or a counter."""
    match source:
        case Item() if is_counter(source):
            return True
        case Arg():
            return True
        case Item(base, int()):
            return is_variable(base)
    return False


def owner_of(source: Source) -> Source | None:
    """The object whose attribute a number is, or is found in; None for variables."""
    base: Source | None = source
    while base is not None:
        match base:
            case DictOf(owner) | Attr(owner, _):
                return owner
        base = base_of(base)
    return None


class Numbers:
    """The symbolic numbers of one trace that it was given.

    Symbols are sizes, which are at least two: an integer is its symbol less two.
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.values: dict[Symbol, tuple[Source, int]] = {}
        #: How a symbol is written where the number itself is at hand.
        self.written: dict[Symbol, Index] = {}
        self.sources: dict[Symbol, Source] = {}
        #: Those whose digits are not to be asked for.
        self.changing: set[Symbol | Given] = set()
        #: Where the numbers are found that are not index expressions.
        self.places: dict[Given, Source] = {}
        #: Makes a symbol for an integer that is computed from numbers which are drawn at random.
        self.drawn_integer: Callable[[Whole], torch.SymInt]
        self._given: dict[Source, torch.SymInt | torch.SymFloat] = {}
        self._taken: dict[Float, torch.fx.Node] = {}
        self._known: dict[Source, torch.SymInt] = {}
        self._carriers: dict[Symbol, torch.Tensor] = {}

    def of(self, source: Source, value: int, changing: bool) -> torch.SymInt:
        """The number at `source`; one that is `changing` is another in the next step of a loop."""
        if source not in self._known:
            size = self.sizes.new(value + 2, f"n{len(self.values)}")
            symbol, number = size.node.index.symbol, Symbol(f"i{len(self.values)}")
            self.values[symbol] = source, value
            self.sources[number] = source
            self.written[symbol] = Index.of(number) + 2
            if changing:
                self.changing.add(symbol)
            self._known[source] = size - 2
        return self._known[source]

    def given(self, source: Source, value: int | float, changing: bool) -> Any:
        """The floating-point number at `source`, or an integer of any size and sign."""
        if source not in self._given:
            number = self._given[source] = self.sizes.new_given(value, f"f{len(self.places)}")
            self.places[number.node.value.op] = source
            if changing:
                self.changing.add(number.node.value.op)
        number = self._given[source]
        return value if self.sizes.is_fixed(number.node.value) else number

    def conditions(self) -> Iterator[ShapeCondition]:
        """The range of the integers."""
        for source in self._known:
            low = (("const", 0), ("int", source), ("ILE",))
            high = (("int", source), ("const", LARGEST), ("ILT",))
            yield ShapeCondition(low, f"0 <= {written(source)}")
            yield ShapeCondition(high, f"{written(source)} < {LARGEST}")

    def carrier(self, recorder: Any, symbol: Symbol) -> torch.Tensor:
        """The tensor through which a number enters the graph: graphs have tensors as inputs only."""
        if symbol not in self._carriers:
            stem = self.sizes.stems.get(symbol)
            value = self.sizes.hints[symbol] - 2
            with tracing_suspended():
                real = self._carriers[symbol] = carried(value)
            with DisableTorchFunction():  # also where this is asked for while a program's function is recorded
                fake = recorder.fake.fakeify(real, {0: torch.SymInt(SizeNode(self.sizes, Index.of(symbol)))})
            source = None if stem is not None else self.values[symbol][0]
            if source is None:
                recorder.add_input(fake, "number", stem, real)
            else:
                recorder.add_input(fake, placeholder_name(source), Through(source, carried), real)
        return self._carriers[symbol]

    def taken(self, recorder: Any, value: Float) -> Any:
        """The node for an expression of floating-point numbers: taken out of a tensor, if it is not a constant."""
        if self.sizes.is_fixed(value):
            return self.sizes.value(value)
        if value not in self._taken:
            hint = self.sizes.value(value)
            found = {self.places[given] for given in given_in(value)}
            name = placeholder_name(found.pop()) if len(found) == 1 else "number"
            with without_transforms():  # an input of the graph is no part of one
                with tracing_suspended():
                    real = carried_float(hint)
                tensor = recorder.add_input(recorder.fake.fakeify(real), name, value, real)
            node = self._taken[value] = recorder.graph.call_method("item", (tensor,))
            node.meta["example_value"] = torch.SymFloat(SizeNode(self.sizes, value))
        return self._taken[value]

    def decide(self, value: Any) -> bool:
        """Whether a symbolic number depends on one whose digits are not to be asked for."""
        match value:
            case torch.SymInt() | torch.SymFloat() | torch.SymBool():
                return self.decide(value.node.value)
            case Index():
                stems = (self.sizes.stems[symbol] for symbol in value.symbols if symbol in self.sizes.stems)
                return any(symbol in self.changing for symbol in value.symbols) or any(map(self.decide, stems))
            case Computed(Given() as given, _):
                return given in self.changing and given not in self.sizes.fixed
            case Computed(_, args):
                return any(self.decide(arg) for arg in args)
            case Condition(_, left, right):
                return self.decide(left) or self.decide(right)
        return False

    def is_drawn(self, value: Any) -> bool:
        """Whether a number is computed from one that is drawn at random."""
        return any(is_drawn(self.places[given]) for given in given_in(value))


with torch.inference_mode(False):  # this module may be imported in any state
    _NOTHING = torch.zeros(1, dtype=torch.float32, device="cpu")


def carried(number: int) -> torch.Tensor:
    """A tensor of size `number + 2` without memory of its own."""
    return _NOTHING.expand(number + 2)


def carried_float(number: float) -> torch.Tensor:
    """A tensor that holds the number."""
    return torch.tensor(number, dtype=torch.float64, device="cpu")


@cache
def carrier() -> Callable[[float], torch.Tensor]:
    """The fastest function that makes a tensor which holds a number."""
    try:
        made = _C.float_tensor(0.5)
    except RuntimeError:
        return carried_float
    return _C.float_tensor if made.dtype is torch.float64 and made.shape == () and made.item() == 0.5 else carried_float
