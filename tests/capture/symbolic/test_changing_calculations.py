"""Every function of numbers, with a size or a changing number among its arguments: two versions serve all values."""

from __future__ import annotations

import builtins
import math
import operator
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch
from tests.capture.symbolic.digits import NEEDS

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
    methodcaller filter map iter enumerate reversed zip
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


METHODS = types.MethodDescriptorType | types.WrapperDescriptorType
OF_OBJECTS = ("__getattribute__", "__format__", "__repr__", "__str__")


def methods() -> Iterator[str]:
    for kind in (int, float):
        for name, value in vars(kind).items():
            is_part = isinstance(value, METHODS | types.GetSetDescriptorType)
            if is_part and name not in OF_OBJECTS:
                yield f"{kind.__name__}.{name}"


#: What is written without a function of these modules.
EXPRESSIONS = """
0 + n
1 + n
2 * n
100 - n
n - 100
-n
~n
n >> 1
n << 3
1 << n
n | 0
n & 6
n ^ n + 1
n // 3 * 3
(5 - n) // 3
(5 - n) % 3
n // -3
-7 // n
n % -3
n ** 3
n ** -1
2 ** n
n / 3 // 0.7
x.shape[-1] / x.shape[1]
sum([n, n])
sum(x.shape)
sum(size for size in x.shape)
torch.Size([n, 3]).numel()
torch.Size([n, 3])
len(x[0])
x[:, : n // 2]
x[:, int(n * 0.25):].shape
x[:, round(n / 3) : -1 - (n & 3)].shape
x.new_zeros(int(n * 1.5), n >> 1).shape
x.new_zeros(math.ceil(n / 2), 3).reshape(math.ceil(n / 2) * 3, -1).shape
x.reshape(-1).unsqueeze(0).expand(math.isqrt(n) + 1, -1).sum(0)
x * int(n * 0.3)
x * (n >> 1) + math.sin(n)
x + n / 7 - int(2 - n * 0.5)
abs(min(-n, n - 100)) % 2
max((n - 100) // 2, 0)
min((n - 100) >> 1, -3) + abs((7 - n) // 2)
[(n - 100) // 3 < 0, min(n - 100, -n) < 0, (n - 200) // 2 % 5 >= 0]
x[:, : abs(min(-n, n - 300)) % 2 + 1]
torch.arange(n // 2 + math.gcd(n, 2))
torch.full((2,), math.comb(n, 3))
n > 4 and n < 100
n == n + 0
n != 1000
-1 < n / 2 < 1000
0 if n else 1
n or 3
not n
(n, n + 1) == (n, n + 2)
[n, n // 2][1]
{"size": n}["size"]
(lambda a, b=n: a + b)(n)
slice(n // 2)
x[slice(n // 2)].shape
divmod(n, 3)[0] + divmod(n, 3)[1]
math.frexp(n)[1] + math.modf(n / 4)[0]
(n / 4).as_integer_ratio()[0]
n.bit_length() + n.real - n.imag
""".strip().splitlines()


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


def decided(value: Any) -> Any:
    """What of a result is decided while tracing: truth values, types, and errors."""
    match value:
        case bool() | complex() | (type(), str()):
            return value
        case list() | tuple():
            return type(value), tuple(map(decided, value))
        case slice():
            return decided((value.start, value.stop, value.step))
    return type(value)


def versions(expression: str, argument: bool, values: tuple[Any, ...] = VALUES) -> tuple[int, int]:
    """How many versions an expression of a size, or of an argument, has for these values, and how many it may have.

    Results are eager's.
    """
    names: dict[str, Any] = dict(NAMES)
    given = "n" if argument else "_"
    bound = "" if argument else "n = x.shape[1]; "
    exec(f"def f(x, {given}):\n    {bound}y = x + 1\n    return y, {expression}", names)
    f = names["f"]
    onegraph.reset()
    compiled, outcomes = onegraph.compile(f, backend="eager"), set()
    with warnings.catch_warnings(), Watch() as watch, torch.no_grad():
        warnings.simplefilter("ignore")
        for value in values:
            x = torch.ones(2, 100 if argument else value)
            expected, result = outcome(f, x, value), outcome(compiled, x, value)
            assert shown(expected) == shown(result), (expression, value, expected, result)
            outcomes.add(decided(expected))
        return len(watch.of(ev.FrameStarted)), 1 + len(outcomes)


NAMES: dict[str, Any] = {"math": math, "numpy": numpy, "operator": operator, "torch": torch}
NEEDED = {name: need for need in NEEDS for name in need.names}


def expressions(call: str) -> Iterator[str]:
    """The calls that Python does not refuse for the number of their arguments or their types."""
    for operands in OPERANDS:
        try:
            eval(call.format(operands), {**NAMES, "n": 12, "x": torch.ones(2, 12)})
        except TypeError:
            continue
        except Exception:
            pass
        yield call.format(operands)


def check(name: str, calls: list[str], argument: bool) -> None:
    many = []
    for call in calls:
        found, allowed = versions(call, argument)
        if found > allowed:
            many.append((call, found))
    assert not many or name in NEEDED, many


@pytest.mark.parametrize("argument", [False, True], ids=["size", "argument"])
@pytest.mark.parametrize("name", list(functions()))
def test_function(name: str, argument: bool) -> None:
    check(name, list(expressions(f"{name}({{}})")), argument)


@pytest.mark.parametrize("argument", [False, True], ids=["size", "argument"])
@pytest.mark.parametrize("name", list(methods()))
def test_method(name: str, argument: bool) -> None:
    kind, _, method = name.partition(".")
    number = "n" if kind == "int" else "(n / 7)"
    calls = list(expressions(f"{number}.{method}({{}})"))
    try:
        eval(f"(12 if kind == 'int' else 0.5).{method}()", {"kind": kind})
        calls.append(f"{number}.{method}()")
    except TypeError:
        pass
    if isinstance(vars(getattr(builtins, kind))[method], types.GetSetDescriptorType):
        calls = [f"{number}.{method}"]
    check(name, calls, argument)


@pytest.mark.parametrize("argument", [False, True], ids=["size", "argument"])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression(expression: str, argument: bool) -> None:
    found, allowed = versions(expression, argument)
    assert found <= allowed


PROGRAMS = {
    "operator.mul": "len([0] * n)",
    "operator.imul": "'a' * n",
    "operator.getitem": "list(range(100))[n]",
    "complex": "complex(n, 1).imag",
    "sorted": "sorted([n / 7, 3.0])[0]",
}


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_what_needs_digits(name: str) -> None:
    """No row of the table is idle."""
    kind, _, method = name.partition(".")
    calls = [PROGRAMS[name]] if name in PROGRAMS else list(expressions(f"{name}({{}})"))
    if kind in ("int", "float"):
        calls = [
            f"(n / 7).{method}()",
            f"(n / 7).{method}('')",
            f"n.{method}('')",
            f"n.{method}()",
            f"n.{method}(2, 'big')",
        ]
    assert any(found > allowed for found, allowed in (versions(call, False) for call in calls))


LARGE = """
x * n**16
whole + n**13
whole * (n * n * n * n * n * n * n * n * n * n * n * n)
x * (n << 30 << 30)
x * (n**12 // 7**3)
x * (-(n**14) % 5)
x * -(n**15)
x * max(n**14, 5)
x * float(n**14)
x + n**30 / 3
x + (1 << n)
x * math.factorial(n)
whole.clamp(max=1 << n)
torch.full((2,), n**20)
torch.tensor(n * 10**9)
torch.tensor([[n * 10**9, 2]])
torch.tensor([n, 0.5, n / 3])
torch.tensor((n, n >> 1), dtype=torch.float32)
torch.tensor([n, True])
torch.as_tensor([n * 10**9])
torch.asarray([n * 10**9])
whole.new_tensor([n * 10**9])
x.new_tensor(n)
x.new_tensor([n, 3])
(n**80, n**80 % 7, -(n**80) // 3)
""".strip().splitlines()


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("expression", LARGE)
def test_large_numbers(expression: str, backend: str) -> None:
    """Guards and kernels compute in 64 bits, Python does not: what is too large for them is eager's all the same."""
    names: dict[str, Any] = dict(NAMES)
    exec(f"def f(x, whole, n):\n    return {expression}", names)
    f = names["f"]
    onegraph.reset()
    compiled = onegraph.compile(f, backend=backend)
    x, whole = torch.ones(2), torch.ones(2, dtype=torch.int64)
    for n in (8, 12, 20, 21, 33, 57, 70, -3):
        assert shown(outcome(f, x, whole, n)) == shown(outcome(compiled, x, whole, n))
