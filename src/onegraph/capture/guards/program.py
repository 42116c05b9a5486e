"""The assembly of guards into a program that C evaluates.

`assemble` shares the loads of common prefixes (each source is loaded once), checks the cheap facts of a value before
anything is read through it, and returns the program with one explanation for each instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, assert_never

from onegraph import _C
from onegraph.base.dataclass import dataclass
from onegraph.capture.guards.encode import encode
from onegraph.capture.guards.guard import KINDS, Guard, GuardSet, ShapeCondition
from onegraph.capture.guards.source import (
    Arg,
    Attr,
    CellOf,
    Const,
    DictOf,
    Drawn,
    FreeCell,
    Globals,
    Item,
    Source,
    Through,
    TypeOf,
)
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.weakly_known import Known

#: What an instruction of a guard program is for: the state of the process, a guard or a condition.
Reason = Guard | ShapeCondition | _C.GlobalState


@dataclass(frozen=True, slots=True)
class GuardProgram:
    """An assembled program with the text of what each instruction checks, and what it knows weakly."""

    native: Any
    explanations: tuple[Reason, ...]
    listing: Callable[[], str]
    known: tuple[Known, ...]

    def is_dead(self) -> bool:
        """Whether it can never hold again."""
        return any(each.is_dead() for each in self.known)

    def failing(self, function: object, values: tuple[Any, ...]) -> Reason | None:
        """The first guard that does not hold for a call, or None."""
        return self.failing_at(function, values)[1]

    def failing_at(self, function: object, values: tuple[Any, ...]) -> tuple[int, Reason | None]:
        """How many instructions pass for a call, and the guard of the one that does not, if any."""
        index = self.native.failing(function, values)
        return (len(self.explanations), None) if index < 0 else (index, self.explanations[index])


class Assembler:
    """Turns guards into instructions; `registers` maps each loaded source to its register.

    The objects in `known` (by identity) are held weakly: what a guard compares with is found where it reads.
    """

    def __init__(self, frame_globals: dict[str, Any], known: dict[int, Known]) -> None:
        self.frame_globals = frame_globals
        self.known = known
        self.referents: dict[Known, int] = {}
        self.code: list[tuple[Any, ...]] = []
        self.why: list[Reason] = []
        self.consts: list[Any] = []
        self.const_index: dict[tuple[int, type], int] = {}
        self.registers: dict[Source, int] = {}
        self.results: dict[tuple[Any, ...], int] = {}
        self.objects = 0
        self.pending: dict[Source, list[Guard]] = {}
        #: The integer register of each operation: it runs once.
        self.numbers: dict[tuple[Any, ...], int] = {}

    def const(self, value: Any) -> int:
        key = (id(value), type(value))
        if key not in self.const_index:
            self.const_index[key] = len(self.consts)
            self.consts.append(value)
        return self.const_index[key]

    def emit(self, why: Reason, *instruction: Any) -> None:
        self.code.append(instruction)
        self.why.append(why)

    def load(self, source: Source, why: Reason) -> int:
        """The register that holds the value at `source`, loading it (and its own checks first) when needed."""
        known = self.registers.get(source)
        if known is not None:
            return known
        operands = self.load_operands(source, why)
        register = self.registers[source] = self.new_register()
        self.emit(why, operands[0], register, *operands[1:])
        for guard in self.pending.pop(source, ()):
            guard.rule.check(self, guard, register)
        return register

    def new_register(self) -> int:
        self.objects += 1
        return self.objects - 1

    def load_operands(self, source: Source, why: Reason) -> tuple[Any, ...]:
        match source:  # the most frequent first
            case Item(base, Known() as key):
                return ("ITEM_AT", self.load(base, why), self.referent(key, why))
            case Item(base, key):
                return ("ITEM", self.load(base, why), self.const(key))
            case DictOf(base):
                return ("DICTOF", self.load(base, why))
            case Attr(base, name):
                return ("ATTR", self.load(base, why), self.const(name))
            case Arg(index, _):
                return ("ARG", index)
            case CellOf(FreeCell(index, _)):
                return ("FREE", index)
            case FreeCell(index, _):
                return ("FREECELL", index)
            case Globals(_, _, namespace) if namespace is self.frame_globals:
                return ("GLOBALS",)
            case Globals(_, _, namespace):
                return ("CONST", self.const(namespace))
            case Const(identity, _, _) if identity in self.known:
                return ("REFERENT", self.const(self.known[identity]))
            case Const() if type(source.held) is Known:
                return ("REFERENT", self.const(source.held))
            case Const(_, _, value):
                return ("CONST", self.const(value))
            case CellOf(base):
                return ("CELL", self.load(base, why))
            case TypeOf(base):
                return ("TYPE", self.load(base, why))
            case Through(base, function):
                register = self.load(base, why)
                return ("CALL", self.const(function), register)
            case Drawn():
                raise AssertionError("what is drawn at random cannot be guarded")
            case _:
                assert_never(source)

    def referent(self, known: Known, why: Reason) -> int:
        """The register of an object that is known weakly."""
        if known not in self.referents:
            register = self.referents[known] = self.new_register()
            self.emit(why, "REFERENT", register, self.const(known))
        return self.referents[known]

    def check(self, guard: Guard) -> None:
        guard.rule.check(self, guard, self.load(guard.source, guard))

    def together(self, sources: Sequence[Any], why: Reason) -> int:
        """The register of several values, as nested pairs; the first of them may be in a register."""
        first, *others = sources
        register = first if isinstance(first, int) else self.load(first, why)
        for other in others:
            register = self.result(why, "PAIR", register, self.load(other, why))
        return register

    def result(self, why: Reason, *operation: Any) -> int:
        """The register of what an instruction gives for these operands: it runs once."""
        if operation not in self.results:
            opcode, *operands = operation
            register = self.results[operation] = self.new_register()
            self.emit(why, opcode, register, *operands)
        return self.results[operation]

    def condition(self, condition: ShapeCondition) -> None:
        """Integer steps.

        They are ("size", source, dim), ("stride", source, dim), ("int", source), ("computed", sources, function),
        ("const", number) or (opcode,).
        """
        stack: list[int] = []

        def push(opcode: str, *operands: Any) -> None:
            operation = (opcode, *operands)
            if operation not in self.numbers:
                self.emit(condition, opcode, len(self.numbers), *operands)
                self.numbers[operation] = len(self.numbers)
            stack.append(self.numbers[operation])

        *steps, last = condition.steps
        is_equation = last == ("IEQ",)
        for step in steps if is_equation else condition.steps:
            match step:
                case ("size", source, dim):
                    push("ISIZE", self.load(source, condition), dim)
                case ("stride", source, dim):
                    push("ISTRIDE", self.load(source, condition), dim)
                case ("int", source):
                    push("IPY", self.load(source, condition))
                case ("computed", sources, function):
                    given = self.together(sources, condition)
                    push("IPY", self.result(condition, "CALL", self.const(function), given))
                case ("const", value):
                    push("ICONST", value)
                case (operator,):
                    right, left = stack.pop(), stack.pop()
                    push(operator, left, right)
                case _:
                    raise AssertionError(f"unknown step {step}")
        if is_equation:
            right, left = stack.pop(), stack.pop()
            self.emit(condition, "ISAME", left, right)
        else:
            self.emit(condition, "ICHECK", stack.pop())


def assemble(
    guards: GuardSet,
    conditions: tuple[ShapeCondition, ...],
    state: Any | None,
    frame_globals: dict[str, Any],
    facts: Sequence[Guard] = (),
) -> GuardProgram:
    """The program that checks `state` (the global state), the `facts`, all of `guards`, then the shape conditions."""
    known = known_weakly([*facts, *guards])
    assembler = Assembler(frame_globals, known)
    if state is not None:
        assembler.emit(state, "STATE", assembler.const(state))
    for guard in facts:  # before anything is loaded that would have to be kept while one of them is looked at
        assembler.check(guard)
    relations = []
    for guard in guards:
        if guard.rule.relates:
            relations.append(guard)
        else:
            assembler.pending.setdefault(guard.source, []).append(guard)
    loads = [(source, checks[0]) for source, checks in assembler.pending.items()]
    cheapest_first = {kind: place for place, kind in enumerate(KINDS)}
    for checks in assembler.pending.values():
        if len(checks) > 1:
            checks.sort(key=lambda guard: cheapest_first[guard.kind])
    for source in [source for source in assembler.pending if source in assembler.registers]:  # loaded for the facts
        for guard in assembler.pending.pop(source):
            assembler.check(guard)
    for source, guard in loads:
        assembler.load(source, guard)
    for guard in relations:
        assembler.check(guard)
    for condition in conditions:
        assembler.condition(condition)
    native = encode(assembler.code, assembler.consts)
    why = explanations(assembler.why) if known else assembler.why
    return GuardProgram(native, tuple(why), partial(listing, assembler.code, why), tuple(known.values()))


def known_weakly(guards: Sequence[Guard]) -> dict[int, Known]:
    """What the guards must not keep alive, by identity. Many compare with the same class."""
    found: dict[int, Known] = {}
    asked: set[tuple[str, int]] = set()
    for guard in guards:
        about = guard.kind, id(guard.arg)
        if about not in asked:
            asked.add(about)
            for each in guard.rule.known(guard):
                found[each.identity] = each
    return found


def explanations(why: list[Reason]) -> list[Reason]:
    """The reasons without what is known weakly; several instructions have the same one."""
    found: dict[int, Reason] = {}
    for reason in why:
        if id(reason) not in found:
            found[id(reason)] = reason.rule.explanation(reason) if isinstance(reason, Guard) else reason
    return [found[id(reason)] for reason in why]


def listing(code: list[tuple[Any, ...]], why: list[Reason]) -> str:
    """The program as text."""
    return "\n".join(map(listing_line, code, why))


def listing_line(instruction: tuple[Any, ...], why: Reason) -> str:
    text = " ".join(str(operand) for operand in instruction)
    match why:
        case ShapeCondition(_, condition, location):
            return f"{text:<24} # {condition}" + (f"  ({location})" if location else "")
        case Guard():
            return f"{text:<24} # {why}" + (f"  ({why.location})" if why.location else "")
        case _:
            return f"{text:<24} # state of the process"
