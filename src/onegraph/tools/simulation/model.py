"""The timeline of a step of data-parallel training for any number of ranks: times that were measured, and a model of
what connects the ranks.

    compute        forward ── bucket 0 ── bucket 1 ── bucket 2 ┄┄┄┄┄┄┄┄┄┄┄┄ update
    communication                      └─ bucket 0 ─── bucket 1 ─── bucket 2 ─┘

All ranks do the same, so one timeline is that of each. The gradients of a bucket are summed over the ranks as soon as
the last of them is computed, one bucket after another, as DistributedDataParallel does it; the update waits for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import NormalDist

from onegraph.base.dataclass import dataclass

COMPUTE, COMMUNICATION = "compute", "communication"
#: How many messages an all-reduce sends one after another, by algorithm.
MESSAGES: dict[str, Callable[[int], int]] = {
    "ring": lambda ranks: 2 * (ranks - 1),
    "tree": lambda ranks: 2 * math.ceil(math.log2(ranks)),
}


@dataclass(frozen=True, slots=True)
class Link:
    """What connects a rank to the others.

    Fields:
        bandwidth: bytes in a second, in each direction.
        latency: seconds that each message takes beside its bytes.
        algorithm: of the all-reduce; a key of `MESSAGES`.
    """

    bandwidth: float
    latency: float
    algorithm: str = "ring"

    def all_reduce(self, size: int, ranks: int) -> float:
        """Seconds until all ranks have the sum of `size` bytes.

        Each rank must send 2 (p - 1) / p of the bytes, whatever the algorithm. "ring" does so in 2 (p - 1) messages
        (Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009), "tree" by
        halving and doubling in 2 log p (Rabenseifner's, in Thakur, Rabenseifner and Gropp, "Optimization of collective
        communication operations in MPICH", 2005), here counted for the next power of two.
        """
        return MESSAGES[self.algorithm](ranks) * self.latency + sent(ranks) * size / self.bandwidth


def sent(ranks: int) -> float:
    """The part of its bytes that a rank sends in an all-reduce."""
    return 2 * (ranks - 1) / ranks


@dataclass(frozen=True, slots=True)
class Bucket:
    """Gradients that travel together: their bytes, and the seconds of computation from those of the bucket before it
    until the last of these is there."""

    size: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Step:
    """What one rank computes: seconds of the forward pass, of the backward pass by bucket, and of what follows; and by
    how much runs of it differ, as the standard deviation in parts of a run."""

    forward: float
    buckets: tuple[Bucket, ...]
    update: float = 0.0
    spread: float = 0.0

    @property
    def seconds(self) -> float:
        return self.forward + sum(bucket.seconds for bucket in self.buckets) + self.update

    @property
    def size(self) -> int:
        return sum(bucket.size for bucket in self.buckets)

    def slower(self, factor: float) -> Step:
        buckets = tuple(replace(bucket, seconds=bucket.seconds * factor) for bucket in self.buckets)
        return Step(self.forward * factor, buckets, self.update * factor, self.spread)


@dataclass(frozen=True, slots=True)
class Speeds:
    """How fast computation and communication are while both are under way, as parts of how fast each is alone."""

    compute: float = 1.0
    communication: float = 1.0


ALONE = Speeds()


def speeds_of_shared_cores(cores: float, threads: float, load: float) -> Speeds:
    """The speeds where communication takes time of the processor, too.

    Args:
        cores: the cores that each rank has for all that it does.
        threads: the threads that compute.
        load: the cores that its communication keeps busy when it is alone.
    """
    part = min(1.0, cores / (threads + load))  # that each of all threads gets
    return Speeds(part * threads / min(threads, cores), part)


def slowest(ranks: int) -> float:
    """By how many standard deviations the slowest of so many ranks is expected to be slower than their mean.

    The largest of independent normal values, by Blom's approximation ("Statistical Estimates and Transformed
    Beta-Variables", 1958).
    """
    return NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))


@dataclass(frozen=True, slots=True)
class Span:
    """What a rank does from `start` to `end`, in seconds from the start of the step."""

    row: str
    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """A step of the slowest of so many ranks.

    Fields:
        spans: what it does; the last one is the update.
        alone: seconds that the step takes one rank alone.
        computing: seconds that this one computes, if nothing slows it down.
        communication: seconds of the all-reduces where nothing else is done.
    """

    ranks: int
    spans: tuple[Span, ...]
    alone: float
    computing: float
    communication: float

    @property
    def seconds(self) -> float:
        return self.spans[-1].end

    @property
    def waiting(self) -> float:
        """Seconds by which communication makes the step longer."""
        return self.seconds - self.computing

    @property
    def hidden(self) -> float:
        """The part of communication behind which something is computed."""
        return max(0.0, 1 - self.waiting / self.communication) if self.communication else 1.0

    @property
    def efficiency(self) -> float:
        """The time of one rank alone, as a part of this."""
        return self.alone / self.seconds


def simulate(step: Step, link: Link, ranks: int, speeds: Speeds = ALONE, jitter: float = 0.0) -> Timeline:
    """The timeline of a step of so many ranks.

    Args:
        step: what each of them computes.
        link: what connects them.
        ranks: how many they are.
        speeds: of computation and communication beside each other.
        jitter: the standard deviation of a rank's computation, as a part of it. All wait for the slowest, whose
            timeline it is.
    """
    late = step.slower(1 + jitter * slowest(ranks))
    spans = tuple(passing(late, link, ranks, speeds))
    update = Span(COMPUTE, "update", spans[-1].end, spans[-1].end + late.update)
    communication = sum(link.all_reduce(bucket.size, ranks) for bucket in step.buckets)
    return Timeline(ranks, (*spans, update), step.seconds, late.seconds, communication)


def passing(step: Step, link: Link, ranks: int, speeds: Speeds) -> Iterator[Span]:
    """What is done until all sums are there, in the order in which it ends."""
    computed = [("forward", step.forward), *((f"bucket {n}", each.seconds) for n, each in enumerate(step.buckets))]
    travels = [(f"bucket {n}", link.all_reduce(each.size, ranks)) for n, each in enumerate(step.buckets)]
    queues: dict[str, list[tuple[str, float]]] = {COMPUTE: computed, COMMUNICATION: []}
    begun: dict[str, float] = {}
    now = 0.0
    while any(queues.values()):
        both = all(queues.values())
        speed = {COMPUTE: speeds.compute, COMMUNICATION: speeds.communication} if both else dict.fromkeys(queues, 1.0)
        left = {row: queue[0][1] / speed[row] for row, queue in queues.items() if queue}
        for row in left:
            begun.setdefault(row, now)
        ends = min(left, key=left.__getitem__)
        now += left[ends]
        for row in left.keys() - {ends}:
            name, seconds = queues[row][0]
            queues[row][0] = name, max(0.0, seconds - left[ends] * speed[row])
        name, _ = queues[ends].pop(0)
        yield Span(ends, name, begun.pop(ends), now)
        if ends == COMPUTE and name != "forward":
            queues[COMMUNICATION].append(travels.pop(0))
