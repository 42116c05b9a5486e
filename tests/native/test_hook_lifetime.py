"""Lifetimes, re-entry, recursion and threads: the hook under everything that runs Python in between."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import weakref
from types import CodeType
from typing import Any

import pytest
from native.swap import Swapper, marked, simple, swapped, twin

from onegraph import _C
from onegraph.capture.guards.encode import encode

# ---- memory ----


def test_no_leak_over_many_calls() -> None:
    def old(a, b):
        return a

    def new(a, b):
        c = [a, b]
        return c

    a, b = object(), object()
    region = swapped(old, new)
    region(a, b)
    before = sys.getrefcount(a), sys.getrefcount(b), sys.getrefcount(new.__code__), sys.getallocatedblocks()
    for _ in range(1_000_000):
        region(a, b)
    after = sys.getrefcount(a), sys.getrefcount(b), sys.getrefcount(new.__code__), sys.getallocatedblocks()
    assert before[:3] == after[:3] and abs(after[3] - before[3]) < 100


def test_a_code_object_lives_no_longer_for_being_known() -> None:
    swapper = Swapper()

    def known() -> weakref.ref[CodeType]:
        namespace: dict[str, Any] = {}
        exec("def f(x):\n    return x\n\ndef g(x):\n    return -x", namespace)
        swapper.codes = {namespace["f"].__code__: namespace["g"].__code__}
        assert swapper.region(namespace["f"])(1) == -1
        swapper.codes = {}
        swapper.asked.clear()
        assert len(swapper.context.codes()) == 1
        return weakref.ref(namespace["f"].__code__)

    reference = known()
    gc.collect()
    assert reference() is None and swapper.context.codes() == ()


def test_a_context_is_collected_with_all_that_was_compiled_for_it() -> None:
    class Graph(list):  # called by native code: no frame of its own
        __call__ = list.__len__

    function = twin(simple)

    def make() -> list[weakref.ref[Any]]:
        graph = Graph()

        def callback(f, code, values):
            # The replacement's constants lead to the graph, and the graph to the context: a cycle through code.
            constants = tuple(graph if c == "graph" else c for c in calls_graph.__code__.co_consts)
            return _C.Entry(calls_graph.__code__.replace(co_consts=constants), None, context)

        context = _C.Context(callback)
        graph.context = context
        region = _C.Region(function, context)
        graph.region = region
        assert region(7) == 0 and region(8) == 0
        return [weakref.ref(graph), weakref.ref(context), weakref.ref(region)]

    references = make()
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]
    assert _C.entries(function.__code__) == ()


def calls_graph(a, b=2, *, c=3):
    graph = "graph"
    return graph()


def test_clear_while_the_replacement_runs() -> None:
    def old():
        return None

    def new():
        _C.current_context().clear()
        gc.collect()
        return "done"

    swapper = Swapper({old: new})
    region = swapper.region(old)
    assert region() == "done" and region() == "done"
    assert swapper.names.count("old") == 2


def test_clear_from_within_guards() -> None:
    function = twin(simple)

    def clearing(value):
        swapper.context.clear(function.__code__)
        gc.collect()
        return value != 3

    program = encode([("ARG", 0, 0), ("CHECK", 0, 0)], [clearing])
    swapper = Swapper({function: marked}, program)
    region = swapper.region(function)
    assert [region(i)[1] for i in (1, 2, 3, 3)] == [1, 2, 3, 3]


# ---- re-entry ----


def test_the_callback_may_call_compiled_functions_and_compiles_no_others() -> None:
    def inner(x):
        return x

    inner_swapper = Swapper({inner: lambda x: x + 100})
    inner_region = inner_swapper.region(inner)

    def other(x):
        return x

    other_region = Swapper({other: lambda x: x + 100}).region(other)
    assert inner_region(1) == 101

    def callback(function, code, values):
        assert _C.current_context() is None
        assert (inner_region(1), other_region(1)) == (101, 1)
        seen.append(inspect.stack()[0].function)
        return _C.Entry(marked.__code__, None, context)

    seen: list[str] = []
    context = _C.Context(callback)
    function = twin(simple)
    assert _C.Region(function, context)(1) == ("swapped", 1, 2, 3)
    assert seen == ["callback"]
    assert other_region(1) == 101


def test_guards_may_run_python_which_is_not_asked_about() -> None:
    class Value:
        @property
        def flag(self):
            assert _C.current_context() is None
            return region(10) is not None

    function, other = twin(lambda v: "old", "f"), twin(simple)
    region = swapped(other, marked)
    program = encode([("ARG", 0, 0), ("ATTR", 1, 0, 0), ("IS", 1, 1)], ["flag", True])
    swapper = Swapper({function: lambda v: "new"}, program)
    outer = swapper.region(function)
    assert [outer(Value()) for _ in range(3)] == ["new"] * 3
    assert swapper.names == ["f"]


def test_a_raising_guard_fails_and_one_that_is_interrupted_raises() -> None:
    def broken(value):
        raise value("from a guard")

    program = encode([("ARG", 0, 0), ("CHECK", 0, 0)], [broken])
    function = twin(lambda v: "old", "f")
    swapper = Swapper({function: lambda v: "new"}, program)
    region = swapper.region(function)
    assert region(ValueError) == "new" and region(ValueError) == "new"
    assert len(swapper.asked) == 2
    for kind in (KeyboardInterrupt, MemoryError, RecursionError):
        with pytest.raises(kind):
            region(kind)
    assert _C.current_context() is None and region(ValueError) == "new"


# ---- recursion ----


def test_deep_recursion_ends_in_a_recursion_error() -> None:
    def original(n):
        return deep(n + 2)  # near the limit, the frames run as they were written

    def replacement(n):
        return deep(n + 1)

    deep = swapped(original, replacement)
    for _ in range(2):
        with pytest.raises(RecursionError):
            deep(0)


def test_recursion_to_a_depth_that_programs_use() -> None:
    def depth(n):
        return 0 if n == 0 else 1 + depth(n - 1)

    assert Swapper({depth: twin(depth)}).region(depth)(500) == 500


# ---- threads ----


def test_threads_in_regions_of_their_own() -> None:
    def old(i):
        return None

    def new(i):
        return i * 2

    swapper = Swapper({old: new}, encode([("ARG", 0, 0), ("TYPE_IS", 0, 0)], [int]))
    region = swapper.region(old)
    failures: list[Any] = []

    def work(k: int) -> None:
        outside = twin(simple)
        for i in range(3000):
            if region(i) != i * 2 or _C.current_context() is not None or outside(i) != i + 5:
                failures.append((k, i))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures


def test_another_thread_is_not_seen() -> None:
    def helper():
        return _C.current_context()

    def work():
        result = []
        thread = threading.Thread(target=lambda: result.append(helper()))
        thread.start()
        thread.join()
        return result

    swapper = Swapper()
    assert swapper.region(work)() == [None]
    assert "helper" not in swapper.names


def test_the_gil_is_handed_over_within_guards() -> None:
    """Two threads replace each other's values while both run guards that let go of the GIL."""
    holder = {"value": [1.5]}
    stop = threading.Event()

    def slow(value):
        threading.Event().wait(0.0002)
        return True

    program = encode(
        [("CONST", 0, 0), ("ITEM", 1, 0, 1), ("ITEM", 2, 1, 2), ("CHECK", 3, 2), ("TYPE", 3, 2), ("IS", 3, 4)],
        [holder, "value", 0, slow, float],
    )

    def replace() -> None:
        while not stop.is_set():
            holder["value"] = [float(len(holder))]

    function = twin(simple)
    region = Swapper({function: marked}, program).region(function)
    thread = threading.Thread(target=replace)
    thread.start()
    try:
        assert all(region(i) == ("swapped", i, 2, 3) for i in range(200))
    finally:
        stop.set()
        thread.join()


def test_after_the_region_python_calls_python_without_the_hook() -> None:
    swapper = Swapper()
    swapper.region(lambda: None)()
    calls = len(swapper.asked)
    twin(simple)(1)
    assert len(swapper.asked) == calls and _C.current_context() is None


# ---- calls in the place of the program's ----


def test_what_is_handed_over_belongs_to_the_frame_that_is_called() -> None:
    class Thing:
        pass

    seen: list[Any] = []

    def inner(first: Any, *rest: Any, last: Any = None) -> Any:
        reference = weakref.ref(first)
        first = None
        seen.append(reference() is None)
        return rest, last

    class Owner:
        def method(self, first: Any, number: int) -> Any:
            return inner(first, number)

    def outer() -> Any:
        inner(Thing())
        handed = _C.hand_over([inner, Thing(), 2, 3], ("last",))
        many = _C.hand_over([inner, Thing(), *range(20)])
        return handed, many, _C.hand_over([Owner().method, Thing(), 4]), _C.hand_over([max, 1, 2])

    found = Swapper().region(outer)()
    assert found == (((2,), 3), (tuple(range(20)), None), ((4,), None), 2)
    assert seen == [False, True, True, False]  # the first and the last are held by calls of the program's own
    given = [max, 1, 2]
    assert _C.hand_over(given) == 2 and given == []
    for wrong in ((), (inner,), ([],), ([inner],), ([3],), ([max, 1], ("key", "default")), ([max, 1], ["key"])):
        with pytest.raises(TypeError):
            _C.hand_over(*wrong)
