"""Where the code objects of a capture are found: in the code of a function, or in that which a resume function resumes.

Owner("frame", None)        the code of the frame
Owner("origin", None)       what the frame resumes, if it is that of a resume function
Owner("of", function)       the code of a function
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import CO_GENERATOR
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from onegraph.base.codec import Unkept
from onegraph.base.dataclass import dataclass
from onegraph.base.late import late_module
from onegraph.capture.resume.resumed import Shape, resumed_by

if TYPE_CHECKING:
    from onegraph.capture.bytecode import decode
    from onegraph.capture.kept.break_checks import check_shape
    from onegraph.capture.resume.generator_steps import in_steps
    from onegraph.capture.resume.resume_function import resume_code
else:  # frames without a graph break need none
    check_shape = late_module("onegraph.capture.kept.break_checks").check_shape
    decode = late_module("onegraph.capture.bytecode").decode
    in_steps = late_module("onegraph.capture.resume.generator_steps").in_steps
    resume_code = late_module("onegraph.capture.resume.resume_function").resume_code


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose code it is in which another one is a constant."""

    kind: str
    function: FunctionType | None = None


FRAME, ORIGIN = Owner("frame"), Owner("origin")


class Codes:
    """The code objects that are found from the frame of a capture, and from functions that it has entered."""

    def __init__(self, frame: CodeType) -> None:
        self.frame = frame
        self.origin = origin_of(frame)
        self._found: dict[int, tuple[CodeType, Owner, tuple[int, ...]]] = {}
        self._add(FRAME, frame)
        if self.origin is not None:
            self._add(ORIGIN, self.origin)

    def add(self, function: FunctionType) -> None:
        """Code in that of this function is found, too."""
        self._add(Owner("of", function), function.__code__)

    def all(self) -> Iterator[CodeType]:
        """Those that are found."""
        return (code for code, _, _ in self._found.values())

    def knows(self, code: CodeType) -> bool:
        return id(code) in self._found

    def find(self, code: CodeType) -> tuple[Owner, tuple[int, ...]] | None:
        """The owner of a code object, and the numbers of the constants that lead to it."""
        found = self._found.get(id(code))
        return None if found is None else found[1:]

    def resumed(self, code: CodeType) -> tuple[CodeType, Shape, bool] | None:
        """What a resume function is made of, and whether that runs in steps; None of any other code."""
        resumed = resumed_by(code)
        if resumed is None:
            return None
        original = resumed.bytecode.code
        if resumed.bytecode is decode(original):
            return original, resumed.shape, False
        for known, _, _ in self._found.values():
            if known.co_flags & CO_GENERATOR and known.co_qualname == original.co_qualname:
                stepped = in_steps(decode(known))
                if stepped is not None and stepped.bytecode is resumed.bytecode:
                    return known, resumed.shape, True
        raise Unkept(f"a resume function of code that {original.co_qualname} was made into")

    def is_resuming(self, function: FunctionType) -> bool:
        """Whether it is the resume function without free variables that there is for its code and globals."""
        return resumed_by(function.__code__) is not None and not function.__code__.co_freevars

    def code_at(self, owner: Owner, path: Sequence[int]) -> CodeType:
        """The code object that is found there.

        Raises:
            IndexError, AttributeError: there is none.
        """
        code: Any = {"frame": self.frame, "origin": self.origin}.get(owner.kind)
        if owner.function is not None:
            code = owner.function.__code__
        for number in path:
            code = code.co_consts[number]
        if not isinstance(code, CodeType):
            raise IndexError("no code is there")
        return code

    def resume_code(self, original: CodeType, shape: Shape, steps: bool) -> CodeType:
        bytecode = decode(original)
        stepped = in_steps(bytecode) if steps else None
        if stepped is not None:
            bytecode = stepped.bytecode
        check_shape(bytecode, shape)
        return resume_code(bytecode, shape)

    def _add(self, owner: Owner, code: CodeType) -> None:
        for found, path in within(code, ()):
            self._found.setdefault(id(found), (found, owner, path))


def within(code: CodeType, path: tuple[int, ...]) -> Iterator[tuple[CodeType, tuple[int, ...]]]:
    """A code object and those among its constants, with how they are found."""
    yield code, path
    for number, const in enumerate(code.co_consts):
        if isinstance(const, CodeType):
            yield from within(const, (*path, number))


def origin_of(code: CodeType) -> CodeType | None:
    """What the code of a resume function resumes in the end."""
    resumed = resumed_by(code)
    if resumed is None:
        return None
    original = resumed.bytecode.code
    return origin_of(original) or original
