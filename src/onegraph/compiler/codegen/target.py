"""The machine that is compiled for, and the step from LLVM text to addresses of functions."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock

import llvmlite.binding as llvm
import torch

_LOCK = Lock()  # LLVM's global context is not safe to share
_OPENMP = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")


@dataclass(frozen=True, slots=True)
class Compiled:
    """Native code; it lives as long as this object. `addresses` are those of the functions asked for."""

    addresses: Mapping[str, int]
    engine: object


@cache
def machine(cpu: str = "") -> llvm.TargetMachine:
    """The target machine: this one, or the named cpu of the same architecture."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    _bind_openmp()
    target = llvm.Target.from_default_triple()
    features = "" if cpu else llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=cpu or llvm.get_host_cpu_name(), features=features, opt=2)


def _bind_openmp() -> None:
    """Threads are those of the OpenMP library that torch itself runs on: one pool in the process, not two."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    for name in _OPENMP:
        llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)


def optimized(text: str, cpu: str = "") -> llvm.ModuleRef:
    """The module, parsed and cleaned up. Vectors are explicit, invariants are placed: a light pipeline is enough."""
    target = machine(cpu)
    module = llvm.parse_assembly(text)
    module.triple = target.triple
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=1))
    passes.run(module, builder)
    return module


def compile_text(text: str, names: Sequence[str], cpu: str = "") -> Compiled:
    """Native code of the module."""
    with _LOCK:
        module = optimized(text, cpu)
        target = llvm.Target.from_default_triple()
        features = llvm.get_host_cpu_features().flatten()
        own = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2, jit=True)
        engine = llvm.create_mcjit_compiler(module, own)
        engine.finalize_object()
        return Compiled({name: engine.get_function_address(name) for name in names}, engine)


def assembly(text: str, cpu: str = "") -> str:
    """The module as assembly text."""
    with _LOCK:
        return machine(cpu).emit_assembly(optimized(text, cpu))
