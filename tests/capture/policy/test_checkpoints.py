"""`torch.utils.checkpoint` in graphs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import checkpoint as checkpoints

import onegraph
from onegraph.base.events import GradientsPlanned, GraphBroken, GraphCaptured
from tests.capture.resume.test_breaks import Watch

checkpoint = partial(checkpoints.checkpoint, use_reentrant=False)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm(x))))


torch.manual_seed(0)
BLOCKS = nn.ModuleList(Block() for _ in range(3))


def plain(x: Tensor) -> Tensor:
    for block in BLOCKS:
        x = block(x)
    return x


def of_each(x: Tensor) -> Tensor:
    for block in BLOCKS:
        x = checkpoint(block, x)
    return x


def nested(x: Tensor) -> Tensor:
    return checkpoint(lambda x: checkpoint(BLOCKS[1], BLOCKS[0](x)).sin(), x)


def random(x: Tensor) -> Tensor:
    def function(x: Tensor) -> Tensor:
        return nn.functional.dropout(BLOCKS[0](x), 0.3) * torch.rand_like(x)

    return checkpoint(function, checkpoint(function, x))


def in_segments(x: Tensor) -> Tensor:
    return checkpoints.checkpoint_sequential(nn.Sequential(*BLOCKS), 2, x, use_reentrant=False)


def with_keywords(x: Tensor) -> Tensor:
    return checkpoint(lambda x, *, factor: (BLOCKS[0](x) * factor).sin(), x, factor=2.0, determinism_check="none")


def of_views(x: Tensor) -> Tensor:
    return checkpoint(lambda x: BLOCKS[0](x).t().reshape(2, 4, -1)[1:], x).sin()


def of_tuples(x: Tensor) -> Tensor:
    a, (b, c) = checkpoint(lambda x: (x.sin(), (BLOCKS[0](x), x.cos().sum())), x)
    return a * b * c


def of_what_is_written(x: Tensor) -> Tensor:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        y[1:] = BLOCKS[0](x)[1:]
        return y.exp_()

    return checkpoint(function, x)


def reentrant(x: Tensor) -> Tensor:
    for block in BLOCKS:
        x = checkpoints.checkpoint(block, x, use_reentrant=True)
    return x


def without_a_state(x: Tensor) -> Tensor:
    return checkpoint(BLOCKS[0], x, preserve_rng_state=False).sin()


def selective(context: Callable[[], Any]) -> Callable[[Tensor], Tensor]:
    def program(x: Tensor) -> Tensor:
        for block in BLOCKS:
            x = checkpoint(block, x, context_fn=context)
        return x

    return program


def first_products(counts: dict[str, int], ctx: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
    """The first of each two products is kept, as some trainers choose."""
    if operator in PRODUCTS:
        counts["products"] = counts.get("products", 0) + 1
        if counts["products"] % 2:
            return checkpoints.CheckpointPolicy.MUST_SAVE
    return checkpoints.CheckpointPolicy.PREFER_RECOMPUTE


PRODUCTS = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
of_products = selective(partial(checkpoints.create_selective_checkpoint_contexts, PRODUCTS))
of_first_products = selective(lambda: checkpoints.create_selective_checkpoint_contexts(partial(first_products, {})))

PROGRAMS = (
    of_each,
    nested,
    of_products,
    of_first_products,
    reentrant,
    without_a_state,
    random,
    in_segments,
    with_keywords,
    of_views,
    of_tuples,
    of_what_is_written,
)


def outcome(function: Callable[..., Any], records: bool = True) -> list[Any]:
    BLOCKS.zero_grad()
    torch.manual_seed(3)
    x = torch.linspace(-1, 1, 40).reshape(5, 8).requires_grad_(records)
    with torch.set_grad_enabled(records):
        result = function(x)
    if records:
        result.square().mean().backward()
    return [result, x.grad, *(p.grad for p in BLOCKS.parameters()), torch.rand(1)]


@pytest.mark.parametrize("records", [True, False], ids=["train", "infer"])
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_is_one_graph(program: Callable[..., Any], backend: str, records: bool) -> None:
    expected = outcome(program, records)
    with Watch() as watch:
        found = outcome(onegraph.compile(program, fullgraph=True, backend=backend), records)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert len(watch.of(GraphCaptured)) == 1


def planned(function: Callable[..., Any]) -> GradientsPlanned:
    with Watch() as watch:
        outcome(onegraph.compile(function, fullgraph=True))
    (plan,) = watch.of(GradientsPlanned)
    return plan


def test_what_a_checkpoint_computes_is_not_kept() -> None:
    without, each = planned(plain), planned(of_each)
    given = 5 * 8 * 4  # the bytes of what each block is given
    assert each.kept <= len(BLOCKS) * given < without.kept / 3


def test_a_selective_checkpoint_keeps_what_it_chooses() -> None:
    """A block has a product of 5 x 32 numbers, and one of 5 x 8, of which nothing is computed again."""
    each, some, first = map(planned, (of_each, of_products, of_first_products))
    assert each.kept < first.kept <= some.kept
    assert first.kept - each.kept == len(BLOCKS) * 5 * 32 * 4


@pytest.mark.parametrize(
    "options",
    [
        {"use_reentrant": True},
        {"context_fn": lambda: (torch.no_grad(), torch.no_grad())},
        {"debug": True},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_is_eagers_alone_breaks_the_graph(options: dict[str, Any]) -> None:
    options = {"use_reentrant": False} | options

    def f(x: Tensor) -> Tensor:
        return checkpoints.checkpoint(torch.sin, x * 2, **options) + 1

    with Watch() as watch:
        torch.testing.assert_close(onegraph.compile(f)(torch.ones(3)), f(torch.ones(3)))
    assert {event.code for event in watch.of(GraphBroken)} == {"activation-checkpoint"}


def test_a_break_inside_ends_the_graph_in_front() -> None:
    def broken(x: Tensor) -> Tensor:
        y = BLOCKS[0](x)
        onegraph.graph_break()
        return y.sin()

    def f(x: Tensor) -> Tensor:
        return checkpoint(broken, x * 2)

    expected = outcome(f)
    torch.testing.assert_close(outcome(onegraph.compile(f)), expected, atol=1e-5, rtol=1e-4)


def test_random_numbers_that_eager_draws_anew_break_the_graph() -> None:
    def f(x: Tensor) -> Tensor:
        return checkpoint(nn.functional.dropout, x, preserve_rng_state=False)

    with pytest.raises(onegraph.GraphBreakError, match="of a function that draws random numbers"):
        onegraph.compile(f, fullgraph=True)(torch.ones(3, requires_grad=True))


def test_each_function_is_on_the_page() -> None:
    page = Path(onegraph.__file__).parent / "docs" / "programming_model" / "control_flow.md"
    rows = re.findall(r"^\| (`.*?) \|", page.read_text(), re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {name for name in checkpoints.__all__} <= named
