"""The native code of a program's kernels: equal kernels of graphs that live are compiled once.

What no graph uses any more is freed; a graph that comes back finds its code on disk.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from onegraph.base.context import Context
from onegraph.base.disk_cache import cache_of
from onegraph.base.late import late_module
from onegraph.compiler.canonical import CanonicalKernel, canonical
from onegraph.compiler.codegen.loading import LIVING, Function
from onegraph.compiler.codegen.module import KernelSource, module_text
from onegraph.compiler.codegen.native import assembly, compile_text, instructions
from onegraph.compiler.kernel_facts import kernel_bytes, kernel_flops, kernel_name
from onegraph.compiler.target import Code, Machine
from onegraph.ir.loop import Program
from onegraph.ir.plan import KernelInfo

if TYPE_CHECKING:
    from onegraph.compiler.codegen.perf_map import tell_perf
else:  # for an option
    tell_perf = late_module("onegraph.compiler.codegen.perf_map").tell_perf


def compile_kernels(program: Program, cx: Context, machine: Machine) -> Code:
    """Compile the kernels that no living graph of this process has, all in one module."""
    dtypes = {buffer.name: buffer.type.dtype for buffer in program.buffers}
    sanitize = cx.config.sanitize
    forms: dict[str, CanonicalKernel] = {}
    names: dict[str, str] = {}
    begins: dict[str, tuple[int, ...]] = {}
    for kernel in program.kernels:
        form = canonical(kernel, dtypes, whole=sanitize)
        kind = "checked" if sanitize else kernel_name(form.kernel)
        name = f"{kind}_{blake2b(form.text.encode(), digest_size=8).hexdigest()}"
        names[kernel.name] = name
        begins[kernel.name] = form.begins
        forms[name] = form
    cpu = cx.config.target_cpu
    known = {name: function for name in forms if (function := LIVING.get((machine, cpu, name))) is not None}
    missing = [name for name in forms if name not in known]
    cached = True
    if missing:
        sources = [_source(name, forms[name]) for name in missing]
        made = module_text(sources, machine, instructions(cpu), sanitize)
        compiled = compile_text(made.text, missing, cpu, cache_of(cx.config, "objects"))
        cached = compiled.cached
        if cx.config.perf_map:
            tell_perf(compiled.code, compiled.addresses)
        for name in missing:
            function = Function(
                compiled.addresses[name], made.errors[name], made.accesses[name], compiled.engine, compiled.kept
            )
            known[name] = LIVING[machine, cpu, name] = function
    found = tuple(known[name] for name in forms)
    numbers = {name: number for number, name in enumerate(forms)}

    def text() -> str:
        sources = [_source(name, form) for name, form in forms.items()]
        return module_text(sources, machine, instructions(cpu), sanitize).text

    return Code(
        {kernel: numbers[name] for kernel, name in names.items()},
        tuple(_info(name, forms[name], each) for name, each in zip(forms, found, strict=True)),
        tuple(function.address for function in found),
        found,
        cached,
        text,
        {"llvm": text, "asm": lambda: assembly(text(), cpu)},
        begins,
        tuple(function.kept for function in found),
    )


def _info(name: str, form: CanonicalKernel, function: Function) -> KernelInfo:
    dtypes = {f"p{k}": dtype for k, dtype in enumerate(form.dtypes)}
    cost = kernel_bytes(form.kernel, dtypes), kernel_flops(form.kernel)
    return KernelInfo(name, function.errors, function.accesses, *cost)


def _source(name: str, form: CanonicalKernel) -> KernelSource:
    return KernelSource(name, form.kernel, {f"p{k}": dtype for k, dtype in enumerate(form.dtypes)})
