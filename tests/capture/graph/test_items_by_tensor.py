"""Items at places in tensors: `x[t]` and `x[t] = y`, where `t` is a tensor of no dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

Inputs = tuple[Any, ...]


def square(i: int) -> Inputs:
    return torch.randn(4, 3), torch.tensor(i)


def with_row(i: int) -> Inputs:
    return torch.randn(4, 3), torch.tensor(i), torch.randn(3)


def with_column(i: int) -> Inputs:
    return torch.randn(4, 3), torch.tensor(i), torch.randn(4)


def with_number(i: int) -> Inputs:
    return torch.arange(12).view(4, 3), torch.tensor(i), 2.5


def of_other_type(i: int) -> Inputs:
    return torch.randn(4, 3).bfloat16(), torch.tensor(i), torch.randn(3)


def counted_back(i: int) -> Inputs:
    return torch.randn(4, 3), torch.tensor(-1 - i, dtype=torch.int32)


def out_of_bounds(i: int) -> Inputs:
    return torch.randn(4, 3), torch.tensor(3 + i)


def assigned_out_of_bounds(i: int) -> Inputs:
    return torch.randn(4, 3), torch.tensor(3 + i), torch.randn(3)


def trained(i: int) -> Inputs:
    return torch.randn(4, 3, requires_grad=True), torch.tensor(i)


def of_changing_size(i: int) -> Inputs:
    return torch.randn(4 + i, 3), torch.tensor(i)


def cache_of(i: int) -> Inputs:
    return torch.randn(2, 3, 5, 4), torch.tensor(i), torch.randn(2, 3, 4)


def cube(i: int) -> Inputs:
    return torch.randn(4, 3, 2), torch.tensor(i)


def item(x, p):
    return x[p] * 2


def items_of_several(x, p):
    return x[p, p] + x[1, p] + x[p, 2]


def view_of_item(x, p):
    return x[p].view(3, 1) + 1


def assign(x, p, value):
    x[p] = value
    return x * 2


def assign_column(x, p, value):
    x[:, p] = value
    return x * 2


def assign_each_way(x, p):
    x = x.clone()
    x[1:, p, 0] = 3.0
    x[..., p.clamp(max=1)] = x[0, 0, 0].clone()
    x[p, p, 1] = 7.0
    x[p, None, p] = x[0, :1].clone()
    return x


def step_of_cache(cache, p, value):
    cache[:, :, p] = value
    return (cache[:, :, :4] * value[:, :, None]).sum(-1)


def step_of_training(x, p):
    y = x * 2
    y[p] = x[p] * 3
    return y.sum() + x[p].pow(2).sum()


def loop_over_places(x, p):
    total = torch.zeros(3)
    for place in torch.stack([p, p * 0, p]):
        total = total + x[place]
    return total


WHOLE = [
    (item, square),
    (item, counted_back),
    (item, out_of_bounds),
    (item, of_changing_size),
    (items_of_several, cube),
    (view_of_item, square),
    (assign, with_row),
    (assign, with_number),
    (assign, of_other_type),
    (assign, assigned_out_of_bounds),
    (assign_column, with_column),
    (assign_each_way, cube),
    (step_of_cache, cache_of),
    (step_of_training, trained),
    (loop_over_places, square),
]


def returned(x, p):
    return x[p]


def view_returned(x, p):
    return x[p].view(3, 1)


def held(x, p):
    return [x[p], x * 2]


def item_written(x, p):
    row = x[p]
    row.add_(1)
    return x * 2


def tensor_written(x, p):
    row = x[p]
    x.add_(1)
    return row * 2


def written_by_another_item(x, p):
    row = x[p]
    x[p] = 0.0
    return row * 2


def asked_where_it_lies(x, p):
    return x[p].storage_offset() + x.sum()


def column(x, p):
    return x[:, p] * 2


def of_bytes(x, p):
    return x[p.to(torch.uint8)] * 2


def of_truth(x, p):
    return x[p > 1] * 2


def alive_at_a_break(x, p):
    row = x[p]
    onegraph.graph_break()
    return row * 2


BROKEN = [
    returned,
    view_returned,
    held,
    item_written,
    tensor_written,
    written_by_another_item,
    asked_where_it_lies,
    column,
    of_bytes,
    of_truth,
    alive_at_a_break,
]


def outcome(function: Callable[..., Any], inputs: Inputs) -> tuple[list[Any], list[torch.Tensor]]:
    """What a call raises, or strides of its results; these, the first input behind a write to them, the gradient."""
    x = inputs[0]
    try:
        result = function(*inputs)
    except Exception as error:
        return [type(error), str(error)], [x]
    results = result if isinstance(result, list) else [result]
    shown = [each.detach().clone() for each in results]
    for each in results:
        if each.requires_grad:
            each.backward()
        with torch.no_grad():
            each.add_(100)
    return [each.stride() for each in results], [*shown, x, *([] if x.grad is None else [x.grad])]


def assert_same(compiled: Callable[..., Any], function: Callable[..., Any], make: Callable[[int], Inputs]) -> None:
    for i in (0, 1, 2, 1):
        torch.manual_seed(i)
        wanted = outcome(function, make(i))
        torch.manual_seed(i)
        found = outcome(compiled, make(i))
        assert found[0] == wanted[0]
        torch.testing.assert_close(found[1], wanted[1])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize(("function", "make"), WHOLE, ids=lambda f: f.__name__)
def test_items_are_in_one_graph(function: Callable[..., Any], make: Callable[[int], Inputs], backend: str) -> None:
    assert_same(onegraph.compile(function, backend=backend, fullgraph=True), function, make)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("function", BROKEN, ids=lambda f: f.__name__)
def test_a_view_that_can_be_told_from_a_copy_breaks_the_graph(function: Callable[..., Any], backend: str) -> None:
    with Watch() as watch:
        assert_same(onegraph.compile(function, backend=backend), function, square)
    assert watch.of(ev.GraphBroken)


def test_vmap_over_places_says_what_eager_says() -> None:
    def over(x, p):
        return torch.vmap(lambda row: row[p] * 2)(x)

    x, p = torch.randn(4, 3), torch.tensor(1)
    assert torch.equal(onegraph.compile(over)(x, p), over(x, p))
