"""Programs about gradients: what is recorded, in which state, what is cut off, marked, written to, and run backward.

Breaks are anywhere; what autograd raises is compared as all that the program sees.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from random import Random

HEADER = """\
import contextlib
import marshal

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

LOG = []
KEPT = []
HANDLES = []


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        y = self.norm(self.linear(x.reshape(1, 4) * torch.arange(1.0, 4.0).reshape(3, 1)))
        with torch.no_grad():
            self.seen += y.mean(0)
        return y.relu().sum(0)


NET = Net()
BIAS = torch.nn.Parameter(torch.ones(4))


def graph_break():
    marshal.dumps(0)


def identity(t):
    graph_break()
    return t


@torch.no_grad()
def unrecorded(t):
    return t * BIAS


@torch.enable_grad()
def recorded(t):
    graph_break()
    return t * BIAS


def hooked(t, hook):
    if t.requires_grad:
        HANDLES.append(t.register_hook(hook))
    return t


def seen(t):
    LOG.append((t.requires_grad, t.is_leaf, t.grad_fn is None, t._version > 0, torch.is_grad_enabled()))
"""

FOOTER = """
def tensors():
    return torch.rand(4), torch.rand(8)[2:6]


def call_0():
    x, y = tensors()
    return x.requires_grad_(), y, 1


def call_1():
    x, y = tensors()
    return x.requires_grad_() * 2, y.requires_grad_(), 2


def call_2():
    x, y = tensors()
    LOG.append([t.grad for t in KEPT])
    return x, y, 0


def call_3():
    x, y = tensors()
    KEPT.clear()
    x = x.requires_grad_() * 1
    return x, x.view(4), 3
"""

MODES = (
    "torch.no_grad()", "torch.no_grad()", "torch.enable_grad()", "torch.set_grad_enabled(n > 1)",
    "torch.set_grad_enabled({t}.requires_grad)", "torch.inference_mode()", "torch.autocast('cpu')",
    "contextlib.nullcontext()", "torch.autograd.graph.save_on_cpu()",
)  # fmt: skip
VALUES = (
    "{t} * {u}", "{t} * {u}", "{t} + {u}", "{t}.sin()", "{t}.sigmoid() * 2", "{t} / (1 + {u}.abs())",
    "torch.where({t} > 0.5, {t}, {u})", "{t} * BIAS", "F.linear({t}, NET.linear.weight)", "NET({t})", "{t}.clone()",
    "{t}.view(4)", "{t}[:]", "{t}.flip(0)", "{t}.reshape(2, 2).t().reshape(4)", "{t}.detach()", "{t}.detach() * {u}",
    "{t}.data", "{t}.clone().requires_grad_()", "torch.ones(4, requires_grad=True) * {t}",
    "torch.nn.Parameter({t}.detach())", "{t} @ {u} * {t}", "F.dropout({t}, 0.5)", "identity({t})", "unrecorded({t})",
    "recorded({t})", "{t}.float().cumsum(0)", "torch.stack([{t}, {u}]).sum(0)",
    "checkpoint(torch.sin, {t}, use_reentrant=False)", "{t}.exp().clamp(max=2)", "{t} ** 2", "torch.softmax({t}, 0)",
    "({t} if {u}.requires_grad else {u})", "{t}.to(torch.float64).float()", "hooked({t} * 2, lambda g: g * 3)",
    "hooked({t} * {u}, lambda g: LOG.append(g.sum().item()))", "hooked({t}.sin(), lambda g, n=n: g + n)",
    "hooked({t}.exp(), lambda g: g * {u})",
)  # fmt: skip
STATEMENTS = (
    "{t}.add_({u})", "{t}.mul_(2)", "{t}[0] = {u}[1]", "{t}[:2] += {u}[2:]", "{t}.copy_({u})", "{t}.zero_()",
    "{t}.sigmoid_()", "{t}.requires_grad_()", "{t}.requires_grad = True", "{t}.requires_grad_(False)",
    "{t}.detach_()", "{t}.retain_grad()", "{t}.sum().backward(retain_graph=True)", "({t} * {u}).sum().backward()",
    "BIAS.requires_grad_(n > 1)", "[handle.remove() for handle in HANDLES]", "HANDLES.clear()",
    "LOG.append(torch.autograd.grad({t}.sum(), {u}, allow_unused=True, retain_graph=True))", "{t}.grad = None",
    "seen({t})", "seen({t})", "KEPT.append({t})", "LOG.append({t}.grad)", "NET.zero_grad()", "BIAS.data.mul_(1.5)",
    "torch.set_grad_enabled(n > 0)", "NET.train(n > 1)", "{t}.data.mul_(2)", "LOG.append({t}.sum().item())",
)  # fmt: skip
BREAKS = ("graph_break()", "graph_break()", "print(n)", "n = marshal.loads(marshal.dumps(n))")


class Drawer:
    """Writes lines; `names` are the tensors that are there for sure."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self.indent = 0
        self.names: list[str] = []
        self.count = 0

    def one(self, items: Sequence[str]) -> str:
        return self.random.choice(items)

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """What is defined in the block is not there for sure behind it."""
        names, self.indent = self.names[:], self.indent + 1
        yield
        self.names, self.indent = names, self.indent - 1

    def fill(self, template: str) -> str:
        return template.format(t=self.one(self.names), u=self.one(self.names))

    def statements(self, most: int, depth: int) -> None:
        for _ in range(self.random.randint(1, most)):
            self.statement(depth)

    def statement(self, depth: int) -> None:
        match self.random.randrange(20 if depth < 3 else 14):
            case 0 | 1 | 2 | 3 | 4 | 5 | 6:
                value = self.fill(self.one(VALUES))
                if self.random.randrange(4):
                    self.count += 1
                    self.names.append(f"t{self.count}")
                    self.line(f"t{self.count} = {value}")
                else:
                    self.line(f"{self.one(self.names)} = {value}")
            case 7 | 8 | 9 | 10:
                self.line(self.fill(self.one(STATEMENTS)))
            case 11 | 12 | 13:
                self.line(self.one(BREAKS))
            case 14 | 15 | 16:
                self.line(f"with {self.fill(self.one(MODES))}:")
                with self.block():
                    self.statements(4, depth + 1)
            case 17:
                self.line(self.fill(self.one(("for _ in range(2):", "if {t}.requires_grad:", "if n > 1:"))))
                with self.block():
                    self.statements(3, depth + 1)
            case _:
                self.line("try:")
                with self.block():
                    self.statements(3, depth + 1)
                self.line("except RuntimeError as error:")
                with self.block():
                    self.line("LOG.append(type(error))")
                    self.statements(1, depth + 1)


def draw_recording(random: Random) -> str:
    """The text of a program."""
    drawer = Drawer(random)
    drawer.line("def f(x, y, n):")
    drawer.names = ["x", "y"]
    with drawer.block():
        drawer.statements(9, 0)
        drawer.line(f"return {', '.join(drawer.names)}")
    return HEADER + "\n".join(["", *drawer.lines, ""]) + FOOTER
