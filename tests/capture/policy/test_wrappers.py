"""Wrapper subclasses, which hold tensors and compute with them: as inputs, parameters, results, and made inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from onegraph.tools.record import recording

BACKENDS = ("eager", "aot_eager", "native")
aten = torch.ops.aten


class Wrapper(torch.Tensor):
    """What the classes here have in common: their first part has their size, and they have a scale."""

    names: tuple[str, ...] = ()
    scale: float

    @staticmethod
    def __new__(cls, *parts: torch.Tensor, scale: float = 1.0) -> Any:
        size, stride = parts[0].shape, parts[0].stride()
        return torch.Tensor._make_wrapper_subclass(cls, size, strides=stride, dtype=torch.float32)

    def __init__(self, *parts: torch.Tensor, scale: float = 1.0) -> None:
        self.scale = scale
        for name, part in zip(self.names, parts, strict=True):
            setattr(self, name, part)

    def __tensor_flatten__(self) -> Any:
        return list(self.names), self.scale

    @classmethod
    def __tensor_unflatten__(cls, parts: Any, scale: Any, size: Any, stride: Any) -> Any:
        return cls(*parts.values(), scale=scale)


class Pair(Wrapper):
    """Two tensors, on both of which each operator runs."""

    names = ("a", "b")
    a: torch.Tensor
    b: torch.Tensor

    def swapped(self) -> Any:
        return Pair(self.b, self.a)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def run(name: str) -> Any:
            pick = lambda value: getattr(value, name) if isinstance(value, Pair) else value  # noqa: E731
            return func(*tree_map(pick, args), **tree_map(pick, kwargs or {}))

        a, b = run("a"), run("b")
        if func in (aten.add_.Tensor, aten.mul_.Tensor):
            return args[0]
        if isinstance(a, torch.Tensor):
            return Pair(a, b)
        return type(a)(Pair(x, y) for x, y in zip(a, b, strict=True)) if isinstance(a, (tuple, list)) else a


class Bytes(Wrapper):
    """A weight of 8 bits, which computes with what it stands for; its gradients are plain."""

    names = ("data8",)
    data8: torch.Tensor

    @staticmethod
    def of(weight: torch.Tensor) -> Any:
        return Bytes((weight / 0.01).round().clamp(-127, 127).to(torch.int8), scale=0.01)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is aten.detach.default:
            return Bytes(args[0].data8, scale=args[0].scale)
        widen = lambda value: value.data8 * value.scale if isinstance(value, Bytes) else value  # noqa: E731
        return func(*tree_map(widen, args), **tree_map(widen, kwargs or {}))


def pair(*shape: int, grad: bool = False) -> Any:
    return Pair(torch.randn(*(shape or (4,))), torch.randn(*(shape or (4,)))).requires_grad_(grad)


def plain(*shape: int, grad: bool = False) -> Any:
    return torch.randn(*(shape or (4,))).requires_grad_(grad)


def jagged(*lengths: int, grad: bool = False) -> Any:
    parts = [torch.randn(length, 4) for length in lengths]
    return torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=grad)


def two_views(x: Any) -> Any:
    y = x.view(2, 2)
    y.mul_(2)
    return x + 1, y.t()


def layers(x: Any, w: Any, b: Any) -> Any:
    return torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b)).sum(-1)


def attend(x: Any) -> Any:
    return torch.nn.functional.softmax(torch.nn.functional.layer_norm(x * 2, (4,)), -1)


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "operators": (lambda x: (x + 1).sin(), lambda: (pair(),)),
    "with a plain one": (lambda x, y: (x * y, y - x), lambda: (pair(), plain())),
    "its parts": (lambda x: (x * 2).a + x.b * x.scale, lambda: (pair(),)),
    "a part that is written": (lambda x: x.a.add_(1) + x.b, lambda: (pair(),)),
    "methods of the class": (lambda x: x.swapped() - x, lambda: (pair(),)),
    "made inside": (lambda a, b: Pair(a * 2, b).sin(), lambda: (plain(), plain())),
    "a pair of pairs": (lambda x: (x * 2).cos(), lambda: (Pair(pair(), pair()),)),
    "writes": (lambda x: x.add_(1), lambda: (pair(),)),
    "views that are written": (two_views, lambda: (pair(),)),
    "several results": (lambda x: x.split(2), lambda: (pair(),)),
    "given back": (lambda x: (x, x.detach()), lambda: (pair(),)),
    "questions": (lambda x: x * x.shape[0] + x.dim() if x.is_floating_point() else x, lambda: (pair(),)),
    "gradients": (lambda x: (x * 2).sin(), lambda: (pair(grad=True),)),
    "gradients of a plain one": (lambda x, y: (x * y).sin(), lambda: (pair(), plain(grad=True))),
    "gradients of both": (lambda x, y: ((x * y).sin(), x.cos()), lambda: (pair(grad=True), plain(grad=True))),
    "a layer": (layers, lambda: (plain(2, 3), torch.nn.Parameter(pair(4, 3)), plain(4, grad=True))),
    "bytes": (layers, lambda: (plain(2, 3), Bytes.of(plain(4, 3)), plain(4))),
    "bytes, trained around": (layers, lambda: (plain(2, 3, grad=True), Bytes.of(plain(4, 3)), plain(4, grad=True))),
    "bytes that are trained": (lambda x, w: (x * w).sin(), lambda: (plain(), Bytes.of(plain()).requires_grad_())),
    "sequences": (attend, lambda: (jagged(2, 3),)),
    "sequences in a layer": (
        lambda x, w, b: torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b)).values(),
        lambda: (jagged(2, 3), plain(3, 4, grad=True), plain(3, grad=True)),
    ),
    "sequences as values": (lambda x: (x * 2).values().sum(), lambda: (jagged(2, 3, grad=True),)),
    "sequences made inside": (
        lambda v, o: torch.nested.nested_tensor_from_jagged(v * 2, o).sin(),
        lambda: (plain(5, 4, grad=True), torch.tensor([0, 2, 5])),
    ),
    "sequences in a module": (
        torch.nn.Linear(4, 3),
        lambda: (jagged(2, 3),),
    ),
    "padded": (lambda x: x.to_padded_tensor(0.0) + 1, lambda: (jagged(2, 3),)),
}  # fmt: skip


#: Plain tensors that get wrappers as gradients: that is what eager does, and no compiled graph.
BY_OPERATOR = ("gradients of a plain one", "gradients of both", "a layer")
#: What is said to have fallen back where a whole graph has.
WHOLE = ("autograd", "backward", "all operators")
SEEN = ("a", "b", "data8", "_values")


def flat(value: Any) -> list[Any]:
    """All that can be seen of a value, plain tensors and atoms."""
    match value:
        case torch.Tensor() if hasattr(value, "__tensor_flatten__"):
            names, _ = value.__tensor_flatten__()
            held = [
                item for name in names if name in ("a", "b", "data8", "_values") for item in flat(getattr(value, name))
            ]
            return [type(value).__name__, value.requires_grad, *held]
        case torch.Tensor():
            return [type(value).__name__, value.requires_grad, str(value.dtype), value.detach().clone()]
        case tuple() | list():
            return [item for each in value for item in flat(each)]
    return [value]


def outcome(f: Callable[..., Any], args: Any) -> list[Any]:
    result = f(*args)
    found = [*flat(result), *flat(args)]
    for each in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(each, torch.Tensor) and each.requires_grad:
            each.backward(torch.ones_like(each), retain_graph=True)  # type: ignore[no-untyped-call]
    return found + [item for arg in args for item in flat(arg.grad)]


def assert_alike(got: list[Any], expected: list[Any]) -> None:
    assert len(got) == len(expected), (got, expected)
    for one, other in zip(got, expected, strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other)
        else:
            assert one == other, (got, expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_one_graph_and_equals_eager(name: str, backend: str) -> None:
    f, inputs = PROGRAMS[name]
    compiled = onegraph.compile(f, backend=backend, fullgraph=True)
    with recording(EVENTS, (ev.GraphFailed, ev.OperatorFellBack)) as seen:
        for seed in range(3):
            torch.manual_seed(seed)
            expected = outcome(f, inputs())
            torch.manual_seed(seed)
            assert_alike(outcome(compiled, inputs()), expected)
    if name in BY_OPERATOR:
        return
    assert not [each.event for each in seen if getattr(each.event, "operator", WHOLE[0]) in WHOLE]


def test_what_else_is_in_a_wrapper_is_guarded() -> None:
    compiled = onegraph.compile(lambda x: (x + x.scale).a, fullgraph=True)
    for scale in (1.0, 2.0, 1.0):
        x = Pair(torch.ones(2), torch.ones(2), scale=scale)
        torch.testing.assert_close(compiled(x), torch.full((2,), 1.0 + scale))
    for shape in ((3,), (2, 2)):
        x = pair(*shape)
        torch.testing.assert_close(compiled(x), x.a + 1)
    torch.testing.assert_close(compiled(Named(torch.ones(2), torch.ones(2))), torch.full((2,), 2.0))


class Named(Pair):
    pass


def test_sequences_of_other_lengths() -> None:
    compiled = onegraph.compile(lambda x: (x * 2).sum(1), fullgraph=True)
    for lengths in ((2, 3), (1, 3), (3, 7), (5, 5)):
        x = jagged(*lengths)
        torch.testing.assert_close(compiled(x), (x * 2).sum(1))


def test_sequences_that_have_the_same_lengths_are_told_from_others() -> None:
    def f(x: Any, y: Any) -> Any:
        return (x + y).values()

    compiled = onegraph.compile(f)
    x = jagged(2, 3)
    torch.testing.assert_close(compiled(x, x * 2), f(x, x * 2))
    with pytest.raises(RuntimeError):
        f(x, jagged(2, 3))
    with pytest.raises(RuntimeError):
        compiled(x, jagged(2, 3))


def test_views_of_one_wrapper_stay_views() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        return y, y.view(2, 2)

    for grad in (False, True):
        x = pair(grad=grad)
        y, view = onegraph.compile(f)(x)
        with torch.no_grad():
            y.add_(1)
        torch.testing.assert_close(view.a.flatten(), y.a)


def test_what_breaks_equals_eager() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        onegraph.graph_break()
        return y + x

    x = pair()
    result, expected = onegraph.compile(f)(x), f(x)
    torch.testing.assert_close((result.a, result.b), (expected.a, expected.b))


class Tagged(torch.Tensor):
    pass


def test_a_wrapper_of_another_subclass_runs_as_it_is_written() -> None:
    def made(x: Any) -> Any:
        return (Pair(x, x * 2) + 1).a

    def given(x: Any) -> Any:
        return (x + 1).a

    x = torch.ones(3).as_subclass(Tagged)
    for f, argument in ((made, x), (given, Pair(x, x))):
        result = onegraph.compile(f)(argument)
        assert type(result) is type(f(argument)) and torch.equal(result, f(argument))
