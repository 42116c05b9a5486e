"""Absence is an answer, and so is what a library has under a name: programs whose world changes between their calls.

Each program is given `compile` and returns what its calls gave; it is run with one that does nothing, and compiled.
"""

from __future__ import annotations

import abc
import builtins
import collections
import collections.abc
import functools
import importlib
import math
import sys
import types
import typing
import weakref
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn

import onegraph
from tests.capture.test_small_programs import tree_equal

Program = Callable[[Callable[..., Any]], list[Any]]
PROGRAMS: dict[str, Program] = {}
X = torch.tensor([-1.0, 2.0])


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


class Plain:
    pass


@dataclass(frozen=True)
class Point:
    x: int


class ByName:
    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return isinstance(other, ByName) and self.name == other.name


class Method:
    def run(self):
        pass


KEYS: dict[str, Callable[[], Any]] = {
    "parameter": lambda: nn.Parameter(torch.ones(2)),
    "parameter of one element": lambda: nn.Parameter(torch.ones(1)),
    "tensor": lambda: torch.ones(2),
    "module": lambda: nn.Linear(2, 2),
    "object": Plain,
    "pair": lambda: (Plain(), 3),
    "frozenset": lambda: frozenset([Plain()]),
    "dataclass": lambda: Point(1),
    "by name": lambda: ByName("n"),
    "function": lambda: lambda: 0,
    "class": lambda: type("Local", (), {}),
    "method": lambda: Method().run,
    "int": lambda: 5,
    "str": lambda: "key",
}
DICTS: dict[str, Callable[[], Any]] = {
    "dict": dict,
    "defaultdict": lambda: collections.defaultdict(int),
    "OrderedDict": collections.OrderedDict,
    "Counter": collections.Counter,
    "WeakKeyDictionary": weakref.WeakKeyDictionary,
    "UserDict": collections.UserDict,
    "ChainMap": collections.ChainMap,
}
IDIOMS: dict[str, Callable[[Any, Any], Any]] = {}


def idiom(function):
    IDIOMS[function.__name__] = function
    return function


@idiom
def not_in(d, k):
    if k not in d:
        d[k] = 0
    d[k] += 1
    return d[k]


@idiom
def get(d, k):
    d[k] = d.get(k, 0) + 1
    return d[k]


@idiom
def key_error(d, k):
    try:
        d[k] = d[k] + 1
    except KeyError:
        d[k] = 1
    return d[k]


@idiom
def setdefault(d, k):
    d[k] = d.setdefault(k, 4) + 1
    return d[k]


@idiom
def pop(d, k):
    d[k] = d.pop(k, 7) + 1
    return d[k]


def as_it_is(function, **_):
    return function


def adding(key: str, container: str, how: str, compile: Callable[..., Any]) -> list[Any]:
    d, k = DICTS[container](), KEYS[key]()
    function = compile(lambda d, k, x: x + IDIOMS[how](d, k), backend="eager")
    return [function(d, k, X) for _ in range(4)]


def works(key: str, container: str) -> bool:
    """Whether the container takes such keys: a weak one needs keys that can be referred to, and compared."""
    try:
        adding(key, container, "not_in", as_it_is)
    except (TypeError, RuntimeError):
        return False
    return True


PAIRS = [(key, container) for key in KEYS for container in DICTS if works(key, container)]


@pytest.mark.parametrize("how", IDIOMS)
@pytest.mark.parametrize(("key", "container"), PAIRS)
def test_a_key_that_the_program_adds(key: str, container: str, how: str) -> None:
    assert tree_equal(adding(key, container, how, onegraph.compile), adding(key, container, how, as_it_is))


@pytest.mark.parametrize(("key", "container"), PAIRS)
def test_a_key_that_the_caller_adds(key: str, container: str) -> None:
    def run(compile: Callable[..., Any]) -> list[Any]:
        d, k, other = DICTS[container](), KEYS[key](), KEYS[key]()
        function = compile(lambda d, k, x: x + d.get(k, 0), backend="eager")
        results = [function(d, k, X)]
        d[k] = 7
        results.append(function(d, k, X))
        del d[k]
        results.append(function(d, k, X))
        d[other] = 8  # an equal one, or another
        return [*results, function(d, k, X)]

    assert tree_equal(run(onegraph.compile), run(as_it_is))


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["momentum"] = torch.zeros_like(p)
                update = (state["momentum"] * 0.9 + p.grad * 0.1).sign()
                state["momentum"].mul_(0.5).add_(p.grad)
                p.add_(update, alpha=-group["lr"])


@program
def optimizer_step(compile):
    p = nn.Parameter(torch.ones(2))
    optimizer = Lion([p])
    step, results = compile(optimizer.step), []
    for i in range(5):
        p.grad = p.detach() - i * 0.3
        step()
        results.append(p.detach().clone())
    return results


@program
def training_step(compile):
    model = nn.Linear(3, 1)
    optimizer = Lion(model.parameters())
    x = torch.randn(4, 3)

    @compile
    def train(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return [train(x) for _ in range(5)] + [p.detach().clone() for p in model.parameters()]


@program
def traversal_with_memo(compile):
    class Node:
        def __init__(self, value, children=()):
            self.value, self.children = value, children

    a = Node(1)
    b = Node(2, (a,))
    memo = {}

    @compile
    def visit(node, x):
        def go(node):
            if node in memo:
                return memo[node]
            result = x * node.value
            for child in node.children:
                result = result + go(child)
            memo[node] = result
            return result

        return go(node)

    return [visit(Node(3, (a, b)), X * i).clone() for i in range(4)]


@program
def cache_by_module(compile):
    cache = {}

    class Model(nn.Module):
        def forward(self, x):
            if self not in cache:
                cache[self] = x.sum()
            return x + cache[self]

    model = compile(Model())
    return [model(X * i) for i in range(4)]


@program
def registry_with_its_own_get(compile):
    class Registry(dict):
        def get(self, key, default=None):
            return super().get(key, default)

    registry = Registry({Plain: 3})
    found = compile(lambda x: x + registry.get(Plain))
    results = []
    for i in range(12):
        registry[type(f"Other{i}", (), {})] = i
        results.append(found(X))
    return results


@program
def protocol(compile):
    @typing.runtime_checkable
    class Goes(typing.Protocol):
        def go(self): ...

    o = Plain()
    function = compile(lambda o, x: x + 1 if isinstance(o, Goes) else x)
    results = [function(o, X)]
    o.go = lambda: 1
    return [*results, function(o, X)]


@program
def protocol_with_data(compile):
    @typing.runtime_checkable
    class Named(typing.Protocol):
        name: str

    o = Plain()
    function = compile(lambda o, x: x + 1 if isinstance(o, Named) else x)
    results = [function(o, X)]
    o.name = "n"
    results.append(function(o, X))
    del o.name
    return [*results, function(o, X)]


def registering(question):
    def run(compile):
        Abstract = abc.ABCMeta("Abstract", (), {})

        class Concrete:
            pass

        function = compile(lambda o, x: x + 1 if question(o, Abstract) else x)
        results = [function(Concrete(), X)]
        Abstract.register(Concrete)
        return [*results, function(Concrete(), X)]

    return run


PROGRAMS["registered for isinstance"] = registering(isinstance)
PROGRAMS["registered for a tuple"] = registering(lambda o, kind: isinstance(o, (int, kind)))
PROGRAMS["registered for a union"] = registering(lambda o, kind: isinstance(o, int | kind))
PROGRAMS["registered for issubclass"] = registering(lambda o, kind: issubclass(type(o), kind))


@program
def registered_by_the_program(compile):
    Abstract = abc.ABCMeta("Abstract", (), {})

    @compile
    def function(o, x):
        known = isinstance(o, Abstract)
        Abstract.register(type(o))
        return x + 1 if known else x

    o = Plain2()
    return [function(o, X) for _ in range(3)]


class Plain2:
    pass


@program
def method_that_makes_it_abstract(compile):
    class Sized:
        pass

    function = compile(lambda x: x + 1 if isinstance(Sized(), collections.abc.Sized) else x)
    results = [function(X)]
    Sized.__len__ = lambda self: 0
    return [*results, function(X)]


@contextmanager
def module(value):
    made = types.ModuleType("fake_library")
    made.value = value
    sys.modules["fake_library"] = made
    try:
        yield
    finally:
        del sys.modules["fake_library"]


def importing(function):
    def run(compile):
        function_ = compile(types.FunctionType(function.__code__, function.__globals__))
        results = []
        for value in (1, 5, 1):
            with module(value):
                results.append(function_(X))
        return results

    return run


def by_statement(x):
    import fake_library

    return x + fake_library.value


def by_name(x):
    from fake_library import value

    return x + value


def by_function(x):
    return x + importlib.import_module("fake_library").value


def by_table(x):
    return x + sys.modules["fake_library"].value


for _function in (by_statement, by_name, by_function, by_table):
    PROGRAMS[f"replaced module, {_function.__name__}"] = importing(_function)


@program
def module_with_a_function_for_names(compile):
    made = types.ModuleType("fake_library")
    made.__getattr__ = lambda name: 1
    function = compile(lambda x: x + made.some)
    results = [function(X)]
    made.__getattr__ = lambda name: len(name)
    results.append(function(X))
    made.some = 8
    results.append(function(X))
    return results


def patching(target, name, replacement, function):
    def run(compile):
        compiled = compile(function())
        results = [compiled(X)]
        with mock.patch.object(target, name, replacement):
            results.append(compiled(X))
        return [*results, compiled(X)]

    return run


def layers():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    return model.requires_grad_(False)


PATCHES = {
    "function of torch": patching(torch, "sin", torch.cos, lambda: lambda x: torch.sin(x)),
    "functional": patching(nn.functional, "relu", torch.cos, lambda: lambda x: nn.functional.relu(x)),
    "functional of a module": patching(nn.functional, "relu", lambda x, inplace=False: x * 3, layers),
    "forward": patching(nn.Linear, "forward", lambda self, x: x * 7, layers),
    "method of tensors": patching(torch.Tensor, "relu", lambda self: self * 7, lambda: lambda x: x.relu()),
    "operator of tensors": patching(torch.Tensor, "__add__", lambda self, other: self * 7, lambda: lambda x: x + 1),
    "standard library": patching(math, "sqrt", lambda value: 100.0, lambda: lambda x: x + math.sqrt(4)),
    "partial": patching(functools, "reduce", lambda *_: 9, lambda: lambda x: x + functools.reduce(int.__add__, [1, 2])),
    "builtin": patching(builtins, "len", lambda value: 100, lambda: lambda x: x + len([1])),
}
PROGRAMS |= {f"patched {name}": run for name, run in PATCHES.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    torch.manual_seed(0)
    expected = PROGRAMS[name](as_it_is)
    torch.manual_seed(0)
    assert tree_equal(PROGRAMS[name](onegraph.compile), expected)
