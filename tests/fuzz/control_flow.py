"""Random programs of branches and loops over tensors: `python -m tests.fuzz.control_flow --count 1000 --seed 0`.

Each composes `cond`, `while_loop`, `scan`, `map` and `associative_scan`, nested, with modules, sizes, operands and
results in any strides, views and operands as results, writes to what they have made and random numbers. It is called
three times, with other sizes for some. Values, gradients and the random stream must be those of the same program with
loops and branches of Python.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

import onegraph
from onegraph.base import events as ev
from onegraph.base.errors import InvalidAccess
from onegraph.compile import EVENTS
from onegraph.tools.record import recording
from tests.control_flow import PYTHON, TORCH, Operators
from tests.fuzz import command
from tests.fuzz.transforms import COMMON, difference

#: Functions of tensors whose last dimension has three elements, to one of the sizes of the first.
ALIKE = (
    "{x}.sin()", "{x}.tanh() + {z}", "{x} * {z}.sigmoid()", "{x}.softmax(-1) * 2", "{x}.cumsum(-1).cos()",
    "{x}.flip(-1)",
    "{x} - 0.9 * {z}.mean(-1, keepdim=True)", "torch.where({z} > 0, {x}, {x} * 0.1)", "({x} @ w).tanh()",
    "LAYER({x}).tanh()",
    "written({x})", "without({x})", "{x}.sin() * {z}.shape[-1]", "{x}.detach().sin() + {x}", "{x}.roll(1, -1).tanh()",
    "{x}.unsqueeze(-1).expand(*{x}.shape, 2).sum(-1).sin()", "torch.cat([{x}[..., 1:], {z}[..., :1]], -1).sin()",
)  # fmt: skip
#: The same values otherwise in memory, or in the memory of others.
PLACED = ("{x}", "turned({x})", "spread({x})", "{x}[...]", "{x}[..., :1].expand({x}.shape)", "{x}.view_as({x})")
#: Writes to what an operator has given, whose operands and other results keep what they have.
WRITES = (
    "{t}.mul_(0.7)", "{t}[..., 1:].add_({t}[..., :1].detach())", "{t}.transpose(0, -1).sub_(0.1)", "{t}[0] = 0.3",
    "{t}.copy_({t}.flip(0).detach().sin())", "{t}.add_({x}.mean())",
)  # fmt: skip
HELPERS = """

def turned(x):
    return x.transpose(0, -1).contiguous().transpose(0, -1)


def spread(x):
    return torch.stack([x, x.cos()], -1)[..., 0]


"""
RANDOM = "{x} * torch.rand(3, dtype={x}.dtype)"
#: What decides is far from a tie, as rounding may differ.
TESTS = (
    "{x}.sum() > 0.317",
    "{x}.mean() < {z}.sum() + 0.211",
    "({x} > 0.1).any()",
    "({x} * {z}).sum().abs() > 1.173",
)
CALLS = 3


class Drawing:
    """One program. `is_random` tells whether it draws random numbers."""

    def __init__(self, number: int) -> None:
        self.rng = random.Random(number)
        self.names = 0
        self.is_random = self.rng.random() < 0.15
        self.is_trained = is_trained(number)
        self.results: list[str] = []

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def alike(self, names: list[str], first: str, depth: int) -> str:
        """An expression that has the sizes of the first name, of names of the same last dimension."""
        text = first
        for _ in range(self.rng.randint(1, 2)):
            if depth and self.rng.random() < 0.35:
                text = self.choice(names, text, depth - 1)
            elif self.rng.random() < 0.25:
                text = self.placed(text)
            else:
                rows = RANDOM if self.is_random and self.rng.random() < 0.3 else self.rng.choice(ALIKE)
                text = rows.format(x=f"({text})", z=first)
        return text

    def placed(self, x: str) -> str:
        """The value, in the same or other memory."""
        return self.rng.choice(PLACED).format(x=f"({x})")

    def writes(self) -> list[str]:
        """Statements that write to the last result of an operator, and to an older one, which no gradient needs."""
        written = self.results[-1:] if self.rng.random() < 0.4 else []
        if not self.is_trained and self.rng.random() < 0.4:
            written += self.rng.choices(self.results)
        return [f"    {self.rng.choice(WRITES).format(t=t, x='x')}" for t in written]

    def choice(self, names: list[str], x: str, depth: int) -> str:
        a, b = self.name("a"), self.name("b")
        test = self.rng.choice(TESTS).format(x=f"({x})", z=self.rng.choice(names))
        first, second = (self.alike([a, b], a, depth) for _ in range(2))
        return f"ops.cond({test}, lambda {a}, {b}: {first}, lambda {a}, {b}: {second}, ({self.placed(x)}, {x} * 0.5))"

    def statement(self, target: str, values: list[str]) -> str:
        x, z = self.rng.choice(values), self.rng.choice(values)
        kind = self.rng.choice(("choice", "while", "while", "scan", "scan", "map", "pairs", "plain"))
        c, r = self.name("c"), self.name("r")
        turn = self.alike([c, r], c, 1)
        match kind:
            case "choice":
                value = self.choice(values, x, 1)
            case "while":
                n, limit = self.name("n"), self.rng.randint(0, 4)
                stop = f"{n} < {limit}" if self.rng.random() < 0.6 else f"({n} < 5) & ({c}.sum() < {limit}.317)"
                turn = self.alike([c, c], c, 1)
                start = self.placed(x)
                value = (
                    f"ops.while_loop(lambda {n}, {c}: {stop}, lambda {n}, {c}: ({n} + 1, {turn}), (zero, {start}))[1]"
                )
            case "scan":
                item = self.alike([r, c], r, 1)
                reverse = self.rng.choice((True, False))
                start, rows = self.placed(f"{x}[0] * 1.0"), self.placed(z)
                call = f"ops.scan(lambda {c}, {r}: ({turn}, {item}), {start}, {rows}, reverse={reverse})"
                value = f"(lambda found: found[1] + found[0])({call})"
            case "map":
                rows, other = self.placed(x), self.placed(f"{z}[0] * 2")
                value = f"ops.map(lambda {r}, {c}: {self.alike([r, c], r, 1)}, {rows}, {other})"
            case "pairs":
                pairs = f"lambda {c}, {r}: ({c} * {r}).sin() + {c}"
                value = f"ops.associative_scan({pairs}, {self.placed(x)}, dim=0, combine_mode='generic')"
            case _:
                value = self.alike([x, z], x, 0)
        return f"    {target} = {value}"

    def text(self) -> str:
        lines, values = ["def f(x, w, ops):", "    zero = torch.tensor(0)"], ["x"]
        for count in range(self.rng.randint(1, 3)):
            lines.append(self.statement(f"t{count}", values))
            values.append(f"t{count}")
            if "ops." in lines[-1]:
                self.results.append(values[-1])
                lines += self.writes()
        return "\n".join([*lines, f"    return {', '.join(values[1:])}, x.sum()", ""])


def draw(number: int) -> str:
    """The text of the function of a program, of rows of three elements and a matrix."""
    return Drawing(number).text()


def is_trained(number: int) -> bool:
    return random.Random(number + 2).random() < 0.6


def run(space: dict[str, Any], function: Callable[..., Any], ops: Operators, number: int, call: int) -> list[Any]:
    """All that is seen of a call: results, gradients, where zeros may be none, and the next random number."""
    rng = random.Random(number + 3)
    trained, changing, rows = is_trained(number), rng.random() < 0.5, rng.randint(2, 4)
    generator = torch.Generator().manual_seed(number * 5 + call)
    size = rows + call if changing else rows
    x, w = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((size, 3), (3, 3)))
    leaves = [x, w, *space["LAYER"].parameters()]
    for tensor in leaves:
        tensor.requires_grad_(trained)
        tensor.grad = None
    torch.manual_seed(number)
    seen = tree_leaves(function(x, w, ops))
    loss = [(t * t.detach().cos()).sum() for t in seen if t.requires_grad]
    if loss:
        torch.stack(loss).sum().backward()
    gradients = [torch.zeros_like(t) if t.grad is None else t.grad for t in leaves]
    return [*seen, *gradients, [(tuple(t.shape), t.dtype) for t in seen], torch.rand(1)]


def check(number: int, **options: Any) -> str:
    """How the program of this number differs when it is compiled; empty if it does not."""
    torch.manual_seed(number)
    space: dict[str, Any] = {"torch": torch}
    exec(compile(COMMON + HELPERS + draw(number), f"<program {number}>", "exec"), space)
    backend = ("eager", "aot_eager", "native", "native")[number % 4]
    settings = {"smallest_recorded_graph": 0, **options} if backend == "native" else {}
    compiled = onegraph.compile(space["f"], backend=backend, fullgraph=True, options=settings)
    with recording(EVENTS, (ev.GraphFailed,)) as failed, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ""
        try:
            for call in range(CALLS):
                theirs = run(space, space["f"], PYTHON, number, call)
                found = difference(run(space, compiled, TORCH, number, call), theirs)
                if found:
                    found = f"call {call}{found}"
                    break
        except (Exception, InvalidAccess) as error:
            found = f": {type(error).__name__}: {error}"
    onegraph.reset()
    return found or next((f": {item.event.error}" for item in failed if item.event.resolved), "")


if __name__ == "__main__":
    sys.exit(command.run("tests.fuzz.control_flow", __doc__, check, draw))
