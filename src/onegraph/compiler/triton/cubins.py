"""From Triton source to code for a GPU, by Triton's compiler: no GPU and no driver are needed for it.

Its passes let other threads of Python run, so kernels are compiled side by side. What was compiled is kept on disk, and
a process that finds all that it needs there does not import Triton.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from typing import Any

from onegraph.base.codec import Codec
from onegraph.base.context import Store
from onegraph.base.dataclass import dataclass
from onegraph.base.disk_cache import key_of
from onegraph.base.errors import CompileError
from onegraph.compiler.triton.blocks import Blocks
from onegraph.compiler.triton.gpu import Gpu
from onegraph.compiler.triton.sources import ALIGNMENT, Source
from onegraph.ir.plan import KernelInfo

STAGES = 1  # of a pipeline of loads: kernels without products have none
THREADS = 8  # that compile
MISSING = 'kernels for GPUs are compiled by Triton, which is not installed: `pip install "onegraph[gpu]"`'
_PARSER = Lock()


@dataclass(frozen=True, slots=True)
class Cubin:
    """Code for one kind of GPU: its threads in a block, and bytes of shared memory."""

    code: bytes
    threads: int
    shared: int


@dataclass(frozen=True, slots=True)
class Built:
    """A source with its code, and the name that both are kept under; empty if they are not."""

    source: Source
    cubin: Cubin
    kept: str = ""


@dataclass(frozen=True, slots=True)
class KeptKernel:
    """The same on disk: what is compiled once more for pointers that are not aligned is there, too."""

    name: str
    text: str
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, int], ...]
    blocks: Blocks
    aligned: bool
    cubin: Cubin


_CODEC = Codec(KeptKernel, Cubin, Blocks)


def compile_sources(sources: Sequence[Source], gpu: Gpu, kept: Store | None = None) -> list[Built]:
    """The code of each source, in order.

    Raises:
        CompileError: without Triton, or where a kernel wants more than the GPU has.
    """
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda source: compile_source(source, gpu, kept), sources))


def compile_source(source: Source, gpu: Gpu, kept: Store | None = None) -> Built:
    """The code of the source, from the cache if it is there."""
    options = f"{source.blocks.warps} {source.aligned} {gpu}"
    key = key_of(source.text, repr(source.signature), repr(source.constants), options, triton_version())
    found = None if kept is None else find_built(key, kept)
    if found is not None:
        return Built(source, found.cubin, key)
    made = compiled(source, gpu)
    if made.shared > gpu.shared:
        raise CompileError(
            "Triton", f"{source.name} needs {made.shared} bytes of shared memory, and there are {gpu.shared}"
        )
    parts = tuple(source.signature.items()), tuple(source.constants.items()), source.blocks, source.aligned
    entry = KeptKernel(source.name, source.text, *parts, made)
    return Built(source, made, key if kept is not None and kept.store(key, _CODEC.encode(entry)) else "")


def find_built(key: str, kept: Store) -> Built | None:
    """What is kept under this name; None if there is no such thing."""
    data = kept.load(key)
    try:
        found = None if data is None else _CODEC.decode(data)
    except ValueError:
        return None
    if not isinstance(found, KeptKernel):
        return None
    facts = dict(found.signature), dict(found.constants), found.blocks, KernelInfo(found.name), found.aligned
    return Built(Source(found.name, found.text, *facts), found.cubin, key)


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
    return Cubin(made.asm["cubin"], 32 * told.num_warps, told.shared)


def function_of(source: Source) -> Any:
    """The function as Triton has it; it reads the text by the file's name."""
    file = f"<{source.name}>"
    linecache.cache[file] = (len(source.text), None, source.text.splitlines(True), file)
    names: dict[str, Any] = {"__name__": source.name}
    exec(compile(source.text, file, "exec"), names)
    return names[source.name]


@cache
def triton_version() -> str:
    """Of the Triton that is installed: its metadata is a file."""
    try:
        return version("triton")
    except PackageNotFoundError:
        raise CompileError("Triton", MISSING) from None
