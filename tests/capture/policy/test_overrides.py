"""`__torch_function__` of classes and modes of the program, interpreted: what they see and what they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

import onegraph
from onegraph.base.events import FrameStarted
from onegraph.compile import EVENTS
from onegraph.tools.record import recording

BACKENDS = ("eager", "aot_eager", "native")
CYCLE: list[Any] = []
CYCLE.append(CYCLE)


class Tagged(torch.Tensor):
    """A subclass without behaviour of its own."""

    scale = 2.0

    @property
    def twice(self) -> torch.Tensor:
        return self * 2

    def shifted(self, by: float) -> torch.Tensor:
        return self + by * self.scale


class Unit(torch.Tensor):
    """A tensor with a unit, which follows it through functions."""

    unit: str

    @staticmethod
    def __new__(cls, values: torch.Tensor, unit: str) -> Unit:
        return values.as_subclass(cls)

    def __init__(self, values: torch.Tensor, unit: str) -> None:
        self.unit = unit

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        units = [each.unit for each in tree_leaves(args) if isinstance(each, cls)]
        plain = [each.as_subclass(torch.Tensor) if isinstance(each, cls) else each for each in args]
        result = func(*plain, **(kwargs or {}))
        unit = "*".join(units) if func in (torch.mul, torch.Tensor.mul) else units[0]
        return cls(result, unit) if isinstance(result, torch.Tensor) else result


class Negated(Tagged):
    """Additions subtract."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.add, torch.Tensor.add):
            func = torch.sub
        return super().__torch_function__(func, types, args, kwargs)


class Shy(torch.Tensor):
    """Leaves everything to the others."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind is not cls for kind in types):
            return NotImplemented
        return super().__torch_function__(func, types, args, kwargs)


class Willing(torch.Tensor):
    """Takes what others leave."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        return result.as_subclass(cls) if isinstance(result, torch.Tensor) else result


class Counting(torch.Tensor):
    """Counts the functions that are called."""

    calls: list[str] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


seen: list[str] = []


class Diagonal:
    """A matrix of which the diagonal alone is kept: no tensor, but functions take it."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.matmul or func is torch.Tensor.matmul:
            a, b = args
            return a.values[:, None] * b if isinstance(a, cls) else a * b.values
        if func is torch.trace:
            return args[0].values.sum()
        return NotImplemented


class Doubling(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.sin else result


class Noting(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


class ParameterOfOurs(torch.nn.Parameter):
    pass


def t(*shape: int, cls: Any = torch.Tensor, grad: bool = False) -> Any:
    made = torch.randn(*(shape or (4,))).as_subclass(cls)
    return made.requires_grad_(grad)


def in_modes(x: torch.Tensor) -> Any:
    with Noting() as outer, Doubling(), Noting() as inner:
        y = torch.sin(x) + x.cos()
    return y, outer.seen, inner.seen


def plainly(x: torch.Tensor) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        y = x + 1
    return y, x + 1


def counted(x: torch.Tensor) -> Any:
    seen.clear()
    y = (x + 1).sin().reshape(2, 2)
    return y, list(seen), y.shape[0]


def labelled(x: Any) -> Any:
    x.unit = "k" + x.unit
    y = x * 2
    y.note = [y.unit]  # type: ignore[attr-defined]
    return y


def branches(x: Any) -> Any:
    if isinstance(x, Tagged) and type(x) is Tagged and x.scale == 2.0:
        return x.twice.shifted(1.0)
    return x


def written(x: Any) -> Any:
    y = x * 2
    z = y.add_(1)
    y[0] = 5.0
    return y is z, y, z[1:]


def text_of(x: Any) -> Any:
    return len(x), x.dim(), x.dtype, [item * 2 for item in x], x.size()


def made_inside(x: torch.Tensor) -> Any:
    unit = Unit(x * 2, "m")
    other = Unit(x, "s")
    return unit * other, unit.sum(), (unit + 1).unit


def sloped(x: torch.Tensor) -> torch.Tensor:
    z = x.detach().requires_grad_()
    return torch.autograd.grad(z.sin().sum(), z)[0]


def importing(x: torch.Tensor) -> Any:
    """An import is given all globals of its module."""
    from operator import neg

    return neg(x), len(CYCLE)


def unchanged(x: torch.Tensor, v: torch.Tensor) -> Any:
    value, back = torch.func.vjp(lambda y: y, x)
    found = value, back(v)[0], torch.func.vmap(lambda y: y)(x)
    return found, [one is other for one, other in zip(found, (x, v, x), strict=True)]


def given_slopes(x: torch.Tensor, v: torch.Tensor) -> Any:
    """What gradients are multiplied by is not asked for its class; what is differentiated is."""
    leaf = x.detach().requires_grad_()
    same, twice = torch.autograd.grad(leaf.clone(), leaf, v)[0], torch.autograd.grad(leaf * 2, leaf, v)[0]
    of_class = torch.autograd.grad(leaf.as_subclass(Tagged) * 2, leaf, x)[0]
    _, back = torch.func.vjp(lambda y: y.as_subclass(Tagged) * 2, x)
    (leaf * 3).backward(v)
    return same, twice, of_class, back(v), back(x), leaf.grad


def noted(x: torch.Tensor) -> Any:
    with Noting() as noting:
        y = x.as_subclass(Tagged).numpy() * 2
        z = torch.from_numpy(y) + 1
    return z, noting.seen


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "no behaviour of its own": (lambda x: (x + 1).sin(), lambda: (t(cls=Tagged),)),
    "attributes, methods and properties": (branches, lambda: (t(cls=Tagged),)),
    "a unit": (lambda x, y: (x * y, x + 1), lambda: (Unit(t(), "m"), Unit(t(), "s"))),
    "a unit that is written": (labelled, lambda: (Unit(t(), "m"),)),
    "made inside": (made_inside, lambda: (t(),)),
    "made inside, of what is trained": (made_inside, lambda: (t(grad=True),)),
    "another meaning": (lambda x, y: (x + y, y + x, torch.add(x, 1)), lambda: (t(cls=Negated), t())),
    "a class and its base": (lambda x, y: (x + y, y + x), lambda: (t(cls=Tagged), t(cls=Negated))),
    "one that leaves it to others": (lambda x, y: (x * y, y * x), lambda: (t(cls=Shy), t(cls=Willing))),
    "calls that are counted": (counted, lambda: (t(cls=Counting),)),
    "a matrix that is no tensor": (
        lambda d, x: (torch.matmul(d, x), x @ d, torch.trace(d)),
        lambda: (Diagonal(t(3)), t(3, 3)),
    ),
    "such a matrix made inside": (lambda v, x: x @ Diagonal(v * 2), lambda: (t(3), t(3, 3))),
    "modes": (in_modes, lambda: (t(),)),
    "modes over a subclass": (in_modes, lambda: (t(cls=Tagged),)),
    "without subclasses": (plainly, lambda: (t(cls=Negated),)),
    "writes": (written, lambda: (t(cls=Tagged),)),
    "lists of them": (lambda x, y: torch.stack([x, y]).sum(0), lambda: (t(cls=Tagged), t())),
    "as keyword": (lambda x: torch.sum(input=x, dim=0, keepdim=True), lambda: (t(cls=Tagged),)),
    "layers": (lambda x: torch.nn.functional.layer_norm(x, (4,)), lambda: (t(cls=Tagged),)),
    "what is given back": (lambda x: (x, x.view(2, 2), x.detach()), lambda: (t(cls=Tagged),)),
    "a plain one of it": (lambda x: (x.as_subclass(torch.Tensor) + 1, x[1:]), lambda: (t(cls=Tagged),)),
    "questions": (text_of, lambda: (t(cls=Tagged),)),
    "several results": (lambda x: (x.split(2), x.max(0), torch.sort(x)), lambda: (t(cls=Tagged),)),
    "gradients": (lambda x: (x * 2).sin(), lambda: (t(cls=Tagged, grad=True),)),
    "gradients of a unit": (lambda x: (x * 2).sin(), lambda: (Unit(t(grad=True) * 1, "m"),)),
    "transforms": (lambda x: torch.func.vmap(lambda y: y.sin() * 2)(x), lambda: (t(2, 3, cls=Tagged),)),
    "transforms that change nothing": (unchanged, lambda: (t(2, 3, cls=Tagged), t(2, 3, cls=Tagged))),
    "an import beside a list that holds itself": (importing, lambda: (t(cls=Tagged),)),
    "gradients inside": (sloped, lambda: (t(cls=Tagged),)),
    "gradients that are multiplied by them": (given_slopes, lambda: (t(), t(cls=Tagged))),
    "what a mode does not see": (noted, lambda: (t(),)),
    "a parameter": (lambda p, x: (p * x).sum(), lambda: (ParameterOfOurs(t()), t())),
}  # fmt: skip


def described(value: Any) -> Any:
    """What a program can see of its results."""
    match value:
        case torch.Tensor():
            own = {key: described(held) for key, held in vars(value).items()}
            plain = value.detach().as_subclass(torch.Tensor).clone()
            return type(value).__name__, value.requires_grad, tuple(value.stride()), str(value.dtype), own, plain
        case tuple() | list():
            return type(value).__name__, [described(item) for item in value]
        case Diagonal():
            return described(value.values)
        case torch.dtype():
            return str(value)
    return value


def outcome(f: Callable[..., Any], args: Any) -> Any:
    result = f(*args)
    found = [described(result), described(args)]
    loss = sum(
        leaf.as_subclass(torch.Tensor).square().sum()
        for leaf in tree_leaves(result)
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    )
    if isinstance(loss, torch.Tensor):
        loss.backward()  # type: ignore[no-untyped-call]
        found.append([described(leaf.grad) for leaf in tree_leaves(args) if getattr(leaf, "is_leaf", False)])
    return found


def assert_alike(got: Any, expected: Any) -> None:
    assert type(got) is type(expected), (got, expected)
    match expected:
        case torch.Tensor():
            torch.testing.assert_close(got, expected)
        case tuple() | list():
            assert len(got) == len(expected), (got, expected)
            for one, other in zip(got, expected, strict=True):
                assert_alike(one, other)
        case dict():
            assert_alike(list(got.items()), list(expected.items()))
        case _:
            assert got == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_one_graph_and_equals_eager(name: str, backend: str) -> None:
    f, inputs = PROGRAMS[name]
    compiled = onegraph.compile(f, backend=backend, fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        expected = outcome(f, inputs())
        torch.manual_seed(seed)
        assert_alike(outcome(compiled, inputs()), expected)


def broken_in_a_class(x: Any) -> Any:
    return (x + 1).sin() * 2


class Breaking(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.sin:
            onegraph.graph_break()
        return super().__torch_function__(func, types, args, kwargs)


def broken_in_a_mode(x: torch.Tensor) -> Any:
    with Noting() as noting, Doubling():
        y = torch.sin(x)
        onegraph.graph_break()
        z = torch.sin(y) + 1
    return z, noting.seen, torch.sin(x)


def raised_in_a_mode(x: torch.Tensor) -> Any:
    try:
        with Doubling():
            y = torch.sin(x)
            raise KeyError(1)
    except KeyError:
        return y + torch.sin(x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("f", "inputs"),
    [
        (broken_in_a_class, lambda: (t(cls=Breaking),)),
        (broken_in_a_mode, lambda: (t(),)),
        (raised_in_a_mode, lambda: (t(),)),
    ],
)
def test_what_breaks_equals_eager(f: Any, inputs: Any, backend: str) -> None:
    compiled = onegraph.compile(f, backend=backend)
    for seed in range(3):
        torch.manual_seed(seed)
        expected = outcome(f, inputs())
        torch.manual_seed(seed)
        assert_alike(outcome(compiled, inputs()), expected)
        assert torch._C._len_torch_function_stack() == 0 and torch._C._is_torch_function_enabled()


def test_what_was_read_is_guarded() -> None:
    compiled = onegraph.compile(lambda x: (x + 1, x.unit), fullgraph=True)
    for unit in ("m", "s", "m"):
        result, name = compiled(Unit(torch.ones(2), unit))
        assert (result.unit, name) == (unit, unit)
    doubled = onegraph.compile(lambda x: x.shifted(1.0), fullgraph=True)
    torch.testing.assert_close(doubled(torch.ones(2).as_subclass(Tagged)), torch.full((2,), 3.0).as_subclass(Tagged))
    Tagged.scale = 5.0
    try:
        torch.testing.assert_close(
            doubled(torch.ones(2).as_subclass(Tagged)), torch.full((2,), 6.0).as_subclass(Tagged)
        )
    finally:
        Tagged.scale = 2.0


def test_a_plain_tensor_in_the_place_of_a_subclass() -> None:
    compiled = onegraph.compile(lambda x: x + 1, fullgraph=True)
    for cls in (Negated, torch.Tensor, Tagged, Negated):
        x = torch.ones(3).as_subclass(cls)
        assert_alike(described(compiled(x)), described(x + 1))


def test_sizes_that_change() -> None:
    compiled = onegraph.compile(lambda x: (x.reshape(-1) * x.shape[0], x + 1), fullgraph=True, dynamic=True)
    for size in (3, 5, 7):
        x = torch.randn(size, 2).as_subclass(Negated)
        assert_alike(described(compiled(x)), described((x.reshape(-1) * x.shape[0], x + 1)))


def test_no_class_takes_a_function() -> None:
    def f(x: torch.Tensor, d: Any) -> Any:
        try:
            return torch.add(x, d)
        except TypeError as error:
            return str(error)

    assert onegraph.compile(f, fullgraph=True)(t(3), Diagonal(t(3))) == f(t(3), Diagonal(t(3)))


def test_a_result_and_what_is_computed_from_it_have_one_history() -> None:
    def f(x: torch.Tensor) -> Any:
        z = (x * 2).as_subclass(Tagged)
        return z, (z * 3).sum()

    x = t(grad=True)
    z, loss = onegraph.compile(f, fullgraph=True)(x)
    assert torch.autograd.grad(loss, z)[0].tolist() == [3.0] * 4


def test_code_that_torch_calls_for_functions_is_not_compiled() -> None:
    def f(x: Any) -> Any:
        onegraph.graph_break()
        return sum(getattr(x, name)() for name in ("sin", "cos", "tanh", "exp", "neg", "abs", "sqrt", "square", "relu"))

    with recording(EVENTS, (FrameStarted,)) as seen:
        onegraph.compile(f)(torch.ones(2).as_subclass(Counting))
    assert "__torch_function__" not in {each.event.frame.function for each in seen}
