"""What a backend has made of a captured graph, as data: how it is called, and its compiled graphs.

A compiled graph is bytes here: what they hold is the compiler's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from onegraph.autograd import spec
from onegraph.autograd.runtime import Run
from onegraph.base.codec import Codec
from onegraph.base.dataclass import dataclass
from onegraph.torchlib.kept_graphs import OF_TORCH, graph_of


@dataclass(frozen=True, slots=True)
class KeptInference:
    """One graph, which uses the `fixed` inputs where they lie. `entered`: inference mode is entered around it."""

    call: spec.CallSpec
    fixed: tuple[int, ...]
    graph: bytes
    entered: bool = False


@dataclass(frozen=True, slots=True)
class KeptAlone:
    """A graph of a captured one that records gradients, `eager`, of whose results none has one. It uses the inputs that
    are `fixed` where they lie."""

    call: spec.CallSpec
    graph: bytes
    eager: bytes
    fixed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KeptOther:
    """The backward graph of a half for a pattern of results that have a gradient.

    Without a `half` it cannot be traced; without a `graph` it would need what is not kept.
    """

    number: int
    pattern: tuple[bool, ...]
    half: spec.Half | None
    graph: bytes | None
    taken: tuple[int | spec.Input, ...]


@dataclass(frozen=True, slots=True)
class KeptPair:
    """A forward graph and its backward graphs, and the captured graph, which eager runs again where these do not fit.

    `parameters` are inputs, by position; `others` the backward graphs for gradients that were missing.
    """

    pair: spec.PairSpec
    forward: bytes
    backwards: tuple[bytes, ...]
    eager: bytes
    parameters: tuple[int, ...]
    others: tuple[KeptOther, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptEager:
    """A captured graph that runs operator by operator."""

    eager: bytes


KeptCall = KeptEager | KeptInference | KeptAlone | KeptPair

CODEC = Codec(
    KeptEager, KeptInference, KeptAlone, KeptPair, KeptOther,
    spec.Computed, spec.Input, spec.Literal, spec.Strided, spec.Replayed, spec.Step, spec.Detached, spec.Mutation,
    spec.Freed, spec.CallSpec, spec.BaseOf, spec.Tangent, spec.Part, spec.Watched, spec.Half, spec.GradSpec, spec.Saved,
    spec.PairSpec, spec.Piece, spec.Pieces,
    named=OF_TORCH,
)  # fmt: skip


@dataclass(slots=True)
class Eagerly:
    """Runs a captured graph operator by operator; its nodes are read when that is first wanted."""

    nodes: bytes
    made: list[Callable[..., tuple[object, ...]]] = field(default_factory=list)

    def __call__(self, *inputs: object) -> tuple[object, ...]:
        if not self.made:
            self.made.append(graph_of(self.nodes).forward)
        return self.made[0](*inputs)


def read_nodes(nodes: bytes, outputs: int) -> Run:
    """The captured graph of so many outputs (0: nobody counts them), which is read at once.

    Raises:
        ValueError, LookupError, AttributeError, TypeError: nobody has written it.
    """
    module = graph_of(nodes)
    (result,) = next(iter(reversed(module.graph.nodes))).args
    if outputs and not (isinstance(result, tuple | list) and len(result) == outputs):
        raise ValueError("it has other outputs")
    forward: Run = module.forward
    return forward


def run_eagerly(nodes: bytes) -> Run:
    return Eagerly(nodes)
