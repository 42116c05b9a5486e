"""Pointers of the interpreter that know which operand of a kernel they belong to: accesses outside of it are found.

The upper bits of a pointer, which no address needs, are the number of its operand. So what lies beside an operand, in
the same workspace even, is another one's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

UPPER = 48  # bits of an address
ACCESSES = ("a load", "a store")


class OutOfBounds(Exception):
    """An access of a kernel, of which there are those of ACCESSES for each operand in turn, to the element `index`."""

    def __init__(self, access: int, index: int) -> None:
        super().__init__(f"{ACCESSES[access % 2]} of p{access // 2} at {index}")
        self.access = access
        self.index = index


def accesses(operands: int) -> tuple[tuple[int, str], ...]:
    """What a kernel may do to its operands, as `KernelInfo` has it."""
    return tuple((operand, what) for operand in range(operands) for what in ACCESSES)


def pointer(address: int | None, kind: str, operand: int | None = None) -> Any:
    """A pointer of that type, as signatures have it; accesses by that of an operand are checked."""
    upper = 0 if operand is None else operand + 1
    type = tl.str_to_ty(kind, None)
    return tl.tensor(TensorHandle(np.array([upper << UPPER | (address or 0)], dtype=np.uint64), type), type)


class Bounds:
    """The memory of the operands of the kernel that runs: for each a pointer, and the bytes before and behind it."""

    def __init__(self) -> None:
        self.pointers = self.before = self.behind = np.zeros(0, np.int64)

    @contextmanager
    def of(self, pointers: Sequence[int], before: Sequence[int], behind: Sequence[int]) -> Iterator[None]:
        outer = self.pointers, self.before, self.behind
        self.pointers, self.before, self.behind = (np.array(each, np.int64) for each in (pointers, before, behind))
        try:
            yield
        finally:
            self.pointers, self.before, self.behind = outer

    def checked(self, pointers: Any, mask: Any, is_store: bool) -> Any:
        """The addresses of these pointers.

        Raises:
            OutOfBounds: if one of them, where the mask is on, is none of an element of its operand.
        """
        if not self.pointers.size:
            return pointers
        itemsize = max(pointers.get_element_ty().primitive_bitwidth // 8, 1)
        address = (pointers.data & np.uint64((1 << UPPER) - 1)).astype(np.int64)
        operand = (pointers.data >> np.uint64(UPPER)).astype(np.int64) - 1
        known = np.clip(operand, 0, self.pointers.size - 1)
        offset = address - self.pointers[known]
        inside = (operand == known) & (offset >= -self.before[known]) & (offset + itemsize <= self.behind[known])
        wrong = np.flatnonzero(np.broadcast_to(mask.data, inside.shape) & ~inside)
        if wrong.size:
            place = wrong[0]
            raise OutOfBounds(2 * int(known.flat[place]) + is_store, int(offset.flat[place]) // itemsize)
        return TensorHandle(address.astype(np.uint64), pointers.dtype)


BOUNDS = Bounds()


def check_accesses() -> None:
    """Have the interpreter in this process look at each access."""
    load, store, atomic = (
        getattr(InterpreterBuilder, name) for name in ("create_masked_load", "create_masked_store", "create_atomic_rmw")
    )

    def checked_load(self: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
        return load(self, BOUNDS.checked(pointers, mask, False), mask, *rest)

    def checked_store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        return store(self, BOUNDS.checked(pointers, mask, True), value, mask, *rest)

    def checked_atomic(self: Any, op: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        return atomic(self, op, BOUNDS.checked(pointers, mask, True), value, mask, *rest)

    exchanged: dict[str, Callable[..., Any]] = {
        "create_masked_load": checked_load,
        "create_masked_store": checked_store,
        "create_atomic_rmw": checked_atomic,
    }
    for name, function in exchanged.items():
        setattr(InterpreterBuilder, name, function)
