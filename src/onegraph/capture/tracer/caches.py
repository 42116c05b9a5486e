"""Functions with a cache (`functools.lru_cache`): what is in the cache is what the program gets, and nothing runs.

A result that is there is used under a guard that it is there still. One that is not is computed for real while tracing,
if nothing that the program has done before waits for the end of the trace, a draw of random numbers neither; else the
graph breaks. A function that only gives a message is asked behind the graph.
"""

from __future__ import annotations

import builtins
import dis
import logging
import weakref
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

import torch

from onegraph.capture.breaks import CACHED_FUNCTION, GraphBreak
from onegraph.capture.breaks.hints import refused_object
from onegraph.capture.calls.libraries import is_library
from onegraph.capture.calls.registry import policy
from onegraph.capture.directives.handlers import is_strict
from onegraph.capture.guards.process_facts import MISSING, HasResult, Question, Wrapper
from onegraph.capture.guards.source import Arg, Const, Source, Through
from onegraph.capture.policy.python.messages import called_from
from onegraph.capture.pyobject.contents import ATOMS, cell_value
from onegraph.capture.pyobject.exact_types import defined, isinstance
from onegraph.capture.pyobject.special_methods import is_stateful
from onegraph.torchlib.state import untraced

TUPLES = (tuple, torch.Size)


def call_cached(tracer: Any, function: Wrapper[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the program gets from a function with a cache."""
    if tracer.is_made_cache(function):
        return tracer.run_native(function, args, kwargs)
    parts = list(leaves((*args, *kwargs.values())))
    if is_library(function.__module__ or "") and isinstance(function.__wrapped__, FunctionType):  # torch.rand is none
        return call_library(tracer, function, args, kwargs)
    if any(is_new(tracer, part) for part in parts) or (is_strict(tracer) and any(map(is_tensor, parts))):
        return call_with_new(tracer, function, args, kwargs)
    if not all(is_known(tracer, part) for part in parts):
        raise GraphBreak(CACHED_FUNCTION, name=function.__qualname__)
    return call_with_known(tracer, function, args, kwargs)


def may_write(tracer: Any, function: Any) -> bool:
    """Whether a function names a container or an object that the trace has looked at already: it may change that."""
    if type(function) is not FunctionType:
        return False
    held = [dict.get(function.__globals__, name) for name in function.__code__.co_names]
    held += [cell_value(cell) for cell in function.__closure__ or ()]
    return any(tracer.world.shadow_of.get(id(value), value) is not value and not is_constant(value) for value in held)


def is_constant(value: Any) -> bool:
    """Whether a value is a tuple that nobody can change."""
    return type(value) is tuple and all(type(item) in ATOMS for item in value)


def call_library(tracer: Any, function: Wrapper[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A library's function depends on its arguments alone: with constant ones it is called."""
    if all(type(value) in ATOMS or tracer.is_constant(value) for value in (*args, *kwargs.values())):
        with untraced():
            result = function(*args, **kwargs)
        return tracer.world.admit(result, Const(id(result), f"{function.__qualname__}(...)", result))
    if is_stateful(function.__wrapped__):
        raise refused_object(function.__wrapped__)
    return tracer.call(function.__wrapped__, args, kwargs)


def call_with_known(tracer: Any, function: Wrapper[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What is cached, or what the function gives for real: it will be cached then."""
    world = tracer.world
    args, kwargs = tracer.numbers.concrete_deep(args, "value"), tracer.numbers.concrete_deep(kwargs, "value")
    question = Question(in_process(world, args), tuple((name, in_process(world, kwargs[name])) for name in kwargs))
    found = question(function)
    waiting = any(said is not ask_again for said, _, _ in tracer.effects)
    pending = waiting or world.has_written() or tracer.recorder.fake.effects.random
    if found is MISSING and not (pending or may_write(tracer, function.__wrapped__)):
        found = compute(function, question)
    if found is MISSING and only_says(function.__wrapped__, (*args, *kwargs.values())):
        return say_once(tracer, function, args, kwargs)
    if found is MISSING:
        raise GraphBreak(CACHED_FUNCTION, name=function.__qualname__)
    tracer.effects.append((ask_again, (function, *args), kwargs))
    source: Source = tracer.source_of(function)
    if type(found) is object:  # as is what stands for nothing
        world.guard(source, "check", HasResult(question))
    for value in leaves((*args, *kwargs.values())):
        if world.is_outside(value):
            world.guard(world.origin[id(value)], "is", world.real(value))
    return world.admit(found, Through(source, question))


#: What traces have asked for in the place of the program, which has yet to come there.
ASKED: set[tuple[weakref.ref[Wrapper[Any]], Question]] = set()


def ask_again(function: Wrapper[Any], *args: Any, **kwargs: Any) -> None:
    """The cache counts who finds something in it, and keeps what was asked for last."""
    asked = (weakref.ref(function), Question(args, tuple(kwargs.items()))) if ASKED else None
    if asked in ASKED:
        ASKED.discard(asked)
    else:
        function(*args, **kwargs)


def compute(function: Wrapper[Any], question: Question) -> Any:
    """Call the function for real; MISSING if it raises, or where that would drive out another result."""
    limit = function.cache_parameters()["maxsize"]
    if limit is not None and function.cache_info().currsize >= limit:
        return MISSING
    with untraced():
        try:
            function(*question.args, **dict(question.kwargs))
        except Exception:
            return MISSING
    ASKED.add((weakref.ref(function), question))
    return question(function)


#: What a function names that does nothing but to give a message.
SAYING = frozenset({"debug", "info", "warning", "error", "critical", "log", "warnings", "warn", "logger", "LOGGER"})
SAYING |= {name for name, value in vars(builtins).items() if type(value) is type and issubclass(value, Warning)}
WRITING = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR"})


def only_says(function: Any, values: Iterable[Any]) -> bool:
    """Whether a function gives a message, of constants or to a logger, and does nothing else."""
    if type(function) is not FunctionType or not SAYING.issuperset(function.__code__.co_names):
        return False
    if function.__code__.co_freevars or any(i.opname in WRITING for i in dis.get_instructions(function.__code__)):
        return False
    return all(type(value) in ATOMS or isinstance(value, logging.Logger) for value in leaves(values))


def say_once(tracer: Any, function: Wrapper[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Ask the cache behind the graph: the message is given there if it has not been given, in its turn."""
    before = len(tracer.effects)
    result = tracer.call(function.__wrapped__, args, kwargs)
    del tracer.effects[before:]
    if type(result) not in ATOMS:  # the cache gives the same object each time
        raise GraphBreak(CACHED_FUNCTION, name=function.__qualname__)
    tracer.effects.append((called_from(tracer, function), args, kwargs))
    return result


def call_with_new(tracer: Any, function: Wrapper[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a cached function gives for objects that no cache can know yet: it runs once for each.

    Where a graph break is an error, tensors from outside are taken for new ones.
    """
    identities = [value if type(value) in ATOMS else id(value) for value in leaves((*args, *kwargs.values()))]
    call = (id(function), len(args), *kwargs, *map(type, identities), *identities)
    if call not in tracer.cached_results:
        tracer.cached_results[call] = tracer.call(function.__wrapped__, args, kwargs)
    return tracer.cached_results[call]


def is_new(tracer: Any, value: Any) -> bool:
    """Whether an argument is an object that the program has made, equal to itself alone."""
    atomic = type(value) in ATOMS or isinstance(value, torch.SymInt) or tracer.is_constant(value)
    return not atomic and not tracer.world.is_outside(value) and is_unlike_others(value)


def is_known(tracer: Any, value: Any) -> bool:
    """Whether an argument is a constant, or an object that is the same in each call, and equal to itself alone."""
    if type(value) in ATOMS or isinstance(value, torch.SymInt) or tracer.is_constant(value):
        return True
    origin = tracer.world.origin.get(id(value))
    if origin is None or (is_tensor(value) and isinstance(origin, Arg)):
        return False
    return is_unlike_others(value)


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def is_unlike_others(value: Any) -> bool:
    """Whether a dict knows the object by its identity."""
    if is_tensor(value):
        return True
    return all(defined(type(value), name) is defined(object, name) for name in ("__hash__", "__eq__"))


def in_process(world: Any, value: Any) -> Any:
    """The value as the process has it."""
    return type(value)(in_process(world, item) for item in value) if type(value) in TUPLES else world.real(value)


def leaves(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield from leaves(value) if type(value) in TUPLES else (value,)


@policy(Wrapper.cache_clear)
def clear(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return asked_of_cache(tracer, Wrapper.cache_clear, args, kwargs)


@policy(Wrapper.cache_info)
def count(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return asked_of_cache(tracer, Wrapper.cache_info, args, kwargs)


def asked_of_cache(tracer: Any, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The caches of functions that the trace has made are its own."""
    if not tracer.is_made_cache(args[0]):
        raise GraphBreak(CACHED_FUNCTION, name=f"{args[0].__qualname__}.{method.__name__}")
    return tracer.run_native(method, args, kwargs)
