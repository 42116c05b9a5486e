"""Random programs that are trained: `python -m tests.autograd.fuzz --count 3000 --seed 0`.

Each draws views, writes, custom functions, detached and unrecorded parts, several results and types. It is run eagerly
and compiled; then passes run backward from some of its results, one after the other, with hooks, kept gradients and
writes in between. Values, gradients, layouts, versions and errors must be the same.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from onegraph.tools.record import recording
from tests.autograd import custom

VALUES = (
    "{t} * {u}", "{t} + {u}", "{t}.sin()", "{t}.exp().clamp(max=3)", "{t}.sigmoid() * 2",
    "torch.where({t} > 0, {t}, {u})", "{t}.detach() * {u}", "{t}.detach()", "{t}.clone()",
    "{t} @ {u}.t() @ {t}", "F.layer_norm({t}, [4])",
    "{t}.softmax(-1)", "{t}.bfloat16().float()",
    "{t}[[1, 0, 2]]", "torch.cat([{t}[:1], {u}[1:]])",
    "{t}.sum(0, keepdim=True).expand(3, 4)", "{t}.view(12).flip(0).view(3, 4)",
    "{t}.t().contiguous().t()", "{t}.double().sin().float()", "{t} ** 2", "F.dropout({t}, 0.5)", "{t}.cumsum(1)",
    "Product.apply({t}, {u})", "Sigmoid.apply({t})", "Shifted.apply({t}, {u})", "Viewed.apply({t})",
    "Through.apply({t})", "Parts.apply({t})[0]", "Parts.apply({t})[1] + {u}", "Parts.apply({t})[2] * {u}",
    "{t}.abs() + 1", "{t}.relu()", "F.gelu({t})", "torch.stack([{t}, {u}]).mean(0)", "{t} / ({u}.abs() + 1)",
)  # fmt: skip
VIEWS = (
    "{t}.view(3, 4)", "{t}[:]", "{t}.view(12).view(3, 4)", "{t}.unsqueeze(0).squeeze(0)", "{t}.t().t()",
    "{t}.view(12).split(12)[0].view(3, 4)", "{t}.contiguous().unsqueeze(0).unbind(0)[0]",
)  # fmt: skip
WRITES = (
    "{n}.mul_({u})", "{n}.add_(1)", "{n}[0] = {u}[1]", "{n}[:, 1:3].mul_(2)", "{n}.relu_()", "{n}.copy_({u})",
    "{n}.view(12)[2:5].zero_()", "{n}.sigmoid_()", "Doubled.apply({n})",
)  # fmt: skip
RESULTS = (
    "{t}",
    "{t}",
    "{t}.sum()",
    "{t}[0]",
    "{t}.view(12)",
    "{t}.argmax()",
    "{t} > 0",
    "{t}.detach()",
    "{t}.mean(1)",
    "*{t}.contiguous().chunk(2, 1)",
    "{t}.contiguous().unbind(0)[1]",
)
NAMES = ("x", "y", "z")


def draw(number: int) -> str:
    """The text of a program of three tensors."""
    rng = random.Random(number)
    names, made = list(NAMES), []
    lines = ["def f(x, y, z):"]
    indent = "    "
    for count in range(rng.randint(2, 8)):
        templates = rng.choice((VALUES, VALUES, VALUES, VIEWS, WRITES))
        if templates is WRITES and not made:
            templates = VALUES
        t, u = rng.choice(names), rng.choice(names)
        text = rng.choice(templates).format(t=t, u=u, n=rng.choice(made) if made else t)
        if templates is not WRITES:
            text = f"t{count} = {text}"
            names.append(f"t{count}")
            if templates is VALUES:
                made.append(f"t{count}")
        if rng.randrange(8) == 0:
            lines += [f"{indent}with torch.no_grad():", f"{indent}    {text}"]
        else:
            lines.append(indent + text)
    results = [rng.choice(RESULTS).format(t=rng.choice(names[3:] or names)) for _ in range(rng.randint(1, 4))]
    return "\n".join([*lines, f"{indent}return ({', '.join(results)},)", ""])


def inputs(rng: random.Random) -> tuple[list[Tensor], list[Tensor]]:
    """Leaves, and what the program is called with: some of them, and results of operators."""
    generator = torch.Generator().manual_seed(rng.randrange(1 << 30))
    leaves = [torch.randn(3, 4, generator=generator).requires_grad_(rng.randrange(4) > 0) for _ in NAMES]
    before = (lambda leaf: leaf, lambda leaf: leaf, lambda leaf: leaf, lambda leaf: leaf * 1, torch.exp, torch.sin)
    return leaves, [rng.choice(before)(leaf) for leaf in leaves]


def passes(function: Callable[..., Any], number: int) -> list[Any]:
    """All that is seen of a call and of passes behind it. Ends with the first error.

    Gradients lie as eager's do where those that are given lie as the results do.
    """
    rng = random.Random(number + 1)
    log: list[Any] = []
    alike = rng.randrange(2) > 0
    torch.manual_seed(number)
    leaves, given = inputs(rng)
    try:
        results = function(*given)
        log += [facts(value) for value in results]
        followed = [value for value in results if value.requires_grad]
        hooked = []
        for value in followed:
            match rng.randrange(6):
                case 0:
                    value.retain_grad()
                case 1:
                    value.register_hook(lambda gradient: None if gradient is None else gradient * 2)
                    hooked.append(value)
        # A view loses its hooks when it is written to; results that are views in eager need not be.
        written = [t for t in (*given, *results) if all(t is not other for other in hooked)]
        for _ in range(rng.randint(1, 3)):
            chosen = rng.sample(followed, min(len(followed), rng.randint(1, 2)))
            if not chosen:
                break
            directions = [torch.arange(v.numel(), dtype=v.dtype).cos().view(v.shape) for v in chosen]
            if alike:
                directions = [torch.empty_like(v).copy_(d) for v, d in zip(chosen, directions, strict=True)]
            keep = rng.randrange(3) > 0
            match rng.randrange(5):
                case 0 | 1 | 2:
                    torch.autograd.backward(chosen, directions, retain_graph=keep)
                case 3:
                    wanted = [t for t in (*given, *followed) if t.requires_grad]
                    found = torch.autograd.grad(chosen, wanted, directions, retain_graph=keep, allow_unused=True)
                    log += [None if g is None else (g, alike and g.stride()) for g in found]
                case 4:
                    with torch.no_grad():
                        rng.choice(written or leaves).detach().mul_(2)
            kept = [t.grad for t in (*leaves, *followed) if t.is_leaf or t.retains_grad]
            log += [None if g is None else (g.clone(), alike and g.stride()) for g in kept]
    except RuntimeError as error:
        log.append(str(error).split("\n")[0][:60])
    log.append(facts(torch.get_rng_state()))
    return log


def facts(tensor: Tensor) -> tuple[Any, ...]:
    version = tensor._version if tensor.requires_grad else 0  # no backward pass looks at others
    return tensor.detach().clone(), tensor.stride(), tensor.requires_grad, tensor.is_leaf, version


def difference(ours: Any, theirs: Any) -> str:
    """The first difference in words; empty if there is none."""
    if isinstance(theirs, (list, tuple)) and isinstance(ours, (list, tuple)):
        if len(ours) != len(theirs):
            return f": {len(ours)} entries instead of {len(theirs)}: {ours[-2:]!s:.300} instead of {theirs[-2:]!s:.300}"
        found = ((i, difference(a, b)) for i, (a, b) in enumerate(zip(ours, theirs, strict=True)))
        return next((f"[{i}]{text}" for i, text in found if text), "")
    if isinstance(theirs, Tensor) and isinstance(ours, Tensor) and theirs.dtype.is_floating_point:
        scale = theirs.nan_to_num().abs().max() if theirs.numel() else 0.0
        # A sum of a dozen numbers may be next to nothing.
        same = torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5 * float(scale) + 4e-6, equal_nan=True)
        return "" if same else f": {ours} instead of {theirs}"
    if isinstance(theirs, Tensor):
        return "" if torch.equal(ours, theirs) else f": {ours} instead of {theirs}"
    return "" if type(ours) is type(theirs) and ours == theirs else f": {ours} instead of {theirs}"


def check(number: int) -> str:
    """How the program of this number differs when it is compiled; empty if it does not."""
    space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, **vars(custom)}
    exec(compile(draw(number), f"<program {number}>", "exec"), space)
    compiled = onegraph.compile(space["f"], options={"raise_compiler_errors": True})
    with recording(EVENTS, (ev.GraphFailed,)) as failed:
        ours, theirs = passes(compiled, number), passes(space["f"], number)
    onegraph.reset()
    if isinstance(theirs[0], str) and theirs[0].startswith("A view was created in no_grad mode"):
        return ""  # compiled code returns some of these as tensors that may be written to
    found = difference(ours, theirs)
    if isinstance(theirs[0], str):  # the call raises, in graphs as elsewhere
        return found
    return found or next((f": {item.event.error}" for item in failed if item.event.resolved), "")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.autograd.fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    pairs: list[ev.Event] = []
    EVENTS.subscribe(lambda event: pairs.append(event) if isinstance(event, ev.GradientsPlanned) else None)
    bad = 0
    for number in range(options.seed, options.seed + options.count):
        if found := check(number):
            bad += 1
            print(f"{number}: {found}\n{draw(number)}", flush=True)
    print(f"{options.count} programs, {len(pairs)} pairs of graphs, {bad} differ")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
