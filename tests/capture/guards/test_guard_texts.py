"""Guards read as conditions on the program's own expressions, and a recompilation says what is different."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from onegraph.capture.guards import guard
from onegraph.capture.guards.program import assemble
from onegraph.capture.guards.recompiling import explain_failure
from onegraph.capture.guards.source import Arg
from tests.capture.resume.test_breaks import Watch


class Config:
    def __init__(self, scale: int) -> None:
        self.scale = scale
        self.names = ["a", "b"]
        self.table = {"k": 1}


class Other(Config):
    pass


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.config = Config(3)
        self.act = torch.relu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        config = self.config
        return self.act(x) * config.scale + len(config.names) + config.table["k"] + config.table.get("z", 2)


def reasons(function: Callable[..., Any], *calls: tuple[Any, ...], **settings: Any) -> list[str]:
    onegraph.reset()
    compiled = onegraph.compile(function, backend="eager", **settings)
    with Watch() as watch:
        for args in calls:
            compiled(*args)
    return [event.reason for event in watch.of(ev.Recompiled)]


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (torch.ones(2, 3, dtype=torch.float64), "`x` was float32, is float64"),
        (torch.ones(3, 2), "`x` had size [2, 3], has [3, 2]"),
        (torch.ones(2), "`x` had size [2, 3], has [2]"),
        (torch.ones(3, 2).t(), "`x` had strides [3, 1], has [1, 2]"),
        (torch.ones(2, 3, requires_grad=True), "`x` did not require grad, does"),
        (torch.nn.Parameter(torch.ones(2, 3)), "`x` was a torch.Tensor, is a torch.nn.parameter.Parameter"),
        (torch.ones(2, 3, device="meta"), "`x` was on cpu, is on meta"),
        (None, "`x` was a tensor, is None"),
        ("text", "`x` was a tensor, is 'text'"),
        ([1], "`x` was a tensor, is a list"),
    ],
)
def test_what_a_tensor_was_and_is(other: Any, reason: str) -> None:
    assert reasons(lambda x: x is None, (torch.ones(2, 3),), (other,)) == [reason]


def unusual_tensors() -> list[torch.Tensor]:
    """Tensors that are told from others, but not captured: without sizes that are numbers, and, on an old torch, with
    names."""
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    return [nested, torch.ones(2, 3).rename("rows", "columns")] if hasattr(nested, "rename") else [nested]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_what_is_not_captured_is_told_from_what_was(backend: str) -> None:
    for other in unusual_tensors():
        compiled = onegraph.compile(lambda x: x.sin() * 2, backend=backend)
        compiled(torch.ones(2, 3))
        with Watch() as watch:
            found = compiled(other)
        assert str(found) == str(other.sin() * 2) and [e.code for e in watch.of(ev.GraphBroken)] == ["tensor-layout"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda model: setattr(model.config, "scale", 4), "`self.config.scale` was 3, is 4"),
        (lambda model: model.config.names.pop(), "`len(self.config.names)` was 2, is 1"),
        (lambda model: model.config.table.update(k=5), "`self.config.table['k']` was 1, is 5"),
        (lambda model: model.config.table.update(z=5), "`'z' not in self.config.table` holds no longer"),
        (
            lambda model: setattr(model, "config", Other(3)),
            f"`type(self.config)` was {__name__}.Config, is {__name__}.Other",
        ),
        (lambda model: setattr(model, "act", torch.sigmoid), "`self.act` was relu, is sigmoid"),
    ],
)
def test_what_an_attribute_was_and_is(change: Callable[[Model], None], reason: str) -> None:
    model, x = Model(), torch.ones(2)
    compiled = onegraph.compile(model, backend="eager")
    with Watch() as watch:
        compiled(x)
        change(model)
        compiled(x)
    assert [event.reason for event in watch.of(ev.Recompiled)] == [reason]


def test_what_a_global_a_number_and_an_identity_was_and_is() -> None:
    space: dict[str, Any] = {"SCALE": 3}
    exec("def scaled(x):\n    return x * SCALE\n", space)
    compiled, x = onegraph.compile(space["scaled"], backend="eager"), torch.ones(2)
    with Watch() as watch:
        compiled(x)
        space["SCALE"] = 4
        compiled(x)
    assert [event.reason for event in watch.of(ev.Recompiled)] == ["`SCALE` was 3, is 4"]
    assert reasons(lambda x, *rest: x + len(rest), (x,), (x, 1)) == ["`len(rest)` was 0, is 1"]
    assert reasons(lambda x, y: x if x is y else y, (x, x), (x, torch.ones(2))) == ["`y is x` holds no longer"]
    assert reasons(lambda x: x + 1, (x,)) == []


def test_sizes_are_written_as_calls() -> None:
    def long(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y if x.shape[0] > 4 else x - y

    pairs = [(torch.ones(n, 2), torch.ones(m, 2)) for n, m in ((6, 6), (7, 7), (3, 3), (5, 1))]
    onegraph.reset()
    compiled = onegraph.compile(long, backend="eager", dynamic=True)
    with Watch() as watch:
        for pair in pairs:
            compiled(*pair)
    assert [event.reason for event in watch.of(ev.Recompiled)] == [
        "`4 < x.size(0)` holds no longer",
        "`x.size(0) == y.size(0)` holds no longer",
    ]
    text = str(watch.of(ev.GuardsBuilt)[0].text())
    for line in ("x.size(0) == y.size(0)", "x.stride(0) == max(x.size(1), 1)", "4 < x.size(0)"):
        assert f"# {line}" in text


def test_what_is_computed_of_sizes_is_computed_once() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x[: int(x.shape[0] * 0.5 + y.shape[0])] + 1

    compiled = onegraph.compile(f, backend="eager")
    with Watch() as watch:
        for n in (8, 12):
            compiled(torch.ones(n), torch.ones(n // 4))
    text = str(watch.of(ev.GuardsBuilt)[-1].text())
    assert "  # 0 <= int(((x.size(0) * 0.5) + y.size(0)))\n" in text
    assert text.count("CALL ") == 1
    assert text.count("PAIR ") == 1


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ([torch.ones(3), torch.ones(3).double(), torch.ones(5)], "`x` had size [3], has [5]"),
        ([torch.ones(3, 1).double(), torch.ones(3), torch.ones(3, 1)], "`x` was float64, is float32"),
        ([torch.ones(3, requires_grad=True), torch.ones(3, 3), torch.ones(3)], "`x` required grad, does not"),
        ([torch.ones(3), None, torch.ones(3).double()], "`x` was float32, is float64"),
    ],
    ids=["size", "type", "gradient", "another type of object"],
)
def test_the_reason_is_that_of_the_closest_version(calls: list[Any], reason: str) -> None:
    def f(x: Any) -> Any:
        return x if x is None else x * 3

    assert reasons(f, *((x,) for x in calls), dynamic=False)[-1] == reason


def test_the_closest_version_is_that_of_which_most_holds() -> None:
    def f(x: torch.Tensor, mode: str, k: int) -> torch.Tensor:
        return x * k if mode == "a" else x + k

    x = torch.ones(2)
    assert reasons(f, (x, "a", 1), (x, "b", 1), (x, "a", 2), dynamic=False)[-1] == "`k` was 1, is 2"


def test_the_state_of_the_process() -> None:
    compiled, x = onegraph.compile(lambda x: x + 1, backend="eager"), torch.ones(2)
    with Watch() as watch:
        compiled(x)
        with torch.no_grad():
            compiled(x)
    assert [event.reason for event in watch.of(ev.Recompiled)] == ["the state of the process changed: grad_mode"]


def test_values_of_resume_functions_have_names_that_say_what_they_are() -> None:
    def half(x: torch.Tensor) -> torch.Tensor:
        return (x.cos(), onegraph.graph_break())[0].sin()

    x = torch.ones(2)
    assert reasons(half, (x,), (x.double(),)) == [
        "`x` was float32, is float64",
        "`<value 0 of the expression>` was float32, is float64",
    ]


def test_guards_are_conditions() -> None:
    def program(x: torch.Tensor, config: Config, flag: bool, kind: Any = None) -> torch.Tensor:
        for key in config.table:
            x = x + config.table[key]
        if flag and hasattr(config, "missing") and kind is not None:
            return x
        return x * max(config.scale, len(config.names))

    with Watch() as watch:
        onegraph.compile(program, backend="eager")(torch.ones(2, 3), Config(3), True)
    lines = dict.fromkeys(
        line.partition("# ")[2].partition("  (")[0] for line in watch.of(ev.GuardsBuilt)[0].text().splitlines()
    )
    assert [line for line in lines if not line.endswith(f"no global of {__name__}")] == [
        "state of the process",
        "the class Tensor is as it was",
        "the class Config is as it was",
        "hasattr, max, len of builtins are what they were",
        "x is a float32 tensor on cpu of size [2, 3] and strides [3, 1]",
        f"type(config) is {__name__}.Config",
        "flag is True",
        "kind is None",
        "type(config.table) is dict",
        "'missing' not in config.__dict__",
        "list(config.table) == ['k']",
        "config.table['k'] == 1",
        "config.scale == 3",
        "type(config.names) is list",
        "len(config.names) == 2",
    ]


def test_what_a_written_object_is_not_is_one_guard() -> None:
    """However many others there are: a cache of hundreds of tensors is looked at in microseconds."""

    def f(written, others, x):
        for other in others:
            x = x + other[0]
        written.append(x)
        return x

    lists = [[1], [2], [3], [4], [5]]
    with Watch() as watch:
        onegraph.compile(f, backend="eager")([], lists, torch.ones(2))
    (built,) = watch.of(ev.GuardsBuilt)
    apart = [line.partition("# ")[2] for line in built.text().splitlines() if line.startswith("DIFFERENT")]
    assert apart == ["written is none of others, others[0], others[1] and 3 others"]


class Even(guard.GuardKind):
    """A kind of guard that nothing else knows of: a number has this parity."""

    opcode = "CHECK"

    def text(self, guard: guard.Guard, what: str) -> str:
        return f"{what} % 2 == {guard.arg}"

    def check(self, program: guard.Program, guard: guard.Guard, register: int) -> None:
        program.emit(guard, self.opcode, program.const(lambda value: value % 2 == guard.arg), register)

    def difference(self, guard: guard.Guard, what: str, value: Any) -> str:
        return f"`{what}` was {'odd' if guard.arg else 'even'}, is {value}"


def test_a_new_kind_is_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(guard.KINDS, "even", Even())

    def frame(n: int) -> None: ...

    guards = guard.GuardSet()
    guards.add(guard.Guard(Arg(0, "n"), "even", 0))
    guards.add(guard.Guard(Arg(0, "n"), "type", int))
    program = assemble(guards, (), None, frame.__globals__)
    assert [str(each) for each in program.explanations[1:]] == ["type(n) is int", "n % 2 == 0"]
    assert [program.failing(frame, (value,)) is None for value in (2, 3, 2.0)] == [True, False, False]
    assert explain_failure([program], frame, (3,)) == ("`n` was even, is 3", None)
