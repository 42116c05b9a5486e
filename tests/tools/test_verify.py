"""`onegraph.verify`: no difference on healthy programs, the right stage and operator for planted faults."""

from __future__ import annotations

import dataclasses
import runpy
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onegraph
from onegraph import backends
from onegraph.autograd.decompose import DECOMPOSITIONS
from onegraph.base.context import Context
from onegraph.base.pipeline import Pass
from onegraph.compiler import targets
from onegraph.compiler.cpu import CPU
from onegraph.compiler.lower import registry
from onegraph.ir.loop import Program
from onegraph.ir.loop_text import format_program, parse_program
from onegraph.tools.cli import main
from onegraph.tools.verification import narrow

aten = torch.ops.aten
network = nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)  # Adam makes steps of what rounding leaves
losses: list[float] = []
steps = 0


class Counter:
    calls = 0

    def __init__(self) -> None:
        self.total = torch.zeros(3)

    def add(self, x: Tensor) -> Tensor:
        Counter.calls += 1
        self.total += x
        return self.total * 2


def step(x: Tensor, labels: Tensor) -> Tensor:
    global steps
    steps += 1
    optimizer.zero_grad()
    loss = F.cross_entropy(network(x), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    return loss.detach()


def breaks(x: Tensor, log: dict[str, Any]) -> Tensor:
    log["sum"] = x.sum()
    onegraph.graph_break()
    x[0] = 7
    return x.mul_(torch.rand(3)) if log["sum"] > 0 else x


def writes_to_history(x: Tensor) -> Tensor:
    return x.relu_() * 3


def raises(x: Tensor) -> Tensor:
    x += 1
    raise ValueError(f"not for {len(x)}")


def test_a_step_of_training_leaves_no_trace() -> None:
    x, labels = torch.randn(6, 4), torch.tensor([0, 1, 1, 0, 1, 0])
    before, random = network[0].weight.detach().clone(), torch.get_rng_state()
    found = onegraph.verify(step)(x, labels)
    assert found and found.ok and found.stage == "" and str(found).endswith("with 1 graph.")
    assert torch.equal(before, network[0].weight) and network[0].weight.grad is None
    assert (losses, steps, dict(optimizer.state)) == ([], 0, {})
    assert torch.equal(network[1].running_mean, torch.zeros(8)) and network[1].num_batches_tracked == 0
    assert torch.equal(random, torch.get_rng_state())


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_program_that_breaks_and_writes(dynamic: bool | None) -> None:
    x, log = torch.ones(3), {}
    assert onegraph.verify(breaks, dynamic=dynamic)(x, log)
    assert torch.equal(x, torch.ones(3)) and log == {}


def test_an_argument_with_a_history() -> None:
    weight = torch.tensor([-1.0, 2.0], requires_grad=True)
    hidden = weight * 2
    assert onegraph.verify(writes_to_history)(hidden)
    hidden.sum().backward()
    assert torch.equal(weight.grad, torch.tensor([2.0, 2.0]))


def test_a_method_and_its_class() -> None:
    counter = Counter()
    assert onegraph.verify(counter.add)(torch.ones(3))
    assert Counter.calls == 0 and torch.equal(counter.total, torch.zeros(3))


def test_equal_exceptions_are_no_difference() -> None:
    x = torch.ones(2)
    found = onegraph.verify(raises)(x)
    assert found and str(found).endswith("Both raise ValueError: not for 2")
    assert torch.equal(x, torch.ones(2))


def test_what_is_compiled_already() -> None:
    compiled = onegraph.compile(network)
    assert onegraph.verify(compiled)(torch.randn(6, 4))


def test_bad_input() -> None:
    with pytest.raises(onegraph.InvalidArgument, match="cannot be called"):
        onegraph.verify(3)  # type: ignore[arg-type]
    with pytest.raises(onegraph.InvalidArgument, match="'file' expects a path"):
        onegraph.verify(step, file=3)  # type: ignore[arg-type]
    with pytest.raises(onegraph.InvalidArgument, match="unknown option 'verfy'"):
        onegraph.verify(step, options={"verfy": True})


def test_what_cannot_be_put_back() -> None:
    with pytest.raises(onegraph.InvalidArgument, match="'x' is an iterator"):
        onegraph.verify(raises)(iter([1]))  # type: ignore[arg-type]
    with pytest.raises(onegraph.InvalidArgument, match="weight has no size yet"):
        onegraph.verify(nn.LazyLinear(3))(torch.ones(2, 4))


# ---- planted faults --------------------------------------------------------------------------------------------------


def planted(x: Tensor, weight: Tensor) -> Tensor:
    hidden = (x * 2).relu() @ weight
    gate = torch.sigmoid(hidden)
    return gate.tanh() + 1


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(6, 4, generator=generator)
    return torch.randn(5, 6, generator=generator), weight.requires_grad_()


def expect(found: onegraph.tools.verify.Verification, stage: str, line: str) -> None:  # type: ignore[name-defined]
    assert not found and found.stage == stage, str(found)
    assert found.operator == "torch.sigmoid", str(found)
    assert found.location is not None and found.location.source_line() == line
    assert f"Stage: {stage}" in str(found) and line in str(found)


def exit_status(file: Path) -> Any:
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(file), run_name="__main__")
    return left.value.code


def test_a_lowering_that_is_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "sub" / "replay.py"
    with monkeypatch.context() as patch:
        patch.setitem(registry._TABLE, aten.sigmoid.default, registry._TABLE[aten.tanh.default])
        found = onegraph.verify(planted, file=file)(*inputs())
        expect(found, "lowering", "gate = torch.sigmoid(hidden)")
        assert [each.place for each in found.differences] == ["result", "gradient of weight"]
        assert found.file == file and "gate = torch.sigmoid" not in file.read_text()
        assert exit_status(file) == 1
    assert exit_status(file) == 0


def test_a_step_of_training_with_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.ones(3, 3, requires_grad=True)
    descent = torch.optim.SGD([weight], lr=0.1)

    def step(x: Tensor) -> Tensor:
        descent.zero_grad()
        gate = torch.sigmoid(x @ weight)
        loss = gate.sum()
        loss.backward()
        descent.step()
        return loss.detach()

    monkeypatch.setitem(registry._TABLE, aten.sigmoid.default, registry._TABLE[aten.tanh.default])
    expect(onegraph.verify(step)(torch.eye(3)), "lowering", "gate = torch.sigmoid(x @ weight)")
    assert torch.equal(weight, torch.ones(3, 3))


def test_a_region_with_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._TABLE, aten.sigmoid.default, registry._TABLE[aten.tanh.default])
    found = onegraph.verify(lambda x: torch.cond(x.sum() > 0, torch.sigmoid, torch.relu, (x,)))(torch.ones(3))
    assert (found.stage, found.operator) == ("lowering", "onegraph.torchlib.regions.cond")
    assert found.file is not None


def test_a_decomposition_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DECOMPOSITIONS, aten.sigmoid.default, lambda x: aten.tanh.default(x))
    expect(onegraph.verify(planted)(*inputs()), "decomposition", "gate = torch.sigmoid(hidden)")


def test_a_derivative_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DECOMPOSITIONS, aten.sigmoid_backward.default, lambda grad, out: grad * out)
    found = onegraph.verify(planted)(*inputs())
    expect(found, "differentiation", "gate = torch.sigmoid(hidden)")
    assert [each.place for each in found.differences] == ["gradient of weight"]


def test_a_pass_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(program: Program, cx: Context) -> Program:
        return parse_program(format_program(program).replace("sigmoid(", "tanh("))

    passes = tuple(Pass(each.name, wrong, "") if each.name == "close_gaps" else each for each in CPU.passes)
    changed = dataclasses.replace(CPU, passes=passes)
    monkeypatch.setitem(targets.TARGETS, "cpu", lambda device: changed)
    monkeypatch.setattr(backends, "CPU", changed)  # which Python evaluates
    found = onegraph.verify(planted)(*inputs())
    expect(found, "passes", "gate = torch.sigmoid(hidden)")
    assert found.fault is not None and found.fault.step == "close_gaps"


def double(x: Tensor) -> Tensor:
    return x * 2


def test_a_handler_that_is_off() -> None:
    def wrong(x: Tensor) -> Tensor:
        return x * 3

    def program(x: Tensor) -> Tensor:
        return original(x + 1) + 1

    def original(x: Tensor) -> Tensor:
        return x * 2

    onegraph.substitute_in_graph(original)(wrong)
    found = onegraph.verify(program)(torch.ones(3))
    assert (found.stage, found.operator) == ("capture", "mul"), str(found)
    assert found.location is not None and found.location.source_line() == "return x * 3"


def test_residual_code_that_is_off() -> None:
    def program(x: Tensor) -> tuple[Tensor, int]:
        return x + 1, 3 if torch.compiler.is_compiling() else 2

    found = onegraph.verify(program)(torch.ones(3))
    assert (found.stage, found.operator) == ("capture", "")
    assert [str(each) for each in found.differences] == ["result[1]: is 3, in eager 2"]


def test_one_of_them_raises() -> None:
    def broken(module: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        raise ValueError("no")

    found = onegraph.verify(double, backend=broken)(torch.ones(3))
    assert "the call: raises BackendError" in str(found) and "in eager it returns" in str(found)


def test_a_search_that_fails_keeps_what_was_found(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(narrow, "captured", broken)
    found = onegraph.verify(double, backend=rounding(lambda value: value + 1))(torch.ones(3))
    assert not found and found.fault is None and "could not find where" in caplog.text


# ---- rounding --------------------------------------------------------------------------------------------------------


def grows(x: Tensor) -> Tensor:
    for _ in range(200):
        x = x * 1.0371 + 0.1
    return x


def rounding(change: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """A backend that computes in double precision, and changes the result before it is rounded."""

    def backend(module: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        return lambda *given: [change(each).float() for each in module(*(each.double() for each in given))]

    return backend


def test_a_better_rounding_is_no_fault() -> None:
    x = torch.linspace(0.1, 1, 50)
    exact = rounding(lambda value: value)
    assert not torch.allclose(grows(x), onegraph.compile(grows, backend=exact)(x), rtol=1.3e-6, atol=1e-5)
    assert onegraph.verify(grows, backend=exact)(x)
    found = onegraph.verify(grows, backend=rounding(lambda value: value * (1 + 1e-3)))(x)
    assert found.stage == "backend" and "eager's largest error against float64" in str(found)


def test_what_is_not_a_number_counts() -> None:
    def nothing(module: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        return lambda x: [x / 0]

    found = onegraph.verify(double, backend=nothing)(torch.tensor([0.0, 1.0]))
    assert "2 of 2 elements differ" in str(found)
    assert onegraph.verify(lambda x: x.log())(torch.tensor([-1.0, 0.0, float("inf")]))


def test_a_kind_of_state_that_each_run_changes() -> None:
    queue, names, held = deque([1]), {"a"}, torch.ones(2)

    class Slotted:
        __slots__ = ("value",)

    slotted = Slotted()

    def program(x: Tensor) -> Tensor:
        nonlocal held
        queue.append(len(queue))
        names.add("b")
        slotted.value = x
        x.grad = x * 2
        held = held + 1
        return held + x

    x = torch.ones(2)
    assert onegraph.verify(program)(x)
    assert (list(queue), names, x.grad, hasattr(slotted, "value")) == ([1], {"a"}, None, False)
    assert torch.equal(held, torch.ones(2))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        "import torch\n\n"
        "def right(x):\n    return x + 1\n\n"
        "def wrong(x):\n    return x + (2 if torch.compiler.is_compiling() else 1)\n\n"
        "right_inputs = wrong_inputs = torch.ones(3)\n"
    )
    assert main(["verify", f"{path}::right"]) == 0
    assert capsys.readouterr().out.startswith("right: eager and compiled agree in")
    assert main(["verify", f"{path}::wrong", "--backend", "eager"]) == 1
    assert "Stage: capture" in capsys.readouterr().out


def test_small_gradients_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.ones(3, 3, requires_grad=True)
    monkeypatch.setitem(registry._TABLE, aten.sigmoid_backward.default, registry._TABLE[aten.tanh_backward.default])
    found = onegraph.verify(lambda x: torch.sigmoid(x @ weight).sum() * 1e-8)(torch.eye(3))
    assert [each.place for each in found.differences] == ["gradient of weight"] and found.stage == "lowering"
