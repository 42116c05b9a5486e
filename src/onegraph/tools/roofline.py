"""Where the time of a call goes, kernel by kernel, against what the machine could do: what `onegraph roofline` prints.

A kernel that moves so many bytes and computes so much takes at least the longer of both times. What it takes more is
what is to be won. Source: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model"
(2009).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from onegraph.base.config import Config
from onegraph.base.dataclass import dataclass
from onegraph.base.disk_cache import cache_of, key_of
from onegraph.base.errors import InvalidArgument
from onegraph.base.events import Event, MemoryPlanned
from onegraph.base.text import columns, plural
from onegraph.compile import EVENTS, compile
from onegraph.compiler.codegen.native import description
from onegraph.compiler.library.measure import times_of
from onegraph.tools.html_report.data import KernelRow, Limits
from onegraph.tools.html_report.limits import best, machine_limits
from onegraph.tools.html_report.measured import Measured, kernel_rows

#: Of a product that lies in near caches: its rows, what is summed over, and its columns.
NEAR = 600, 128, 64
BYTE, OPERATION = "a byte that is copied", "an operation of arithmetic"
SHOWN = 40  # rows of the table
LONGEST = 44  # characters of a name


@dataclass(frozen=True, slots=True)
class Roofline:
    """Kernels and calls of libraries in so many calls of a function, which took so many seconds altogether."""

    rows: tuple[KernelRow, ...]
    limits: Limits
    calls: int
    seconds: float
    threads: int

    def least(self, row: KernelRow) -> float:
        """Seconds that it takes at least."""
        return max(row.moved / self.limits.bandwidth, row.flops / self.limits.arithmetic)

    def __str__(self) -> str:
        scale = 1e3 / self.calls
        order = sorted(self.rows, key=lambda row: self.least(row) - row.nanoseconds / 1e9)
        spent = sum(row.nanoseconds for row in self.rows) / 1e9
        least = sum(min(self.least(row), row.nanoseconds / 1e9) for row in self.rows)
        share = least / self.seconds
        head = (
            f"{self.seconds * scale:.3f} ms a call; the machine needs {least * scale:.3f} ({share:.0%}).\n"
            f"{spent * scale:.3f} in {plural(len(self.rows), 'kernel')} and calls of libraries, "
            f"{(self.seconds - spent) * scale:.3f} between them. "
            f"It moves {self.limits.bandwidth / 1e9:.1f} GB/s and computes {self.limits.arithmetic / 1e9:.0f} GFLOP/s "
            f"in float32 with {plural(self.threads, 'thread')}. What lies in caches may be faster than memory."
        )
        titles = ("kernel", "runs", "ms", "at least", "by", "of it", "lost ms", "GB/s", "GFLOP/s")
        shown = [self._cells(row, scale) for row in order[:SHOWN]]
        more = [f"and {plural(len(order) - SHOWN, 'more kernel')}"] * (len(order) > SHOWN)
        return "\n".join([head, "", columns([titles, *shown]), *more])

    def _cells(self, row: KernelRow, scale: float) -> tuple[str, ...]:
        seconds, least = max(row.nanoseconds, 1) / 1e9, self.least(row)
        known = row.moved or row.flops
        return (
            row.name if len(row.name) <= LONGEST else f"{row.name[: LONGEST - 3]}...",
            f"{row.runs / self.calls:.0f}",
            f"{seconds * scale:.3f}",
            f"{least * scale:.3f}" if known else "?",
            ("memory" if row.is_bound_by_memory(self.limits) else "arithmetic") if known else "?",
            f"{least / seconds:.0%}" if known else "?",
            f"{max(seconds - least, 0.0) * scale:.3f}" if known else "?",
            f"{row.moved / seconds / 1e9:.1f}",
            f"{row.flops / seconds / 1e9:.1f}",
        )


def roofline(function: Callable[..., Any], args: tuple[Any, ...], calls: int = 20) -> Roofline:
    """Compile a function, call it, and compare its kernels with what this machine reaches.

    Args:
        function: what is compiled; its own gradient mode counts.
        args: of each call.
        calls: how many are measured, behind one that compiles and one that is not counted.

    Raises:
        InvalidArgument: if `calls` is not positive, nothing of the function became kernels, or there is no memory to
            measure the machine in.
    """
    if calls < 1:
        raise InvalidArgument(f"calls expects a positive number, got {calls}")
    graphs: list[Measured] = []

    def note(event: Event) -> None:
        if isinstance(event, MemoryPlanned) and event.times is not None and event.frame is not None:
            graphs.append(Measured(event.frame, event.plan, event.times))

    compiled = compile(function, options={"measure": True})
    unsubscribe = EVENTS.subscribe(note)
    try:
        for _ in range(2):
            compiled(*args)
    finally:
        unsubscribe()
    for graph in graphs:
        graph.times[:] = type(graph.times)("q", bytes(8 * len(graph.times)))
    begun = perf_counter()
    for _ in range(calls):
        compiled(*args)
    seconds = perf_counter() - begun
    rows = with_checks_together(kernel_rows(graphs))
    if not rows:
        raise InvalidArgument("nothing of the function became kernels: `onegraph explain` says why")
    return Roofline(rows, limits(), calls, seconds, torch.get_num_threads())


def with_checks_together(rows: tuple[KernelRow, ...]) -> tuple[KernelRow, ...]:
    """What is made of parameters is kept: in a call it is only asked whether they have changed, which moves nothing."""
    kept = [row for row in rows if row.name.startswith("recipe.")]
    others = tuple(row for row in rows if row not in kept)
    if not kept:
        return others
    spent, runs = sum(row.nanoseconds for row in kept), sum(row.runs for row in kept)
    return *others, KernelRow("checks of weights that are kept packed", kept[0].place, True, runs, spent, 0, 0)


def limits() -> Limits:
    """What this machine reaches with as many threads as torch uses now, measured once and kept on disk."""
    disk = cache_of(Config.from_environment(), "times")
    key = key_of("limits", *description(), str(torch.get_num_threads()), torch.__version__)
    data = None if disk is None else disk.load(key)
    with suppress(ValueError, LookupError, ZeroDivisionError):
        if data is not None:
            known = times_of(data)
            return Limits(1 / known[BYTE], 1 / known[OPERATION])
    found = machine_limits()
    if found is None:
        raise InvalidArgument("there is no memory to measure the machine in")
    found = Limits(found.bandwidth, max(found.arithmetic, product_speed()))
    if disk is not None:
        disk.store(key, json.dumps({BYTE: 1 / found.bandwidth, OPERATION: 1 / found.arithmetic}).encode())
    return found


def product_speed() -> float:
    """Operations in a second of a product of ours whose factors lie in near caches."""

    def product(x: Tensor, y: Tensor) -> Tensor:
        return (x[:, :, None] * y[None]).sum(1)

    rows, inner, count = NEAR
    many = rows * torch.get_num_threads()
    x, y = torch.ones(many, inner), torch.ones(inner, count)
    compiled = compile(product, fullgraph=True)
    compiled(x, y)
    return 2 * many * inner * count / min(best(lambda: compiled(x, y)) for _ in range(10))
