"""Each kind of guard and each kind of effect is needed: without it, a small program differs from eager.

The tests take one kind out at a time, from outside of the package, and expect the twin worlds to tell.
"""

from __future__ import annotations

import typing
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onegraph.capture import guards, residual, trace, world
from tests.fuzz.twin import Way, compare

ONE, TWO = "(torch.ones(2),)", "(torch.ones(3),)"


def program(body: str, calls: tuple[str, ...], setup: str = "", parameters: str = "x") -> str:
    """A program of `f`, and the calls of it: `change -> arguments`."""
    lines = ["import collections, functools, types, torch", setup, f"def f({parameters}):"]
    lines += [f"    {line}" for line in body.splitlines()]
    for number, call in enumerate(calls):
        change, _, arguments = call.rpartition(" -> ")
        lines += [f"def call_{number}():", f"    {change or 'pass'}", f"    return {arguments}"]
    return "\n".join(lines)


def asked(question: str, setup: str, change: str) -> str:
    """A program that asks a global something, which changes between its calls."""
    return program(f"return {question}, x + 1", (ONE, f"{change} -> {ONE}", ONE), setup)


#: For each kind of guard, a program that needs it.
KINDS: dict[str, str] = {
    "is": program("return (1 if flag else 2), x + 1", ("(torch.ones(2), True)", "(torch.ones(2), False)"), "", "x, flag"),
    "type": program("return type(o).__name__, x + 1", ("(torch.ones(2), [])", "(torch.ones(2), ())"), "", "x, o"),
    "equal": program("return text, x + 1", ("(torch.ones(2), 'a')", "(torch.ones(2), 'b')"), "", "x, text"),
    "length": asked("len(c)", "c = [1]", "c.append(2)"),
    "keys": asked("list(c)", "c = {'a': 1}", "c.update(b=2)"),
    "same": program("return a is b, x + 1", ("(torch.ones(2), L, L)", "(torch.ones(2), L, [])"), "L = []", "x, a, b"),
    "different": program(
        "return a is b, x + 1", ("(torch.ones(2), L, [])", "(torch.ones(2), L, L)"), "L = []", "x, a, b"
    ),
    "tensor": program("return x.dtype, x + 1", (ONE, "(torch.ones(2, dtype=torch.float64),)")),
    "has": asked("'a' in c", "c = {'a': 1}", "c.clear()"),
    "lacks": asked("'a' in c", "c = {}", "c.update(a=1)"),
    "lacks_attr": asked("hasattr(c, 'a')", "def c(): pass", "c.a = 1"),
    "check": asked("sorted(c)", "c = {1, 2}", "c.add(3)"),
    "memory": program(
        "a.add_(1)\nreturn b * 2, a, x",
        ("(torch.ones(2), torch.ones(4)[:2], torch.ones(4)[2:])", "(lambda t: (torch.ones(2), t[:2], t[1:3]))(torch.ones(4))"),
        "", "x, a, b",
    ),
    "class": asked("bool(o)", "class A: pass\no = A()", "A.__bool__ = lambda self: False"),
}  # fmt: skip


def same(text: str, backend: str = "eager") -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compare(text, Way(backend)) is None


def without(monkeypatch: pytest.MonkeyPatch, dropped: Callable[[guards.Guard], bool]) -> None:
    """Take out the guards for which this holds, wherever they are from."""
    add = guards.GuardSet.add

    def drop(self: guards.GuardSet, guard: guards.Guard) -> None:
        if not dropped(guard):
            add(self, guard)

    monkeypatch.setattr(guards.GuardSet, "add", drop)
    check = guards.Assembler.check
    monkeypatch.setattr(guards.Assembler, "check", lambda self, guard: None if dropped(guard) else check(self, guard))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_kind_of_guard_is_needed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = "aot_eager" if kind == "memory" else "eager"
    assert same(KINDS[kind], backend)
    without(monkeypatch, lambda guard: guard.kind == kind)
    assert not same(KINDS[kind], backend)


#: For each class of predicates, a program that needs it.
PREDICATES: dict[str, str] = {
    "SameMembers": asked("sorted(c)", "c = {1, 2}", "c.add(3)"),
    "NoGlobalHooks": program(
        "return m(x)",
        (
            ONE,
            f"global h; h = torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: o + 1) -> {ONE}",
            f"h.remove() -> {ONE}",
        ),
        "m = torch.nn.Tanh()",
    ),
    "AtPlace": program("return x.storage_offset(), x + 1", ("(torch.ones(4)[:2],)", "(torch.ones(4)[2:],)")),
    "Asked": program(
        "return n > 8.0, x + n", tuple(f"(torch.ones(2), {n})" for n in (3.5, 4.5, 5.5, 12.5)), "", "x, n"
    ),
}


def parts(arg: Any) -> tuple[Any, ...]:
    return arg if isinstance(arg, tuple) else (arg,)


@pytest.mark.parametrize("name", sorted(PREDICATES))
def test_each_predicate_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert same(PREDICATES[name])
    without(monkeypatch, lambda guard: name in map(lambda part: type(part).__name__, parts(guard.arg)))
    assert not same(PREDICATES[name])


def test_conditions_on_sizes_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = program("return (x + 1 if x.size(0) > 4 else x - 1)", (ONE, TWO, "(torch.ones(9),)", "(torch.ones(3),)"))
    assert same(text)
    monkeypatch.setattr(trace.Trace, "conditions", lambda self: ())
    assert not same(text)


def test_the_state_of_the_process_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = program("return torch.is_grad_enabled(), x + 1", (ONE, f"torch.set_grad_enabled(False) -> {ONE}", ONE))
    assert same(text)
    emit = guards.Assembler.emit
    monkeypatch.setattr(
        guards.Assembler,
        "emit",
        lambda self, why, opcode, *rest: None if opcode == "STATE" else emit(self, why, opcode, *rest),
    )
    assert not same(text)


def nothing(*_: Any) -> list[str]:
    return []


def none(*_: Any) -> Iterator[Any]:
    return iter(())


def effect(body: str, setup: str) -> str:
    return program(f"{body}\nreturn x + 1", (ONE, ONE), setup)


def of(kind: type, write: Callable[..., list[str]]) -> Callable[..., list[str]]:
    return lambda self, entry: [] if isinstance(entry.shadow, kind) else write(self, entry)


WRITE = residual.Rebuild._write
#: For each way of writing: where it is, what takes it out, and a program that needs it.
EFFECTS: dict[str, tuple[Any, str, Any, str]] = {
    "dict": (residual.Rebuild, "_write_dict", nothing, effect("c['a'] = c.get('a', 0) + 1", "c = {}")),
    "set": (residual.Rebuild, "_write_set", nothing, effect("c.add(len(c))", "c = set()")),
    "cell": (
        residual.Rebuild, "_write_cell", nothing,
        program("return step(), x + 1", (ONE, ONE), "def make():\n    n = 0\n    def step():\n        nonlocal n\n        n += 1\n        return n\n    return step\nstep = make()"),
    ),
    "list": (residual.Rebuild, "_write", of(list, WRITE), effect("c.append(1)", "c = []")),
    "deque": (residual, "write_deque", nothing, effect("c.append(1)", "c = collections.deque()")),
    "draws": (residual, "write_draws", nothing, effect("next(c)", "c = iter([1, 2, 3])")),
    "slots": (world.World, "changed_slots", none, effect("c.a = 5", "class S: __slots__ = ('a',)\nc = S()\nc.a = 1")),
    "messages": (
        trace.Trace, "effects", nothing,
        effect("log.warning('said')", "import logging\nSAID = []\nclass H(logging.Handler):\n    def emit(self, record): SAID.append(record.msg)\nlog = logging.Logger('p')\nlog.addHandler(H())"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(EFFECTS))
def test_each_effect_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, without_it, text = EFFECTS[name]
    assert same(text)
    monkeypatch.setattr(owner, attribute, without_it)
    assert not same(text)


def test_kinds_without_a_program() -> None:
    """A new kind of guard comes with a program that needs it. `together` is among the predicates."""
    assert set(typing.get_args(guards.Kind)) - set(KINDS) == {"is_not", "together"}
