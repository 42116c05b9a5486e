"""Transforms of torch.func in compiled code: one graph, and eager's values and gradients."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from import_graph import ROOT
from torch.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
    vmap,
)
from torch.utils._pytree import tree_leaves

import onegraph
from onegraph.base.events import GraphBroken, GraphCaptured, OperatorFellBack
from tests.capture.resume.test_breaks import Watch

X, W = torch.linspace(-1, 1.5, 12).reshape(4, 3), torch.linspace(-0.5, 1, 6).reshape(3, 2)
MODEL = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
SEEN: list[torch.Size] = []


def loss(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return ((x @ w).tanh() ** 2).sum()


def parameters() -> dict[str, torch.Tensor]:
    return dict(MODEL.named_parameters())


def of_model(values: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return functional_call(MODEL, values, (x,)).pow(2).mean()


def inner_step(x: torch.Tensor) -> torch.Tensor:
    values = parameters()
    slopes = grad(of_model)(values, x)
    return of_model({name: values[name] - 0.1 * slopes[name] for name in values}, x)


def residual(x: torch.Tensor) -> torch.Tensor:
    def value(point: torch.Tensor) -> torch.Tensor:
        return MODEL(point[None])[0, 0]

    return vmap(lambda point: hessian(value)(point).diagonal().sum() + grad(value)(point).sum())(x)


def writes_inside(x: torch.Tensor) -> torch.Tensor:
    def square(x: torch.Tensor) -> torch.Tensor:
        copy = x.clone()
        copy.mul_(2)
        return copy.sin().sum()

    return grad(square)(x)


def no_grad_outside(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return grad(lambda x: (x**3).sum())(x)


def no_grad_inside(x: torch.Tensor) -> torch.Tensor:
    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            constant = x**2
        return (x - constant).sum()

    return grad(f)(x)


def keeps_sizes(x: torch.Tensor) -> torch.Tensor:
    def f(x: torch.Tensor) -> torch.Tensor:
        SEEN.append(x.shape)
        return x.sin().sum()

    return grad(f)(x)


def asks(x: torch.Tensor) -> torch.Tensor:
    facts = (x.stride(), x.layout, x.is_cpu, x.is_complex(), x.is_floating_point(), x.storage_offset())
    return x * len(facts) if x.is_contiguous() and not x.is_sparse else x


PROGRAMS: dict[str, Callable[..., Any]] = {
    "grad": lambda x, w: grad(loss)(w, x),
    "grad of several": lambda x, w: grad(loss, argnums=(0, 1))(w, x),
    "grad with an aside": lambda x, w: grad(lambda w, x: (loss(w, x), x + 1), has_aux=True)(w, x),
    "grad with keywords": lambda x, w: grad(lambda x, k=1.0, *, y: (x * k * y).sum())(x, 3.0, y=x),
    "grad of a closure": lambda x, w: grad(lambda w: (x @ w).sin().sum())(w),
    "grad of a tree": lambda x, w: grad(lambda d: (d["x"] @ d["w"][0]).sin().sum())({"x": x, "w": (w,)}),
    "grad of what depends on nothing": lambda x, w: grad(lambda x: w.sum())(x),
    "grad_and_value": lambda x, w: grad_and_value(loss)(w, x),
    "grad thrice": lambda x, w: grad(grad(grad(lambda t: t**4)))(x.sum()),
    "vmap of grad": lambda x, w: vmap(grad(loss), in_dims=(None, 0))(w, x),
    "vmap of a tuple": lambda x, w: vmap(lambda pair: pair[0] + pair[1])((x, x)),
    "vmap in chunks": lambda x, w: vmap(lambda x: x.sin(), chunk_size=3)(x),
    "vmap with random numbers": lambda x, w: vmap(lambda x: x + torch.rand(3), randomness="different")(x),
    "vmap with the same random numbers": lambda x, w: vmap(lambda x: x + torch.rand(3), randomness="same")(x),
    "vmap of questions": lambda x, w: vmap(asks)(x),
    "grad of vmap": lambda x, w: grad(lambda w: vmap(loss, in_dims=(None, 0))(w, x).sum())(w),
    "vjp": lambda x, w: vjp(loss, w, x)[1](torch.ones(())),
    "vjp with an aside": lambda x, w: vjp(lambda x: (x.sin(), x.cos()), x, has_aux=True)[2],
    "jvp": lambda x, w: jvp(loss, (w, x), (w, torch.ones_like(x))),
    "jvp of jvp": lambda x, w: jvp(lambda x: jvp(torch.sin, (x,), (x,))[1], (x,), (x,)),
    "jacrev": lambda x, w: jacrev(torch.matmul, argnums=(0, 1))(x, w),
    "jacrev in chunks": lambda x, w: jacrev(torch.sin, chunk_size=2)(x),
    "jacrev of a tree": lambda x, w: jacrev(lambda x: {"a": x @ w, "b": (x.sum(),)})(x),
    "jacfwd": lambda x, w: jacfwd(torch.matmul, argnums=(0, 1))(x, w),
    "hessian": lambda x, w: hessian(loss)(w, x),
    "jacrev of jacfwd": lambda x, w: jacrev(jacfwd(lambda w: loss(w, x)))(w),
    "jacfwd of jacfwd": lambda x, w: jacfwd(jacfwd(lambda w: loss(w, x)))(w),
    "Hessian-vector product": lambda x, w: jvp(grad(loss), (w, x), (w, x))[1],
    "linearize": lambda x, w: linearize(lambda w: loss(w, x), w)[1](w * 2),
    "functionalize": lambda x, w: functionalize(writes_inside)(x),
    "functional_call": lambda x, w: functional_call(MODEL, {n: p * 2 for n, p in parameters().items()}, (x,)),
    "per-sample gradients": lambda x, w: vmap(grad(of_model), in_dims=(None, 0))(parameters(), x),
    "gradient of a step": lambda x, w: inner_step(x),
    "second derivatives of a model": lambda x, w: residual(x),
    "writes inside": lambda x, w: writes_inside(x),
    "no_grad outside": lambda x, w: no_grad_outside(x),
    "no_grad inside": lambda x, w: no_grad_inside(x),
    "random numbers": lambda x, w: grad(lambda x: (x * torch.rand_like(x)).sum())(x),
    "dropout of each": lambda x, w: vmap(
        grad(lambda x: torch.nn.functional.dropout(x, 0.5).sum()), randomness="different"
    )(x),
    "side effects": lambda x, w: keeps_sizes(x),
}
MATCH = {"atol": 1e-5, "rtol": 1e-4}


def outcome(function: Callable[..., Any], records: bool) -> list[Any]:
    """Results, what they require, the gradients of all inputs and parameters, and the next random number."""
    inputs = [each.clone().requires_grad_(records) for each in (X, W)]
    MODEL.zero_grad()
    torch.manual_seed(1)
    results = tree_leaves(function(*inputs))
    differentiable = [each.abs().sum() for each in results if each.requires_grad]
    if differentiable:
        torch.stack(differentiable).sum().backward()
    gradients = [each.grad for each in (*inputs, *MODEL.parameters())]
    return [*results, [each.requires_grad for each in results], *gradients, torch.rand(1)]


#: What breaks the graph where gradients are recorded.
NOT_TRAINED = {"linearize"}


@pytest.mark.parametrize("records", [False, True], ids=["infer", "train"])
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_is_one_graph(name: str, backend: str, records: bool) -> None:
    expected = outcome(PROGRAMS[name], records)
    SEEN.clear()
    with Watch() as watch:
        whole = not (records and name in NOT_TRAINED)
        found = outcome(onegraph.compile(PROGRAMS[name], fullgraph=whole, backend=backend), records)
    torch.testing.assert_close(found, expected, **MATCH)
    assert len(watch.of(GraphCaptured)) == 1 or not whole
    assert SEEN == ([X.shape] if name == "side effects" else [])


def test_sizes_that_change() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return vmap(grad(lambda row: (row.sin() * row.shape[0]).sum()))(x)

    compiled = onegraph.compile(f, fullgraph=True)
    with Watch() as watch:
        for rows in (4, 5, 7, 2):
            x = torch.randn(rows, 3)
            torch.testing.assert_close(compiled(x), f(x))
    assert len(watch.of(GraphCaptured)) == 2


def breaks_inside(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    onegraph.graph_break()
    return y.cos().sum()


def branches_inside(x: torch.Tensor) -> torch.Tensor:
    return x.sum() * (2 if x.sum() > 0 else 3)


@pytest.mark.parametrize("transform", [grad, jacrev, jacfwd, hessian])
@pytest.mark.parametrize("inner", [breaks_inside, branches_inside])
def test_a_break_inside_runs_the_transform_eagerly(transform: Any, inner: Any) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return transform(inner)(x * 2) + 1

    with Watch() as watch:
        torch.testing.assert_close(onegraph.compile(f)(X), f(X))
    assert watch.of(GraphBroken)
    torch.testing.assert_close(jvp(torch.sin, (X,), (X,)), (X.sin(), X.cos() * X))  # no level is left open


def test_errors_are_eagers() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return grad(lambda x: x * 2)(x)

    with pytest.raises(RuntimeError, match="Expected f.*to return a scalar Tensor|scalar Tensor"):
        onegraph.compile(f)(X)

    def caught(x: torch.Tensor) -> torch.Tensor:
        try:
            return f(x)
        except RuntimeError:
            return x + 1

    assert torch.equal(onegraph.compile(caught)(X), X + 1)
    torch.testing.assert_close(grad(lambda x: x.sin().sum())(X), X.cos())


def test_a_product_that_leaves_its_function() -> None:
    """What `vjp` gives holds tensors of a level that is gone: eager's is the only one that works outside."""

    def f(x: torch.Tensor) -> Any:
        return vjp(torch.sin, x)

    value, product = onegraph.compile(f)(X)
    assert torch.equal(value, X.sin())
    torch.testing.assert_close(product(torch.ones_like(X)), (X.cos(),))


@pytest.mark.parametrize("transform", [grad, jacrev, jacfwd, vmap])
def test_transforms_of_compiled_functions(transform: Any) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * 2).sum()

    torch.testing.assert_close(transform(onegraph.compile(f))(X), transform(f)(X))
    inner = onegraph.compile(f)
    outer = onegraph.compile(lambda x: transform(inner)(x), fullgraph=True)
    torch.testing.assert_close(outer(X), transform(f)(X))


def test_each_public_function_has_a_row() -> None:
    page = (ROOT / "docs" / "programming_model" / "transforms.md").read_text()
    rows = set(re.findall(r"^\| `(\w+)` \|", page, re.M))
    public = {name for name in vars(torch.func) if not name.startswith("_")}
    assert public <= rows


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_under_no_grad_too_they_are_compiled(backend: str) -> None:
    """Gradients that are recorded within the graph alone are none that autograd has to be told of."""

    def along(w: torch.Tensor, x: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        return jvp(grad(loss), (w, x), (direction, torch.zeros_like(x)))[1]

    def inside(w: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.enable_grad():
            own = w.detach().requires_grad_()
            found = torch.autograd.grad(loss(own, x), own)[0]
        return found * 2, w + 1

    with Watch() as watch, torch.no_grad():
        for function, inputs in ((along, (W, X, W * 2)), (inside, (W, X))):
            compiled = onegraph.compile(function, fullgraph=True, backend=backend)
            torch.testing.assert_close(compiled(*inputs), function(*inputs))
    assert not [event for event in watch.of(OperatorFellBack) if "whole graph" in event.reason]
