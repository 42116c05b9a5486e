"""`onegraph simulate`: what a step of data-parallel training computes and what it waits for, on many ranks."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from onegraph.base.errors import InvalidArgument
from onegraph.base.text import columns, plural
from onegraph.tools.simulation.local import Measured, measure_ranks
from onegraph.tools.simulation.measuring import EAGER, NO_OVERLAP, OURS, buckets_for, measure, training_of
from onegraph.tools.simulation.model import ALONE, MESSAGES, Link, Step, Timeline, simulate
from onegraph.tools.simulation.picture import picture
from onegraph.tools.target import load
from onegraph.torchlib.data_parallel import MEBIBYTE

MOST_LOCAL = 16  # ranks of one machine


def add_simulate_command(commands: Any) -> argparse.ArgumentParser:
    """Add `simulate` to the commands of onegraph, whose target is the caller's to add."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "simulate", help="a step of data-parallel training on many ranks: what it computes, and what it waits for"
    )
    parser.add_argument(
        "--ranks", type=_counts, default=(8, 64, 512, 1024), metavar="N,N,...", help="default: 8,64,512,1024"
    )
    parser.add_argument(
        "--bandwidth", type=_positive, default=12.5, metavar="GB/S", help="of each rank's link (default: 12.5)"
    )
    parser.add_argument(
        "--latency", type=_not_negative, default=10.0, metavar="US", help="of a message (default: 10 microseconds)"
    )
    parser.add_argument("--algorithm", choices=MESSAGES, default="ring", help="of the all-reduce (default: ring)")
    parser.add_argument("--bucket-cap-mb", type=_positive, metavar="MIB", help="as of DistributedDataParallel")
    parser.add_argument(
        "--jitter",
        type=_not_negative,
        metavar="PART",
        help="by how much ranks differ in what they compute: the standard deviation, 0.05 for 5%% (default: 0, with "
        "--measure that of the runs)",
    )
    parser.add_argument("--rounds", type=_count, default=10, metavar="N", help="runs that are measured (default: 10)")
    parser.add_argument(
        "--measure",
        action="store_true",
        help="of ranks of this machine: bandwidth and latency are measured, with gloo, and computation while all work",
    )
    parser.add_argument("-o", "--output", metavar="FILE.svg", help="where a picture is drawn")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> str:
    """Measure a step, and forecast it for all numbers of ranks."""
    output = None if args.output is None else _picture_file(args.output)
    if args.measure and max(args.ranks) > MOST_LOCAL:
        raise InvalidArgument(f"--measure starts a process for each rank, at most {MOST_LOCAL}: give --ranks 2,4")
    limits = None if args.bucket_cap_mb is None else (int(args.bucket_cap_mb * MEBIBYTE),)
    measured = _measured_locally(args, limits) if args.measure else _measured_once(args, limits)
    timelines = [
        {name: _simulated(args, step, ranks, found) for name, step in found.steps.items()}
        for ranks, found in measured.items()
    ]
    filename, _, function = args.target.partition("::")
    network = _network(args, measured)
    told = [f"{function}: {computed(measured)}", network, table(timelines)]
    if output is not None:
        title = f"{function} of {Path(filename).name}, data-parallel"
        about = f"{network}; behind each step: its time, and its efficiency beside one rank alone"
        output.write_text(picture(title, about, timelines), encoding="utf-8")
        told.append(f"drawn in {output}")
    return "\n\n".join(told)


def _simulated(args: argparse.Namespace, step: Step, ranks: int, found: Measured) -> Timeline:
    jitter = (step.spread if args.measure else 0.0) if args.jitter is None else args.jitter
    return simulate(step, found.link, ranks, found.speeds, jitter)


def _measured_once(args: argparse.Namespace, limits: tuple[int, ...] | None) -> dict[int, Measured]:
    training = training_of(load(args.target, args.inputs))
    steps = measure(training, buckets_for(training, limits), args.rounds)
    link = Link(args.bandwidth * 1e9, args.latency / 1e6, args.algorithm)
    return dict.fromkeys(args.ranks, Measured(steps, link, ALONE))


def _measured_locally(args: argparse.Namespace, limits: tuple[int, ...] | None) -> dict[int, Measured]:
    if args.algorithm != "ring":
        raise InvalidArgument("--measure fits the ring, which is gloo's algorithm: leave --algorithm out")
    return {ranks: measure_ranks(args.target, args.inputs, ranks, limits, args.rounds) for ranks in args.ranks}


# ---- what is told ----------------------------------------------------------------------------------------------------


def computed(measured: Mapping[int, Measured]) -> str:
    """What one rank computes."""
    rows: list[tuple[str, ...]] = [("", "forward", "backward", "update", "all", "buckets")]
    several = len({id(found) for found in measured.values()}) > 1
    for ranks, found in measured.items():
        for name, step in found.steps.items():
            backward = sum(bucket.seconds for bucket in step.buckets)
            times = (step.forward, backward, step.update, step.seconds)
            rows.append((f"{name}, {plural(ranks, 'rank')}" if several else name, *map(shown, times), _buckets(step)))
        if not several:
            break
    size = next(iter(next(iter(measured.values())).steps.values())).size
    return f"{size / 1e6:.4g} MB of gradients; what a rank computes, without communication:\n" + columns(rows)


def _buckets(step: Step) -> str:
    return (
        f"{len(step.buckets)}: "
        + ", ".join(f"{bucket.size / 1e6:.3g}" for bucket in step.buckets[:6])
        + (" ... MB" if len(step.buckets) > 6 else " MB")
    )


def table(timelines: list[dict[str, Timeline]]) -> str:
    """A row for each number of ranks: how long a step takes."""
    rows: list[tuple[str, ...]] = [
        ("ranks", "all-reduce", NO_OVERLAP, EAGER, OURS, "hidden", "efficiency", "against no overlap", "eager DDP")
    ]
    for ways in timelines:
        ours = ways[OURS]
        against = [f"x{ways[name].seconds / ours.seconds:.2f}" for name in (NO_OVERLAP, EAGER)]
        steps = [shown(ways[name].seconds) for name in (NO_OVERLAP, EAGER, OURS)]
        parts = f"{ours.hidden:.0%}", f"{ours.efficiency:.0%}"
        rows.append((f"{ours.ranks}", shown(ours.communication), *steps, *parts, *against))
    return columns(rows)


def shown(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds >= 1 else f"{seconds * 1e3:.4g} ms"


def _network(args: argparse.Namespace, measured: Mapping[int, Measured]) -> str:
    if not args.measure:
        told = f"{args.algorithm} all-reduce, {args.bandwidth:g} GB/s, {args.latency:g} us"
    else:
        told = "gloo on this machine: " + "; ".join(
            f"{plural(ranks, 'rank')} {found.link.bandwidth / 1e9:.3g} GB/s, {found.link.latency * 1e6:.3g} us"
            for ranks, found in measured.items()
            if ranks > 1
        )
    return f"{told}, jitter {args.jitter:g}" if args.jitter else told


# ---- arguments -------------------------------------------------------------------------------------------------------


def _picture_file(name: str) -> Path:
    path = Path(name)
    if path.suffix != ".svg" or not path.parent.is_dir() or path.is_dir():
        raise InvalidArgument(f"--output takes a file that ends in .svg, in a folder that exists, got {name!r}")
    return path


def _number(accepts: Callable[[float], bool], expected: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or not accepts(value):
            raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
        return value

    return read


_positive = _number(lambda value: value > 0, "a number above 0")
_not_negative = _number(lambda value: value >= 0, "0 or a number above it")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return int(text)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(_count(part.strip()) for part in text.split(",")))
