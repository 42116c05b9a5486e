"""Whether a call that was read can be one of its graphs: its numbers are those of inputs, results and gradients there.

An index that is too large would be an error in the program's call, and one below zero a wrong result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from onegraph.autograd.kept_calls import KeptOther
from onegraph.autograd.spec import (
    CallSpec,
    Computed,
    Half,
    Input,
    PairSpec,
    Part,
    Pieces,
    Strided,
    Tangent,
    results_of,
)

MOST = 1 << 16  # writes to one tensor: more than any program makes
#: Of a graph: how many inputs it has, and how many results.
Ends = tuple[int, int]


def require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"no call of these graphs: {what}")


def check_call(spec: CallSpec, outputs: int, graph: Ends, fixed: Sequence[int]) -> None:
    """Raise ValueError unless this calls a graph with these ends, which uses the `fixed` inputs where they lie; the
    captured one has so many outputs, or none that anybody counts."""
    inputs, results = graph
    require(all(n in range(inputs) for n in fixed), "inputs that are used where they lie")
    require(spec.inputs == inputs, "inputs")
    require(not outputs or len(spec.outputs) == outputs, "outputs")
    require(not spec.is_plain() or results == len(spec.outputs), "results")
    check_places(spec, inputs, results + len(spec.views), 0)
    given = range(len(spec.outputs))
    require(all(at in given and 0 < count < MOST for at, count in spec.written), "writes to outputs")
    require(all(at in given for at, _ in spec.views), "views")
    require(all(m.input in range(inputs) and 0 <= m.writes < MOST for m in spec.mutations), "writes to inputs")
    for freed in spec.freed:
        require(freed.result in range(results) and all(n in range(inputs) for n in freed.inputs), "histories")


def check_pair(
    pair: PairSpec, outputs: int, forward: Ends, backwards: Sequence[Ends], parameters: Sequence[int]
) -> None:
    """The same of a forward graph and its backward graphs."""
    call, grad = pair.call, pair.grad
    inputs, kept = forward
    require(0 <= grad.results <= kept, "results")
    check_call(call, outputs, (inputs, grad.results), parameters)
    require(len(grad.origins) == len(grad.followed), "origins")
    require(all(number in range(grad.results) for number in grad.followed), "results that are followed")
    require(len(grad.halves) == len(pair.saved), "backward graphs")
    check_places((grad.origins, pair.numbers), inputs, kept, 0)
    pieces, waiting = dict(pair.pieces), list(backwards)
    require(len(pieces) == len(pair.pieces) and all(number in range(len(grad.halves)) for number in pieces), "pieces")
    require(len(waiting) == len(grad.halves) + sum(len(each.steps) - 1 for each in pieces.values()), "backward graphs")
    for number, (half, saved) in enumerate(zip(grad.halves, pair.saved, strict=True)):
        if number in pieces:
            count, taken = len(pieces[number].steps), len(saved.places) + len(half.tangents)
            ends = check_pieces(pieces[number], half, taken, waiting[:count])
        else:
            count, ends = 1, waiting[0]
        waiting = waiting[count:]
        check_places(saved.places, inputs, kept, 0)
        check_half(half, pair, kept)
        taken_for = frozenset().union(*(group for groups in saved.takers for group in groups))
        require(len(saved.takers) == len(saved.places), "what is taken")
        require(taken_for <= {*range(len(half.tangents))}, "what is taken")
        require(ends[0] == len(saved.places) + len(half.tangents) and half.computed <= ends[1], "what is taken")


def check_pieces(pieces: Pieces, half: Half, taken: int, graphs: Sequence[Ends]) -> Ends:
    """The ends of a backward graph that runs in pieces, each of which takes what there is when it runs."""
    reached = [index for index, place in enumerate(half.gradients) if place is not None]
    require(half.cut is None and len(pieces.steps) == len(pieces.groups) > 1, "pieces")
    require(sorted(index for group in pieces.groups for index in group) == reached, "groups of gradients")
    table, given = taken, set[int]()
    for piece, group, ends in zip(pieces.steps, pieces.groups, graphs, strict=True):
        require(piece.hands >= 0 and all(0 <= at < table for at in piece.takes), "what a piece takes")
        require(ends == (len(piece.takes), len(piece.gives) + piece.hands), "what a piece gives")
        require(len({*piece.takes}) == len(piece.takes) and given.isdisjoint(piece.gives), "what a piece gives")
        table, given = table + piece.hands, given.union(piece.gives)
        require(all(results_of(half.gradients[index]) <= given for index in group), "gradients of a piece")
    require(given <= {*range(pieces.results)}, "results")
    return taken, pieces.results


def check_other(other: KeptOther, pair: PairSpec, forward: Ends, ends: Ends | None) -> None:
    """The same of a backward graph for some of the gradients."""
    inputs, kept = forward
    require(other.number in range(len(pair.grad.halves)), "backward graphs")
    require(len(other.pattern) == len(pair.grad.halves[other.number].tangents), "gradients")
    places = range(len(pair.saved[other.number].places))
    require(all(isinstance(at, Input) or at in places for at in other.taken), "what is taken")
    check_places(other.taken, inputs, kept, 0)
    if other.half is not None:
        check_half(other.half, pair, kept)
        given = len(other.taken) + sum(other.pattern)
        require(ends is None or (ends[0] == given and other.half.computed <= ends[1]), "what is taken")


def check_half(half: Half, pair: PairSpec, kept: int) -> None:
    inputs = pair.call.inputs
    followed = range(len(pair.grad.followed) + len(pair.call.views))
    require(all(number in followed for number in half.tangents), "gradients")
    require(half.cut is None or half.cut in followed, "gradients")
    require(len(half.gradients) == (inputs if half.cut is None else 1), "gradients")
    check_places(half.gradients, inputs, half.computed, len(half.tangents))
    check_places(half.watched, inputs, kept + len(pair.call.views), 0)
    require(all(item.passes <= {*range(len(half.tangents))} for item in half.watched), "passes")


def check_places(value: Any, inputs: int, results: int, tangents: int) -> None:
    """Raise ValueError unless all places in a value are there."""
    for each in parts_of(value):
        match each:
            case Input(index):
                require(0 <= index < inputs, "an input")
            case Computed(index):
                require(0 <= index < results, "a result")
            case Tangent(position):
                require(0 <= position < tangents, "a gradient")
            case Strided(_, size, stride) | Part(_, size, stride):
                numbers = [number for number in (*size, *stride) if isinstance(number, int)]
                require(len(size) == len(stride) and min(numbers, default=0) >= 0, "a view")


def parts_of(value: Any) -> Iterator[Any]:
    """The dataclasses in a value."""
    if isinstance(value, tuple | frozenset):
        for item in value:
            yield from parts_of(item)
    elif dataclasses.is_dataclass(value):
        yield value
        for field in dataclasses.fields(value):
            yield from parts_of(getattr(value, field.name))
