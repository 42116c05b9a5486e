"""The table of the instruction set: one row for each instruction of normal form, declared beside what it does.

    @opcode("BUILD_SLICE number: bound*number -- slice")
    def build_slice(machine, frame, instr): ...

    operation("GET_LEN: subject -- subject length", lambda machine, _, subject: machine.length(subject))

The row is all that is known of an instruction: how it is read and written, its effect on the stack and on the fast
locals, its handler. To the left of the colon stands its argument: nothing, the kind of it (ARGUMENTS has the spelling
of a kind), or several words for a tuple. To the right stand the slots that it takes from the stack and those that it
gives, bottom to top. `slot*word` are as many slots as that word of the argument says, `slot*word-1` one less. A slot
that is taken and given by one name holds the same value. Some names say more:

    any other       are only moved: nobody looks at them; nor at those that are `between`
    slot            likewise, and may be NULL or a cell
    NULL            an empty slot
    callable self   a callable pair: if one of them is NULL the other is the callable, else (method, self). Which of
                    the two is NULL is the running version's choice: NULL_FIRST
    previous        the exception that was handled before the one that is handled now
    bool            a bool and nothing else
    ...             whatever lies below is looked at too
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from os.path import commonprefix
from typing import Any, Literal

from onegraph.base.dataclass import dataclass
from onegraph.capture.bytecode.frame import Frame
from onegraph.capture.bytecode.instruction import Instr
from onegraph.capture.bytecode.rows import ARGUMENTS, Reader, WriteRow

#: Signals of a handler: the frame's `result` is returned, is yielded; a generator is made.
RETURN, YIELD, GENERATOR = -1, -2, -3

#: Gets the machine (see `interp.machine`), the frame and the instruction. It gives the index of the next instruction,
#: None for the one that follows, or a signal.
Handler = Callable[[Any, Frame, Instr], int | None]

Mark = Literal[
    "ends",  # the instruction that follows is not come to
    "reads",  # the fast local
    "binds",
    "unbinds",
    "stays",  # cannot be run outside of its frame
    "globals",  # means the globals of its frame
    "silent",  # raises nothing
]

#: What lies in the slots of these names; a value in those of others.
KINDS = {"NULL": "null", "previous": "handled", "slot": "unknown", "callable": "unknown", "self": "unknown"}
_MOVED = frozenset({"any", "other", "between", "slot", "previous"})


@dataclass(frozen=True, slots=True)
class Repeated:
    """Slots of one name: as many as the word of the argument with this index says, and `more`."""

    name: str
    word: int
    more: int


Slots = tuple[str | Repeated, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Opcode:
    """A row of the table. `jumping` is what it gives when it jumps; `varies` if its argument says how many slots."""

    name: str
    argument: tuple[str, ...]
    takes: Slots
    gives: Slots
    jumping: Slots
    varies: bool
    looks_below: bool
    marks: frozenset[Mark]
    handler: Handler
    read: Reader | None
    write: WriteRow | None
    text: str

    def __str__(self) -> str:
        marks = f"    ({', '.join(sorted(self.marks))})" if self.marks else ""
        return self.text + marks

    def slots(self, arg: Any, jump: bool = False) -> tuple[Sequence[str], Sequence[str]]:
        """The names of what an instruction with this argument takes and gives, one for each slot."""
        takes, gives = self.takes, self.jumping if jump else self.gives
        if not self.varies:
            return takes, gives  # type: ignore[return-value]
        words = arg if len(self.argument) > 1 else (arg,)
        return _spread(takes, words), _spread(gives, words)

    def replaced(self, arg: Any) -> tuple[Sequence[str], Sequence[str]]:
        """The same without those that stay where they are."""
        takes, gives = self.slots(arg)
        kept = len(commonprefix([list(takes), list(gives)]))
        return takes[kept:], gives[kept:]

    @property
    def writes(self) -> bool:
        """Whether it binds or unbinds a fast local."""
        return "binds" in self.marks or "unbinds" in self.marks

    @property
    def gives_bool(self) -> bool:
        """Whether the top of the stack is a bool behind it."""
        return self.gives[-1:] == ("bool",)

    def looks_at(self, arg: Any) -> int | None:
        """At how many values from the top down it looks; None for the whole stack."""
        if self.looks_below:
            return None
        moves = all((each if isinstance(each, str) else each.name) in _MOVED for each in self.takes)
        return 0 if moves else len(self.slots(arg)[0])


OPCODES: dict[str, Opcode] = {}


def opcode(
    text: str,
    *marks: Mark,
    jumping: str | None = None,
    read: Reader | None = None,
    write: WriteRow | None = None,
) -> Callable[[Handler], Handler]:
    """Declare an instruction, which has no row yet. Its handler is decorated.

    Args:
        text: Name, argument, slots taken and given, as the module describes it.
        marks: What else is known of it.
        jumping: The slots given when it jumps, if they are others.
        read, write: Its native form where it is shared by versions, but not that of its kind of argument.
    """
    head, _, effect = text.partition(":")
    name, *argument = head.split()
    takes, gives = (_slots(side, argument) for side in effect.split("--"))
    other = gives if jumping is None else _slots(jumping, argument)
    reading, writing = ARGUMENTS.get(" ".join(argument), (None, None))

    def register(handler: Handler) -> Handler:
        known = OPCODES.get(name)  # by an import of the same module that was interrupted
        same = known is None or known.handler.__module__ == handler.__module__ and known.text == text
        assert same, f"{name} is declared twice"
        OPCODES[name] = Opcode(
            name, tuple(argument), takes, gives, other, "*" in effect, "..." in effect, frozenset(marks), handler,
            read or (reading and reading(name)), write or writing, text,
        )  # fmt: skip
        return handler

    return register


def operation(
    text: str,
    function: Callable[..., Any],
    *marks: Mark,
    read: Reader | None = None,
    write: WriteRow | None = None,
) -> None:
    """Declare an instruction that only operates on values, which are on the stack until it is done.

    Args:
        text, marks, read, write: As for `opcode`.
        function: Gets the machine, the argument, and the values that are taken, bottom to top. It gives the value that
            comes behind those that stay, or a sequence of several.
    """
    takes, gives = (side.split() for side in text.partition(":")[2].split("--"))
    count, kept = len(takes), len(commonprefix([list(takes), list(gives)]))
    gives_one = len(gives) == kept + 1 and "*" not in gives[-1]

    def handler(machine: Any, frame: Frame, instr: Instr) -> None:
        stack = frame.stack
        base = len(stack) - count
        result = function(machine, instr.arg, *stack[base:])
        stack[base + kept :] = (result,) if gives_one else result if len(gives) > kept else ()

    def unary(machine: Any, frame: Frame, instr: Instr) -> None:
        frame.stack[-1] = function(machine, instr.arg, frame.stack[-1])

    def binary(machine: Any, frame: Frame, instr: Instr) -> None:
        stack = frame.stack
        result = function(machine, instr.arg, stack[-2], stack[-1])
        stack.pop()
        stack[-1] = result

    quick = {1: unary, 2: binary}.get(count) if gives_one and not kept else None
    opcode(text, *marks, read=read, write=write)(quick or handler)


def _slots(text: str, argument: list[str]) -> Slots:
    found = re.findall(r"(\w+)(?:\*(\w+)(-\d+)?)?", text)
    return tuple(Repeated(name, argument.index(word), int(more or 0)) if word else name for name, word, more in found)


def _spread(slots: Slots, words: Any) -> list[str]:
    names: list[str] = []
    for each in slots:
        if isinstance(each, str):
            names.append(each)
        else:
            names += [f"{each.name}{index}" for index in range(words[each.word] + each.more)]
    return names
