"""Programs as one graph, for described sizes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.export

import onegraph
from onegraph import Dim

AGAIN = pytest.mark.parametrize("saved", [False, True], ids=["made", "loaded"])


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
        self.head = self.layers[0]
        self.offset = torch.tensor(3.0)

    def forward(self, x, more, *, scale=2, mode="sum"):
        y = self.head(self.layers(x)) * scale + self.offset
        y = y.to(torch.float64)[:, ::2] if mode == "sum" else y
        shifted = y.reshape(-1)[: x.shape[0]] + more["z"][0]
        return {"y": y, "x": x, "rows": x.shape[0] * 2, "shifted": shifted}, [mode, None]


def check_equal(found: Any, expected: Any) -> None:
    left, spec = torch.utils._pytree.tree_flatten(found)
    right, other = torch.utils._pytree.tree_flatten(expected)
    assert spec == other
    for a, b in zip(left, right, strict=True):
        assert type(a) is type(b)
        torch.testing.assert_close(a, b) if isinstance(a, torch.Tensor) else a == b
        assert isinstance(a, torch.Tensor) or a == b


def again(program: onegraph.ExportedProgram, saved: bool, folder: Path) -> onegraph.ExportedProgram:
    if not saved:
        return program
    program.save(folder / "program.zip")
    return onegraph.ExportedProgram.load(folder / "program.zip")


@AGAIN
@pytest.mark.parametrize("dims", [Dim, torch.export.Dim])
def test_a_model_in_other_sizes(dims: Any, saved: bool, tmp_path: Path) -> None:
    model = Model().eval()
    rows = dims("rows", min=2, max=64)
    example = (torch.randn(4, 4), {"z": [torch.randn(4)]})
    shapes = {"x": {0: rows}, "more": {"z": [{0: rows}]}}
    program = again(onegraph.export(model, example, {"scale": 3}, dynamic_shapes=shapes), saved, tmp_path)
    for n in (4, 2, 7):
        given = (torch.randn(n, 4), {"z": [torch.randn(n)]})
        check_equal(program(*given, scale=3), model(*given, scale=3))
        check_equal(program.module()(*given, scale=3), model(*given, scale=3))
    assert {"layers.0.weight", "layers.1.running_mean"} <= program.state_dict.keys()
    names = {name for name, _ in program.module().named_parameters()}
    assert names == {f"graph_module.layers.{name}" for name in ("0.weight", "0.bias", "1.weight", "1.bias")}
    with pytest.raises(onegraph.ConstraintViolationError, match=r"x.size\(0\) <= 64, and x.size\(0\) is 65"):
        program(torch.randn(65, 4), {"z": [torch.randn(65)]}, scale=3)
    with pytest.raises(onegraph.ConstraintViolationError, match=r"x.size\(0\) == more_z_0.size\(0\)"):
        program(torch.randn(5, 4), {"z": [torch.randn(4)]}, scale=3)
    with pytest.raises(onegraph.ConstraintViolationError, match=r"x.size\(1\) is to be 4, got 5"):
        program(torch.randn(5, 5), {"z": [torch.randn(5)]}, scale=3)
    with pytest.raises(onegraph.ConstraintViolationError, match=r"x is to have 2 dimensions, got 1"):
        program(torch.randn(5), {"z": [torch.randn(5)]}, scale=3)
    with pytest.raises(onegraph.InvalidArgument, match="x is to be torch.float32 on cpu, got torch.float64"):
        program(torch.randn(5, 4).double(), {"z": [torch.randn(5)]}, scale=3)
    with pytest.raises(onegraph.InvalidArgument, match="scale is to be 3, got 2"):
        program(*given, scale=2)
    with pytest.raises(onegraph.InvalidArgument, match="arguments of the structure"):
        program(*given)


@AGAIN
def test_training(saved: bool, tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    twin = copy.deepcopy(model)
    program = again(onegraph.export(twin, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("rows")},)), saved, tmp_path)
    assert twin[1].num_batches_tracked == 0
    module = program.module()
    for n in (3, 5):
        x = torch.randn(n, 4)
        for each in (model, module):
            each.zero_grad()
            each(x).square().sum().backward()
        grads = {name: p.grad for name, p in model.named_parameters()}
        torch.testing.assert_close({n[13:]: p.grad for n, p in module.named_parameters()}, grads)
    torch.testing.assert_close(program.state_dict, dict(model.state_dict()))
    shared = program.graph_module.get_parameter("0.weight") is twin[0].weight
    assert shared is not saved


def test_the_old_spelling() -> None:
    def f(x, y):
        return x.sin() + y

    graph, guards = onegraph.export(f)(torch.ones(3), torch.ones(3))
    torch.testing.assert_close(graph(torch.ones(3), torch.ones(3)), f(torch.ones(3), torch.ones(3)))
    assert [node.op for node in graph.graph.nodes if node.op.startswith("call")] == ["call_method"] * 2
    assert "x is a float32 tensor on cpu of size [3] and strides [1]" in guards


def add(x, y):
    return x + y


@pytest.mark.parametrize(
    ("function", "sizes", "shapes", "says"),
    [
        (
            add,
            (4, 4),
            ({0: Dim("a")}, {0: Dim("b")}),
            r"x.size\(0\) == y.size\(0\), and .* \(a, b\) allows",
        ),
        (add, (4, 4), ({0: Dim("a")}, None), r"x.size\(0\) was marked as dynamic, and the program needs it to be 4"),
        (add, (4, 4), ({0: Dim.DYNAMIC}, None), r"x.size\(0\) was marked as dynamic"),
        (
            add,
            (4, 5),
            ({0: Dim("a")}, {0: Dim("a")}),
            r"x.size\(0\) == y.size\(0\), and .* x.size\(0\) is 4",
        ),
        (add, (4, 4), ({0: Dim("a", min=5)}, None), r"5 <= x.size\(0\), and in the example x.size\(0\) is 4"),
        (lambda x, y: x if len(x) > 9 else x + 1, (4, 4), ({0: Dim("a")},), r"needs that .*x.size\(0\).*allows x.size"),
        (lambda x, y: x.reshape(2, -1), (4, 4), ({0: Dim("a", min=2)},), r"needs that .*x.size\(0\).*2.*allows"),
    ],
)
def test_a_constraint_that_does_not_hold(function: Any, sizes: Any, shapes: Any, says: str) -> None:
    with pytest.raises(onegraph.ConstraintViolationError, match=says):
        onegraph.export(function, tuple(torch.ones(n) for n in sizes), dynamic_shapes=shapes)


def test_what_is_left_to_the_program() -> None:
    program = onegraph.export(add, (torch.ones(4), torch.ones(4)), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))
    assert program.conditions == ("x.size(0) == y.size(0)",)
    assert program(torch.ones(7), torch.ones(7)).tolist() == [2] * 7
    program = onegraph.export(add, (torch.ones(4), torch.ones(4)), dynamic_shapes=({0: Dim.AUTO}, None))
    assert program.conditions == ("x.size(0) == 4",)
    with pytest.raises(onegraph.ConstraintViolationError, match=r"x.size\(0\) == 4, and x.size\(0\) is 5"):
        program(torch.ones(5), torch.ones(4))


@pytest.mark.parametrize("dims", [Dim, torch.export.Dim])
def test_sizes_that_follow_from_others(dims: Any) -> None:
    a = dims("a", min=2)
    program = onegraph.export(
        lambda x, y: torch.cat([x, x, x.new_ones(1)]) + y,
        (torch.ones(4), torch.ones(9)),
        dynamic_shapes={"x": (a,), "y": (2 * a + 1,)},
    )
    assert program(torch.ones(5), torch.ones(11)).tolist() == [2] * 11
    with pytest.raises(onegraph.ConstraintViolationError, match=r"y.size\(0\) == 2 \* x.size\(0\) \+ 1"):
        program(torch.ones(5), torch.ones(10))
    with pytest.raises(onegraph.InvalidArgument, match="the size of no input"):
        onegraph.export(add, (torch.ones(4), torch.ones(4)), dynamic_shapes={"x": {0: 2 * a}})


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ({"z": {0: Dim("a")}}, "names z, which no argument is for"),
        ({"x": {3: Dim("a")}}, "x has 1 dimensions, and dynamic_shapes describes number 3"),
        ({"x": (None, None)}, "x has 1 dimensions, and dynamic_shapes describes 2"),
        ({"x": {0: 7}}, r"x.size\(0\) is 4, and dynamic_shapes says 7"),
        ({"x": {0: "many"}}, "described by a Dim, an integer or None, got 'many'"),
        ({"x": [{0: 1}]}, "described by a Dim, an integer or None"),
        (({}, {}, {}), "3 entries for 2 parameters"),
        (3, "expects a dict by parameter"),
        ({"x": {0: Dim("a")}, "y": {0: Dim("a", max=9)}}, "two Dims have the name a"),
    ],
)
def test_descriptions_that_do_not_fit(shapes: Any, says: str) -> None:
    with pytest.raises(onegraph.InvalidArgument, match=says):
        onegraph.export(add, (torch.ones(4), torch.ones(4)), dynamic_shapes=shapes)


@pytest.mark.parametrize("wrong", [{"name": "3"}, {"name": "a", "min": -1}, {"name": "a", "min": 3, "max": 3}])
def test_dims_that_are_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(onegraph.InvalidArgument, match="Dim"):
        Dim(**wrong)


def test_what_a_program_may_not_do() -> None:
    class Counting(torch.nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x + 1

    with pytest.raises(onegraph.CompileError, match="more than computing a result: .*calls"):
        onegraph.export(Counting(), (torch.ones(2),))
    with pytest.raises(onegraph.GraphBreakError, match="print"):
        onegraph.export(lambda x: print(x), (torch.ones(2),))
    with pytest.raises(onegraph.CompileError, match="result has an object of type type"):
        onegraph.export(lambda x: (x + 1, int), (torch.ones(2),))
    with pytest.raises(onegraph.InvalidArgument, match="argument x is of type object"):
        onegraph.export(lambda x: 3, (object(),))
    with pytest.raises(ZeroDivisionError):
        onegraph.export(lambda x: x / (1 // 0), (torch.ones(2),))
    with pytest.raises(onegraph.InvalidArgument, match="a tuple of arguments"):
        onegraph.export(add, torch.ones(2), torch.ones(2))


@AGAIN
def test_results_that_are_arguments_and_parameters(saved: bool, tmp_path: Path) -> None:
    weight = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    holder = torch.nn.Module()
    holder.weight = weight
    holder.forward = lambda x, y: (x, holder.weight, y is x, 1.5, x)  # type: ignore[method-assign]
    x = torch.ones(3)
    program = again(onegraph.export(holder, (x, x)), saved, tmp_path)
    found = program(x, x)
    assert found[0] is x and found[4] is x and found[2:4] == (True, 1.5)
    assert found[1].tolist() == [1, 1] and isinstance(found[1], torch.nn.Parameter) and not found[1].requires_grad
    with pytest.raises(onegraph.InvalidArgument, match="y and x are to be the same tensor"):
        program(x, torch.ones(3))


def test_a_program_knows_that_it_is_exported() -> None:
    def f(x):
        return x + 1 if onegraph.is_exporting() and torch.compiler.is_exporting() else x - 1

    assert onegraph.export(f)(torch.zeros(2))(torch.zeros(2)).tolist() == [1, 1]
    assert onegraph.compile(f, fullgraph=True)(torch.zeros(2)).tolist() == f(torch.zeros(2)).tolist() == [-1, -1]


def test_files_that_are_no_programs(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("nothing")
    with pytest.raises(onegraph.InvalidArgument, match="is no exported program"):
        onegraph.ExportedProgram.load(tmp_path / "text")
    marked = onegraph.allow_in_graph(unnamed())
    program = onegraph.export(lambda x: marked(x), (torch.ones(2),))
    with pytest.raises(onegraph.InvalidArgument, match="no function of torch"):
        program.save(tmp_path / "program.zip")


def unnamed():
    def inner(x):
        return x + 1

    return inner


def test_a_program_is_compiled_like_any_module() -> None:
    program = onegraph.export(Model().eval(), (torch.randn(4, 4), {"z": [torch.randn(4)]}))
    given = (torch.randn(4, 4), {"z": [torch.randn(4)]})
    compiled = onegraph.compile(program.graph_module, fullgraph=True)
    torch.testing.assert_close(compiled(given[0], given[1]["z"][0]), program.graph_module(given[0], given[1]["z"][0]))


@pytest.mark.parametrize(("given", "other"), [(0.0, -0.0), (float("nan"), 1.0), (True, 1)])
def test_a_constant_is_the_one_that_was_exported(given: Any, other: Any) -> None:
    program = onegraph.export(lambda x, factor: x * factor, (torch.ones(2), given))
    assert torch.equal(program(torch.ones(2), given).isnan(), (torch.ones(2) * given).isnan())
    with pytest.raises(onegraph.InvalidArgument, match="is to be"):
        program(torch.ones(2), other)
