"""What an entry may name: it may be damaged, or be written by somebody who does not know this package.

Reading makes dataclasses and predicates of the package, imports no other modules, and calls nothing but what
guards and sources call. What a capture does when it runs is the business of who has made it: see `docs/cache.md`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

from onegraph.base.annotations import Check, check_of_field
from onegraph.capture.guards.predicates import Portable
from onegraph.torchlib.size_expression import Computed, Fact

OWN = "onegraph"
#: Where the classes and functions are that captures consist of. Nothing happens when a module there is imported.
HOMES = ("onegraph.base.", "onegraph.capture.", "onegraph.torchlib.")
MOST = 1 << 16  # arguments, results or frames: more than any program has
#: A value whose parts have the same parts, and so on, is a few rows, and endless for who looks at all of it.
HEAVIEST = 1 << 20
#: Rows in which an integer is no number of a row.
WITHOUT_PARTS = frozenset({"int", "float", "str", "bool", "none", "bytes", "code"})
PLAIN_TYPES = frozenset({bool, int, float, complex, str, bytes})
BUILTINS = frozenset({"abs", "divmod", "len", "max", "min", "pow", "round", "sum"})


@functools.cache
def class_at(path: str) -> Any:
    """The class of this package that a row is of.

    Raises:
        ValueError: there is none.
    """
    module, _, name = path.partition(":")
    import_own(module)
    found: Any = import_module(module)
    for part in name.split("."):
        found = vars(found).get(part)
    if not isinstance(found, type) or (found.__module__, found.__qualname__) != (module, name):
        raise ValueError(f"{path} is no class")
    return found


@functools.cache
def import_own(module: str) -> None:
    """Import a module that captures may name.

    Raises:
        ValueError: it is another one, or there is none.
    """
    if module.partition(".")[0] != OWN or module in (OWN, f"{OWN}._C"):
        return
    if not module.startswith(HOMES):
        raise ValueError(f"{module} is no part of captures")
    try:
        import_module(module)
    except ImportError as error:
        raise ValueError(str(error)) from None


@functools.cache
def made_class(path: str) -> tuple[Any, tuple[tuple[str, Check], ...]]:
    """A dataclass of this package that is made of its fields and nothing else, and what its fields may be.

    Raises:
        ValueError: it is none.
    """
    cls: Any = class_at(path)
    if not dataclasses.is_dataclass(cls) or hasattr(cls, "__post_init__"):
        raise ValueError(f"{path} is no value")
    fields: list[dataclasses.Field[Any]] = [field for field in dataclasses.fields(cls) if field.init]
    return cls, tuple((field.name, check_of_field(class_at(path), field)) for field in fields)


@functools.cache
def portable_class(path: str) -> Any:
    cls = class_at(path)
    if not issubclass(cls, Portable):
        raise ValueError(f"{path} is no function of guards")
    return cls


def weigh(weights: list[int], tag: str, fields: Sequence[Any]) -> None:
    """Add how many values are in that of the next row, each as often as it is.

    Raises:
        ValueError: there are too many.
    """
    weight = 1 if tag in WITHOUT_PARTS else 1 + sum([weights[each] for each in fields if type(each) is int])
    if weight > HEAVIEST:
        raise ValueError("a value has more parts than any has")
    weights.append(weight)


def check_called(function: Any) -> None:
    """Raise ValueError unless guards and sources may call it while an entry is read: it is of this package, or a native
    function of numbers and texts. What asks for something asks for what the tracer lets programs ask for."""
    kind = type(function)
    if kind is FunctionType or not str(kind.__module__).startswith(HOMES):
        home = function.__module__ if kind is FunctionType else ""
        if not (str(home).startswith(HOMES) or is_plain_function(function)):
            raise ValueError(f"{function!r} is nothing that a guard calls")
    elif isinstance(inner := getattr(function, "ask", None), partial):
        questions = import_module("onegraph.capture.policy.torch.questions").QUESTIONS
        own = type(inner.func) is FunctionType and str(inner.func.__module__).startswith(HOMES)
        if not own and not any(inner.func is question for question in questions):
            raise ValueError(f"{inner.func!r} is no question")
    elif hasattr(function, "function") and not is_plain_function(function.function):
        raise ValueError(f"{function.function!r} is no function of numbers")
    elif isinstance(fact := getattr(function, "fact", None), Fact):
        for each in functions_of(fact):
            check_called(each)


def functions_of(fact: Fact) -> Iterator[Any]:
    """What is computed for a fact about numbers."""
    yield fact.function
    computed = [arg for arg in fact.args if isinstance(arg, Computed)]
    while computed:
        made = computed.pop()
        yield made.op
        computed += [arg for arg in made.args if isinstance(arg, Computed)]


def is_plain_function(function: Any) -> bool:
    """Whether it is a native function of numbers and texts, which changes nothing."""
    kind = type(function)
    if kind is BuiltinFunctionType:
        home, name = function.__module__, function.__name__
        return home in ("math", "_operator") and name != "call" or home == "builtins" and name in BUILTINS
    if kind in (MethodDescriptorType, WrapperDescriptorType):
        return function.__objclass__ in PLAIN_TYPES
    return function in PLAIN_TYPES if kind is type else False
