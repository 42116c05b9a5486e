"""Elementary functions as functions of the module, for kernels that compute one of them very often.

Written out they are faster by the call. But what LLVM needs for one, forty instructions or so, it then needs each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onegraph.compiler.codegen.emitter import Emitter, Val, suffix
from onegraph.compiler.codegen.llvm_ops import FUNCTIONS, LLVM_OPS
from onegraph.ir.loop import Apply, Let, Statement

WRITTEN_OUT = 16  # times in one kernel, at most


def called_functions(body: Iterable[Statement]) -> frozenset[str]:
    """The names of the functions that are in these statements too often to be written out."""
    values = (statement.value for statement in body if isinstance(statement, Let))
    counts = Counter(value.op for value in values if isinstance(value, Apply) and value.op in FUNCTIONS)
    return frozenset(op for op, count in counts.items() if count > WRITTEN_OUT)


def call(e: Emitter, op: str, *args: Val) -> Val:
    """The function of the operands, computed by a function of the module, which is defined if it is not yet."""
    args = e.aligned(*args)
    name = f"@og.{op}.{suffix(args[0])}"
    if name not in e.definitions:
        inside = Emitter(e.instructions)
        parameters = [Val(f"%x{k}", a.dtype, a.lanes) for k, a in enumerate(args)]
        result = LLVM_OPS[op](inside, *parameters)
        body = "\n  ".join([*inside.entry, *inside.regions[0].lines])
        head = f"define internal {args[0].type} {name}({', '.join(map(str, parameters))}) noinline"
        e.definitions[name] = f"{head} {{\n  {body}\n  ret {result}\n}}\n"
        e.definitions |= inside.definitions
        e.declarations |= inside.declarations
    first = args[0]  # of the result's type
    text = f"call {first.type} {name}({', '.join(map(str, args))})"
    return e.value(text, first.dtype, first.lanes, max(a.depth for a in args))
