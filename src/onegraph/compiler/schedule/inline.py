"""Kernels that work element by element are computed where they are needed, instead of going through memory.

    kernel k_a(i0: 8):                          kernel k_b(i0: 8):
      t0: f32 = load x[i0]                        t0: f32 = load x[i0]
      t1: f32 = mul(t0, 2.0)                      t1: f32 = mul(t0, 2.0)
      store a[i0] = t1                            t2: f32 = add(t1, 1.0)
    kernel k_b(i0: 8):                            store b[i0] = t2
      t0: f32 = load a[i0]
      t1: f32 = add(t0, 1.0)
      store b[i0] = t1

A kernel with one consumer always goes into it. With several, or where a consumer broadcasts it, the work is repeated:
it is, if that costs less than the memory traffic. What is too expensive to repeat stays, for `fuse` to place; so does
what reads many tensors: a sum that grows from layer to layer would make every layer another kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.compiler.body import Body
from onegraph.compiler.kernels import stored_by
from onegraph.compiler.schedule.cost import block_cost
from onegraph.compiler.schedule.splice import Loader, Splicer, plain_load
from onegraph.ir.index import ONE, ZERO, Index, Symbol, product
from onegraph.ir.loop import (
    Block,
    Buffer,
    Cast,
    Check,
    Coordinates,
    Kernel,
    Let,
    Load,
    Loop,
    Operand,
    Program,
    Statement,
    Step,
    Store,
    reads,
    writes,
)
from onegraph.ir.types import DType

MAX_STATEMENTS = 300  # of a kernel: longer ones cost more in compile time and registers than they save
MAX_LOADS = 3  # of what is repeated, where memory is far
STORE_AND_LOAD = 6.0  # of one element, in units of an addition
WIDENED_AGAIN = 8  # times that an element of a short type may be converted to a longer one
KERNEL = 20_000.0  # what one kernel less is worth, in units of an addition


@dataclass(frozen=True, slots=True)
class Definition:
    """What an element of a buffer is: statements over `axes`, the last of which stores it.

    `built` is what the statements were built in, if other definitions are among them.
    """

    axes: tuple[Symbol, ...]
    body: Block
    place: tuple[Index, ...]
    built: Body | None = None

    @property
    def stored(self) -> Operand:
        """The element."""
        last = self.body[-1]
        assert isinstance(last, Store)
        return last.value

    def bindings(self, indices: tuple[Index, ...]) -> dict[Symbol, Index]:
        """The axes for the element at these coordinates."""
        return {at.symbol: index for at, index in zip(self.place, indices, strict=True) if at.symbol is not None}


def definition_of(step: Step) -> Definition | None:
    """The definition that a kernel is, if it computes one buffer element by element."""
    if not isinstance(step, Kernel) or step.locals:
        return None
    if not all(isinstance(s, Let | Store | Check) for s in step.body):
        return None
    stores = [s for s in step.body if isinstance(s, Store)]
    if len(stores) != 1 or stores[0].atomic or not isinstance(stores[0].place, Coordinates):
        return None
    place = stores[0].place.indices
    symbols = [index.symbol for index in place if index.constant != 0]
    if any(symbol is None for symbol in symbols) or set(symbols) != set(step.axes) or len(symbols) != len(step.axes):
        return None
    return Definition(step.axes, step.body, place)


def inline(program: Program, cx: Context, launch: float = KERNEL, most_loads: int = MAX_LOADS) -> Program:
    """Put element-by-element kernels into their consumers where that saves time.

    A `launch` costs as many additions. What has more than `most_loads` is not loaded again and again.
    """
    table = program.table()
    consumers, pinned = _consumers(program)
    inlined: dict[str, Definition] = {}
    steps: list[Step] = []
    for step in program.steps:
        if isinstance(step, Kernel):
            definition = definition_of(step)  # with others in it, it is one as before
            names = stored_by(step)
            step, built = _with_inlined(step, inlined)
            if definition is not None:
                definition = replace(definition, body=step.body, built=built)
                (name,) = names
                if name not in pinned and _pays(definition, table[name], consumers.get(name, []), launch, most_loads):
                    inlined[name] = definition
                    continue
        steps.append(step)
    buffers = tuple(buffer for buffer in program.buffers if buffer.name not in inlined)
    return replace(program, steps=tuple(steps), buffers=buffers)


def _consumers(program: Program) -> tuple[dict[str, list[Kernel]], set[str]]:
    """The kernels that read each buffer, and the buffers that something else needs in memory."""
    consumers: dict[str, list[Kernel]] = {}
    pinned = {name for name in program.outputs if isinstance(name, str)} | rewritten(program)
    for step in program.steps:
        for name in reads(step):
            if isinstance(step, Kernel) and step.vector is None:
                consumers.setdefault(name, []).append(step)
            else:
                pinned.add(name)
    return consumers, pinned


def rewritten(program: Program) -> set[str]:
    """The buffers that more than one step writes to."""
    counts = Counter(name for step in program.steps for name in writes(step))
    return {name for name, count in counts.items() if count > 1}


def _pays(definition: Definition, buffer: Buffer, consumers: list[Kernel], launch: float, most_loads: int) -> bool:
    """Whether computing the elements at every use is cheaper than storing them once."""
    if not consumers:
        return True
    size = product(buffer.type.shape)
    uses = sum((evaluations(kernel, buffer.name) for kernel in consumers), ZERO)
    if uses == size:
        return len(definition.body) < MAX_STATEMENTS
    if sum(isinstance(s, Let) and isinstance(s.value, Load) for s in definition.body) > most_loads:
        return False
    cost = block_cost(definition.body)
    if uses.constant is None or size.constant is None:
        return cost <= STORE_AND_LOAD
    if uses.constant <= WIDENED_AGAIN * size.constant and _only_widens(definition):
        return True
    stored = size.constant * cost + (size.constant + uses.constant) * STORE_AND_LOAD / 2 + launch
    return uses.constant * cost <= stored and len(definition.body) * len(consumers) < MAX_STATEMENTS


def _only_widens(definition: Definition) -> bool:
    """Whether an element is one of a shorter type in another tensor: to store what it is takes more memory."""
    match definition.body:
        case (Let(name, narrow, Load()), Let(wide, dtype, Cast(arg)), Store(value=value)):
            return arg == name and value == wide and narrow.size < dtype.size
    return False


def evaluations(kernel: Kernel, buffer: str) -> Index:
    """How often a kernel loads an element of the buffer."""
    return _evaluations(kernel.body, buffer, kernel.axes, kernel.axes)


def _evaluations(block: Block, buffer: str, axes: tuple[Symbol, ...], outer: tuple[Symbol, ...]) -> Index:
    total = ZERO
    for statement in block:
        match statement:
            case Let(value=Load(buffer=name, place=Coordinates(indices))) if name == buffer:
                used = {symbol for index in indices for symbol in index.symbols}
                inner = axes if any(symbol not in outer for symbol in used) else outer
                total = total + product([axis.extent or ONE for axis in inner])
            case Loop(inner_axes, body):
                total = total + _evaluations(body, buffer, (*axes, *inner_axes), axes)
    return total


def _with_inlined(kernel: Kernel, inlined: Mapping[str, Definition]) -> tuple[Kernel, Body | None]:
    """The kernel with definitions in place of loads, and what it was built in."""
    if not any(name in inlined for name in reads(kernel)):
        return kernel, None
    rebuilder = _Rebuilder(kernel, inlined)
    rebuilder.block(kernel.body)
    return replace(kernel, body=rebuilder.body.block()), rebuilder.body


class _Rebuilder(Splicer):
    """Copies a kernel, with definitions in place of loads."""

    def __init__(self, kernel: Kernel, inlined: Mapping[str, Definition]) -> None:
        body, names = begun(kernel, inlined)
        super().__init__(body, partial(_resolve, body, inlined), {}, stores=True)
        self.names.update(names)

    def statement(self, statement: Statement) -> None:
        if not (isinstance(statement, Let) and statement.name in self.names):
            super().statement(statement)


def begun(kernel: Kernel, inlined: Mapping[str, Definition]) -> tuple[Body, Mapping[str, Operand]]:
    """A kernel that begins with the element of a definition at its own place goes on from what that was built in.

    It has the same statements as if they were copied: in a chain, that would be done for each of its links.
    """
    stored = stored_by(kernel)
    match kernel.body[0]:
        case Let(name, _, Load(buffer, Coordinates(indices), None)) if buffer in inlined:
            definition = inlined[buffer]
            same = definition.axes == kernel.axes and definition.place == indices
            if same and definition.built is not None and not stored & definition.built.loaded:
                return definition.built.going_on(stored), {name: definition.stored}
    return Body(kernel.axes, volatile=stored), {}


def _resolve(
    body: Body,
    inlined: Mapping[str, Definition],
    dtype: DType,
    buffer: str,
    indices: tuple[Index, ...],
    condition: Operand | None,
) -> Operand:
    definition = inlined.get(buffer)
    if definition is None:
        return body.load(dtype, buffer, Coordinates(indices), condition)
    return expand(body, definition, indices, condition, plain_load(body))


def expand(
    body: Body, definition: Definition, indices: tuple[Index, ...], condition: Operand | None, load: Loader
) -> Operand:
    """The element of a definition at these coordinates."""
    splicer = Splicer(body, load, definition.bindings(indices), condition)
    splicer.block(definition.body)
    (value,) = splicer.stored.values()
    return value
