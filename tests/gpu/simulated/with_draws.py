"""Programs that draw random numbers in kernels, beside eager mode on the device: numbers, gradients, and the generators
after them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu.driver import StandIn
from gpu.simulated import kernels
from gpu.simulated.compare import same
from torch import Tensor, nn

import onegraph
from onegraph.base.events import OperatorFellBack
from onegraph.compile import EVENTS

driver = kernels.driver  # a fixture


def states() -> list[Tensor]:
    return [*torch.cuda.get_rng_state_all(), torch.get_rng_state()]


def check(function: Callable[..., Any], *inputs: Tensor, calls: int = 2, options: Any = None, **how: Any) -> Any:
    """The same results from the same state of generators, and the same state after them; call after call."""
    onegraph.reset()
    compiled = onegraph.compile(function, fullgraph=how.pop("fullgraph", True), options=options, **how)
    results = []
    for each in (function, compiled):
        torch.manual_seed(12345)
        torch.cuda.manual_seed_all(67890)
        found = []
        for _ in range(calls):
            given = copy.deepcopy(inputs)
            result = each(*given)
            if any(x.requires_grad for x in given):
                result.backward(torch.linspace(0, 1, result.numel(), device=result.device).view(result.shape))
            found.append((result, [x.grad for x in given], states()))
        results.append(found)
    same(*results)
    return compiled


@contextmanager
def left_to_torch() -> Iterator[set[str]]:
    """The operators that graphs leave to torch meanwhile."""
    found: set[str] = set()
    stop = EVENTS.subscribe(lambda event: found.add(event.operator) if isinstance(event, OperatorFellBack) else None)
    yield found
    stop()


DRAWS: dict[str, Callable[[Tensor], Any]] = {
    "rand": lambda x: torch.rand(3, 50, device="cuda") + 1,
    "randn": lambda x: torch.randn(3, 51, device="cuda", dtype=torch.half) * 2,
    "like": lambda x: (torch.rand_like(x), torch.randn_like(x), torch.randint_like(x, 5), torch.rand_like(x.t())),
    "randint": lambda x: torch.randint(-3, 50, (3, 5), device="cuda") // 2,
    "large integers": lambda x: torch.randint(1 << 40, (300,), device="cuda"),
    "in place": lambda x: x.clone().uniform_(2, 3) + x.clone().normal_(1, 2) * x.clone().exponential_(),
    "integers in place": lambda x: x.clone().random_(7) + x.clone().random_(2, 5) + x.clone().random_(),
    "bernoulli": lambda x: (torch.bernoulli(x.sigmoid()), torch.bernoulli(x, 0.3), x.clone().bernoulli_(0.7)),
    "bernoulli of another": lambda x: x.clone().bernoulli_(x.sigmoid()) + x,
    "dropout": lambda x: F.dropout(x.sin(), 0.1),
    "dropout of an input": lambda x: F.dropout(x, 0.4) * 2,
    "dropout of nothing": lambda x: F.dropout(x, 1.0) + F.dropout(x, 0.0),
    "alpha dropout": lambda x: F.alpha_dropout(x, 0.3, True),
    "channels": lambda x: F.dropout2d(x[None, :, None] + 1, 0.3, True),
    "gumbel": lambda x: F.gumbel_softmax(x),
    "rrelu": lambda x: F.rrelu(x, training=True) + torch.rand_like(x),
    "torch's between": lambda x: (torch.rand_like(x), torch.multinomial(x.sigmoid(), 2), torch.rand_like(x)),
    "permutation": lambda x: (x[torch.randperm(len(x), device="cuda")], torch.rand_like(x)),
    "the CPU's, too": lambda x: (torch.rand(3), torch.rand_like(x), torch.randn(2)),
    "another device's": lambda x: (torch.rand(3, device="cuda:1").sum().cpu(), torch.rand_like(x)),
    "unused": lambda x: (torch.rand(3, device="cuda"), x + 1)[1],
}


#: What no kernel draws.
TORCHS = {
    "rrelu": {"aten.rrelu_with_noise_functional.default"},
    "torch's between": {"aten.multinomial.default"},
    "permutation": {"aten.randperm.default"},
}
NOT_DRAWN = {"aten.index.Tensor"}
MIXED = ("the CPU's, too", "another device's")


@pytest.mark.parametrize("name", DRAWS)
def test_draws(driver: StandIn, name: str) -> None:
    with left_to_torch() as left:
        check(DRAWS[name], torch.randn(33, 70, device="cuda"))
    assert name in MIXED or left - NOT_DRAWN == TORCHS.get(name, set())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("size", [(), (1,), (7, 3), (8, 31, 16)], ids=str)
def test_a_dropout_and_its_gradient(driver: StandIn, dtype: torch.dtype, size: tuple[int, ...]) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return F.dropout(x * 2, 0.1) + F.dropout(y, 0.4)

    x, y = (torch.randn(size, device="cuda", dtype=dtype, requires_grad=True) for _ in range(2))
    with left_to_torch() as left:
        check(function, x, y)
    assert not left


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_a_dropout_of_more_elements_than_threads(driver: StandIn, dtype: torch.dtype) -> None:
    check(lambda x: F.dropout(x * 2, 0.1), torch.randn(271, 1000, device="cuda", dtype=dtype), calls=1)


def test_what_is_drawn_is_part_of_the_work_around_it(driver: StandIn) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return F.dropout(F.gelu(x), 0.1) * torch.rand_like(x) + y

    x, y = torch.randn(33, 70, device="cuda", requires_grad=True), torch.randn(33, 70, device="cuda")
    compiled = check(function, x, y)
    driver.forget()
    compiled(x, y).sum().backward()
    assert len(driver.launches()) == 2


def test_a_dropout_of_what_lies_anywhere(driver: StandIn) -> None:
    """How many elements a thread makes at once depends on the call."""
    memory = torch.randn(700, device="cuda")
    compiled = onegraph.compile(lambda x: (F.dropout(x, 0.3), F.dropout(x[2:], 0.3)), fullgraph=True)
    for begin in (0, 1, 2, 3, 4, 0):
        results = []
        for function in (compiled, lambda x: (F.dropout(x, 0.3), F.dropout(x[2:], 0.3))):
            torch.manual_seed(begin)
            results.append((function(memory[begin : begin + 640]), states()))
        same(*results)
    strided = memory[:640].view(16, 40)
    check(lambda x: (F.dropout(x.t(), 0.3), F.dropout(x[:, ::2], 0.3), F.dropout(x[1:, 1:], 0.3)), strided)
    check(lambda x: F.dropout(x.t().sin(), 0.3), strided[:, :15])


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(32, 64), nn.Linear(64, 32), nn.LayerNorm(32)

    def forward(self, x: Tensor) -> Tensor:
        inner = F.dropout(F.gelu(self.first(x)), 0.1, self.training)
        return self.norm(x + F.dropout(self.second(inner), 0.2, self.training))


@pytest.mark.parametrize("settings", [{}, {"dynamic": True}], ids=str)  # products here are not captured
def test_a_training_step(driver: StandIn, settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    first = nn.Sequential(Block(), Block()).cuda()
    models = first, copy.deepcopy(first)
    batches = [torch.randn(rows, 32, device="cuda") for rows in (24, 24, 40, 7)]
    found = []
    for model, forward in (
        (models[0], onegraph.compile(models[0], fullgraph=True, **settings)),
        (models[1], models[1]),
    ):
        torch.manual_seed(5)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for x in batches:
            optimizer.zero_grad()
            loss = (forward(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append((loss.detach(), states()))
        found.append((losses, model))
    same(*found)


def test_a_layer_of_a_transformer(driver: StandIn) -> None:
    torch.manual_seed(0)
    first = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True, device="cuda")
    models, found = (first, copy.deepcopy(first)), []
    with left_to_torch() as left:
        for model, forward in ((models[0], onegraph.compile(models[0], fullgraph=True)), (models[1], models[1])):
            losses = []
            for rows in (4, 3):
                torch.manual_seed(rows)
                loss = (forward(torch.randn(rows, 9, 32, device="cuda")) ** 2).mean()
                loss.backward()
                losses.append((loss.detach(), states()))
            found.append((losses, model))
    same(*found)
    assert left == {"aten.addmm.default", "aten.mm.default", "aten.bmm.default"}


LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "channels last": lambda: torch.randn(2, 6, 5, 7, device="cuda").to(memory_format=torch.channels_last),
    "permuted": lambda: torch.randn(2, 6, 5, 8, device="cuda").permute(2, 0, 3, 1),
    "with gaps": lambda: torch.randn(12, 15, device="cuda")[:, 3:9],
    "expanded": lambda: torch.randn(12, 1, device="cuda").expand(12, 7),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(driver: StandIn, layout: str) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        drawn = torch.rand_like(x), torch.randn_like(x), torch.randint_like(x, 100), torch.empty_like(x).uniform_()
        return *drawn, F.dropout(x, 0.3), torch.bernoulli(x.sigmoid())

    check(function, LAYOUTS[layout](), fullgraph=False)


def test_evaluation_draws_nothing(driver: StandIn) -> None:
    block = Block().cuda().eval()
    check(block, torch.randn(24, 32, device="cuda"))


def test_graphs_that_end_at_a_state_of_the_generator(driver: StandIn) -> None:
    def function(x: Tensor) -> tuple[Any, ...]:
        first = F.dropout(x * 2)
        state = torch.cuda.get_rng_state()
        second = torch.rand_like(x) + first
        torch.cuda.set_rng_state(state)
        third = torch.rand_like(x)
        torch.cuda.manual_seed(3)
        return first, second, third, torch.randn_like(x), state, torch.cuda.default_generators[0].get_offset()

    check(function, torch.randn(50, device="cuda"), fullgraph=False)


def test_sizes_that_change(driver: StandIn) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return F.dropout(x.sin(), 0.3), torch.rand_like(x), torch.bernoulli(x.sigmoid()), F.dropout(x, 0.5)

    onegraph.reset()
    compiled = onegraph.compile(function, fullgraph=True, dynamic=True)
    for rows in (6, 1, 7, 300, 8):
        x, results = torch.randn(rows, 70, device="cuda"), []
        for each in (compiled, function):
            torch.manual_seed(rows)
            results.append((each(x), states()))
        same(*results)


def test_the_second_device(driver: StandIn) -> None:
    check(lambda x: F.dropout(x.sin()) + torch.rand_like(x), torch.randn(500, device="cuda:1"))


def test_a_checkpoint_draws_again(driver: StandIn) -> None:
    def inner(x: Tensor) -> Tensor:
        return F.dropout(x.sin(), 0.3) * 2

    def function(x: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=False) + torch.rand_like(x)

    check(function, torch.randn(500, device="cuda", requires_grad=True), fullgraph=False)


def test_torchs_operators_draw_where_it_is_asked_for(driver: StandIn) -> None:
    def function(x: Tensor) -> Tensor:
        return F.dropout(x.sin(), 0.3) + torch.rand_like(x)

    x = torch.randn(500, device="cuda")
    with left_to_torch() as left:
        check(function, x, options={"fallback_random": True})
    assert left == {"aten.native_dropout.default", "aten.rand_like.default"}


def test_a_draw_in_a_capture_of_the_programs_own_says_what_to_do(
    driver: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = onegraph.compile(lambda x: torch.rand_like(x) + x)
    x = torch.randn(20, device="cuda")
    compiled(x)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    before = states()
    with pytest.raises(RuntimeError, match="fallback_random"):
        compiled(x)
    same(states(), before)
