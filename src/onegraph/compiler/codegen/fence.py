"""The checks of the sanitizer: before each access, that its elements lie in the buffer.

A kernel with checks finds the bytes of each operand behind the pointers. It leaves with -1 - k at a wrong access k, and
the wrong index stands behind the bytes.
"""

from __future__ import annotations

from onegraph.compiler.codegen.emitter import Val, suffix
from onegraph.compiler.codegen.writing import Writing
from onegraph.ir.types import BOOL, I64, DType


class Fence:
    """`accesses` are those that are checked: the operand (-1: memory of the kernel's own), and what is done there."""

    def __init__(self, writer: Writing) -> None:
        self.w = writer
        self.accesses: list[tuple[int, str]] = []
        self.sizes: dict[str, Val] = {}  # how many elements each buffer has
        self.positions: dict[str, int] = {}

    def bind(self, operands: tuple[str, ...], dtypes: dict[str, DType]) -> None:
        """Read how large the operands are."""
        e = self.w.e
        for position, buffer in enumerate(operands):
            at = len(operands) + position
            e.line(f"%n{position}.p = getelementptr i64, ptr %buffers, i64 {at}")
            e.line(f"%n{position}.bytes = load i64, ptr %n{position}.p")
            e.line(f"%n{position} = udiv i64 %n{position}.bytes, {dtypes[buffer].size}")
            self.sizes[buffer] = Val(f"%n{position}", I64)
            self.positions[buffer] = position
        e.line(f"%wrong = getelementptr i64, ptr %buffers, i64 {2 * len(operands)}")

    def own(self, buffer: str, size: int) -> None:
        self.sizes[buffer] = self.w.e.i64(size)
        self.positions[buffer] = -1

    def check(self, what: str, buffer: str, at: Val, lanes: int, mask: Val | None, depth: int | None) -> None:
        """Leave the kernel unless the elements `at`, or so many from there on, are there; of a mask, those it wants.

        The check stands where the access does, at that depth (None: here).
        """
        e = self.w.e
        access = (self.positions[buffer], what if self.positions[buffer] >= 0 else f"{what} of {buffer}")
        if access not in self.accesses:
            self.accesses.append(access)
        code = -1 - self.accesses.index(access)
        index = e.inst("add", at, e.iota(I64, lanes)) if lanes > 1 else at
        inside = e.inst("icmp ult", index, self.sizes[buffer], dtype=BOOL)
        if mask is not None:
            inside = e.inst("or", inside, e.inst("xor", mask, e.constant(True, BOOL)))
        index = e.widened(index, inside.lanes)
        held = self.w.folded("vector.reduce.and", inside) if inside.lanes > 1 else inside
        region = e.regions[max(e.depth if depth is None else depth, held.depth, e.floor)]
        key = f"access {code} {held.text}"
        if key in region.memo:
            return
        region.memo[key] = held
        label = e.fresh("access")
        region.lines += [f"br i1 {held.text}, label %{label}.held, label %{label}.failed", f"{label}.failed:"]
        wrong = index.text
        if inside.lanes > 1:
            name = f"@llvm.vector.reduce.umax.{suffix(index)}"
            e.declare(f"declare i64 {name}({index.type})")
            region.lines += [
                f"%{label}.all = select {inside}, {index.type} zeroinitializer, {index}",
                f"%{label}.wrong = call i64 {name}({index.type} %{label}.all)",
            ]
            wrong = f"%{label}.wrong"
        region.lines += [f"store i64 {wrong}, ptr %wrong", f"ret i64 {code}", f"{label}.held:"]
