"""Writing LLVM text: values, and instructions placed in the outermost loop in which their operands are known.

Common subexpressions and loop invariants are found while writing, so that the LLVM pipeline can stay light.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from onegraph.base.constants import inf
from onegraph.base.dataclass import dataclass
from onegraph.ir.types import BF16, BOOL, F16, F32, F64, I64, DType

# A bfloat16 is its bits: for LLVM's own type, older machines call functions that no library of the process has.
_REGISTER_TYPES = {BOOL: "i1", F16: "half", BF16: "i16", F32: "float", F64: "double"}


def register_type(dtype: DType) -> str:
    """LLVM's type of one element in a register."""
    return _REGISTER_TYPES.get(dtype) or f"i{dtype.bits}"


def memory_type(dtype: DType) -> str:
    """LLVM's type of one element in memory."""
    return "i8" if dtype is BOOL else register_type(dtype)


def literal_text(value: float | int | bool, dtype: DType) -> str:
    """A literal of the element type."""
    if dtype is BOOL:
        return "true" if value else "false"
    if not dtype.is_float:
        return str(int(value))
    number = float(value)
    if dtype is F64:
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    if dtype is F16:
        return f"0xH{struct.unpack('<H', _pack_half(number))[0]:04X}"
    bits = struct.unpack("<I", _pack_float(number))[0]
    if dtype is BF16:
        rounded = bits | 0x400000 if math.isnan(number) else bits + 0x7FFF + (bits >> 16 & 1)
        return str(rounded >> 16 & 0xFFFF)
    widened = struct.unpack("<f", struct.pack("<I", bits))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', widened))[0]:016X}"


def _pack_float(number: float) -> bytes:
    try:
        return struct.pack("<f", number)
    except OverflowError:
        return struct.pack("<f", math.copysign(inf, number))


def _pack_half(number: float) -> bytes:
    try:
        return struct.pack("<e", number)
    except OverflowError:
        return struct.pack("<e", math.copysign(inf, number))


@dataclass(frozen=True, slots=True)
class Val:
    """A value in a register. `lanes` is 1 for a scalar; `depth` the loop in which it is defined (0: outside of all)."""

    text: str
    dtype: DType
    lanes: int = 1
    depth: int = 0

    @property
    def type(self) -> str:
        element = register_type(self.dtype)
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def __str__(self) -> str:
        """Type and name, as an operand is written."""
        return f"{self.type} {self.text}"


def suffix(x: Val) -> str:
    """The type of the value in the name of an overloaded intrinsic: v16f32."""
    is_float = x.dtype.is_float and x.dtype is not BF16
    element = f"f{x.dtype.bits}" if is_float else register_type(x.dtype)
    return element if x.lanes == 1 else f"v{x.lanes}{element}"


class Region:
    """Text of one loop body (or of the function), and the values known there."""

    __slots__ = ("lines", "memo")

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.memo: dict[str, Val] = {}


class Emitter:
    """Text of one function under construction. `regions[k]` is the body of the k-th enclosing loop."""

    def __init__(self, instructions: str = "") -> None:
        self.instructions = instructions
        self.regions = [Region()]
        self.entry: list[str] = []  # allocations on the stack
        self.declarations: set[str] = set()
        self.definitions: dict[str, str] = {}  # functions that the module must contain once
        self._names = 0
        self._floor = 0  # instructions are not placed further out than this
        self._loops: list[tuple[str, int]] = []

    @property
    def depth(self) -> int:
        return len(self.regions) - 1

    @property
    def floor(self) -> int:
        """Instructions are not placed further out than this."""
        return self._floor

    def fresh(self, stem: str = "v") -> str:
        self._names += 1
        return f"{stem}{self._names}"

    # ---- instructions ------------------------------------------------------------------------------------------------

    def value(self, text: str, dtype: DType, lanes: int, depth: int | None, pure: bool = True) -> Val:
        """The result of the instruction `text`, in the region of that depth (None: here, where it stands)."""
        depth = self.depth if depth is None else max(depth, self._floor)
        if pure:
            for region in self.regions[: depth + 1]:
                found = region.memo.get(text)
                if found is not None and found.dtype is dtype:
                    return found
        region = self.regions[depth]
        result = Val(f"%{self.fresh()}", dtype, lanes, depth)
        region.lines.append(f"{result.text} = {text}")
        if pure:
            region.memo[text] = result
        return result

    def line(self, text: str) -> None:
        """An instruction without a result, here."""
        self.regions[-1].lines.append(text)

    def constant(self, value: float | int | bool, dtype: DType, lanes: int = 1) -> Val:
        text = literal_text(value, dtype)
        if lanes == 1:
            return Val(text, dtype)
        if (dtype.is_float and float(value) == 0 and math.copysign(1, value) > 0) or (not dtype.is_float and not value):
            return Val("zeroinitializer", dtype, lanes)
        return Val(f"splat ({register_type(dtype)} {text})", dtype, lanes)

    def inst(self, opcode: str, *args: Val, dtype: DType | None = None) -> Val:
        """An instruction on operands of one type: `add i64 %a, %b`. Scalars are widened where a vector is present."""
        args = self.aligned(*args)
        first = args[0]
        text = f"{opcode} {first.type} {', '.join(a.text for a in args)}"
        return self.value(text, dtype or first.dtype, first.lanes, max(a.depth for a in args))

    def call(self, function: str, *args: Val, dtype: DType | None = None, tail: str = "") -> Val:
        """A call of a pure LLVM intrinsic, overloaded by the type of its first operand."""
        args = self.aligned(*args)
        first = args[0]
        dtype = dtype or first.dtype
        result = Val("", dtype, first.lanes).type
        name = f"@llvm.{function}.{suffix(first)}"
        self.declare(f"declare {result} {name}({', '.join(a.type for a in args)}{', i1' if tail else ''})")
        text = f"call {result} {name}({', '.join(map(str, args))}{tail})"
        return self.value(text, dtype, first.lanes, max(a.depth for a in args))

    def machine_call(self, function: str, chunk: int, args: tuple[Val, ...], tail: str = "") -> Val:
        """A pure function of the machine on vectors of `chunk` lanes, applied to wider ones piece by piece."""
        first = args[0]
        depth = max(a.depth for a in args)
        narrow = Val("", first.dtype, chunk).type
        types = ", ".join([narrow] * len(args)) + "".join(f", {item.split()[0]}" for item in tail.split(",")[1:])
        self.declare(f"declare {narrow} @{function}({types}) nounwind willreturn memory(none)")
        pieces = []
        for start in range(0, first.lanes, chunk):
            given = ", ".join(str(self.piece(a, start, chunk)) for a in args)
            pieces.append(self.value(f"call {narrow} @{function}({given}{tail})", first.dtype, chunk, depth))
        while len(pieces) > 1:
            pieces = [self.joined(a, b) for a, b in zip(pieces[::2], pieces[1::2], strict=True)]
        return pieces[0]

    def piece(self, x: Val, start: int, count: int) -> Val:
        """Some neighbouring lanes of a vector."""
        if count == x.lanes:
            return x
        lanes = ", ".join(f"i32 {start + k}" for k in range(count))
        return self.value(f"shufflevector {x}, {x.type} poison, <{count} x i32> <{lanes}>", x.dtype, count, x.depth)

    def joined(self, a: Val, b: Val) -> Val:
        """The lanes of both vectors, one after the other."""
        count = 2 * a.lanes
        lanes = ", ".join(f"i32 {k}" for k in range(count))
        text = f"shufflevector {a}, {b}, <{count} x i32> <{lanes}>"
        return self.value(text, a.dtype, count, max(a.depth, b.depth))

    def select(self, condition: Val, a: Val, b: Val) -> Val:
        a, b = self.aligned(a, b)
        if condition.lanes > 1 or a.lanes > 1:
            lanes = max(condition.lanes, a.lanes)
            a, b = self.widened(a, lanes), self.widened(b, lanes)
            if condition.lanes == 1:
                condition = self.widened(condition, lanes)
        depth = max(condition.depth, a.depth, b.depth)
        return self.value(f"select {condition}, {a}, {b}", a.dtype, a.lanes, depth)

    def convert(self, opcode: str, x: Val, dtype: DType) -> Val:
        """A conversion instruction: `sext i32 %x to i64`."""
        target = Val("", dtype, x.lanes).type
        return self.value(f"{opcode} {x} to {target}", dtype, x.lanes, x.depth)

    def declare(self, text: str) -> None:
        self.declarations.add(text)

    def aligned(self, *args: Val) -> tuple[Val, ...]:
        """All operands as wide as the widest."""
        lanes = args[0].lanes
        if all(a.lanes == lanes for a in args):
            return args
        lanes = max(a.lanes for a in args)
        return tuple(self.widened(a, lanes) for a in args)

    def widened(self, x: Val, lanes: int) -> Val:
        """A scalar repeated in every lane."""
        if x.lanes == lanes:
            return x
        if not x.text.startswith("%"):
            return Val(f"splat ({x})", x.dtype, lanes)
        vector = Val("", x.dtype, lanes).type
        first = self.value(f"insertelement {vector} poison, {x}, i64 0", x.dtype, lanes, x.depth)
        text = f"shufflevector {first}, {vector} poison, <{lanes} x i32> zeroinitializer"
        return self.value(text, x.dtype, lanes, x.depth)

    def iota(self, dtype: DType, lanes: int) -> Val:
        """0, 1, 2, ... in the lanes."""
        element = register_type(dtype)
        return Val(f"<{', '.join(f'{element} {k}' for k in range(lanes))}>", dtype, lanes)

    def i64(self, value: int) -> Val:
        return Val(str(value), I64)

    # ---- loops -------------------------------------------------------------------------------------------------------

    def open_loop(self, begin: Val, end: Val, step: int) -> Val:
        """Begin `for counter in range(begin, end, step)`; instructions go to its body until `close_loop`.

        Its text joins the enclosing one when it is closed: invariants that are found meanwhile stand before it.
        """
        label = self.fresh("loop")
        counter = f"%{label}.i"
        body = Region()
        body.lines = [
            f"br label %{label}.before",
            f"{label}.before:",
            f"br label %{label}",
            f"{label}:",
            f"{counter} = phi i64 [ {begin.text}, %{label}.before ], [ {counter}.next, %{label}.latch ]",
            f"{counter}.more = icmp slt i64 {counter}, {end.text}",
            f"br i1 {counter}.more, label %{label}.body, label %{label}.exit",
            f"{label}.body:",
        ]
        self.regions.append(body)
        self._loops.append((label, step))
        return Val(counter, I64, 1, self.depth)

    def close_loop(self) -> None:
        label, step = self._loops.pop()
        body = self.regions.pop()
        self.regions[-1].lines += [
            *body.lines,
            f"br label %{label}.latch",
            f"{label}.latch:",
            f"%{label}.i.next = add nsw i64 %{label}.i, {step}",
            f"br label %{label}",
            f"{label}.exit:",
        ]

    def rarely(self, condition: Val, slow: Callable[[], Val], fast: Val) -> Val:
        """`fast`, or where the condition holds in any lane the result of `slow` for all of them. Stands here."""
        cell, label = f"%{self.fresh('rare')}", self.fresh("rare")
        self.entry.append(f"{cell} = alloca {fast.type}")
        self.line(f"store {fast}, ptr {cell}")
        any_lane = condition
        if condition.lanes > 1:
            name = f"@llvm.vector.reduce.or.{suffix(condition)}"
            self.declare(f"declare i1 {name}({condition.type})")
            any_lane = self.value(f"call i1 {name}({condition})", BOOL, 1, None, pure=False)
        self.line(f"br i1 {any_lane.text}, label %{label}.slow, label %{label}.done")
        self.regions.append(Region())
        floor, self._floor = self._floor, self.depth
        self.line(f"{label}.slow:")
        result = slow()
        self._floor = floor
        self.line(f"store {result}, ptr {cell}")
        self.line(f"br label %{label}.done")
        self.line(f"{label}.done:")
        lines = self.regions.pop().lines
        self.regions[-1].lines += lines
        return self.value(f"load {fast.type}, ptr {cell}", fast.dtype, fast.lanes, None, pure=False)
