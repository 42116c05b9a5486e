"""Which frames the hook replaces, and what others see of it: frame objects, the user's tracing, native callers."""

from __future__ import annotations

import asyncio
import functools
import operator
import sys
import threading
import weakref
from typing import Any

from native.swap import Swapper, many_locals, many_locals_new, swapped, twin

from onegraph import _C

# ---- which frames ----


def test_callees_are_seen_and_recursion_goes_through_the_hook_again() -> None:
    def helper(n):
        return ("old", n)

    def helper_new(n):
        return ("new", n)

    def countdown(n):
        return [helper(n)] if n == 0 else [helper(n), *countdown(n - 1)]

    swapper = Swapper({helper: helper_new})
    assert swapper.region(countdown)(3) == [("new", 3), ("new", 2), ("new", 1), ("new", 0)]
    assert swapper.names == ["countdown", "helper"]


def test_a_replacement_calls_the_original_by_name() -> None:
    def original(n):
        raise AssertionError(fib)

    def replacement(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    fib = swapped(original, replacement)
    assert fib(12) == 144


def test_frames_entered_from_native_code_are_seen() -> None:
    class Item:
        def __init__(self, key):
            self.key = key

        def __lt__(self, other):
            return self.key < other.key

        def __getattr__(self, name):
            return name

        @property
        def prop(self):
            return "prop"

    def key(x):
        return -x

    def work():
        assert sorted([1, 3, 2], key=key) == [3, 2, 1]
        assert sorted([Item(2), Item(1)])[0].key == 1
        assert list(map(key, (1, 2))) == [-1, -2]
        assert functools.partial(key, 4)() == -4
        assert functools.reduce(lambda a, b: a + b, [1, 2, 3]) == 6
        assert Item(1).prop == "prop" and Item(1).missing == "missing"
        assert operator.methodcaller("__lt__", Item(2))(Item(1))

    swapper = Swapper()
    swapper.region(work)()
    assert {"work", "key", "__init__", "__lt__", "prop", "__getattr__", "<lambda>"} <= set(swapper.names)


def test_generators_and_coroutines_are_left_alone_but_what_they_call_is_not() -> None:
    def helper(n):
        return n

    def helper_new(n):
        return n * 10

    def generator(n):
        for i in range(n):
            yield helper(i)

    async def coroutine(n):
        await asyncio.sleep(0)
        return helper(n)

    async def agen(n):
        yield helper(n)

    async def consume():
        return [x async for x in agen(3)] + [await coroutine(2)]

    def work():
        return list(generator(3)), sum(helper(i) for i in range(3)), asyncio.run(consume())

    swapper = Swapper({helper: helper_new})
    assert swapper.region(work)() == ([0, 10, 20], 30, [30, 20])
    assert not {"generator", "coroutine", "agen", "consume", "<genexpr>"} & set(swapper.names)


def test_a_generator_that_was_started_in_a_region_may_end_outside() -> None:
    def generator():
        yield 1
        yield 2

    swapper = Swapper()
    running = swapper.region(generator)()
    assert next(running) == 1 and list(running) == [2]


def test_class_bodies_and_module_code_are_left_alone() -> None:
    def work():
        class Local:
            x = 1

        exec("y = 1", {})
        return Local.x

    swapper = Swapper()
    assert swapper.region(work)() == 1
    assert swapper.names == ["work"]


def test_frame_objects_and_locals_of_the_replacement() -> None:
    def old(a):
        return a

    def new(a):
        b = a + 1
        frame = sys._getframe()
        assert frame.f_code.co_name == "new" and frame.f_locals["b"] == b
        assert frame.f_back.f_code.co_name == "test_frame_objects_and_locals_of_the_replacement"
        return frame, dict(locals())

    region = swapped(old, new)
    for _ in range(2):
        frame, names = region(1)
        assert frame.f_locals["a"] == 1 and frame.f_lineno > new.__code__.co_firstlineno
        assert {"a", "b"} <= set(names)


def test_a_frame_object_that_exists_before_the_swap() -> None:
    frames = []

    def small(a):
        return a

    def callback(function, code, values):
        frames.append(sys._getframe(1))  # from 3.13 on the frame that is asked about
        return _C.Entry(many_locals_new.__code__, None, context)

    context = _C.Context(callback)
    region = _C.Region(small, context)
    for _ in range(3):
        assert region(1) == many_locals_new(1)
    assert len(frames) == 1 and frames[0].f_locals is not None


def test_arguments_are_released() -> None:
    class Argument:
        pass

    swapper = Swapper({many_locals: many_locals_for_objects})
    region = swapper.region(twin(many_locals, "many_locals"))
    argument = Argument()
    reference = weakref.ref(argument)
    assert [region(argument) for _ in range(3)] == [2, 2, 2]
    swapper.asked.clear()
    del argument
    assert reference() is None


def many_locals_for_objects(a):
    b = c = [a]
    return len(b) + len(c)


# ---- frames that cannot grow ----


def test_every_frame_is_replaced_also_where_the_data_stack_has_no_room_left() -> None:
    """A chain of 300 different functions, each replaced by code with a much larger frame at its first call: some of
    the frames stand at the end of a chunk of the data stack."""
    count, source, wide = 300, [], ", ".join(f"x{i}" for i in range(300))
    for i in range(count):
        source.append(f"def old{i}(n, *rest, k=0, **names): return 'not replaced'")
        source.append(
            f"def new{i}(n, *rest, k=0, **names):\n"
            f"    assert (rest, k, names) == ((n,), n + 1, {{'z': n}})\n"
            f"    {wide} = range(300)\n"
            f"    below = call(n)\n"
            f"    return below + (x299 == 299)"
        )
    namespace: dict[str, Any] = {}
    exec("\n".join(source), namespace)
    chain = [namespace[f"old{i}"] for i in range(count)]
    namespace["call"] = lambda n: chain[n + 1](n + 1, n + 1, k=n + 2, z=n + 1) if n + 1 < count else 0
    swapper = Swapper({namespace[f"old{i}"]: namespace[f"new{i}"] for i in range(count)})
    threading.stack_size(64 << 20)
    results: list[Any] = []
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10000)
    try:
        for _ in range(2):
            thread = threading.Thread(target=lambda: results.append(swapper.region(chain[0])(0, 0, k=1, z=0)))
            thread.start()
            thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(0)
    assert results == [count, count]


# ---- tracing and profiling by the user ----


def test_settrace_and_setprofile_see_the_replacement_and_not_the_callback() -> None:
    def old(a):
        return a

    def new(a):
        b = a
        return b

    def record(install, region):
        events = []

        def trace(frame, event, arg):
            if frame.f_code.co_filename == __file__:
                events.append((frame.f_code.co_name, event))
            return trace

        install(trace)
        try:
            region(1)
        finally:
            install(None)
        return [event for event in events if event[0] not in ("record",)]

    for install, expected in (
        (sys.settrace, [("new", "call"), ("new", "line"), ("new", "line"), ("new", "return")]),
        (sys.setprofile, [("new", "call"), ("new", "return")]),
    ):
        region = swapped(twin(old), new)
        for _ in range(2):
            assert record(install, region) == expected
