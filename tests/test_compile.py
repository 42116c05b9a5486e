"""The public entry: what it wraps, what a compiled object still is, and what it does in threads and other regions."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import subprocess
import sys
import threading
from types import FunctionType
from typing import Any

import pytest
import torch

import onegraph
from onegraph import _C
from onegraph.base import events as ev
from onegraph.capture.tracer.tracer import Tracer
from tests.capture.resume.test_breaks import Watch
from tests.capture.test_small_programs import tree_equal


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.norm(self.linear(x)).relu()

    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.linear(x))


def test_function_keeps_its_face() -> None:
    @onegraph.compile
    def f(x: torch.Tensor, /, scale: float = 2.0, *, shift: int = 1) -> torch.Tensor:
        """Scale and shift."""
        return x * scale + shift

    assert f.__name__ == "f" and f.__doc__ == "Scale and shift."
    assert str(inspect.signature(f)).startswith("(x: ")
    x = torch.rand(3)
    assert tree_equal(f(x, shift=3), x * 2.0 + 3)


def test_decorator_with_arguments_and_partial_call() -> None:
    @onegraph.compile(fullgraph=True, backend="eager")
    def f(x):
        return x + 1

    x = torch.rand(3)
    assert tree_equal(f(x), x + 1)
    g = onegraph.compile(functools.partial(torch.add, alpha=2), backend="eager")
    assert tree_equal(g(x, x), x * 3)


def test_methods() -> None:
    class Thing:
        def __init__(self, k):
            self.k = k

        @onegraph.compile
        def scale(self, x):
            return x * self.k

    x = torch.rand(3)
    assert tree_equal(Thing(2).scale(x), x * 2) and tree_equal(Thing(5).scale(x), x * 5)
    net = Net()
    assert tree_equal(onegraph.compile(net.twice)(torch.ones(2, 4)), net.twice(torch.ones(2, 4)))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_module(backend: str, training: bool, grad: bool) -> None:
    torch.manual_seed(0)
    net = Net().train(training).double()  # gradients through statistics of five rows cancel out, up to rounding
    twin = copy.deepcopy(net)
    compiled = onegraph.compile(net, backend=backend)
    assert isinstance(compiled, Net) and list(compiled.state_dict()) == list(twin.state_dict())
    for _ in range(3):
        x = torch.rand(5, 4, dtype=torch.float64)
        with torch.set_grad_enabled(grad):
            expected, result = twin(x), compiled(x)
        assert tree_equal(expected, result)
        if grad:
            expected.sum().backward()
            result.sum().backward()
            assert tree_equal(twin.linear.weight.grad, net.linear.weight.grad)
    assert net.calls == twin.calls == compiled.calls == 3
    for key, value in twin.state_dict().items():
        assert torch.allclose(value, net.state_dict()[key]), key


def test_module_state_is_shared() -> None:
    net = Net()
    compiled = onegraph.compile(net)
    compiled.eval()
    assert not net.training and not compiled.training
    compiled.extra = 3
    assert net.extra == 3
    compiled.load_state_dict({key: torch.zeros_like(value) for key, value in net.state_dict().items()})
    assert net.linear.weight.abs().sum() == 0
    holder = torch.nn.Sequential(compiled)
    assert [name for name, _ in holder.named_parameters()][0] == "0.linear.weight"


def test_module_pickles_and_copies() -> None:
    net = Net().eval()
    compiled = onegraph.compile(net, backend="eager")
    x = torch.rand(2, 4)
    for twin in (pickle.loads(pickle.dumps(compiled)), copy.deepcopy(compiled)):
        assert type(twin).__mro__[2] is Net and twin.linear.weight is not net.linear.weight
        assert tree_equal(twin(x), net(x))


def test_compiled_inside_of_compiled() -> None:
    inner = onegraph.compile(Net().eval())
    helper = onegraph.compile(lambda x: x * 2)

    @onegraph.compile(fullgraph=True)
    def outer(x):
        return helper(inner(x)) + 1

    x = torch.rand(2, 4)
    with Watch() as watch, torch.no_grad():
        result = outer(x)
        assert tree_equal(result, inner(x) * 2 + 1)
    assert watch.graphs[0] > 3


def test_disable_returns_the_target() -> None:
    def f(x):
        return x

    assert onegraph.compile(f, disable=True) is f


def test_user_backend_and_its_failures() -> None:
    seen: list[Any] = []

    def mine(module, examples):
        seen.append((module, examples))
        return module.forward

    def broken(module, examples):
        raise KeyError("no")

    def f(x):
        return x.sin() + 1

    x = torch.rand(3)
    assert tree_equal(onegraph.compile(f, backend=mine)(x), f(x))
    module, examples = seen[0]
    assert isinstance(module, torch.fx.GraphModule) and examples[0] is x
    with pytest.raises(onegraph.BackendError, match="KeyError"):
        onegraph.compile(f, backend=broken)(x)
    with pytest.raises(onegraph.BackendError, match="cannot be called"):
        onegraph.compile(f, backend=lambda module, examples: 3)(x)
    wrong = {"Tensor, where a tuple of 1": x[None], "NoneType": None, "a tuple of 2": (x, x), "a list of 0": []}
    for message, result in wrong.items():
        with pytest.raises(onegraph.BackendError, match=f"returned {message}"):
            onegraph.compile(f, backend=lambda module, examples, result=result: lambda *args: result)(x)
    assert tree_equal(onegraph.compile(f, backend=lambda module, examples: lambda *args: [x])(x), x)
    onegraph.register_backend(mine, name="mine")
    assert "mine" in onegraph.list_backends()
    assert tree_equal(onegraph.compile(f, backend="mine")(x), f(x))


def test_a_graph_on_which_the_compiler_fails_runs_operator_by_operator(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, defects: list[str]
) -> None:
    def failing(*args: Any) -> None:
        raise AssertionError("no such loop")

    monkeypatch.setattr(sys.modules["onegraph.backends"], "compile_graph", failing)
    x = torch.rand(3)
    with pytest.raises(onegraph.BackendError, match="no such loop"):
        onegraph.compile(lambda x: x + 1, options={"raise_compiler_errors": True})(x)
    compiled = onegraph.compile(lambda x: x + 1, fullgraph=True, options={"raise_compiler_errors": False})
    for _ in range(2):
        assert torch.equal(compiled(x), x + 1)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("onegraph", "WARNING")
    assert "AssertionError: no such loop. This is a defect of onegraph" in defects.pop()


def test_recompile_limit() -> None:
    def f(x, n):
        return x + len(n)

    x = torch.rand(3)
    with Watch() as watch:
        compiled = onegraph.compile(f, options={"recompile_limit": 2}, backend="eager")
        for n in "abcde":
            assert tree_equal(compiled(x, n), x + 1)
    assert len(watch.of(ev.FrameStarted)) == 2
    assert [event.limit for event in watch.of(ev.RecompileLimitReached)] == [2]
    strict = onegraph.compile(f, options={"recompile_limit": 2}, backend="eager", fullgraph=True)
    strict(x, "a"), strict(x, "b")
    with pytest.raises(onegraph.RecompileLimitError):
        strict(x, "c")


def test_the_limit_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    def f(x, n):
        return x + len(n)

    compiled = onegraph.compile(f, options={"recompile_limit": 2}, backend="eager")
    x = torch.rand(3)
    for n in "ab":
        compiled(x, n)
    assert not caplog.records
    for n in "cdef":
        assert tree_equal(compiled(x, n), x + 1)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("onegraph", "WARNING")
    message = record.getMessage()
    assert "f (" in message and "test_compile.py" in message and "2 times, which is the limit" in message
    assert "because `n` was 'b', is 'c'" in message and "recompile_limit" in message and "run eagerly" in message


def test_a_graph_that_records_gradients_says_how_it_runs(caplog: pytest.LogCaptureFixture) -> None:
    net = torch.nn.Linear(2, 2)
    with Watch() as watch:
        for _ in range(2):
            onegraph.compile(net, options={"compile_gradients": False})(torch.ones(2))
    events = watch.of(ev.OperatorFellBack)
    assert [event.operator for event in events] == ["autograd", "autograd"]
    assert "compile_gradients is off; the whole graph runs operator by operator" in events[0].reason
    assert not caplog.records


def test_is_compiling() -> None:
    def f(x):
        return x + 1 if onegraph.is_compiling() else x - 1

    x = torch.rand(3)
    assert not onegraph.is_compiling()
    assert tree_equal(onegraph.compile(f)(x), x + 1)


def test_threads() -> None:
    def f(x, k):
        return (x * k).sum(-1)

    compiled = onegraph.compile(f)
    failures: list[Any] = []

    def work(k: int) -> None:
        for step in range(30):
            x = torch.rand(3 + step % 3, 4)
            if not tree_equal(compiled(x, k % 3), f(x, k % 3)):
                failures.append((k, step))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_written_inputs_and_aliases() -> None:
    def f(x, y):
        x.add_(1)
        y.mul_(2)
        return x + y, x.view(-1)

    compiled = onegraph.compile(f)
    for overlap in (False, True, False, True):
        base = torch.rand(2, 3)
        left = base.clone()
        right = base.clone()
        pair = (lambda t: (t, t[0])) if overlap else (lambda t: (t, torch.ones(3)))
        expected, result = f(*pair(left)), compiled(*pair(right))
        assert tree_equal(expected, result) and tree_equal(left, right)
        result[1].zero_()
        assert right.abs().sum() == 0


def test_nothing_of_the_stock_compiler_is_loaded() -> None:
    program = """
import sys, torch, onegraph
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Dropout(0.1))
net.eval()
with torch.no_grad():
    compiled = onegraph.compile(net, fullgraph=True)
    for n in (2, 3, 4):
        compiled(torch.rand(n, 4))
print([name for name in sys.modules if name.startswith(("torch._dynamo", "torch._inductor"))])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_cannot_be_captured_for_a_defect_of_ours_runs_eagerly(
    monkeypatch: pytest.MonkeyPatch, defects: list[str]
) -> None:
    def failing(*args: Any) -> None:
        raise KeyError("no such variable")

    monkeypatch.setattr("onegraph.capture.hook.translate", failing)
    x = torch.rand(3)
    with pytest.raises(KeyError):
        onegraph.compile(lambda x: x + 1, options={"raise_compiler_errors": True})(x)
    options = {"raise_compiler_errors": False}
    with pytest.raises(KeyError):
        onegraph.compile(lambda x: x + 1, fullgraph=True, options=options)(x)
    assert torch.equal(onegraph.compile(lambda x: x + 1, options=options)(x), x + 1)
    assert "KeyError: 'no such variable'. This is a defect of onegraph" in defects.pop()


@pytest.mark.parametrize("missing", [lambda *args: _C.no_such_function(*args), lambda *args: no_such_name(*args)])  # noqa: F821
def test_no_handler_of_the_program_sees_a_defect_of_ours(
    missing: Any, monkeypatch: pytest.MonkeyPatch, defects: list[str]
) -> None:
    def f(x):
        try:
            return x.sin()
        except Exception:
            return x

    in_onegraph = FunctionType(missing.__code__, {"__name__": "onegraph.capture.tracer.tracer", "_C": _C})
    monkeypatch.setattr(Tracer, "call_native", lambda *args: in_onegraph(*args))
    x = torch.rand(3)
    with pytest.raises((AttributeError, NameError), match="no_such"):
        onegraph.compile(f, options={"raise_compiler_errors": True})(x)
    assert torch.equal(onegraph.compile(f, options={"raise_compiler_errors": False})(x), x.sin())
    said = defects.pop()
    assert "no_such" in said and "This is a defect of onegraph" in said


def test_what_an_iterator_from_outside_lacks_is_no_defect() -> None:
    def f(x, items):
        try:
            return items.throw
        except AttributeError as error:
            return x + 1, str(error)

    x = torch.rand(3)
    result, message = onegraph.compile(f)(x, iter([x]))
    assert torch.equal(result, x + 1) and message == "'list_iterator' object has no attribute 'throw'"


def test_a_name_and_a_limit_of_versions() -> None:
    compiled = onegraph.compile(lambda x: x + 1, name="plus_one", recompile_limit=1, options={"cache": False})
    assert compiled.__name__ == "plus_one"
    assert (compiled.onegraph_region.cx.config.recompile_limit, compiled.onegraph_region.cx.config.cache) == (1, False)
    assert onegraph.compile(torch.nn.ReLU(), name="relu", recompile_limit=2)(torch.ones(2)).tolist() == [1, 1]
    for wrong in ({"name": 3}, {"recompile_limit": -1}):
        with pytest.raises(onegraph.InvalidArgument, match=next(iter(wrong))):
            onegraph.compile(len, **wrong)
