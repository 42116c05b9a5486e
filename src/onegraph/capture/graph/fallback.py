"""Where a compiled graph fails, nothing of its frame has happened yet: the frame can still run as it was written.

What the program does before the failing operator is then done, and its own handlers see the error. That is right while
the graph has left nothing behind; if it has, its error is raised as it is. The hook runs the frame (csrc/graph.c).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from onegraph import _C
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import UNEXPECTED, BackendError, EntryRefused
from onegraph.base.events import GraphFailed
from onegraph.base.late import late_module
from onegraph.torchlib import ranks
from onegraph.torchlib.private import DisableTorchFunction, set_grad_enabled
from onegraph.torchlib.settings import Setting
from onegraph.torchlib.state import GlobalState, saves_through_hooks

if TYPE_CHECKING:
    from onegraph.capture.symbolic.generator_states import SavedStates
    from onegraph.torchlib.rank_states import note_place
else:
    note_place = late_module("onegraph.torchlib.rank_states").note_place


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
    `grad_enabled` and `grad_after` say whether gradients are recorded where it begins and where it ends. `collectives`
    are the lines of the program that communicate, in their order: file, line, function and text.
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
    collectives: tuple[tuple[str, int, str, str], ...]
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
        untouched = self.repeatable and (before is None or before.versions == self._versions(inputs))
        resolved = untouched or isinstance(error, EntryRefused)  # of which nothing has happened
        resolved = resolved and not isinstance(error, BackendError)  # it says that the graph is wrong
        resolved = resolved and not saves_through_hooks()  # they have seen what the graph has saved, or have raised
        # The error goes on: blocks in which the graph begins or ends, and which it leaves or enters, are left for good.
        set_grad_enabled(self.grad_enabled or (self.grad_after and not resolved))
        if resolved and before is not None and before.random is not None:
            torch.default_generator.set_state(before.random)
        if resolved:
            self.generators.put_back()
        elif ranks.rank() is not None:
            note_place(error, self.cx.frame, self.collectives)
        self.cx.emit(GraphFailed(self.cx.frame, f"{type(error).__name__}: {error}", resolved))
        return resolved

    def _versions(self, inputs: Sequence[Any]) -> tuple[int | None, ...]:
        if not self.repeatable:
            return ()
        written = [inputs[index] for index in self.written]
        with DisableTorchFunction():  # once: a step of an optimizer writes to hundreds
            return tuple([None if tensor.is_inference() else tensor._version for tensor in written])
