"""`onegraph simulate`: the model against values by hand, what is measured, and the command from end to end."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import onegraph
from onegraph.base.errors import InvalidArgument
from onegraph.tools.cli import main
from onegraph.tools.simulation.command import table
from onegraph.tools.simulation.local import fitted
from onegraph.tools.simulation.measuring import (
    EAGER,
    NO_OVERLAP,
    OURS,
    Pass,
    buckets_for,
    measure,
    step_of,
    training_of,
)
from onegraph.tools.simulation.model import (
    COMMUNICATION,
    COMPUTE,
    Bucket,
    Link,
    Span,
    Speeds,
    Step,
    simulate,
    slowest,
    speeds_of_shared_cores,
)
from onegraph.tools.simulation.picture import picture
from onegraph.tools.target import Target
from onegraph.torchlib.data_parallel import Buckets

LINK = Link(bandwidth=100.0, latency=0.01)
STEP = Step(1.0, (Bucket(100, 1.0), Bucket(300, 1.0), Bucket(200, 1.0)), 0.5)
#: The same work, whose gradients are there at the end of the backward pass.
WHOLE = Step(1.0, (Bucket(100, 3.0), Bucket(300, 0.0), Bucket(200, 0.0)), 0.5)
RANKS = (1, 2, 3, 8, 64, 1024)


# ---- the model -------------------------------------------------------------------------------------------------------


def test_an_all_reduce_takes_its_messages_and_its_bytes() -> None:
    assert LINK.all_reduce(400, 4) == pytest.approx(6 * 0.01 + 1.5 * 4)
    assert replace(LINK, algorithm="tree").all_reduce(400, 4) == pytest.approx(4 * 0.01 + 1.5 * 4)
    assert replace(LINK, algorithm="tree").all_reduce(0, 1000) == pytest.approx(20 * 0.01)
    assert LINK.all_reduce(400, 1) == replace(LINK, algorithm="tree").all_reduce(400, 1) == 0


def test_a_bucket_travels_while_the_next_is_computed() -> None:
    timeline = simulate(STEP, LINK, 2)
    wanted = [
        Span(COMPUTE, "forward", 0.0, 1.0),
        Span(COMPUTE, "bucket 0", 1.0, 2.0),
        Span(COMPUTE, "bucket 1", 2.0, 3.0),
        Span(COMMUNICATION, "bucket 0", 2.0, 3.02),
        Span(COMPUTE, "bucket 2", 3.0, 4.0),
        Span(COMMUNICATION, "bucket 1", 3.02, 6.04),  # it is ready before the link is free
        Span(COMMUNICATION, "bucket 2", 6.04, 8.06),
        Span(COMPUTE, "update", 8.06, 8.56),
    ]
    for span, other in zip(timeline.spans, wanted, strict=True):
        assert (span.row, span.name) == (other.row, other.name)
        assert (span.start, span.end) == pytest.approx((other.start, other.end))
    assert timeline.communication == pytest.approx(6.06)
    assert timeline.waiting == pytest.approx(8.56 - 4.5)
    assert timeline.hidden == pytest.approx(2 / 6.06)
    assert timeline.efficiency == pytest.approx(4.5 / 8.56)


def test_without_overlap_communication_is_added() -> None:
    timeline = simulate(WHOLE, LINK, 2)
    assert timeline.seconds == pytest.approx(4.5 + 6.06)
    assert timeline.hidden == pytest.approx(0)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_overlap_is_never_slower(ranks: int, algorithm: str) -> None:
    link = replace(LINK, algorithm=algorithm)
    assert simulate(STEP, link, ranks).seconds <= simulate(WHOLE, link, ranks).seconds
    assert simulate(STEP, link, ranks).seconds >= STEP.seconds


def test_one_rank_waits_for_nobody() -> None:
    for step in (STEP, WHOLE):
        timeline = simulate(step, LINK, 1, Speeds(0.5, 0.5), jitter=0.3)
        assert timeline.seconds == pytest.approx(step.seconds)
        assert (timeline.hidden, timeline.efficiency) == pytest.approx((1, 1))


def test_steps_are_shorter_with_bandwidth_and_longer_with_latency_ranks_and_jitter() -> None:
    def seconds(bandwidth: float = 100.0, latency: float = 0.01, ranks: int = 8, jitter: float = 0.0) -> float:
        return simulate(STEP, Link(bandwidth, latency), ranks, jitter=jitter).seconds

    assert all(a > b for a, b in pairwise(seconds(bandwidth=value) for value in (50, 100, 200, 400)))
    assert all(a < b for a, b in pairwise(seconds(latency=value) for value in (0, 0.01, 0.1, 1)))
    assert all(a < b for a, b in pairwise(seconds(ranks=value) for value in RANKS))
    assert all(a < b for a, b in pairwise(seconds(jitter=value) for value in (0, 0.05, 0.1)))


def test_what_is_done_at_the_same_time_shares_the_processor() -> None:
    """Two cores for two ranks, whose communication keeps 0.8 of a core busy: 1.8 for one."""
    speeds = speeds_of_shared_cores(cores=1, threads=1, load=0.8)
    assert (speeds.compute, speeds.communication) == pytest.approx((1 / 1.8, 1 / 1.8))
    step = Step(0.0, (Bucket(100, 1.0), Bucket(0, 1.0)))
    timeline = simulate(step, Link(100.0, 0.0), 2, speeds)  # an all-reduce of a second, beside a second of computation
    assert timeline.seconds == pytest.approx(1 + 1.8)
    assert speeds_of_shared_cores(cores=2, threads=1, load=0.8) == Speeds(1.0, 1.0)
    four = speeds_of_shared_cores(cores=0.5, threads=1, load=0.4)  # computation alone has half a core already
    assert (four.compute, four.communication) == pytest.approx((1 / 1.4, 0.5 / 1.4))


def test_the_slowest_of_many_is_slower() -> None:
    assert slowest(1) == pytest.approx(0)
    assert slowest(2) == pytest.approx(0.564, abs=0.03)  # the expectation of the larger of two normal values
    assert slowest(1000) == pytest.approx(3.241, abs=0.03)
    timeline = simulate(STEP, LINK, 8, jitter=0.1)
    assert timeline.seconds - timeline.waiting == pytest.approx(4.5 * (1 + 0.1 * slowest(8)))


def test_a_line_is_fitted_to_times() -> None:
    link, sizes = Link(2e9, 3e-5), [1 << power for power in (12, 16, 20, 24)]
    found = fitted(sizes, [link.all_reduce(size, 4) for size in sizes], 4)
    assert (found.bandwidth, found.latency) == pytest.approx((2e9, 3e-5))
    assert fitted(sizes, [1e-9 * size for size in sizes], 4).latency == pytest.approx(0, abs=1e-9)


# ---- what is shown ---------------------------------------------------------------------------------------------------

WAYS = {NO_OVERLAP: WHOLE, EAGER: STEP.slower(1.5), OURS: STEP}


def test_the_table(golden) -> None:
    timelines = [{name: simulate(step, Link(300.0, 0.001), n) for name, step in WAYS.items()} for n in (1, 8, 1024)]
    golden(Path(__file__).with_name("simulated.txt"), table(timelines) + "\n")


def test_the_picture_has_what_is_computed_and_what_travels() -> None:
    timelines = [{name: simulate(step, LINK, ranks) for name, step in WAYS.items()} for ranks in (8, 1024)]
    drawn = ElementTree.fromstring(picture("steps of <f>", "a & b", timelines))
    shapes = [element.get("class") for element in drawn.iter("{http://www.w3.org/2000/svg}rect")]
    assert {kind: shapes.count(kind) for kind in ("forward", "backward", "update", "all-reduce")} == {
        "forward": 7,  # with one in the legend
        "backward": 19,
        "update": 7,
        "all-reduce": 19,
    }
    words = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"steps of <f>", "a & b", "8 ranks", "1,024 ranks", NO_OVERLAP, EAGER, OURS} <= set(words)


# ---- what is measured ------------------------------------------------------------------------------------------------


def test_gradients_are_in_buckets_as_they_come() -> None:
    passes = [Pass(1.0, (4.0, 2.0, 3.0), 5.0), Pass(1.0, (4.0, 2.5, 3.0), 5.0), Pass(3.0, (9.0, 8.0, 8.5), 9.5)]
    step = step_of(passes, sizes=[10, 20, 30], limits=(20, 40))
    assert step == Step(1.0, (Bucket(20, 1.5), Bucket(40, 1.5)), 1.0, pytest.approx(4.5**0.5 / 6.5, rel=1e-9))


def layers() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(*[part for _ in range(4) for part in (torch.nn.Linear(32, 32), torch.nn.Tanh())])


def measured(function: object, *args: torch.Tensor) -> dict[str, Step]:
    training = training_of(Target(function, args))
    return measure(training, Buckets((1,)), 2)


def test_the_backward_pass_really_runs_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    onegraph.reset()
    model, pieces = layers(), []
    advance = onegraph.autograd.pieces.Results.advance
    monkeypatch.setattr(
        onegraph.autograd.pieces.Results, "advance", lambda self: (pieces.append(self._done), advance(self))
    )
    steps = measured(model, torch.randn(4, 32))
    assert set(pieces) >= {0, 1, 2}
    assert set(steps) == {NO_OVERLAP, EAGER, OURS}
    for step in steps.values():
        assert step.size == sum(parameter.nbytes for parameter in model.parameters())
        assert len(step.buckets) == 8  # as each is full with one gradient
        assert step.forward > 0 and all(bucket.seconds >= 0 for bucket in step.buckets)
    assert not any(parameter._post_accumulate_grad_hooks for parameter in model.parameters())


@pytest.mark.parametrize("returns", ["nothing", "loss"])
def test_a_whole_step_trains_as_it_does_alone(returns: str) -> None:
    onegraph.reset()

    def built() -> tuple[torch.nn.Module, object]:
        model = layers()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step(x: torch.Tensor) -> torch.Tensor | None:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss if returns == "loss" else None

        return model, step

    x = torch.randn(4, 32)
    (model, step), (other, same) = built(), built()
    assert all(found.update > 0 for found in measured(step, x).values())
    for _ in range(1 + 3 * 3 + 3 * 2):  # the look at the step, and warm-up and rounds of each way
        same(x)
    for left, right in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x: x + 1, "this one computes no such gradients"),
        (lambda x: (x * 2).sum().backward(), "this one computes no such gradients"),
        (lambda x: [(MODEL(x)).sum().backward() for _ in range(2)] and None, "this one calls it 2 times"),
    ],
)
def test_what_is_no_step_of_training(function: object, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        training_of(Target(function, (torch.ones(2, 32, requires_grad=True),)))


MODEL = layers()


def test_buckets_are_torchs_unless_others_are_asked_for() -> None:
    training = training_of(Target(MODEL, (torch.ones(2, 32),)))
    assert buckets_for(training, None) == Buckets((1 << 20, 25 << 20))
    assert buckets_for(training, (7,)) == Buckets((7,))
    held = replace(training, buckets=Buckets((9,)))
    assert buckets_for(held, None) == Buckets((9,))
    with pytest.raises(InvalidArgument, match="its bucket_cap_mb says how large"):
        buckets_for(held, (7,))


# ---- the command -----------------------------------------------------------------------------------------------------

PROGRAM = """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(*[part for _ in range(3) for part in (torch.nn.Linear(64, 64), torch.nn.ReLU())])
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x = torch.randn(8, 64)


def step():
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


def nothing():
    return x + 1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_a_step_of_a_file_is_simulated(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onegraph.reset()
    drawn = tmp_path / "step.svg"
    options = ["--ranks", "1,8,1024", "--bandwidth", "1", "--latency", "5", "--bucket-cap-mb", "0.01", "--rounds", "2"]
    assert main(["simulate", f"{file}::step", *options, "-o", str(drawn)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("step: 0.04992 MB of gradients; what a rank computes, without communication:\n")
    assert re.findall(r"^(no overlap|eager DDP|onegraph) .* ms .* \d: 0.0.* MB$", printed, re.M) == [
        NO_OVERLAP,
        EAGER,
        OURS,
    ]
    assert "\nring all-reduce, 1 GB/s, 5 us\n" in printed
    rows = printed.partition("\nranks ")[2].splitlines()[1:4]
    assert [row.split()[0] for row in rows] == ["1", "8", "1024"]
    assert rows[0].split()[1:3] == ["0", "ms"] and "100%" in rows[0]
    assert drawn.read_text().startswith("<svg") and printed.endswith(f"drawn in {drawn}\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("step", "-o", "picture.png"), "--output takes a file that ends in .svg"),
        (("step", "-o", "nowhere/step.svg"), "in a folder that exists, got 'nowhere/step.svg'"),
        (("step", "--measure", "--ranks", "8,64"), "--measure starts a process for each rank, at most 16"),
        (("step", "--measure", "--ranks", "2", "--algorithm", "tree"), "--measure fits the ring"),
        (("nothing",), "this one computes no such gradients"),
        (("none",), "has no 'none'"),
    ],
)
def test_errors_are_one_line(
    file: Path, arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", f"{file}::{arguments[0]}", *arguments[1:]]) == 1
    said = capsys.readouterr().err
    assert told in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--ranks", "8,x"), "expected a whole number above 0, got 'x'"),
        (("--bandwidth", "0"), "expected a number above 0, got '0'"),
        (("--latency", "nan"), "expected 0 or a number above it, got 'nan'"),
        (("--jitter", "-1"), "expected 0 or a number above it"),
        (("--rounds", "0"), "expected a whole number above 0"),
    ],
)
def test_numbers_are_checked(option: tuple[str, str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", "program.py::step", *option])
    assert told in capsys.readouterr().err


@pytest.mark.slow
def test_ranks_of_this_machine_are_measured(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", f"{file}::step", "--measure", "--ranks", "2", "--rounds", "2"]) == 0
    printed = capsys.readouterr().out
    assert "gloo on this machine: 2 ranks " in printed and "\n2      " in printed
    assert main(["simulate", f"{file}::nothing", "--measure", "--ranks", "2"]) == 1
    assert "of this machine has failed: " in capsys.readouterr().err
