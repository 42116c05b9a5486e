"""The table of graph breaks: for each entry of the catalogue a program that breaks, and for each hint a program that
follows it.

    @breaks(b.PRINT)
    def report(x): ...                      breaks under fullgraph=True, with this reason

    @report.fixed("print in front of")      the beginning of the hint that is followed
    def report_behind(graph, x): ...        calls what it compiles with `graph`; without the parameter `graph` the
                                            whole function is compiled
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from onegraph.capture.breaks import Reason


def one_tensor() -> tuple[torch.Tensor]:
    return (torch.linspace(0.5, 2.0, 4),)


@dataclass(frozen=True, slots=True)
class Fix:
    """A program that follows a hint."""

    hint: str
    function: Callable[..., Any]
    uses: tuple[Any, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the whole function is compiled."""
        return "graph" not in inspect.signature(self.function).parameters


@dataclass(slots=True)
class Case:
    """A program that breaks. `runs`: eager mode may run it; `same`: it gives the same result each time; `later`: it
    breaks for another reason first; `strict`: it is an error with fullgraph=True. It is compiled with `options`.
    """

    reason: Reason
    function: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]
    runs: bool
    same: bool
    later: bool
    strict: bool
    uses: tuple[Any, ...]
    options: dict[str, Any]
    fixes: list[Fix] = field(default_factory=list)

    def fixed(self, beginning: str, uses: tuple[Any, ...] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """The decorated function follows the one hint that begins like this. `uses` is what its page shows above it."""
        hints = [hint for hint in self.reason.hints if hint.startswith(beginning)]
        assert len(hints) == 1, f"{self.reason.code} has {len(hints)} hints that begin with {beginning!r}"

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self.fixes.append(Fix(hints[0], function, uses))
            return function

        return register


CASES: list[Case] = []


def breaks(
    reason: Reason,
    inputs: Callable[[], tuple[Any, ...]] = one_tensor,
    *,
    runs: bool = True,
    same: bool = True,
    later: bool = False,
    strict: bool = True,
    uses: tuple[Any, ...] = (),
    options: dict[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Case]:
    """Add the decorated program to the table. `uses` is what its page shows above it."""

    def register(function: Callable[..., Any]) -> Case:
        CASES.append(Case(reason, function, inputs, runs, same, later, strict, uses, options or {}))
        return CASES[-1]

    return register
