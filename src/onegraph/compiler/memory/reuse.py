"""Which buffers share memory.

A kernel may write its result over an operand that nobody needs any more, if every element is read before it is
written. A buffer may take the memory of one that is dead, if both have the same layout. What only kernels touch lives
in one workspace, at offsets where lifetimes do not meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from onegraph.base.dataclass import dataclass
from onegraph.compiler.memory.liveness import Lifetimes
from onegraph.ir.index import Call, Symbol
from onegraph.ir.loop import (
    Block,
    Buffer,
    Check,
    Extern,
    Kernel,
    Let,
    Load,
    Loop,
    Offset,
    Program,
    Step,
    Store,
    View,
    loads,
    reads,
    statements,
    writes,
)

Axes = tuple[Symbol, ...]
ALIGNMENT = 64

# Library calls whose results are always memory of their own, never an operand's.
FRESH_RESULTS = frozenset(
    f"{name}.default"
    for name in (
        "mkldnn._linear_pointwise mkldnn._convolution_pointwise onednn.qlinear_pointwise aten._int_mm "
        "aten.mm aten.addmm aten.bmm aten.baddbmm aten.linear aten.convolution aten.native_layer_norm aten.embedding "
        "aten.scaled_dot_product_attention aten._scaled_dot_product_flash_attention_for_cpu"
    ).split()
)
#: Those of them that raise no error for what the tensors hold.
FAILING_FOR_MEMORY = FRESH_RESULTS - {"aten.embedding.default"}
OF_PARAMETERS = "recipe."  # so are those called that make what is kept of parameters


def makes_memory(extern: Extern) -> bool:
    """Whether the results of a library call certainly are no operand's memory."""
    return extern.operator in FRESH_RESULTS or extern.operator.startswith(OF_PARAMETERS)


def may_overwrite(kernel: Kernel, operand: str, result: str) -> bool:
    """Whether the kernel reads each element of the operand before it writes the result's element in the same place."""
    order = list(_accesses(kernel.body, ()))
    stores = [(at, path, s.place) for at, (path, s) in enumerate(order) if isinstance(s, Store) and s.buffer == result]
    if len(stores) != 1:
        return False
    at, path, place = stores[0]
    assert isinstance(place, Offset)
    own = {*kernel.axes, *(axis for axes in path for axis in axes)}
    if not all(axis in place.index.symbols for axis in own if axis.extent is not None):
        return False  # several iterations write one element, or one iteration writes none of its own
    if any(
        isinstance(atom, Call) and atom.op in ("min", "max") for factors, _ in place.index.terms for atom in factors
    ):
        return False  # the last of them write one element
    for number, (_, access) in enumerate(order):
        load = access.value if isinstance(access, Let) else None
        if isinstance(load, Load) and load.buffer == operand and (number > at or load.place != place):
            return False
    return True


def moves_nothing(kernel: Kernel, operand: str, result: str) -> bool:
    """Whether the kernel does no more than write each element of the operand to the same place of the result."""
    match kernel.body:
        case (Let(name, _, Load(source, at, condition=None)), Store(target, place, value)):
            return (source, at, value) == (operand, place, name) and target == result
    return False


def owned_after(step: Step, owned: set[str], lives: Lifetimes) -> set[str]:
    """The buffers whose memory is ours alone after a step: no caller has it, and no library may have kept it."""
    if isinstance(step, Kernel):
        return owned | set(writes(step))
    if isinstance(step, Extern):
        if step.operator in FRESH_RESULTS:
            return owned | {*writes(step)} - lives.elsewhere
        return owned - {lives.root[name] for name in reads(step)}
    return owned


def overwritten(
    program: Program, lives: Lifetimes, space: Workspace, given: Mapping[int, int] | None = None
) -> dict[str, str]:
    """The operand whose memory each result takes over, where it can. What is in the workspace has its place."""
    table = program.table()
    found = written_in_place(program, lives, given or {})
    owned: set[str] = set()
    known: set[str] = {*lives.foreign, *space.offsets, *found}
    for number, step in enumerate(program.steps):
        if isinstance(step, Kernel):
            for name in writes(step):
                for operand in reads(step) if name not in known else ():
                    fits = operand in owned and lives.ends_at(operand, number) and operand not in found.values()
                    if fits and table[operand].type == table[name].type and may_overwrite(step, operand, name):
                        found[name] = operand
                        break
        owned = owned_after(step, owned, lives) - space.offsets.keys()
        known |= set(writes(step))
    return found


def written_in_place(program: Program, lives: Lifetimes, given: Mapping[int, int]) -> dict[str, str]:
    """The results that are written over inputs. `given` are the positions of results that the caller copies to inputs.

    A call that fails is done again, so only where nothing can fail any more, or where it does not matter that it is
    done again with what was written.
    """
    if not given:
        return {}
    table = program.table()
    pairs = {program.outputs[result]: program.inputs[index] for result, index in given.items()}
    elsewhere = _used_through_libraries(program, lives)
    found: dict[str, str] = {}
    begun: set[str] = set()
    for number, step in enumerate(program.steps):
        if not isinstance(step, Kernel):
            continue
        first = [name for name in writes(step) if name not in begun]
        begun.update(first)
        for name in first:
            operand = pairs.get(name)
            if not isinstance(operand, str) or operand in lives.leaving or operand not in reads(step):
                continue
            last = lives.last[operand] == number and program.outputs.count(name) == 1
            last = last and elsewhere.get(operand, -1) < number
            if not (last and table[operand].type == table[name].type and may_overwrite(step, operand, name)):
                continue
            if not any(map(may_fail, program.steps[number:])) or is_repeatable(
                program, number, (operand, name), pairs.keys(), lives
            ):
                found[name] = operand
    return found


def _used_through_libraries(program: Program, lives: Lifetimes) -> dict[str, int]:
    """The last step that uses each buffer as the result of a library call, which may have returned its operand."""
    found: dict[str, int] = {}
    for step in reversed(program.steps):
        if isinstance(step, Extern) and not makes_memory(step):
            roots = [lives.root[name] for name in writes(step)]
            ends = [len(program.steps) if root in lives.leaving else lives.last[root] for root in roots]
            end = max((*ends, *(found.get(root, -1) for root in roots)), default=-1)
            for name in reads(step):
                root = lives.root[name]
                found[root] = max(found.get(root, -1), end)
    return found


def may_fail(step: Step) -> bool:
    """Whether a step may raise an error: a check, or a library that is asked for something, memory at least."""
    return (
        isinstance(step, Extern)
        or isinstance(step, Kernel)
        and any(isinstance(s, Check) for s in statements(step.body))
    )


def is_repeatable(program: Program, number: int, pair: tuple[str, str], parts: Set[object], lives: Lifetimes) -> bool:
    """Whether the step only begins a result that takes over an operand; next, parts of it are replaced by what depends
    on neither, as where a cache gets its keys. To do that again gives the same.

    What fails behind it is for want of memory, or checks the places of such `parts`.
    """
    (operand, name), kernel = pair, program.steps[number]
    if not isinstance(kernel, Kernel) or not moves_nothing(kernel, operand, name):
        return False
    if sum(operand in map(lives.root.get, (*reads(step), *writes(step))) for step in program.steps) > 1:
        return False
    used = False
    for step in program.steps[number + 1 :]:
        loaded = {load.buffer for load in loads(step.body)} if isinstance(step, Kernel) else reads(step)
        used |= name in map(lives.root.get, loaded)
        if used and name in writes(step):
            return False
        fails_for_memory = isinstance(step, Extern) and (
            step.operator in FAILING_FOR_MEMORY or step.operator.startswith(OF_PARAMETERS)
        )
        if may_fail(step) and not fails_for_memory and not (isinstance(step, Kernel) and parts >= {*writes(step)}):
            return False
    return True


def _accesses(block: Block, path: tuple[Axes, ...]) -> Iterator[tuple[tuple[Axes, ...], Let | Store]]:
    """Loads and stores in order, each with the axes of the loops around it."""
    for statement in block:
        match statement:
            case Loop(axes, body):
                yield from _accesses(body, (*path, axes))
            case Let(value=Load()) | Store():
                yield path, statement


@dataclass(frozen=True, slots=True)
class Workspace:
    """Offsets in bytes of the buffers that live in the workspace, its size, and the last step that uses it."""

    offsets: Mapping[str, int]
    size: int
    end: int


NO_WORKSPACE = Workspace({}, 0, -1)


def workspace(program: Program, lives: Lifetimes, largest: int | None = None) -> Workspace:
    """Place what only kernels touch, and whose size is known, where nothing else is alive at the same time.

    Buffers of more bytes than the `largest` have memory of their own.
    """
    table = program.table()
    shared: set[str] = set(lives.foreign | lives.leaving)
    first: dict[str, int] = {}
    for number, step in enumerate(program.steps):
        for name in (*reads(step), *writes(step)):
            if isinstance(step, Extern | View):
                shared.add(name)
            else:
                first.setdefault(name, number)
    offsets: dict[str, int] = {}
    placed: list[tuple[int, int, int, int]] = []  # first step, last step, begin, end
    total = 0
    for name, begin in sorted(first.items(), key=lambda item: -size_of(table[item[0]])):
        size = size_of(table[name])
        if name in shared or size < 0 or (largest is not None and size > largest):
            continue
        size = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        end = lives.last[name]
        at = 0
        for low, high in sorted((p[2], p[3]) for p in placed if p[0] <= end and begin <= p[1]):
            if at + size <= low:
                break
            at = max(at, high)
        offsets[name] = at
        placed.append((begin, end, at, at + size))
        total = max(total, at + size)
    return Workspace(offsets, total, max((lives.last[name] for name in offsets), default=-1))


def size_of(buffer: Buffer) -> int:
    """The bytes of memory of a buffer, gaps included; -1 if they are known at the call only."""
    span = buffer.type.span.constant
    return span * buffer.type.dtype.size if span is not None else -1
