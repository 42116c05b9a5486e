"""Every exception that onegraph raises on purpose. A user's own errors pass through unchanged."""

from __future__ import annotations

from onegraph.base.events import GraphBroken, Location


class OnegraphError(Exception):
    """Base of all errors of onegraph."""


class InvalidArgument(OnegraphError, TypeError, ValueError):
    """An argument that is not accepted. The message names it and says what is accepted.

    It is a `TypeError` and a `ValueError` at once, so that callers who expect either of torch's spellings catch it.
    """


#: What is logged where a frame cannot be compiled for want of memory: that is no defect.
NO_MEMORY = "there is no memory to compile %s, which runs eagerly: %s"
#: How the error of a graph begins that was not made for such sizes: the call then runs as it was written.
UNEXPECTED = "a size that depends on data is not what the graph is made for"


class BackendError(OnegraphError):
    """A backend failed, or returned something that cannot be called. The original error is the `__cause__`."""


class CompileError(OnegraphError):
    """A stage of onegraph failed on a graph that it should have handled. The original error is the `__cause__`."""

    def __init__(self, stage: str, detail: str, location: Location | None = None) -> None:
        where = f" while compiling {location}" if location else ""
        super().__init__(f"the stage '{stage}' failed{where}: {detail}")
        self.stage = stage
        self.location = location


class InvalidAccess(BaseException):
    """Under `sanitize`: compiled code has used memory that it was not given. No `Exception`: nobody carries on."""


class RecompileLimitError(OnegraphError):
    """Under `fullgraph=True`: one more version of this code would exceed the recompile limit."""


class GraphBreakError(OnegraphError):
    """Under `fullgraph=True`: the line that keeps the program from being one graph, why, and how to fix it.

    `code` names the entry of the catalogue; `user_stack` runs from the outermost user frame to the line that broke.
    """

    def __init__(self, broken: GraphBroken) -> None:
        self.broken = broken
        self.code = broken.code
        self.reason = broken.reason
        self.explanation = broken.explanation
        self.hints = broken.hints
        self.user_stack = broken.user_stack
        super().__init__("\n".join([f"{self.reason} [{self.code}]", *(f"  {line}" for line in broken.details())]))

    def __reduce__(self) -> tuple[type[GraphBreakError], tuple[GraphBroken]]:
        return type(self), (self.broken,)


class ForbiddenCallError(GraphBreakError, AssertionError):
    """Compiled code calls a function that `forbid_in_graph` has marked. It is an `AssertionError`, as in torch."""


class ConstraintViolationError(OnegraphError):
    """A size that was marked as dynamic is a constant of the program, or outside of the bounds that were given."""


class FailOnRecompileError(OnegraphError, RuntimeError):
    """Under `set_stance("fail_on_recompile")`: no compiled version fits a call. It is a `RuntimeError`, as in torch."""


class EntryRefused(OnegraphError):
    """A graph that was read from disk does not fit its first call, of which nothing has happened. It is not used again.

    Users do not see it: the call runs as it was written.
    """


class LoadError(OnegraphError):
    """A file cannot be loaded with this program or on this machine. The message says what differs."""


class SaveError(OnegraphError):
    """A compiled function or module cannot be saved. The message says which frames, and why."""
