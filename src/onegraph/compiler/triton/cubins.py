"""From Triton source to code for a GPU, by Triton's compiler: no GPU and no driver are needed for it.

Its passes let other threads of Python run, so kernels are compiled side by side. What was compiled is kept on disk, and
a process that finds all that it needs there does not import Triton.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.base.disk_cache import DiskCache, key_of
from onegraph.base.errors import CompileError
from onegraph.compiler.triton.gpu import Gpu
from onegraph.compiler.triton.sources import ALIGNMENT, Source

STAGES = 1  # of a pipeline of loads: kernels without products have none
THREADS = 8  # that compile
MISSING = 'kernels for GPUs are compiled by Triton, which is not installed: `pip install "onegraph[gpu]"`'
_PARSER = Lock()
_HEAD = struct.Struct("<2q")


@dataclass(frozen=True, slots=True)
class Cubin:
    """Code for one kind of GPU: the name of its function, its threads in a block, and bytes of shared memory."""

    name: str
    code: bytes
    threads: int
    shared: int


def compile_sources(sources: Sequence[Source], gpu: Gpu, kept: DiskCache | None = None) -> list[Cubin]:
    """The code of each source, in order.

    Raises:
        CompileError: without Triton, or where a kernel wants more than the GPU has.
    """
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda source: compile_source(source, gpu, kept), sources))


def compile_source(source: Source, gpu: Gpu, kept: DiskCache | None = None) -> Cubin:
    """The code of the source, from the cache if it is there."""
    options = f"{source.blocks.warps} {source.aligned} {gpu}"
    key = key_of(source.text, repr(source.signature), repr(source.constants), options, triton_version())
    found = kept.load(key) if kept is not None else None
    if found is not None and len(found) > _HEAD.size:
        return Cubin(source.name, found[_HEAD.size :], *_HEAD.unpack_from(found))
    made = compiled(source, gpu)
    if made.shared > gpu.shared:
        raise CompileError(
            "Triton", f"{source.name} needs {made.shared} bytes of shared memory, and there are {gpu.shared}"
        )
    if kept is not None:
        kept.store(key, _HEAD.pack(made.threads, made.shared) + made.code)
    return made


def compiled(source: Source, gpu: Gpu) -> Cubin:
    """The code of the source, compiled now."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    class Parsed(ASTSource):  # type: ignore[misc]
        """Python's parser of 3.11 counts its depth for all threads together, and finds that it does not add up."""

        def hash(self) -> Any:
            with _PARSER:
                return super().hash()

        def make_ir(self, *args: Any) -> Any:
            with _PARSER:
                return super().make_ir(*args)

    signature = {**source.signature, **dict.fromkeys(source.constants, "constexpr")}
    pointers = [place for place, kind in enumerate(source.signature.values()) if kind[0] == "*"]
    facts = {(place,): [["tt.divisibility", ALIGNMENT]] for place in pointers} if source.aligned else {}
    wanted = Parsed(function_of(source), signature, dict(source.constants), facts)
    options = {"num_warps": source.blocks.warps, "num_stages": STAGES, "enable_fp_fusion": False}
    if "tl.device_assert" in source.text:  # which is dropped otherwise
        options |= {"debug": True, "sanitize_overflow": False}
    try:
        made = triton.compile(wanted, target=GPUTarget("cuda", gpu.capability, 32), options=options)
    except Exception as error:
        raise CompileError("Triton", f"{source.name}: {error}") from error
    told = made.metadata
    if told.global_scratch_size:  # which launches do not give
        raise CompileError("Triton", f"{source.name} wants {told.global_scratch_size} bytes of memory for each program")
    return Cubin(source.name, made.asm["cubin"], 32 * told.num_warps, told.shared)


def function_of(source: Source) -> Any:
    """The function as Triton has it; it reads the text by the file's name."""
    file = f"<{source.name}>"
    linecache.cache[file] = (len(source.text), None, source.text.splitlines(True), file)
    names: dict[str, Any] = {"__name__": source.name}
    exec(compile(source.text, file, "exec"), names)
    return names[source.name]


def triton_version() -> str:
    """Of the Triton that is installed."""
    try:
        return version("triton")
    except PackageNotFoundError:
        raise CompileError("Triton", MISSING) from None
