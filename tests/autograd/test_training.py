"""Graphs that record gradients: values, gradients, errors and histories are eager's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS

BACKENDS = ["aot_eager", "native"]
OPTIONS = {"compile_gradients": True, "raise_compiler_errors": True}


def compiled(function: Any, backend: str, **options: Any) -> Any:
    return onegraph.compile(function, backend=backend, fullgraph=True, options=OPTIONS | options)


class Watch:
    """The events of what is compiled within."""

    def __enter__(self) -> Watch:
        self.pairs: list[ev.GradientsPlanned] = []
        self.refusals: list[str] = []
        self.unsubscribe = EVENTS.subscribe(self.see)
        return self

    def see(self, event: ev.Event) -> None:
        if isinstance(event, ev.GradientsPlanned):
            self.pairs.append(event)
        if isinstance(event, ev.OperatorFellBack) and event.operator in ("autograd", "backward"):
            self.refusals.append(event.reason)
        if isinstance(event, ev.GraphFailed):
            self.refusals.append(event.error)

    def __exit__(self, *error: object) -> None:
        self.unsubscribe()


class Attention(nn.Module):
    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = [y.view(batch, length, self.heads, -1).transpose(1, 2) for y in self.qkv(x).split(width, 2)]
        mixed = F.scaled_dot_product_attention(*parts, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.attention, self.first, self.second = Attention(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class Language(nn.Module):
    """An embedding that is also the last weight, and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.block = nn.Embedding(50, 16), Block()
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        logits = self.head(self.block(self.embedding(tokens)))
        return F.cross_entropy(logits.view(-1, 50), tokens.view(-1))


# Without a bias: the gradient of one before a normalization over the batch is zero but for roundings.
CONVOLUTION = (
    nn.Conv2d(3, 8, 3, bias=False),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(72, 4),
)
BIASED = (nn.Conv2d(3, 8, 3), nn.ReLU(), nn.BatchNorm2d(8), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 4))
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "linear": (lambda: nn.Linear(8, 4), lambda: torch.randn(3, 8)),
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4)), lambda: torch.randn(16, 8)),
    "normalized": (lambda: nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)), lambda: torch.randn(5, 8)),
    "convolution": (lambda: nn.Sequential(*copy.deepcopy(CONVOLUTION)), lambda: torch.randn(4, 3, 8, 8)),
    "biased convolution": (lambda: nn.Sequential(*copy.deepcopy(BIASED)), lambda: torch.randn(4, 3, 8, 8)),
    "dropout": (lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), lambda: torch.randn(5, 8)),
    "attention": (Attention, lambda: torch.randn(2, 5, 16)),
    "block": (Block, lambda: torch.randn(2, 5, 16)),
    "language": (Language, lambda: torch.randint(0, 50, (2, 7))),
}


def assert_as_exact(ours: torch.Tensor, theirs: torch.Tensor, exact: torch.Tensor) -> None:
    """What is computed in another order than eager's is as near to the result in float64 as eager's is.

    Which library computes a product, and so its rounding, depends on what is faster on the machine.
    """
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    largest = exact.abs().max().item()
    allowed = max(4 * (theirs - exact).abs().max().item(), 1e-5 * largest)
    assert (ours - exact).abs().max().item() <= allowed


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODELS)
def test_steps_of_training_are_eagers(name: str, backend: str) -> None:
    torch.manual_seed(0)
    make, draw = MODELS[name]
    theirs = make()
    ours, exact = copy.deepcopy(theirs), copy.deepcopy(theirs).double()
    step = compiled(ours, backend, library_calls="packed")  # what is faster at the moment would choose the roundings
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (exact, theirs, ours)]
    with Watch() as watch:
        for seed in range(3):
            given = draw()
            states = []
            for model, optimizer in zip((exact, theirs, step), optimizers, strict=True):
                torch.manual_seed(seed)
                result = model(given.double() if model is exact and given.is_floating_point() else given)
                loss = result if result.dim() == 0 else result.square().mean()
                loss.backward()
                states.append((loss, torch.get_rng_state()))
                if seed != 1:  # gradients of two steps are accumulated
                    optimizer.step()
                    optimizer.zero_grad()
            losses, generators = zip(*states, strict=True)
            assert_as_exact(losses[2], losses[1], losses[0])
            assert torch.equal(generators[2], generators[1])
            models = ([*model.parameters(), *model.buffers()] for model in (ours, theirs, exact))
            for a, b, c in zip(*models, strict=True):
                assert_as_exact(a, b, c)
                assert (a.grad is None) == (b.grad is None)
                if b.grad is not None:
                    assert_as_exact(a.grad, b.grad, c.grad)
                    assert a.grad.stride() == b.grad.stride()
    assert len(watch.pairs) == 1
    assert not watch.refusals


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gradient_that_is_zero_in_theory_is_a_rounding_of_what_is_added(backend: str) -> None:
    torch.manual_seed(0)
    before, after = nn.Conv2d(3, 8, 3), nn.Sequential(nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    x = torch.randn(4, 3, 8, 8)
    exact_before, exact_after = copy.deepcopy(before).double(), copy.deepcopy(after).double()
    between = exact_before(x.double())
    (added,) = torch.autograd.grad(exact_after(between).square().mean(), between)
    compiled(nn.Sequential(before, after), backend)(x).square().mean().backward()
    assert before.bias.grad is not None
    allowed = 4 * torch.finfo(torch.float32).eps * added.abs().sum((0, 2, 3))
    assert (before.bias.grad.abs() <= allowed).all()


# ---- small programs --------------------------------------------------------------------------------------------------


def in_place(x: Tensor, w: Tensor) -> Any:
    y = x * w
    y[0].mul_(3)
    y.add_(1)
    return y


def several(x: Tensor, w: Tensor) -> Any:
    y = (x * w).sin()
    return y, y.argmax(), y.detach(), x.exp(), (y > 0)


def views(x: Tensor, w: Tensor) -> Any:
    y = x * w
    return y, y.view(-1), y[0], x.view(-1)


def parts(x: Tensor, w: Tensor) -> Any:
    y = x * w
    y[0].mul_(3)
    return y[:, 1:], y[1:, :2], (y * 2).sin()


def outputs_are_inputs(x: Tensor, w: Tensor) -> Any:
    return x, w, x * w, None, 3


def partly_without(x: Tensor, w: Tensor) -> Any:
    with torch.no_grad():
        scale = w.exp()
    return x * scale + w.detach(), scale


def only_one(x: Tensor, w: Tensor) -> Any:
    return (x.exp() * 2,)


def under_autocast(x: Tensor, w: Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x @ w.t(),)


PROGRAMS = [in_place, several, views, parts, outputs_are_inputs, partly_without, only_one, under_autocast]


def leaves() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)


def flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_gradients_of_each_output(program: Callable[..., Any], backend: str) -> None:
    """One output after the other gets a gradient: what does not depend on it has none, as in eager."""
    step = compiled(program, backend)
    with Watch() as watch:
        for chosen in range(len(flat(program(*leaves())))):
            found = []
            for function in (program, step):
                given = leaves()
                results = flat(function(*given))
                facts = [
                    (r.requires_grad, r.is_leaf, r.shape, r.dtype, r.stride(), r._version)
                    if isinstance(r, Tensor)
                    else r
                    for r in results
                ]
                start = results[chosen]
                if isinstance(start, Tensor) and start.requires_grad:
                    (start * start).sum().backward()
                found.append((facts, results, [x.grad for x in given]))
            assert found[0][0] == found[1][0]
            for a, b in zip([*found[1][1], *found[1][2]], [*found[0][1], *found[0][2]], strict=True):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    assert watch.pairs
    assert not watch.refusals


def product(x: Tensor, w: Tensor) -> Tensor:
    return (x * w).tanh().sum()


@pytest.mark.parametrize("backend", BACKENDS)
def test_higher_derivatives_are_eagers(backend: str) -> None:
    def second(function: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        x, w = leaves()
        slopes = torch.autograd.grad(function(x, w), (x, w), create_graph=True)
        return torch.autograd.grad(sum(s.square().sum() for s in slopes), (x, w))

    with Watch() as watch:
        torch.testing.assert_close(second(compiled(product, backend)), second(product))
    assert watch.refusals == ["higher derivatives are eager's"]
    doubles = [x.detach().double().requires_grad_() for x in leaves()]
    step = compiled(product, backend)
    assert torch.autograd.gradcheck(step, doubles)
    assert torch.autograd.gradgradcheck(step, doubles)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_second_backward_pass_needs_the_graph(backend: str) -> None:
    x, w = leaves()
    loss = compiled(product, backend)(x, w)
    loss.backward(retain_graph=True)
    once = x.grad.clone()
    loss.backward()
    torch.testing.assert_close(x.grad, 2 * once)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_to_what_eager_keeps_are_errors(backend: str) -> None:
    for function in (product_of_exponents, compiled(product_of_exponents, backend)):
        x, w = leaves()
        y, z = function(x, w)
        with torch.no_grad():
            y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation.*is at version 1; expected version 0"):
            z.sum().backward()


def product_of_exponents(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = x.exp()
    return y, y * w


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_and_names(backend: str) -> None:
    seen: list[list[Any]] = []
    for function in (product, compiled(product, backend)):
        x, w = leaves()
        log: list[Any] = []
        w.register_hook(lambda g, log=log: log.append(("w", round(g.sum().item(), 4))))
        x.register_post_accumulate_grad_hook(lambda p, log=log: log.append(("x", round(p.grad.sum().item(), 4))))
        y = x * 2
        y.register_hook(lambda g: g * 10)
        loss = function(y, w)
        loss.register_hook(lambda g, log=log: log.append(("loss", g.item())))
        log.append(loss.grad_fn.name())
        loss.backward()
        seen.append([log[0], *sorted(log[1:])])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_checkpoints_and_frozen_parameters(backend: str) -> None:
    torch.manual_seed(0)
    theirs = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    ours = copy.deepcopy(theirs)
    step = compiled(ours, backend)
    x = torch.randn(2, 4)
    for frozen in (False, True, False):
        for model, run in ((theirs, theirs), (ours, step)):
            model[0].weight.requires_grad_(not frozen)
            model.zero_grad()
            checkpoint(run, x, use_reentrant=False).square().sum().backward()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None)
            if b.grad is not None:
                torch.testing.assert_close(a.grad, b.grad)


def test_a_buffer_that_is_written_with_a_history() -> None:
    def program(x: Tensor, buffer: Tensor) -> Tensor:
        buffer.copy_(x * 2)
        return buffer * x

    found = []
    for function in (program, compiled(program, "aot_eager")):
        x, buffer = leaves()[0], torch.zeros(3, 4)
        function(x, buffer).sum().backward()
        found.append((x.grad, buffer.detach(), buffer.requires_grad, buffer._version))
    torch.testing.assert_close(found[1][:2], found[0][:2])
    assert found[1][2:] == found[0][2:]


def test_what_has_no_convention_runs_operator_by_operator() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            row = x[0]
        return row, row * 2  # which requires grad, and gives none to anybody

    x = torch.randn(2, 3, requires_grad=True)
    with Watch() as watch:
        row, double = compiled(program, "native")(x)
    double.sum().backward()
    assert row.is_leaf and row.requires_grad and row.grad is None and x.grad is None
    assert not watch.pairs
    assert len(watch.refusals) == 1


def pieces(x: Tensor, w: Tensor) -> Any:
    return (x * w).chunk(2, 1)


def pieces_of_an_input(x: Tensor, w: Tensor) -> Any:
    return (*x.unbind(1), x.split([1, 2])[1].t(), (x * w).sum())


def a_piece(x: Tensor, w: Tensor) -> Any:
    return ((x * w).view(2, 6).permute(1, 0).unbind(0)[2],)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [pieces, pieces_of_an_input, a_piece], ids=lambda program: program.__name__)
def test_nobody_may_write_to_one_of_several_views(program: Callable[..., Any], backend: str) -> None:
    found = []
    for function in (program, compiled(program, backend)):
        with Watch() as watch:
            given = leaves()
            results = function(*given)
        with pytest.raises(
            RuntimeError, match="This view is the output of a function that returns multiple views"
        ) as e:
            results[0].mul_(2)
        names = [r.grad_fn.name() for r in results[:2]]
        facts = [(r.stride(), r.storage_offset(), r._version) for r in results]
        sum((r * r).sum() for r in results).backward()
        found.append(([*results, *[x.grad for x in given]], [str(e.value), names, facts]))
    torch.testing.assert_close(found[1][0], found[0][0])
    assert found[1][1] == found[0][1]
    assert watch.pairs
    assert not watch.refusals


def test_the_option_switches_it_off() -> None:
    with Watch() as watch:
        onegraph.compile(product, options={"compile_gradients": False})(*leaves()).backward()
    assert not watch.pairs
    assert watch.refusals == ["the option compile_gradients is off; the whole graph runs operator by operator"]


# ---- results that others are computed from ---------------------------------------------------------------------------


def chain(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    y = x * w
    z = y.sin()
    return y, z, (z * y).sum()


def chain_through_a_view(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    y = x * w
    row = y[0]
    return y, row, row.exp()


def chain_through_a_view_of_an_input(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    row = x[0]
    return x, row, row * w


def chain_through_a_written_input(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    buffer = w.detach()
    buffer.copy_(x * 2)
    return x, buffer, buffer.exp()


def chain_of_views(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    row = x.view(12)
    return row, row.view(3, 4)


def chain_through_pieces(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    mean, spread = (x * w).chunk(2, 1)
    return mean, spread, mean + spread.exp()


def chain_through_a_view_and_past_it(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    flat, row = x.view(12), w[0]
    return flat, row, flat * x.view(12) + row.sum() * w.view(12)


def chain_through_views_of_views(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    rows = (x * w)[1:]
    part = rows[:, 1:]
    return rows, part, part[0].exp() * rows.sum()


def chain_of_a_view_and_losses(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    y = x * w
    logits = y[:, :3]
    loss = logits.logsumexp(1).mean()
    return y.sin(), logits, loss, loss * 8


def chain_through_a_view_to_a_piece(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    rows = (x * w)[1:]
    return rows[0], rows, (rows * rows).unbind(0)[1]


CHAINS = [
    chain,
    chain_through_a_view,
    chain_through_a_view_of_an_input,
    chain_through_a_written_input,
    chain_of_views,
    chain_through_pieces,
    chain_through_a_view_and_past_it,
    chain_through_views_of_views,
    chain_of_a_view_and_losses,
    chain_through_a_view_to_a_piece,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", CHAINS, ids=lambda program: program.__name__)
def test_results_that_others_are_computed_from_have_their_gradients(program: Callable[..., Any], backend: str) -> None:
    """Whether they are asked for, kept, hooked, or changed by a hook."""
    found = []
    watch = Watch()
    for function in (program, compiled(program, backend)):
        x, w = leaves()
        with watch:
            *others, last = function(x, w)
        log = [torch.autograd.grad(last.sum(), others, retain_graph=True, allow_unused=True)]
        for item in others:
            item.retain_grad()
        last.sum().backward(retain_graph=True)
        log.append([item.grad for item in others])
        others[-1].register_hook(lambda gradient: gradient * 3)
        (last.sum() + others[-1].sum()).backward()
        found.append([*log[0], *log[1], *[item.grad for item in others], x.grad, w.grad])
    assert bool(watch.refusals) == (program is chain_through_a_written_input)
    assert bool(watch.pairs) == (program not in (chain_through_a_written_input, chain_of_views))
    for ours, theirs in zip(found[1], found[0], strict=True):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_higher_derivatives_through_a_part_of_a_result(backend: str) -> None:
    found = []
    for function in (parts, compiled(parts, backend)):
        x, w = leaves()
        first, second, last = function(x, w)
        slopes = torch.autograd.grad([first.exp().sum(), second.sin().sum(), last.sum()], [x, w], create_graph=True)
        found.append(torch.autograd.grad(sum(s.square().sum() for s in slopes), (x, w)))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [chain, *CHAINS[5:8]], ids=lambda program: program.__name__)
def test_higher_derivatives_through_results_of_results(program: Callable[..., Any], backend: str) -> None:
    found = []
    for function in (program, compiled(program, backend)):
        x, w = leaves()
        y, z, last = function(x, w)
        slopes = torch.autograd.grad([last.sum(), z.sin().sum()], [y, x], create_graph=True)
        found.append(torch.autograd.grad(sum(s.square().sum() for s in slopes), (x, w), allow_unused=True))
    torch.testing.assert_close(found[1], found[0])


def apart(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return x.exp() * 2, w.abs()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_write_is_an_error_only_where_a_pass_looks(backend: str) -> None:
    for function in (apart, compiled(apart, backend)):
        x, w = leaves()
        first, second = function(x, w)
        with torch.no_grad():
            w.add_(1)
        first.sum().backward()
        torch.testing.assert_close(x.grad, first.detach())
        with torch.no_grad():
            x.add_(1)
            w.add_(1)
        first, second = function(x, w)
        with torch.no_grad():
            w.add_(1)
        with pytest.raises(RuntimeError, match="is at version 3; expected version 2"):
            second.sum().backward()


def scaled(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = (x @ w.t()).sum(1, keepdim=True)
    return y, (y.expand(3, 4) * 2).sin()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_write_to_what_eager_does_not_keep_changes_nothing(backend: str) -> None:
    found = []
    for function in (scaled, compiled(scaled, backend)):
        x, w = leaves()
        y, z = function(x, w)
        y.detach().zero_()
        z.sum().backward()
        found.append((x.grad, w.grad))
    torch.testing.assert_close(found[1], found[0])


def through_casts(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    return (x.double().sin() * w.exp().clamp(max=3) + x.relu()).float(), x.bfloat16() * w


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_write_to_an_input_of_which_eager_keeps_something_else_changes_nothing(backend: str) -> None:
    found = []
    for function in (through_casts, compiled(through_casts, backend)):
        x, w = leaves()
        y, _ = function(x, w)
        with torch.no_grad():
            x.zero_()
            w.zero_()
        y.sum().backward()
        found.append((x.grad, w.grad))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hook_is_called_where_there_is_a_gradient(backend: str) -> None:
    found = []
    for function in (apart, compiled(apart, backend)):
        x, w = leaves()
        first, second = function(x, w)
        log: list[Any] = []
        handle = first.register_hook(lambda gradient, log=log: log.append(gradient.sum().item()))
        first.register_hook(lambda gradient: gradient * 2)
        second.sum().backward(retain_graph=True)
        (first * 3).sum().backward(retain_graph=True)
        handle.remove()
        first.sum().backward()
        found.append((log, x.grad, w.grad))
    assert found[0][0] == found[1][0] == [36.0]
    torch.testing.assert_close(found[1], found[0])


def sharing(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = x.exp()
    return y * 2, y + w.sin()


def saving_nothing(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return x + 1, w.sum()


def writing_to_a_view(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = x + 1
    y[0] = w[1]
    return y.sum(), w.sum()


def viewing_what_is_written(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = x * w
    z = y.view(3, 4)
    y.relu_()
    return z.mean(1), w.sum()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program", [apart, sharing, saving_nothing, writing_to_a_view, viewing_what_is_written, chain, product]
)
def test_passes_one_after_the_other(program: Callable[..., Any], backend: str) -> None:
    """What a pass frees is missed by those that look at it, and by no others."""
    for order in ([0, 1, 1], [1, 0, 0], [-1, 0, 1], [0, 0]):
        found = []
        for function in (program, compiled(program, backend)):
            x, w = leaves()
            results = flat(function(x, w))
            log: list[Any] = []
            for number in order:
                try:
                    results[number % len(results)].sum().backward()
                except RuntimeError as error:
                    log.append(str(error))
                    break  # what eager has accumulated by then depends on the order of its nodes
                log.append([None if t.grad is None else t.grad.clone() for t in (x, w)])
            found.append(log)
        torch.testing.assert_close(*[[part for part in log if not isinstance(part, str)] for log in found[::-1]])
        assert [part for part in found[1] if isinstance(part, str)] == [p for p in found[0] if isinstance(p, str)]


def from_two(x: Tensor, y: Tensor, w: nn.Parameter) -> tuple[Tensor, Tensor]:
    return (x * w).exp().sum(), (y * w).sin().sum()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_pass_goes_on_behind_inputs_that_it_has_gradients_for(backend: str) -> None:
    found = []
    for function in (from_two, compiled(from_two, backend)):
        x, y = leaves()
        w = nn.Parameter(torch.ones(3, 4))
        log: list[Any] = []
        middle = y.exp()
        middle.register_hook(log.append)
        first, second = function(x.exp(), middle, w)
        first.backward()
        assert not log
        second.backward()
        found.append([*log, x.grad, y.grad, w.grad])
    torch.testing.assert_close(found[1], found[0])


# ---- how gradients lie in memory -------------------------------------------------------------------------------------


def spread(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    """Gradients that repeat one number, rows, or are pieces of others."""
    return x.sum() + w.mean(0).sum(), torch.cat([x, w]).sin(), x.t() @ w, x.sum(0).exp() + w.sum(0)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_lie_as_eagers(backend: str, dynamic: bool) -> None:
    step = onegraph.compile(spread, backend=backend, fullgraph=True, dynamic=dynamic, options=OPTIONS)
    found = []
    with Watch() as watch:
        for function in (spread, step):
            x, w = leaves()
            results = function(x, w)
            starts = [torch.linspace(0, 1, r.numel()).view(r.shape) for r in results]
            found.append(torch.autograd.grad(results, (x, w), starts, retain_graph=True))
            found[-1] += torch.autograd.grad(results[0], (x, w))
    assert watch.pairs
    torch.testing.assert_close(found[1], found[0])
    assert [g.stride() for g in found[1]] == [g.stride() for g in found[0]]


def passed_on(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    return x.t().contiguous().t(), w.clone()


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_passes_a_gradient_on_passes_on_its_layout(backend: str) -> None:
    for function in (passed_on, compiled(passed_on, backend)):
        x, w = leaves()
        starts = [torch.randn(3, 4), torch.ones(()).expand(3, 4)]
        found = torch.autograd.grad(function(x, w), (x, w), starts)
        assert [g.stride() for g in found] == [(4, 1), (0, 0)]
        assert all(torch.equal(g, start) for g, start in zip(found, starts, strict=True))


# ---- the state around a pass -----------------------------------------------------------------------------------------


def undefined(x: Tensor, w: Tensor) -> Tensor:
    return (x * w - x * w).sqrt() * 0


@pytest.mark.parametrize("where", ["around both passes", "around the backward pass"])
def test_anomaly_mode_names_the_operator(where: str) -> None:
    errors = []
    for function in (undefined, compiled(undefined, "native")):
        with torch.autograd.set_detect_anomaly(where == "around both passes"):
            result = function(*leaves())
        with (
            torch.autograd.set_detect_anomaly(True),
            pytest.warns(UserWarning, match="Error detected in"),
            pytest.raises(RuntimeError) as raised,
        ):
            result.sum().backward()
        errors.append(str(raised.value))
    assert errors[0] == errors[1]
    assert "'SqrtBackward0' returned nan" in errors[0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_gets_no_gradient_is_no_part_of_a_backward_pass(backend: str) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        return x.cumsum(1) + (y * 2).detach()

    given = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    passed = []
    for function in (f, compiled(f, backend)):
        x, y = given[0], given[1].exp()  # what made `y` keeps something, which a backward pass frees
        y.register_hook(passed.append)
        result = function(x, y)
        for _ in range(2):
            result.backward(torch.ones(3, 4))
        y.sum().backward()
    assert len(passed) == 2
    torch.testing.assert_close(given[0].grad, 2 * 2 * torch.tensor([4.0, 3, 2, 1]).expand(3, 4))
