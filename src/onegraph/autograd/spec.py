"""The calling convention between a captured graph and its functional form, as data.

The functional graph takes the captured graph's inputs, and returns only new tensors. The calling convention says what
the caller does around it so that everybody sees what eager execution shows: which results are copied into which inputs,
and which outputs are an input, a view of an input, or a view of another output.
"""

from __future__ import annotations

from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.torchlib.wrappers import Wrapping


@dataclass(frozen=True, slots=True)
class Computed:
    """Result `index` of the functional graph."""

    index: int


@dataclass(frozen=True, slots=True)
class Input:
    """The caller's own tensor."""

    index: int


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is not computed: None, a number, a dtype ..."""

    value: Any


@dataclass(frozen=True, slots=True)
class Strided:
    """A view of another tensor by its layout; `offset` counts from where the other one starts."""

    base: Base | Replayed
    size: tuple[int | Computed, ...]
    stride: tuple[int | Computed, ...]
    offset: int | Computed


@dataclass(frozen=True, slots=True)
class Replayed:
    """A view of another tensor that a layout cannot express: operators, in order.

    It is of another dtype, conjugated, or one of several that an operator gives, to which autograd lets nobody write.
    """

    base: Base | Strided
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A view operator, its arguments behind the first, and which of its results is meant if it gives several."""

    op: Any
    args: tuple[Any, ...]
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Detached:
    """A tensor with the memory of another one that is no view of it: what `Tensor.detach` and `Tensor.data` give.

    Writes to it are writes to the other one for autograd if they are counted together: not those to `Tensor.data`.
    """

    tensor: Input | Strided | Replayed
    counted_together: bool = True


Base = Computed | Input | Detached
Output = Computed | Input | Literal | Strided | Replayed | Detached


@dataclass(frozen=True, slots=True)
class Mutation:
    """Input `input` gets a value, None for the one that it has; the program writes to it so often, as autograd sees it.

    Autograd does not see writes to `Tensor.data`.
    """

    input: int
    value: Computed | None
    writes: int


@dataclass(frozen=True, slots=True)
class Freed:
    """Result `result` has a history that a backward pass of the graph has freed: another pass over it is an error.

    `inputs` are those that it is computed from, by position; `name` is that of its node in eager.
    """

    result: int
    inputs: tuple[int, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class CallSpec:
    """How to call a functional graph. Its inputs are those of the captured graph.

    `written` are outputs, by position, that the program has written to after it made them, and how often. `views` are
    counted as results behind those of the graph, each with the position of the output that it is; they are made in
    order, before the outputs. `freed` are results without gradients that require grad.
    """

    inputs: int
    outputs: tuple[Output, ...]
    mutations: tuple[Mutation, ...] = ()
    written: tuple[tuple[int, int], ...] = ()
    views: tuple[tuple[int, Output], ...] = ()
    freed: tuple[Freed, ...] = ()

    def is_plain(self) -> bool:
        """Are the functional graph's results just the outputs, with nothing to do around it?"""
        plain = tuple(Computed(index) for index in range(len(self.outputs)))
        return not self.mutations and not self.written and not self.views and self.outputs == plain

    def given_back(self) -> dict[int, int]:
        """The results that the caller needs for nothing but to copy them to inputs, and these inputs, by position."""
        bases = {base_of(output) for output in self.outputs}
        copied = [(m.value, m.input) for m in self.mutations if m.value is not None and m.writes]
        return {value.index: index for value, index in copied if value not in bases}


@dataclass(frozen=True, slots=True)
class BaseOf:
    """What output `index` of the captured graph is a view of."""

    index: int


Origin = Computed | Input | BaseOf


# --- gradients -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tangent:
    """The gradient that the caller gives for a result, as it is: it has this place among those that a half takes."""

    position: int


@dataclass(frozen=True, slots=True)
class Part:
    """A view of a gradient by its layout, with numbers among the gradients; `offset` is from where the other starts."""

    base: Computed | Tangent
    size: tuple[int | Computed, ...]
    stride: tuple[int | Computed, ...]
    offset: int | Computed


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A gradient that is a wrapper of others: that of a plain tensor in the place of a wrapper."""

    wrapping: Wrapping
    parts: tuple[Computed | Tangent | Part, ...]


Gradient = Computed | Tangent | Part | Wrapped | None


def tensors_of(place: Gradient) -> list[int]:
    """The results of the backward graph that a gradient is, has views of, or holds."""
    match place:
        case Computed(index):
            return [index]
        case Part(base):
            return tensors_of(base)
        case Wrapped(_, parts):
            return [index for part in parts for index in tensors_of(part)]
    return []


def results_of(place: Gradient) -> set[int]:
    """These, and the results that are numbers of views."""
    parts = place.parts if isinstance(place, Wrapped) else (place,)
    views = [part for part in parts if isinstance(part, Part)]
    numbers = {n.index for v in views for n in (*v.size, *v.stride, v.offset) if isinstance(n, Computed)}
    return numbers.union(tensors_of(place))


@dataclass(frozen=True, slots=True)
class Watched:
    """A tensor that autograd counts writes to. `made_by` names the node of autograd that made it, if one did.

    `passes` has the results from which passes look at it, by their places among those of the half.
    """

    place: Input | Computed
    made_by: str = ""
    passes: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Half:
    """What one node of autograd does: it takes gradients of results, and gives those of what they are computed from.

    `tangents` are the results whose gradients it takes, by their numbers among the followed ones. `cut` is None for the
    node that gives the gradients of the inputs. Where results are computed from another one, each such result has a
    node more, and `cut` is its number: the node gives the part of its gradient that comes through the others. Views
    that others are computed from are counted behind the followed results.
    `gradients` has one for each input (None for an input that gets none), or the one of the cut; `computed` is how many
    tensors and numbers the backward graph returns for them. `watched` are inputs and results that eager's autograd
    would look at: to write to them before the backward pass is an error. `frees` are the numbers of all that it would
    look at, and free (those of writes to views are negative): a second pass that looks at one of them is an error.
    `name` is that of the node in eager.
    """

    tangents: tuple[int, ...]
    gradients: tuple[Gradient, ...]
    computed: int
    watched: tuple[Watched, ...] = ()
    frees: frozenset[int] = frozenset()
    cut: int | None = None
    name: str = ""

    def inputs(self) -> dict[int, frozenset[int]]:
        """The positions of the inputs that eager's autograd would look at, and in passes from which results."""
        return {item.place.index: item.passes for item in self.watched if isinstance(item.place, Input)}


@dataclass(frozen=True, slots=True)
class GradSpec:
    """How to call the halves of a joint graph, in addition to the `CallSpec` of the first.

    `results` is the number of results of the forward graph that the caller asks for. `followed` are those that autograd
    follows. `origins` says for each of them which output of the captured graph it is, or which written input, or what
    an output is a view of. `halves` are the backward graphs: those of the inputs, then those of results that others are
    computed from, in their order.
    """

    results: int
    followed: tuple[int, ...]
    halves: tuple[Half, ...]
    origins: tuple[Origin, ...]

    def place(self, number: int) -> int:
        """Which result a followed one is, or a view behind them."""
        count = len(self.followed)
        return self.followed[number] if number < count else self.results + number - count

    def __str__(self) -> str:
        lines = [f"{self.results} results, of which autograd follows {list(self.followed)}"]
        for position, (result, origin) in enumerate(zip(self.followed, self.origins, strict=True)):
            lines.append(f"tangent {position}: the gradient of result {result}, {_origin_text(origin)}")
        for half in self.halves:
            names = range(len(half.gradients))
            given = [f"input {index}" if half.cut is None else f"tangent {half.cut}, a part" for index in names]
            lines += [
                f"{name}: {_gradient_text(value, half)}" for name, value in zip(given, half.gradients, strict=True)
            ]
            lines += [f"watched: {_place_text(item.place)}" for item in half.watched]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Saved:
    """What a backward graph takes, in front of the tangents: where each value is found.

    `takers` says for each of them which tangents, by position, come together in each operator that takes it.
    """

    places: tuple[Input | Computed, ...]
    takers: tuple[frozenset[frozenset[int]], ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a backward graph. `takes` are positions in a table: inputs of the whole, then what pieces hand on.
    It returns the results `gives` of the whole graph, and so many values more, which it `hands` on."""

    takes: tuple[int, ...]
    gives: tuple[int, ...]
    hands: int


@dataclass(frozen=True, slots=True)
class Pieces:
    """A backward graph that runs in steps. Each gives the gradients of one of the `groups` of inputs; `results` is how
    many results they have together."""

    groups: tuple[tuple[int, ...], ...]
    steps: tuple[Piece, ...]
    results: int


@dataclass(frozen=True, slots=True)
class PairSpec:
    """How to call a forward and its backward graphs.

    `saved` has what each backward graph takes; `numbers` are the results of the forward graph that are numbers, to
    which nobody can write; `random` tells whether it draws random numbers. `pieces` are those of the backward graphs
    that run in steps, by their number.
    """

    call: CallSpec
    grad: GradSpec
    saved: tuple[Saved, ...]
    numbers: frozenset[Computed]
    random: bool
    pieces: tuple[tuple[int, Pieces], ...] = ()


def _place_text(place: Input | Computed) -> str:
    return f"input {place.index}" if isinstance(place, Input) else f"result {place.index}"


def _origin_text(origin: Origin) -> str:
    if isinstance(origin, BaseOf):
        return f"what output {origin.index} is a view of"
    return f"written into input {origin.index}" if isinstance(origin, Input) else f"output {origin.index}"


def _gradient_text(gradient: Gradient, half: Half) -> str:
    match gradient:
        case None:
            return "no gradient"
        case Tangent(position):
            return f"tangent {half.tangents[position]}"
        case Computed(index):
            return f"gradient {index}"
        case Wrapped(wrapping, parts):
            return f"a {wrapping.__name__} of {', '.join(_gradient_text(part, half) for part in parts)}"
        case Part(base, size, stride, offset):
            return f"{_gradient_text(base, half)} as {list(size)}, strides {list(stride)}, offset {offset}"


def base_of(output: Output) -> Output:
    """The tensor that an output is a view of, or itself."""
    match output:
        case Strided(base) | Replayed(base) | Detached(base):
            return base_of(base)
    return output
