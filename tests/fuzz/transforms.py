"""Random programs that compose transforms of functions: `python -m tests.fuzz.transforms --count 1000 --seed 0`.

Each applies transforms of torch.func, checkpoints and `torch.autograd.grad` to functions that do so themselves, with
modules, random numbers, writes, blocks without gradients and side effects in between. It is called three times, with
other sizes for some. Values, gradients, side effects, errors and the random stream must be eager's.
`ONEGRAPH_SANITIZE=1` before it checks each access of the kernels that are compiled for it.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import onegraph
from onegraph.base import events as ev
from onegraph.base.errors import InvalidAccess
from onegraph.compile import EVENTS
from onegraph.tools.record import recording
from tests.fuzz import command

#: What programs of other fuzzers call, too.
COMMON = """
LAYER = torch.nn.Linear(3, 3, dtype=torch.float64)


def written(x):
    y = x.clone()
    y[..., 1:] = x[..., :-1].sin()
    return y.mul_(0.5).add_(x)


def without(x):
    with torch.no_grad():
        constant = x.cos()
    return x * constant
"""
PRELUDE = (
    COMMON
    + """
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils.checkpoint import checkpoint

SEEN = []


def noted(x):
    SEEN.append(tuple(x.shape))
    return x


def slope(function, x):
    z = x.detach().requires_grad_()
    return torch.autograd.grad(function(z), z)[0]


def called(x):
    return functional_call(LAYER, {name: p * 0.5 for name, p in LAYER.named_parameters()}, (x,))


def of_parameters(x):
    found = grad(lambda p, x: functional_call(LAYER, p, (x,)).sin().sum())(dict(LAYER.named_parameters()), x)
    return found["bias"] * x
"""
)
#: Functions of a tensor whose last dimension has three elements, to one of the same sizes.
ALIKE = (
    "{x}.sin()", "{x}.tanh()", "{x} * {x}", "{x}.sigmoid() * 2", "{x}.softmax(-1)", "{x}.cumsum(-1)", "{x}.flip(-1)",
    "{x} - {x}.mean(-1, keepdim=True)", "torch.where({x} > 0, {x}, {x} * 0.1)", "torch.nn.functional.gelu({x})",
    "{x}.clamp(-1, 1) + {x}", "{x} * {k}", "({x} + {k}).abs().sqrt()", "{x}.exp().log1p()", "{x} ** 3",
    "w @ {x}[..., None]",
    "LAYER({x})", "called({x})", "written({x})", "without({x})", "noted({x})", "of_parameters({x})",
    "{x} * torch.rand(3, dtype={x}.dtype)", "torch.nn.functional.layer_norm({x}, (3,))", "{x}.roll(1, -1) * {x}",
    "{x}.unsqueeze(-1).expand(*{x}.shape, 2).sum(-1)", "torch.cat([{x}[..., 1:], {x}[..., :1]], -1)",
    "{x} * {x}.shape[-1]", "torch.atan2({x}, {x} + 2)", "{x}.detach() * {x}",
)  # fmt: skip
SCALARS = (
    "({v}).sum()",
    "({v}).pow(2).mean()",
    "({v}).logsumexp(-1).sum()",
    "({v}).sin().sum() * {k}",
    "({v}).prod(-1).sum()",
)
#: Of a row, to one of the same size.
OF_A_ROW = (
    "grad(lambda {y}: {s})({x})", "grad(lambda {y}: {s})({x})", "grad_and_value(lambda {y}: {s})({x})[0]",
    "jacrev(lambda {y}: {v})({x}).sum(0)", "jacfwd(lambda {y}: {v})({x}).sum(1)",
    "hessian(lambda {y}: {s})({x}).sum(0)",
    "jvp(lambda {y}: {v}, ({x},), ({x},))[1]", "vjp(lambda {y}: {v}, {x})[1]({x} * 2)[0]",
    "checkpoint(lambda {y}: {v}, {x}, use_reentrant=False)", "slope(lambda {y}: {s}, {x})",
    "jacrev(lambda {y}: {v}, chunk_size=2)({x}).sum(0)",
)  # fmt: skip
#: Of rows, to as many.
OF_ROWS = (
    "vmap(lambda {y}: {v}, randomness='{r}')({x})", "vmap(lambda {y}: {v}, randomness='{r}', chunk_size=2)({x})",
    "vmap(grad(lambda {y}: {s}), randomness='{r}')({x})", "vmap(lambda {y}: {v}, 0, 1, randomness='{r}')({x}).t()",
    "grad(lambda {y}: {s})({x})", "jvp(lambda {y}: {v}, ({x},), ({x},))[1]", "vjp(lambda {y}: {v}, {x})[1]({x})[0]",
    "checkpoint(lambda {y}: {v}, {x}, use_reentrant=False)", "slope(lambda {y}: {s}, {x})",
    "vmap(lambda {y}, z: {v} * z, (0, None), randomness='{r}')({x}, {x}[0])",
)  # fmt: skip
CALLS, TOLERANCE = 3, 1e-8


class Drawing:
    """One program. Functions are drawn to a depth of transforms, of `dim` dimensions each."""

    def __init__(self, number: int) -> None:
        self.rng = random.Random(number)
        self.names = 0

    def alike(self, x: str, dim: int, depth: int) -> str:
        """An expression of `x` that has its sizes."""
        text = x
        for _ in range(self.rng.randint(1, 2)):
            text = self.transformed(text, dim, depth - 1) if depth and self.rng.random() < 0.5 else self.plain(text)
        return text

    def plain(self, x: str) -> str:
        text = self.rng.choice(ALIKE).format(x=f"({x})", k=self.rng.choice((0.5, 2, 3.0)))
        return f"({text})[..., 0]" if text.startswith("w @") else text

    def transformed(self, x: str, dim: int, depth: int) -> str:
        self.names += 1
        y = f"y{self.names}"
        template = self.rng.choice(OF_ROWS if dim == 2 else OF_A_ROW)
        inner = dim - 1 if template.startswith("vmap") else dim
        value = self.alike(y, inner, depth)
        scalar = self.rng.choice(SCALARS).format(v=value, k=self.rng.choice((1, 0.5)))
        chosen = self.rng.choice(("different", "same"))
        return template.format(x=f"({x})", y=y, v=value, s=scalar, r=chosen)

    def text(self) -> str:
        lines = ["def f(x, w):"]
        for count in range(self.rng.randint(1, 3)):
            source = self.rng.choice(["x", *(f"t{n}" for n in range(count))])
            rows = self.rng.random() < 0.6
            value = self.transformed(source, 2, 2) if rows else self.transformed(f"{source}[0]", 1, 2)
            lines.append(f"    t{count} = {value}" + ("" if rows else f" * {source}"))
        results = [f"t{n}" for n in range(count + 1)]
        return "\n".join([*lines, f"    return {', '.join(results)}, x.sum()", ""])


def draw(number: int) -> str:
    """The text of the function of a program, of rows of three elements and a matrix."""
    return Drawing(number).text()


def run(space: dict[str, Any], function: Callable[..., Any], number: int, call: int) -> list[Any]:
    """All that is seen of a call: results, gradients, side effects, the next random number; or the error."""
    rng = random.Random(number + 3)
    trained, changing, rows = rng.random() < 0.5, rng.random() < 0.5, rng.randint(2, 4)
    generator = torch.Generator().manual_seed(number * 5 + call)
    size = rows + call if changing else rows
    x, w = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((size, 3), (3, 3)))
    for tensor in (x, w, *space["LAYER"].parameters()):
        tensor.requires_grad_(trained)
        tensor.grad = None
    space["SEEN"].clear()
    torch.manual_seed(number)
    seen: list[Any]
    try:
        seen = tree_leaves(function(x, w))
        loss = [(t * t.detach().cos()).sum() for t in seen if t.requires_grad]
        if loss:
            torch.stack(loss).sum().backward()
    except (RuntimeError, IndexError, ValueError) as error:
        return [type(error).__name__]
    gradients = [tensor.grad for tensor in (x, w, *space["LAYER"].parameters())]
    kinds = [(t.requires_grad, tuple(t.shape), t.dtype) for t in seen]
    return [*seen, *gradients, kinds, list(space["SEEN"]), torch.rand(1)]


def difference(ours: list[Any], theirs: list[Any]) -> str:
    """The first difference in words; empty if there is none."""
    if len(ours) != len(theirs):
        return f"{ours!s:.300} instead of {theirs!s:.300}"
    for at, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(mine, Tensor) and isinstance(other, Tensor) and mine.shape == other.shape:
            if not torch.allclose(mine, other, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
                return f"[{at}]: {mine.detach()!s:.300} instead of {other.detach()!s:.300}"
        elif isinstance(mine, Tensor) or isinstance(other, Tensor) or mine != other:
            return f"[{at}]: {mine!s:.200} instead of {other!s:.200}"
    return ""


def check(number: int, **options: Any) -> str:
    """How the program of this number differs when it is compiled; empty if it does not."""
    torch.manual_seed(number)
    space: dict[str, Any] = {"torch": torch}
    text = draw(number)
    exec(compile(PRELUDE + text, f"<program {number}>", "exec"), space)
    backend = "eager" if number % 4 == 0 else "native"
    settings = {"raise_compiler_errors": backend == "native", **options}
    compiled = onegraph.compile(space["f"], backend=backend, options=settings)
    with recording(EVENTS, (ev.GraphFailed,)) as failed, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ""
        try:
            for call in range(CALLS):
                theirs = run(space, space["f"], number, call)
                if len(theirs) == 1 and "checkpoint(" in text:
                    break  # it computes again in another state, which compiled code does not do
                found = difference(run(space, compiled, number, call), theirs)
                if found:
                    break
            found = f"call {call}{found}" if found else ""
        except (Exception, InvalidAccess) as error:  # of onegraph: those of eager are results
            found = f": {type(error).__name__}: {error}"
    onegraph.reset()
    return found or next((f": {item.event.error}" for item in failed if item.event.resolved), "")


if __name__ == "__main__":
    sys.exit(command.run("tests.fuzz.transforms", __doc__, check, draw))
