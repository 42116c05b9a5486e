"""The kernels of a program as Triton source: equal ones are written once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b

from onegraph.base.dataclass import dataclass
from onegraph.compiler.canonical import CanonicalKernel, canonical
from onegraph.compiler.kernel_facts import kernel_bytes, kernel_flops, kernel_name
from onegraph.compiler.kernels import size_symbols
from onegraph.compiler.triton.blocks import Blocks, blocks_of
from onegraph.compiler.triton.ops import pointer_type
from onegraph.compiler.triton.writer import KernelWriter
from onegraph.ir.index import Index
from onegraph.ir.loop import Kernel, Program, Store, statements
from onegraph.ir.plan import KernelInfo
from onegraph.ir.types import BOOL, DType

#: Bytes that pointers are multiples of, where nothing is known against it: a thread then reads so many at once.
ALIGNMENT = 16
#: Chooses the blocks of a kernel.
Chooser = Callable[[Kernel], Blocks]


@dataclass(frozen=True, slots=True)
class Source:
    """A function in Triton's language. `signature` has the types of its parameters by name, `constants` the values of
    those that are constants. Where it is `aligned`, pointers are multiples of ALIGNMENT."""

    name: str
    text: str
    signature: Mapping[str, str]
    constants: Mapping[str, int]
    blocks: Blocks
    info: KernelInfo
    aligned: bool = True


@dataclass(frozen=True, slots=True)
class Sources:
    """`functions` has the number in `sources` for each kernel of a program by name, `begins` how many bytes of each
    operand it steps over, multiples of ALIGNMENT, `grids` the number of programs in the program's own sizes."""

    functions: Mapping[str, int]
    sources: tuple[Source, ...]
    begins: Mapping[str, tuple[int, ...]]
    grids: Mapping[str, tuple[Index, ...]]


def sources_of(program: Program, choose: Chooser = blocks_of) -> Sources:
    """The text of each different kernel, and which kernels of the program it serves."""
    dtypes = {buffer.name: buffer.type.dtype for buffer in program.buffers}
    numbers: dict[str, int] = {}
    found: list[Source] = []
    functions, begins, grids = {}, {}, {}
    for kernel in program.kernels:
        form = canonical(kernel, dtypes, alignment=ALIGNMENT)
        name = f"{kernel_name(form.kernel)}_{blake2b(form.text.encode(), digest_size=8).hexdigest()}"
        if name not in numbers:
            numbers[name] = len(found)
            found.append(source_of(name, form, choose))
        functions[kernel.name] = numbers[name]
        begins[kernel.name] = form.begins
        grids[kernel.name] = (found[numbers[name]].blocks.programs(kernel),)
    return Sources(functions, tuple(found), begins, grids)


def source_of(name: str, form: CanonicalKernel, choose: Chooser) -> Source:
    blocks = choose(form.kernel)
    types = {f"p{k}": dtype for k, dtype in enumerate(form.dtypes)}
    check_atomics(form.kernel, types)
    writer = KernelWriter(form.kernel, types, blocks)
    text = writer.write(name)
    sizes = {symbol.name: "i64" for symbol in size_symbols(form.kernel)}
    constants = {f"{dim.upper()}BLOCK": getattr(blocks, dim) for dim in writer.dims}
    signature = {**{place: pointer_type(dtype) for place, dtype in types.items()}, **sizes}
    info = KernelInfo(name, (), (), kernel_bytes(form.kernel, types), kernel_flops(form.kernel))
    return Source(name, text, signature, constants, blocks, info)


def check_atomics(kernel: Kernel, types: Mapping[str, DType]) -> None:
    """GPUs add to numbers of two bytes or more, of floats, and of four or eight, of integers."""
    for statement in statements(kernel.body):
        if isinstance(statement, Store) and statement.atomic:
            dtype = types[statement.buffer]
            if dtype is BOOL or (not dtype.is_float and dtype.size < 4):
                raise NotImplementedError(f"atomic additions of {dtype}")
