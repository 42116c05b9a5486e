"""The kernel that computes a group.

Reductions come in waves: those of a wave need the totals of earlier waves only. Each wave is one loop over the inner
axes, which computes its reductions, and stores every result that is known by then. What a loop needs of other members
is computed in it again (common subexpressions are found); where that is expensive and a loop before has had it too, it
is kept in memory of the iteration instead.

    softmax:  for r0: m = max over x          wave 0
              for r0: e = exp(x - m)          wave 1
                      keep[r0] = e
                      s = sum over e
              for r0: y = keep[r0] / s        wave 2: no reduction, but a result
"""

from __future__ import annotations

from collections.abc import Mapping

from onegraph.compiler.body import Body
from onegraph.compiler.schedule.cost import block_cost
from onegraph.compiler.schedule.group import Group, Member
from onegraph.compiler.schedule.splice import Splicer
from onegraph.compiler.target import Machine
from onegraph.ir.index import ZERO, Index, Symbol, product
from onegraph.ir.loop import Buffer, Coordinates, Kernel, Local, Operand
from onegraph.ir.types import DType

KEEP_COST = 8.0  # what is more expensive than this to compute is kept for the next loop
REREAD_COST = 2.0  # what is more expensive than this, and stored anyway, is read back


def assemble(group: Group, needed: set[str], table: Mapping[str, Buffer], machine: Machine) -> Kernel:
    """One kernel for the group; of its results, those in `needed` are stored."""
    return _Assembler(group, needed, table, machine.near).kernel()


class _Assembler:
    def __init__(self, group: Group, needed: set[str], table: Mapping[str, Buffer], near: int) -> None:
        self.near = near  # bytes per iteration that should stay in a near cache
        self.group = group
        self.table = table
        self.needed = needed
        self.results = group.outputs()
        names = {axis: Symbol(f"i{k}", axis.extent) for k, axis in enumerate(group.outer)}
        names |= {axis: Symbol(f"r{k}", axis.extent) for k, axis in enumerate(group.inner)}
        self.outer = tuple(names[axis] for axis in group.outer)
        self.inner = tuple(names[axis] for axis in group.inner)
        self.members = [member.moved(names) for member in group.members]
        self.results = {member.output: member for member in self.members}
        self.wave = self._waves()
        self.locals: dict[str, Local] = {}
        self.kept = self._kept()
        stored = {m.output for m in self.members if m.output in needed}
        self.body = Body(self.outer, volatile=(*stored, *(local.name for local in self.locals.values())))
        self.totals: dict[str, Operand] = {}  # of reductions, and what was computed outside of loops
        self.in_memory: dict[str, str] = {}  # results that can be read back: the buffer or local that has them
        #: What the loop that is written has computed, by buffer, coordinates and condition. Without it a result that is
        #: used twice would be computed twice, what that uses four times, and so on.
        self.known: dict[tuple[str, tuple[Index, ...], Operand | None], Operand] = {}

    # ---- structure ---------------------------------------------------------------------------------------------------

    def is_inner(self, member: Member) -> bool:
        """Whether its result has an element for every position of the inner axes."""
        return member.reduction is None and any(axis in self.inner for axis in member.axes.values())

    def _waves(self) -> dict[str, int]:
        """The wave after which each result is known; a reduction is computed in the wave before."""
        wave: dict[str, int] = {}
        for member in self.members:
            needs = max((wave[buffer] for buffer, _ in member.accesses if buffer in wave), default=0)
            wave[member.output] = needs + 1 if member.reduction is not None else needs
        return wave

    def _needs(self, member: Member, found: set[str]) -> None:
        """The inner results that computing this member takes, at the position where it is computed."""
        seen: set[str] = set()
        readers = [member]
        while readers:
            for buffer, indices in readers.pop().accesses:
                other = self.results.get(buffer)
                if other is not None and self.is_inner(other):
                    if indices == other.written:
                        found.add(buffer)
                    if buffer not in seen:
                        seen.add(buffer)
                        readers.append(other)

    def _kept(self) -> set[str]:
        """The inner results that several loops need and that are too expensive to compute again."""
        loops: dict[str, set[int]] = {}
        for member in self.members:
            found: set[str] = set()
            self._needs(member, found)
            if member.reduction is not None:
                at = self.wave[member.output] - 1
            elif self.is_inner(member) and member.output in self.needed:
                at = self.wave[member.output]
                found.add(member.output)
            else:
                continue
            for name in found:
                loops.setdefault(name, set()).add(at)
        extent = product([axis.extent for axis in self.inner if axis.extent is not None]).constant
        kept = set()
        for name, waves in loops.items():
            cost = self._cost(name) if len(waves) > 1 else 0.0
            if name in self.needed and min(waves) == self.wave[name]:
                if cost > REREAD_COST:
                    kept.add(name)
            elif cost > KEEP_COST:
                if extent is not None and extent * self.table[name].type.dtype.size <= self.near:
                    self.locals[name] = Local(f"keep_{name}", self.table[name].type.dtype, extent)
                    kept.add(name)
        return kept

    def _cost(self, name: str) -> float:
        """Of computing one element, with what it takes of other members."""
        found = {name}
        self._needs(self.results[name], found)
        return sum(block_cost(self.results[other].kernel.body) for other in found)

    # ---- statements --------------------------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        if not self.group.has_reduction:
            for member in self.members:
                if member.output in self.needed:
                    self.store(member)
        else:
            for wave in range(max(self.wave.values()) + 1):
                self.outer_results(wave)
                self.loop(wave)
        name = self.members[-1].kernel.name
        return Kernel(name, self.outer, self.body.block(), None, tuple(self.locals.values()))

    def outer_results(self, wave: int) -> None:
        """Store what is known before this wave and has no inner axes."""
        for member in self.members:
            if self.wave[member.output] != wave or member.output not in self.needed or self.is_inner(member):
                continue
            if member.reduction is not None:
                value = self.totals[member.output]
                self.body.store(member.output, Coordinates(member.written), value)
            else:
                self.store(member)

    def loop(self, wave: int) -> None:
        """The loop of a wave: its reductions, the inner results known by now, and what later loops will read back."""
        reductions = [m for m in self.members if m.reduction is not None and self.wave[m.output] == wave + 1]
        inner = [m for m in self.members if self.is_inner(m) and m.output in self.needed]
        stores = [m for m in inner if self.wave[m.output] == wave]
        if not reductions and not stores:
            return
        self.body.enter(self.inner)
        self.known = {}
        wanted: set[str] = set()
        for member in (*reductions, *stores):
            self._needs(member, wanted)
        keep_now = [n for n in self.locals if n in wanted and n not in self.in_memory and self.wave[n] <= wave]
        copies = []
        for member in reductions:
            assert member.reduction is not None
            copy = self.splicer(member)
            at = member.kernel.body.index(member.reduction)
            copy.block(member.kernel.body[:at])
            copy.block(member.reduction.body)
            copies.append((copy, member.kernel.body[at + 1 :]))
        for member in stores:
            self.store(member)
        for name in keep_now:
            value = self.element(self.results[name])
            self.body.store(self.locals[name].name, Coordinates((self.position(),)), value)
        self.body.leave()
        self.known = {}
        for name in keep_now:
            self.in_memory[name] = self.locals[name].name
        for member in stores:
            if member.output in self.kept and member.output not in self.in_memory:
                self.in_memory[member.output] = member.output
        for member, (copy, rest) in zip(reductions, copies, strict=True):
            copy.block(rest)
            self.totals[member.output] = copy.stored[member.output]

    def position(self) -> Index:
        """The number of the inner iteration."""
        number = ZERO
        for axis in self.inner:
            assert axis.extent is not None
            number = number * axis.extent + Index.of(axis)
        return number

    def store(self, member: Member) -> None:
        self.body.store(member.output, Coordinates(member.written), self.element(member))

    def element(self, member: Member) -> Operand:
        """The member's result at the current position."""
        return self.load(self.table[member.output].type.dtype, member.output, member.written, None)

    def splicer(self, member: Member, condition: Operand | None = None) -> Splicer:
        axes = {own: Index.of(axis) for own, axis in member.axes.items()}
        return Splicer(self.body, self.load, axes, condition)

    def load(self, dtype: DType, buffer: str, indices: tuple[Index, ...], condition: Operand | None) -> Operand:
        """An element of any buffer: of a member it is computed, or read back where it was kept."""
        member = self.results.get(buffer)
        if member is None:
            return self.body.load(dtype, buffer, Coordinates(indices), condition)
        if buffer in self.totals:
            return self.totals[buffer]
        if buffer in self.in_memory and indices == member.written:
            place = indices if buffer not in self.locals else (self.position(),)
            return self.body.load(dtype, self.in_memory[buffer], Coordinates(place), None)
        key = (buffer, indices, condition)
        if key not in self.known:
            if indices == member.written:  # which may be a part of a buffer
                copy = self.splicer(member, condition)
            else:
                copy = Splicer(self.body, self.load, member.definition.bindings(indices), condition)
            copy.block(member.kernel.body)
            self.known[key] = copy.stored[buffer]
        return self.known[key]
