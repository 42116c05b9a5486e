"""How the calls of single functions are taken by capture: the hatches that are about a function, not about a place.

| | what capture sees | what the compiler behind it sees |
|---|---|---|
| no decorator | the Python code | its operations |
| `nonstrict_trace` | its operations | its operations |
| `allow_in_graph` | one node | its operations |
| `torch.library.custom_op` | one node | one node |
| `disallow_in_graph` | a graph break | nothing |
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType
from typing import Any, TypeVar, overload

from onegraph.base.arguments import check_callable, check_switch
from onegraph.base.errors import InvalidArgument
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.directives import function_marks as marks
from onegraph.capture.directives import handlers as policy
from onegraph.capture.directives.hatches import DESCRIPTORS, beside, within
from onegraph.capture.interp.functions import Mark, row_of
from onegraph.capture.interp.rests import Rest
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.pyobject.exact_types import isinstance

F = TypeVar("F", bound=Callable[..., Any])


def each(name: str, functions: Any, handler: Mark) -> Any:
    """Mark one function, or each of a list or tuple of them."""
    if isinstance(functions, list | tuple):
        return [each(name, function, handler) for function in functions]
    check_callable(name, functions)
    marks.say(functions, handler)
    return functions


@overload
def disallow_in_graph(fn: F) -> F: ...
@overload
def disallow_in_graph(fn: list[F] | tuple[F, ...]) -> list[F]: ...
def disallow_in_graph(fn: Any) -> Any:
    """Break the graph at calls of this function, and run it between two graphs. For operators: `torch.sub`, say.

    Args:
        fn: a function, or a list or tuple of them. (torch's takes operators only.) What was compiled before is not
            compiled again. `allow_in_graph` undoes it.

    Returns:
        The same function; a list for a list or tuple.

    Raises:
        InvalidArgument: if it cannot be called.
    """
    return each("disallow_in_graph", fn, policy.disallowed)


@overload
def allow_in_graph(fn: F) -> F: ...
@overload
def allow_in_graph(fn: list[F] | tuple[F, ...]) -> list[F]: ...
def allow_in_graph(fn: Any) -> Any:
    """Put calls of this function into the graph as one node, without looking at its Python code.

    The compiler behind capture looks inside, as it does with any function of torch. The function must depend on its
    arguments alone, which are tensors, numbers, and lists and tuples of them; it must change nothing but tensors, and
    must not look at the contents of tensors. Nothing checks that, except that outer tensors break the graph.

    Args:
        fn: a function, or a list or tuple of them. Of a function of torch it undoes `disallow_in_graph`.

    Returns:
        The same function; a list for a list or tuple.

    Raises:
        InvalidArgument: if it cannot be called.
    """
    if isinstance(fn, list | tuple):
        return [allow_in_graph(function) for function in fn]
    check_callable("allow_in_graph", fn)
    if (getattr(fn, "__module__", None) or "torch").partition(".")[0] == "torch" and not isinstance(fn, FunctionType):
        marks.unmark(fn)
        return fn
    return each("allow_in_graph", fn, policy.call_opaque)


@overload
def forbid_in_graph(fn: F) -> F: ...
@overload
def forbid_in_graph(fn: list[F] | tuple[F, ...]) -> list[F]: ...
def forbid_in_graph(fn: Any) -> Any:
    """Make calls of this function in compiled code an error, also where graph breaks are none.

    Args:
        fn: a function, or a list or tuple of them.

    Returns:
        The same function; a list for a list or tuple. Compiling a call of it raises `ForbiddenCallError`.

    Raises:
        InvalidArgument: if it cannot be called.
    """
    return each("forbid_in_graph", fn, policy.forbidden)


def nonstrict_trace(fn: F) -> F:
    """Capture the operations of this function without looking at its Python code, which runs once, while tracing.

    It may do whatever Python can, and must be a pure function of its arguments: what it reads besides them (closures,
    globals, files) is constant and is not guarded; outer tensors are inputs of the graph; what it does besides
    computing is done while tracing and not when the program runs. Arguments and results are tensors, constants, modules
    and containers that `torch.utils._pytree` knows, classes registered by the user among them; numbers and strings
    among the arguments are guarded, and among the results constant.

    Args:
        fn: the function; usable as a decorator, and as a call inside of compiled code, then of a function that was
            defined outside of it.

    Returns:
        A function with the same signature, marked. `fn` itself is not.

    Raises:
        InvalidArgument: if it cannot be called.
    """
    if isinstance(fn, DESCRIPTORS):
        descriptor: F = within(fn, nonstrict_trace)
        return descriptor
    check_callable("nonstrict_trace", fn)

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    marks.mark(wrapper, policy.trace_nonstrictly)
    return wrapper  # type: ignore[return-value]


def assume_constant_result(fn: F) -> F:
    """Call this function once, while tracing, and use its result as a constant of the compiled program.

    It is called for real, with the objects that the program would pass. Nothing checks the assumption. A method is
    called with its real object; where compiled code has changed objects before the call, the graph breaks.

    Args:
        fn: the function.

    Returns:
        The same function.

    Raises:
        InvalidArgument: if it cannot be called.
    """
    marked: F = each("assume_constant_result", fn, policy.call_for_constant)
    return marked


def substitute_in_graph(
    original_fn: Callable[..., Any], *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[F], F]:
    """A decorator: capture looks at the decorated Python function where the program calls `original_fn`.

    Args:
        original_fn: a function, usually one written in C. In eager code it is called as ever.
        can_constant_fold_through: call the original while tracing if all arguments are constants.
        skip_signature_check: accept a function with other parameters.

    Returns:
        The decorator; what it returns calls the original in eager code.

    Raises:
        InvalidArgument: if one of the two is not a function, if the parameters differ, or if the original is
            substituted already.
    """
    check_switch("can_constant_fold_through", can_constant_fold_through)
    check_switch("skip_signature_check", skip_signature_check)
    if not isinstance(original_fn, FunctionType | BuiltinFunctionType | MethodDescriptorType):
        raise InvalidArgument(f"onegraph.substitute_in_graph expects a function, got {original_fn!r}")

    @beside
    def register(traceable_fn: F) -> F:
        if not isinstance(traceable_fn, FunctionType):
            raise InvalidArgument(f"@onegraph.substitute_in_graph expects a Python function, got {traceable_fn!r}")
        if not skip_signature_check:
            check_signatures(original_fn, traceable_fn)
        known = row_of(original_fn).mark
        if isinstance(known, Substitution):
            raise InvalidArgument(f"{original_fn!r} is substituted already, by {known.function!r}")

        @functools.wraps(traceable_fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return original_fn(*args, **kwargs)

        substitution = Substitution(original_fn, traceable_fn, can_constant_fold_through)
        marks.say(original_fn, substitution)
        marks.mark(wrapped, substitution)
        return wrapped  # type: ignore[return-value]

    return register


class Substitution:
    """The mark of a function that another one stands in for."""

    def __init__(self, original: Callable[..., Any], function: Callable[..., Any], foldable: bool) -> None:
        self.original = original
        self.function = function
        self.foldable = foldable

    def __call__(
        self, tracer: Tracing, rest: Rest | None, called: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if self.foldable and all(type(value) in ATOMS for value in (*args, *kwargs.values())):
            return self.original(*args, **kwargs)
        receiver = getattr(called, "__self__", None)
        bound = isinstance(self.original, MethodDescriptorType) and called is not self.original
        return tracer.call(self.function, (receiver, *args) if bound else args, kwargs, rest)


def check_signatures(original: Callable[..., Any], substitute: Callable[..., Any]) -> None:
    """The names and defaults of the parameters must be the same, unless one takes anything or tells nothing."""
    try:
        theirs = inspect.signature(original)
    except ValueError:
        return
    ours = inspect.signature(substitute)
    anything = essence(inspect.signature(lambda *args, **kwargs: None))
    if essence(theirs) != essence(ours) and anything not in (essence(theirs), essence(ours)):
        raise InvalidArgument(f"{substitute!r} takes {ours}, but {original!r} takes {theirs}")


def essence(signature: inspect.Signature) -> tuple[Any, ...]:
    """What must agree of two signatures: not annotations, nor the names of `*args` and `**kwargs`."""
    kinds = inspect.Parameter
    named = [p for p in signature.parameters.values() if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
    return (
        [p.name for p in named if p.kind is not kinds.KEYWORD_ONLY],
        {p.name for p in named if p.kind is kinds.KEYWORD_ONLY},
        {p.name: p.default for p in named},
    )


for _function in (
    disallow_in_graph, allow_in_graph, forbid_in_graph, nonstrict_trace, assume_constant_result, substitute_in_graph,
):  # fmt: skip
    marks.mark(_function, policy.call_natively)
