"""Where a compiled graph fails, nothing of its frame has happened yet: the frame can still run as it was written.

What the program does before the failing operator is then done, and its own handlers see the error. That is right while
the graph has left nothing behind; if it has, its error is raised as it is. The hook runs the frame (csrc/graph.c).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from onegraph import _C
from onegraph.base.context import Context
from onegraph.base.errors import BackendError
from onegraph.base.events import GraphFailed
from onegraph.capture.graph.record import GraphInput, Recorder
from onegraph.capture.symbolic.random_draws import SavedStates
from onegraph.torchlib import private
from onegraph.torchlib.custom_function import CustomFunction
from onegraph.torchlib.data_sizes import UNEXPECTED, is_expected
from onegraph.torchlib.hooked import gradients_given
from onegraph.torchlib.parameters import parameter
from onegraph.torchlib.private import VMAP, DisableTorchFunction, set_grad_enabled
from onegraph.torchlib.regions import Region
from onegraph.torchlib.settings import CHOOSING, Setting, setting_of
from onegraph.torchlib.state import GlobalState, enter_inference, exit_inference, saves_through_hooks
from onegraph.torchlib.transforms import OPENING_LEVELS

#: Functions in a graph that open a state which the graph closes again.
OPENING = frozenset({private.enter_autocast, enter_inference, VMAP.increment_native, *OPENING_LEVELS, *CHOOSING})
#: Functions of our own in a graph whose effects are known.
KNOWN = frozenset({*CHOOSING, enter_inference, exit_inference})
#: Methods that change a tensor without writing to it.
MARKING = frozenset({"requires_grad_", "retain_grad", "register_hook", "backward"})

#: Functions of ours that do nothing but compute.
QUIET = frozenset({is_expected, gradients_given, parameter})


@dataclass(frozen=True, slots=True)
class Before:
    """What is known from before a call of a graph."""

    versions: tuple[int | None, ...]
    random: torch.Tensor | None
    state: GlobalState | None
    settings: tuple[tuple[Setting, Any], ...]


@dataclass(frozen=True, slots=True)
class Fallback:
    """What can be done about a failed call of a graph.

    `written` are the inputs that the graph writes to, by position; `repeatable` says that all of its effects are known.
    `grad_enabled` and `grad_after` say whether gradients are recorded where it begins and where it ends.
    """

    cx: Context
    grad_enabled: bool
    grad_after: bool
    repeatable: bool
    written: tuple[int, ...]
    random: bool
    opening: bool
    settings: tuple[Setting, ...]
    outputs: int
    unexpected: Callable[[], object]
    generators: SavedStates

    def around(self, compiled: Callable[..., Any]) -> Any:
        """The graph as the residual code calls it."""
        needed = self.opening or (self.repeatable and (self.written or self.random))
        misfit = self.misfit if self.outputs else None
        return _C.Graph(compiled, self.failed, self.before if needed else None, self.outputs, misfit, self.repeatable)

    def misfit(self, result: Any) -> NoReturn:
        """Raise BackendError for a result that is no tuple or list of the outputs."""
        kind = type(result).__name__
        found = f"a {kind} of {len(result)}" if isinstance(result, tuple | list) else kind
        raise BackendError(
            f"what the backend made of the graph of {self.cx.frame} returned {found}, where a tuple of {self.outputs} "
            "is needed: one item for each output of the graph"
        )

    def before(self, *inputs: Any) -> Before:
        return Before(
            self._versions(inputs),
            torch.default_generator.get_state() if self.random and self.repeatable else None,
            GlobalState.snapshot() if self.opening else None,
            tuple([(setting, setting.value()) for setting in self.settings]),
        )

    def failed(self, error: Exception, before: Before | None, *inputs: Any) -> bool:
        """Put back what the failed graph has changed; whether that is all."""
        if str(error).startswith(UNEXPECTED):
            self.unexpected()
        if before is not None and before.state is not None:
            for setting, value in before.settings[::-1]:
                setting.put(value)
            before.state.restore()
        resolved = self.repeatable and (before is None or before.versions == self._versions(inputs))
        resolved = resolved and not isinstance(error, BackendError)  # it says that the graph is wrong
        resolved = resolved and not saves_through_hooks()  # they have seen what the graph has saved, or have raised
        # The error goes on: blocks in which the graph begins or ends, and which it leaves or enters, are left for good.
        set_grad_enabled(self.grad_enabled or (self.grad_after and not resolved))
        if resolved and before is not None and before.random is not None:
            torch.default_generator.set_state(before.random)
        if resolved:
            self.generators.put_back()
        self.cx.emit(GraphFailed(self.cx.frame, f"{type(error).__name__}: {error}", resolved))
        return resolved

    def _versions(self, inputs: Sequence[Any]) -> tuple[int | None, ...]:
        if not self.repeatable:
            return ()
        written = [inputs[index] for index in self.written]
        with DisableTorchFunction():  # once: a step of an optimizer writes to hundreds
            return tuple([None if tensor.is_inference() else tensor._version for tensor in written])


def fallback_of(
    recorder: Recorder,
    used: Sequence[GraphInput],
    outputs: int,
    grad_enabled: bool,
    unexpected: Callable[[], object],
    generators: SavedStates,
    cx: Context,
) -> Fallback:
    """The fallback of a finished graph with the inputs `used` and this number of outputs; what is told where sizes that
    only the data say are not what the graph is made for; the states of the generators that the frame draws from."""
    effects, nodes = recorder.fake.effects, recorder.graph.nodes
    repeatable = not effects.unknown and not any(is_marking(node) for node in nodes)
    written = tuple(index for index, given in enumerate(used) if given.written is not None)
    opening = any(node.target in OPENING for node in nodes)
    settings = dict.fromkeys(setting_of(node.target, node.args) for node in nodes if node.target in CHOOSING)
    modes = [grad_enabled, *(node.args[0] for node in nodes if node.target is set_grad_enabled)]
    last = bool(modes[-1])
    return Fallback(
        cx=cx,
        grad_enabled=grad_enabled,
        grad_after=last,
        repeatable=repeatable,
        written=written,
        random=effects.random,
        opening=opening,
        settings=tuple(settings),
        outputs=outputs,
        unexpected=unexpected,
        generators=generators,
    )


def is_marking(node: torch.fx.Node) -> bool:
    """Whether the node may do what no schema tells of: it calls a function of the program, or sets an attribute."""
    if node.op == "call_method":
        return node.target in MARKING
    own = node.op == "call_function" and callable(node.target) and not is_of_torch(node.target)
    own = own and node.target not in QUIET and node.target not in KNOWN
    own = own and not isinstance(node.target, Region | CustomFunction)
    return own or node.target is setattr


def is_of_torch(target: Any) -> bool:
    module = getattr(target, "__module__", None) or ""
    return module.partition(".")[0] in ("torch", "builtins", "_operator", "math", "")
