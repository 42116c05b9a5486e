"""A captured graph that is run again, as eager runs it, where its backward graphs do not fit.

If that shall be differentiated, all nodes of a call share one run: higher derivatives come by its results in the place
of the real ones, and call the hooks of these.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any, assert_never

import torch
from torch import Tensor

from onegraph.autograd.runtime import Run
from onegraph.autograd.spec import BaseOf, Computed, Input, Origin
from onegraph.base.dataclass import dataclass
from onegraph.torchlib.primals import written_since
from onegraph.torchlib.state import GlobalState, under, unseen


class Hooked:
    """The hooks of results, by number, for the results of the second run."""

    def __init__(self) -> None:
        self.of: dict[int, Any] = {}
        self.are_used = True

    def called(self, result: int, gradient: Tensor) -> Tensor:
        """What the hooks of a result make of its gradient."""
        for hook in tuple(self.of.get(result, {}).values()) if self.are_used else ():
            found = hook(gradient)
            gradient = gradient if found is None else found
        return gradient

    @contextlib.contextmanager
    def unused(self) -> Iterator[None]:
        """Passes in here are our own: the hooks of the real results are called for them."""
        before, self.are_used = self.are_used, False
        try:
            yield
        finally:
            self.are_used = before


@dataclass(frozen=True, slots=True)
class Again:
    """A second run of a captured graph: its results, and the tensors of its own in the place of `wanted` inputs."""

    results: Sequence[Tensor]
    leaves: Sequence[Tensor]
    wanted: Sequence[int]


def second_run(
    eager: Run,
    given: Sequence[Any],
    written: Collection[int],
    origins: Sequence[Origin],
    random: Tensor | None,
    state: GlobalState,
) -> Again:
    """Run the captured graph as eager does, on the inputs of its first run; `written` are those that it writes to."""
    wanted = [index for index, value in enumerate(given) if isinstance(value, Tensor) and value.requires_grad]
    with unseen(), torch.enable_grad(), same_numbers(random), under(state):
        # Tensors of its own: gradients stop here, and go on from here when they are differentiated.
        inputs = [value.view_as(value) if index in wanted else value for index, value in enumerate(given)]
        leaves = [inputs[index] for index in wanted]
        for index in written:  # behind the leaves, so that gradients arrive at what was there before
            inputs[index] = inputs[index].clone()
        outputs = eager(*inputs)
    return Again([shown(origin, inputs, outputs) for origin in origins], leaves, wanted)


def shown(origin: Origin, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    """A result, in eager's run of the captured graph."""
    match origin:
        case Input(index):
            return inputs[index]
        case Computed(index):
            return outputs[index]
        case BaseOf(index):
            return outputs[index]._base
        case _:
            assert_never(origin)


def intact(value: Any, version: int) -> Any:
    if isinstance(value, Tensor) and value._version != version:
        raise RuntimeError(written_since(value, version, value.shape))
    return value


@contextlib.contextmanager
def same_numbers(state: Tensor | None) -> Iterator[None]:
    """Random numbers are drawn as from this state, and then as if none had been drawn."""
    if state is None:
        yield
        return
    now = torch.get_rng_state()
    torch.set_rng_state(state)
    try:
        yield
    finally:
        torch.set_rng_state(now)
