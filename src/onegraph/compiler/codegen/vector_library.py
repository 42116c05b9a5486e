"""Functions of vectors from SLEEF, which torch's own library carries: for what has no vector code of ours.

    pow of <64 x float> with AVX-512    four calls of Sleef_powf16_u10avx512f
    erfc of <8 x double> with AVX2      two calls of Sleef_erfcd4_u15avx2

A torch without them, another machine and single elements get the C library's functions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import torch

from onegraph.base.dataclass import dataclass
from onegraph.ir.types import F32, F64, DType

# How exact each is, as SLEEF names it: u10 is 1.0 units in the last place. Its asinh and acosh overflow for large
# numbers, where eager's do not.
_ACCURACY = dict.fromkeys(
    "sin cos tan asin acos atan atan2 sinh cosh atanh pow lgamma exp2 log2 log10 erf".split(), "u10"
) | {"hypot": "u05", "erfc": "u15", "nextafter": ""}
_REGISTERS = {"avx512f": 64, "avx2": 32}  # bytes of a vector, by the instructions


@dataclass(frozen=True, slots=True)
class VectorFunction:
    """A function of SLEEF and how many lanes it takes."""

    symbol: str
    lanes: int


@cache
def torch_library() -> ctypes.CDLL:
    return ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))


@cache
def addresses() -> Mapping[str, int]:
    """Where the functions are, by symbol: those that torch's library shows."""
    library, found = torch_library(), {}
    for name in _ACCURACY:
        for dtype in (F32, F64):
            for instructions in _REGISTERS:
                symbol = _function(name, dtype, instructions).symbol
                if hasattr(library, symbol):
                    found[symbol] = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0
    return found


def is_vector_function(symbol: str) -> bool:
    """Whether this is the name of such a function, whether there is one or not."""
    return symbol.startswith("Sleef_")


def vector_function(name: str, dtype: DType, lanes: int, instructions: str) -> VectorFunction | None:
    """The function for so many lanes or a divisor of them; None if there is none."""
    if name not in _ACCURACY or instructions not in _REGISTERS or dtype not in (F32, F64):
        return None
    found = _function(name, dtype, instructions)
    return found if lanes % found.lanes == 0 and found.symbol in addresses() else None


def _function(name: str, dtype: DType, instructions: str) -> VectorFunction:
    lanes = _REGISTERS[instructions] // dtype.size
    return VectorFunction(f"Sleef_{name}{'f' if dtype is F32 else 'd'}{lanes}_{_ACCURACY[name]}{instructions}", lanes)
