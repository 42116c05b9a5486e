"""The loop IR: what the compiler makes of a graph, as data.

    program   = "program" "(" {input ","} ")" ":" {size} {buffer} {step} "return" {output ","}
    size      = "size" NAME "=" NAME "[" INT "]"                                  (of an input, along a dimension)
    buffer    = "buffer" NAME ":" dtype "[" {index ","} "]" "stride" "(" {index ","} ")" ["constant"]
    step      = kernel
              | NAME "=" "view" NAME "offset" index                               (strides are those of the buffer)
              | {NAME ","} "=" ["ordered"] "extern" operator "(" {argument ","} ")"
    kernel    = "kernel" NAME "(" {axis ","} ")" ["vector" axis "by" INT ["across" axis]] ":" {local} block
    local     = "local" NAME ":" dtype "[" INT "]"
    axis      = NAME ":" index                                                    (0 .. index-1)
    block     = {statement}
    statement = NAME ":" dtype "=" value                                          Let
              | NAME ":" dtype "=" reduction "over" {operand ","}                 Accumulate
              | "store" place "=" operand                                         Store
              | "add" place "+=" operand                                          Store, atomic addition
              | "for" {axis ","} ":" block                                        Loop
              | "check" operand "else" ERROR STRING                               Check
    value     = literal | "index" index | "load" place ["if" NAME] | "cast" operand | "bitcast" operand
              | op "(" {operand ","} ")"
    place     = NAME "[" {index ","} "]"        coordinates
              | NAME "@" index                  elements after the first one
    operand   = NAME | literal
    literal   = Python's float, integer, True, False

The axes of a kernel are its outer loops: their iterations are independent, run in any order and on any thread. An
`Accumulate` stands in a loop; its name is the total and can be read after the loop. The same iteration
of the outer loops sees what it stored before. A name that is an integer may stand in an index expression, as a signed
symbol of the same name. A load whose condition is false does not touch memory and gives zero.

Literals take the type that their place requires. All names in a kernel are different.
"""

from __future__ import annotations

from collections.abc import Iterator

from onegraph.base.dataclass import dataclass
from onegraph.ir.index import Index, Symbol
from onegraph.ir.types import DType, TensorType

Literal = float | int | bool
Operand = str | Literal


@dataclass(frozen=True, slots=True)
class Coordinates:
    """An element by its position along each dimension of the buffer."""

    indices: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Offset:
    """An element by how many elements after the first one it stands in memory."""

    index: Index


Place = Coordinates | Offset


# ---- values ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constant:
    value: Literal


@dataclass(frozen=True, slots=True)
class IndexValue:
    """An index expression as a number."""

    index: Index


@dataclass(frozen=True, slots=True)
class Load:
    buffer: str
    place: Place
    condition: str | None = None


@dataclass(frozen=True, slots=True)
class Apply:
    """A scalar operation of `ir.scalar`."""

    op: str
    args: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """Conversion as torch's `.to(dtype)` does it."""

    arg: str


@dataclass(frozen=True, slots=True)
class Bitcast:
    """The same bits as another type of the same size."""

    arg: str


Value = Constant | IndexValue | Load | Apply | Cast | Bitcast


# ---- statements ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Let:
    name: str
    dtype: DType
    value: Value


@dataclass(frozen=True, slots=True)
class Accumulate:
    """A reduction of `ir.scalar.REDUCTIONS` over the loop that it stands in."""

    name: str
    dtype: DType
    op: str
    args: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Store:
    buffer: str
    place: Place
    value: Operand
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    axes: tuple[Symbol, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """Stop with an error unless the condition holds. `error` is the name of a built-in exception."""

    condition: Operand
    error: str
    message: str


Statement = Let | Accumulate | Store | Loop | Check
Block = tuple[Statement, ...]


# ---- steps -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of a tensor. `constant`: it is there before the call and never written. `device` is where it lies, if not
    where kernels run: no kernel touches it."""

    name: str
    type: TensorType
    constant: bool = False
    device: str = ""


@dataclass(frozen=True, slots=True)
class Local:
    """Memory of one iteration of a kernel's outer loops."""

    name: str
    dtype: DType
    size: int


@dataclass(frozen=True, slots=True)
class Vector:
    """The axis whose iterations run side by side, and how many at once.

    With `across`, another outer axis, both run in square tiles: what is contiguous along that one is loaded along it,
    and transposed in registers.
    """

    axis: Symbol
    width: int
    across: Symbol | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    axes: tuple[Symbol, ...]
    body: Block
    vector: Vector | None = None
    locals: tuple[Local, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """The buffer `name` is the memory of `base` from the element `offset` on, with its own sizes and strides."""

    name: str
    base: str
    offset: Index


@dataclass(frozen=True, slots=True)
class BufferArgument:
    name: str


@dataclass(frozen=True, slots=True)
class Named:
    """An object that is known by name: a dtype, layout, memory format or device of torch."""

    kind: str
    name: str


Argument = BufferArgument | Index | Named | float | int | bool | str | complex | None | tuple["Argument", ...]


@dataclass(frozen=True, slots=True)
class Extern:
    """A call of an operator of a library. `outputs` has None for a result that nobody uses, a symbol for a number.

    `ordered` calls do more than give results: they draw random numbers, print, or check. They stay in their order.
    """

    operator: str
    args: tuple[Argument, ...]
    kwargs: tuple[tuple[str, Argument], ...]
    outputs: tuple[str | Symbol | None, ...]
    several: bool = False
    ordered: bool = False


#: A call that checks a size which only the data say: (left, right, comparison).
EXPECTED = "onegraph.is_expected"

#: A call that draws: (how much the offset of a device's generator grows, bytes that are to be less than 2 GiB), device.
#: It gives its seed, and its offset before that, in the memory of the device.
PHILOX_STATE = "onegraph.philox_state.default"
#: A call that gives the address of a tensor's first element, as a number.
ADDRESS = "onegraph.address.default"

Step = Kernel | View | Extern


@dataclass(frozen=True, slots=True)
class SizeOf:
    """The symbol `name` is the size of an input, or of the result of a library call, along a dimension."""

    name: str
    buffer: str
    dim: int


@dataclass(frozen=True, slots=True)
class Program:
    """`inputs` are names of buffers, or symbols for integers; `outputs` are names of buffers, integers, or None."""

    inputs: tuple[str | Symbol, ...]
    outputs: tuple[str | Index | None, ...]
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    sizes: tuple[SizeOf, ...] = ()

    def table(self) -> dict[str, Buffer]:
        """The buffers by name."""
        return {buffer.name: buffer for buffer in self.buffers}

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(step for step in self.steps if isinstance(step, Kernel))


# ---- walks -----------------------------------------------------------------------------------------------------------


def statements(block: Block) -> Iterator[Statement]:
    """Every statement, those in loops too, in order."""
    for statement in block:
        yield statement
        if isinstance(statement, Loop):
            yield from statements(statement.body)


def loads(block: Block) -> Iterator[Load]:
    for statement in statements(block):
        if isinstance(statement, Let) and isinstance(statement.value, Load):
            yield statement.value


def stores(block: Block) -> Iterator[Store]:
    return (statement for statement in statements(block) if isinstance(statement, Store))


def reads(step: Step) -> tuple[str, ...]:
    """The buffers that a step reads, each once. What a kernel only reads back after it stored it is not among them."""
    match step:
        case Kernel():
            own = {local.name for local in step.locals}
            found: dict[str, None] = {}
            for statement in statements(step.body):
                if isinstance(statement, Store):
                    own.add(statement.buffer)
                elif isinstance(statement, Let) and isinstance(statement.value, Load):
                    if statement.value.buffer not in own:
                        found[statement.value.buffer] = None
            return tuple(found)
        case View():
            return (step.base,)
        case Extern():
            return tuple(dict.fromkeys(argument_buffers((step.args, tuple(v for _, v in step.kwargs)))))


def writes(step: Step) -> tuple[str, ...]:
    """The buffers that a step defines or writes, each once."""
    match step:
        case Kernel():
            own = {local.name for local in step.locals}
            return tuple(dict.fromkeys(store.buffer for store in stores(step.body) if store.buffer not in own))
        case View():
            return (step.name,)
        case Extern():
            return tuple(name for name in step.outputs if isinstance(name, str))


def symbols_in(argument: object) -> Iterator[Symbol]:
    """The symbols in an argument of a library call."""
    if isinstance(argument, Index):
        yield from argument.symbols
    elif isinstance(argument, tuple):
        for item in argument:
            yield from symbols_in(item)


def argument_buffers(argument: object) -> Iterator[str]:
    """The buffers in an argument of a library call."""
    if isinstance(argument, BufferArgument):
        yield argument.name
    elif isinstance(argument, tuple):
        for item in argument:
            yield from argument_buffers(item)
