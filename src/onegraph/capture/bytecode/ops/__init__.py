"""The instructions, a row and a handler each: importing them fills the table. The rows:"""

from onegraph.capture.bytecode.opcode import OPCODES
from onegraph.capture.bytecode.ops import (
    calls,
    containers,
    control,
    exceptions,
    functions,
    generators,
    names,
    operators,
    stack,
)

__doc__ += "".join(f"\n    {row}" for row in OPCODES.values())
__all__ = [
    "OPCODES",
    "calls",
    "containers",
    "control",
    "exceptions",
    "functions",
    "generators",
    "names",
    "operators",
    "stack",
]
