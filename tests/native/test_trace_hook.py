"""trace_hook: Python frames that start in native code come to the tracer."""

from __future__ import annotations

import threading
from types import CodeType, FunctionType
from typing import Any

import pytest
from native.swap import Swapper, many_locals, many_locals_new, twin

from onegraph import _C


class Tracer:
    def __init__(self, replacements: dict[CodeType, CodeType] | None = None) -> None:
        self.replacements = replacements or {}
        self.asked: list[str] = []

    def __call__(self, function: FunctionType, code: CodeType, values: tuple[Any, ...]) -> CodeType | None:
        self.asked.append(code.co_name)
        return self.replacements.get(code)


def key(x):
    return -x


def square(x):
    return x * x


def test_frames_started_by_native_code_are_replaced_for_this_time_only() -> None:
    tracer = Tracer({key.__code__: square.__code__})
    with _C.trace_hook(tracer):
        inside = list(map(key, [1, 2, 3])), sorted([3, -1, 2], key=key)
    assert inside == ([1, 4, 9], [-1, 2, 3])
    assert tracer.asked == ["key"] * 6
    assert list(map(key, [1, 2, 3])) == [-1, -2, -3]
    assert _C.entries(key.__code__) == ()


def test_a_frame_that_is_not_replaced_shows_what_it_calls_and_a_replaced_one_does_not() -> None:
    def caller(x):
        return key(x)

    tracer = Tracer()
    with _C.trace_hook(tracer):
        caller(1)
    assert tracer.asked == ["caller", "key"]
    tracer = Tracer({caller.__code__: twin(caller).__code__})
    with _C.trace_hook(tracer):
        caller(1)
        key(1)
    assert tracer.asked == ["caller", "key"]


def test_generator_functions_come_too_and_may_become_functions() -> None:
    def generator(n):
        yield n

    def function(n):
        return iter([n, n])

    tracer = Tracer({generator.__code__: function.__code__})
    with _C.trace_hook(tracer):
        result = [list(g) for g in map(generator, [1, 2])]
    assert (
        result == [[1, 1], [2, 2]]
        and tracer.asked == ["<listcomp>"] * ("<listcomp>" in tracer.asked) + ["generator"] * 2
    )


def test_tracing_comes_before_a_region_and_can_be_suspended() -> None:
    tracer, swapper = Tracer(), Swapper()

    def work(x):
        with _C.trace_hook(None):
            key(x)
        return key(x)

    region, disabled = swapper.region(work), _C.disabled(key)
    with _C.trace_hook(tracer):
        region(1)
        disabled(1)
    assert tracer.asked == ["work", "key"]
    assert swapper.names == ["key"], "where tracing is suspended, the region's own hook works"


def test_nested_tracers_and_exceptions() -> None:
    outer, inner = Tracer(), Tracer()

    def broken(function, code, values):
        raise ValueError("from the tracer")

    with _C.trace_hook(outer):
        with _C.trace_hook(inner):
            key(1)
        key(2)
        with pytest.raises(ValueError, match="from the tracer"), _C.trace_hook(broken):
            key(3)
        key(4)
    assert (outer.asked.count("key"), inner.asked.count("key")) == (2, 1)
    for answer, message in [(1, "must return a code object or None, not int"), (_C.SKIP, "not onegraph._C.Marker")]:
        with pytest.raises(TypeError, match=message), _C.trace_hook(lambda *args, answer=answer: answer):
            key(1)
    with pytest.raises(ValueError, match="takes other arguments"), _C.trace_hook(lambda *a: twin.__code__):
        key(1)


def test_the_tracer_itself_is_not_traced_nor_are_other_threads() -> None:
    def tracer(function, code, values):
        asked.append(code.co_name)
        return list(map(lambda c: c, [None]))[0]

    asked: list[str] = []
    with _C.trace_hook(tracer):
        thread = threading.Thread(target=lambda: key(1))
        thread.start()
        thread.join()
        key(1)
    assert "<lambda>" not in asked and "run" not in asked and asked[-1] == "key"


def test_opened_once_and_closed_where_it_was_opened() -> None:
    hook = _C.trace_hook(Tracer())
    with pytest.raises(RuntimeError, match="not open in this thread"):
        hook.__exit__(None, None, None)
    errors: list[Exception] = []

    def close() -> None:
        try:
            hook.__exit__(None, None, None)
        except RuntimeError as error:
            errors.append(error)

    with hook:
        with pytest.raises(RuntimeError, match="open already"):
            hook.__enter__()
        thread = threading.Thread(target=close)
        thread.start()
        thread.join()
    assert len(errors) == 1
    with hook:
        pass
    with pytest.raises(TypeError, match="must be callable or None, not int"):
        _C.trace_hook(1)


def test_a_larger_frame_is_always_found_room_for() -> None:
    tracer = Tracer({many_locals.__code__: many_locals_new.__code__})

    def deep(n: int) -> None:
        with _C.trace_hook(tracer):
            (result,) = map(many_locals, [n])
        assert result == many_locals_new(n)
        if n:
            deep(n - 1)

    deep(300)


class Asked:
    names: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        Asked.names.append(name)
        return object.__getattribute__(self, name)


def test_looking_at_a_class_calls_nothing_of_the_program() -> None:
    asked = Asked()
    Asked.names.clear()
    with _C.trace_hook(None):
        before = _C.looking(True)
        try:
            answers = [isinstance(asked, kind) for kind in (Asked, int, (str, list))]
            assert asked.names is Asked.names
        finally:
            _C.looking(before)
        assert answers == [True, False, False] and not before
        assert Asked.names == ["names"]
        assert not isinstance(asked, int)
        assert Asked.names == ["names", "__class__"]
