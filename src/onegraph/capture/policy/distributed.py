"""What a program asks of `torch.distributed` without talking to another process: answered, and guarded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch.distributed as dist

from onegraph.capture.guards import Predicate
from onegraph.capture.policy.registry import policy
from onegraph.capture.source import Const
from onegraph.torchlib.state import untraced


class Answers(Predicate):
    """A question has this answer still."""

    def __init__(self, ask: Callable[[], Any], answer: Any) -> None:
        self.ask = ask
        self.answer = answer

    def __call__(self, _: object) -> bool:
        return bool(self.ask() == self.answer)

    def text(self, *what: str) -> str:
        return f"{what[0]}() == {self.answer!r}"


def answer(question: Callable[..., Any], tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Ask for real: the state of the process decides."""
    asked = partial(question, *args, **kwargs)
    with untraced():
        found = asked()
    source = Const(id(question), f"torch.distributed.{question.__name__}", question)
    tracer.world.guard(source, "check", Answers(asked, found))
    return found


#: Without arguments.
QUESTIONS = (
    "is_available",
    "is_initialized",
    "is_torchelastic_launched",
    "is_mpi_available",
    "is_nccl_available",
    "is_gloo_available",
)
for _question in (getattr(dist, name) for name in QUESTIONS if hasattr(dist, name)):
    policy(_question)(partial(answer, _question))
