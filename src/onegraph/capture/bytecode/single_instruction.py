"""A native instruction on its own: where CPython's behaviour is to be had as it is, its own instruction is run."""

from __future__ import annotations

import builtins
from functools import lru_cache
from types import FunctionType
from typing import Any

from onegraph.capture.bytecode import Bytecode, Instr, decode, encode


def _template() -> None:
    """The code whose fields single instructions borrow."""


@lru_cache(maxsize=256)
def native_function(op: str, arg: Any, inputs: int, outputs: int) -> FunctionType:
    """A function that puts its arguments on the stack, runs one instruction and returns the top, or all as a tuple."""
    names = tuple(f"value{index}" for index in range(inputs))
    instrs = [Instr("RESUME", 0), *(Instr("LOAD_FAST", name) for name in names), Instr(op, arg)]
    if outputs > 1:
        instrs.append(Instr("BUILD_TUPLE", outputs))
    instrs.append(Instr("RETURN_VALUE"))
    template = decode(_template.__code__)
    code = encode(
        Bytecode(template.code, tuple(instrs), ()),
        co_argcount=inputs, co_varnames=names, co_name=op.lower(), co_qualname=op.lower(),
    )  # fmt: skip
    return FunctionType(code, {"__name__": __name__, "__builtins__": builtins})


def run_native_instruction(instr: Instr, values: tuple[Any, ...], outputs: int = 1) -> Any:
    """The result of one instruction on `values`."""
    return native_function(instr.op, instr.arg, len(values), outputs)(*values)
