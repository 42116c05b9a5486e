"""Guards: what a compiled frame assumes of the world.

A guard is a fact about the value at a source, with the user's line that made the trace depend on it. What a kind of
guard is stands in one class: how it is written, how it is checked, how its failure is told. What assembles guards into
a program is `onegraph.capture.guards.program`; the instructions of it are declared in `csrc/guard_ops.def`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from itertools import compress
from types import FunctionType
from typing import Any, Protocol

import torch

from onegraph import _C
from onegraph.base.dataclass import dataclass
from onegraph.base.events import Location
from onegraph.capture.guards.predicates import Predicate
from onegraph.capture.guards.source import Const, Globals, Source, written
from onegraph.capture.guards.texts import shown, tensor_differences, tensor_text, type_text
from onegraph.capture.pyobject.exact_types import isinstance, mro_of
from onegraph.capture.pyobject.value_text import short
from onegraph.capture.pyobject.weakly_known import WRAPPERS, Known, Named, parts_of, passes_away

#: How many values a text names of those that another one is not.
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Guard:
    """One fact: what the class of its `kind` (in KINDS) says of the value at `source` and of `arg`."""

    source: Source
    kind: str
    arg: Any
    location: Location | None = field(default=None, compare=False)

    @property
    def rule(self) -> GuardKind:
        return KINDS[self.kind]

    def __str__(self) -> str:
        """The guard as the condition that a person would write."""
        return self.rule.text(self, written(self.source))


class Program(Protocol):
    """What a kind asks of the assembler. A register is the number of one."""

    known: dict[int, Known]

    def emit(self, why: Any, *instruction: Any) -> None: ...
    def const(self, value: Any) -> int: ...
    def new_register(self) -> int: ...
    def load(self, source: Source, why: Any) -> int: ...
    def together(self, sources: Sequence[Any], why: Any) -> int: ...
    def referent(self, known: Known, why: Any) -> int: ...


class GuardKind:
    """A kind of guard: an argument of one instruction, unless the class says otherwise.

    `several`: one value may have several of them, with different arguments; `relates`: it says how values stand to each
    other, and is checked when all of them are loaded.
    """

    opcode: str
    several = False
    relates = False

    def text(self, guard: Guard, what: str) -> str:
        """The condition on a value that is written as `what`."""
        raise NotImplementedError

    def check(self, program: Program, guard: Guard, register: int) -> None:
        """Emit what checks the value in a register."""
        program.emit(guard, self.opcode, register, program.const(guard.arg))

    def difference(self, guard: Guard, what: str, value: Any) -> str | None:
        """What the guard wants and what a call has in its place; None where the condition says it all."""
        return None

    def known(self, guard: Guard) -> Iterator[Known]:
        """What the guard compares with and must not keep alive."""
        return iter(())

    def explanation(self, guard: Guard) -> Guard:
        """The guard for messages, without what it must not keep alive."""
        return guard


def check_identity(program: Program, guard: Guard, register: int, value: Any) -> None:
    """Emit what compares the value in a register with an object, which is held weakly if it passes away."""
    if id(value) in program.known:
        program.emit(guard, "SAME", register, program.referent(program.known[id(value)], guard))
    else:
        program.emit(guard, "IS", register, program.const(value))


class OfType(GuardKind):
    opcode = "TYPE_IS"

    def text(self, guard: Guard, what: str) -> str:
        return f"type({what}) is {type_text(guard.arg)}"

    def check(self, program: Program, guard: Guard, register: int) -> None:
        if id(guard.arg) not in program.known:
            return super().check(program, guard, register)
        kind = program.new_register()
        program.emit(guard, "TYPE", kind, register)
        check_identity(program, guard, kind, guard.arg)

    def difference(self, guard: Guard, what: str, value: Any) -> str | None:
        return f"`type({what})` was {type_text(guard.arg)}, is {type_text(type(value))}"

    def known(self, guard: Guard) -> Iterator[Known]:
        return known_with_bases(guard.arg)

    def explanation(self, guard: Guard) -> Guard:
        return replace(guard, arg=Named(type_text(guard.arg))) if passes_away(guard.arg) else guard


class Is(GuardKind):
    """Identity. A wrapper of functions, which cannot be known weakly, has the same functions."""

    def text(self, guard: Guard, what: str) -> str:
        return f"{what} is {short(guard.arg)}"

    def check(self, program: Program, guard: Guard, register: int) -> None:
        if type(guard.arg) not in WRAPPERS or not passes_away(guard.arg):
            check_identity(program, guard, register, guard.arg)
            return
        program.emit(guard, "TYPE_IS", register, program.const(type(guard.arg)))
        for name, part in zip(WRAPPERS[type(guard.arg)], parts_of(guard.arg), strict=True):
            held = program.new_register()
            program.emit(guard, "ATTR", held, register, program.const(name))
            check_identity(program, guard, held, part)

    def difference(self, guard: Guard, what: str, value: Any) -> str | None:
        return f"`{what}` was {shown(guard.arg)}, is {shown(value)}"

    def known(self, guard: Guard) -> Iterator[Known]:
        if type(guard.arg) not in WRAPPERS:
            return known_with_bases(guard.arg)
        parts = parts_of(guard.arg) if passes_away(guard.arg) else ()
        return (Known(part) for part in parts if part is not None)

    def explanation(self, guard: Guard) -> Guard:
        if not passes_away(guard.arg):
            return guard
        named = isinstance(guard.arg, type | FunctionType)
        return replace(guard, arg=Named(short(guard.arg) if named else f"that {type(guard.arg).__name__}"))


class Equal(GuardKind):
    opcode = "EQ"

    def text(self, guard: Guard, what: str) -> str:
        return f"{what} == {short(guard.arg)}"

    def difference(self, guard: Guard, what: str, value: Any) -> str | None:
        return f"`{what}` was {shown(guard.arg)}, is {shown(value)}"


class Length(GuardKind):
    opcode = "LEN"

    def text(self, guard: Guard, what: str) -> str:
        return f"len({what}) == {guard.arg}"

    def check(self, program: Program, guard: Guard, register: int) -> None:
        program.emit(guard, self.opcode, register, guard.arg)

    def difference(self, guard: Guard, what: str, value: Any) -> str | None:
        return f"`len({what})` was {guard.arg}, is {len(value)}"


class Keys(GuardKind):
    """A dict has exactly these keys, in this order."""

    opcode = "KEYS"

    def text(self, guard: Guard, what: str) -> str:
        return f"list({what}) == {short(list(guard.arg))}"

    def difference(self, guard: Guard, what: str, value: Any) -> str | None:
        return f"`list({what})` was {short(list(guard.arg))}, is {short(list(value))}"


class Has(GuardKind):
    """A dict or set contains the argument, or does not."""

    several = True

    def __init__(self, opcode: str) -> None:
        self.opcode = opcode

    def text(self, guard: Guard, what: str) -> str:
        has = self.opcode == "HAS"
        if isinstance(guard.source, Globals):
            return f"{guard.arg} is {'a' if has else 'no'} global of {guard.source.module}"
        return f"{short(guard.arg)} {'in' if has else 'not in'} {what}"

    def check(self, program: Program, guard: Guard, register: int) -> None:
        if type(guard.arg) is Known:
            program.emit(guard, f"{self.opcode}_AT", register, program.referent(guard.arg, guard))
        else:
            super().check(program, guard, register)


class LacksAttr(GuardKind):
    opcode = "LACKS_ATTR"
    several = True

    def text(self, guard: Guard, what: str) -> str:
        return f"not hasattr({what}, {guard.arg!r})"


class OfTensor(GuardKind):
    opcode = "TENSOR"

    def text(self, guard: Guard, what: str) -> str:
        return f"{what} is {tensor_text(guard.arg)}"

    def difference(self, guard: Guard, what: str, value: Any) -> str | None:
        if isinstance(value, torch.Tensor):
            return f"`{what}` {tensor_differences(guard.arg, value)[0]}"
        return f"`{what}` was a tensor, is {shown(value)}"


class Same(GuardKind):
    """The value at another source, `arg`, is the same object."""

    opcode = "SAME"
    several = relates = True

    def text(self, guard: Guard, what: str) -> str:
        return f"{what} is {written(guard.arg)}"

    def check(self, program: Program, guard: Guard, register: int) -> None:
        program.emit(guard, self.opcode, register, program.load(guard.arg, guard))


class Different(GuardKind):
    """The value is none of those at other sources."""

    opcode = "DIFFERENT"
    several = relates = True

    def text(self, guard: Guard, what: str) -> str:
        others = guard.arg
        if len(others) == 1:
            return f"{what} is not {written(others[0])}"
        some = ", ".join(map(written, others[:SHOWN]))
        return f"{what} is none of {some}{f' and {len(others) - SHOWN} others' if len(others) > SHOWN else ''}"

    def check(self, program: Program, guard: Guard, register: int) -> None:
        others = array("H", [program.load(other, guard) for other in guard.arg])
        program.emit(guard, self.opcode, register, program.const(others.tobytes()))


class Check(GuardKind):
    """A callable of one value, such as a predicate, gives True."""

    opcode = "CHECK"
    several = True

    def text(self, guard: Guard, what: str) -> str:
        arg = guard.arg
        return arg.text(what) if isinstance(arg, Predicate) else f"{what} satisfies {getattr(arg, '__name__', arg)}"

    def check(self, program: Program, guard: Guard, register: int) -> None:
        program.emit(guard, self.opcode, program.const(guard.arg), register)


class Together(GuardKind):
    """`arg` is other sources, and a predicate of all the values as nested pairs."""

    opcode = "CHECK"
    several = relates = True

    def text(self, guard: Guard, what: str) -> str:
        predicate: Predicate
        others, predicate = guard.arg
        return predicate.text(what, *map(written, others))

    def check(self, program: Program, guard: Guard, register: int) -> None:
        others, predicate = guard.arg
        program.emit(guard, self.opcode, program.const(predicate), program.together([register, *others], guard))


class InMemory(GuardKind):
    """`arg` is other sources, and how all the tensors lie to each other."""

    opcode = "MEMORY"
    relates = True

    def text(self, guard: Guard, what: str) -> str:
        others, memory = guard.arg
        names = [what, *map(written, others)]
        written_to = " and ".join(compress(names, memory.written))
        meetings = ", ".join(f"{names[a]} with {names[b]}" for a, b in memory.meetings)
        return f"{written_to} in memory: {f'{meetings}, as before' if meetings else 'apart from other inputs'}"

    def check(self, program: Program, guard: Guard, register: int) -> None:
        others, memory = guard.arg
        registers = [register, *(program.load(other, guard) for other in others)]
        program.emit(guard, self.opcode, program.const((memory, *registers)))


class OfFact(GuardKind):
    """A callable of the value gives True, which is asked again only where a class or namespace has a new version."""

    opcode = "FACT"

    def check(self, program: Program, guard: Guard, register: int) -> None:
        program.emit(guard, self.opcode, register, program.const(_C.Fact(guard.arg)))


class OfClass(OfFact):
    """A class is as its `heap.class_facts.AsDefined` says."""

    def text(self, guard: Guard, what: str) -> str:
        return f"the class {what} is as it was"

    def difference(self, guard: Guard, what: str, value: Any) -> str | None:
        changed = isinstance(value, type)
        return f"the class `{what}` has changed: {guard.arg.difference(value)}" if changed else None

    def known(self, guard: Guard) -> Iterator[Known]:
        held = guard.source.held if isinstance(guard.source, Const) else None
        return iter((held,) if type(held) is Known else ())


class OfNames(OfFact):
    """The names of a module are as its `heap.namespaces.AsBound` says."""

    def text(self, guard: Guard, what: str) -> str:
        return str(guard.arg)


#: In the order of their cost: a value's own checks run in this order, before anything is loaded through it.
KINDS: dict[str, GuardKind] = {
    "type": OfType(),
    "is": Is(),
    "equal": Equal(),
    "length": Length(),
    "keys": Keys(),
    "has": Has("HAS"),
    "lacks": Has("LACKS"),
    "lacks_attr": LacksAttr(),
    "tensor": OfTensor(),
    "same": Same(),
    "different": Different(),
    "check": Check(),
    "together": Together(),
    "memory": InMemory(),
    "class": OfClass(),
    "names": OfNames(),
}


def known_with_bases(value: Any) -> Iterator[Known]:
    """An object that must not be kept alive. (Of a class, also the bases, which live as long as it does.)"""
    if passes_away(value):
        bases = mro_of(value)[1:] if isinstance(value, type) else ()
        yield from map(Known, (value, *filter(passes_away, bases)))


class GuardSet:
    """The guards of one trace, in the order in which they were found, without repetition."""

    def __init__(self) -> None:
        self._guards: dict[object, Guard] = {}

    @classmethod
    def of(cls, guards: Iterable[Guard]) -> GuardSet:
        """These, which are known not to repeat each other, and to which none is added."""
        found = cls()
        found._guards = dict(enumerate(guards))
        return found

    def add(self, guard: Guard) -> None:
        key = (guard.source, guard.kind, guard.arg if guard.rule.several else None)
        self._guards.setdefault(key, guard)

    def only(self, kept: set[int]) -> GuardSet:
        """Those of these identities."""
        found = GuardSet()
        found._guards = {key: guard for key, guard in self._guards.items() if id(guard) in kept}
        return found

    def __iter__(self) -> Iterator[Guard]:
        return iter(self._guards.values())

    def __len__(self) -> int:
        return len(self._guards)


@dataclass(frozen=True, slots=True)
class ShapeCondition:
    """A condition over integers, as postfix steps for the integer registers: see `onegraph.capture.symbolic.shapes`."""

    steps: tuple[tuple[Any, ...], ...]
    text: str
    location: Location | None = None
