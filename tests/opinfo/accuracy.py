"""How near to the truth the results of operators are: errors of ours and of eager's, against double precision.

Two questions. Of operators that work element by element, over all of float32: bit patterns at equal distances, numbers
near zero and all special values. Of every operator, over the samples of the database. An error counts units in the last
place (ulp) of the truth; where elements are sums of others, of the largest element of the result.

A result is good if no error is above `ALLOWED` units, or none is above eager's worst, and where it is what eager gives.
Special values must be eager's, or the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from onegraph.autograd.graphs import functional_graph
from onegraph.autograd.runtime import bind
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.compiler import compile_graph
from onegraph.compiler.cpu import CPU
from onegraph.torchlib.fake import FakeMode
from tests.opinfo.harness import SEED, as_module, copies, on_tensors, samples

ALLOWED = 2.0  # units in the last place
MANY = 1e30  # units: eager's result is an infinity, or is none at all
PATTERNS = 1 << 21  # bit patterns of float32 that are tried
SPECIAL = (
    0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1.1754944e-38, -1.1754944e-38, 1.1754942e-38,
    3.4028235e38, -3.4028235e38, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 0.99999994, 1.0000001, -0.99999994, -1.0000001,
    1.5, 2.5, -1.5, -2.5, 88.72284, -87.33655, 103.97208, -103.97208, 16777216.0, 8388607.5, -8388607.5, 0.7853982,
    1.5707964, 3.1415927,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The worst errors of an operator in units in the last place, and where a special value is another one."""

    name: str
    ours: float = 0.0
    eager: float = 0.0
    where: str = ""
    special: str = ""

    @property
    def is_good(self) -> bool:
        return not self.special and (self.ours <= ALLOWED or self.ours <= self.eager)

    def __str__(self) -> str:
        text = f"{self.name}: {self.ours:.3g} ulp, eager {self.eager:.3g}"
        return text + f" at {self.where}" * bool(self.where) + f"; {self.special}" * bool(self.special)


def compiled(function: Callable[..., Any], inputs: Sequence[Tensor]) -> Callable[..., Any]:
    fake = FakeMode()
    graph = functional_graph(as_module(function, len(inputs)), [fake.fakeify(x, {}) for x in inputs], Context())
    return bind(graph.spec, compile_graph(graph.module, Context(Config(cache_plans=False)), CPU))


def spacing(truth: Tensor) -> Tensor:
    """The distance of float32 numbers near each element of a float64 tensor."""
    exponent = torch.frexp(truth.abs().clamp(2.0**-126, 2.0**127))[1] - 1
    return torch.ldexp(torch.ones_like(truth), exponent - 23)


def errors(result: Tensor, truth: Tensor, unit: Tensor) -> Tensor:
    """Units in the last place; zero where there is no finite truth within float32, or the result says so."""
    exact = result.double() == truth
    error = (result.double() - truth).abs() / unit
    inside = truth.isfinite() & (truth.abs() < 2.0**128 * (1 - 2.0**-25))
    return torch.where(exact | ~inside, 0.0, error.nan_to_num(nan=math.inf))


def same(ours: Tensor, theirs: Tensor) -> Tensor:
    """Where both are NaN, or equal with the same sign."""
    return (ours.isnan() & theirs.isnan()) | ((ours == theirs) & (torch.signbit(ours) == torch.signbit(theirs)))


def wrong(ours: Tensor, theirs: Tensor, truth: Tensor) -> Tensor:
    """Where our result or the truth is NaN, infinite or zero, and ours is neither eager's nor the truth."""
    exact = truth.float()
    is_special = ~ours.isfinite() | ~exact.isfinite() | ((ours == 0) & (exact == 0))
    return is_special & ~same(ours, theirs) & ~same(ours, exact)


# ---- element by element ----------------------------------------------------------------------------------------------


def inputs_of(count: int, patterns: int) -> tuple[Tensor, ...]:
    """For one tensor or two: special values (all pairs), so many numbers from all of float32, and some near zero.

    Those from all of float32 have bits at equal distances.
    """
    step = 2**32 // patterns
    special = torch.tensor(SPECIAL)
    everywhere = (torch.arange(-(2**31), 2**31, step) + 12345 % step).to(torch.int32).view(torch.float32)
    generator = torch.Generator().manual_seed(0)
    near = torch.randn(patterns // 4, generator=generator) * 4
    if count == 1:
        return (torch.cat([special, everywhere, near]),)
    order = torch.randperm(len(everywhere), generator=generator)
    left = [special.repeat(len(special)), everywhere, near]
    return torch.cat(left), torch.cat([special.repeat_interleave(len(special)), everywhere[order], near.flip(0)])


def takes(op: Callable[..., Any], count: int) -> bool:
    """Whether it works element by element on so many tensors: same shape, floats, and no element looks at another."""
    x = [torch.rand(64, generator=torch.Generator().manual_seed(n)) * 4 - 2 for n in range(count)]
    try:
        once, turned = op(*x), op(*(y.flip(0) for y in x))
    except Exception:
        return False
    fits = isinstance(once, Tensor) and once.shape == x[0].shape and once.dtype is torch.float32
    return fits and isinstance(turned, Tensor) and torch.equal(once.nan_to_num(), turned.flip(0).nan_to_num())


def accuracies(op: Any, limit: int | None = None, patterns: int = PATTERNS) -> list[Accuracy]:
    """Of the samples of the database, and of numbers of all kinds if the operator works element by element."""
    dense = [accuracy(op.formatted_name, op.op, n, patterns) for n in (1, 2) if takes(op.op, n)]
    return [*dense, sampled(op, limit)]


def accuracy(name: str, function: Callable[..., Any], count: int, patterns: int = PATTERNS) -> Accuracy:
    """Over the inputs of `inputs_of`."""
    inputs = inputs_of(count, patterns)
    eager = function(*copies(inputs))
    truth = function(*(x.double() for x in inputs))
    ours = compiled(lambda *xs: (function(*xs),), inputs)(*copies(inputs))[0]
    unit = spacing(truth)
    mine, theirs = errors(ours, truth, unit), errors(eager, truth, unit)
    mine = torch.where(same(ours, eager), 0.0, mine)
    worst = int(mine.argmax())
    at = ", ".join(f"{float(x[worst]):.9g}" for x in inputs)
    special, bad = "", wrong(ours, eager, truth)
    if bad.any():
        first = int(bad.nonzero()[0])
        of = ", ".join(f"{float(x[first]):.9g}" for x in inputs)
        special = f"{int(bad.sum())} special values: ({of}) gives {float(ours[first])!r}, not {float(eager[first])!r}"
    return Accuracy(name, float(mine[worst]), float(theirs[theirs < MANY].max()), at, special)


# ---- every operator --------------------------------------------------------------------------------------------------


def sampled(op: Any, limit: int | None = None) -> Accuracy:
    """The worst of all samples, where units are those of the largest element of a result."""
    torch.manual_seed(0)
    worst = Accuracy(op.formatted_name)
    for number, sample in enumerate(samples(op, torch.float32, limit)):
        flat, inputs = on_tensors(op.op, (sample.input, tuple(sample.args), dict(sample.kwargs)))
        wide, doubles = on_tensors(
            op.op, tree_map_only(Tensor, widened, (sample.input, tuple(sample.args), dict(sample.kwargs)))
        )
        try:
            run, given = compiled(flat, inputs), copies(inputs)
            ours, eager, truth = seeded(run, given), seeded(flat, copies(inputs)), seeded(wide, doubles)
        except Exception:  # what is refused or breaks the graph is looked at elsewhere
            continue
        found = worst_of(op.formatted_name, number, ours, eager, truth)
        if found.ours - max(found.eager, ALLOWED) > worst.ours - max(worst.eager, ALLOWED):
            worst = found
    return worst


def seeded(function: Callable[..., Any], inputs: Sequence[Tensor]) -> Any:
    """What it gives with the random numbers that follow from one seed."""
    torch.manual_seed(SEED)
    return function(*inputs)


def widened(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.dtype is torch.float32 else tensor


def worst_of(name: str, number: int, ours: Any, eager: Any, truth: Any) -> Accuracy:
    mine = theirs = 0.0
    for x, y, exact in zip(tree_leaves(ours), tree_leaves(eager), tree_leaves(truth), strict=True):
        ordinary = isinstance(exact, Tensor) and exact.layout is torch.strided and exact.dtype is torch.float64
        if not ordinary or x.dtype is not torch.float32 or not exact.numel() or torch.equal(x, y):
            continue
        finite = exact[exact.isfinite()]
        if finite.numel():
            unit = spacing(finite.abs().max()).expand(exact.shape)
            mine = max(mine, float(errors(x, exact, unit).max()))
            theirs = max(theirs, float(errors(y, exact, unit).max()))
    return Accuracy(name, mine, theirs, f"sample {number}")
