"""Building and taking apart containers; pattern matching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onegraph.capture.bytecode.frame import NULL, Frame
from onegraph.capture.bytecode.instruction import Instr
from onegraph.capture.bytecode.opcode import opcode, operation
from onegraph.capture.bytecode.rows import read_unpack_ex, write_unpack_ex


def _popn(stack: list[Any], count: int) -> list[Any]:
    if not count:
        return []
    values = stack[-count:]
    del stack[-count:]
    return values


def _built(text: str, make: Callable[[list[Any]], Any]) -> None:
    @opcode(text)
    def build(machine: Any, frame: Frame, instr: Instr) -> None:
        frame.stack.append(make(_popn(frame.stack, instr.arg)))


_built("BUILD_TUPLE number: item*number -- tuple", tuple)
_built("BUILD_LIST number: item*number -- list", list)
_built("BUILD_STRING number: part*number -- text", "".join)
_built("BUILD_SLICE number: bound*number -- slice", lambda bounds: slice(*bounds))


@opcode("BUILD_SET number: item*number -- set")
def build_set(machine: Any, frame: Frame, instr: Instr) -> None:
    made: set[Any] = set()
    base = len(frame.stack) - instr.arg
    for item in frame.stack[base:]:
        machine.set_add(made, item)
    del frame.stack[base:]
    frame.stack.append(made)


@opcode("BUILD_MAP number: key*number value*number -- dict")
def build_map(machine: Any, frame: Frame, instr: Instr) -> None:
    made: dict[Any, Any] = {}
    base = len(frame.stack) - 2 * instr.arg
    pairs = frame.stack[base:]
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        machine.map_add(made, key, value)
    del frame.stack[base:]
    frame.stack.append(made)


@opcode("BUILD_CONST_KEY_MAP number: value*number keys -- dict")
def build_const_key_map(machine: Any, frame: Frame, instr: Instr) -> None:
    keys = frame.stack.pop()
    frame.stack.append(dict(zip(keys, _popn(frame.stack, instr.arg), strict=True)))


def _added(op: str, added: str, add: Callable[..., None]) -> None:
    """To a container that is below on the stack: the argument counts from the top after popping."""
    kind, count = op.partition("_")[0].lower(), len(added.split())

    @opcode(f"{op} number: {kind} between*number-1 {added} -- {kind} between*number-1")
    def handler(machine: Any, frame: Frame, instr: Instr) -> None:
        stack = frame.stack
        add(machine, stack[-instr.arg - count], *stack[-count:])
        del stack[-count:]


_added("LIST_APPEND", "item", lambda machine, container, item: container.append(item))
_added("SET_ADD", "item", lambda machine, container, item: machine.set_add(container, item))
_added("MAP_ADD", "key value", lambda machine, container, key, value: machine.map_add(container, key, value))
_added("LIST_EXTEND", "items", lambda machine, container, items: machine.list_extend(container, items))
_added("SET_UPDATE", "items", lambda machine, container, items: machine.set_update(container, items))
_added("DICT_UPDATE", "other", lambda machine, container, other: machine.dict_update(container, other))


@opcode("DICT_MERGE number: ... dict between*number-1 other -- dict between*number-1")
def dict_merge(machine: Any, frame: Frame, instr: Instr) -> None:
    """Keyword arguments for the callable whose pair is below the positional arguments."""
    other = frame.stack.pop()
    at = len(frame.stack) - instr.arg
    first, second = frame.stack[at - 3 : at - 1]
    machine.dict_merge(frame.stack[at], other, second if first is NULL else first)


# The first item comes to the top.
operation(
    "UNPACK_SEQUENCE number: sequence -- item*number",
    lambda machine, count, sequence: machine.unpack(sequence, count)[::-1],
)
operation(
    "UNPACK_EX before after: iterable -- last*after list first*before",
    lambda machine, counts, iterable: machine.unpack_ex(iterable, *counts)[::-1],
    read=read_unpack_ex,
    write=write_unpack_ex,
)


def _has_flag(value: Any, bit: int) -> bool:
    return bool(type(value).__flags__ & 1 << bit)


operation("GET_LEN: subject -- subject length", lambda machine, _, subject: machine.length(subject))
operation("MATCH_MAPPING: subject -- subject bool", lambda machine, _, subject: _has_flag(subject, 6))
operation("MATCH_SEQUENCE: subject -- subject bool", lambda machine, _, subject: _has_flag(subject, 5))
operation(
    "MATCH_KEYS: subject keys -- subject keys values",
    lambda machine, _, subject, keys: machine.match_keys(subject, keys),
)
operation(
    "MATCH_CLASS number: subject class names -- attributes",
    lambda machine, count, subject, cls, names: machine.match_class(subject, cls, count, names),
)
