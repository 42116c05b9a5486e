"""Resuming behind a break, wherever it happens: results, output, effects and exceptions as in eager mode."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import sys
import traceback
import types
import unittest
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch
from tests.capture.test_small_programs import tree_equal


def show(*what: Any) -> None:
    print(*what)


class Guarded:
    """A context manager that notes what happens, and swallows ValueError if told."""

    def __init__(self, log: list[Any], swallow: bool = False) -> None:
        self.log, self.swallow = log, swallow

    def __enter__(self) -> Guarded:
        self.log.append("enter")
        return self

    def __exit__(self, kind: Any, value: Any, tb: Any) -> bool:
        self.log.append(("exit", kind and kind.__name__, str(value)))
        return self.swallow and isinstance(value, ValueError)


def fail(kind: type[BaseException], message: str) -> None:
    print("failing", kind.__name__)
    raise kind(message)


def in_try(x, log):
    y = x + 1
    try:
        print("body")
        y = y * 2
    except ValueError:
        y = y * 3
    else:
        y = y - 1
    finally:
        y = y + 5
    return y * 2


def raised_in_try(x, log):
    y = x + 1
    try:
        y = y * 2
        fail(ValueError, "native")
        y = y * 100
    except KeyError:
        y = y * 3
    except ValueError as error:
        log.append(str(error))
        y = y + len(str(error))
    finally:
        y = y.sin()
    return y * 2


def in_except(x, log):
    try:
        raise KeyError("k")
    except KeyError as error:
        y = x * 2
        print("handling", error.args, sys.exc_info()[0].__name__)
        y = y + 1
        log.append(error.args)
    return y * 3


def in_finally(x, log):
    try:
        y = x + 1
        raise ValueError("v")
    except ValueError:
        y = x + 2
    finally:
        print("finally")
        y = y.cos()
    return y


def bare_raise_behind_break(x, log):
    try:
        try:
            y = x * 2
            raise ValueError("inner")
        except ValueError:
            print("break")
            y = y * 3
            raise
    except ValueError as error:
        log.append(repr(error))
        return y + 1


def nested_tries(x, log):
    y = x
    for i in range(3):
        try:
            try:
                y = y + 1
                if i == 1:
                    fail(KeyError, "one")
                print("ok", i)
                y = y * 2
            except KeyError:
                y = y.tanh()
                print("caught", i)
                raise ValueError("two") from None
            finally:
                y = y + 0.5
                log.append(i)
        except ValueError as error:
            log.append(str(error))
            y = y - 1
    return y


def in_with(x, log):
    with Guarded(log) as g:
        y = x + 1
        print("in with")
        y = y * 2
        g.log.append("body")
    return y + 1


def raised_in_with(x, log):
    y = x + 1
    with Guarded(log, swallow=True), Guarded(log):
        y = y * 2
        fail(ValueError, "swallowed")
        y = y * 100
    return y + 1


def in_no_grad(x, log):
    y = x * 2
    with torch.no_grad():
        z = y * 3
        print(torch.is_grad_enabled())
        w = z + y
    return y + 1, w * 2, torch.is_grad_enabled()


def in_while(x, log):
    n = 0
    y = x
    while n < 3:
        y = y + n
        print(n)
        n += 1
        y = y * 2
    else:
        y = y - 1
    return y


def branch_on_tensor_in_loop(x, log):
    y = x
    for i in range(4):
        if y.sum() > 3:
            y = y / 2
            continue
        y = y + 1
        log.append(i)
    return y


def in_comprehension(x, log):
    parts = [x * i + len(str(show(i))) for i in range(3)]
    return torch.stack(parts) * 2


def in_lambda(x, log):
    f = lambda z: (show("lambda"), z * 2)[1] + 1  # noqa: E731
    return f(x + 1) * 3


class Runner:
    def __init__(self, k):
        self.k = k

    def run(self, z):
        z = z * self.k
        print("method", self.k)
        self.k += 1
        return z + self.k


def in_method(x, log):
    thing = Runner(3)
    return thing.run(x) + thing.run(x * 2)


def three_deep(x, log):
    def third(z):
        z = z + 1
        print("third")
        return z * 2

    def second(z):
        z = z - 1
        return third(z) + 3

    def first(z):
        return second(z * 2).sin()

    return first(x + 1) + x


def closure_cells(x, log):
    total = 0

    def add(n):
        nonlocal total
        total += n
        print("total", total)
        return total

    y = x + add(1)
    return y * add(2) + total


def exception_through_frames(x, log):
    def inner(z):
        z = z * 2
        fail(RuntimeError, "deep")
        return z

    def middle(z):
        try:
            return inner(z + 1)
        finally:
            log.append("cleanup")

    try:
        return middle(x)
    except RuntimeError as error:
        log.append(str(error))
        return x - 1


def handled_outside_seen_inside(x, log):
    def inner(z):
        z = z + 1
        log.append(traceback.format_exc().strip().splitlines()[-1])
        print(sys.exc_info()[0].__name__)
        return z * 2

    try:
        raise KeyError("outer")
    except KeyError:
        return inner(x) + 1


def suppressed(x, log):
    with contextlib.suppress(ValueError):
        y = x + 1
        fail(ValueError, "s")
    return y * 2


def match_statement(x, log):
    match {"a": [1, show("subject")]}:
        case {"a": [n, _]} if show("guard") is None:
            return x * n
        case _:
            return x


def unpacking_and_stack(x, log):
    return [x + 1, *(x * 2, show("inside")), {"k": (x - 1, show("again"))}][0:2], torch.add(
        x, x * (show("arg") is None)
    )


def recursion(x, log, n=3):
    if n == 0:
        print("bottom")
        return x
    return recursion(x + n, log, n - 1) * 2


def uncaught(x, log):
    y = x + 1
    log.append("before")
    fail(LookupError, "out")
    return y


PROGRAMS = [
    in_try, raised_in_try, in_except, in_finally, bare_raise_behind_break, nested_tries, in_with, raised_in_with,
    in_no_grad, in_while, branch_on_tensor_in_loop, in_comprehension, in_lambda, in_method, three_deep, closure_cells,
    exception_through_frames, handled_outside_seen_inside, suppressed, match_statement, unpacking_and_stack, recursion,
    uncaught,
]  # fmt: skip


def outcome(function: Callable[..., Any], x: torch.Tensor, capsys: Any) -> tuple[Any, ...]:
    log: list[Any] = []
    try:
        result = function(x.clone(), log)
    except LookupError as error:
        result = (type(error), error.args)
    return result, log, capsys.readouterr().out, torch.is_grad_enabled()


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_resumes(program: Callable[..., Any], backend: str, capsys: Any) -> None:
    onegraph.reset()
    compiled = onegraph.compile(program, backend=backend, options={"check_unchanged": True})
    with Watch() as watch:
        for _ in range(3):
            x = torch.rand(4)
            expected, found = outcome(program, x, capsys), outcome(compiled, x, capsys)
            assert tree_equal(expected, found), (expected, found)
    if program is not uncaught:
        assert not [event.reason for event in watch.of(ev.FrameSkipped)]
    assert watch.graphs


def test_three_deep_is_two_graphs(capsys: Any) -> None:
    onegraph.reset()
    compiled = onegraph.compile(three_deep, backend="eager")
    with Watch() as watch:
        compiled(torch.rand(3), [])
    assert len(watch.graphs) == 2 and capsys.readouterr().out == "third\n"


def test_arguments_of_a_long_display_are_read_behind_a_break() -> None:
    def f(x: torch.Tensor, a: float, b: str, c: int) -> tuple[torch.Tensor, list[Any]]:
        onegraph.graph_break()
        return x + 1, list({a: 1, b: 2, c: 3})

    assert onegraph.compile(f, backend="eager")(torch.zeros(1), 1.5, "b", 7)[1] == [1.5, "b", 7]


def test_each_place_of_a_helper_has_its_own_recompile_limit() -> None:
    source = "def helper(x):\n" + "".join(f"    print({n}); x = x + {n}\n" for n in range(12)) + "    return x\n"
    space: dict = {}
    exec(source, space)
    helper = space["helper"]

    def program(x):
        return helper(x) * 2

    compiled, x = onegraph.compile(program, backend="eager"), torch.ones(2)
    with Watch() as watch:
        for _ in range(2):
            assert torch.equal(compiled(x), program(x))
    assert watch.graphs == [1] * 11 + [2]
    assert not watch.of(ev.Recompiled) and not watch.of(ev.RecompileLimitReached)


class Counter:
    """What gives the next number each time that it is called."""

    count = 0

    def __call__(self) -> int:
        self.count += 1
        return self.count


ITERATORS: dict[str, Callable[[], Any]] = {
    "list": lambda: iter([1, 2]),
    "reversed list": lambda: reversed([1, 2]),
    "tuple": lambda: iter((1, 2)),
    "string": lambda: iter("ab"),
    "wide string": lambda: iter("\N{SNOWMAN}b"),
    "bytes": lambda: iter(b"ab"),
    "bytearray": lambda: iter(bytearray(b"ab")),
    "range": lambda: iter(range(2)),
    "dict": lambda: iter({1: 2, 3: 4}),
    "items": lambda: iter({1: 2, 3: 4}.items()),
    "reversed values": lambda: reversed({1: 2, 3: 4}.values()),
    "set": lambda: iter({1, 2}),
    "callable": lambda: iter(Counter(), 3),
    "group that was left": lambda: [group for _, group in itertools.groupby("aab")][0],
}


@pytest.mark.parametrize("drawn", [0, 1, 2, 3])
@pytest.mark.parametrize("make", ITERATORS.values(), ids=list(ITERATORS))
def test_an_iterator_crosses_a_break_as_far_as_it_has_come(make: Callable[[], Any], drawn: int) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, str, list[Any]]:
        iterator = make()
        for _ in range(drawn):
            next(iterator, None)
        onegraph.graph_break()
        return x + 1, type(iterator).__name__, list(iterator)

    assert onegraph.compile(f, backend="eager")(torch.zeros(2))[1:] == f(torch.zeros(2))[1:]


class Owner:
    pass


OWNER = Owner()


def bound_methods_of_natives(x: torch.Tensor) -> Any:
    found = (5).bit_length, (-3).__add__, (1.5).is_integer, "a,b".split, types.MethodType(list.append, [])
    named = types.MethodType(id, OWNER)
    y = x + 1
    onegraph.graph_break()
    found[4](1)
    return y, found[0](), found[1](2), found[2](), found[3](","), found[4].__self__, named() == id(OWNER)


def test_bound_methods_of_natives_cross_a_break() -> None:
    x = torch.ones(2)
    for backend in ("eager", "native"):
        compiled = onegraph.compile(bound_methods_of_natives, backend=backend)
        assert str(compiled(x)) == str(bound_methods_of_natives(x))


class Recent(collections.deque[Any]):
    def __iter__(self) -> Any:
        raise TypeError("not asked")


def test_subclasses_of_deque_cross_a_break() -> None:
    def f(x: torch.Tensor) -> Any:
        recent = Recent([1, x + 1, 3], 2)
        recent.name = "a"  # type: ignore[attr-defined]
        onegraph.graph_break()
        return recent.name, recent.maxlen, len(recent), recent[0], recent[1]  # type: ignore[attr-defined]

    assert str(onegraph.compile(f, backend="eager")(torch.ones(2))) == str(f(torch.ones(2)))


class Named(collections.namedtuple("Pair", "a b")):
    pass


class Part(functools.partial):  # type: ignore[type-arg]
    pass


class Bytes(bytearray):
    pass


WITH_ATTRIBUTES: dict[str, Callable[[], Any]] = {
    "tuple": lambda: Named(1, 2),
    "partial": lambda: Part(int, base=2),
    "plain partial": lambda: functools.partial(int, base=2),
    "bytearray": lambda: Bytes(b"ab"),
}


@pytest.mark.parametrize("kind", WITH_ATTRIBUTES)
def test_attributes_of_native_objects_cross_a_break(kind: str) -> None:
    def f(x: torch.Tensor) -> Any:
        made = WITH_ATTRIBUTES[kind]()
        made.name = "a"
        attributes = made.__dict__
        onegraph.graph_break()
        return x + 1, type(made), made, made.name, made.__dict__ is attributes

    assert str(onegraph.compile(f, backend="eager")(torch.ones(2))) == str(f(torch.ones(2)))


def test_tracing_makes_no_dictionary_for_a_partial_function() -> None:
    """One that has none is taken apart by another."""
    other = types.ModuleType("other")
    exec("class Part(__import__('functools').partial): pass", other.__dict__)
    inner = functools.partial(int, base=2)

    def f(x: torch.Tensor) -> Any:
        return x + 1, inner.func

    onegraph.compile(f, backend="eager")(torch.ones(2))
    assert functools.partial(inner, base=3).func is int


MADE_ANEW: dict[str, Callable[[int], Any]] = {
    "function": lambda number: lambda: number if False else 1,
    "function without variables": lambda number: eval("lambda: 1") if False else (lambda: 1),
    "sentinel": lambda number: object(),
}


@pytest.mark.parametrize("kind", MADE_ANEW)
def test_what_is_made_anew_in_each_call_is_compiled_once_behind_a_break(kind: str) -> None:
    def f(x: torch.Tensor) -> Any:
        made = MADE_ANEW[kind](1)
        other = made
        onegraph.graph_break()
        return x + 1, made is other, made() if callable(made) else 0

    graphs: list[Any] = []

    def backend(graph: Any, examples: Any) -> Any:
        graphs.append(graph)
        return graph

    compiled = onegraph.compile(f, backend=backend)
    for _ in range(3):
        assert str(compiled(torch.ones(2))) == str(f(torch.ones(2)))
    assert len(graphs) == 1


def test_functions_of_one_code_are_told_apart() -> None:
    def make(number: int) -> Callable[..., Any]:
        def made(value: Any, added: int = number, *, factor: int = number) -> Any:
            return value * factor + added + (UNIT if number == 3 else 1)

        made.__name__ = f"made_{number}"
        return made

    def f(x: torch.Tensor, function: Any, other: Any) -> Any:
        return function(x), function.__name__, function is other, {other: 1}.get(function)

    compiled = onegraph.compile(f, backend="eager")
    functions = [make(number) for number in (1, 2, 3, 1)]
    elsewhere = types.FunctionType(functions[2].__code__, {"UNIT": 100}, "elsewhere", (3,), functions[2].__closure__)
    elsewhere.__kwdefaults__ = {"factor": 3}
    for function in (*functions, elsewhere):
        assert str(compiled(torch.ones(2), function, functions[3])) == str(f(torch.ones(2), function, functions[3]))


UNIT = 10


@pytest.mark.parametrize("kind", MADE_ANEW)
def test_the_text_of_what_is_made_anew_is_its_own(kind: str) -> None:
    def f(x: torch.Tensor, value: Any) -> Any:
        return x + 1, repr(value), hash(value), {value: 1}, [value].index(value)

    compiled = onegraph.compile(f, backend="eager")
    for value in [MADE_ANEW[kind](1) for _ in range(3)]:
        assert str(compiled(torch.ones(2), value)) == str(f(torch.ones(2), value))


@onegraph.disable
def refuse() -> None:
    raise ValueError("refused")


class Expecting(unittest.TestCase):
    def check(self, number: int) -> None:
        with self.subTest(number=number):
            with self.assertRaises(ValueError) as caught:
                refuse()
            self.assertEqual(str(caught.exception), "refused")

    def runTest(self) -> None:
        for number in range(3):
            self.check(number)


def test_a_traceback_does_not_hold_what_lives_on_behind_the_break() -> None:
    """`assertRaises` clears the frames of the traceback, one of which has had the generator of `subTest`."""
    case, result = Expecting(), unittest.TestResult()
    case.runTest = onegraph.compile(case.runTest, backend="eager")  # type: ignore[method-assign]
    case.run(result)
    assert not result.errors and not result.failures


@pytest.mark.parametrize("asked", ["sorted(vars(thing))", "vars(thing if x.dim() else x)['q']", "'q' in dir(thing)"])
def test_a_function_that_asks_for_the_variables_of_an_object_resumes(asked) -> None:
    """With an argument, `vars` and `dir` do not look at the function that calls them."""
    space: dict[str, Any] = {"onegraph": onegraph, "SimpleNamespace": types.SimpleNamespace}
    exec(
        f"def f(x):\n    thing, y = SimpleNamespace(q=3), x + 1\n    onegraph.graph_break()\n    return {asked}, y * 2",
        space,
    )
    x = torch.rand(3)
    with Watch() as watch:
        assert tree_equal(space["f"](x), onegraph.compile(space["f"], backend="eager")(x))
    assert watch.graphs == [1, 1] and not watch.of(ev.FrameSkipped)


def test_a_graph_is_compiled_in_the_state_that_it_begins_in() -> None:
    """What comes before a break under no_grad, autocast and the like has been recorded for gradients."""
    seen = []

    def look(module, examples):
        seen.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_dtype()))
        return module

    def f(x, y):
        z = x * y
        with torch.no_grad(), torch.autocast("cpu"):
            torch.set_default_dtype(torch.float64)
            onegraph.graph_break()
            w = z * 2
        torch.set_default_dtype(torch.float32)
        return z, w

    for backend in (look, "aot_eager", "native"):
        x = torch.rand(3, requires_grad=True)
        z, w = onegraph.compile(f, backend=backend)(x, torch.ones(3))
        assert z.requires_grad and not w.requires_grad and not x.grad
        z.sum().backward()
        assert torch.equal(x.grad, torch.ones(3))
    assert seen[:2] == [(True, False, torch.float32), (False, True, torch.float64)]


def test_inference_mode_around_a_break_keeps_what_inputs_are() -> None:
    def f(x):
        with torch.inference_mode():
            leaf, y = x.is_leaf, x + 1
        try:
            y.add_(1)
        except RuntimeError as error:
            return leaf, str(error)

    for make in (lambda: torch.rand(3, requires_grad=True), lambda: torch.rand(3, requires_grad=True) * 2):
        assert onegraph.compile(f)(make()) == f(make())


def test_changes_of_what_is_recorded_are_not_lost() -> None:
    def detached(x):
        x.detach_()

    def made(x):
        return torch.ones(3, requires_grad=True) * x

    def parameter(x):
        with torch.no_grad():
            return torch.nn.Parameter(x), torch.nn.Parameter(None)

    for backend in ("eager", "aot_eager", "native"):
        x = torch.rand(3, requires_grad=True) * 2
        onegraph.compile(detached, backend=backend)(x)
        assert not x.requires_grad
        assert onegraph.compile(made, backend=backend)(x).requires_grad
        first, second = onegraph.compile(parameter, backend=backend)(x)
        assert torch.equal(first, x) and first.requires_grad and second.numel() == 0
    view = torch.rand(3)[1:]
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        onegraph.compile(detached)(view)
