"""The checker of bounds: every index of every load and store of a program lies in its buffer, under its condition.

What it proves holds for all sizes that the facts allow, and for all elements that tensors may hold: an index that was
read from one is known by what the kernel compares it with before, in checks, choices and conditions. 64-bit arithmetic
is taken to be exact. Two kinds of proofs are out of its reach, see `Reach`; the sanitizer covers these accesses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import product as combinations
from types import MappingProxyType

from onegraph.base.dataclass import dataclass
from onegraph.ir.index import ONE, ZERO, Call, Index, Symbol, bounds, greatest, least
from onegraph.ir.loop import (
    Accumulate,
    Apply,
    Block,
    Cast,
    Check,
    Constant,
    Coordinates,
    IndexValue,
    Kernel,
    Let,
    Load,
    Loop,
    Offset,
    Operand,
    Place,
    Program,
    Store,
    statements,
)
from onegraph.ir.loop_check import InvalidProgram
from onegraph.ir.proof import MANY, Cases, Facts, is_proven
from onegraph.ir.real_ranges import RealRanges
from onegraph.ir.types import BOOL, I64, DType, TensorType

NOTHING: Mapping[str, tuple[int, int]] = MappingProxyType({})
ALWAYS: Cases = ((),)
NEVER: Cases = ()
CHOSEN = 4  # choices one after another that are gone through


class OutOfBounds(InvalidProgram):
    """A load or a store that is not proven to lie in its buffer."""


class Reach(Enum):
    """The kinds of accesses for which there may be no proof."""

    # Before it was flattened, its coordinates were proven.
    QUOTIENTS = "an offset with quotients of symbolic sizes or of other quotients"
    CHOICES = "a number that was chosen among others in several steps"  # as in a search by halves


@dataclass(frozen=True, slots=True)
class Unproven:
    """An access that is not proven, of a kind for which that is no error."""

    kernel: str
    access: str
    reach: Reach


def check_bounds(
    program: Program, facts: Sequence[Index] = (), held: Mapping[str, tuple[int, int]] = NOTHING
) -> tuple[Unproven, ...]:
    """Raise `OutOfBounds` unless every access of every kernel is proven; returns those that are out of reach.

    `facts` about sizes are not negative; `held` has the least and the largest element of constants that hold integers.
    """
    types = {buffer.name: buffer.type for buffer in program.buffers}
    found: list[Unproven] = []
    for kernel in program.kernels:
        found += _Checker(kernel, types, tuple(facts), held).run()
    return tuple(found)


class Truth:
    """What is known where a condition holds, and where it does not."""

    __slots__ = ("fails", "holds")

    def __init__(self, holds: Cases, fails: Cases) -> None:
        self.holds = holds if len(holds) <= MANY else ALWAYS
        self.fails = fails if len(fails) <= MANY else ALWAYS

    def __and__(self, other: Truth) -> Truth:
        return Truth(_both(self.holds, other.holds), (*self.fails, *other.fails))

    def __invert__(self) -> Truth:
        return Truth(self.fails, self.holds)

    def __or__(self, other: Truth) -> Truth:
        return ~(~self & ~other)


UNKNOWN = Truth(ALWAYS, ALWAYS)


def _both(a: Cases, b: Cases) -> Cases:
    return tuple((*x, *y) for x, y in combinations(a, b)) if len(a) * len(b) <= MANY else ALWAYS


class _Checker:
    """The values of a kernel, as far as they are index expressions or comparisons of such."""

    def __init__(
        self, kernel: Kernel, types: Mapping[str, TensorType], facts: Facts, held: Mapping[str, tuple[int, int]]
    ) -> None:
        self.kernel = kernel
        self.held = held
        self.types = types
        self.locals = {local.name: Index.of(local.size) for local in kernel.locals}
        self.dtypes: dict[str, DType] = {
            s.name: s.dtype for s in statements(kernel.body) if isinstance(s, Let | Accumulate)
        }
        self.numbers: dict[str, Index] = {}
        self.truths: dict[str, Truth] = {}
        self.choices: dict[Symbol, tuple[tuple[Facts, Index], ...]] = {}  # what a number is, in each case
        self.steps: dict[Symbol, int] = {}  # how many choices one after another made the number
        self.ranges: dict[Symbol, Facts] = {}
        self.reals = RealRanges(self.number)
        self.facts = facts
        self.unproven: list[Unproven] = []

    def run(self) -> list[Unproven]:
        """Those that are out of reach."""
        self.block(self.kernel.body, self.entered(self.kernel.axes, [(self.facts,)]))
        return self.unproven

    def entered(self, axes: Sequence[Symbol], assumed: list[Cases]) -> list[Cases]:
        """What holds in loops over these axes: none of them is empty."""
        found = tuple(axis.extent - 1 for axis in axes if axis.extent is not None and axis.extent.constant is None)
        return [*assumed, (found,)] if found else assumed

    def block(self, block: Block, assumed: list[Cases]) -> None:
        assumed = [*assumed]
        for statement in block:
            match statement:
                case Let(name, dtype, value):
                    if isinstance(value, Load):
                        held = self.truths.get(value.condition, UNKNOWN).holds if value.condition else ALWAYS
                        self.access(value.buffer, value.place, [*assumed, held] if held != ALWAYS else assumed)
                    self.let(name, dtype, value)
                case Store(buffer, place):
                    self.access(buffer, place, assumed)
                case Check(condition):
                    held = self.truth(condition).holds
                    if held != ALWAYS:
                        assumed.append(held)
                case Loop(axes, body):
                    self.block(body, self.entered(axes, assumed))
                case Accumulate(name, dtype, op, args):
                    self.total(name, dtype, op, args)

    # ---- accesses ----------------------------------------------------------------------------------------------------

    def access(self, buffer: str, place: Place, assumed: list[Cases]) -> None:
        if isinstance(place, Coordinates) and buffer not in self.locals:
            pairs = list(zip(place.indices, self.types[buffer].shape, strict=True))
        else:
            size = self.locals[buffer] if buffer in self.locals else self.types[buffer].span
            pairs = [(place.indices[0] if isinstance(place, Coordinates) else place.index, size)]
        for index, size in pairs:
            known = self.resolved(index)
            for goal in (known, size - 1 - known):
                if self.proves(goal, assumed):
                    continue
                reach = self.reach(place, goal)
                side = "below" if goal is known else "beyond"
                message = f"{buffer} at {index} may lie {side} its {size} elements"
                if reach is None:
                    raise OutOfBounds(f"in kernel {self.kernel.name}: {message}")
                self.unproven.append(Unproven(self.kernel.name, message, reach))

    def reach(self, place: Place, goal: Index) -> Reach | None:
        """The kind of an access that is not proven, if it is one of those."""
        if self.steps_of_choice(goal) > 1:
            return Reach.CHOICES
        is_flat = isinstance(place, Offset)
        return Reach.QUOTIENTS if is_flat and _has_such_quotients(goal) else None

    def steps_of_choice(self, value: Index) -> int:
        """How many choices one after another the number is made by."""
        return max((self.steps.get(symbol, 0) for symbol in value.symbols), default=0)

    def choices_behind(self, value: Index) -> set[Symbol]:
        """The choices that the number is made by, and those that these choose among."""
        found: set[Symbol] = set()
        todo = [value]
        while todo:
            new = {s for s in todo.pop().symbols if s in self.choices} - found
            found |= new
            todo += [chosen for symbol in new for _, chosen in self.choices[symbol]]
        return found

    def proves(self, goal: Index, assumed: list[Cases], depth: int = CHOSEN) -> bool:
        """Whether the goal is not negative, in each case of the choices that it depends on."""
        if is_proven(goal):
            return True
        if self.steps_of_choice(goal) > 1 and len(self.choices_behind(goal)) > depth:
            depth = 0  # they cannot all be gone through, which would be found in the last case only
        choice = next((s for s in self.signed(goal, assumed) if s in self.choices), None) if depth else None
        if choice is None:
            ranges = tuple(fact for s in self.signed(goal, assumed) for fact in self.ranges.get(s, ()))
            return is_proven(goal, [*assumed, (ranges,)] if ranges else assumed)
        for facts, value in self.choices[choice]:
            known = {choice: value}
            put = [tuple(tuple(f.substitute(known) for f in case) for case in cases) for cases in assumed]
            if not self.proves(goal.substitute(known), [*put, (facts,)], depth - 1):
                return False
        return True

    def signed(self, goal: Index, assumed: list[Cases]) -> list[Symbol]:
        """The numbers from memory that the goal depends on, and those that they are compared with."""
        found = dict.fromkeys(sorted((s for s in goal.symbols if s.signed), key=lambda s: s.name))
        for cases in assumed:
            symbols = {s for case in cases for fact in case for s in fact.symbols if s.signed}
            if symbols & found.keys():
                found |= dict.fromkeys(sorted(symbols, key=lambda s: s.name))
        return list(found)

    def resolved(self, index: Index) -> Index:
        known = {s: self.numbers[s.name] for s in index.symbols if s.signed and s.name in self.numbers}
        return index.substitute(known)

    # ---- values ------------------------------------------------------------------------------------------------------

    def let(self, name: str, dtype: DType, value: object) -> None:
        if dtype is BOOL:
            self.truths[name] = self.comparison(value)
        elif dtype.is_float:
            self.reals.let(name, dtype, value)
        elif dtype.is_integer:
            number = self.integer(name, dtype, value)
            if number is not None:
                self.numbers[name] = number
            else:
                self.bounded(name, dtype, self.interval(value))

    def interval(self, value: object) -> tuple[int, int] | None:
        """Integers between which a value lies that is no expression."""
        match value:
            case Load(buffer, condition=condition) if buffer in self.held:
                low, high = self.held[buffer]
                return (min(low, 0), max(high, 0)) if condition is not None else (low, high)
            case Cast(arg):
                return self.reals.integers(arg)
        return None

    def bounded(self, name: str, dtype: DType, interval: tuple[int, int] | None = None) -> None:
        """What is known of a number is the interval, or what its element type can hold."""
        symbol = Symbol(name, signed=True)
        self.numbers[name] = this = Index.of(symbol)
        if interval is None and dtype.size < 8:
            low = -(1 << (dtype.bits - 1)) if dtype.kind == "int" else 0
            interval = low, low + (1 << dtype.bits) - 1
        if interval is not None:
            self.ranges[symbol] = (this - interval[0], interval[1] - this)

    def chosen(self, name: str, cases: Sequence[tuple[Facts, Index]]) -> Index:
        """A number that is another one in each case."""
        values = {value for _, value in cases}
        if len(values) == 1:
            return values.pop()
        symbol = Symbol(name, signed=True)
        self.steps[symbol] = 1 + max(map(self.steps_of_choice, values), default=CHOSEN)
        if cases and len(cases) <= MANY:
            self.choices[symbol] = tuple(cases)
        return Index.of(symbol)

    def number(self, operand: Operand) -> Index | None:
        if isinstance(operand, str):
            return self.numbers.get(operand)
        return Index.of(int(operand)) if isinstance(operand, int) else None

    def integer(self, name: str, dtype: DType, value: object) -> Index | None:
        match value:
            case Constant(int(literal)):
                return Index.of(int(literal))
            case IndexValue(index):
                return self.resolved(index)
            case Cast(arg):
                source = self.dtypes[arg]
                if source is BOOL:
                    truth = self.truth(arg)
                    ones, zeros = (
                        [(case, n) for case in cases] for cases, n in ((truth.holds, ONE), (truth.fails, ZERO))
                    )
                    return self.chosen(name, [*ones, *zeros])
                if source.is_integer and (dtype is I64 or dtype.digits >= source.digits and source.kind == "uint"):
                    return self.numbers.get(arg)
            case Apply("where", (condition, a, b)):
                first, second = self.number(a), self.number(b)
                if first is not None and second is not None:
                    truth = self.truth(condition)
                    yes, no = [(case, first) for case in truth.holds], [(case, second) for case in truth.fails]
                    return self.chosen(name, [*yes, *no])
            case Apply("minimum" | "maximum" as op, (a, b)):
                first, second = self.number(a), self.number(b)
                if first is not None and second is not None:
                    return least(first, second) if op == "minimum" else greatest(first, second)
            case Apply(op, (a, b)) if dtype is I64:
                first, second = self.number(a), self.number(b)
                if first is not None and second is not None:
                    return _arithmetic(op, first, second)
            case Apply("neg", (a,)) if dtype is I64:
                first = self.number(a)
                return -first if first is not None else None
        return None

    def total(self, name: str, dtype: DType, op: str, args: tuple[Operand, ...]) -> None:
        """The position that a reduction keeps is one of those that it was given."""
        if dtype is BOOL:
            self.truths[name] = UNKNOWN
        elif dtype.is_integer:
            self.bounded(name, dtype)
            place = self.number(args[-1]) if op in ("argmax", "argmin") else None
            symbol = Symbol(name, signed=True)
            if place is not None and not any(s.signed for s in place.symbols):
                low, high = bounds(place)
                if low is not None and high is not None:
                    self.ranges[symbol] = (Index.of(symbol) - low, high - Index.of(symbol))

    def truth(self, operand: Operand) -> Truth:
        if isinstance(operand, str):
            return self.truths.get(operand, UNKNOWN)
        return Truth(ALWAYS, NEVER) if operand else Truth(NEVER, ALWAYS)

    def comparison(self, value: object) -> Truth:
        match value:
            case Constant(literal):
                return self.truth(bool(literal))
            case Apply("and", (a, b)):
                return self.truth(a) & self.truth(b)
            case Apply("or", (a, b)):
                return self.truth(a) | self.truth(b)
            case Apply("not", (a,)):
                return ~self.truth(a)
            case Apply("lt" | "le" | "gt" | "ge" | "eq" | "ne" as op, (a, b)):
                first, second = self.number(a), self.number(b)
                if first is not None and second is not None:
                    return _compared(op, first, second)
        return UNKNOWN


def _has_such_quotients(index: Index) -> bool:
    return any(call.b.constant is None or any(_quotients(call.a)) for call in _quotients(index))


def _quotients(index: Index) -> Iterator[Call]:
    """Quotients and remainders."""
    found = (atom for monomial, _ in index.terms for atom in monomial if isinstance(atom, Call))
    return (call for call in found if call.op in ("//", "%"))


def _arithmetic(op: str, a: Index, b: Index) -> Index | None:
    match op:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "floor_div" if (b.constant or 0) > 0:
            return a // b
        case "remainder" if (b.constant or 0) > 0:
            return a % b
        case "shr" if 0 <= (b.constant or 0) < 63:
            return a // (1 << (b.constant or 0))
    return None


def _compared(op: str, a: Index, b: Index) -> Truth:
    less, more, at_most, at_least = b - a - 1, a - b - 1, b - a, a - b
    match op:
        case "lt":
            return Truth(((less,),), ((at_least,),))
        case "le":
            return Truth(((at_most,),), ((more,),))
        case "gt":
            return Truth(((more,),), ((at_most,),))
        case "ge":
            return Truth(((at_least,),), ((less,),))
        case "eq":
            return Truth(((at_most, at_least),), ((less,), (more,)))
    return ~_compared("eq", a, b)
