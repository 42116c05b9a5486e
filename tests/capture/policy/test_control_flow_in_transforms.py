"""Control flow operators under transforms of `torch.func`, and loops that numbers of Python count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, jacrev, jvp, vmap

import onegraph
from tests.control_flow import PYTHON, TORCH, Operators

WEIGHT = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
BACKENDS = ["eager", "aot_eager", "native"]


def chosen(r: Tensor, ops: Operators) -> Tensor:
    return ops.cond(r.sum() > 0, lambda a: {"y": (a @ WEIGHT).sin()}, lambda a: {"y": a.cos() * r}, (r,))["y"]


def selected(r: Tensor, _: Operators) -> Tensor:
    """The same without a branch."""
    return torch.where(r.sum() > 0, (r @ WEIGHT).sin(), r.cos() * r)


Program = Callable[[Tensor, Callable[[Tensor], Tensor]], Any]
CHOICES: list[Program] = [
    lambda x, f: vmap(f)(x),
    lambda x, f: vmap(grad(lambda r: f(r).sum()))(x),
    lambda x, f: grad(lambda x: vmap(f)(x).square().sum())(x),
    lambda x, f: vmap(vmap(lambda r: f(r * x[0]), in_dims=1))(torch.stack([x, x * 2, -x], 2)),
    lambda x, f: jvp(vmap(f), (x,), (x.cos(),)),
    lambda x, f: vmap(jacrev(f))(x),
]


def scanned(x: Tensor, ops: Operators) -> Any:
    return vmap(lambda r: ops.scan(lambda c, y: (c.tanh() + y, (c * y, y + 1)), r[0] * 0, r, reverse=True))(x)


def differentiated(x: Tensor, ops: Operators) -> Any:
    return grad(lambda x: ops.scan(lambda c, y: (c, (c * y).sin()), x[0], x)[1].sum())(x)


def mapped(x: Tensor, ops: Operators) -> Any:
    return vmap(lambda r: ops.map(lambda part, whole: part * whole.sum(), r, r))(x)


def paired(x: Tensor, ops: Operators) -> Any:
    return vmap(lambda r: ops.associative_scan(lambda a, b: a * b + a, r, dim=0, combine_mode="generic"))(x)


def counted(x: Tensor, ops: Operators) -> Any:
    y = ops.while_loop(lambda i, a: 2 * i < a.shape[0], lambda i, a: (i + 1, a * 2 + i), (0, x))
    return y[0], y[1].mul_(2)


def counted_under_transforms(x: Tensor, ops: Operators) -> Any:
    def turned(r: Tensor) -> Tensor:
        return ops.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, (a @ WEIGHT).sin()), (0, r))[1]

    return vmap(turned)(x), vmap(grad(lambda r: turned(r).sum()))(x)


def no_turns(x: Tensor, ops: Operators) -> Any:
    n, y = ops.while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, a * 2), (0, x))
    y.add_(1)
    return n, y, x


def in_containers(x: Tensor, ops: Operators) -> Any:
    turn = lambda d: ({"i": d["i"] + 1, "x": d["x"] * 2},)  # noqa: E731
    counts = [ops.while_loop(lambda d: d["i"] < 3, turn, ({"i": n, "x": x},)) for n in (0, torch.tensor(0))]
    return counts, ops.while_loop(lambda a: a["x"].sum() < 9, lambda a: ({"x": a["x"].exp()},), ({"x": x},))


LOOPS = [scanned, differentiated, mapped, paired, counted, counted_under_transforms, no_turns, in_containers]


def compare(program: Callable[..., Any], plain: Callable[..., Any], backend: str, recorded: bool) -> None:
    onegraph.reset()
    options = {"smallest_recorded_graph": 0} if backend == "native" else {}
    compiled = onegraph.compile(program, backend=backend, fullgraph=True, options=options)
    for seed in range(2):
        found = []
        for function in (compiled, plain):
            x = torch.randn(5, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            x.requires_grad_(recorded)
            given = function(x * 1 if recorded else x)
            ends = [leaf for leaf in torch.utils._pytree.tree_leaves(given) if getattr(leaf, "requires_grad", False)]
            if ends:
                sum((end * end.detach().cos()).sum() for end in ends).backward()
            found.append((given, x.grad))
        torch.testing.assert_close(*found)


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", range(len(CHOICES)))
def test_each_element_takes_its_branch(number: int, backend: str, recorded: bool) -> None:
    program = CHOICES[number]
    branches, plain = (lambda x, f=f: program(x, lambda r: f(r, TORCH)) for f in (chosen, selected))
    compare(branches, plain, backend, recorded)


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", LOOPS, ids=lambda program: program.__name__)
def test_loops(program: Callable[..., Any], backend: str, recorded: bool) -> None:
    compare(lambda x: program(x, TORCH), lambda x: program(x, PYTHON), backend, recorded)


def test_long_loops_break() -> None:
    """A graph has each turn: of many, torch runs the loop."""
    x = torch.ones(2)
    for program in (
        lambda x: torch.while_loop(lambda i, a: i < 101, lambda i, a: (i + 1, a + 1), (0, x)),
        lambda x: vmap(lambda r: TORCH.scan(lambda c, y: (c + y, c), r * 0, r.expand(101)))(x),
    ):
        with pytest.raises(onegraph.GraphBreakError, match="100"):
            onegraph.compile(program, fullgraph=True)(x)
