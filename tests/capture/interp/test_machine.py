"""What a subclass and the maker of graph breaks rely on: overridable primitives, frames, steps, stops, aborts."""

from __future__ import annotations

import dis
import gc
import weakref
from types import CellType, FunctionType
from typing import Any

import pytest

from onegraph.capture.bytecode import NULL_FIRST, decode
from onegraph.capture.bytecode.frame import NULL, Abort, Frame, Stopped, Unsupported
from onegraph.capture.bytecode.ops import OPCODES
from onegraph.capture.interp.machine import Machine


class Recording(Machine):
    """Notes which primitives run."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []


def _record(name: str) -> None:
    original = getattr(Machine, name)

    def primitive(self: Recording, *args: Any, **kwargs: Any) -> Any:
        self.seen.append(name)
        return original(self, *args, **kwargs)

    setattr(Recording, name, primitive)


PRIMITIVES = """
load_global store_global delete_global load_name store_name delete_name load_cell store_cell delete_cell make_cell
getattr setattr delattr unary binary compare is_op contains getitem setitem delitem truth length iter next send unpack
unpack_ex format convert call call_python call_native call_type bind import_name import_from make_function build_class
list_extend set_update dict_update dict_merge star_arguments exception_matches match_group match_class match_keys
raise_exception raise_again enter_context make_generator set_add map_add super_arguments on_frame_enter on_frame_exit
on_raise
""".split()

for _name in PRIMITIVES:
    _record(_name)

GLOBAL = 1


def everything(data, obj):
    """Uses every primitive once at least."""
    global GLOBAL, TEMPORARY
    import contextlib
    from math import floor

    GLOBAL = GLOBAL + 0
    TEMPORARY = 1
    del TEMPORARY
    cell = 1

    def closure(n, *rest, key=2, **kw):
        nonlocal cell
        cell += n
        yield from range(n)
        yield key

    def drop():
        gone = 1

        def inner():
            nonlocal gone
            del gone

        return inner()

    class Base:
        field = floor(2.5)
        extra = field
        del extra

        def method(self):
            return 1

    class Child(Base):
        def __init__(self):
            self.made = super().method()

    drop()
    child = Child()
    child.made = -child.made
    del child.made
    total = [*data, *closure(2, *[1], **{"z": 1})]
    table = {**{"a": 1}, "b": [x for x in data], **{k: 1 for k in "c"}}
    table["d"] = table["a"]
    del table["d"]
    names = {x for x in {*data}}
    a, b, *c = data
    d, e = a, b
    d, e = (e, d) if e not in c or a is None else (d, e)
    text = f"{total!r:>5}{a:x}{a!s}" + str(len(names))
    with contextlib.suppress(KeyError):
        raise KeyError("x")
    try:
        try:
            raise ValueError("v")
        except ValueError:
            raise
    except (ValueError, TypeError):
        pass
    try:
        raise ExceptionGroup("g", [KeyError()])
    except* KeyError:
        pass
    match obj:
        case {"k": int(real=r)}:
            text += str(r)
    return text, d, e, not total, table, data is obj, max(*data)


def test_every_primitive_is_one_method() -> None:
    machine = Recording()
    assert machine.call(everything, ([1, 2, 3], {"k": 5}), {}) == everything([1, 2, 3], {"k": 5})
    unused = set(PRIMITIVES) - set(machine.seen)
    assert unused <= ({"enter_context"} if "LOAD_SPECIAL" in dis.opmap else set()), unused


def test_every_instruction_of_the_normal_form_has_a_handler() -> None:
    from onegraph.capture.bytecode.native import native

    assert not set(native.WRITE) - set(OPCODES)


def test_primitives_can_change_the_meaning() -> None:
    class Symbolic(Machine):
        def binary(self, op: str, a: Any, b: Any) -> Any:
            return f"({a} {op} {b})"

        def load_global(self, frame: Frame, name: str) -> Any:
            return 42 if name == "unknown_name" else super().load_global(frame, name)

    def f(x, y):
        def inner(z):
            return z * unknown_name  # noqa: F821

        return x + inner(y)

    assert Symbolic().call(f, ("a", "b"), {}) == "(a + (b * 42))"


def start(machine: Machine, function: FunctionType, **values: Any) -> Frame:
    return machine.make_frame(decode(function.__code__), function, values)


def test_frame_shows_its_state() -> None:
    seen: list[tuple[str, Any]] = []

    class Watching(Machine):
        def getitem(self, container: Any, key: Any) -> Any:
            frame = self.frames[-1]
            seen.append(("frame", dict(frame.locals), {n: c.cell_contents for n, c in frame.cells.items()}))
            seen.append(("parents", [f.function.__name__ for f in self.frames]))
            seen.append(("line", frame.position[0] - frame.bytecode.code.co_firstlineno))
            assert frame.bytecode.instrs[frame.ip].op == "BINARY_SUBSCR"
            return super().getitem(container, key)

    def outer(n):
        captured = n * 2

        def inner(items):
            own = captured
            return items[0] + own

        return inner([n])

    assert Watching().call(outer, (3,), {}) == 9
    assert seen == [
        ("frame", {"items": [3], "own": 6}, {"captured": 6}),
        ("parents", ["outer", "inner"]),
        ("line", 2),
    ]


def test_stop_at_any_step_and_look() -> None:
    def f(n):
        total = 0
        for i in range(n):
            total += i
        return total

    machine = Machine()
    whole = start(machine, f, n=5)
    assert machine.run_frame(whole) == 10
    states = set()
    for step in range(whole.steps):
        frame = start(Machine(), f, n=5)
        frame.stop_at = step
        with pytest.raises(Stopped) as stopped:
            Machine.run_frame(machine, frame)
        assert stopped.value.frame is frame and frame.steps == step and not machine.frames
        states.add((frame.ip, frame.locals.get("total"), len(frame.stack)))
    assert len(states) > 20


def test_steps_count_caught_exceptions() -> None:
    def f():
        n = 0
        for x in (1, 0, 2):
            try:
                n += 1 / x
            except ZeroDivisionError:
                n += 100
        return n

    machine = Machine()
    frame = start(machine, f)
    assert machine.run_frame(frame) == f()
    again = start(machine, f)
    again.stop_at = frame.steps - 1
    with pytest.raises(Stopped):
        machine.run_frame(again)
    assert again.bytecode.instrs[again.ip].op == "RETURN_VALUE" and again.locals["n"] == f()


def test_abort_runs_no_handlers() -> None:
    log = []

    class Break(Abort):
        pass

    class Breaking(Machine):
        def getitem(self, container: Any, key: Any) -> Any:
            raise Break

    def gen(d):
        try:
            yield d["k"]
        finally:
            log.append("generator")

    def f(d):
        try:
            with_manager = list(gen(d))
            return with_manager
        except BaseException:
            log.append("except")
        finally:
            log.append("finally")

    machine = Breaking()
    with pytest.raises(Break) as broken:
        machine.call(f, ({"k": 1},), {})
    assert log == [] and machine.frames == []
    assert [frame.function.__name__ for frame in broken.value.frames] == ["f", "gen"]
    assert broken.value.frames[1].bytecode.instrs[broken.value.frames[1].ip].op == "BINARY_SUBSCR"


def test_abort_ends_suspended_generators_quietly() -> None:
    log = []

    class Breaking(Machine):
        def getitem(self, container: Any, key: Any) -> Any:
            raise Abort

    def gen():
        try:
            yield 1
        finally:
            log.append("finally")

    def f(d):
        g = gen()
        next(g)
        return d["k"]

    machine = Breaking()
    with pytest.raises(Abort):
        machine.call(f, ({},), {})
    gc.collect()
    assert log == []
    assert list(machine.call(gen, (), {})) == [1] and log == ["finally"]


def test_abandoned_generators_end_quietly() -> None:
    log = []

    def gen():
        try:
            yield 1
        finally:
            log.append("finally")

    machine = Machine()
    g = machine.call(gen, (), {})
    assert next(g) == 1
    machine.abandon()
    g.close()
    assert log == []


def test_frames_enter_and_leave() -> None:
    class Tracing(Machine):
        def __init__(self) -> None:
            super().__init__()
            self.log: list[tuple[str, str]] = []

        def on_frame_enter(self, frame: Frame) -> None:
            self.log.append(("enter", frame.function.__name__))

        def on_frame_exit(self, frame: Frame) -> None:
            self.log.append(("exit", frame.function.__name__))

    def gen():
        yield 1

    def f():
        return sum(gen())

    machine = Tracing()
    machine.call(f, (), {})
    resumed = [("enter", "gen"), ("exit", "gen")]
    assert machine.log == [("enter", "f"), *resumed, *resumed, *resumed, ("exit", "f")]


def test_callable_pair_in_native_order() -> None:
    stacks = []

    class Watching(Machine):
        def call(self, function: Any, args: Any, kwargs: Any, rest: Any = None) -> Any:
            if self.frames and len(self.frames) == 1:
                stacks.append([slot is NULL for slot in self.frames[0].stack])
            return super().call(function, args, kwargs, rest)

    def f(x):
        return x.upper(), len(x)

    assert Watching().call(f, ("a",), {}) == ("A", 1)
    assert stacks[0] == ([True, False] if NULL_FIRST else [False, True])


def test_given_cells_take_the_place_of_the_closure() -> None:
    value = 1

    def f():
        nonlocal value
        value += 1
        return value

    cell = CellType(10)
    machine = Machine()
    assert machine.run_frame(machine.make_frame(decode(f.__code__), f, {}, {"value": cell})) == 11
    assert (value, cell.cell_contents) == (1, 11)


def test_nothing_is_kept_alive() -> None:
    class Thing:
        pass

    refs = []

    def f(machine_refs):
        thing = Thing()
        machine_refs.append(weakref.ref(thing))
        try:
            raise ValueError(thing)
        except ValueError:
            pass
        return [x for x in (thing,) if x is None]

    machine = Machine()
    machine.call(f, (refs,), {})
    assert refs[0]() is None
    gc.disable()
    try:
        machine.call(f, (refs,), {})
        assert refs[1]() is None
    finally:
        gc.enable()


def test_asynchronous_code_is_refused_by_name() -> None:
    async def coroutine():
        return 1

    async def generator():
        yield 1

    for function in (coroutine, generator):
        with pytest.raises(Unsupported, match=function.__name__):
            Machine().call(function, (), {})


def test_recursion_limit_is_restored() -> None:
    import sys

    limit = sys.getrecursionlimit()

    def f(n):
        return n if n == 0 else f(n - 1)

    assert Machine().call(f, (300,), {}) == 0
    assert sys.getrecursionlimit() == limit
