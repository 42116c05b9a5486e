"""What each graph of a pair is to its program, for what begins its launches as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from onegraph.autograd.spec import Computed, Input, PairSpec
from onegraph.base.dataclass import dataclass
from onegraph.compiler.target import Role, Shared

IN_PIECES = Role("backward", why_not="it runs in pieces, between which gradients travel")


@dataclass(frozen=True, slots=True)
class Roles:
    """Of the graphs of a pair. A backward graph takes what the forward one leaves for it alone where it lies; what the
    caller has, too, is copied, but for parameters."""

    pair: PairSpec
    parameters: frozenset[int]
    shared: Shared = field(default_factory=Shared)

    def is_saved(self, place: Input | Computed) -> bool:
        """Whether nobody but backward graphs is given this."""
        return isinstance(place, Computed) and place.index >= self.pair.grad.results and place not in self.pair.numbers

    def forward(self) -> Role:
        places = [place for saved in self.pair.saved for place in saved.places if self.is_saved(place)]
        return Role("forward", self.parameters, frozenset(place.index for place in places), shared=self.shared)

    def backwards(self) -> list[Role]:
        """Of all backward graphs, in order; a graph that runs in pieces has one for each."""
        pieces = dict(self.pair.pieces)
        found: list[Role] = []
        for number, saved in enumerate(self.pair.saved):
            if number in pieces:
                found += [IN_PIECES] * len(pieces[number].steps)
            else:
                found.append(self.backward(number, range(len(saved.places))))
        return found

    def backward(self, number: int, taken: Iterable[int | Input]) -> Role:
        """Of a graph that takes these: positions among what is saved for it, and inputs."""
        saved = self.pair.saved[number].places
        places = [place if isinstance(place, Input) else saved[place] for place in taken]
        fixed = {n for n, at in enumerate(places) if isinstance(at, Input) and at.index in self.parameters}
        inside = frozenset(n for n, at in enumerate(places) if self.is_saved(at))
        return Role("backward", frozenset(fixed), taken=inside, shared=self.shared)
