"""One LLVM module for the kernels of a graph: the part and entry of each, and what shares work out to threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onegraph.base.dataclass import dataclass
from onegraph.compiler.codegen.emitter import Emitter, Val
from onegraph.compiler.codegen.indices import emit_index
from onegraph.compiler.codegen.kernel import KernelWriter
from onegraph.compiler.kernels import chunk_size, part_count, size_symbols
from onegraph.compiler.schedule.cost import part_nanoseconds
from onegraph.compiler.target import Machine
from onegraph.ir.loop import Kernel
from onegraph.ir.types import BOOL, I64, DType

# Code that runs once per launch is not worth optimizing: without it, it compiles several times faster.
RUNTIME = """
%frame = type { ptr, ptr, ptr, i64, i64 }

declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()

define internal void @og.thread(ptr %frame) noinline optnone {
  %part = load ptr, ptr %frame
  %buffers.p = getelementptr %frame, ptr %frame, i64 0, i32 1
  %buffers = load ptr, ptr %buffers.p
  %sizes.p = getelementptr %frame, ptr %frame, i64 0, i32 2
  %sizes = load ptr, ptr %sizes.p
  %total.p = getelementptr %frame, ptr %frame, i64 0, i32 3
  %total = load i64, ptr %total.p
  %number32 = call i32 @omp_get_thread_num()
  %count32 = call i32 @omp_get_num_threads()
  %number = sext i32 %number32 to i64
  %count = sext i32 %count32 to i64
  %next = add i64 %number, 1
  %scaled.begin = mul i64 %total, %number
  %scaled.end = mul i64 %total, %next
  %begin = udiv i64 %scaled.begin, %count
  %end = udiv i64 %scaled.end, %count
  %code = call i64 %part(ptr %buffers, ptr %sizes, i64 %begin, i64 %end)
  %failed = icmp ne i64 %code, 0
  br i1 %failed, label %report, label %done
report:
  %code.p = getelementptr %frame, ptr %frame, i64 0, i32 4
  store atomic i64 %code, ptr %code.p monotonic, align 8
  br label %done
done:
  ret void
}

define internal i64 @og.share(ptr %part, ptr %buffers, ptr %sizes, i64 %total, i64 %threads) noinline optnone {
  %parallel = icmp sgt i64 %threads, 1
  br i1 %parallel, label %many, label %one
one:
  %alone = call i64 %part(ptr %buffers, ptr %sizes, i64 0, i64 %total)
  ret i64 %alone
many:
  %frame = alloca %frame
  store ptr %part, ptr %frame
  %buffers.p = getelementptr %frame, ptr %frame, i64 0, i32 1
  store ptr %buffers, ptr %buffers.p
  %sizes.p = getelementptr %frame, ptr %frame, i64 0, i32 2
  store ptr %sizes, ptr %sizes.p
  %total.p = getelementptr %frame, ptr %frame, i64 0, i32 3
  store i64 %total, ptr %total.p
  %code.p = getelementptr %frame, ptr %frame, i64 0, i32 4
  store i64 0, ptr %code.p
  %count = trunc i64 %threads to i32
  call void @GOMP_parallel(ptr @og.thread, ptr %frame, i32 %count, i32 0)
  %code = load i64, ptr %code.p
  ret i64 %code
}
"""


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A kernel that is to be compiled: `dtypes` are those of its buffers; `name` is the symbol it gets."""

    name: str
    kernel: Kernel
    dtypes: Mapping[str, DType]


@dataclass(frozen=True, slots=True)
class ModuleText:
    """LLVM text, and for each kernel (by name) the errors that its codes stand for, and the accesses that it checks."""

    text: str
    errors: Mapping[str, tuple[tuple[str, str], ...]]
    accesses: Mapping[str, tuple[tuple[int, str], ...]]


def module_text(
    sources: Sequence[KernelSource], machine: Machine, instructions: str = "", sanitize: bool = False
) -> ModuleText:
    """The module of these kernels for a machine, in portable code or with the named instructions.

    With `sanitize`, each access is checked first.
    """
    functions: list[str] = []
    declarations: set[str] = set()
    definitions: dict[str, str] = {}
    errors: dict[str, tuple[tuple[str, str], ...]] = {}
    accesses: dict[str, tuple[tuple[int, str], ...]] = {}
    for source in sources:
        chunk = chunk_size(source.kernel, machine)
        writer = KernelWriter(source.kernel, source.dtypes, chunk, machine, instructions, sanitize)
        functions.append(writer.write(f"{source.name}.part"))
        functions.append(_entry(source.name, source.kernel, chunk, machine, writer.e))
        declarations |= writer.e.declarations
        definitions |= writer.e.definitions
        errors[source.name] = tuple(writer.errors)
        accesses[source.name] = tuple(writer.memory.fence.accesses) if writer.memory.fence is not None else ()
    text = "\n".join([RUNTIME, *sorted(declarations), "", *definitions.values(), *functions])
    return ModuleText(text, errors, accesses)


def _entry(name: str, kernel: Kernel, chunk: int, machine: Machine, shared: Emitter) -> str:
    """How many parts there are, how long they take, and so how many threads share them."""
    e = Emitter()
    values = {}
    for position, symbol in enumerate(size_symbols(kernel)):
        e.line(f"%size{position}.p = getelementptr i64, ptr %sizes, i64 {position}")
        e.line(f"%size{position} = load i64, ptr %size{position}.p")
        values[symbol.name] = Val(f"%size{position}", I64)
    parts, nanoseconds = part_count(kernel, chunk), part_nanoseconds(kernel, chunk, machine)
    total, work = emit_index(e, parts, values), (parts * nanoseconds).constant
    if parts.constant is not None and work is not None:  # mostly; in code that is not optimized it shows
        most = min(work // machine.thread_nanoseconds, parts.constant) if work >= 2 * machine.thread_nanoseconds else 1
        fewer = e.inst("icmp slt", Val("%threads", I64), e.i64(most), dtype=BOOL)
        count = e.select(fewer, Val("%threads", I64), e.i64(most)) if most > 1 else e.i64(1)
    else:
        nanos = e.inst("mul", total, emit_index(e, nanoseconds, values))
        useful = e.inst("udiv", nanos, e.i64(machine.thread_nanoseconds))
        threads = e.call("smin", e.call("smin", Val("%threads", I64), useful), total)
        short = e.inst("icmp slt", nanos, e.i64(2 * machine.thread_nanoseconds), dtype=BOOL)
        count = e.select(short, e.i64(1), threads)
    shared_out = f"ptr @{name}.part, ptr %buffers, ptr %sizes, {total}, {count}"
    e.line(f"%code = call i64 @og.share({shared_out})")
    shared.declarations |= e.declarations
    body = "\n  ".join(e.regions[0].lines)
    head = f"define i64 @{name}(ptr %buffers, ptr %sizes, i64 %threads) noinline optnone"
    return f"{head} {{\n  {body}\n  ret i64 %code\n}}\n"
