"""What is compiled is used as what it was made of: compiled again, copied, asked for attributes, traced by others."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from onegraph.compile import CompiledModule
from tests.capture.resume.test_breaks import Watch

compiled = functools.partial(onegraph.compile, backend="eager")
X = torch.arange(6.0).reshape(2, 3)


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.linear(x).relu()


class Holding(Counting):
    """Has a compiled method of its own in its state, as libraries put it there."""

    def __init__(self) -> None:
        super().__init__()
        self.forward = compiled(self.forward)


class Scaling:
    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.seen: list[int] = []

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(len(self.seen))
        return x * self.scale

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return self(x)


def plain(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) + 1


@compiled
def decorated(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) + 2


# ---- compiled again --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [Counting, lambda: plain, lambda: Scaling(2.0).method, lambda: Scaling(2.0)], ids=lambda make: ""
)
def test_compiled_again_is_compiled_once(make: Callable[[], Any]) -> None:
    seen: list[int] = []

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        seen.append(len(examples))
        return graph.forward

    torch.manual_seed(0)
    target = make()
    twice = onegraph.compile(onegraph.compile(target, backend="eager"), backend=backend)
    expected = copy.deepcopy(target)(X)
    with Watch() as watch:
        assert torch.equal(twice(X), expected)
    assert len(seen) == 1 and len(watch.of(ev.GraphCaptured)) == 1


def test_a_compiled_method_of_an_object() -> None:
    class Thing:
        @compiled
        def method(self, x):
            return x + 1

    again = compiled(Thing().method)
    with Watch() as watch:
        assert torch.equal(again(X), X + 1)
    assert len(watch.of(ev.GraphCaptured)) == 1
    assert onegraph.explain(again, X).graph_count == 1


def test_explained_when_compiled() -> None:
    for target in (onegraph.compile(Counting()), onegraph.compile(plain), decorated):
        explanation = onegraph.explain(target)(X)
        assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)


def test_disabled_and_compiled_over_each_other() -> None:
    net = Counting()
    for wrap in (onegraph.disable, compiled):
        for inner in (onegraph.disable, compiled):
            made = wrap(inner(wrap(inner(net))))
            assert isinstance(made, Counting) and torch.equal(made(X), net(X))
            assert made.state_dict().keys() == net.state_dict().keys()
    assert compiled(onegraph.disable(compiled(net))).calls == net.calls


# ---- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
@pytest.mark.parametrize("make", [Counting, Holding, lambda: onegraph.disable(Counting())])
def test_copies_of_modules(how: Callable[[Any], Any], make: Callable[[], Any]) -> None:
    eager = Counting()
    eager_copy = how(eager)
    net = compiled(make()) if make is Counting else make()
    net.load_state_dict(eager.state_dict())
    twin = how(net)
    assert type(twin).__name__ == "Counting" or type(twin) is Holding
    for original, other in ((eager, eager_copy), (net, twin)):
        for _ in range(2):
            assert torch.equal(original(X), other(X))
        original(X)
        if how is not copy.copy or make is not Holding:  # whose method is that of the original, as in eager mode
            assert (original.calls, other.calls) == (3, 2)
        other.extra = 1
        assert not hasattr(original, "extra")
        assert (other.linear is original.linear) == (how is copy.copy)
    assert isinstance(twin, CompiledModule) == (make is Counting)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_copies_of_callables(how: Callable[[Any], Any]) -> None:
    assert how(decorated) is decorated
    assert torch.equal(how(compiled(plain))(X), plain(X))
    scaling = compiled(Scaling(2.0))
    twin = how(scaling)
    assert torch.equal(twin(X), X * 2)
    twin.__wrapped__.scale = 3.0
    assert torch.equal(scaling(X), X * 2) and torch.equal(twin(X), X * 3)
    assert (twin.seen is scaling.seen) == (how is copy.copy)
    method = compiled(Scaling(2.0).method)
    assert (how(method).__self__ is method.__self__) == (how is copy.copy)
    partial = how(compiled(functools.partial(plain)))
    assert torch.equal(partial(X), plain(X)) and partial.func is plain


def test_a_copied_function_is_itself() -> None:
    function = compiled(lambda x: x + 1)
    assert copy.copy(function) is function and copy.deepcopy([function])[0] is function
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(function)


# ---- attributes ------------------------------------------------------------------------------------------------------


def test_attributes_of_what_is_compiled() -> None:
    @functools.lru_cache(maxsize=3)
    def cached(n: int) -> int:
        return n + 1

    function = compiled(cached)
    assert function(2) == 3 and function.cache_info() == cached.cache_info()
    assert function.cache_info().misses == 1 and function.cache_parameters() == {"maxsize": 3, "typed": False}
    function.cache_clear()
    assert cached.cache_info().currsize == 0

    def marked(x):
        return x

    marked.flag = "set"
    assert compiled(marked).flag == "set"
    assert compiled(Scaling(2.0)).scale == 2.0 and compiled(functools.partial(plain, X)).args == (X,)
    with pytest.raises(AttributeError, match="'function' object has no attribute 'missing'"):
        _ = compiled(plain).missing
    assert inspect.isfunction(compiled(plain)) and isinstance(compiled(Scaling(1.0)), Scaling)
    assert inspect.getsource(compiled(plain)) == inspect.getsource(plain)
    assert inspect.signature(compiled(Counting())) == inspect.signature(Counting())


# ---- traced by others ------------------------------------------------------------------------------------------------


class Calling(torch.nn.Module):
    """Calls what is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = compiled(torch.nn.Linear(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return decorated(self.inner(x))


TARGETS = {"function": lambda: compiled(plain), "module": lambda: compiled(torch.nn.Linear(3, 3)), "calling": Calling}


@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("trace", ["symbolic_trace", "script", "strict export", "export", "stock"])
def test_traced_by_torch(trace: str, target: str, used: bool) -> None:
    made: Any = TARGETS[target]()
    expected = made(X) if used else copy.deepcopy(made)(X)
    match trace:
        case "symbolic_trace":
            if target == "calling":
                made.inner = torch.nn.Linear(3, 3)
                expected = copy.deepcopy(made)(X)
            traced = torch.fx.symbolic_trace(made)
            assert sum(node.op.startswith("call") for node in traced.graph.nodes) > 0
        case "script":
            traced = torch.jit.script(made)
        case "stock":
            torch.compiler.reset()
            traced = torch.compile(made, backend="eager", fullgraph=True)
        case _ if target == "function":
            pytest.raises(ValueError, torch.export.export, made, (X,))  # as for the function that it was made of
            return
        case _:
            traced = torch.export.export(made, (X,), strict=trace == "strict export").module()
    assert torch.equal(traced(X), expected) and torch.equal(made(X), expected)


# ---- functions that wait between calls -------------------------------------------------------------------------------


def generate(x):
    received = yield x + 1
    yield received


async def answer(x):
    return x + 1


async def generate_answers(x):
    yield x + 1


@pytest.mark.parametrize("function", [generate, answer, generate_answers])
def test_functions_that_wait_run_eagerly(function: Any, caplog: pytest.LogCaptureFixture) -> None:
    made = onegraph.compile(function)
    (record,) = caplog.records
    assert record.levelname == "WARNING" and f"'{function.__name__}'" in record.getMessage()
    assert "runs eagerly" in record.getMessage()
    for question in (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction):
        assert question(made) == question(function)
    with pytest.raises(onegraph.InvalidArgument, match=function.__name__):
        onegraph.compile(function, fullgraph=True)
    with pytest.raises(onegraph.InvalidArgument, match=function.__name__):
        onegraph.explain(function)


def test_what_such_functions_do() -> None:
    @onegraph.compile
    def numbers(x):
        received = yield x + 1
        yield received * 2

    started = numbers(X)
    assert torch.equal(next(started), X + 1) and torch.equal(started.send(X), X * 2)
    with pytest.raises(StopIteration):
        next(started)

    @onegraph.compile()
    async def result(x):
        return x + 1

    @onegraph.compile
    async def results(x):
        for n in range(2):
            yield x + n

    async def all_of_them() -> list[torch.Tensor]:
        return [await result(X), *[each async for each in results(X)]]

    assert [each.sum().item() for each in asyncio.run(all_of_them())] == [21.0, 15.0, 21.0]

    class Thing:
        @onegraph.compile
        def items(self, x):
            yield self, x

    thing = Thing()
    assert next(thing.items(3)) == (thing, 3)


def test_a_function_around_a_generator_function_is_compiled() -> None:
    @functools.wraps(generate)
    def wrapper(x):
        return next(generate(x * 2))

    with Watch() as watch:
        assert torch.equal(compiled(wrapper)(X), X * 2 + 1)
    assert watch.of(ev.GraphCaptured)


class Documented(torch.nn.Module):
    """A module whose `forward` has a default, and documentation."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x, factor: int = 2):
        """Scale."""
        return self.layer(x) * factor


def test_forward_of_a_compiled_module_is_compiled() -> None:
    module = Documented()
    calls = []
    module.register_forward_hook(lambda *_: calls.append(1))
    compiled, x = onegraph.compile(module, fullgraph=True), torch.randn(2, 3)
    with Watch() as watch:
        for _ in range(2):
            assert torch.allclose(compiled.forward(x), module.forward(x))
        assert torch.allclose(compiled.forward(x, factor=3), module.forward(x, 3))
    assert watch.graphs and not calls
    assert inspect.signature(compiled.forward) == inspect.signature(module.forward)
    assert compiled.forward.__doc__ == "Scale."
    whole = onegraph.compile(lambda x: compiled.forward(x) + 1, fullgraph=True)
    assert torch.allclose(whole(x), module.forward(x) + 1)


@pytest.mark.parametrize("trace", [torch.fx.symbolic_trace, torch.jit.script, lambda m: torch.jit.trace(m, (X,))])
def test_tools_of_torch_look_into_a_compiled_module(trace: Any) -> None:
    module = Documented()
    assert torch.allclose(trace(onegraph.compile(module))(X), module(X))
