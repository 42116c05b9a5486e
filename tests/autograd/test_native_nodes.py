"""Calls that record gradients, and ordinary backward passes, run in C; Python takes a node over for other passes."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import onegraph
from onegraph import _C
from onegraph.autograd.native import probe, take_over
from onegraph.autograd.runtime import as_laid_out
from onegraph.torchlib import abi
from tests.faults.raising import Instead

OPTIONS = {"smallest_recorded_graph": 0}
Function = Callable[..., Any]


def plus_one(x: Tensor) -> Tensor:
    return x + 1


def product(x: Tensor) -> Tensor:
    return x.sin() * x


def squashed(x: Tensor) -> Tensor:
    return torch.sigmoid(x * 2)


def several(x: Tensor) -> tuple[Tensor, Tensor]:
    return (x * 2).exp(), x.cos()


def numbered(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.argmax(0), x.tanh().t()


def linear(x: Tensor) -> Tensor:
    return F.gelu(x @ x.t().reshape(3, 2)).sum(0)


def dropped(x: Tensor) -> Tensor:
    return F.dropout(x.exp(), 0.5) * x


PROGRAMS = [plus_one, product, squashed, several, numbered, linear, dropped]


def is_native(result: Tensor) -> bool:
    return isinstance(getattr(result.grad_fn, "recorded", None), _C.Recorded)


def is_in_c(result: Tensor) -> bool:
    """Whether a pass over its node may still be made in C."""
    node: Any = result.grad_fn
    return is_native(result) and node.recorded.values() is not None


def given() -> Tensor:
    return (torch.arange(6.0).reshape(2, 3) / 3 - 0.7).requires_grad_()


def results_of(f: Function, x: Tensor) -> list[Tensor]:
    found = f(x)
    return [y for y in (found if isinstance(found, tuple) else (found,)) if y.requires_grad]


def error_of(run: Callable[[], Any]) -> str:
    with pytest.raises(RuntimeError) as caught:
        run()
    return str(caught.value)


def outcome(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except RuntimeError as error:  # which tensor it names depends on the order of the operators
        return str(error).split(":")[0]


# ---- what programs do with the results: each gives tensors and texts ----


def once(f: Function) -> list[Any]:
    x = given()
    torch.autograd.backward([y.sum() for y in results_of(f, x)])
    return [x.grad]


def twice(f: Function) -> list[Any]:
    x = given()
    loss = sum(y.sum() for y in results_of(f, x))
    loss.backward()
    return [outcome(loss.backward), x.grad]


def twice_over_the_node(f: Function) -> list[Any]:
    x = given()
    results = results_of(f, x)
    ones = [torch.ones_like(y) for y in results]
    torch.autograd.backward(results, ones)
    return [outcome(lambda: torch.autograd.backward(results, ones)), x.grad]


def kept(f: Function) -> list[Any]:
    x = given()
    loss = sum((y * y.detach()).sum() for y in results_of(f, x))
    loss.backward(retain_graph=True)
    loss.backward(retain_graph=True)
    with torch.no_grad():
        x.mul_(2)
    return [outcome(lambda: loss.backward(retain_graph=True)), x.grad]


def one_by_one(f: Function) -> list[Any]:
    x = given()
    found = []
    for y in results_of(f, x):
        found += [outcome(lambda y=y: torch.autograd.grad(y.sum(), x)[0])]
    return found


def one_of_them(f: Function) -> list[Any]:
    x = given()
    *_, last = results_of(f, x)
    return [*torch.autograd.grad(last.sum(), x)]


def written_input(f: Function) -> list[Any]:
    x = given()
    results = results_of(f, x)
    with torch.no_grad():
        x.add_(1)
    return [outcome(lambda: torch.autograd.grad([y.sum() for y in results], x)[0])]


def written_result(f: Function) -> list[Any]:
    x = given()
    results = results_of(f, x)
    for y in results:
        y.mul_(3)
    return [outcome(lambda: torch.autograd.grad([y.sum() for y in results], x)[0]), *results]


def hooked(f: Function) -> list[Any]:
    x = given()
    seen: list[Any] = []
    results = results_of(f, x)
    for y in results:
        y.register_hook(lambda g: seen.append(g.clone()))
        y.register_hook(lambda g: g * 2)
        y.retain_grad()
    x.register_hook(lambda g: g * 5)
    torch.autograd.backward([y.sum() for y in results])
    return [x.grad, *seen, *(y.grad for y in results)]


def hooked_nodes(f: Function) -> list[Any]:
    x = given()
    results = results_of(f, x)
    node: Any = results[0].grad_fn
    calls: list[str] = []
    node.register_prehook(lambda grads: calls.append("before"))
    node.register_hook(lambda inputs, outputs: calls.append("behind"))
    torch.autograd.backward([y.sum() for y in results])
    return [x.grad, *calls]


def derived_twice(f: Function) -> list[Any]:
    x = given()
    found = torch.autograd.grad([y.sum() for y in results_of(f, x)], x, create_graph=True)
    if not found[0].requires_grad:
        return [*found]
    return [*found, *torch.autograd.grad(found[0].square().sum(), x)]


def first_plainly_then_derived(f: Function) -> list[Any]:
    x = given()
    losses = [y.sum() for y in results_of(f, x)]
    return [
        *torch.autograd.grad(losses, x, retain_graph=True),
        *torch.autograd.grad(losses, x, create_graph=True),
        *torch.autograd.grad(losses, x),
    ]


def strange_tangents(f: Function) -> list[Any]:
    x = given()
    results = results_of(f, x)
    found = []
    for make in (
        lambda y: torch.ones(()).expand(y.shape),
        lambda y: torch.arange(float(2 * y.numel()))[::2].reshape(y.shape),
        lambda y: torch.ones(y.shape[::-1]).permute(*range(y.dim() - 1, -1, -1)),
        lambda y: torch.complex(torch.ones(y.shape), torch.full(y.shape, 2.0)).conj().imag,
        lambda y: torch._efficientzerotensor(y.shape),
        lambda y: nn.Parameter(torch.ones(y.shape)),
    ):
        tangents = [make(y) for y in results]
        found += [*torch.autograd.grad(results, x, tangents, retain_graph=True)]
    return found


def in_batches(f: Function) -> list[Any]:
    x = given()
    results = results_of(f, x)
    tangents = [torch.stack([torch.ones_like(y), torch.full_like(y, 3)]) for y in results]
    return [*torch.autograd.grad(results, x, tangents, is_grads_batched=True)]


class Names(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found.append(str(func))
        return func(*args, **(kwargs or {}))


def under_a_mode(f: Function) -> list[Any]:
    x = given()
    losses = [y.sum() for y in results_of(f, x)]
    with Names() as names:
        found = torch.autograd.grad(losses, x)
    return [*found, bool(names.found)]


def under_autocast(f: Function) -> list[Any]:
    x = given()
    losses = [y.sum() for y in results_of(f, x)]
    with torch.autocast("cpu", torch.bfloat16):
        return [*torch.autograd.grad(losses, x)]


def under_anomaly_mode(f: Function) -> list[Any]:
    x = given()
    losses = [y.sum() for y in results_of(f, x)]
    with torch.autograd.set_detect_anomaly(True):
        return [*torch.autograd.grad(losses, x)]


def called_under_anomaly_mode(f: Function) -> list[Any]:
    x = given()
    with torch.autograd.set_detect_anomaly(True):
        losses = [y.sum() for y in results_of(f, x)]
        return [*torch.autograd.grad(losses, x)]


def saved_through_hooks(f: Function) -> list[Any]:
    x = given()
    packed: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        results = results_of(f, x)
    count = len(packed)
    return [count, *torch.autograd.grad([y.sum() for y in results], x)]


def in_a_thread(f: Function) -> list[Any]:
    x = given()
    losses = [y.sum() for y in results_of(f, x)]
    thread = threading.Thread(target=lambda: torch.autograd.backward(losses))
    thread.start()
    thread.join()
    return [x.grad]


def from_a_hook(f: Function) -> list[Any]:
    """A call and its pass in the middle of another pass."""
    x, z = given(), given()
    found: list[Any] = []

    def hook(gradient: Tensor) -> None:
        with torch.enable_grad():
            found.extend(torch.autograd.grad([y.sum() for y in results_of(f, x)], x))

    z.register_hook(hook)
    torch.autograd.backward([y.sum() for y in results_of(f, z)])
    return [z.grad, *found]


def of_a_batch(f: Function) -> list[Any]:
    """What is differentiated is itself a result."""
    x = given()
    for _ in range(3):
        x = (results_of(f, x * 1.5)[0].sum() + x * 0.1).detach().requires_grad_()
    y = results_of(f, results_of(f, x * 2)[0].sum() * x)[0]
    return [*torch.autograd.grad(y.sum(), x)]


def seeded(use: Callable[[Function], list[Any]], f: Function) -> list[Any]:
    torch.manual_seed(5)
    return [*use(f), torch.rand(1)]


USES = [
    once, twice, twice_over_the_node, kept, one_by_one, one_of_them, written_input, written_result,
    hooked, hooked_nodes, derived_twice, first_plainly_then_derived, strange_tangents, in_batches, under_a_mode,
    under_autocast, under_anomaly_mode, called_under_anomaly_mode, saved_through_hooks, in_a_thread, from_a_hook,
    of_a_batch,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_is_eagers_whatever_is_done_with_the_results(program: Function) -> None:
    compiled = onegraph.compile(program, fullgraph=True, options=OPTIONS)
    assert all(map(is_in_c, results_of(compiled, given())))
    for use in USES:
        ours, theirs = seeded(use, compiled), seeded(use, program)
        assert len(ours) == len(theirs), use
        for mine, eagers in zip(ours, theirs, strict=True):
            text = f"{use.__name__}: {mine} {eagers}"
            if isinstance(eagers, Tensor):
                assert isinstance(mine, Tensor), text
                torch.testing.assert_close(
                    mine, eagers, equal_nan=True, msg=lambda found, text=text: f"{text}\n{found}"
                )
            else:
                assert mine == eagers, text


@contextmanager
def frames_of_onegraph() -> Iterator[list[str]]:
    found: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and "/onegraph/autograd/" in frame.f_code.co_filename:
            found.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_python_runs(program: Function) -> None:
    compiled = onegraph.compile(program, fullgraph=True, options=OPTIONS)
    once(compiled)
    x = given()
    with frames_of_onegraph() as found:
        results = results_of(compiled, x)
        torch.autograd.backward(results, [torch.ones(y.shape[::-1]).t() if y.dim() == 2 else y for y in results])
    # what puts a gradient into the layout of the result is Python's, and what makes a part of a gradient
    assert {*found} <= {"as_laid_out", "gradient", "laid_over", "number"}


def test_of_modules_too() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2))
    compiled = onegraph.compile(module, options=OPTIONS)
    x = given().detach()
    compiled(x).sum().backward()
    found = [p.grad for p in module.parameters()]
    module.zero_grad()
    with frames_of_onegraph() as frames:
        loss = compiled(x).square().sum()
        loss.backward()
    assert not frames and all(p.grad is not None for p in module.parameters())
    ours = [p.grad for p in module.parameters()]
    module.zero_grad()
    module(x).square().sum().backward()
    torch.testing.assert_close(ours, [p.grad for p in module.parameters()])
    assert len(found) == 4


def test_a_hook_of_a_result_makes_the_node_pythons() -> None:
    compiled = onegraph.compile(product, options=OPTIONS)
    y, z = compiled(given()), compiled(given())
    y.register_hook(lambda g: g)
    assert is_native(y) and not is_in_c(y) and is_in_c(z)


def test_a_pass_lets_go_of_what_it_was_the_last_to_take() -> None:
    compiled = onegraph.compile(product, options=OPTIONS)
    for keep in (True, False):
        x = given() * 2
        y = compiled(x)
        alive = weakref.ref(x)
        del x
        y.sum().backward(retain_graph=keep)
        gc.collect()
        assert (alive() is not None) == keep
        del y
        assert alive() is None


def test_a_long_history_dies() -> None:
    compiled = onegraph.compile(product, options=OPTIONS)
    x = given()
    for _ in range(30_000):
        x = compiled(x)
    del x


@pytest.mark.parametrize("dynamic", [False, True])
def test_sizes_and_layouts_change(dynamic: bool) -> None:
    compiled = onegraph.compile(squashed, dynamic=dynamic, options=OPTIONS)
    for shape in ((2, 3), (4, 5), (5, 4), (0, 3), (1, 1)):
        for order in ((0, 1), (1, 0)):
            ours, theirs = (torch.ones(shape).permute(order).requires_grad_() for _ in range(2))
            (compiled(ours) * torch.arange(float(ours.shape[1]))).sum().backward()
            (squashed(theirs) * torch.arange(float(ours.shape[1]))).sum().backward()
            torch.testing.assert_close(ours.grad, theirs.grad)


def test_without_libtorch_python_makes_calls_and_passes() -> None:
    compiled = onegraph.compile(squashed, options=OPTIONS)
    before = compiled(given())
    _C.tensor_abi("python")
    try:
        assert not is_native(compiled(given()))
        x = given()
        y = compiled(x)
        y.sum().backward()
        torch.testing.assert_close([x.grad], once(squashed))
        before.sum().backward()  # Python takes over what C has recorded
        assert not is_in_c(before)
    finally:
        _C.tensor_abi("libtorch")


class Failing:
    now = False


@torch.library.custom_op("onegraph_native_nodes::slope", mutates_args=())
def slope(gradient: Tensor, x: Tensor) -> Tensor:
    if Failing.now:
        raise ValueError("no slope today")
    return gradient * x.cos()


@slope.register_fake
def _(gradient: Tensor, x: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("onegraph_native_nodes::wave", mutates_args=())
def wave(x: Tensor) -> Tensor:
    return x.sin()


@wave.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


wave.register_autograd(
    lambda ctx, gradient: slope(gradient, ctx.saved_tensors[0]),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


@pytest.mark.parametrize("keep", [False, True])
def test_a_pass_that_fails(keep: bool) -> None:
    compiled = onegraph.compile(lambda x: wave(x) * 2, options=OPTIONS)
    x = given()
    y = compiled(x).sum()
    y.backward(retain_graph=True)
    Failing.now = True
    try:
        with pytest.raises(ValueError, match="no slope today"):
            y.backward(retain_graph=keep)
    finally:
        Failing.now = False
    if keep:
        y.backward()
        torch.testing.assert_close(x.grad, 4 * x.cos().detach())
    else:
        assert "a second time" in error_of(y.backward)


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("function", [as_laid_out, probe, take_over], ids=lambda function: function.__name__)
def test_an_error_of_ours_is_not_seen_and_an_interrupt_is(function: Any, error: type[BaseException]) -> None:
    def act() -> None:
        raise error

    compiled = onegraph.compile(lambda x: (x.cos(), x.sin().exp()), options=OPTIONS)
    x = given()
    found = torch.autograd.grad(compiled(x), x, [torch.ones(2, 3)] * 2)
    y, z = compiled(x)
    instead = Instead(function, act)
    try:
        torch.autograd.grad([y, z], x, [torch.ones(3, 2).t()] * 2, retain_graph=True)
        assert function is not as_laid_out or error is MemoryError
        y.register_hook(lambda gradient: None)
        assert function is as_laid_out
    except error:
        assert function is not as_laid_out or error is KeyboardInterrupt
    finally:
        instead.restore()
    torch.testing.assert_close(torch.autograd.grad([y, z], x, [torch.ones(2, 3)] * 2), found)


def test_what_libtorch_reads_wrong_is_not_used() -> None:
    def read(tensor: Tensor) -> tuple[Any, ...]:
        return tensor._version, 0, False, False, True

    assert abi.ordinary_keys(read) == 0


def test_a_pair_is_given_what_fits() -> None:
    y = onegraph.compile(product, options=OPTIONS)(given())
    pair = y.grad_fn.recorded.pair  # type: ignore[union-attr]
    compiled, _ = pair.owner
    with pytest.raises(TypeError):
        pair.differentiate_by(compiled)
    with pytest.raises(TypeError, match="made by no graph"):
        _C.record(y.grad_fn, y)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="is over"):
        _C.record(y.grad_fn, y.grad_fn.recorded)  # type: ignore[union-attr]
