"""Collectives travel while kernels run: issued as early, and waited for as late, as their operands and uses allow.

    a = kernel                                  a = kernel
    b = kernel                                  y = issue all_reduce(a)
    y = issue all_reduce(a)                     b = kernel
    z = wait y                                  c = kernel of b
    c = kernel of b                             z = wait y
    d = kernel of z                             d = kernel of z

The order in which collectives are issued is that of the program, which is the same on all ranks; waiting concerns
nobody else. What travels holds its operands and its results: at one time that is not made more than a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.events import CommunicationScheduled, Transfer
from onegraph.compiler.memory.liveness import lifetimes
from onegraph.compiler.memory.reuse import size_of
from onegraph.compiler.schedule.fuse import sizes_of_steps
from onegraph.ir.loop import Extern, Kernel, Program, Step, View, reads, writes

COLLECTIVES = "_c10d_functional."
WAIT = f"{COLLECTIVES}wait_tensor.default"
#: Bytes of operands and results that travel at one time, if the program does not ask for more.
IN_FLIGHT = 1 << 28


def is_wait(step: Step) -> bool:
    return isinstance(step, Extern) and step.operator == WAIT


def is_issue(step: Step) -> bool:
    return isinstance(step, Extern) and step.operator.startswith(COLLECTIVES) and step.operator != WAIT


@dataclass(frozen=True, slots=True)
class Travel:
    """A collective: the steps that issue it and wait for it, and the bytes that it holds meanwhile."""

    issue: int
    waits: tuple[int, ...]
    size: int


def overlap(program: Program, cx: Context, bound: int = IN_FLIGHT) -> Program:
    """The program with its steps in such an order."""
    if not any(map(is_wait, program.steps)):
        return program
    order = Order(program, bound)
    for number, step in enumerate(program.steps):
        if is_wait(step):
            order.sink(number)
    for number, step in enumerate(program.steps):
        if is_issue(step):
            order.hoist(number)
    cx.emit(CommunicationScheduled(cx.frame, tuple(map(order.transfer, order.travels))))
    return Program(
        program.inputs,
        program.outputs,
        program.buffers,
        tuple(program.steps[number] for number in order.steps),
        program.sizes,
    )


class Order:
    """The steps, by their numbers in the program, in the order in which they will run."""

    def __init__(self, program: Program, bound: int) -> None:
        self.program = program
        self.bound = bound
        self.steps = list(range(len(program.steps)))
        self.place = list(range(len(program.steps)))  # where each step is among them
        self.before = dependences(program)
        self.behind: list[set[int]] = [set() for _ in program.steps]
        for number, before in enumerate(self.before):
            for other in before:
                self.behind[other].add(number)
        self.travels = travels(program)
        self.of: dict[int, Travel] = {t.issue: t for t in self.travels}
        self.of |= {wait: travel for travel in self.travels for wait in travel.waits}

    def sink(self, number: int) -> None:
        """Let a step run right before the first one that needs it. Views of its result go with it."""
        for other in sorted(self.behind[number], key=self.place.__getitem__, reverse=True):
            if isinstance(self.program.steps[other], View):
                self.sink(other)
        at = self.place[number]
        end = min((self.place[other] for other in self.behind[number]), default=len(self.steps)) - 1
        self._move(number, at, self._allowed(number, range(at + 1, end + 1)))

    def hoist(self, number: int) -> None:
        """Let a step run right behind the last one that it needs. Views of its operands go before it."""
        for other in sorted(self.before[number], key=self.place.__getitem__):
            if isinstance(self.program.steps[other], View):
                self.hoist(other)
        at = self.place[number]
        end = max((self.place[other] for other in self.before[number]), default=-1) + 1
        self._move(number, at, self._allowed(number, range(at - 1, end - 1, -1)))

    def _move(self, number: int, at: int, to: int | None) -> None:
        if to is not None:
            del self.steps[at]
            self.steps.insert(to, number)
            for place in range(min(at, to), max(at, to) + 1):
                self.place[self.steps[place]] = place

    def _allowed(self, number: int, places: Sequence[int]) -> int | None:
        """The last of the places up to which no more than the bound travels; None if there is none."""
        travel = self.of.get(number)
        if travel is None:
            return places[-1] if places else None
        held = self._held(travel)
        found = None
        for place in places:
            if held[place] + travel.size > self.bound:
                break
            found = place
        return found

    def _held(self, apart: Travel) -> list[int]:
        """The bytes that travel while each step runs, but for those of one collective."""
        changes = [0] * (len(self.steps) + 1)
        for travel in self.travels:
            if travel is not apart:
                changes[self.place[travel.issue]] += travel.size
                changes[max(self.place[wait] for wait in travel.waits)] -= travel.size
        held, total = [], 0
        for change in changes:
            total += change
            held.append(total)
        return held

    def transfer(self, travel: Travel) -> Transfer:
        """What runs while a collective travels."""
        begin, end = self.place[travel.issue], min(self.place[wait] for wait in travel.waits)
        steps = [self.program.steps[number] for number in self.steps[begin + 1 : end]]
        issue = self.program.steps[travel.issue]
        assert isinstance(issue, Extern)
        calls = [step for step in steps if isinstance(step, Extern) and not step.operator.startswith(COLLECTIVES)]
        kernels = [step.name for step in steps if isinstance(step, Kernel)]
        return Transfer(issue.operator, writes(issue), travel.size, tuple(kernels), tuple(c.operator for c in calls))


def travels(program: Program) -> list[Travel]:
    """The collectives that are waited for, in the order in which they are issued."""
    table, root = program.table(), lifetimes(program).root
    waits: dict[str, list[int]] = {}
    for number, step in enumerate(program.steps):
        for name in reads(step) if is_wait(step) else ():
            waits.setdefault(root[name], []).append(number)
    found = []
    for number, step in enumerate(program.steps):
        results = writes(step)
        waiting = [wait for name in results for wait in waits.get(name, ())]
        if is_issue(step) and waiting:
            held = {root[name] for name in (*reads(step), *results)}
            found.append(Travel(number, tuple(waiting), sum(max(size_of(table[name]), 0) for name in held)))
    return found


def dependences(program: Program) -> list[set[int]]:
    """For each step, those that it must run behind.

    What waits gives the memory that it is given, so it counts as what writes there. Calls that do more than give
    results keep their order.
    """
    root = dict(lifetimes(program).root)
    sized = sizes_of_steps(program)
    defined: dict[str, int] = {}
    writers: dict[str, set[int]] = {}
    readers: dict[str, set[int]] = {}
    sizing: dict[str, set[int]] = {}
    last: set[int] = set()
    found: list[set[int]] = []
    for number, step in enumerate(program.steps):
        if is_wait(step):
            root.update(dict.fromkeys(writes(step), root[reads(step)[0]]))
        taken = tuple(_resolved(root, reads(step)))
        given = taken if is_wait(step) else () if isinstance(step, View) else tuple(_resolved(root, writes(step)))
        before = {defined[name] for name in reads(step) if name in defined}
        for name in taken:
            before |= writers.get(name, set())
        for name in given:
            before |= writers.get(name, set()) | readers.get(name, set())
        for name in sized[number].needed:
            before |= sizing.get(name, set())
        if isinstance(step, Extern) and step.ordered and not is_wait(step):
            before |= last
            last = {number}
        for name in taken:
            readers.setdefault(name, set()).add(number)
        for name in given:
            writers.setdefault(name, set()).add(number)
        for name in writes(step):
            defined.setdefault(name, number)
        for name in sized[number].given:
            sizing.setdefault(name, set()).add(number)
        found.append(before - {number})
    return found


def _resolved(root: dict[str, str], names: Iterable[str]) -> Iterable[str]:
    """The memory of buffers, of which some are that of others by way of waiting."""
    for name in names:
        while root[name] != name:
            name = root[name]
        yield name
