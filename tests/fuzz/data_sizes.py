"""Random programs with sizes that only the data say: `python -m tests.fuzz.data_sizes --count 1000 --seed 0`.

Rows of matrices are selected by masks and places, repeated, split, counted, ordered, and put together again; integers
are taken out of tensors and made sizes; programs check them and branch on them. Each program is called five times: with
other data, other sizes, one row and none. Results, gradients, sizes, strides and errors must be eager's.
`ONEGRAPH_SANITIZE=1` before it checks each access of the kernels that are compiled for it.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

import onegraph
from onegraph.base.errors import InvalidAccess
from tests.fuzz import command

#: Matrices of four columns, of `a` and `b` which are such, of the numbers `k` and `n`.
ROWS = (
    "{a}[{a}[:, 0] > {k}]", "{a}[{a}.sum(1) < {k}]", "{a}[torch.nonzero({a}[:, 1] > {k})[:, 0]]", "{a}[mask({a})]",
    "{a}[torch.where({a}[:, 2] > 0)[0]]", "torch.cat([{a}, {b}])", "torch.cat([{a}[mask({a})], {a}[~mask({a})]])",
    "{a}.repeat_interleave(counts({a}), dim=0)", "{a}[torch.unique(counts({a})).clamp(max={a}.shape[0] - 1)]",
    "{a}[: {n}]", "{a}[{n} :]", "torch.zeros({n}, 4) + {k}", "{a}.new_ones({n}, 4).cumsum(0)", "{a}[:2]", "{a}[1:]",
    "torch.arange({n})[:, None] * torch.ones(4)", "torch.bincount(counts({a}))[:, None] * torch.ones(4)",
    "{a}.split([{n}, {a}.shape[0] - {n}])[1]", "{a}[{a}[:, 0].argsort()]", "{a}.flip(0)",
    "{a}.masked_fill({a} > 0, {k})", "{a}.sin()", "{a} * {k}", "{a} @ w", "torch.relu({a})", "{a} - {a}.mean(0)",
    "{a}.softmax(1)", "{a}.cumsum(0)", "torch.where({a} > {k}, {a}, 0)", "{a} + {n}", "{a} * {a}.shape[0]",
    "{a} + {a}[mask({a})].sum(0)", "torch.nn.functional.linear({a}, w)", "torch.nn.functional.layer_norm({a}, (4,))",
    "{a} + torch.ones_like({a})", "torch.zeros(5, 4).index_add(0, counts({a}), {a})",
    "{a}.index_select(0, torch.nonzero(mask({a}))[:, 0])", "{a}.view(-1, 2).flip(1).view(-1, 4)",
    "{a}.t().contiguous().t()", "torch.masked_select({a}, {a} > {k})[:, None].expand(-1, 4)",
    "{a}[mask({a})] + {a}[mask({a})]", "filled({a}, mask({a}), {k})", "{a}.expand(2, -1, -1).sum(0)",
    "{a}[:, [2, 0, 1, 3]]", "torch.stack([{a}, {a}]).amax(0)", "{a}.unsqueeze(1).repeat(1, 2, 1).mean(1)",
    "{a}.clone()", "torch.tanh({a}) + {k}",
)  # fmt: skip
NUMBERS = (
    "{a}.shape[0]", "mask({a}).sum().item()", "len({a}) // 2", "counts({a}).sum().item() % 3", "{n} + 1", "{n} * 2",
    "torch.count_nonzero({a} > {k}).item()", "int(mask({a}).sum())", "counts({a})[:1].sum().item()", "min({n}, 3)",
    "mask({a}).long().tolist().__len__()",
)  # fmt: skip
STATEMENTS = (
    "assert {n} >= 0", "torch._check({n} < 100)", "assert {a}.shape[0] <= 64", "x = x if {n} > 2 else x * 2",
    "y = y * 2 if {a}.shape[0] > 1 else y", "kept.append({n})",
)  # fmt: skip
HELPERS = """
def mask(a):
    return a[:, 0] > 0.1
def counts(a):
    return (a[:, 1].abs() * 2).long().clamp(max=4)
def filled(a, chosen, k):
    a = a.clone()
    a[chosen] = k
    return a
"""
CALLS = 5


class Drawing:
    """One program of the matrices `x` and `y`."""

    def __init__(self, number: int) -> None:
        self.rng = random.Random(number)
        self.rows, self.numbers = ["x", "y"], ["2", "x.shape[0]"]

    def filled(self, templates: tuple[str, ...]) -> str:
        a, b = self.rng.choice(self.rows[-3:]), self.rng.choice(self.rows)
        n, k = self.rng.choice(self.numbers[-2:]), self.rng.choice((0.5, 0, -0.3))
        return self.rng.choice(templates).format(a=a, b=b, n=n, k=k)

    def text(self) -> str:
        lines = ["def f(x, y, w):", "    kept = []"]
        for count in range(self.rng.randint(2, 7)):
            kind = self.rng.random()
            if kind < 0.7:
                lines.append(f"    a{count} = {self.filled(ROWS)}")
                self.rows.append(f"a{count}")
            elif kind < 0.88:
                lines.append(f"    n{count} = {self.filled(NUMBERS)}")
                self.numbers.append(f"n{count}")
            else:
                lines.append(f"    {self.filled(STATEMENTS)}")
        results = [*self.rows[2:], *self.numbers[2:], "x", "kept"]
        return "\n".join([HELPERS, *lines, f"    return {', '.join(results)}", ""])


def draw(number: int) -> str:
    """The text of the function of a program."""
    return Drawing(number).text()


def run(function: Callable[..., Any], number: int, call: int) -> list[Any]:
    """All that is seen of a call: results, their layouts, gradients; or the error."""
    rng = random.Random(number + 3)
    recorded, moves = rng.random() < 0.5, rng.random() < 0.5
    torch.manual_seed(number * 7 + call)
    rows = {3: 1, 4: 0}.get(call, 5 + call * moves) if moves else 5
    x, y, w = torch.randn(rows, 4), torch.randn(6, 4), torch.randn(4, 4)
    if call == 2:
        x = x.abs() * -1
    inputs = [value.requires_grad_(recorded) for value in (x, y, w)]
    try:
        results = list(function(*inputs))
        tensors = [value for value in results if isinstance(value, torch.Tensor)]
        followed = [value for value in tensors if value.requires_grad]
        if followed:
            sum(value.sin().sum() for value in followed).backward()
    except (TypeError, ValueError, IndexError, RuntimeError, AssertionError) as error:
        return [type(error).__name__]
    return [*results, [value.requires_grad for value in tensors], *(value.grad for value in inputs)]


def difference(ours: list[Any], theirs: list[Any]) -> str:
    """The first difference in words; empty if there is none."""
    if len(ours) != len(theirs):
        return f"{ours!s:.300} instead of {theirs!s:.300}"
    for at, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if type(mine) is not type(other):
            return f"[{at}]: {type(mine)} instead of {type(other)}"
        if not isinstance(other, torch.Tensor):
            if mine != other:
                return f"[{at}]: {mine!s:.300} instead of {other!s:.300}"
            continue
        if (mine.dtype, mine.shape) != (other.dtype, other.shape):
            return f"[{at}]: {mine.dtype, mine.shape} instead of {other.dtype, other.shape}"
        if other.numel() and strides(mine) != strides(other):
            return f"[{at}]: strides {mine.stride()} instead of {other.stride()} of {tuple(other.shape)}"
        scale = (
            float(other.detach().abs().nan_to_num().max()) if other.numel() and other.dtype.is_floating_point else 0.0
        )
        if not torch.allclose(mine, other, rtol=1e-4, atol=1e-5 * (1 + scale), equal_nan=True):
            return f"[{at}]: {mine!s:.400} instead of {other!s:.400}"
    return ""


def strides(tensor: torch.Tensor) -> list[int]:
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def check(number: int, **options: Any) -> str:
    """How the program of this number differs when it is compiled; empty if it does not."""
    space: dict[str, Any] = {"torch": torch}
    exec(compile(draw(number), f"<program {number}>", "exec"), space)
    backend = {0: "eager", 1: "aot_eager"}.get(number % 6, "native")
    settings = {"raise_compiler_errors": backend == "native", **options}
    compiled = onegraph.compile(space["f"], backend=backend, options=settings)
    text = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = (difference(run(compiled, number, call), run(space["f"], number, call)) for call in range(CALLS))
            text = next((f" call {call}{text}" for call, text in enumerate(found) if text), "")
        except (Exception, InvalidAccess) as error:  # of onegraph: those of eager are results
            text = f" {type(error).__name__}: {error}"
    onegraph.reset()
    return text


if __name__ == "__main__":
    sys.exit(command.run("tests.fuzz.data_sizes", __doc__, check, draw))
