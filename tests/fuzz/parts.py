"""Random programs that write to parts of batched tensors: `python -m tests.fuzz.parts --count 2000 --seed 0`.

Each writes to rows, windows, diagonals, triangles, rings and caches of tensors that it was given or has made, reads
other parts between the writes, and is called with several sizes. Values, layouts, arguments behind the call, gradients
and errors must be eager's. `ONEGRAPH_SANITIZE=1` before it checks each access of the kernels that are compiled for it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import onegraph
from onegraph.base import events as ev
from onegraph.base.errors import InvalidAccess
from onegraph.compile import EVENTS
from onegraph.tools.record import recording
from tests.fuzz import command

# Parts of a tensor of sizes (batch, heads, rows, columns) with as many rows as columns, at least SMALLEST of each.
SMALLEST = 5
PARTS = (
    "{t}[..., {i}, :{j}]", "{t}[..., {i}:{k}, :]", "{t}[:, :, {i}:{k}, {j}:]", "{t}[:, 0]", "{t}[..., ::2]",
    "{t}[..., {i}::2, 1::2]", "{t}[..., {i}]", "{t}[0, ..., {j}:]", "{t}[..., :-{j}, {i}:]",
    "{t}.select(2, {i})", "{t}.select(-1, -{j})", "{t}.narrow(-1, {i}, {j})", "{t}.narrow(2, {i}, 1)",
    "{t}.diagonal(dim1=-2, dim2=-1)", "{t}.diagonal({i}, -2, -1)", "{t}.diagonal(-{j}, -1, -2)",
    "{t}.mT[..., {i}, :]", "{t}.transpose(1, 2)[:, {i}:{k}]", "{t}.movedim(-1, 0)[{i}:{k}]",
    "{t}.permute(3, 1, 0, 2)[{i}]",
    "{t}.unfold(-1, {j}, {j})", "{t}.unfold(2, 2, 2)[..., 0]", "{t}.unfold(2, 2, 3).unfold(3, 2, 2)",
    "{t}.chunk(2, 2)[1]", "{t}.unbind(2)[{i}]", "{t}.split({j}, -1)[0]", "{t}.flatten(0, 1)[::2]",
    "{t}.reshape({t}.shape[0], -1)[:, {i}::{j}]", "{t}.flatten(0, 2)[{i}:]",
    "{t}.flatten(2).view({t}.shape)[0]", "{t}.reshape(-1)[{i}::3]",
    "{t}.as_strided(({t}.shape[0], {j}), ({t}.stride(0), {t}.stride(2) + {t}.stride(3)), {i})",
    "{t}.as_strided(({t}.shape[0], {j}, 2), {t}.stride()[:1] + {t}.stride()[2:], {t}.storage_offset() + {t}.stride(3))",
    "{t}.unsqueeze(1)[:, :, :, {i}]", "{t}[:, :, None, {i}:{k}].squeeze(2)", "{t}",
)  # fmt: skip
WRITES = (
    "{p}.copy_({v})", "{p}.copy_({v})", "{p}.add_({v})", "{p}.mul_({v})", "{p}.sub_({v}, alpha=2)", "{p}.zero_()",
    "{p}.fill_({j})", "{p}.masked_fill_({v} > 0, -1)", "{p}.clamp_(max=1)", "{p}.relu_()", "{p}.addcmul_({v}, {v})",
    "{p}.neg_()", "{p}.lerp_({v}, 0.5)",
)  # fmt: skip
SETS = (
    "{t}[..., {i}, :{j}]",
    "{t}[:, :, {i}:{k}]",
    "{t}[..., ::2]",
    "{t}[0]",
    "{t}[..., -1]",
    "{t}[:, :1, {i}:, :{j}]",
)
INDEXED = (
    "{t}[:, :, index] = {u}[:, :, index]", "{t}[:, :, index, {i}] = {u}[:, :, {j}, index]", "{t}[..., index] += 1",
    "{t}.index_put_((torch.arange({t}.shape[0]),), {u})", "{t}[..., index, index] = {u}[..., index, index] * 2",
    "{t}.index_put_((batch[:, None], batch[:1], index), {u}[batch][:, 0, index], accumulate=True)",
    "{t}.index_copy_(2, index, {u}[:, :, :3])", "{t}.index_add_(-1, index, {u}[..., :3], alpha=0.5)",
    "{t}.index_fill_(2, index, 3)", "{t}.scatter_(-1, places, {u})", "{t}.scatter_add_(2, places, {u})",
    "{t}.scatter_(2, places[..., :2], 1.5)", "{t}[{u} > 0] = 0.5", "{t}[batch, :, index[0]] = {u}[:, :, 0]",
    "{t}.masked_scatter_({t} > {u}, {u})", "{t}.put_(index, {u}.reshape(-1)[:3])",
)  # fmt: skip
WHOLE = (
    "{t}.tril_()", "{t}.triu_({i})", "{t}.tril_(-{i})", "torch.add({t}, {u}, out={t})", "torch.sub({u}, 1, out={t})",
    "for i in range(1, {k}): {t}[..., i, :i] = {t}[..., i, :i].clone() + ({t}[..., i, :, None] * {t})[..., :i].sum(-2)",
    "for i in range(1, {k}): {t}[..., i, :i] += {u}[..., :i, :i].sum(-1)",
    "for i in range({k}): {t}[..., i, i:] = {u}[..., i:, i]",
    "for i in range(3): {t}[:, :, (i + {j}) % {t}.shape[2]] = {u}[:, :, i]",
    "for i in range(3): ring = (i + position) % {t}.shape[2]; {t}[:, :, ring:ring + 1] = {u}[:, :, i:i + 1]",
    "{t}[:, :, :-1] = {t}[:, :, 1:].clone()", "{t}.copy_({t}.roll(1, 2)); {t}[:, :, 0] = {u}[:, :, {i}]",
    "{t}[:, :, position:position + 2] = {u}[:, :, :2]", "{t}.narrow(2, position, 2).add_({u}.narrow(2, 0, 2))",
    "for row, other in zip({t}.unbind(2), {u}.unbind(2)): row.mul_(0.5).add_(other)",
    "torch._foreach_mul_(list({t}.unbind(1)), 0.5)", "torch._foreach_copy_({t}.chunk(2, -1), {u}.chunk(2, -1))",
)  # fmt: skip
VALUES = (
    "{t} * {u}", "{t} + 1", "{t}.sin()", "{t}.clone()", "{t}.softmax(-1)", "{t} @ {u}.mT * 0.1", "{t}.cumsum(2) * 0.5",
    "{t}.sum(2, keepdim=True).expand_as({t}).clone() * 0.2", "torch.cat([{t}[:, :, :{i}], {u}[:, :, {i}:]], 2)",
    "torch.where({t} > {u}, {t}, 0)", "{t}[:, :, :position + 1].amax(2, keepdim=True) + {u}", "torch.zeros_like({t})",
    "{t}.mT.contiguous()",
    "{t}.new_zeros({t}.shape[0], {t}.shape[1], {t}.shape[2] + 8, {t}.shape[3] + 3)[:, :, 3:-5, 1:-2] + {u}",
    "{t}.new_ones({t}.shape).mT",
    "{t}.new_empty({t}.shape[0], {t}.shape[1], 64, 128)[..., :{t}.shape[2], :{t}.shape[3]].copy_({u})",
)  # fmt: skip
SCALED = (
    "{v}",
    "{v}",
    "{v} * 2",
    "{v}.sin()",
    "{v}.flip(0)",
    "{v}.mean(0)",
    "{v}.sum(-1, keepdim=True)",
    "torch.full_like({v}, 1.5)",
)
NAMES = ("x", "y")
CALLS = 3  # of each program
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}


def draw(number: int) -> str:
    """The text of a program of two tensors, three indices and a position in a cache."""
    rng = random.Random(number)
    names, owned = list(NAMES), list(NAMES) if not is_trained(number) else []
    lines = ["def f(x, y, index, batch, places, position):"]
    for count in range(rng.randint(3, 9)):
        kind = rng.choice(("value", "write", "write", "write", "set", "indexed", "whole")) if owned else "value"
        t = rng.choice(names if kind == "value" else owned)
        u = rng.choice([name for name in names if name != t])
        i = rng.randrange(1, SMALLEST - 2)
        numbers = {"i": i, "j": rng.randrange(1, 4), "k": rng.randrange(i + 1, SMALLEST)}
        match kind:
            case "value":
                name = f"t{count}"
                lines.append(f"    {name} = " + rng.choice(VALUES).format(t=t, u=u, **numbers))
                names.append(name)
                owned.append(name)
            case "write" | "set":
                part = rng.choice(PARTS if kind == "write" else SETS)
                value = rng.choice(SCALED).format(v=part.format(t=u, **numbers))
                write = rng.choice(WRITES) if kind == "write" else "{p} = {v}"
                lines.append("    " + write.format(p=part.format(t=t, **numbers), v=f"({value})", t=t, **numbers))
            case _:
                lines.append("    " + rng.choice(INDEXED if kind == "indexed" else WHOLE).format(t=t, u=u, **numbers))
    results = [rng.choice(("{t}", "{t} + 0", *PARTS)).format(t=rng.choice(names), i=1, j=2, k=4) for _ in range(3)]
    return "\n".join([*lines, f"    return ({', '.join(results)},)", ""])


def is_trained(number: int) -> bool:
    return number % 4 == 3


def inputs(number: int, call: int) -> list[Any]:
    """What the program is called with the so many-th time: other sizes for some, other numbers for all."""
    rng = random.Random(number + 7)
    dtype, dim, changing = rng.choice(list(TOLERANCE)), rng.randrange(3), rng.randrange(2)
    rows, heads, size = rng.randint(1, 3), rng.randint(1, 2), rng.choice((5, 6, 8, 16, 17, 33))
    if changing and call:
        rows, size = (rows + call, size) if dim == 0 else (rows, size + call)
    generator = torch.Generator().manual_seed(number * 3 + call)
    shape = (rows, heads, size, size)
    layouts: tuple[Callable[[Tensor], Tensor], ...] = (
        lambda t: t,
        lambda t: t,
        lambda t: t.transpose(0, 1).contiguous().transpose(0, 1),
        lambda t: t.mT.contiguous().mT,
        lambda t: torch.nn.functional.pad(t, (1, 2, 0, 3))[..., : t.shape[2], 1 : t.shape[3] + 1],
    )
    tensors = [
        rng.choice(layouts)(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)) for _ in NAMES
    ]
    index = torch.randperm(SMALLEST, generator=generator)[:3]
    places = torch.rand(shape, generator=generator).argsort(-1) % size
    return [*tensors, index, torch.arange(rows), places, call + 1]


def run(function: Callable[..., Any], number: int, call: int) -> list[Any]:
    """All that is seen of a call: results with their layouts, arguments behind it, gradients; or the error."""
    arguments = inputs(number, call)
    if is_trained(number):
        for tensor in arguments[: len(NAMES)]:
            tensor.requires_grad_()
    try:
        results = function(*arguments)
        seen = [*results, *arguments[: len(NAMES)]]
        if is_trained(number):
            floats = [t for t in results if t.requires_grad]
            loss = sum((t.sin() * t.detach().cos()).sum() for t in floats)
            found = torch.autograd.grad(loss, arguments[: len(NAMES)], allow_unused=True) if floats else ()
            dense = torch.contiguous_format  # how they lie is not promised
            seen += [None if t is None else t.clone(memory_format=dense) for t in found]
    except (RuntimeError, IndexError) as error:
        return [type(error).__name__]
    return [None if t is None else (t.detach().clone(), t.stride(), t.dtype) for t in seen]


def difference(ours: list[Any], theirs: list[Any]) -> str:
    """The first difference in words; empty if there is none."""
    if len(ours) != len(theirs):
        return f"{ours!s:.300} instead of {theirs!s:.300}"
    for at, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if not isinstance(mine, tuple) or not isinstance(other, tuple):
            if mine != other:
                return f"[{at}]: {mine!s:.200} instead of {other!s:.200}"
            continue
        if mine[0].shape != other[0].shape or mine[1:] != other[1:]:
            return f"[{at}]: {(mine[0].shape, *mine[1:])} instead of {(other[0].shape, *other[1:])}"
        bound = TOLERANCE.get(other[2], 0.0)
        scale = float(other[0].nan_to_num(0, 0, 0).abs().max()) if other[0].numel() else 0.0
        if not torch.allclose(mine[0], other[0], rtol=bound, atol=bound * scale, equal_nan=True):
            return f"[{at}]: {mine[0]!s:.400} instead of {other[0]!s:.400}"
    return ""


def check(number: int, **options: Any) -> str:
    """How the program of this number differs when it is compiled; empty if it does not."""
    space: dict[str, Any] = {"torch": torch}
    exec(compile(draw(number), f"<program {number}>", "exec"), space)
    dynamic = {0: True, 1: False}.get(number % 5)
    compiled = onegraph.compile(space["f"], dynamic=dynamic, options={"raise_compiler_errors": True, **options})
    with recording(EVENTS, (ev.GraphFailed,)) as failed:
        try:
            found = (difference(run(compiled, number, call), run(space["f"], number, call)) for call in range(CALLS))
            text = next((f"call {call}{text}" for call, text in enumerate(found) if text), "")
        except (Exception, InvalidAccess) as error:  # of onegraph: those of eager are results
            text = f": {type(error).__name__}: {error}"
    onegraph.reset()
    return text or next((f": {item.event.error}" for item in failed if item.event.resolved), "")


if __name__ == "__main__":
    sys.exit(command.run("tests.fuzz.parts", __doc__, check, draw))
