"""Random programs over sizes: whatever they compute of them is eager's, and few versions serve them all.

`python -m tests.capture.symbolic.random_sizes --count 1000 --backend native` runs many, and tells how many versions
they have.

There is one for the first sizes, and one for all others, also for 0 and 1; a third is for what the program has decided,
such as the larger of two. A program branches on its sizes if what it gives is of several kinds: it raises an error for
some (a division by zero), or gives a float where it gives an int for others.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

SIZES = (0, 1, 2, 3, 5, 7, 8, 13, 16, 31, 32, 33, 64)
MOST_VERSIONS = 3
NUMBERS = ("1", "2", "3", "7", "16", "100", "0.5", "0.25", "1.5")
BINARY = ("+", "*", "//", "%", "/", "-")
UNARY = ("int", "round", "math.floor", "math.ceil", "abs", "float", "math.sqrt", "math.sin", "-")
USES = (
    "{}",
    "x * {}",
    "torch.full((2,), {})",
    "x[: abs(int({})) % n + 1].sum(0)",
    "y[:, abs(int({})) % 2 :]",
    "x.new_zeros(abs(int({})) % 50 + 2, 3) + 1",
    "torch.arange(abs(int({})) % 40 + 2)",
    "y.new_ones(min(abs(int({})), 30) + 2, 2).sum(1).reshape(-1, 1)",
    "torch.tensor([{}, n])",
)


def number(draw: random.Random, depth: int, signed: bool) -> str:
    """An expression of the sizes `n` and `m`; what is not `signed` is never negative."""
    if depth <= 0 or draw.random() < 0.2:
        return draw.choice(("n", "m", "n", "m", draw.choice(NUMBERS)))

    def operand() -> str:
        return number(draw, depth - 1, signed)

    kind = draw.random()
    if kind < 0.5:
        return f"({operand()} {draw.choice(BINARY if signed else BINARY[:-1])} {operand()})"
    if kind < 0.7:
        return f"{draw.choice(UNARY if signed else UNARY[:-2])}({operand()})"
    if kind < 0.8:
        return f"{draw.choice(('max', 'min'))}({operand()}, {operand()})"
    if kind < 0.9:
        return f"(int({operand()}) {draw.choice(('>>', '<<', '&', '|', '^'))} {draw.choice((1, 2, 3))})"
    return f"math.gcd(int({operand()}), int({operand()}))"


def program(seed: int, signed: bool) -> str:
    draw = random.Random(seed)
    lines = ["def f(x, y):", "    n, m = x.shape[0], y.shape[1]", "    results = [x.sum(), y * 2]"]
    for _ in range(draw.randint(1, 3)):
        use = draw.choice(USES).format(number(draw, draw.randint(1, 3), signed))
        lines.append(f"    results.append({use})")
    return "\n".join([*lines, "    return results"])


@dataclass(frozen=True, slots=True)
class Run:
    """How often a program was compiled, whether more often than it may be, and where it has differed from eager."""

    versions: int
    different: str = ""
    branches: bool = False

    @property
    def too_many(self) -> bool:
        return not self.branches and self.versions > MOST_VERSIONS


def run(source: str, sizes: list[int], backend: str) -> Run:
    names: dict[str, Any] = {"math": math, "torch": torch}
    exec(source, names)
    f = names["f"]
    onegraph.reset()
    compiled = onegraph.compile(f, backend=backend)
    kinds: set[Any] = set()
    with Watch() as watch, warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for n, m in zip(sizes, reversed(sizes), strict=True):
            x, y = torch.arange(3.0 * n).reshape(n, 3), torch.arange(2.0 * m).reshape(2, m)
            expected, result = outcome(f, x, y), outcome(compiled, x, y)
            kinds.add(kind(expected))
            if not same(expected, result):
                return Run(0, f"n = {n}, m = {m}: {expected} and {result} of\n{source}")
        return Run(len(watch.of(ev.FrameStarted)), "", len(kinds) > 1)


@dataclass(frozen=True, slots=True)
class Raised:
    """An error, and at which instruction of the program."""

    error: type[Exception]
    text: str
    at: int = field(compare=False, repr=False)


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        below = error.__traceback__ and error.__traceback__.tb_next
        return Raised(type(error), str(error), below.tb_lasti if below else 0)


def kind(value: Any) -> Any:
    """What kind of results these are, whatever their numbers and sizes."""
    match value:
        case torch.Tensor():
            return value.dtype
        case list():
            return tuple(map(kind, value))
        case Raised(error, _, at):
            return error, at
    return type(value)


def same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        alike = a.dtype == b.dtype and a.shape == b.shape
        return alike and torch.allclose(a.double(), b.double(), rtol=1e-6, atol=0, equal_nan=True)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="eager")
    options = parser.parse_args()
    failed = False
    for signed in (False, True):
        counts: dict[bool, Counter[int]] = {False: Counter(), True: Counter()}
        for seed in range(options.seed, options.seed + options.count):
            sizes = random.Random(seed).sample(SIZES if signed else SIZES[2:], 10)
            source = program(seed, signed)
            found = run(source, sizes, options.backend)
            counts[found.branches][found.versions] += 1
            failed |= bool(found.different) or found.too_many
            if found.different or found.too_many:
                print(seed, found.different or f"{found.versions} versions for {sizes} of\n{source}")
        what = "signed and empty" if signed else "two and more"
        print(
            what,
            *(f"{'branch' if branches else 'do not'}: {dict(sorted(n.items()))}" for branches, n in counts.items()),
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
