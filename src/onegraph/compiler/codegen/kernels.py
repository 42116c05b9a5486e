"""The native code of a program's kernels: equal kernels are compiled once per process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from onegraph.base.context import Context
from onegraph.compiler.codegen.disk_cache import DiskCache
from onegraph.compiler.codegen.module import KernelSource, module_text
from onegraph.compiler.codegen.target import compile_text, has_avx512
from onegraph.compiler.schedule.canonical import CanonicalKernel, canonical
from onegraph.ir.loop import Program
from onegraph.ir.plan import KernelInfo


@dataclass(frozen=True, slots=True)
class _Function:
    """A compiled kernel. It lives as long as the process: graphs that are dropped often come back."""

    address: int
    errors: tuple[tuple[str, str], ...]
    engine: object


@dataclass(frozen=True, slots=True)
class NativeCode:
    """`functions` has the number in `kernels` and `addresses` for each kernel of the program by name.

    `text` gives the LLVM text of all its kernels; `cached` says that nothing had to be compiled.
    """

    functions: Mapping[str, int]
    kernels: tuple[KernelInfo, ...]
    addresses: tuple[int, ...]
    text: Callable[[], str]
    cached: bool
    keep: object


_CACHE: dict[tuple[str, str], _Function] = {}


def compile_kernels(program: Program, cx: Context) -> NativeCode:
    """Compile the kernels that this process has not compiled yet, all in one module."""
    dtypes = {buffer.name: buffer.type.dtype for buffer in program.buffers}
    forms: dict[str, CanonicalKernel] = {}
    names: dict[str, str] = {}
    for kernel in program.kernels:
        form = canonical(kernel, dtypes)
        name = f"k{blake2b(form.text.encode(), digest_size=8).hexdigest()}"
        names[kernel.name] = name
        forms[name] = form
    cpu = cx.config.target_cpu
    missing = [name for name in forms if (cpu, name) not in _CACHE]
    cached = True
    if missing:
        made = module_text([_source(name, forms[name]) for name in missing], has_avx512(cpu))
        kept = DiskCache(cx.config.cache_dir / "objects") if cx.config.cache else None
        compiled = compile_text(made.text, missing, cpu, kept)
        cached = compiled.cached
        for name in missing:
            _CACHE[cpu, name] = _Function(compiled.addresses[name], made.errors[name], compiled.engine)
    found = [_CACHE[cpu, name] for name in forms]
    numbers = {name: number for number, name in enumerate(forms)}
    return NativeCode(
        {kernel: numbers[name] for kernel, name in names.items()},
        tuple(KernelInfo(name, function.errors) for name, function in zip(forms, found, strict=True)),
        tuple(function.address for function in found),
        lambda: module_text([_source(name, form) for name, form in forms.items()], has_avx512(cpu)).text,
        cached,
        tuple(function.engine for function in found),
    )


def _source(name: str, form: CanonicalKernel) -> KernelSource:
    return KernelSource(name, form.kernel, {f"p{k}": dtype for k, dtype in enumerate(form.dtypes)})
