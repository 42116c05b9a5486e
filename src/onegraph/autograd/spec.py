"""The calling convention between a captured graph and its functional form, as data.

The functional graph takes the captured graph's inputs, and returns only new tensors. The calling convention says what
the caller does around it so that everybody sees what eager execution shows: which results are copied into which inputs,
and which outputs are an input, a view of an input, or a view of another output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Computed:
    """Result `index` of the functional graph."""

    index: int


@dataclass(frozen=True, slots=True)
class Input:
    """The caller's own tensor."""

    index: int


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is not computed: None, a number, a dtype ..."""

    value: Any


@dataclass(frozen=True, slots=True)
class Strided:
    """A view of another tensor by its layout; `offset` counts from where the other one starts."""

    base: Base
    size: tuple[int | Computed, ...]
    stride: tuple[int | Computed, ...]
    offset: int | Computed


@dataclass(frozen=True, slots=True)
class Replayed:
    """A view of another tensor that a layout cannot express (of another dtype, conjugated): operators, in order."""

    base: Base
    steps: tuple[tuple[Any, tuple[Any, ...]], ...]


@dataclass(frozen=True, slots=True)
class Detached:
    """A tensor with the memory of another one that is no view of it: what `Tensor.detach` and `Tensor.data` give.

    Writes to it are writes to the other one for autograd if they are counted together: not those to `Tensor.data`.
    """

    tensor: Input | Strided | Replayed
    counted_together: bool = True


Base = Computed | Input | Detached
Output = Computed | Input | Literal | Strided | Replayed | Detached


@dataclass(frozen=True, slots=True)
class Mutation:
    """Input `input` gets a value, None for the one that it has; the program writes to it so often, as autograd sees it.

    Autograd does not see writes to `Tensor.data`.
    """

    input: int
    value: Computed | None
    writes: int


@dataclass(frozen=True, slots=True)
class CallSpec:
    """How to call a functional graph. Its inputs are those of the captured graph.

    `written` are outputs, by position, that the program has written to after it made them, and how often.
    """

    inputs: int
    outputs: tuple[Output, ...]
    mutations: tuple[Mutation, ...] = ()
    written: tuple[tuple[int, int], ...] = ()

    def is_plain(self) -> bool:
        """Are the functional graph's results just the outputs, with nothing to do around it?"""
        plain = tuple(Computed(index) for index in range(len(self.outputs)))
        return not self.mutations and not self.written and self.outputs == plain
