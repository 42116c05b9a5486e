"""What the parts of the writer of a kernel ask of it, and of each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from onegraph.compiler.codegen.emitter import Emitter, Val
from onegraph.compiler.target import Machine
from onegraph.ir.index import Index, Symbol
from onegraph.ir.loop import Block, Kernel, Operand
from onegraph.ir.types import DType


class Addressing(Protocol):
    """What is asked of `memory.Memory`."""

    def depth(self, buffer: str, *values: Val) -> int | None: ...
    def address(self, buffer: str, index: Index, stored: DType, certain: bool = True) -> Val: ...
    def stride(self, index: Index) -> int | None: ...
    def next_panel(self, index: Index) -> Index | None: ...
    def check(
        self, what: str, buffer: str, index: Index, lanes: int = 1, mask: Val | None = None, depth: int | None = None
    ) -> None: ...


class Tiling(Protocol):
    """What is asked of `tiles.Tiles`."""

    def covers(self, index: Index) -> bool: ...
    def load(self, buffer: str, index: Index, stored: DType) -> Val: ...
    def store(self, buffer: str, index: Index, value: Val) -> bool: ...


class Writing(Protocol):
    """What is asked of `kernel.KernelWriter`."""

    kernel: Kernel
    machine: Machine
    e: Emitter
    lanes: int
    mask: Val | None
    names: dict[str, Val]
    values: dict[str, Val]
    types: dict[str, DType]
    loops: list[Symbol]

    @property
    def memory(self) -> Addressing: ...
    @property
    def tiles(self) -> Tiling: ...
    @property
    def vector_axis(self) -> Symbol | None: ...

    def block(self, block: Block) -> None: ...
    def operand(self, operand: Operand, dtype: DType) -> Val: ...
    def index(self, index: Index) -> Val: ...
    def folded(self, function: str, x: Val) -> Val: ...
    def vector_loop(
        self, axis: Symbol, begin: Val, end: Val, body: Callable[[], None], exact: bool | None = None
    ) -> None: ...
