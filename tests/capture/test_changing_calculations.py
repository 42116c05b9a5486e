"""Every function of numbers, with a size or a changing number among its arguments: two versions serve all values."""

from __future__ import annotations

import builtins
import math
import operator
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from onegraph.capture.versions import REASONS
from tests.capture.test_breaks import Watch

VALUES = (8, 12, 20, 21, 33, 9, 57, 40, 10)
#: Arguments to try: all that a function takes are called with.
OPERANDS = (
    "n",
    "n, 3", "3, n", "n, n", "n, -2", "-2, n", "n, 0", "n, 0.75", "0.75, n", "n / 7", "1 / n", "-1 / n", "n / 7, 3",
    "3, n / 7", "n / 7, n", "n / 7, n / 5", "n * 0.5, -1",
    "n, 3, 5", "n / 7, 3, 5", "[n, 3]", "[n / 7, 3]", "[n, 3], [4, n]", "x.shape", "[]", "n, None", "'a', n",
)  # fmt: skip
#: What is no function of numbers: other objects are asked, or code, files and processes.
NO_FUNCTIONS = frozenset(
    """
    __build_class__ __import__ breakpoint compile copyright credits delattr dir eval exec exit getattr globals hasattr
    help input issubclass license locals next open print quit setattr super vars memoryview classmethod staticmethod
    property id anext aiter object isinstance callable type call _call __call__ delitem setitem attrgetter itemgetter
    methodcaller
""".split()
)


def functions() -> Iterator[str]:
    """What the modules have, by the names that a program writes."""
    for name in dir(math):
        if isinstance(getattr(math, name), types.BuiltinFunctionType):
            yield f"math.{name}"
    for name in operator.__all__:
        if name not in NO_FUNCTIONS:
            yield f"operator.{name}"
    for name, value in vars(builtins).items():
        is_error = isinstance(value, type) and issubclass(value, BaseException)
        if callable(value) and name not in NO_FUNCTIONS and not is_error:
            yield name
    yield from (f"torch.{name}" for name in ("sym_float", "sym_int", "sym_max", "sym_min", "sym_sum"))


def methods() -> Iterator[str]:
    for kind, number in ((int, "n"), (float, "(n / 7)")):
        for name, value in vars(kind).items():
            if isinstance(value, types.MethodDescriptorType | types.WrapperDescriptorType | types.GetSetDescriptorType):
                yield f"{number}.{name}"


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


def shown(value: Any) -> Any:
    """What tells a result from another one."""
    match value:
        case list() | tuple():
            return type(value), [shown(item) for item in value]
        case torch.Tensor():
            return value.dtype, value.shape, value.tolist()
    return type(value), repr(value)


def versions(expression: str, argument: bool, values: tuple[Any, ...] = VALUES) -> int:
    """How many versions an expression of a size, or of an argument, has for these values; results are eager's."""
    names: dict[str, Any] = {"math": math, "operator": operator, "torch": torch}
    given = "n" if argument else "_"
    bound = "" if argument else "n = x.shape[1]; "
    exec(f"def f(x, {given}):\n    {bound}y = x + 1\n    return y, {expression}", names)
    f = names["f"]
    onegraph.reset()
    compiled = onegraph.compile(f, backend="eager")
    with warnings.catch_warnings(), Watch() as watch, torch.no_grad():
        warnings.simplefilter("ignore")
        for value in values:
            x = torch.ones(2, 3 if argument else value)
            expected, result = outcome(f, x, value), outcome(compiled, x, value)
            assert shown(expected) == shown(result), (expression, value, expected, result)
        return len(watch.of(ev.FrameStarted))


def reason_for(name: str) -> str | None:
    return next((reason.why for reason in REASONS if name in reason.names), None)


def check(name: str, expressions: list[str], argument: bool) -> None:
    found = {expression: versions(expression, argument) for expression in expressions}
    many = {expression: count for expression, count in found.items() if count > 2}
    if reason_for(name) is None:
        assert not many


@pytest.mark.parametrize("argument", [False, True], ids=["size", "argument"])
@pytest.mark.parametrize("name", functions())
def test_function(name: str, argument: bool) -> None:
    """Arguments for which it raises because of their number or their type say nothing of it."""
    names = {"math": math, "operator": operator, "torch": torch, "n": 12, "x": torch.ones(2, 12)}
    expressions = []
    for operands in OPERANDS:
        expression = f"{name}({operands})"
        try:
            eval(expression, dict(names))
        except TypeError:
            continue
        except Exception:
            pass
        expressions.append(expression)
    check(name, expressions, argument)
