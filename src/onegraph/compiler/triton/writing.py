"""What the writer of totals asks of the writer of a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from onegraph.compiler.triton.index_text import Term
from onegraph.ir.loop import Literal, Operand
from onegraph.ir.types import DType


class Writing(Protocol):
    """What is asked of `writer.KernelWriter`."""

    dims: tuple[str, ...]
    lanes: frozenset[str]
    types: dict[str, DType]
    values: dict[str, Term]

    def line(self, text: str) -> None: ...
    def named(self, term: Term, name: str = "") -> Term: ...
    def filled(self, value: Literal, dtype: DType) -> str: ...
    def mask(self, lanes: Iterable[str], *more: Term) -> str: ...
    def operand(self, operand: Operand, dtype: DType) -> Term: ...
