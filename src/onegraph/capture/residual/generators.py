"""Generators that outlive the trace: each is made again as a generator that waits at the same place.

def resumed(values...):         the generator's own bytecode behind a prologue
    rebuild the stack
    yield                       stands for the yield that it waits at: the residual code goes up to here
    ...                         the rest of the original
"""

from __future__ import annotations

from collections.abc import Iterator
from types import GeneratorType
from typing import Any

from onegraph.capture.breaks import CANNOT_REBUILD, GraphBreak
from onegraph.capture.bytecode import Bytecode
from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, rule_for
from onegraph.capture.heap.world import World
from onegraph.capture.resume.continuation import Planner, Values, write_value
from onegraph.capture.resume.resume_function import write_resume_function


def exhausted() -> Any:
    """A generator that has nothing to give."""
    return
    yield


@rule_for(GeneratorType)
class Generators(TypeRule):
    """A generator of the trace, started or not, or at its end."""

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        frame = rebuild.world.generators.get(id(value))
        if frame is None or frame.generator() is not value or value.gi_running:
            raise GraphBreak(CANNOT_REBUILD, what="generator")
        if value.gi_frame is None:
            name = rebuild.assign(f"{rebuild.const(exhausted)}()")
            rebuild.lines.append(f"{rebuild.const(next)}({name}, None)")
        else:
            values = Values()
            made = Planner((frame,), values).generator(frame, value.gi_suspended)
            arguments = [write_value(rebuild, values.items[number]) for number in (*made.leading, *made.values)]
            name = rebuild.assign(f"{write_resume_function(rebuild, made.function)}({', '.join(arguments)})")
            if value.gi_suspended:
                rebuild.lines.append(f"{rebuild.const(next)}({name})")
        for attribute in ("__name__", "__qualname__"):
            rebuild.lines.append(f"{name}.{attribute} = {getattr(value, attribute)!r}")
        return name


def waiting(world: World) -> Iterator[GeneratorType[Any, Any, Any]]:
    """The generators of the trace that wait in a `try` or a `with`, whose code runs when they die or are closed."""
    for frame in world.generators.values():
        made = frame.generator()
        if made is not None and made.gi_suspended and is_protected(frame.bytecode, frame.ip):
            yield made


def is_protected(bytecode: Bytecode, at: int) -> bool:
    """Whether the program has a handler for what is raised at an instruction of a generator."""
    handler = bytecode.handler_at(at)
    while handler is not None and bytecode.instrs[handler.target].op == "CLEANUP_THROW":
        handler = bytecode.handler_at(handler.target)
    return handler is not None and bytecode.instrs[handler.target].arg != "STOPITERATION_ERROR"
