"""The states of random generators before a frame draws from them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from onegraph.base.dataclass import dataclass

if TYPE_CHECKING:
    from onegraph.capture.guards.source import Source
    from onegraph.ir.index import Symbol
    from onegraph.torchlib.shapes import Fact, Given


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of generators: how one is copied, and how its state is taken and given back."""

    copy: Callable[[Any], Any]
    state: Callable[[Any], Any]
    put_back: Callable[[Any, Any], object]


class OfThread(threading.local):
    """What is known between the draws of a call and its graph: the states before them, whether a draw has failed."""

    states: Sequence[tuple[Kind, Any, Any]] = ()
    has_failed = False


class SavedStates:
    """The states of the generators of a frame before it draws: for a graph that fails, so that the frame runs anew."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        #: What the graph is made for, in the order in which it was asked, and what that is about.
        self.facts: dict[Fact, None] = {}
        self.symbols: list[Given | Symbol] = []
        self._kinds: list[Kind] = []
        self._now = OfThread()

    def add(self, generator: Source, kind: Kind) -> None:
        self.sources.append(generator)
        self._kinds.append(kind)

    def take(self, *generators: Any) -> None:
        """Called in front of the draws."""
        found = zip(self._kinds, generators, strict=True)
        self._now.states = [(kind, generator, kind.state(generator)) for kind, generator in found]
        self._now.has_failed = False

    def attempt(self, instead: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function that may raise an error, which is raised when the frame runs as it was written."""
        try:
            return function(*args, **kwargs)
        except Exception:
            self._now.has_failed = True
            return instead

    def check(self, *values: Any) -> None:
        """Called behind the draws, with what the facts are about.

        Raises:
            RuntimeError: the frame is not traced for what was drawn.
        """
        if self._now.has_failed or self.facts and not self._are_true(values):
            raise RuntimeError("the frame is not traced for what was drawn at random")

    def _are_true(self, values: Sequence[Any]) -> bool:
        known = dict(zip(self.symbols, values, strict=True))
        return all(fact.evaluator()([known[each] for each in fact.symbols]) == fact.answer for fact in self.facts)

    def failed(self, error: Exception, before: None, *values: Any) -> bool:
        """Called where that was raised: the generators are put back, so that the frame can run as it was written."""
        self.put_back()
        return True

    def forget(self) -> None:
        """Called behind the graph, so that no generator is kept alive."""
        self._now.states = ()

    def put_back(self) -> None:
        """Called where the graph has failed."""
        for kind, generator, state in self._now.states:
            kind.put_back(generator, state)
        self.forget()
