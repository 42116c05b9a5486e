"""`torch.cond`, `while_loop`, `scan`, `map`, `associative_scan`: one graph, with the values and gradients of Python."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import onegraph
from onegraph.torchlib.regions import REGIONS
from tests.autograd.test_optimizers import Seen
from tests.control_flow import PYTHON, TORCH, Operators

torch.manual_seed(0)
LINEAR = nn.Linear(4, 4)
WEIGHT = torch.randn(4, 4)
Program = Callable[..., Any]
BACKENDS = ["eager", "aot_eager", "native"]


def choice(x: Tensor, ops: Operators) -> Any:
    return ops.cond(x.sum() > 0, lambda a: a.sin() @ WEIGHT, lambda a: a.cos() * WEIGHT[0], (x,)) * 2


def choice_of_layers(x: Tensor, ops: Operators) -> Any:
    return ops.cond(x.mean() > 0, lambda a: {"y": LINEAR(a).relu()}, lambda a: {"y": a @ LINEAR.weight}, (x,))


def choice_that_is_known(x: Tensor, ops: Operators) -> Any:
    return ops.cond(x.shape[0] > 2, torch.sin, lambda a: a[:2], (x,))


def choice_under_no_grad(x: Tensor, ops: Operators) -> Any:
    with torch.no_grad():
        return ops.cond(x.sum() > 0, torch.sin, torch.cos, (x,))


def choice_that_is_written_to(x: Tensor, ops: Operators) -> Any:
    y = ops.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
    y.mul_(2)
    return y


def results_that_gradients_need_are_written_to(x: Tensor, ops: Operators) -> Any:
    y = ops.cond(x.sum() > 0, lambda a: LINEAR(a).tanh(), lambda a: a.exp(), (x,))
    y.mul_(y.detach().sin())
    (z,) = ops.while_loop(lambda a: a.norm() < 9, lambda a: (a.sigmoid() + a,), (y,))
    z[0] = 0
    carried, items = ops.scan(lambda c, r: (torch.tanh(c + r), (c * r).exp()), torch.zeros(4), z)
    carried.copy_(carried.detach().cos())
    return y, z, carried, items.mul_(0.5)


def two_choices(x: Tensor, ops: Operators) -> Any:
    one, other = (ops.cond(x.sum() > n, torch.sin, torch.cos, (x,)) for n in (0, 9))
    return ops.cond(one.sum() > 0, lambda: other + one, lambda: other - one)


def choice_with_sizes(x: Tensor, ops: Operators) -> Any:
    n = x.shape[0]
    return ops.cond(x.sum() > 0, lambda a: a.reshape(n * 2, 2) * n, lambda a: a.reshape(n * 2, 2) - n, (x,))


def repetition(x: Tensor, ops: Operators) -> Any:
    return ops.while_loop(lambda n, a: n < 5, lambda n, a: (n + 1, a * 2 + LINEAR(a)), (torch.tensor(0), x))


def repetition_that_does_nothing(x: Tensor, ops: Operators) -> Any:
    return ops.while_loop(lambda a: a.sum() > 1e9, lambda a: (a * 2,), (x * 1,))


def repetition_until(x: Tensor, ops: Operators) -> Any:
    return ops.while_loop(lambda a: a.norm() < 50, lambda a: (a @ WEIGHT + a + 1,), (x,))


def recurrence(x: Tensor, ops: Operators) -> Any:
    return ops.scan(lambda c, y: (torch.tanh(c @ WEIGHT + y), {"a": c * y, "b": LINEAR(y).sum()}), torch.zeros(4), x)


def recurrence_from_the_end(x: Tensor, ops: Operators) -> Any:
    return ops.scan(lambda c, y: (c + y, c * y), x[:, 0] * 0, x.t(), reverse=True)


def recurrence_with_choices(x: Tensor, ops: Operators) -> Any:
    def step(c: Tensor, y: Tensor) -> Any:
        z = ops.cond(c.sum() > 0, lambda a, b: a + b.sin(), lambda a, b: a - b.cos(), (c, y))
        return z, LINEAR(z)

    return ops.scan(step, x[0] * 1, x)


def each(x: Tensor, ops: Operators) -> Any:
    return ops.map(lambda row, scale: (row.sin() + WEIGHT[0] * scale, row.sum()), x, WEIGHT[1])


def of_pairs(x: Tensor, ops: Operators) -> Any:
    return ops.associative_scan(lambda a, b: a * b + 1, x, dim=0, combine_mode="generic")


PROGRAMS = (
    choice,
    choice_of_layers,
    choice_that_is_known,
    choice_under_no_grad,
    choice_that_is_written_to,
    results_that_gradients_need_are_written_to,
    two_choices,
    choice_with_sizes,
    repetition,
    repetition_that_does_nothing,
    repetition_until,
    recurrence,
    recurrence_from_the_end,
    recurrence_with_choices,
    each,
    of_pairs,
)


def results(program: Program, x: Tensor, ops: Operators = TORCH) -> tuple[Any, list[Tensor]]:
    """What a program gives, and the gradients of its argument and of the layer, where zeros may be none."""
    LINEAR.zero_grad()
    found = program(x, ops)
    ends = [leaf for leaf in pytree.tree_leaves(found) if leaf.requires_grad]
    if ends:
        sum((end * end).sum() for end in ends).backward()
    leaves = [x, *LINEAR.parameters()]
    return pytree.tree_map(torch.Tensor.detach, found), [
        torch.zeros_like(v) if v.grad is None else v.grad for v in leaves
    ]


def given(rows: int, sign: int, recorded: bool) -> Tensor:
    x = torch.rand(rows, 4, generator=torch.Generator().manual_seed(rows)) * sign
    return x.requires_grad_(recorded)


def check(program: Program, backend: str, recorded: bool, **options: Any) -> Seen:
    small = {"smallest_recorded_graph": 0} if backend == "native" else {}
    compiled = onegraph.compile(program, backend=backend, fullgraph=True, options=small, **options)
    with Seen() as seen:
        for rows in (6, 7, 5) if options else (6, 6):
            for sign in (1, -1):
                ours = results(compiled, given(rows, sign, recorded))
                torch.testing.assert_close(ours, results(program, given(rows, sign, recorded), PYTHON))
    return seen


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program: Program, backend: str, recorded: bool) -> None:
    seen = check(program, backend, recorded)
    assert not any("operator by operator" in text for text in seen.fallbacks)


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p is not of_pairs], ids=lambda program: program.__name__)
def test_sizes_that_change(program: Program, recorded: bool) -> None:
    assert check(program, "native", recorded, dynamic=True).graphs <= 2


def test_random_numbers_are_drawn_in_eagers_order() -> None:
    """Where gradients are recorded, too: the numbers are drawn once. (Torch draws them again.)"""

    def program(x: Tensor, ops: Operators) -> Any:
        return ops.map(lambda row: nn.functional.dropout(row, 0.5) + torch.rand(4), x)

    for backend in BACKENDS:
        compiled = onegraph.compile(program, backend=backend, fullgraph=True)
        for recorded in (False, True):
            torch.manual_seed(1)
            ours = results(compiled, given(6, 1, recorded))
            torch.manual_seed(1)
            torch.testing.assert_close(ours, results(program, given(6, 1, recorded), PYTHON))


def writes_outside(x: Tensor) -> Any:
    y = x * 1

    def write(a: Tensor) -> Tensor:
        y.add_(1)
        return a + y

    return torch.cond(x.sum() > 0, write, lambda a: a + y, (x,))


def writes_to_an_operand(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a.add_(1), lambda a: a + 1, (x * 1,))


def calls_something_outside(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a + len(input()), lambda a: a + 1, (x,))


def gives_other_shapes(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a, lambda a: a[:2], (x,))


def gives_a_number(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: (a, 1), lambda a: (a, 2), (x,))


def carries_a_number(x: Tensor) -> Any:
    return torch.while_loop(lambda n, a: a.sum() < 99, lambda n, a: (n + 1, a * 2), (0, x))


def under_grad(x: Tensor) -> Any:
    return torch.func.grad(lambda y: torch.cond(y.sum() > 0, torch.sin, torch.cos, (y,)).sum())(x)


def random_under_vmap(x: Tensor) -> Any:
    def drawn(y: Tensor) -> Tensor:
        return torch.cond(y.sum() > 0, torch.rand_like, torch.cos, (y,))

    return torch.vmap(drawn, randomness="different")(x)


REFUSED = {
    writes_outside: "whose function changes something that was there before",
    writes_to_an_operand: "whose function changes something that was there before",
    calls_something_outside: "whose function breaks the graph",
    gives_other_shapes: "whose branches give different things",
    gives_a_number: "whose function gives something that is no tensor",
    carries_a_number: "which a tensor ends, and carries a number of Python",
    under_grad: "under a transform of torch.func",
    random_under_vmap: "whose branches draw random numbers",
}


@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
def test_what_is_no_body(program: Callable[[Tensor], Any]) -> None:
    with pytest.raises(onegraph.GraphBreakError, match=REFUSED[program]):
        onegraph.compile(program, backend="eager", fullgraph=True)(torch.ones(3, 4))


def test_a_branch_that_runs_for_real_is_not_looked_at() -> None:
    """Torch's own compiler runs it then, as in eager mode; its frames are none of the program's."""
    compiled = onegraph.compile(carries_a_number, backend="eager")
    torch.testing.assert_close(compiled(torch.ones(3, 4)), carries_a_number(torch.ones(3, 4)))


def test_regions_live_as_long_as_their_graphs() -> None:
    onegraph.reset()
    gc.collect()
    before = len(REGIONS)
    compiled = onegraph.compile(recurrence, options={"smallest_recorded_graph": 0})
    results(compiled, given(6, 1, True))
    compiled(given(6, 1, False), TORCH)
    assert len(REGIONS) > before
    del compiled
    onegraph.reset()
    gc.collect()
    assert len(REGIONS) == before


def under_autocast(x: Tensor, ops: Operators) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        y = ops.cond(x.sum() > 0, lambda a: a @ WEIGHT, lambda a: (a @ WEIGHT) * 2, (x,))
        with torch.autocast("cpu", enabled=False):
            z = ops.map(lambda row: row.float() @ WEIGHT, y)
        return y, z, ops.scan(lambda c, row: (c + (row @ WEIGHT).float(), row @ WEIGHT), x[0] * 1, x)


@pytest.mark.parametrize("entered", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_types_of_autocast(backend: str, entered: bool) -> None:
    compiled = onegraph.compile(under_autocast, backend=backend, fullgraph=True)
    found = []
    for program, ops in ((compiled, TORCH), (under_autocast, PYTHON)):
        x = given(6, 1, True)
        with torch.autocast("cpu", torch.bfloat16, enabled=entered):
            leaves = pytree.tree_leaves(program(x, ops))
        torch.stack([leaf.float().square().sum() for leaf in leaves]).sum().backward()
        found.append([*[leaf.detach() for leaf in leaves], x.grad])
    torch.testing.assert_close(*found, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("backend", BACKENDS)
def test_inference_mode(backend: str) -> None:
    with torch.inference_mode():
        x = given(6, 1, False)
        ours = onegraph.compile(recurrence_with_choices, backend=backend, fullgraph=True)(x, TORCH)
        torch.testing.assert_close(ours, recurrence_with_choices(x, PYTHON))


def test_an_error_in_a_body_is_that_of_the_program() -> None:
    """The call runs as it was written, where the program's own handlers see it."""

    def program(x: Tensor, places: Tensor) -> Any:
        try:
            return torch.cond(x.sum() > 0, lambda a, p: a[p], lambda a, p: a[p] * 2, (x, places))
        except IndexError:
            return "caught"

    compiled = onegraph.compile(program)
    x = torch.ones(3)
    torch.testing.assert_close(compiled(x, torch.tensor([0, 2])), x[:2])
    assert compiled(x, torch.tensor([0, 7])) == program(x, torch.tensor([0, 7])) == "caught"


def operand(x: Tensor, w: Tensor, ops: Operators) -> Any:
    return (ops.cond(x.sum() > 0, lambda a: a, lambda a: a * 2, (x,)),)


def part_of_an_operand(x: Tensor, w: Tensor, ops: Operators) -> Any:
    return (ops.cond(x.sum() > 0, lambda a: a[:2], lambda a: a[1:3], (x,)),)


def one_value_twice(x: Tensor, w: Tensor, ops: Operators) -> Any:
    return ops.cond(x.sum() > 0, lambda a: (a.sin(),) * 2, lambda a: (a, a), (x,))


def exchanged(x: Tensor, w: Tensor, ops: Operators) -> Any:
    return ops.while_loop(lambda p, q: p.sum() < q.sum(), lambda p, q: (q, p), (x, w))


def none_at_all(x: Tensor, w: Tensor, ops: Operators) -> Any:
    return ops.while_loop(lambda p, q: p.sum() > 1e9, lambda p, q: (q, p), (x, w))


def given_on(x: Tensor, w: Tensor, ops: Operators) -> Any:
    carry, rows = ops.scan(lambda c, row: (row, c), x[0] * 1.0, x)
    return carry, rows


def in_another_order(x: Tensor, w: Tensor, ops: Operators) -> Any:
    """What is carried is not contiguous where the body gives it."""
    turn = lambda c, y: ((c.t() + y).t().cos().t(), c.sin().t())  # noqa: E731
    return ops.scan(turn, x[:2, :2] * 1.0, x.reshape(6, 2, 2))


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [operand, part_of_an_operand, one_value_twice, exchanged, none_at_all, given_on, in_another_order],
    ids=lambda program: program.__name__,
)
def test_results_are_tensors_of_their_own(program: Program, backend: str, recorded: bool) -> None:
    """They may be written to: no operand changes, and no other result."""

    def written(x: Tensor, w: Tensor, ops: Operators) -> list[Tensor]:
        found = [result if ops is TORCH else result.clone() for result in program(x, w, ops)]
        for factor, result in enumerate(found, 2):
            result.mul_(factor)
        return found

    small = {"smallest_recorded_graph": 0} if backend == "native" else {}
    compiled = onegraph.compile(written, backend=backend, fullgraph=True, options=small)
    seen = []
    for function, ops in ((compiled, TORCH), (written, PYTHON)):
        x, w = given(6, 1, recorded), (given(6, 1, False) + 1).requires_grad_(recorded)
        found = function(x, w, ops)
        if recorded:
            sum((result * result).sum() for result in found).backward()
        gradients = [torch.zeros_like(v) if v.grad is None else v.grad for v in (x, w)]
        seen.append([*(result.detach() for result in found), x.detach(), w.detach(), *gradients])
    torch.testing.assert_close(*seen)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_body_beside_sizes_that_only_the_data_say(backend: str) -> None:
    def f(x: Tensor, ops: Operators) -> Any:
        return x[x[:, 0] > 0] * 2, ops.map(lambda row: row.sin(), x), torch.unique((x > 0).long()).numel()

    with Seen() as seen:
        compiled = onegraph.compile(f, backend=backend, fullgraph=True, options={"smallest_recorded_graph": 0})
        for seed in range(3):
            torch.manual_seed(seed)
            x = torch.randn(5, 3)
            torch.testing.assert_close(compiled(x, TORCH), f(x, PYTHON))
    assert not [each for each in seen.fallbacks if each.startswith(("all", "autograd"))]


def parts_of_a_whole(x: Tensor, ops: Operators) -> Any:
    positive = x[:, 0] > 0
    y = torch.cat([x[positive], x[~positive], x[:1]])
    y = ops.cond(
        y.sum() > 0, lambda a: LINEAR(a).tanh(), lambda a: ops.cond(a.mean() > -1, torch.sin, torch.cos, (a,)), (y,)
    )
    return ops.while_loop(lambda n, a: n < 3, lambda n, a: (n + 1, a.tanh() + a), (torch.tensor(0), y))


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_values_of_sizes_that_are_sums(backend: str, recorded: bool) -> None:
    """A body takes the sizes whose sum is that of its value."""
    check(parts_of_a_whole, backend, recorded, dynamic=True)
