"""Random programs on NumPy's arrays: `python -m tests.fuzz.arrays --count 1000 --seed 0`.

Arrays of several types are computed with, viewed in other orders, written to through their views, and handed to torch
and back. Each program is called three times, with other sizes for some. Results, what is left of the arguments, which
of them share memory, types, scalars and errors must be NumPy's. `ONEGRAPH_SANITIZE=1` before it checks each access of
the kernels that are compiled for it.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import onegraph
from onegraph.base import events as ev
from onegraph.base.errors import InvalidAccess
from onegraph.compile import EVENTS
from onegraph.tools.record import recording
from tests.fuzz import command

#: Matrices of matrices `a` and `b` with the same sizes, and of the numbers `k` and `s`.
VALUES = (
    "{a} + {b}", "{a} - {b}", "{a} * {k}", "{k} - {a}", "{a} / ({b} * {b} + 1)", "np.sin({a})", "np.tanh({a}) * {b}",
    "np.exp(-np.abs({a}))", "{a} - {a}.mean(0)", "{a} - {a}.mean(1)[:, None]", "{a} * {a}.max()", "{a} / {s}",
    "np.where({a} > {b}, {a}, {k})", "np.where({a} > 0, {a}, {b})", "np.maximum({a}, {b})", "np.minimum({a}, {k})",
    "np.clip({a}, -1, 1)", "np.sort({a}, axis=1)", "np.cumsum({a}, axis=0)", "{a} % ({b} * {b} + 2)", "{a} // 2",
    "np.concatenate([{a}[1:], {b}[:1]])", "np.stack([{a}, {b}], -1).sum(-1)", "{a}[np.array([0, 1])].sum(0) + {b}",
    "np.roll({a}, 1, axis=1)", "({a} > {b}) * {k}", "({a} > 0).astype({t}) + {b}", "{a}.astype({t})", "abs({a})",
    "np.outer({a}[:, 0], {b}[0])", "{a} @ {b}[0][:, None] + {b}", "np.einsum('ij,ij->i', {a}, {b})[:, None] + {a}",
    "torch.from_numpy({a} + 0).mul(2).numpy()", "np.zeros_like({a}) + {s}", "{a} * np.float32(1.5)", "-{a}",
    "np.linalg.norm({a}, axis=1)[:, None] * {b}", "np.broadcast_to({a}[0], {a}.shape) * {b}", "{a} * {a}.shape[0]",
    "np.add.reduce({a}) * {b}", "np.multiply.outer({a}[:, 0], {b}[0])", "np.nan_to_num({a})", "np.round({a})",
    "np.median({a}, axis=0) + {b}", "np.var({a}, axis=0) + {b}", "np.pad({a}, 1)[1:-1, 1:-1]", "{a}.copy()",
    "np.argsort({a}, kind='stable') + {b}", "np.argmax({a}, axis=1)[:, None] + {b}",
    "np.tril({a}) + np.eye(*{a}.shape)",
)  # fmt: skip
#: Views of the same sizes.
VIEWS = (
    "{a}[::-1]", "{a}[:, ::-1]", "{a}[...]", "{a}.T.T", "{a}.reshape({a}.shape)", "np.flip({a})",
    "{a}[:, None, :][:, 0]",
    "{a}", "np.asarray({a})", "torch.from_numpy({a}).numpy()", "np.fliplr({a})", "{a}.real", "{a}[::-1][::-1]",
)  # fmt: skip
SCALARS = (
    "{a}[0, 1]",
    "{a}.sum()",
    "{a}.mean()",
    "{a}.max()",
    "np.linalg.norm({a})",
    "{a}[-1, -1] * 2",
    "np.float64(1.5)",
)
WRITES = (
    "{a}[0] = {k}", "{a}[:, 1] += {b}[:, 0]", "{a}[::-1, 0] = {b}[:, 1]", "{a} += {b}", "{a} *= 2", "{a} -= {k}",
    "{a}[{a} > 1] = 0", "np.add({a}, {b}, out={a})", "{a}[0, 1] = {s}", "{a}[:, ::-1] *= 3", "{a}.fill({k})",
    "{a}[np.array([0, 1]), 1] = {k}", "torch.from_numpy({a}).add_(1)", "{a}[1:, 0] = {a}[:-1, 1]", "{a}[-1] = {b}[0]",
)  # fmt: skip
TYPES = (np.float64, np.float32, np.int64, np.int32)
CALLS = 3


class Drawing:
    """One program of the arrays `x`, `y` and `z`."""

    def __init__(self, number: int) -> None:
        self.rng = random.Random(number)
        self.arrays, self.scalars = ["x", "y", "z"], ["1.5"]

    def filled(self, templates: tuple[str, ...]) -> str:
        names = {
            "a": self.rng.choice(self.arrays),
            "b": self.rng.choice(self.arrays),
            "s": self.rng.choice(self.scalars),
        }
        types = self.rng.choice(("np.float32", "float", "np.int32"))
        return self.rng.choice(templates).format(**names, k=self.rng.choice((2, 0.5, -1)), t=types)

    def text(self) -> str:
        lines = ["def f(x, y, z):"]
        for count in range(self.rng.randint(2, 7)):
            kind = self.rng.random()
            if kind < 0.45:
                lines.append(f"    a{count} = {self.filled(VALUES)}")
                self.arrays.append(f"a{count}")
            elif kind < 0.65:
                lines.append(f"    a{count} = {self.filled(VIEWS)}")
                self.arrays.append(f"a{count}")
            elif kind < 0.75:
                lines.append(f"    s{count} = {self.filled(SCALARS)}")
                self.scalars.append(f"s{count}")
            else:
                lines.append(f"    {self.filled(WRITES)}")
        return "\n".join([*lines, f"    return {', '.join([*self.arrays[3:], *self.scalars[1:], 'x.shape'])}", ""])


def draw(number: int) -> str:
    """The text of the function of a program, of three matrices with the same sizes."""
    return Drawing(number).text()


def types_of(number: int) -> list[Any]:
    """The types of the elements of the arguments."""
    rng = random.Random(number + 7)
    return [rng.choice(TYPES) for _ in range(3)]


def run(function: Callable[..., Any], number: int, call: int) -> list[Any]:
    """All that is seen of a call: results, arguments behind it, what shares memory; or the error."""
    rng = random.Random(number + 3)
    rows = rng.randint(2, 4) + (call if rng.random() < 0.5 else 0)
    drawn = np.random.default_rng(number * 5 + call)
    arguments = [(drawn.standard_normal((rows, 4)) * 3).astype(dtype) for dtype in types_of(number)]
    if rng.random() < 0.2:
        arguments[1] = arguments[0]
    try:
        results = function(*arguments)
    except (TypeError, ValueError, IndexError, RuntimeError) as error:
        return [type(error).__name__]
    seen = [*results, *arguments]
    arrays = [each for each in seen if isinstance(each, np.ndarray)]
    shared = [np.shares_memory(a, b) for a in arrays for b in arrays]
    same = [a is b for a in arrays for b in arrays]
    flags = [(array.flags.writeable, [stride < 0 for stride in array.strides]) for array in arrays]
    return [*seen, shared, same, flags]


def difference(ours: list[Any], theirs: list[Any], tolerance: float) -> str:
    """The first difference in words; empty if there is none."""
    if len(ours) != len(theirs):
        return f"{ours!s:.300} instead of {theirs!s:.300}"
    for at, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if type(mine) is not type(other):
            return f"[{at}]: {type(mine)} instead of {type(other)}"
        if not isinstance(other, np.ndarray | np.generic):
            if mine != other:
                return f"[{at}]: {mine!s:.300} instead of {other!s:.300}"
            continue
        if (mine.dtype, mine.shape) != (other.dtype, other.shape):
            return f"[{at}]: {mine.dtype, mine.shape} instead of {other.dtype, other.shape}"
        bound = tolerance if other.dtype.kind in "fc" else 0.0
        scale = float(np.abs(np.nan_to_num(other, posinf=0, neginf=0)).max()) if other.size else 0.0
        if not np.allclose(mine, other, rtol=bound, atol=bound * scale, equal_nan=True):
            return f"[{at}]: {mine!s:.400} instead of {other!s:.400}"
    return ""


def check(number: int, **options: Any) -> str:
    """How the program of this number differs when it is compiled; empty if it does not."""
    space: dict[str, Any] = {"torch": torch, "np": np}
    exec(compile(draw(number), f"<program {number}>", "exec"), space)
    tolerance = 1e-4 if "float32" in draw(number) or np.float32 in types_of(number) else 1e-9
    backend = "eager" if number % 4 == 0 else "native"
    settings = {"raise_compiler_errors": backend == "native", **options}
    compiled = onegraph.compile(space["f"], backend=backend, options=settings)
    with recording(EVENTS, (ev.GraphFailed,)) as failed, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = (
                difference(run(compiled, number, call), run(space["f"], number, call), tolerance)
                for call in range(CALLS)
            )
            text = next((f" call {call}{text}" for call, text in enumerate(found) if text), "")
        except (Exception, InvalidAccess) as error:  # of onegraph: those of eager are results
            text = f" {type(error).__name__}: {error}"
    onegraph.reset()
    return text or next((f" {item.event.error}" for item in failed if item.event.resolved), "")


if __name__ == "__main__":
    sys.exit(command.run("tests.fuzz.arrays", __doc__, check, draw))
