"""Exceptions as the interpreted program sees them: raising, chaining, matching."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, NoReturn

from onegraph.capture.bytecode.frame import Frame
from onegraph.capture.interp.parts import Part
from onegraph.capture.interp.tracebacks import note_frame
from onegraph.capture.pyobject.exact_types import isinstance, mro_of
from onegraph.capture.pyobject.native_members import CAUSE_OF, CONTEXT_OF, TRACEBACK_OF


class Errors(Part):
    """The part of the machine that raises and matches exceptions.

    An exception that leaves an instruction is chained to the one being handled, as CPython does where it is raised.
    Each exception is chained once, in the innermost frame; what is raised again keeps its context.
    """

    def __init__(self) -> None:
        # An exception that an instruction raises on purpose, its context, and whether it was raised here before.
        self._raising: tuple[BaseException, BaseException | None, bool] | None = None

    def handled_exception(self) -> BaseException | None:
        """What the interpreted program is handling: sys.exception()."""
        handled = self._handled_here()
        return self.handled_outside() if handled is None else handled

    def handled_outside(self) -> BaseException | None:
        """What is being handled around the interpreted program."""
        return sys.exception()

    def traceback_of(self, exception: BaseException) -> TracebackType | None:
        """The traceback of an exception that the program looks at."""
        return TRACEBACK_OF(exception)

    def raise_exception(self, *operands: Any) -> NoReturn:
        """The statement `raise`, with nothing, an exception, or an exception and its cause."""
        if not operands:
            handled = self.handled_exception()
            if handled is None:
                raise RuntimeError("No active exception to reraise")
            self.raise_again(handled)
        exception = self._instance(operands[0], "exceptions must derive from BaseException")
        if len(operands) == 2:
            cause = operands[1]
            if cause is not None:
                cause = self._instance(cause, "exception causes must derive from BaseException")
            CAUSE_OF.set(exception, cause)
        chain(exception, self._context())
        self._raising = exception, CONTEXT_OF(exception), False
        raise exception

    def raise_again(self, exception: BaseException) -> NoReturn:
        """Raise without touching the context and the traceback."""
        self._raising = exception, CONTEXT_OF(exception), True
        raise exception

    def throw_into(self, frame: Frame, exception: BaseException) -> BaseException:
        """Prepare an exception that is raised where a generator is suspended."""
        if frame.handled is not None:
            chain(exception, frame.handled)
        self._raising = exception, CONTEXT_OF(exception), False
        return exception

    def _handled_here(self) -> BaseException | None:
        """What interpreted frames are handling. CPython itself has chained to what is handled outside of them."""
        for frame in reversed(self.frames):
            if frame.handled is not None:
                return frame.handled
        return None

    def _context(self, raised: BaseException | None = None) -> BaseException | None:
        """What an exception of the program, which native code has `raised`, is to be chained to."""
        return self._handled_here()

    def _instance(self, value: Any, refusal: str) -> BaseException:
        if issubclass(type(value), type) and BaseException in mro_of(value):
            made: BaseException = self.call(value, (), {})
            if BaseException not in mro_of(type(made)):
                raise TypeError(f"calling {value} should have returned an instance of BaseException, not {type(made)}")
            return made
        if BaseException not in mro_of(type(value)):
            raise TypeError(refusal)
        raised: BaseException = value
        return raised

    def on_raise(self, frame: Frame, raised: BaseException) -> None:
        """An exception has left the frame's instruction: give it its context and its traceback."""
        raising, self._raising = self._raising, None
        if raising is not None and raising[0] is raised:
            CONTEXT_OF.set(raised, raising[1])
            note_frame(raised, frame, again=raising[2])
        elif not note_frame(raised, frame, again=False):
            handled = self._context(raised)
            if handled is not None:
                chain_last(raised, handled)

    def exception_matches(self, exception: Any, kinds: Any) -> bool:
        """The condition of `except kinds`."""
        classes = kinds if isinstance(kinds, tuple) else (kinds,)
        for cls in classes:
            if not (issubclass(type(cls), type) and BaseException in mro_of(cls)):
                raise TypeError("catching classes that do not inherit from BaseException is not allowed")
        return any(cls in mro_of(type(exception)) for cls in classes)

    def match_group(self, exception: Any, kinds: Any) -> tuple[Any, Any]:
        """The condition of `except* kinds`: (what remains or None, what matches or None)."""
        matches = self.exception_matches(exception, kinds)
        if any(issubclass(cls, BaseExceptionGroup) for cls in (kinds if isinstance(kinds, tuple) else (kinds,))):
            raise TypeError("catching ExceptionGroup with except* is not allowed. Use except instead.")
        if exception is None:
            return None, None
        if matches:
            if not isinstance(exception, BaseExceptionGroup):
                exception = BaseExceptionGroup("", (exception,))
            return None, exception
        if isinstance(exception, BaseExceptionGroup):
            match, rest = self.call(self.getattr(exception, "split"), (kinds,), {})
            return rest, match
        return exception, None


def chain(exception: BaseException, handled: BaseException | None) -> None:
    """Make `handled` the context of `exception`, without a cycle."""
    if handled is None or handled is exception:
        return
    link = handled
    seen = {id(link)}
    while (context := CONTEXT_OF(link)) is not None and id(context) not in seen:
        if context is exception:
            CONTEXT_OF.set(link, None)
            break
        link = context
        seen.add(id(link))
    CONTEXT_OF.set(exception, handled)


def chain_last(exception: BaseException, handled: BaseException) -> None:
    """Put `handled` at the end of the chain that native code has given the exception."""
    known = set()
    link: BaseException | None = handled
    while link is not None and id(link) not in known:
        known.add(id(link))
        link = CONTEXT_OF(link)
    if id(exception) in known:
        chain(exception, handled)
        return
    last = exception
    while CONTEXT_OF(last) is not None and id(CONTEXT_OF(last)) not in known:
        known.add(id(last))
        last = CONTEXT_OF(last)
    CONTEXT_OF.set(last, handled)
