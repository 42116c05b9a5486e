"""When regions may compile: the stance of the process, and functions that are frozen."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

import torch

from onegraph import _C
from onegraph.base.arguments import check_callable, check_stance
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import FailOnRecompileError, InvalidArgument, OnegraphError
from onegraph.base.late import late_module
from onegraph.capture.directives import function_marks as marks
from onegraph.capture.directives.hatches import ModuleWithCall, module_with_call
from onegraph.capture.pyobject.exact_types import isinstance

if TYPE_CHECKING:
    from onegraph.capture.calls.tracing import Tracing
    from onegraph.capture.directives import handlers as policy
    from onegraph.capture.interp.rests import Rest
else:
    policy = late_module("onegraph.capture.directives.handlers")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Stance:
    """What the process has said."""

    name: str = "default"


class Frozen(threading.local):
    """How many frozen functions run in this thread."""

    depth = 0


STANCE = Stance()
FROZEN = Frozen()


def may_compile(foreign: str, explain: Callable[[], str]) -> bool:
    """Whether a frame that no compiled version fits may be compiled now.

    Args:
        foreign: the stance of torch's own compiler, which counts where ours says nothing.
        explain: what to say where compiling is an error.

    Raises:
        FailOnRecompileError: in the stance "fail_on_recompile".
    """
    if FROZEN.depth:
        return False
    stance = STANCE.name if STANCE.name != "default" else foreign
    if stance == "fail_on_recompile":
        raise FailOnRecompileError(f"the stance is 'fail_on_recompile', and {explain()}")
    return stance not in ("force_eager", "eager_on_recompile")


class set_stance:  # noqa: N801 - a context manager in the spelling of a function
    """What compiled functions do, in the whole process. A function, a context manager and a decorator.

    Args:
        stance: "default"; "force_eager" runs everything as it is written; "eager_on_recompile" runs what is compiled
            where it fits and everything else as it is written; "fail_on_recompile" raises `FailOnRecompileError` where
            something would have to be compiled, naming the guard that failed.
        skip_guard_eval_unsafe: refused. Guards are never skipped here; they cost less than a microsecond.
        force_backend: refused. Compile the function again with the other backend.

    Raises:
        InvalidArgument: for a stance that does not exist, or an argument that is refused.
        OnegraphError: in a compiled region. A call in compiled code is a `ForbiddenCallError`.
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        check_stance(stance)
        if skip_guard_eval_unsafe:
            raise InvalidArgument("'skip_guard_eval_unsafe' is refused: guards are never skipped, so leave it False")
        if force_backend is not None:
            raise InvalidArgument("'force_backend' is refused: compile the function again with the backend")
        self.stance = stance
        self.outer = take_stance(stance)

    def __enter__(self) -> None:
        take_stance(self.stance)

    def __exit__(self, *exception: object) -> None:
        take_stance(self.outer)

    def __call__(self, function: F) -> F:
        take_stance(self.outer)
        check_callable("set_stance", function)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return function(*args, **kwargs)

        marks.mark(wrapper, policy.forbidden)
        return wrapper  # type: ignore[return-value]


def take_stance(name: str) -> str:
    """Set the stance of the process; the one before it."""
    if _C.current_context() is not None:
        raise OnegraphError("the stance cannot be changed in a compiled region: call set_stance outside of it")
    outer, STANCE.name = STANCE.name, name
    _C.force_eager(name == "force_eager")
    return outer


for _member in (set_stance, set_stance.__enter__, set_stance.__exit__, set_stance.__call__):
    marks.mark(_member, policy.forbidden)


# ---- frozen functions ------------------------------------------------------------------------------------------------

#: function or module -> what was made of it last by `onegraph.compile`
COMPILED: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()


def remember_compiled(target: Any, compiled: Any) -> None:
    """Note what was made of a function or module, for `run`."""
    try:
        COMPILED[target] = weakref.ref(compiled)
    except TypeError:  # neither hashable nor weakly referenced
        return


def compiled_from(target: Any) -> Any:
    """What was made of a function or module last, if it still lives."""
    try:
        known = COMPILED.get(target)
    except TypeError:
        return None
    return known() if known is not None else None


class frozen:  # noqa: N801 - a context manager in the spelling of a function
    """Within, in this thread, compiled versions are used where they fit, and nothing new is compiled."""

    def __enter__(self) -> None:
        FROZEN.depth += 1

    def __exit__(self, *exception: object) -> None:
        FROZEN.depth -= 1

    def __call__(self, function: F) -> F:
        decorated: F = run(function)
        return decorated


@overload
def run(fn: F) -> F: ...
@overload
def run(fn: None = None) -> frozen: ...
def run(fn: Any = None) -> Any:
    """Freeze a function: what was compiled is used where it fits, and nothing new is compiled.

    Args:
        fn: a compiled function or module, or one from which `onegraph.compile` has made a compiled one that still
            lives. None returns a context manager, which is also a decorator.

    Returns:
        A function with the same signature; for a module, a module that shares its state.

    Raises:
        InvalidArgument: if it cannot be called.
    """
    if fn is None:
        return frozen()
    check_callable("run", fn)
    compiled = compiled_from(fn) or fn

    def call(*args: Any, **kwargs: Any) -> Any:
        with frozen():
            return compiled(*args, **kwargs)

    marks.mark(call, call_unfrozen)
    if isinstance(fn, torch.nn.Module):
        return module_with_call(fn, call, ModuleWithCall, {"onegraph_made_by": (run, (fn,))})
    return functools.update_wrapper(call, fn, updated=())


def call_unfrozen(
    tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """In compiled code, which is being compiled anyway, a frozen function is the function."""
    names = function.__code__.co_freevars
    compiled = function.__closure__[names.index("compiled")].cell_contents
    return tracer.call(compiled, args, kwargs, rest)


marks.mark(run, policy.call_natively)
