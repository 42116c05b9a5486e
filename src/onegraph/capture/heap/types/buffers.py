"""Byte arrays, and files in memory. (Such a file from outside can only be handed on.)"""

from __future__ import annotations

import io
from typing import Any

from onegraph.capture.guards.source import Source, Through
from onegraph.capture.heap.type_rules import Record, TypeRule, rule_for
from onegraph.capture.heap.types.objects import begin_shadow, with_attributes
from onegraph.capture.heap.world import World


@rule_for(bytearray)
class ByteArrays(TypeRule):
    """Known by all of its bytes: it is read whole."""

    admits_subclasses = True

    def admit(self, world: World, real: bytearray, source: Source, guarded: bool) -> Any:
        shadow = bytearray.__new__(type(real))
        bytearray.extend(shadow, real)
        begin_shadow(world, real, shadow, source, guarded)
        if guarded:
            world.guard(Through(source, bytes_of), "equal", bytes_of(real))
        world.record(shadow, real, source, guarded, bytes_of(real))
        return shadow

    def rebuild(self, rebuild: Any, value: bytearray) -> str:
        if type(value) is bytearray:
            return rebuild.assign(f"{rebuild.const(bytearray)}({bytes_of(value)!r})")
        name = rebuild.assign(f"{rebuild.const(bytearray.__new__)}({rebuild.value(type(value))})")
        rebuild.lines.append(f"{rebuild.const(bytearray.extend)}({name}, {bytes_of(value)!r})")
        return with_attributes(rebuild, value, name)

    def differs(self, entry: Record) -> bool:
        return bytes_of(entry.shadow) != entry.snapshot

    def write(self, rebuild: Any, entry: Record) -> list[str]:
        target, written = rebuild.source(entry.source), bytes_of(entry.shadow)
        return [f"{rebuild.const(bytearray.__setitem__)}({target}, slice(None), {written!r})"]


def bytes_of(array: bytearray) -> bytes:
    """The bytes, read without the methods of a subclass."""
    return memoryview(array).tobytes()


@rule_for(io.StringIO, io.BytesIO)
class Buffers(TypeRule):
    """A file in memory, at its place; what it has become by other means is not known."""

    def rebuild(self, rebuild: Any, value: io.StringIO | io.BytesIO) -> str:
        name = rebuild.assign(f"{rebuild.const(type(value))}()")
        if value.closed:
            rebuild.lines.append(f"{name}.close()")
            return name
        state = value.__getstate__()
        rebuild.lines.append(f"{name}.__setstate__({rebuild.value(state)})")
        return name
