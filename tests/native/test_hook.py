"""The frame hook: the code of a frame that starts in a region is replaced, and nothing else changes."""

from __future__ import annotations

import gc
import sys
import traceback
from types import FunctionType
from typing import Any

import pytest
from native.swap import Swapper, many_locals, many_locals_new, marked, simple, swapped, twin

from onegraph import _C
from onegraph.capture.guards.encode import encode

# ---- arguments ----


def test_the_code_is_replaced_and_the_entry_is_kept() -> None:
    function = twin(simple)
    swapper = Swapper({function: marked})
    region = swapper.region(function)
    assert region(1) == ("swapped", 1, 2, 3)
    assert region(5, c=7) == ("swapped", 5, 2, 7)
    assert swapper.asked == [("twin", (1, 2, 3))]
    (entry,) = _C.entries(function.__code__)
    assert entry.hits == 1 and entry.code is marked.__code__ and entry.context is swapper.context
    assert function(1) == 6, "outside a region the function is itself"


def posonly(a, b, /, c, d=4):
    return None


def posonly_new(a, b, /, c, d=4):
    return ("new", a, b, c, d)


def starred(a, *rest, k, m=5, **names):
    return None


def starred_new(a, *rest, k, m=5, **names):
    return ("new", a, rest, k, m, names)


@pytest.mark.parametrize(
    ("old", "new", "args", "kwargs"),
    [
        (posonly, posonly_new, (1, 2, 3), {}),
        (posonly, posonly_new, (1, 2), {"c": 3, "d": 9}),
        (starred, starred_new, (1,), {"k": 2}),
        (starred, starred_new, (1, 2, 3), {"k": 2, "z": 4}),
        (many_locals, many_locals_new, (3,), {}),
    ],
)
def test_all_kinds_of_arguments(old: Any, new: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    region = swapped(twin(old), new)
    for _ in range(3):
        assert region(*args, **kwargs) == new(*args, **kwargs)


def test_a_wrong_call_raises_as_ever() -> None:
    region = swapped(twin(posonly), posonly_new)
    with pytest.raises(TypeError, match="missing 3 required positional"):
        region()


# ---- cells and closures ----


def make_counter(start):
    total = start

    def old(step):
        nonlocal total
        total -= step
        return total

    def new(step):
        nonlocal total
        total += step
        return total

    return old, new


def test_each_closure_keeps_its_own_cells() -> None:
    (old_a, new_a), (old_b, _) = make_counter(0), make_counter(100)
    swapper = Swapper({old_a: new_a})
    a, b = swapper.region(old_a), swapper.region(old_b)
    assert [a(1), b(1), a(5), b(5)] == [1, 101, 6, 106]
    assert swapper.names == ["old"], "both closures share one code object"


def test_the_callback_sees_the_cells_of_free_variables_and_raw_arguments_that_become_cells() -> None:
    def outer(free):
        def inner(a, b):
            local = 1
            return lambda: (a, local, free)

        return inner

    function = outer("f")
    swapper = Swapper()
    assert swapper.region(function)(1, 2)() == (1, 1, "f")
    (_, values) = swapper.asked[0]
    names = function.__code__.co_varnames + function.__code__.co_cellvars + function.__code__.co_freevars
    assert values[:2] == (1, 2)
    assert values[-1] is function.__closure__[0]
    assert all(value is _C.NULL for value in values[2:-1]), names


def test_arguments_may_be_cells_in_one_code_and_not_in_the_other() -> None:
    def plain(a, b):
        return a + b

    def with_cell(a, b):
        return [(lambda: a)(), (lambda: b)()]

    assert swapped(twin(plain), with_cell)(1, 2) == [1, 2]
    assert swapped(twin(with_cell), plain)(1, 2) == 3


def test_super_without_arguments() -> None:
    class Base:
        def f(self):
            return "base"

    class Derived(Base):
        def f(self):
            return "old " + super().f()

        def g(self):
            return "new " + super().f()

    Derived.f = swapped(Derived.f, Derived.g)
    assert Derived().f() == "new base"


# ---- exceptions ----


def test_exceptions_and_tracebacks_of_the_replacement() -> None:
    def old(x):
        return x

    def new(x):
        return 1 / x

    region = swapped(old, new)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError) as caught:
            region(0)
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert frames[-1].name == "new" and frames[-1].line == "return 1 / x"
    assert sys.exc_info() == (None, None, None)


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_exception_of_the_callback_reaches_the_caller(kind: type[BaseException]) -> None:
    def callback(function, code, values):
        raise kind("from the callback")

    argument = object()
    references = sys.getrefcount(argument)
    region = _C.Region(lambda x: x, _C.Context(callback))
    for _ in range(5):
        with pytest.raises(kind, match="from the callback"):
            region(argument)
    del _
    gc.collect()
    assert sys.getrefcount(argument) == references
    assert _C.current_context() is None


def test_exception_state_of_the_caller_is_visible_to_the_replacement() -> None:
    def old():
        return None

    def new():
        return sys.exc_info()[1]

    region = swapped(old, new)
    try:
        raise KeyError("outer")
    except KeyError as error:
        assert region() is error and region() is error


@pytest.mark.parametrize(
    ("result", "message"),
    [(42, "must return an Entry, SKIP, EAGERLY or None, not int"), (_C.NULL, "must return an Entry")],
)
def test_a_wrong_answer_is_an_error(result: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        _C.Region(lambda: 1, _C.Context(lambda *args: result))()


@pytest.mark.parametrize(
    "replacement",
    [lambda: 1, lambda a, b: 1, lambda *a: 1, lambda a, **k: 1, lambda a, /: 1, lambda *, a: 1],
)
def test_a_replacement_with_other_arguments_is_refused(replacement: FunctionType) -> None:
    with pytest.raises(ValueError, match="takes other arguments"):
        swapped(lambda a: a, replacement)(1)


def test_a_replacement_that_suspends_or_needs_more_cells_is_refused() -> None:
    cell = 1

    def generator(a):
        yield a

    def coroutine(a): ...

    async def asynchronous(a):
        return a

    with pytest.raises(ValueError, match="generator or coroutine"):
        swapped(coroutine, generator)(1)
    with pytest.raises(ValueError, match="generator or coroutine"):
        swapped(coroutine, asynchronous)(1)
    with pytest.raises(ValueError, match="more free variables"):
        swapped(coroutine, lambda a: cell)(1)
    with pytest.raises(ValueError, match="not the code of a function"):
        swapped(lambda: 1, FunctionType(compile("1", "", "eval"), {}))()


def test_an_entry_of_another_context_is_refused() -> None:
    other = _C.Context(lambda *args: None)
    region = _C.Region(lambda: 1, _C.Context(lambda f, code, v: _C.Entry(code, None, other)))
    with pytest.raises(ValueError, match="another context"):
        region()


# ---- answers ----


def test_none_is_asked_again_and_skip_is_not() -> None:
    answers = [None, None, _C.SKIP]
    asked = []

    def callback(function, code, values):
        asked.append(values)
        return answers[len(asked) - 1]

    function = twin(simple)
    region = _C.Region(function, _C.Context(callback))
    assert [region(i) for i in range(6)] == [5, 6, 7, 8, 9, 10]
    assert len(asked) == 3


def test_skip_counts_for_one_context_only() -> None:
    function = twin(simple)
    first, second = Swapper(), Swapper({function: marked})
    assert first.region(function)(1) == 6
    assert second.region(function)(1) == ("swapped", 1, 2, 3)
    assert first.region(function)(1) == 6
    assert first.names == ["twin"] and second.names == ["twin"]


def test_skip_leaves_the_entries_in_use() -> None:
    is_int = encode([("ARG", 0, 0), ("TYPE_IS", 0, 0)], [int])
    function = twin(simple)
    context = _C.Context(
        lambda f, code, values: _C.Entry(marked.__code__, is_int, context) if values[0] == 1 else _C.SKIP
    )
    region = _C.Region(function, context)
    assert region(1) == ("swapped", 1, 2, 3)
    assert region(1.5) == 6.5
    assert region(2) == ("swapped", 2, 2, 3)


def test_entries_and_clear() -> None:
    function, other = twin(simple), twin(simple)
    first, second = Swapper({function: marked, other: marked}), Swapper({function: marked})
    for swapper in (first, second):
        swapper.region(function)(1)
    first.region(other)(1)
    assert len(_C.entries(function.__code__)) == 2
    assert len(_C.entries(function.__code__, first.context)) == 1
    assert set(first.context.codes()) == {function.__code__, other.__code__}
    first.context.clear(function.__code__)
    assert [e.context for e in _C.entries(function.__code__)] == [second.context]
    first.context.clear()
    assert _C.entries(other.__code__) == () and first.context.codes() == ()
    second.context.clear(other.__code__)
    assert first.region(function)(1) == ("swapped", 1, 2, 3)
    assert len(_C.entries(function.__code__)) == 2
    second.context.clear()
    first.context.clear(function.__code__)
    assert _C.entries(function.__code__) == ()


def test_wrong_arguments_are_refused() -> None:
    context = Swapper().context
    for call in (lambda: _C.entries(1), lambda: _C.entries(simple.__code__, 1), lambda: context.clear(1)):
        with pytest.raises(TypeError, match="not int"):
            call()


def test_an_entry_that_is_there_already_is_used_and_not_added_again() -> None:
    function = twin(simple)
    never = encode([("ARG", 0, 0), ("IS", 0, 0)], [object()])
    context = _C.Context(lambda *args: entry)
    entry = _C.Entry(marked.__code__, never, context)
    region = _C.Region(function, context)
    assert [region(1) for _ in range(3)] == [("swapped", 1, 2, 3)] * 3
    assert _C.entries(function.__code__) == (entry,)


def test_the_first_entry_that_fits_is_run() -> None:
    function = twin(lambda x: x, "pick")
    versions = {int: lambda x: "int", str: lambda x: "str", float: lambda x: "float"}

    def callback(f, code, values):
        kind = type(values[0])
        program = encode([("ARG", 0, 0), ("TYPE_IS", 0, 0)], [kind])
        return _C.Entry(versions[kind].__code__, program, context)

    context = _C.Context(callback)
    region = _C.Region(function, context)
    for value in (1, "a", 1.0, 2, "b", 2.0, 3):
        assert region(value) == type(value).__name__
    assert [entry.hits for entry in _C.entries(function.__code__)] == [2, 1, 1]
