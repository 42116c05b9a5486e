"""Sizes that only the data say are symbols of one graph: masks, places, repeats, integers taken out of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

Program = Callable[..., Any]
PROGRAMS: dict[str, tuple[Program, Callable[[], tuple[torch.Tensor, ...]]]] = {}
BACKENDS = ["eager", "aot_eager", "native"]


def program(inputs: Callable[[], tuple[torch.Tensor, ...]]) -> Callable[[Program], Program]:
    def add(function: Program) -> Program:
        PROGRAMS[function.__name__] = function, inputs
        return function

    return add


@program(lambda: (torch.rand(3, 4),))
def masked(x):
    return x[x > 0.5] * 2 + 1


@program(lambda: (torch.rand(6, 4), torch.rand(6)))
def masked_rows(x, score):
    kept = x[score > 0.3]
    return functional.gelu(functional.layer_norm(kept, (4,)) @ x.t()).sum(-1), kept.shape[0]


@program(lambda: (torch.rand(6, 4), torch.rand(6)))
def parts_of_a_whole(x, score):
    return torch.cat([x[score > 0.5], x[score <= 0.5]]).cumsum(0)


@program(lambda: (torch.rand(6, 4), torch.rand(6), torch.rand(6, 4)))
def equal_masks(x, score, y):
    mask = score > 0.5
    return x[mask] + y[mask]


@program(lambda: (torch.rand(20, 4), torch.rand(20)))
def detected(boxes, scores):
    keep = scores > 0.3
    boxes, scores = boxes[keep], scores[keep]
    order = scores.argsort(descending=True)
    return boxes[order], scores[order]


@program(lambda: (torch.rand(5, 8), torch.randint(0, 5, (2, 30)), torch.rand(30)))
def neighbours(x, edges, weights):
    edges = edges[:, weights > 0.4]
    sources, targets = edges[0], edges[1]
    total = torch.zeros_like(x).index_add_(0, targets, x[sources])
    count = torch.zeros(5).index_add_(0, targets, torch.ones(edges.shape[1]))
    return total / count.clamp(min=1)[:, None]


@program(lambda: (torch.rand(4, 7, 3), torch.tensor([7, 5, 3, 2])))
def packed(x, lengths):
    mask = torch.arange(7)[None] < lengths[:, None]
    result = torch.zeros_like(x)
    result[mask] = torch.relu(x[mask] * 2 - 1)
    return result


@program(lambda: (torch.rand(10, 4), torch.rand(10, 3), torch.rand(3, 4, 4)))
def routed(x, gates, experts):
    result = torch.zeros_like(x)
    top = gates.softmax(-1).topk(2, dim=-1)
    for number, expert in enumerate(experts):
        rows, place = torch.where(top.indices == number)
        result.index_add_(0, rows, (x[rows] @ expert) * top.values[rows, place, None])
    return result


@program(lambda: (torch.rand(10, 4), torch.rand(10, 3), torch.rand(3, 4, 4)))
def routed_in_order(x, gates, experts):
    chosen = gates.argmax(-1)
    order = chosen.argsort()
    ends = torch.bincount(chosen, minlength=3).cumsum(0)
    ordered, parts, start = x[order], [], 0
    for number, expert in enumerate(experts):
        end = ends[number].item()
        parts.append(ordered[start:end] @ expert)
        start = end
    return torch.empty_like(x).index_copy_(0, order, torch.cat(parts))


@program(lambda: (torch.rand(6, 4), torch.tensor([1, 2, 3])))
def split_by_counts(x, counts):
    first, second, third = torch.split(x, counts.tolist())
    return first.sum(0), second.sum(0), third.sum(0)


@program(lambda: (torch.rand(12), torch.randint(1, 4, (1,))))
def made_of_a_number(x, n):
    count = int(n)
    return x[:count].sum(), torch.arange(count) + 1, x.narrow(0, 0, count), torch.full((count, 2), 3.0)


@program(lambda: (torch.rand(6, 4), torch.rand(6)))
def checked_by_the_program(x, score):
    count = (score > 0.5).sum().item()
    torch._check(count >= 0)
    torch._check(count <= 6)
    assert count <= len(score)
    return x[:count].sum(), x.new_zeros(count)


@program(lambda: (torch.rand(6, 4), torch.randint(0, 4, (6,))))
def asserted(x, lengths):
    assert lengths.max().item() <= 4
    return x * lengths.max().item() + lengths[:, None]


@program(lambda: (torch.rand(6, 5),))
def written_by_a_mask(x):
    y = x.clone()
    y[y > 0.5] = 0
    y[y < 0.2] *= 3
    return y


@program(lambda: (torch.rand(6, 5),))
def places(x):
    found = (x > 0.5).nonzero()
    return x[found[:, 0], found[:, 1]].sum(), found.shape, found.float() * 3


@program(lambda: (torch.randint(0, 9, (7,)),))
def different(x):
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    return values * 2, inverse, counts.sum(), torch.unique_consecutive(x), torch.bincount(x) + 1


@program(lambda: (torch.rand(3, 4), torch.tensor([3, 1, 2])))
def repeated(x, counts):
    return x.repeat_interleave(counts, dim=0).cumsum(0), torch.masked_select(x, x > 0.5).cos()


@program(lambda: (torch.randint(0, 2, (6, 3, 2)), torch.rand(6)))
def different_rows(x, y):
    rows, inverse, counts = torch.unique(x, dim=1, return_inverse=True, return_counts=True)
    others = torch.unique(x.transpose(0, 1), dim=-1)
    return rows * 2, inverse, counts + 1, others.float().sin(), torch.unique(x, dim=0)[0] * y[:, None, None]


@program(lambda: (torch.rand(3, 5), torch.randint(0, 4, (5,))))
def classes_by_the_largest(x, labels):
    of_classes = functional.one_hot(labels)
    return x @ of_classes.float(), of_classes, functional.one_hot(labels[None], num_classes=-1).sum(1)


@torch.library.custom_op("sizes_of_data::positive", mutates_args=())
def positive(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    found = (x > 0.3).nonzero()[:, 0]
    return x.new_ones(2), found


@positive.register_fake
def _(x):
    count = torch.library.get_ctx().new_dynamic_size(max=100)
    return x.new_empty(2), x.new_empty(count, dtype=torch.int64)


@torch.library.custom_op("sizes_of_data::positive_rows", mutates_args=())
def positive_rows(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0.3][:, None] * torch.ones(3)


@positive_rows.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().create_unbacked_symint(), 3)


@program(lambda: (torch.rand(20, 4), torch.rand(20)))
def kept_by_custom_operators(boxes, scores):
    ones, keep = positive(scores.detach())
    boxes, scores = boxes[keep], scores[keep]
    order = scores.sort(descending=True)[1][:3]
    return boxes[order].sin(), scores, ones + 1, positive_rows(scores.detach()).sum(0)


@program(lambda: (torch.rand(20, 4), torch.rand(20)))
def limited_by_what_is_looked_at(boxes, scores):
    boxes, scores = boxes[scores > 0.2], scores[scores > 0.2]
    boxes = boxes[torch.where(scores > 0.4)[0]]
    if boxes.numel() > 80:
        return boxes
    if boxes[:5].shape[0] >= 6 or boxes.shape[0] == 21:
        return boxes + 1
    return boxes * 2


@program(lambda: (torch.rand(12), torch.randint(1, 4, (1,))))
def limited_by_a_check(x, n):
    count = n.item()
    torch._check(count >= 0)
    torch._check(count < 5)
    return x[:count] * (2 if count <= 4 else 3)


@program(lambda: (torch.rand(20),))
def unless_there_are_none(x):
    found = torch.where(x > 0.2)[0]
    if found.numel() == 0:
        return x.new_zeros(0)
    y = x[found]
    return y * 2 if len(y) > 0 and y.shape[0] else y.cos()


@program(lambda: (torch.rand(6, 3, 4), torch.rand(3), torch.rand(3)))
def behind_a_normalization_of_known_statistics(x, mean, variance):
    y = functional.batch_norm(x, mean.detach(), variance.detach() + 1)
    return y[y > 0.2].sin()


@program(lambda: (torch.rand(6, 4), torch.randint(0, 4, (6,))))
def put_in_parts(x, levels):
    out = x.new_zeros(6, 4)
    for level in range(4):
        places = torch.where(levels == level)[0]
        out[places] = (x[places] * (level + 1)).sin()
    return out


def run(function: Program, inputs: tuple[torch.Tensor, ...], recorded: bool) -> Any:
    """Results, their strides, and gradients."""
    own = [value.clone().requires_grad_(recorded and value.is_floating_point()) for value in inputs]
    results = function(*own)
    results = results if isinstance(results, tuple) else (results,)
    tensors = [value for value in results if isinstance(value, torch.Tensor)]
    if recorded and any(value.requires_grad for value in tensors):
        sum((value.sin().sum() for value in tensors if value.requires_grad), start=torch.zeros(())).backward()
    return results, [tensor.stride() for tensor in tensors], [value.grad for value in own]


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:_check_is_size")
def test_one_graph_for_all_data(name: str, backend: str, recorded: bool) -> None:
    torch.manual_seed(0)
    function, inputs = PROGRAMS[name]
    options = {"raise_compiler_errors": True} if backend == "native" else {}
    with Watch() as watch:
        compiled = onegraph.compile(function, fullgraph=True, backend=backend, options=options)
        for _ in range(3):
            given = inputs()
            torch.testing.assert_close(run(compiled, given, recorded), run(function, given, recorded))
    assert len(watch.of(ev.GraphCaptured)) == 1
    fell_back = [event for event in watch.of(ev.OperatorFellBack) if "whole graph" in event.reason]
    assert not fell_back


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["masked", "equal_masks", "neighbours", "routed", "packed"])
def test_no_elements_and_one(name: str, backend: str) -> None:
    """Sizes of 0 and 1 are sizes as others are: the graph runs."""
    torch.manual_seed(0)
    function, inputs = PROGRAMS[name]
    compiled = onegraph.compile(function, fullgraph=True, backend=backend)
    with Watch() as watch:
        for scale in (1.0, 0.0, 1.0):
            given = tuple(value * scale if value.is_floating_point() else value for value in inputs())
            torch.testing.assert_close(compiled(*given), function(*given), equal_nan=True)
    assert not watch.of(ev.GraphFailed)


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_parts_of_no_rows_and_of_one(backend: str, recorded: bool) -> None:
    """Neither assignments to places nor gradients of such sizes ask how many there are."""
    compiled = onegraph.compile(put_in_parts, fullgraph=True, backend=backend)
    with Watch() as watch:
        for levels in ([0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 0, 1], [3, 3, 3, 3, 3, 3], [0, 1, 2, 3, 3, 3]):
            given = torch.rand(6, 4), torch.tensor(levels)
            torch.testing.assert_close(run(compiled, given, recorded), run(put_in_parts, given, recorded))
    assert not watch.of(ev.GraphFailed)


def test_what_is_not_as_expected_runs_as_written() -> None:
    """Sizes that do not fit raise eager's error, at its line; after a few, graphs end before such numbers."""

    def added(x: torch.Tensor, score: torch.Tensor) -> torch.Tensor:
        return x[score > 0.5] + x[score < 0.5]

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * x.long().sum().item()

    compiled = onegraph.compile(added)
    x = torch.arange(4.0)
    torch.testing.assert_close(compiled(x, torch.tensor([0.0, 1.0, 0.0, 1.0])), torch.tensor([1.0, 5.0]))
    with pytest.raises(RuntimeError, match="must match the size"):
        compiled(torch.arange(5.0), torch.tensor([0.0, 1.0, 1.0, 1.0, 0.0]))
    torch.testing.assert_close(compiled(x, torch.tensor([0.0, 1.0, 1.0, 1.0])), torch.tensor([1.0, 2.0, 3.0]))
    with Watch() as watch:
        compiled = onegraph.compile(scaled)
        for _ in range(5):
            torch.testing.assert_close(compiled(-x), scaled(-x))
    assert [len(watch.of(kind)) for kind in (ev.GraphFailed, ev.GraphBroken)] == [3, 1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_where_there_are_none_the_frame_runs_as_written(backend: str) -> None:
    """The graph is one for what is there; what is often not there is asked in front of the next graph."""
    function, _ = PROGRAMS["unless_there_are_none"]
    torch.manual_seed(0)
    for fullgraph in (True, False):
        compiled = onegraph.compile(function, fullgraph=fullgraph, backend=backend)
        with Watch() as watch:
            for scale in (1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0):
                x = torch.rand(20) * scale
                torch.testing.assert_close(compiled(x), function(x))
        assert len(watch.of(ev.GraphFailed)) == (4 if fullgraph else 3)


def test_limits_of_custom_operators_are_checked() -> None:
    """One that does not keep to its limit is called as the program is written."""

    @torch.library.custom_op("sizes_of_data::limited", mutates_args=())
    def limited(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]

    @limited.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return x.new_empty(torch.library.get_ctx().new_dynamic_size(min=1, max=3))

    def added(x: torch.Tensor) -> torch.Tensor:
        y = limited(x)
        return y * 2 if len(y) < 4 else y * 3

    compiled = onegraph.compile(added, fullgraph=True)
    with Watch() as watch:
        for x in (torch.tensor([1.0, -1.0, 2.0]), torch.arange(6.0), -torch.ones(3)):
            torch.testing.assert_close(compiled(x), added(x))
    assert len(watch.of(ev.GraphFailed)) == 2


def test_a_custom_operator_whose_size_is_that_of_no_result_breaks() -> None:
    @torch.library.custom_op("sizes_of_data::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[x > 0]] * 2)

    @doubled.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return x.new_empty(torch.library.get_ctx().new_dynamic_size() * 2)

    compiled = onegraph.compile(lambda x: doubled(x) + 1)
    with Watch() as watch:
        torch.testing.assert_close(compiled(torch.arange(3.0)), torch.tensor([2.0, 3.0, 2.0, 3.0]))
    assert [event.code for event in watch.of(ev.GraphBroken)] == ["data-dependent-size"]


def test_under_fullgraph_the_graph_is_kept() -> None:
    compiled = onegraph.compile(lambda x: x * x.long().sum().item(), fullgraph=True)
    x = -torch.arange(4.0)
    for _ in range(5):
        torch.testing.assert_close(compiled(x), x * -6)


def test_a_branch_ends_the_graph_before_the_size() -> None:
    def branches(x: torch.Tensor) -> torch.Tensor:
        y = x[x > 0.5]
        return y * 2 if y.shape[0] > 2 else y * 3

    with Watch() as watch:
        compiled = onegraph.compile(branches)
        for x in (torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([0.9, 0.0, 0.0, 0.1])):
            torch.testing.assert_close(compiled(x), branches(x))
    assert ["selects elements by a mask" in event.reason for event in watch.of(ev.GraphBroken)] == [True]


def test_behind_a_write_from_outside_there_are_no_such_sizes() -> None:
    """Where a check fails there, the frame could not run as it was written."""

    def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y[y > 0.5] + 1

    with Watch() as watch:
        compiled = onegraph.compile(written)
        x, y = torch.zeros(2), torch.rand(5)
        torch.testing.assert_close(compiled(x, y), y[y > 0.5] + 1)
    assert watch.of(ev.GraphBroken) and x.tolist() == [1.0, 1.0]


def test_sizes_of_inputs_may_change_too() -> None:
    def both(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, int]:
        mask = x > 0.5
        return x[mask] + y[mask], x[mask].shape[0] + y.shape[0]

    with Watch() as watch:
        compiled = onegraph.compile(both, fullgraph=True)
        for count in (5, 7, 9, 0, 1, 12):
            x, y = torch.rand(count), torch.rand(count)
            torch.testing.assert_close(compiled(x, y), both(x, y))
    assert len(watch.of(ev.GraphCaptured)) == 2


def test_a_mask_of_no_dimensions_breaks() -> None:
    compiled = onegraph.compile(lambda x, mask: (x[mask] + 1, x * 2))
    x = torch.arange(3.0)
    for mask in (torch.tensor(True), torch.tensor(False)):
        torch.testing.assert_close(compiled(x, mask), (x[mask] + 1, x * 2))


@pytest.mark.parametrize("backend", BACKENDS)
def test_custom_operators_take_nothing_and_one(backend: str) -> None:
    """What their fake implementation does not ask is not asked for it."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return positive_rows(x[x > 0.5]).sum(0)

    compiled = onegraph.compile(program, fullgraph=True, backend=backend)
    with Watch() as watch:
        for x in (torch.rand(9), torch.zeros(9), torch.eye(9)[0], torch.ones(9)):
            torch.testing.assert_close(compiled(x), program(x))
    assert not watch.of(ev.GraphFailed)
