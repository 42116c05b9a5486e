"""Building and taking apart containers; pattern matching."""

from __future__ import annotations

from typing import Any

from onegraph.capture.bytecode.frame import NULL, Frame
from onegraph.capture.bytecode.instruction import Instr
from onegraph.capture.bytecode.opcode import opcode
from onegraph.capture.bytecode.rows import read_unpack_ex, write_unpack_ex


def _popn(stack: list[Any], count: int) -> list[Any]:
    if not count:
        return []
    values = stack[-count:]
    del stack[-count:]
    return values


@opcode("BUILD_TUPLE number: item*number -- tuple")
def build_tuple(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(tuple(_popn(frame.stack, instr.arg)))


@opcode("BUILD_LIST number: item*number -- list")
def build_list(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(_popn(frame.stack, instr.arg))


@opcode("BUILD_SET number: item*number -- set")
def build_set(machine: Any, frame: Frame, instr: Instr) -> None:
    made: set[Any] = set()
    base = len(frame.stack) - instr.arg
    for item in frame.stack[base:]:
        machine.set_add(made, item)
    del frame.stack[base:]
    frame.stack.append(made)


@opcode("BUILD_STRING number: part*number -- text")
def build_string(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append("".join(_popn(frame.stack, instr.arg)))


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


@opcode("BUILD_SLICE number: bound*number -- slice")
def build_slice(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(slice(*_popn(frame.stack, instr.arg)))


@opcode("LIST_APPEND number: list between*number-1 item -- list between*number-1")
def list_append(machine: Any, frame: Frame, instr: Instr) -> None:
    """The argument counts from the top after popping."""
    item = frame.stack.pop()
    frame.stack[-instr.arg].append(item)


@opcode("SET_ADD number: set between*number-1 item -- set between*number-1")
def set_add(machine: Any, frame: Frame, instr: Instr) -> None:
    item = frame.stack.pop()
    machine.set_add(frame.stack[-instr.arg], item)


@opcode("MAP_ADD number: dict between*number-1 key value -- dict between*number-1")
def map_add(machine: Any, frame: Frame, instr: Instr) -> None:
    key, value = _popn(frame.stack, 2)
    machine.map_add(frame.stack[-instr.arg], key, value)


@opcode("LIST_EXTEND number: list between*number-1 items -- list between*number-1")
def list_extend(machine: Any, frame: Frame, instr: Instr) -> None:
    items = frame.stack.pop()
    machine.list_extend(frame.stack[-instr.arg], items)


@opcode("SET_UPDATE number: set between*number-1 items -- set between*number-1")
def set_update(machine: Any, frame: Frame, instr: Instr) -> None:
    items = frame.stack.pop()
    machine.set_update(frame.stack[-instr.arg], items)


@opcode("DICT_UPDATE number: dict between*number-1 other -- dict between*number-1")
def dict_update(machine: Any, frame: Frame, instr: Instr) -> None:
    other = frame.stack.pop()
    machine.dict_update(frame.stack[-instr.arg], other)


@opcode("DICT_MERGE number: ... dict between*number-1 other -- dict between*number-1")
def dict_merge(machine: Any, frame: Frame, instr: Instr) -> None:
    """Keyword arguments for the callable whose pair is below the positional arguments."""
    other = frame.stack.pop()
    at = len(frame.stack) - instr.arg
    first, second = frame.stack[at - 3 : at - 1]
    machine.dict_merge(frame.stack[at], other, second if first is NULL else first)


@opcode("UNPACK_SEQUENCE number: sequence -- item*number")
def unpack_sequence(machine: Any, frame: Frame, instr: Instr) -> None:
    """The first item comes to the top."""
    items = machine.unpack(frame.stack[-1], instr.arg)
    frame.stack.pop()
    frame.stack += items[::-1]


@opcode("UNPACK_EX before after: iterable -- last*after list first*before", read=read_unpack_ex, write=write_unpack_ex)
def unpack_ex(machine: Any, frame: Frame, instr: Instr) -> None:
    items = machine.unpack_ex(frame.stack[-1], *instr.arg)
    frame.stack.pop()
    frame.stack += items[::-1]


@opcode("GET_LEN: subject -- subject length")
def get_len(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(machine.length(frame.stack[-1]))


@opcode("MATCH_MAPPING: subject -- subject bool")
def match_mapping(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(bool(type(frame.stack[-1]).__flags__ & 1 << 6))


@opcode("MATCH_SEQUENCE: subject -- subject bool")
def match_sequence(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(bool(type(frame.stack[-1]).__flags__ & 1 << 5))


@opcode("MATCH_KEYS: subject keys -- subject keys values")
def match_keys(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(machine.match_keys(frame.stack[-2], frame.stack[-1]))


@opcode("MATCH_CLASS number: subject class names -- attributes")
def match_class(machine: Any, frame: Frame, instr: Instr) -> None:
    subject, cls, names = frame.stack[-3:]
    result = machine.match_class(subject, cls, instr.arg, names)
    del frame.stack[-3:]
    frame.stack.append(result)
