"""Byte arrays and files in memory that the trace has made. Others may share those from outside: they are handed on."""

from __future__ import annotations

import io
from typing import Any

from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, rule_for
from onegraph.capture.heap.types.objects import Objects


@rule_for(bytearray)
class ByteArrays(Objects):
    def blank_of(self, cls: type) -> type:
        return bytearray

    def refill(self, rebuild: Rebuilding, name: str, value: Any) -> None:
        rebuild.lines.append(f"{rebuild.const(bytearray.extend)}({name}, {bytes(value)!r})")


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
