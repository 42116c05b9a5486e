"""A second process finds what the first has captured, and does what eager does."""

from __future__ import annotations

import functools
import logging
import math
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from capture.kept.children import in_child, listening
from torch import nn

import onegraph
from onegraph.capture.kept import store

SCALE = 2.0
Program = Callable[[Callable[..., Any]], Any]


def broken(x: torch.Tensor) -> Any:
    total = x
    for k in range(4):
        total = total * 1.5 + k
        os.getpid()
        total = total.sin()
    return total


def handling(x: torch.Tensor) -> Any:
    y = x + 1
    try:
        os.getpid()
        raise KeyError("missing")
    except KeyError as error:
        os.getpid()
        y = y * len(error.args)
    with torch.no_grad():
        os.getpid()
        z = y * 3
    return y + z


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)
        self.calls = 0
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> Any:
        self.calls += 1
        self.seen.append(x.shape[0])
        hidden = self.inner(self.first(x))
        return {"out": self.second(hidden) * scale * SCALE, "hidden": hidden}

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


def stepping(x: torch.Tensor) -> Any:
    def numbers() -> Any:
        for k in range(3):
            yield x * k

    total = x
    for value in numbers():
        total = total + value
    return total, OrderedDict(a=total.sum()), [x, total]


def sizes(run: Callable[..., Any]) -> Any:
    function = run(lambda x: (x * x.shape[0]).softmax(-1))
    return [function(torch.linspace(0, 1, n).reshape(1, n)) for n in (3, 5, 7, 9)]


def training(run: Callable[..., Any]) -> Any:
    """Only one of two outputs has a gradient."""
    torch.manual_seed(0)
    model = Counting()
    called = run(model)
    found = []
    for n in (3, 3):
        result = called(torch.ones(n, 4), scale=0.5)
        result["out"].square().mean().backward()
        found += [result["out"].detach(), *[parameter.grad.clone() for parameter in model.parameters()]]
        model.zero_grad()
    return found, model.calls, model.seen


def inference(run: Callable[..., Any]) -> Any:
    torch.manual_seed(0)
    model = Counting().eval()
    called = run(model)
    with torch.inference_mode():
        first = called(torch.ones(3, 4))
    with torch.no_grad():
        return first, called(torch.ones(3, 4)), model.calls


class Deciding(nn.Module):
    """Breaks its graph in a function that is called, at a branch on data."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.layer(x)
        if x.sum() > 1e9:
            return x
        return x * 2


def of_module(make: Callable[[], nn.Module], shape: tuple[int, ...], trained: bool = False) -> Program:
    """Calls of a module with batches that change, with gradients or without."""

    def program(run: Callable[..., Any]) -> Any:
        torch.manual_seed(0)
        model = make().train(trained)
        called, found = run(model), []
        for rows in (2, 2, 3):
            x = torch.linspace(-1, 1, rows * torch.Size(shape).numel()).reshape(rows, *shape)
            with torch.set_grad_enabled(trained):
                y = called(x)
                found.append((y[0] if isinstance(y, tuple) else y).detach())
            if trained:
                y.square().mean().backward()
                found += [parameter.grad for parameter in model.parameters()]
                model.zero_grad()
        return found, [*model.buffers()]

    return program


def optimized(make: Callable[..., torch.optim.Optimizer]) -> Program:
    def program(run: Callable[..., Any]) -> Any:
        torch.manual_seed(0)
        model = nn.Linear(6, 3)
        optimizer = make(model.parameters(), lr=0.1)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        compiled = run(step)
        return [compiled(torch.linspace(-1, 1, 12).reshape(2, 6)) for _ in range(4)], model.weight.detach()

    return program


def noted(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args) + 1

    return wrapper


@noted
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


class Two(NamedTuple):
    first: torch.Tensor
    scale: float


def nested(run: Callable[..., Any]) -> Any:
    inner = run(lambda x: x.sin())
    return run(lambda x: inner(x) + 1)(torch.ones(3))


def hooked(run: Callable[..., Any]) -> Any:
    """A hook of all modules is not called for a graph that runs operator by operator."""
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    for parameter in model.parameters():
        nn.init.ones_(parameter)
    handle = nn.modules.module.register_module_forward_hook(lambda module, inputs, output: output * 2)
    try:
        return run(model)(torch.ones(2)).detach()
    finally:
        handle.remove()


def cached(run: Callable[..., Any]) -> Any:
    """A function with a cache that hides what it is around."""
    asked = functools.lru_cache(lambda number: number + 1)
    del asked.__wrapped__
    asked(2)
    return run(lambda x: x * asked(2))(torch.ones(2))


def rooted(run: Callable[..., Any]) -> Any:
    """Sizes that Python computes."""
    function = run(lambda x: x.reshape(int(x.numel() ** 0.5), -1) * math.sqrt(x.shape[0]))
    return [function(torch.ones(n)) for n in (16, 25, 36)]


MESSAGES = logging.getLogger("of a test of captures")


@functools.cache
def warned_once(logger: logging.Logger, text: str) -> None:
    logger.warning(text)


def advising(x: torch.Tensor) -> torch.Tensor:
    warned_once(MESSAGES, "this is slow")
    return x * 2


def advised(run: Callable[..., Any]) -> Any:
    """The message was given before."""
    warned_once(MESSAGES, "this is slow")
    return run(advising)(torch.ones(3))


def plainly(function: Callable[..., Any]) -> Program:
    return lambda run: run(function)(torch.linspace(-1, 1, 6))


PROGRAMS: dict[str, Program] = {
    "graph breaks in a loop": plainly(broken),
    "graph breaks among handlers": plainly(handling),
    "a generator, containers": plainly(stepping),
    "sizes that change": sizes,
    "training": training,
    "inference": inference,
    "a break in a function that is called": of_module(Deciding, (6,), trained=True),
    "an LSTM": of_module(lambda: nn.LSTM(4, 5, batch_first=True), (7, 4)),
    "norms of batches": of_module(lambda: nn.BatchNorm1d(4), (4,), trained=True),
    "an encoder": of_module(lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (5, 8)),
    "an encoder that is trained": of_module(
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (5, 8), trained=True
    ),
    "SGD": optimized(torch.optim.SGD),
    "AdamW": optimized(torch.optim.AdamW),
    "a decorator": plainly(lambda x: decorated(x) * 2),
    "a tuple with names": lambda run: run(lambda two: two.first * two.scale)(Two(torch.ones(3), 2.0)),
    "vmap": lambda run: run(torch.func.vmap(lambda x: x.sin().sum()))(torch.ones(2, 3)),
    "grad": plainly(lambda x: torch.func.grad(lambda y: (y**3).sum())(x)),
    "NumPy": plainly(lambda x: torch.from_numpy(numpy.sin(x.numpy())) + 1),
    "one compiled function in another": nested,
    "sizes that Python computes": rooted,
    "a message that was given": advised,
}


def plain(target: Any) -> Any:
    return target


def outcome(program: Program, folder: Path) -> tuple[bool, list[str]]:
    torch.set_num_threads(1)
    said = listening()
    options = {"verify": False, "cache_dir": folder, "smallest_recorded_graph": 0}
    got = program(lambda target: onegraph.compile(target, options=options))
    torch.testing.assert_close(got, program(plain))
    return True, said


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_second_process_captures_nothing(name: str, tmp_path: Path) -> None:
    right, said = in_child(outcome, PROGRAMS[name], tmp_path)
    assert right is True and "CaptureKept" in said, (right, said)
    for _ in range(2):
        right, said = in_child(outcome, PROGRAMS[name], tmp_path)
        assert right is True and "CaptureLoaded" in said and "CaptureKept" not in said, (right, said)


def messages(given_before: bool, folder: Path) -> list[str]:
    given: list[str] = []
    MESSAGES.addFilter(lambda record: given.append(record.getMessage()) or True)  # type: ignore[func-returns-value]
    outcome(advised if given_before else plainly(advising), folder)
    return given


def test_a_message_is_given_once_in_each_process(tmp_path: Path) -> None:
    for given_before in (True, False, False, True):
        assert in_child(messages, given_before, tmp_path) == ["this is slow"]


def counted(program: Program, folder: Path) -> dict[str, dict[str, int]]:
    outcome(program, folder)
    return {group: dict(onegraph.counters[group]) for group in ("stats", "graph_break", "recompiles")}


@pytest.mark.parametrize("name", ["graph breaks among handlers", "sizes that change", "inference"])
def test_graphs_and_breaks_are_counted_as_if_they_were_captured(name: str, tmp_path: Path) -> None:
    first = in_child(counted, PROGRAMS[name], tmp_path)
    assert first["stats"]["unique_graphs"] and in_child(counted, PROGRAMS[name], tmp_path) == first


@pytest.mark.parametrize("name", ["training", "graph breaks among handlers"])
def test_a_damaged_capture_is_made_anew(name: str, tmp_path: Path) -> None:
    in_child(outcome, PROGRAMS[name], tmp_path)
    entries = sorted((tmp_path / "captures").iterdir())
    entries = [entry for entry in entries if not entry.name.startswith(".")]
    for number, entry in enumerate(entries):
        content = entry.read_bytes()
        entry.write_bytes((content[:-7], content + b"x", content[:40] + b"?" + content[41:], b"")[number % 4])
    right, said = in_child(outcome, PROGRAMS[name], tmp_path)
    assert right is True and "CaptureKept" in said
    assert in_child(outcome, PROGRAMS[name], tmp_path)[0] is True


def addressed(x: torch.Tensor) -> Any:
    return x + 1 if id(x) else x


@onegraph.allow_in_graph
def allowed(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@onegraph.nonstrict_trace
def traced(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@onegraph.assume_constant_result
def constant() -> float:
    return SCALE


@torch.library.custom_op("onegraph_kept::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


doubled.register_fake(torch.empty_like)


class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 5

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * 7


def elsewhere(number: float) -> Callable[[torch.Tensor], Any]:
    """A function with globals that are no module's, which hold the number."""
    names: dict[str, Any] = {}
    exec(f"NUMBER = {number}\ndef other(x):\n    return x * NUMBER", names)
    other = names["other"]
    return lambda x: other(x) + 1


def test_hooks_of_all_modules(tmp_path: Path) -> None:
    def both() -> None:
        for backend in ("eager", "native"):
            settings = {"backend": backend, "options": {"verify": False, "cache_dir": tmp_path}}
            torch.testing.assert_close(hooked(onegraph.compile(**settings)), hooked(plain))

    for _ in range(2):
        in_child(both)


@pytest.mark.parametrize("raising", [False, True])
def test_a_defect_in_reading_is_raised_where_that_is_asked_for(raising: bool, tmp_path: Path) -> None:
    options = {"verify": False, "cache_dir": tmp_path, "raise_compiler_errors": raising}

    def fail(*args: Any) -> Any:
        raise NotImplementedError("a defect")

    def run(capture_of: Any) -> list[str]:
        said, store.capture_of = listening(), capture_of
        onegraph.compile(stepping, options=options)(torch.ones(2))
        return said

    assert in_child(run, store.capture_of) == ["CaptureKept"]
    if raising:
        with pytest.raises(AssertionError, match="NotImplementedError: a defect"):
            in_child(run, fail)
    else:
        assert in_child(run, fail) == ["CaptureMissed", "CaptureKept"]


def test_what_has_no_text_costs_the_entry(tmp_path: Path) -> None:
    for _ in range(2):
        assert in_child(outcome, cached, tmp_path) == (True, ["CaptureUnkept"])


def looking_up(which: int, listed: int) -> Program:
    """Tensors are known by their identity, as a key and among others."""

    def program(run: Callable[..., Any]) -> Any:
        tensors = [torch.full((3,), float(number)) for number in range(2)]
        scales = {tensors[0]: 2.0, tensors[1]: 3.0}
        some = tensors[:listed]

        def scaled(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            if any(y is each for each in some):
                x = x + 100
            return x * scales[y] + scales[z] + (5 if y is tensors[0] else 6)

        return run(scaled)(torch.ones(3), tensors[which], tensors[which - listed % 2])

    return program


def test_tensors_that_are_keys_are_told_apart(tmp_path: Path) -> None:
    for which, listed in ((0, 1), (1, 1), (0, 2), (1, 2), (0, 0), (1, 0), (0, 1)):
        right, said = in_child(outcome, looking_up(which, listed), tmp_path)
        assert right is True, (which, listed)
    assert "CaptureLoaded" in said


def test_globals_of_no_module_are_looked_at(tmp_path: Path) -> None:
    for number in (2.0, 2.0, 3.0):
        assert in_child(outcome, lambda run, n=number: run(elsewhere(n))(torch.ones(3)), tmp_path)[0] is True


#: What code does that was not followed may be another in the next process.
UNSEEN: dict[str, Callable[[torch.Tensor], Any]] = {
    "an address": addressed,
    "allow_in_graph": lambda x: allowed(x) + 1,
    "nonstrict_trace": lambda x: traced(x) + 1,
    "assume_constant_result": lambda x: x * constant(),
    "an operator of the program": lambda x: doubled(x) + 1,
    "comptime": lambda x: onegraph.comptime(lambda ctx: None) or x + 1,
    "a custom function": lambda x: Custom.apply(x.detach().requires_grad_()),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_is_not_followed_is_captured_by_each_process(name: str, tmp_path: Path) -> None:
    for _ in range(2):
        right, said = in_child(outcome, lambda run: run(UNSEEN[name])(torch.ones(3)).detach(), tmp_path)
        assert right is True and said == ["CaptureUnkept"], (right, said)


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    options = {"verify": False, "cache_dir": tmp_path, "cache_captures": False}
    assert onegraph.compile(lambda x: x + 1, options=options)(torch.zeros(2)).tolist() == [1, 1]
    assert not (tmp_path / "captures").exists()
