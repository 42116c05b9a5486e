"""`onegraph.comptime`: code that runs while a function is compiled, to look at what the trace knows.

    @onegraph.compile
    def f(x):
        y = x.sin()
        onegraph.comptime.print_graph()        # the graph up to here

        @onegraph.comptime
        def _(ctx):
            print(ctx.get_local("y").python_type())

In a program that is not compiled, and in calls of a compiled version, none of it runs. What it does in a trace is in
`onegraph.capture.tracer.comptime`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any


class comptime:  # noqa: N801 - a decorator in the spelling of a function
    """Call a function while the code around is compiled, with a `ComptimeContext`; otherwise do nothing.

    Args:
        fn: the function, of one argument: a `ComptimeContext` of `onegraph.capture.tracer.comptime`. Free variables
            hold objects of the program, and what is known of tensors and of what compiled code has made. What it raises
            ends the compilation with a `CompileError`.
        fallback_fn: called without arguments where the code around is not being compiled.
    """

    def __new__(cls, fn: Callable[[Any], Any], fallback_fn: Callable[[], Any] = lambda: None) -> None:  # type: ignore[misc]
        fallback_fn()

    @staticmethod
    def graph_break() -> None:
        """Break the graph here."""

    @staticmethod
    def print(e: Any) -> None:
        """Print what is known of a value; where the code is not being compiled, the value."""
        builtins.print(e)

    @staticmethod
    def print_graph() -> None:
        """Print the graph so far."""

    @staticmethod
    def print_guards() -> None:
        """Print the guards so far."""

    @staticmethod
    def print_locals(*, stacklevel: int = 0) -> None:
        """Print the variables of the function."""

    @staticmethod
    def print_value_stack(*, stacklevel: int = 0) -> None:
        """Print the values of the expression that this stands in."""

    @staticmethod
    def print_value_stack_and_return(e: Any, *, stacklevel: int = 0) -> Any:
        """The same, as a part of the expression: its result is its argument."""
        return e

    @staticmethod
    def print_disas(*, stacklevel: int = 0) -> None:
        """Print the instructions of the function."""

    @staticmethod
    def print_bt(*, stacklevel: int = 0) -> None:
        """Print where the program is."""

    @staticmethod
    def assert_static(val: Any) -> None:
        """End the compilation with a `CompileError` for a number that may be another in the next call."""

    @staticmethod
    def force_static(val: Any) -> None:
        """Make another version for each value of a number."""

    @staticmethod
    def breakpoint() -> None:
        """Start the debugger while the code is compiled, where `ctx` is the `ComptimeContext`."""

    @staticmethod
    def sleep(sec: float) -> None:
        """Wait for a number of seconds while the code is compiled."""
