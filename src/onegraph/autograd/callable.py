"""The graphs of a captured graph as one function of its inputs, in eager's autograd."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from onegraph import _C
from onegraph.autograd.freed import with_freed
from onegraph.autograd.function import Backward, Compiled, CompiledGraph, FirstBucket, Node, Pattern, Stage, note_hooks
from onegraph.autograd.native import native_pair
from onegraph.autograd.pieces import Bucket, Stepwise, linked, uses
from onegraph.autograd.results import is_number
from onegraph.autograd.runtime import Run, bind
from onegraph.autograd.spec import (
    CallSpec,
    Computed,
    Detached,
    Input,
    Output,
    PairSpec,
    Pieces,
    Replayed,
    Saved,
    Strided,
)
from onegraph.torchlib.aten import is_random
from onegraph.torchlib.custom_function import CustomFunction
from onegraph.torchlib.primals import below_autograd, recorder
from onegraph.torchlib.state import saves_for_hooks

if TYPE_CHECKING:
    from onegraph.autograd.graphs import GraphPair


def compiled_pair(
    pair: PairSpec,
    forward: Run,
    backwards: Sequence[Run],
    specialize: Callable[[int, Pattern], Backward | None],
    eager: Run,
    report: Callable[[str, Exception | None], object],
    functions: Sequence[CustomFunction],
    untried: bool = False,
) -> Run:
    """The graphs of a pair as one function of the captured graph's inputs. `backwards` are those of all pieces.
    `untried`: they were read from disk."""
    spec, grad = pair.call, pair.grad
    followed = frozenset(Computed(index) for index in grad.followed)
    recorded = tuple(mutation for mutation in spec.mutations if mutation.value in followed)
    views = {grad.results + n: view for n, (_, view) in enumerate(spec.views)}
    counters = {position: counter_of(spec.outputs[position], views) for position, _ in spec.written}
    counts = tuple((n, count) for p, count in spec.written if (n := counters[p]) is not None)
    writes: dict[Any, int] = {Input(mutation.input): mutation.writes for mutation in recorded}
    seen = {Computed(n) for output in spec.outputs if (n := counter_of(output, views)) is not None}
    written = frozenset(mutation.input for mutation in spec.mutations if mutation.value is not None)
    watched = {item.place for half in grad.halves for item in half.watched}
    watched |= {place for saved in pair.saved for place in saved.places}
    watched -= pair.numbers
    cuts = {grad.place(half.cut) for half in grad.halves if half.cut is not None}
    passed = {m.value.index: m for m in recorded if m.value is not None and m.value.index in cuts}
    compiled = Compiled(
        forward,
        tuple(
            node_of(pair, number, run, partial(specialize, number), untried)
            for number, run in enumerate(stepwise(pair, backwards))
        ),
        eager,
        grad,
        tuple(mutation for mutation in spec.mutations if mutation not in recorded),
        counts,
        written,
        tuple((p, writes.get(p, 0)) for p in watched if (p.index in written if isinstance(p, Input) else p in seen)),
        pair.random,
        report,
        functions,
        tuple(views.values()),
        passed,
    )
    late = tuple((position, count) for position, count in spec.written if counters[position] is None)
    recorded = tuple(mutation for mutation in recorded if mutation not in passed.values())
    rest = replace(spec, mutations=recorded, written=late, views=())
    return native_pair(rest, compiled, unless_watched(bind(rest, with_freed(compiled, spec.freed)), eager))


def pair_spec(pair: GraphPair, pieces: Mapping[int, Pieces]) -> PairSpec:
    """How to call the graphs of a pair, of which some backward graphs are in pieces, by their number."""
    forward = pair.graphs.forward.graph
    results = next(iter(reversed(forward.nodes))).args[0]
    assert isinstance(results, tuple)
    return PairSpec(
        pair.spec,
        pair.grad,
        tuple(Saved(graph.saved, graph.takers) for graph in pair.graphs.backwards),
        frozenset(Computed(n) for n, node in enumerate(results) if is_number(node)),
        any(is_random(node.target) for node in forward.nodes),
        tuple(pieces.items()),
    )


def compiled_alone(spec: CallSpec, run: Run, eager: Run) -> Run:
    """A graph that records gradients, of whose results none has one, as a function of the captured graph's inputs."""
    return unless_watched(bind(spec, with_freed(beneath(run), spec.freed), records_writes=False), eager)


def beneath(run: Run) -> Run:
    """`run`, of which autograd records nothing."""
    if isinstance(run, _C.Plan):  # which runs there by itself
        return run

    def call(*inputs: Any) -> Sequence[Any]:
        with below_autograd():
            return run(*inputs)

    return call


def unless_watched(call: Run, eager: Run) -> Run:
    """`call`, but eager's run where the program looks at each operator that records gradients."""

    def run(*inputs: Any) -> Sequence[Any]:
        # Hooks would be shown other tensors than those that eager saves, and anomaly mode looks at each operator.
        return eager(*inputs) if saves_for_hooks() or torch.is_anomaly_enabled() else call(*inputs)

    return run


def node_of(
    pair: PairSpec, number: int, run: Run, specialize: Callable[[Pattern], Backward | None], untried: bool
) -> Node:
    grad, half, saved = pair.grad, pair.grad.halves[number], pair.saved[number]
    reached = tuple(index for index, place in enumerate(half.gradients) if place is not None)
    groups: tuple[tuple[int, ...], ...] = ()
    if isinstance(run, Stepwise):
        groups = run.pieces.groups
        record = linked(groups, recorder(FirstBucket, half.name, note_hooks), recorder(Bucket, half.name), reached)
    else:
        record = recorder(CompiledGraph if half.cut is None else Stage, half.name, note_hooks)
    return Node(
        half,
        tuple(grad.followed[n] for n in half.tangents),
        reached,
        -1 if half.cut is None else grad.place(half.cut),
        saved,
        {(True,) * len(half.tangents): Backward(run, half, range(len(saved.places)), untried)},
        specialize,
        record,
        tuple(n for n, at in enumerate(saved.places) if isinstance(at, Computed) and at.index < grad.results),
        groups,
    )


def stepwise(pair: PairSpec, runs: Sequence[Run]) -> list[Run]:
    """What runs each backward graph: `runs` are those of the graphs, or of the pieces of one in its place."""
    pieces, waiting = dict(pair.pieces), list(runs)
    found: list[Run] = []
    for number, half in enumerate(pair.grad.halves):
        count = len(pieces[number].steps) if number in pieces else 1
        taken, waiting = waiting[:count], waiting[count:]
        run: Run = Stepwise(tuple(taken), pieces[number], uses(half)) if number in pieces else taken[0]
        found.append(run)
    return found


def counter_of(output: Output, views: Mapping[int, Output]) -> int | None:
    """The result that counts the writes to an output; None if it has a counter of its own, or an input's."""
    match output:
        case Computed(index):
            return counter_of(views[index], views) if index in views else index
        case Strided(base) | Replayed(base) | Detached(base, True):
            return counter_of(base, views)
    return None
