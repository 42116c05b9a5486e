"""Generators that outlive the trace: each is made again as a generator that waits at the same place.

def resumed(values...):         the generator's own bytecode behind a prologue
    rebuild the stack
    yield                       stands for the yield that it waits at: the residual code goes up to here
    ...                         the rest of the original
"""

from __future__ import annotations

from types import FunctionType, GeneratorType
from typing import Any

from onegraph.capture.breaks import CANNOT_REBUILD, GraphBreak
from onegraph.capture.lifetimes import Lifetimes
from onegraph.capture.recipes import recipe
from onegraph.capture.resume import Planner, Values, write_value
from onegraph.capture.resume_function import write_resume_function


def exhausted() -> Any:
    """A generator that has nothing to give."""
    return
    yield


@recipe(GeneratorType)
def rebuild_generator(rebuild: Any, value: Any) -> str:
    """A generator of the trace, started or not, or at its end."""
    reference, frame = rebuild.world.generators.get(id(value), (None, None))
    if reference is None or reference() is not value or value.gi_running:
        raise GraphBreak(CANNOT_REBUILD, what="generator")
    if value.gi_frame is None:
        code = exhausted.__code__.replace(
            co_name=frame.bytecode.code.co_name, co_filename=frame.bytecode.code.co_filename
        )
        name = rebuild.assign(f"{rebuild.const(FunctionType(code, frame.globals))}()")
        rebuild.lines.append(f"{rebuild.const(next)}({name}, None)")
    else:
        values = Values()
        keeps = Lifetimes(rebuild.world, rebuild.is_made).keeps
        made = Planner((frame,), values, keeps).generator(frame, value.gi_suspended)
        arguments = [write_value(rebuild, values.items[number]) for number in (*made.leading, *made.values)]
        name = rebuild.assign(f"{write_resume_function(rebuild, made.function)}({', '.join(arguments)})")
        if value.gi_suspended:
            rebuild.lines.append(f"{rebuild.const(next)}({name})")
    for attribute in ("__name__", "__qualname__"):
        rebuild.lines.append(f"{name}.{attribute} = {getattr(value, attribute)!r}")
    return name
