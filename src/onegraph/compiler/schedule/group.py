"""Groups of kernels that are to become one, while `fuse` forms them.

All members of a group share its `outer` axes. A member is a kernel that works element by element, on the outer axes or
on the outer and `inner` axes together, or a reduction from these to the outer axes. A group without a reduction has no
inner axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from onegraph.base.dataclass import dataclass
from onegraph.compiler.kernels import place_indices
from onegraph.compiler.schedule.inline import Definition, definition_of
from onegraph.ir.index import Index, Symbol
from onegraph.ir.loop import Accumulate, Coordinates, Kernel, Let, Loop, Store, loads, reads, stores

Axes = tuple[Symbol, ...]
Mapping = dict[Symbol, Symbol]


@dataclass(frozen=True, slots=True)
class Member:
    """A kernel as part of a group; `axes` gives the group's axis for each of its own."""

    kernel: Kernel
    output: str
    place: tuple[Index, ...]
    reduction: Loop | None
    axes: Mapping
    reads: tuple[str, ...]
    written: tuple[Index, ...]  # the coordinates that it writes, in the group's axes
    accesses: tuple[tuple[str, tuple[Index, ...]], ...]  # the buffers and coordinates that it reads, likewise

    @property
    def definition(self) -> Definition:
        return Definition(self.kernel.axes, self.kernel.body, self.place)

    def moved(self, axes: Mapping) -> Member:
        """The same member in a group whose axes replace those of its own."""
        own = {own: axes.get(a, a) for own, a in self.axes.items()}
        values = as_indices(axes)
        accesses = tuple((buffer, substituted(indices, values)) for buffer, indices in self.accesses)
        return replace(self, axes=own, written=substituted(self.written, values), accesses=accesses)


@dataclass(frozen=True, slots=True)
class Group:
    """`steps` are the numbers of its members in the program."""

    members: tuple[Member, ...]
    steps: tuple[int, ...]
    outer: Axes
    inner: Axes

    @property
    def has_reduction(self) -> bool:
        return any(member.reduction is not None for member in self.members)

    def outputs(self) -> dict[str, Member]:
        return {member.output: member for member in self.members}

    def statements(self) -> int:
        return sum(len(m.kernel.body) + (len(m.reduction.body) if m.reduction else 0) for m in self.members)


def as_indices(axes: Mapping) -> dict[Symbol, Index]:
    return {own: Index.of(axis) for own, axis in axes.items()}


def substituted(indices: tuple[Index, ...], values: dict[Symbol, Index]) -> tuple[Index, ...]:
    return tuple([index.substitute(values) for index in indices])


def group_of(kernel: Kernel, number: int) -> Group | None:
    """A group of one kernel, if it is of a kind that can be in a group. Axes get names that no other group has."""
    loop = None
    if definition_of(kernel) is None and not makes_part(kernel):
        loop = _reduction(kernel)
        if loop is None:
            return None
    made = [statement for statement in kernel.body if isinstance(statement, Store)]
    place = made[0].place
    if len(made) != 1 or made[0].atomic or not isinstance(place, Coordinates):
        return None
    axes = {axis: Symbol(f"{axis.name}_{number}", axis.extent) for axis in kernel.axes}
    inner = {axis: Symbol(f"{axis.name}_{number}", axis.extent) for axis in (loop.axes if loop else ())}
    both = {**axes, **inner}
    values = as_indices(both)
    accesses = tuple(_accesses(kernel, values))
    written = substituted(place.indices, values)
    member = Member(kernel, made[0].buffer, place.indices, loop, both, reads(kernel), written, accesses)
    return Group((member,), (number,), tuple(axes.values()), tuple(inner.values()))


def makes_part(kernel: Kernel) -> bool:
    """Whether it works element by element, on a part of a buffer that lies elsewhere in it than at the beginning."""
    if kernel.locals or not all(isinstance(statement, Let | Store) for statement in kernel.body):
        return False
    used = {symbol for store in stores(kernel.body) for index in place_indices(store.place) for symbol in index.symbols}
    return used.issuperset(kernel.axes) and not any(symbol.signed for symbol in used) and definition_of(kernel) is None


def _accesses(kernel: Kernel, axes: dict[Symbol, Index]) -> Iterator[tuple[str, tuple[Index, ...]]]:
    for load in loads(kernel.body):
        assert isinstance(load.place, Coordinates)
        yield load.buffer, substituted(load.place.indices, axes)


def _reduction(kernel: Kernel) -> Loop | None:
    """The loop of a kernel that reduces and stores the totals at its axes."""
    loops = [statement for statement in kernel.body if isinstance(statement, Loop)]
    if len(loops) != 1 or kernel.locals:
        return None
    body = loops[0].body
    if not any(isinstance(s, Accumulate) for s in body) or any(isinstance(s, Loop | Store) for s in body):
        return None
    return loops[0]


# ---- merging ---------------------------------------------------------------------------------------------------------


def merged(a: Group, b: Group) -> Group | None:
    """One group of both, in the axes of `a` (or of the one that reduces); None if their axes do not fit together."""
    if b.has_reduction and not a.has_reduction:
        a, b = b, a
    axes = _correspondence(a, b)
    if axes is None:
        return None
    members = dict(zip(a.steps, a.members, strict=True))
    members |= {number: member.moved(axes) for number, member in zip(b.steps, b.members, strict=True)}
    steps = tuple(sorted(members))
    group = Group(tuple(members[number] for number in steps), steps, a.outer, a.inner)
    return group if _is_legal(group) else None


def _correspondence(a: Group, b: Group) -> Mapping | None:
    """For each axis of `b` the axis of `a` that it runs along with."""
    if b.has_reduction:
        outer = _match(b.outer, a.outer, _proposals(a, b))
        inner = _match(b.inner, a.inner, _proposals(a, b))
        return {**outer, **inner} if outer is not None and inner is not None else None
    if len(b.outer) == len(a.outer):
        found = _match(b.outer, a.outer, _proposals(a, b))
        if found is not None:
            return found
    if a.has_reduction and len(b.outer) == len(a.outer) + len(a.inner):
        return _match(b.outer, (*a.outer, *a.inner), _proposals(a, b))
    return None


def _proposals(a: Group, b: Group) -> Iterator[tuple[Symbol, Symbol]]:
    """Pairs of an axis of `b` and one of `a` that index the same dimension of a buffer; those through results first."""
    touched: dict[str, list[tuple[Index, ...]]] = {}
    for member in a.members:
        touched.setdefault(member.output, []).append(member.written)
    results = set(touched)
    for member in a.members:
        for buffer, indices in member.accesses:
            touched.setdefault(buffer, []).append(indices)
    own: list[tuple[str, tuple[Index, ...]]] = []
    for member in b.members:
        own.append((member.output, member.written))
        own += member.accesses
    own.sort(key=lambda access: access[0] not in results)
    for buffer, indices in own:
        for other in touched.get(buffer, ()):
            for mine, theirs in zip(indices, other, strict=True):
                if mine.symbol is not None and theirs.symbol is not None:
                    yield mine.symbol, theirs.symbol


def _match(own: Axes, targets: Axes, proposals: Iterator[tuple[Symbol, Symbol]]) -> Mapping | None:
    """A one-to-one mapping of `own` to `targets` with equal extents; what is not proposed is paired in order."""
    if len(own) != len(targets):
        return None
    found: Mapping = {}
    for mine, theirs in proposals:
        if mine in own and theirs in targets and mine not in found and theirs not in found.values():
            if mine.extent == theirs.extent:
                found[mine] = theirs
    left = [target for target in targets if target not in found.values()]
    for axis in own:
        if axis not in found:
            target = left.pop(0)
            if axis.extent != target.extent:
                return None
            found[axis] = target
    return found


def _is_legal(group: Group) -> bool:
    """Whether every read of a member's result is of an element that the same iteration of the outer axes computes."""
    outer = set(group.outer)
    results = group.outputs()
    for member in group.members:
        for buffer, indices in member.accesses:
            if buffer not in results:
                continue
            for wrote, read in zip(results[buffer].written, indices, strict=True):
                if wrote.symbol in outer and read != wrote:
                    return False
    return True
