"""From LLVM text to addresses of functions: native code for the cpu of this machine, or a named one."""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache

import llvmlite.binding as llvm
from llvmlite.binding.ffi import lib

from onegraph.base.disk_cache import DiskCache, key_of
from onegraph.base.errors import CompileError
from onegraph.base.locks import Lock
from onegraph.compiler.codegen.elf import symbols_of
from onegraph.compiler.codegen.linking import OPENMP, Compiled, has_functions
from onegraph.compiler.codegen.vector_library import addresses, torch_library

LOGGER = logging.getLogger("onegraph")
_LOCK = Lock()  # LLVM's global context is not safe to share
# A process forks between calls of LLVM: what it has begun in another thread would stay so in the child. The lock is
# llvmlite's own; without it, only a fork while another thread compiles is unsafe.
_CALLS = getattr(lib, "_lock", None)
if _CALLS is not None:
    os.register_at_fork(before=_CALLS.__enter__, after_in_parent=_CALLS.__exit__, after_in_child=_CALLS.__exit__)
else:
    LOGGER.warning("this llvmlite has no lock that is known: do not fork while another thread compiles")
_ROOM = 64 << 20, 256  # bytes that LLVM may need: for a small module, and for each character of a large one


@cache
def _target() -> llvm.Target:
    """This machine's kind of target, set up with torch's functions for threads and for vectors."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    openmp = {name: ctypes.cast(getattr(torch_library(), name), ctypes.c_void_p).value for name in OPENMP}
    for name, address in {**openmp, **addresses()}.items():
        llvm.add_symbol(name, address)
    return llvm.Target.from_default_triple()


def machine(cpu: str = "") -> llvm.TargetMachine:
    """The target machine: this one, or the named cpu of the same architecture."""
    name, features = description(cpu)
    return _target().create_target_machine(cpu=name, features=features, opt=2, jit=True)


@cache
def description(cpu: str = "") -> tuple[str, str]:
    """The name of a cpu and its features."""
    return (cpu, "") if cpu else (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


def instructions(cpu: str = "") -> str:
    """What code for the cpu may use besides portable vectors: avx512f, avx2 or none; known of this machine alone."""
    features = set(description(cpu)[1].split(","))
    return "avx512f" if "+avx512f" in features else "avx2" if features >= {"+avx2", "+fma"} else ""


def optimized(text: str, target: llvm.TargetMachine) -> llvm.ModuleRef:
    """The module, parsed and cleaned up. Vectors are explicit, invariants are placed: a light pipeline is enough."""
    module = llvm.parse_assembly(text)
    module.triple = target.triple
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=1))
    passes.run(module, builder)
    return module


def need_room(text: str) -> None:
    """Raise MemoryError where LLVM might not find memory for this module: it would end the process."""
    try:
        mmap.mmap(-1, max(_ROOM[0], _ROOM[1] * len(text))).close()
    except OSError as error:
        raise MemoryError("there is no memory left to compile a kernel in") from error


def compile_text(text: str, names: Sequence[str], cpu: str = "", kept: DiskCache | None = None) -> Compiled:
    """Native code of the module, from the cache if it holds it.

    Raises:
        MemoryError: if there is not enough for it.
    """
    with _LOCK:
        key = key_of(text, *description(cpu), str(llvm.llvm_version_info))
    # Who waits for another process holds no lock that others here wait for.
    with nullcontext() if kept is None else kept.find_or_make(key) as found, _LOCK:
        need_room(text)
        target = machine(cpu)
        is_found = found is not None and has_functions(found, names)
        code = found if found is not None and is_found else target.emit_object(optimized(text, target))
        if missing := missing_functions(code):
            raise CompileError("native code", f"this process has not what it calls: {', '.join(missing)}")
        if kept is not None and not is_found:
            kept.store(key, code)
        engine = linked(code, target)
        addresses = {name: engine.get_function_address(name) for name in names}
        return Compiled(addresses, engine, code, is_found, key if kept is not None else "")


def linked_object(code: bytes, names: Sequence[str], cpu: str, key: str) -> Compiled | None:
    """The functions of an object file that is kept as `key`; None if it cannot be used here."""
    with _LOCK:
        target = machine(cpu)  # before what is missing is looked for: it brings functions of vectors
        if missing_functions(code):
            return None
        engine = linked(code, target)
        addresses = {name: engine.get_function_address(name) for name in names}
        return Compiled(addresses, engine, code, True, key)


def linked(code: bytes, target: llvm.TargetMachine) -> llvm.ExecutionEngine:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def identity(cpu: str = "") -> str:
    """What native code for the cpu depends on besides its text."""
    return " ".join((*description(cpu), str(llvm.llvm_version_info)))


def missing_functions(code: bytes) -> list[str]:
    """What the code calls and nothing in this process provides: LLVM would call the address zero."""
    wanted = [symbol.name for symbol in symbols_of(code) if symbol.name and not symbol.section]
    return [name for name in wanted if llvm.address_of_symbol(name) is None and not hasattr(ctypes.pythonapi, name)]


def assembly(text: str, cpu: str = "") -> str:
    """The module as assembly text."""
    with _LOCK:
        target = machine(cpu)
        listing: str = target.emit_assembly(optimized(text, target))
        return listing
