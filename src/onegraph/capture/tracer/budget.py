"""How much one trace may do. What goes on for longer gains nothing from being compiled, or takes too long to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

#: How many steps an operation on tensors counts for: about what recording it takes.
OPERATION = 100
#: The part of the limit that may pass without an operation or an input, where the program can run in pieces; and the
#: part after which a function that has not met a tensor is left alone.
IDLE, BARE = 20, 100
#: Steps between two looks.
INTERVAL = 1000


class Budget:
    """Counts the steps of one trace: instructions, facts that are guarded, values that are built, operations.

    `operations` says how many nodes the graph has, `strict` whether a graph break is an error. `exceeded` is called,
    and raises, when more than `limit` steps are done, or too many without anything for the graph: it is told what is
    too much, and how many steps that were.
    """

    def __init__(
        self,
        limit: int,
        operations: Callable[[], int],
        strict: Callable[[], bool],
        exceeded: Callable[[str, int], NoReturn],
    ) -> None:
        self.spent = 0
        self._limit = limit
        self._idle_limit = limit // BARE
        self._idle_since = 0
        self._next = 0
        self._nodes = 0
        self._operations = operations
        self._strict = strict
        self._exceeded = exceeded

    def spend(self, steps: int = 1) -> None:
        self.spent += steps
        if self.spent > self._next:
            self._look()

    def renew(self) -> None:
        """The trace has come to its end: what is built of it counts anew."""
        self.spent = self._idle_since = 0

    def _look(self) -> None:
        nodes = self._operations()
        if nodes > self._nodes:
            self.spent += OPERATION * (nodes - self._nodes)
            self._nodes = nodes
            self._idle_since = self.spent
            self._idle_limit = self._limit // IDLE
        idle = self.spent - self._idle_since
        if self.spent > self._limit:
            self._exceeded(f"a trace of more than {self._limit} steps", self.spent)
        if idle > self._idle_limit and not self._strict():
            self._exceeded(f"{self._idle_limit} steps of Python without an operation on tensors", idle)
        self._next = self.spent + INTERVAL
