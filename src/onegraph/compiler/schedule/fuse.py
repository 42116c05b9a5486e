"""Kernels that share outer axes become one, so that what they exchange stays in registers or in the nearest cache.

    kernel k_m(i0: 64):                            kernel k_y(i0: 64):
      for r0: 128:                                   for r0: 128:
        t0: f32 = load x[i0, r0]                       t0: f32 = load x[i0, r0]
        t1: f32 = max over t0                          t1: f32 = max over t0
      store m[i0] = t1                               for r0: 128:
    kernel k_y(i0: 64, i1: 128):                       t2: f32 = load x[i0, r0]
      t0: f32 = load x[i0, i1]                         t3: f32 = sub(t2, t1)
      t1: f32 = load m[i0]                             store y[i0, r0] = t3
      t2: f32 = sub(t0, t1)
      store y[i0, i1] = t2

Greedy: the pair of groups that saves most bytes of memory traffic is merged first, until none saves any.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from heapq import heappop, heappush

from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.compiler.kernels import size_symbols
from onegraph.compiler.schedule.assemble import assemble
from onegraph.compiler.schedule.group import Group, group_of, makes_part, merged
from onegraph.compiler.schedule.inline import rewritten
from onegraph.compiler.schedule.tile_products import rows_of_product
from onegraph.compiler.target import Machine
from onegraph.ir.index import ONE, Index, Symbol, product
from onegraph.ir.loop import EXPECTED, Buffer, Extern, Kernel, Program, Step, View, reads, symbols_in, writes

MAX_STATEMENTS = 300  # of a fused kernel
NEIGHBOURS = 8  # of all kernels that read one buffer, how many before and after are tried together with one
UNKNOWN_SIZE = 4096  # what a size that is known at the call only counts as
MUCH_WORK = 1 << 16  # kernels with this many elements are better off without a reduction that runs on few threads
CROWD = 8  # how many times what two reductions share each must read to be better off alone

# (minus the bytes saved, the two groups, how many steps each had)
Candidate = tuple[int, int, int, tuple[int, int]]


def fuse(program: Program, cx: Context, machine: Machine) -> Program:
    """Merge kernels into groups, and each group into one kernel."""
    return Fuser(program, machine).run()


class Fuser:
    """Groups by number (that of their first step); a step that cannot be in a group is one by itself."""

    def __init__(self, program: Program, machine: Machine) -> None:
        self.machine = machine
        self.program = program
        self.table = program.table()
        self.groups: dict[int, Group] = {}
        self.home: dict[int, int] = {}  # the group of each step
        self.producer: dict[str, int] = {}
        self.readers: dict[str, list[int]] = {}
        self.bytes = {name: value_of(product(b.type.shape)) * b.type.dtype.size for name, b in self.table.items()}
        self.products: set[int] = set()  # the steps that are to run in tiles
        self.versions: dict[int, int] = {}  # how many steps each group has
        self.before: dict[int, set[int]] = {}  # the steps that must come before each group
        self.last = list(range(len(program.steps)))  # the last step of each group
        self.joined = list(range(len(program.steps)))  # an earlier step that each is linked with, see `reach`
        self.several = rewritten(program)
        writers: dict[str, list[int]] = {}
        in_order: set[int] = set()  # the last of the calls that stay in their order
        sized = sizes_of_steps(program)
        sizing: dict[str, set[int]] = {}  # the steps that give each size, or check it
        for number, step in enumerate(program.steps):
            self.home[number] = number
            group = group_of(step, number) if isinstance(step, Kernel) and self.may_join(step) else None
            if group is not None:
                self.groups[number] = group
                self.versions[number] = 1
                if isinstance(step, Kernel) and rows_of_product(step, self.table):
                    self.products.add(number)
            before = self.before[number] = {n for name in reads(step) for n in writers.get(name, ())}
            for name in reads(step):
                self.readers.setdefault(name, []).append(number)
            for name in writes(step):
                self.producer.setdefault(name, number)
                before.update(writers.get(name, ()), self.readers.get(name, ()))
                writers.setdefault(name, []).append(number)
            if isinstance(step, Extern) and step.ordered:
                before |= in_order
                in_order = {number}
            before.update(*(sizing.get(name, ()) for name in sized[number].needed))
            for name in sized[number].given:
                sizing.setdefault(name, set()).add(number)
            before.discard(number)

    def may_join(self, kernel: Kernel) -> bool:
        """Whether it makes all of its result; or a part without looking at it, as those do that put it together."""
        again = self.several & {*writes(kernel)}
        return not again or (makes_part(kernel) and again.isdisjoint(reads(kernel)))

    def run(self) -> Program:
        queue: list[Candidate] = []
        for home in self.groups:
            self.propose(home, queue)
        while queue:
            _, first, second, version = heappop(queue)
            if version != (self.versions.get(first), self.versions.get(second)):
                continue  # one of them has been merged with another since
            group = self.try_merge(first, second)
            if group is not None:
                self.adopt(group, first, second)
                self.propose(group.steps[0], queue)
        return self.rebuilt()

    # ---- choice ------------------------------------------------------------------------------------------------------

    def propose(self, home: int, queue: list[Candidate]) -> None:
        """Queue the group with each other that it shares buffers with, by the bytes that merging them saves."""
        group = self.groups[home]
        saved: dict[int, int] = {}
        for buffer in {*(m.output for m in group.members), *(name for m in group.members for name in m.reads)}:
            origin = self.producer.get(buffer)
            produced_at = self.home[origin] if origin is not None else None
            sharing = sorted({self.home[n] for n in self.readers.get(buffer, ())} & self.groups.keys())
            if produced_at != home and produced_at in self.groups:
                saved[produced_at] = saved.get(produced_at, 0) + 2 * self.bytes[buffer]
            at = bisect_left(sharing, home)
            for other in sharing if produced_at == home else sharing[max(at - NEIGHBOURS, 0) : at + NEIGHBOURS]:
                if other not in (home, produced_at):
                    saved[other] = saved.get(other, 0) + self.bytes[buffer] * (2 if produced_at == home else 1)
        for other, gain in saved.items():
            first, second = min(home, other), max(home, other)
            heappush(queue, (-gain, first, second, (self.versions[first], self.versions[second])))

    def try_merge(self, first: int, second: int) -> Group | None:
        """The merged group, if axes, dependences and size allow it."""
        a, b = self.groups[first], self.groups[second]
        if a.statements() + b.statements() > MAX_STATEMENTS or self.starves(a, b) or self.crowds(a, b):
            return None
        if self.tears(a, b) or self.tears(b, a) or self.meet(a, b) or self.meet(b, a):
            return None
        if self.reaches_around(first, second) or self.reaches_around(second, first):
            return None
        return merged(a, b)

    def starves(self, a: Group, b: Group) -> bool:
        """Whether work that could run on many threads would join a reduction that cannot."""
        if a.has_reduction == b.has_reduction:
            return False
        reducing, other = (a, b) if a.has_reduction else (b, a)
        rows = value_of(product([axis.extent or ONE for axis in reducing.outer]))
        work = value_of(product([axis.extent or ONE for axis in other.outer]))
        return rows < self.machine.threads and work >= MUCH_WORK

    def crowds(self, a: Group, b: Group) -> bool:
        """Whether two reductions of much memory each share little of it: together they only need more registers."""
        if not (a.has_reduction and b.has_reduction):
            return False
        reads = [{name for member in group.members for name in member.reads} for group in (a, b)]
        made = [{member.output for member in group.members} for group in (a, b)]
        if made[0] & reads[1] or made[1] & reads[0]:
            return False
        shared = sum(self.bytes[name] for name in reads[0] & reads[1])
        return all(sum(self.bytes[name] for name in read) > max(CROWD * shared, MUCH_WORK) for read in reads)

    def tears(self, a: Group, b: Group) -> bool:
        """Whether `a` has a product, which would no longer run in tiles: only what is done to its elements joins it."""
        return not self.products.isdisjoint(a.steps) and (b.has_reduction or len(a.outer) != len(b.outer))

    def meet(self, a: Group, b: Group) -> bool:
        """Whether `a` makes a part of a buffer of which `b` makes another, or reads: not in the same order of axes."""
        parts = self.several & {member.output for member in a.members}
        return any(not parts.isdisjoint((member.output, *member.reads)) for member in b.members)

    def reaches_around(self, start: int, end: int) -> bool:
        """Whether a path leads from `start` to `end` through another step: then they cannot run together."""
        homes, before, last = self.home, self.before, self.last
        seen = {homes[number] for number in before[end]} - {start, end}
        todo = list(seen)
        lowest = self.reach(start)
        while todo:
            at = todo.pop()
            if last[at] < lowest:
                continue
            for number in before[at]:
                home = homes[number]
                if home == start:
                    return True
                if home not in seen:
                    seen.add(home)
                    todo.append(home)
        return False

    def reach(self, number: int) -> int:
        """The earliest step from which a path back can lead to this one.

        Paths lead from a step to earlier ones, but within a group also to a later one. So what a group spans is linked,
        and groups whose spans overlap are (a disjoint-set forest, the root being the earliest).
        """
        joined = self.joined
        while joined[number] != number:
            joined[number] = joined[joined[number]]
            number = joined[number]
        return number

    def adopt(self, group: Group, first: int, second: int) -> None:
        for home in (first, second):
            del self.groups[home], self.versions[home]
        self.before[first] = (self.before[first] | self.before[second]).difference(group.steps)
        self.last[first] = group.steps[-1]
        self.groups[group.steps[0]] = group
        self.versions[group.steps[0]] = len(group.steps)
        for number in group.steps:
            self.home[number] = group.steps[0]
        root = self.reach(group.steps[-1])
        while root > group.steps[0]:
            self.joined[root] = self.reach(root - 1)
            root = self.reach(root)

    # ---- the result --------------------------------------------------------------------------------------------------

    def rebuilt(self) -> Program:
        """The program with one kernel per group, in an order that keeps the dependences."""
        needed = {name for name in self.program.outputs if isinstance(name, str)}
        for buffer, numbers in self.readers.items():
            origin = self.producer.get(buffer)
            if origin is not None and any(self.home[n] != self.home[origin] for n in numbers):
                needed.add(buffer)
        steps: list[Step] = []
        gone: set[str] = set()
        for home in self.ordered():
            group = self.groups.get(home)
            if group is None:
                steps.append(self.program.steps[home])
            elif len(group.members) == 1:
                steps.append(group.members[0].kernel)
            else:
                gone |= {member.output for member in group.members if member.output not in needed}
                steps.append(assemble(group, needed, self.table, self.machine))
        gone.difference_update(*map(writes, steps))  # nobody reads it, but a part of it has been left to itself
        buffers = tuple(buffer for buffer in self.program.buffers if buffer.name not in gone)
        return replace(self.program, steps=tuple(steps), buffers=buffers)

    def ordered(self) -> list[int]:
        """Groups after all that they depend on, otherwise as early as their first step."""
        done: list[int] = []
        state: dict[int, bool] = {}
        for start in sorted(set(self.home.values())):
            stack = [start]
            while stack:
                home = stack[-1]
                if home not in state:
                    state[home] = False
                    before = {self.home[n] for n in self.before[home]} - {home}
                    stack += sorted((b for b in before if b not in state), reverse=True)
                else:
                    stack.pop()
                    if not state[home]:
                        state[home] = True
                        done.append(home)
        return done


@dataclass(frozen=True, slots=True)
class Sized:
    """The sizes that a step needs, and those that there are only behind it: it gives them, or checks them."""

    needed: frozenset[str]
    given: frozenset[str]


def sizes_of_steps(program: Program) -> list[Sized]:
    """For each step, as far as sizes are not those of inputs."""
    inputs = {item for item in program.inputs if isinstance(item, str)}
    made: dict[str, set[str]] = {}
    for size in program.sizes:
        if size.buffer not in inputs:
            made.setdefault(size.buffer, set()).add(size.name)
    numbers = any(isinstance(o, Symbol) for step in program.steps if isinstance(step, Extern) for o in step.outputs)
    if not made and not numbers:
        return [Sized(frozenset(), frozenset())] * len(program.steps)
    table = program.table()
    found = []
    for step in program.steps:
        given = set().union(*(made.get(name, set()) for name in writes(step)))
        needed = {s for name in (*reads(step), *writes(step)) for n in shape_of(table[name]) for s in n.symbols}
        match step:
            case Kernel():
                needed.update(size_symbols(step))
            case View():
                needed.update(step.offset.symbols)
            case Extern():
                given |= {output.name for output in step.outputs if isinstance(output, Symbol)}
                needed.update(symbols_in((step.args, tuple(value for _, value in step.kwargs))))
        names = {symbol.name for symbol in needed} - given
        if isinstance(step, Extern) and step.operator == EXPECTED:
            given |= names
        found.append(Sized(frozenset(names), frozenset(given)))
    return found


def shape_of(buffer: Buffer) -> tuple[Index, ...]:
    return (*buffer.type.shape, *buffer.type.strides)


def value_of(index: Index) -> int:
    """A size as a number; sizes that are known at the call only count as `UNKNOWN_SIZE`."""
    if index.constant is not None:
        return index.constant
    try:
        value = index.evaluate({symbol.name: UNKNOWN_SIZE for symbol in index.symbols})
    except ZeroDivisionError:  # sizes are not all the same
        return UNKNOWN_SIZE
    assert isinstance(value, int)
    return max(value, 0)
