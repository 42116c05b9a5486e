"""What code resumes what: asked of every frame that starts."""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from onegraph.base.dataclass import dataclass
from onegraph.capture.pyobject.exact_types import isinstance

if TYPE_CHECKING:
    from onegraph.capture.bytecode import Bytecode


@dataclass(frozen=True, slots=True)
class Jump:
    """A resume function goes on at this instruction of the frame."""

    target: int


@dataclass(frozen=True, slots=True)
class InnerCall:
    """A resume function first calls that of the frame it had called, in the place of `at`.

    It hands on `leading` arguments, the results of the breaking instruction, and `count` others. Then `finish` does
    what is left of the instruction. If it is `raising`, the call has raised the one result.
    """

    leading: int
    count: int
    at: int
    finish: Any = None
    raising: bool = False


@dataclass(frozen=True, slots=True)
class Suspended:
    """A resume generator waits at the yield at `at`, or `started` not at all, before the instruction there."""

    at: int
    started: bool


Way = Jump | InnerCall | Suspended


@dataclass(frozen=True, slots=True)
class Shape:
    """What the code of a resume function depends on, beside the bytecode that it resumes.

    Its parameters: the `receiver` (a method's first variable, where `super()` looks for it), `first` results for the
    inner call, the stack's values (the top one first if `top_first`), the handled exceptions, the live locals `names`,
    and for an inner call the values that finish the instruction, the function and the other arguments.
    """

    kinds: tuple[str, ...]
    handled: int
    names: tuple[str, ...]
    cells: tuple[str, ...]
    way: Way
    receiver: str | None
    first: int = 0
    top_first: bool = False


@dataclass(frozen=True, slots=True)
class Resumed:
    """The code of a resume function in normal form, and what it resumes: `bytecode` from index `shift` on."""

    made: Bytecode
    bytecode: Bytecode
    shift: int
    shape: Shape
    call: int  # where the inner call is, if there is one
    needed: tuple[str, ...]  # the variables of what finishes the instruction behind it

    @property
    def way(self) -> Way:
        return self.shape.way


#: The resume functions that somebody can run, by the identity of a code object that the value keeps alive.
RESUMED: dict[int, Resumed] = {}


def resumed_by(code: CodeType) -> Resumed | None:
    """What a code object resumes, if it is that of a resume function."""
    return RESUMED.get(id(code))


def places(code: CodeType, values: Sequence[Any]) -> tuple[CodeType, ...]:
    """What has versions of its own: a code object, together with the resume functions that it is to call."""
    resumed = RESUMED.get(id(code))
    if resumed is None or not isinstance(resumed.way, InnerCall):
        return (code,)
    inner = [value.__code__ for value in values if type(value) is FunctionType]
    return (code, *(each for each in inner if id(each) in RESUMED))


def same_places(some: Sequence[CodeType], others: Sequence[CodeType]) -> bool:
    """Whether what has versions here has those that were made there: the code of each is the same, or equal.

    Resume functions that are equal may be those of different breaks.
    """
    return len(some) == len(others) and all(
        a is b or a == b and a.co_filename == b.co_filename and id(a) not in RESUMED and id(b) not in RESUMED
        for a, b in zip(some, others, strict=True)
    )
