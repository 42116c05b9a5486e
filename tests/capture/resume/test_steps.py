"""Generators that a graph break leaves behind run in compiled steps, and are as they were written to all who look."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from onegraph.capture.bytecode import decode
from onegraph.capture.bytecode.flow import bound_names, slot_kinds
from onegraph.capture.resume.generator_steps import in_steps
from tests.capture.resume.test_breaks import Watch


def numbered(x: torch.Tensor, n: int) -> Iterator[Any]:
    try:
        for i in range(n):
            if i % 2:
                q = x * i
            got = yield x + i
            print("break", got, i)
            if got == "del":
                del q
            try:
                print(q.sum().item())
            except UnboundLocalError as error:
                print(error)
                try:
                    yield "inner"
                except KeyError as key:
                    print(repr(key), sys.exc_info()[0], repr(key.__context__))
                    yield key
            print(repr(sys.exc_info()[0]))
        return n
    finally:
        print("finally")


def sent_thrown_and_unbound(x: torch.Tensor) -> list[Any]:
    steps = numbered(x, 4)
    out = [next(steps)]
    print("break")
    out += [steps.send("a"), repr(steps.throw(KeyError("thrown"))), next(steps), steps.send("x"), steps.send("del")]
    try:
        while True:
            out.append(next(steps))
    except StopIteration as stop:
        out.append(stop.value)
    return out


def closed(x: torch.Tensor) -> Any:
    steps = numbered(x, 4)
    next(steps)
    print("break")
    next(steps)
    steps.close()
    return inspect.getgeneratorstate(steps), steps.gi_frame


class Base:
    def parts(self, x: torch.Tensor) -> Iterator[Any]:
        yield x * 2
        yield from [x, x + 1]


@contextlib.contextmanager
def handling(x: torch.Tensor) -> Iterator[torch.Tensor]:
    print("enter")
    try:
        yield x * 9
    except ValueError as error:
        print("caught", error)
    finally:
        print("leave")


class Derived(Base):
    def __init__(self) -> None:
        self.scale = 3

    def parts(self, x: torch.Tensor) -> Iterator[Any]:
        count = 0

        def add() -> int:
            nonlocal count
            count += 1
            return count

        yield add()
        print("counted", count)
        yield from super().parts(x * self.scale)
        add()
        print("counted", count)
        yield count, __class__.__name__  # type: ignore[name-defined]
        with handling(x) as value:
            yield value
            print("inside")
            yield value * count
        raise ValueError("at the end")


def methods_closures_and_delegation(x: torch.Tensor) -> list[Any]:
    steps = Derived().parts(x)
    out: list[Any] = [next(steps)]
    print("break")
    try:
        for value in steps:
            out.append(value)
            print(steps.gi_yieldfrom is None, steps.gi_frame.f_lineno)  # type: ignore[attr-defined]
    except ValueError as error:
        assert error.__traceback__ is not None
        entry = error.__traceback__.tb_next
        print(error, entry.tb_lineno, entry.tb_frame.f_code.co_name, entry.tb_next)  # type: ignore[union-attr]
    return out


def stop_iteration_inside(x: torch.Tensor) -> Any:
    def parts() -> Iterator[Any]:
        y = x + 1
        print("break")
        yield y
        print("break")
        raise StopIteration("inner")

    try:
        return list(parts())
    except RuntimeError as error:
        return str(error), repr(error.__cause__)


def recursive(x: torch.Tensor) -> list[Any]:
    def walk(tree: Any) -> Iterator[Any]:
        if isinstance(tree, list):
            for branch in tree:
                yield from walk(branch)
        else:
            print("leaf", tree)
            yield x * tree

    return list(walk([1, [2, [3, 4]], 5]))


def every_kind_of_argument(x: torch.Tensor) -> list[Any]:
    def parts(a: Any, *args: Any, k: int = 3, **kw: Any) -> Iterator[Any]:
        r = yield a + k
        print("break", args, kw, r)
        r2 = yield (yield (yield k * 2))
        print(max(1, (yield 2), *args))
        print(r2, a.sum(), f"{(yield 7)}")
        return x

    steps = parts(x, 1, 2, z=4)
    out = [next(steps)]
    print("break")
    try:
        while True:
            out.append(steps.send(len(out)))
    except StopIteration as stop:
        out.append(stop.value)
    return out


def what_lives(x: torch.Tensor) -> list[Any]:
    def parts() -> Iterator[int]:
        big = x * 2
        seen = weakref.ref(big)
        yield 1
        print("break", seen() is None)
        big = None
        print("break", seen() is None)
        yield 2
        print("break", seen() is None, big)

    steps = parts()
    next(steps)
    print("break")
    return list(steps)


PROGRAMS = [
    sent_thrown_and_unbound, closed, methods_closures_and_delegation, stop_iteration_inside, recursive,
    every_kind_of_argument, what_lives,
]  # fmt: skip


def outcome(function: Callable[..., Any]) -> tuple[str, str]:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            result = repr(function(torch.ones(2)))
        except Exception as error:
            result = repr(error)
    return re.sub("0x[0-9a-f]+", "", result), output.getvalue()


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_generator_in_steps_is_as_it_was_written(program: Callable[..., Any], backend: str) -> None:
    onegraph.reset()
    compiled = onegraph.compile(program, backend=backend)
    for _ in range(3):
        assert outcome(compiled) == outcome(program)


def test_operations_on_both_sides_of_a_break_in_a_generator_are_compiled() -> None:
    def parts(x: torch.Tensor) -> Iterator[torch.Tensor]:
        y = x + 1
        onegraph.graph_break()
        yield (y * 2).sin()
        y = y - 3
        onegraph.graph_break()
        yield (y * 5).cos().exp()

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        return list(parts(x))

    with Watch() as watch:
        onegraph.compile(program, backend="eager")(torch.ones(2))
    assert watch.graphs == [1, 2, 1, 3]
    assert not watch.of(ev.FrameSkipped)


def test_what_is_bound_and_on_the_stack() -> None:
    def parts(x: Any, print_it: bool) -> Iterator[Any]:
        if print_it:
            y = x
        try:
            print(1, (yield x))
        except ValueError:
            yield y

    bytecode = decode(parts.__code__)
    yields = [index for index, instr in enumerate(bytecode.instrs) if instr.op == "YIELD_VALUE"]
    kinds, bound = slot_kinds(bytecode), bound_names(bytecode)
    assert [sorted(kinds[index] or ()) for index in yields] == [
        ["null", "value", "value", "value"],
        ["handled", "value"],
    ]
    assert [bound[index] for index in yields] == [{"x", "print_it"}, {"x", "print_it"}]
    assert in_steps(bytecode) is not None


def test_a_method_that_waits_for_its_arguments_does_not_step() -> None:
    def parts(x: Any) -> Iterator[Any]:
        x.append((yield 1))

    assert in_steps(decode(parts.__code__)) is None
