"""Byte arrays and files in memory that the trace has made. Others may share those from outside: they are handed on."""

from __future__ import annotations

import io

from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, rule_for
from onegraph.capture.heap.types.objects import with_attributes


@rule_for(bytearray)
class ByteArrays(TypeRule):
    def rebuild(self, rebuild: Rebuilding, value: bytearray) -> str:
        if type(value) is bytearray:
            return rebuild.assign(f"{rebuild.const(bytearray)}({bytes(value)!r})")
        name = rebuild.assign(f"{rebuild.const(bytearray.__new__)}({rebuild.value(type(value))})")
        rebuild.lines.append(f"{rebuild.const(bytearray.extend)}({name}, {bytes(value)!r})")
        return with_attributes(rebuild, value, name)


@rule_for(io.StringIO, io.BytesIO)
class Buffers(TypeRule):
    """A file in memory, at its place; what it has become by other means is not known."""

    def rebuild(self, rebuild: Rebuilding, value: io.StringIO | io.BytesIO) -> str:
        name = rebuild.assign(f"{rebuild.const(type(value))}()")
        if value.closed:
            rebuild.lines.append(f"{name}.close()")
            return name
        state = value.__getstate__()
        rebuild.lines.append(f"{name}.__setstate__({rebuild.value(state)})")
        return name
