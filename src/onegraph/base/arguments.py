"""What `onegraph.compile` accepts. A wrong argument gets an error that names it and says what is accepted."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from onegraph.base.errors import InvalidArgument
from onegraph.base.settings import resolved

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
#: Those that capture graphs on GPUs, as torch's do.
WITH_CUDA_GRAPHS = frozenset({"reduce-overhead", "max-autotune"})

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")

_ACCEPTED_TARGETS = "accepted: a function, a method, a torch.nn.Module instance or another callable object"


def check_target(target: object) -> None:
    """Refuse what cannot be compiled as one call: classes, and what is not callable."""
    problem = _target_problem(target)
    if problem:
        raise InvalidArgument(f"onegraph.compile got {problem}; {_ACCEPTED_TARGETS}")


def check_suspending(target: object) -> None:
    """Refuse a function whose frame waits between calls, where the whole call must be compiled."""
    problem = suspending(target)
    if problem:
        raise InvalidArgument(f"onegraph got {problem}; {_ACCEPTED_TARGETS}")


def suspending(target: object) -> str:
    """What kind of function it is, if its frame waits between calls, and what to compile instead; "" for others."""
    name = getattr(target, "__qualname__", type(target).__qualname__)
    if inspect.isasyncgenfunction(target):
        return f"the async generator function '{name}' (compile the functions that it calls)"
    if inspect.iscoroutinefunction(target):
        return f"the async function '{name}' (compile the functions that it awaits the results of)"
    if inspect.isgeneratorfunction(target):
        return f"the generator function '{name}' (compile the function that consumes it, or the body of its loop)"
    return ""


def _target_problem(target: object) -> str:
    name = getattr(target, "__qualname__", type(target).__qualname__)
    if isinstance(target, type):
        return f"the class '{name}' (compile an instance of it, or one of its methods)"
    if isinstance(target, classmethod | staticmethod | property):
        kind = type(target).__name__
        return f"a {kind} object (put @{kind} above @onegraph.compile, so that the function is compiled)"
    if not callable(target):
        return f"an object of type '{name}', which cannot be called"
    return ""


def check_switch(name: str, value: object) -> None:
    """`fullgraph`, `disable`: True or False and nothing that merely is true."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"'{name}' expects True or False, got {value!r}")


def check_callable(name: str, value: object) -> None:
    """What an escape hatch is about: something that can be called."""
    if not callable(value):
        raise InvalidArgument(f"onegraph.{name} expects a function or another callable, got {value!r}")


def check_stance(stance: object) -> None:
    """The name of a stance; torch's others are refused by name."""
    if not isinstance(stance, str):
        raise InvalidArgument(f"'stance' expects a name ({', '.join(STANCES)}), got {stance!r}")
    _check_name("stance", stance, STANCES)


def check_text(name: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"'{name}' expects a string or None, got {value!r}")


def check_dynamic(value: object) -> None:
    if value is not None and not isinstance(value, bool):
        raise InvalidArgument(
            f"'dynamic' expects None (sizes become symbolic when they change), True (from the start) "
            f"or False (never), got {value!r}"
        )


def check_backend(backend: object, registered: Iterable[str]) -> None:
    """A registered name or a callable `(GraphModule, example_inputs) -> callable`."""
    if isinstance(backend, str):
        _check_name("backend", backend, registered, "or a callable (graph_module, example_inputs)")
    elif not callable(backend):
        names = ", ".join(sorted(registered))
        raise InvalidArgument(
            f"'backend' expects a name ({names}) or a callable (graph_module, example_inputs), got {backend!r}"
        )


def check_options(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of one region by the names of our settings; its mode is checked."""
    if mode is not None:
        if not isinstance(mode, str):
            raise InvalidArgument(f"'mode' expects a name ({', '.join(MODES)}) or None, got {mode!r}")
        _check_name("mode", mode, MODES)
    given = {"cuda_graphs": True} if mode in WITH_CUDA_GRAPHS else {}
    if options is None:
        return given
    if not isinstance(options, Mapping):
        raise InvalidArgument(f"'options' expects a dict from option names to values, got {options!r}")
    if "logs" in options:
        raise InvalidArgument("'logs' is for the whole process: set onegraph.config.logs, or ONEGRAPH_LOGS")
    return given | resolved(options)


def _check_name(what: str, name: str, accepted: Iterable[str], otherwise: str = "") -> None:
    names = sorted(accepted)
    if name not in names:
        near = get_close_matches(name, names, n=1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        raise InvalidArgument(f"unknown {what} '{name}'{hint}; accepted: {', '.join(names)} {otherwise}".rstrip())
