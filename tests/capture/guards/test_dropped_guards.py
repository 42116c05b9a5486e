"""Each kind of guard and each kind of effect is needed: without it, a small program differs from eager.

The tests take one kind out at a time, from outside of the package, and expect the twin worlds to tell.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onegraph.autograd import runtime
from onegraph.capture.guards import guard as guards
from onegraph.capture.guards import program as guard_program
from onegraph.capture.guards.predicates import Predicate
from onegraph.capture.guards.process_groups import GroupIs, MeshIs
from onegraph.capture.heap import world
from onegraph.capture.heap.types import cells, deques, dicts, iterators, lists, objects, sets
from onegraph.capture.residual import rebuild as residual
from onegraph.capture.symbolic import shapes
from onegraph.capture.tracer import trace
from tests.fuzz.twin import Way, compare

OPERATIONS = Path(__file__).parents[3] / "csrc" / "guard_ops.def"
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
    "names": program(
        "return math.sqrt(4), x + 1",
        (ONE, f"math.sqrt = lambda n: 7 -> {ONE}", f"math.sqrt = SQRT -> {ONE}"),
        "import math\nSQRT = math.sqrt",
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
    check = guard_program.Assembler.check
    monkeypatch.setattr(
        guard_program.Assembler, "check", lambda self, guard: None if dropped(guard) else check(self, guard)
    )


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
    "Answers": program(
        "return torch.get_float32_matmul_precision(), x",
        (
            ONE,
            f"torch.set_float32_matmul_precision('high') -> {ONE}",
            f"torch.set_float32_matmul_precision('highest') -> {ONE}",
        ),
    ),
    "AbstractAnswers": asked(
        "isinstance(o, A)", "import abc\nclass A(abc.ABC): pass\nclass B: pass\no = B()", "A.register(B)"
    ),
    "UnsetSlot": asked("getattr(c, 'a', 0)", "class S: __slots__ = ('a',)\nc = S()", "c.a = 1"),
    "PlainBase": program(
        "with torch.no_grad(): y = x[:1]\nreturn y.requires_grad, y",
        ("(torch.ones(2, requires_grad=True),)", "(torch.ones(4)[:2].requires_grad_(),)"),
    ),
    "OwnStorages": program(
        "x.add_(w)\nreturn y.requires_grad, x",
        (
            "(torch.ones(2), torch.ones(4)[:2], torch.ones(2, requires_grad=True))",
            "(lambda t: (t[:2], t[2:], torch.ones(2, requires_grad=True)))(torch.ones(4))",
        ),
        "",
        "x, y, w",
    ),
    "Asked": program(
        "return n > 8.0, x + n", tuple(f"(torch.ones(2), {n})" for n in (3.5, 4.5, 5.5, 12.5)), "", "x, n"
    ),
}


#: For each function that is asked as a predicate, a program that needs it.
FUNCTIONS: dict[str, str] = {
    "is_empty": program(
        "try: n = get()\nexcept NameError: n = 0\nreturn n, x", (ONE, f"put() -> {ONE}", ONE),
        "def make():\n    def get(): return n\n    def put():\n        nonlocal n\n        n = 1\n    if 0: n = 0\n    return get, put\nget, put = make()",
    ),
    "fills_its_memory": program(
        "c['a'] = copy.deepcopy(x)\nreturn x + 1",
        (ONE, "(torch.ones(4)[:2],)", f"SEEN.append(c['a'].untyped_storage().nbytes()) -> {ONE}"),
        "import copy\nc, SEEN = {}, []",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_each_function_that_is_asked_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert same(FUNCTIONS[name])
    without(monkeypatch, lambda guard: guard.kind == "check" and getattr(guard.arg, "__name__", "") == name)
    assert not same(FUNCTIONS[name])


def parts(arg: Any) -> tuple[Any, ...]:
    return arg if isinstance(arg, tuple) else (arg,)


@pytest.mark.parametrize("name", sorted(PREDICATES))
def test_each_predicate_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert same(PREDICATES[name])
    without(monkeypatch, lambda guard: name in (type(part).__name__ for part in parts(guard.arg)))
    assert not same(PREDICATES[name])


SIZES = program("return (x + 1 if x.size(0) > 4 else x - 1)", (ONE, TWO, "(torch.ones(9),)", "(torch.ones(3),)"))
STATE = program("return torch.is_grad_enabled(), x + 1", (ONE, f"torch.set_grad_enabled(False) -> {ONE}", ONE))


def test_conditions_on_sizes_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert same(SIZES)
    monkeypatch.setattr(shapes.Symbols, "conditions", lambda self, location: ())
    assert not same(SIZES)


def without_check(monkeypatch: pytest.MonkeyPatch, dropped: str) -> None:
    """Take out an instruction of guard programs."""
    emit = guard_program.Assembler.emit
    monkeypatch.setattr(
        guard_program.Assembler,
        "emit",
        lambda self, why, opcode, *rest: None if opcode == dropped else emit(self, why, opcode, *rest),
    )


def nothing(*_: Any) -> list[str]:
    return []


def none(*_: Any) -> Iterator[Any]:
    return iter(())


def effect(body: str, setup: str) -> str:
    return program(f"{body}\nreturn x + 1", (ONE, ONE), setup)


#: For each way of writing: where it is, what takes it out, and a program that needs it.
EFFECTS: dict[str, tuple[Any, str, Any, str]] = {
    "dict": (dicts.Dicts, "write", nothing, effect("c['a'] = c.get('a', 0) + 1", "c = {}")),
    "set": (sets.Sets, "write", nothing, effect("c.add(len(c))", "c = set()")),
    "cell": (
        cells.Cells, "write", nothing,
        program("return step(), x + 1", (ONE, ONE), "def make():\n    n = 0\n    def step():\n        nonlocal n\n        n += 1\n        return n\n    return step\nstep = make()"),
    ),
    "list": (lists.Lists, "write", nothing, effect("c.append(1)", "c = []")),
    "deque": (deques.Deques, "write", nothing, effect("c.append(1)", "c = collections.deque()")),
    "draws": (residual, "write_draws", nothing, effect("next(c)", "c = iter([1, 2, 3])")),
    "slots": (world.World, "changed_slots", none, effect("c.a = 5", "class S: __slots__ = ('a',)\nc = S()\nc.a = 1")),
    "global": (world.World, "write_global", nothing, program("global n\nn += 1\nreturn n, x", (ONE,) * 3, "n = 0")),
    "attribute": (dicts.Dicts, "write", nothing, effect("c.n += 1", "class A: n = 0\nc = A()")),
    "item of a list": (lists.Lists, "write", nothing, effect("c[0] += 1", "c = [1, 2]")),
    "key that popitem takes": (dicts, "taken_out", lambda *_: ([], 0), effect("c.popitem()", "c = {1: 1, 2: 2, 3: 3}")),
    "key that is deleted": (dicts, "taken_out", lambda *_: ([], 0), effect("c.pop(1, 0)", "c = {1: 1, 2: 2}")),
    "attributes of what is made": (
        objects, "fill_attributes", nothing, program("c = A()\nc.n = 5\nreturn c, x", (ONE, ONE), "class A: pass")
    ),
    "place of an iterator": (
        iterators, "write_place", nothing, program("i = iter([1, 2, 3])\nnext(i)\nreturn i, x", (ONE, ONE))
    ),
    "written input": (runtime, "write_unrecorded", nothing, program("x.add_(1)\nreturn x + 1", (ONE, ONE))),
    "messages": (
        trace.Trace, "effects", nothing,
        effect("log.warning('said')", "import logging\nSAID = []\nclass H(logging.Handler):\n    def emit(self, record): SAID.append(record.msg)\nlog = logging.Logger('p')\nlog.addHandler(H())"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(EFFECTS))
def test_each_effect_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, without_it, text = EFFECTS[name]
    backend = "aot_eager" if owner is runtime else "eager"
    assert same(text, backend)
    monkeypatch.setattr(owner, attribute, without_it)
    assert not same(text, backend)


def test_each_kind_has_a_program() -> None:
    """A new kind of guard, or of predicate, comes with a program that needs it."""
    assert set(guards.KINDS) - set(KINDS) == {"together"}  # which has predicates
    # The value of a result is guarded too, autograd itself refuses writes to views of leaves, and without the last one
    # calls are slow. What else is in a wrapper changes in tests/capture/policy/test_wrappers.py, and groups of processes
    # in tests/distributed/test_groups.py.
    others = {"HasResult", "Rewritable", "AsExpected", "WrappedAlike", GroupIs.__name__, MeshIs.__name__}
    assert {kind.__name__ for kind in Predicate.__subclasses__()} - set(PREDICATES) == others


#: For each check of the evaluator, a program that needs it. Those that are not here have the name of a kind of guard.
CHECKS: dict[str, str] = {
    "TYPE_IS": KINDS["type"], "IS": KINDS["is"], "EQ": KINDS["equal"], "LEN": KINDS["length"], "KEYS": KINDS["keys"],
    "SAME": KINDS["same"], "DIFFERENT": KINDS["different"], "TENSOR": KINDS["tensor"], "HAS": KINDS["has"],
    "LACKS": KINDS["lacks"], "LACKS_ATTR": KINDS["lacks_attr"], "CHECK": KINDS["check"], "MEMORY": KINDS["memory"],
    "FACT": KINDS["class"],
    "HAS_AT": asked("k in c", "class A: pass\nk = A()\nc = {k: 1}", "c.clear()"),
    "LACKS_AT": asked("k in c", "class A: pass\nk = A()\nc = {}", "c.update({k: 1})"),
    "ICHECK": SIZES,
    "ISAME": program(
        "return (x + 1 if x.size(0) == y.size(0) else x - 1)",
        tuple(f"(torch.ones({a}), torch.ones({b}))" for a, b in ((2, 2), (3, 3), (4, 4), (4, 5))),
        parameters="x, y",
    ),
    "STATE": STATE,
}  # fmt: skip


def checks() -> set[str]:
    """The checks in the table of the evaluator's instructions: what writes no register."""
    rows = re.findall(r'^GUARD_OP\((\w+), "(\w+)"', OPERATIONS.read_text(), re.MULTILINE)
    return {name for name, operands in rows if operands[0] not in "de"}


@pytest.mark.parametrize("opcode", sorted(CHECKS))
def test_each_check_of_the_evaluator_is_needed(opcode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = "aot_eager" if opcode == "MEMORY" else "eager"
    assert same(CHECKS[opcode], backend)
    without_check(monkeypatch, opcode)
    assert not same(CHECKS[opcode], backend)


def test_each_check_has_a_program() -> None:
    assert checks() == set(CHECKS)
