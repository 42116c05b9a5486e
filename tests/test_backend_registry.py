"""Backends of other packages, and of torch's own compiler, under onegraph's capture."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest
import torch
import torch._dynamo
import torch._inductor.config
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

import onegraph
from onegraph import backend_registry
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from onegraph.tools.record import recording

SEEN: list[torch.fx.GraphModule] = []


def of_a_package(module, examples):
    SEEN.append(module)
    return module.forward


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    SEEN.clear()
    yield
    torch._dynamo.reset()


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint(name, f"{__name__}:{what}", backend_registry.GROUP) for name, what in POINTS.items()]
    monkeypatch.setattr(backend_registry, "entry_points", lambda group: [p for p in points if p.group == group])
    monkeypatch.setitem(sys.modules, __name__, SimpleNamespace(of_a_package=of_a_package, SEEN=SEEN))


POINTS = {"of-a-package": "of_a_package", "onegraph": "of_a_package", "no-function": "SEEN", "gone": "not_there"}


@pytest.mark.usefixtures("packages")
def test_a_backend_of_a_package() -> None:
    f = onegraph.compile(lambda x: x.sin() + 1, backend="of-a-package")
    assert SEEN == []
    torch.testing.assert_close(f(torch.ones(3)), torch.ones(3).sin() + 1)
    assert len(SEEN) == 1
    assert {"of-a-package", "no-function", "native"} <= {*onegraph.list_backends()}
    graph = torch.fx.symbolic_trace(lambda x: x.sin() + 1)
    onegraph.lookup_backend("of-a-package")(graph, [torch.ones(3)])(torch.ones(3))
    assert len(SEEN) == 2
    onegraph.compile(lambda x: x.sin() + 1, backend="onegraph")(torch.ones(3))
    assert len(SEEN) == 2


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(("name", "says"), [("no-function", "cannot be called"), ("gone", "not_there")])
def test_a_backend_of_a_package_that_is_none(name: str, says: str) -> None:
    with pytest.raises(onegraph.BackendError, match=says):
        onegraph.compile(lambda x: x + 1, backend=name)(torch.ones(3))


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, n):
        self.calls += 1
        y = self.layers(x) * n
        return y.reshape(-1), y.sum(0, keepdim=True) + x.shape[0]


NAMES = ["stock:eager", "stock:aot_eager", "stock:inductor"]


@pytest.mark.parametrize("name", NAMES)
def test_a_backend_of_torchs_compiler(name: str) -> None:
    if name == "stock:inductor" and shutil.which("g++") is None:
        name = "stock:aot_eager"  # inductor's kernels are C++
    torch.manual_seed(0)
    model, twin = Model().double(), Model().double()
    twin.load_state_dict(model.state_dict())
    compiled = onegraph.compile(twin, fullgraph=True, backend=name)
    with recording(EVENTS, [ev.GraphCaptured]) as recorded:
        for rows, n in ((3, 2), (5, 3), (7, 5), (9, 4)):
            x = torch.randn(rows, 4, dtype=torch.float64)
            results = []
            for called, owner in ((model, model), (compiled, twin)):
                outputs = called(x, n)
                loss = sum(output.square().sum() for output in outputs)
                results.append((*outputs, *torch.autograd.grad(loss, tuple(owner.parameters()))))
            torch.testing.assert_close(*results)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, n), model(x, n))
    assert model.calls == twin.calls == 5
    assert len(recorded) == 2  # for the first sizes, and for all others


def test_sizes_that_the_backend_asks_for_are_guarded() -> None:
    asked = []

    @torch._dynamo.register_backend(name="asking")
    def asking(module, examples):
        sizes = [example for example in examples if isinstance(example, torch.SymInt)]
        asked.append([bool(size > 5) for size in sizes])
        return module.forward

    try:
        f = onegraph.compile(lambda x: x * x.shape[0], backend="stock:asking", dynamic=True)
        for rows in (3, 4, 6, 7, 5, 1, 1, 0):
            x = torch.ones(rows, 2)
            torch.testing.assert_close(f(x), x * rows)
    finally:
        del torch._dynamo.backends.registry._BACKENDS["asking"]
        del torch._dynamo.backends.registry._COMPILER_FNS["asking"]
    assert asked == [[False, False], [True, False], [False], [False]]


def test_a_function_that_traces_again_is_guarded_as_it_asks() -> None:
    backend = aot_autograd(fw_compiler=lambda graph, examples: make_boxed_func(graph.forward))

    def f(x, y):
        padded = torch.nn.functional.pad(x, (0, x.shape[0]))[:, : y.shape[1]]
        return (x.sum(0, keepdim=True) + y) * x.shape[0] + padded.sum()

    compiled = onegraph.compile(f, backend=backend)
    for rows, columns in ((3, 4), (5, 5), (6, 7), (1, 3), (9, 1), (7, 2), (2, 7)):
        x, y = torch.randn(rows, columns), torch.randn(1, columns)
        torch.testing.assert_close(compiled(x, y), f(x, y))


def test_a_function_that_does_not_has_no_guards_for_it() -> None:
    seen = []

    def backend(module, examples):
        seen.append(module)
        return module.forward

    f = onegraph.compile(lambda x: x * x.shape[0], backend=backend, dynamic=True)
    for rows in (3, 4, 1):
        torch.testing.assert_close(f(torch.ones(rows, 2)), torch.ones(rows, 2) * rows)
    assert len(seen) == 1


def test_names_of_torchs_compiler() -> None:
    names = onegraph.list_backends()
    assert {"stock:inductor", "stock:aot_eager"} <= {*names} and "stock:onegraph" not in names
    with pytest.raises(onegraph.InvalidArgument, match="unknown backend 'stock:inductr' .did you mean 'stock:induct"):
        onegraph.compile(lambda x: x, backend="stock:inductr")
    with pytest.raises(onegraph.InvalidArgument, match="unknown backend 'stock:onegraph'"):
        onegraph.compile(lambda x: x, backend="stock:onegraph")


def test_torchs_compiler_is_imported_by_the_program() -> None:
    program = (
        "import sys, onegraph\n"
        "print([name for name in onegraph.list_backends() if 'stock' in name])\n"
        "try: onegraph.compile(lambda x: x, backend='stock:inductor')\n"
        "except onegraph.InvalidArgument as error: print(error)\n"
        "print('torch._dynamo' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=True)
    nothing, message, imported = said.stdout.splitlines()
    assert (nothing, imported) == ("[]", "False")
    assert "import torch._dynamo" in message
