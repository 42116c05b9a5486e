"""Which of several ways to do the same is the fastest: a short timing, kept on disk."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import cycle, islice
from time import perf_counter, thread_time
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from onegraph.base.config import Config
from onegraph.base.constants import inf
from onegraph.base.disk_cache import cache_of, key_of
from onegraph.base.late import late_module
from onegraph.torchlib.state import untraced

if TYPE_CHECKING:
    from onegraph.compiler.codegen.native import description
else:  # what was chosen is not measured
    description = late_module("onegraph.compiler.codegen.native").description

ROUNDS = 2
MORE_ROUNDS = 2  # where rounds disagree about the winner
ENOUGH = 0.05  # seconds of one candidate, from which on it is not run again
FAR = 1.5  # how many times the best time is hopeless: it is not run again either
SHORT = 0.0002  # seconds that one sample takes at least
SPENT = 0.008  # seconds of samples of all candidates, below which rounds go on: short samples are disturbed more
MANY = 12  # rounds at most
LOOKS = 3  # at a candidate before it is left out, if it is short
CLEARLY = 0.95  # how much less than the first candidate's another one's time must be: what is near is left alone

FEW = 8  # rows, up to which a product takes as long as reading its weight
STREAMED = 2 * FEW  # rows, up to which reading it is a large part
COLD = 48 << 20  # bytes of the weights that such products go through: more than the caches of the machine
COPIES = 48  # of one weight at most

IN_FLOAT32 = ("aten", "wide")  #: ways to do what may be faster in float32

Run = Callable[[], object]
Runs = Sequence[Run]  # the same on equal data, to be taken in turn

_KNOWN: dict[str, Mapping[str, float]] = {}


def times(
    what: str, ways: Sequence[str], candidates: Callable[[], Mapping[str, Runs]], config: Config
) -> Mapping[str, float]:
    """Seconds of each way to do it, measured once for each machine, number of threads and version of torch.

    Times of which the repeats disagree serve this process alone: the next one measures again.

    Args:
        what: says all that the times depend on besides those.
        ways: their names, in the order of `candidates`.
        candidates: makes them with arguments to run on; called only if they must be measured.
    """
    key = key_of("times", what, *description(), str(torch.get_num_threads()), torch.__version__)
    if key not in _KNOWN:
        disk = cache_of(config, "times")
        with nullcontext() if disk is None else disk.find_or_make(key) as data:
            found = None if data is None else _read(data)
            if found is None or [*found] != [*ways]:
                with untraced(), torch.no_grad(), torch.autocast("cpu", enabled=False):
                    found, settled = _measured(candidates())
                if disk is not None and settled:
                    disk.store(key, json.dumps(found).encode())
            _KNOWN[key] = found
    return _KNOWN[key]


def _read(data: bytes) -> Mapping[str, float] | None:
    try:
        return times_of(data)
    except ValueError:
        return None


def times_of(data: bytes) -> Mapping[str, float]:
    """The seconds of each way, as an entry on disk holds them.

    Raises:
        ValueError: where it holds none.
    """
    try:
        found = json.loads(data)
    except RecursionError:
        found = None
    if not isinstance(found, dict) or not all(type(time) is float and time >= 0 for time in found.values()):
        raise ValueError("these are no times")
    return found


def copies(weight: Tensor, rows: int) -> list[Tensor]:
    """So many weights that using one after the other finds none in a cache: in a model it is the same.

    For more rows reading the weight is a small part of the work, and two do. No two are equal: what is made
    of equal ones is shared.
    """
    count = min(COLD // max(weight.numel() * weight.element_size(), 1), COPIES) if rows <= STREAMED else 2
    return [weight, *(weight + number / COPIES for number in range(1, count))]


def fastest(found: Mapping[str, float]) -> str:
    """The name of the fastest, or of the first one unless another one is clearly faster."""
    first = next(iter(found))
    best = min(found, key=lambda name: found[name])
    return best if found[best] < CLEARLY * found[first] else first


def _measured(candidates: Mapping[str, Runs]) -> tuple[dict[str, float], bool]:
    """The least of a few samples of each, taken in turn: what else the machine does makes samples longer only.

    One that cannot do it takes forever. Also whether the last rounds agree on the winner; more are made if not, and
    where samples are short.
    """
    clock = thread_time if torch.get_num_threads() == 1 else perf_counter

    def seconds(turn: Iterator[Run], count: int) -> float:
        start = clock()
        for run in islice(turn, count):
            run()
        return (clock() - start) / count

    best = dict.fromkeys(candidates, inf)
    repeats: dict[str, int] = {}
    turns: dict[str, Iterator[Run]] = {}
    for name, runs in candidates.items():
        try:
            runs[0]()  # what is kept is made now
            best[name] = seconds(iter(runs), 1)
            for run in runs[1:]:
                run()
        except RuntimeError:  # a library need not know every shape
            best[name] = inf
            continue
        turns[name] = cycle(runs)
    for name, turn in turns.items():
        looks = LOOKS if best[name] < SPENT / LOOKS else 1
        while looks and best[name] > FAR * min(best.values()):  # or interrupted: it is not left out at once
            best[name] = min(best[name], seconds(turn, 1))
            looks -= 1
        repeats[name] = max(int(1 + SHORT / max(best[name], 1e-7)), math.ceil(len(candidates[name]) / ROUNDS))
    sampled: dict[str, float] = {}  # until here weights were near: that only tells what is far behind
    winners: list[str] = []
    spent = 0.0
    while len(winners) < (ROUNDS + MORE_ROUNDS if spent >= SPENT else MANY) and not (
        spent >= SPENT and _agree(winners)
    ):
        found = dict(best)
        worst = min(ENOUGH, FAR * min(best.values()))
        for name, count in repeats.items():
            if best[name] > worst:
                continue
            found[name] = seconds(turns[name], count)
            spent += found[name] * count
            sampled[name] = min(sampled.get(name, inf), found[name])
        best |= sampled
        winners.append(fastest(found))
    return best, _agree(winners)


def _agree(winners: Sequence[str]) -> bool:
    return len(winners) >= ROUNDS and len(set(winners[-ROUNDS:])) == 1
