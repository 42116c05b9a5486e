"""Local variables, cells, globals, names of class bodies, imports."""

from __future__ import annotations

from types import CellType
from typing import Any

from onegraph.capture.bytecode import FREE_MARK, Instr
from onegraph.capture.interp.frame import NULL, Frame
from onegraph.capture.interp.ops.table import opcode


def unbound(name: str) -> UnboundLocalError:
    return UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")


@opcode("LOAD_FAST", "LOAD_FAST_CHECK")
def load_fast(machine: Any, frame: Frame, instr: Instr) -> None:
    try:
        frame.stack.append(frame.locals[instr.arg])
        return
    except KeyError:
        pass
    raise unbound(instr.arg)


@opcode("STORE_FAST")
def store_fast(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.locals[instr.arg] = frame.stack.pop()


@opcode("DELETE_FAST")
def delete_fast(machine: Any, frame: Frame, instr: Instr) -> None:
    if instr.arg not in frame.locals:
        raise unbound(instr.arg)
    del frame.locals[instr.arg]


@opcode("LOAD_CLOSURE")
def load_closure(machine: Any, frame: Frame, instr: Instr) -> None:
    name = instr.arg
    slot = frame.cells[name] if name in frame.cells else frame.locals.get(name, NULL)
    if slot is NULL:
        raise unbound(name)
    frame.stack.append(slot)


@opcode("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(machine: Any, frame: Frame, instr: Instr) -> None:
    name = instr.arg
    slots = frame.cells if name in frame.cells else frame.locals
    frame.stack.append(slots.pop(name, NULL))


@opcode("STORE_FAST_MAYBE_NULL")
def store_fast_maybe_null(machine: Any, frame: Frame, instr: Instr) -> None:
    """A cell is stored where an inlined comprehension gives a cell variable back."""
    name, slot = instr.arg, frame.stack.pop()
    frame.cells.pop(name, None)
    frame.locals.pop(name, None)
    if type(slot) is CellType and name in frame.bytecode.code.co_cellvars + frame.bytecode.code.co_freevars:
        frame.cells[name] = slot
    elif slot is not NULL:
        frame.locals[name] = slot


@opcode("MAKE_CELL")
def make_cell(machine: Any, frame: Frame, instr: Instr) -> None:
    name = instr.arg
    frame.cells[name] = machine.make_cell(frame.locals.pop(name, NULL))


@opcode("LOAD_DEREF")
def load_deref(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(machine.load_cell(frame, frame.cells[instr.arg], instr.arg))


@opcode("STORE_DEREF")
def store_deref(machine: Any, frame: Frame, instr: Instr) -> None:
    machine.store_cell(frame, frame.cells[instr.arg], instr.arg, frame.stack.pop())


@opcode("DELETE_DEREF")
def delete_deref(machine: Any, frame: Frame, instr: Instr) -> None:
    machine.delete_cell(frame, frame.cells[instr.arg], instr.arg)


@opcode("LOAD_GLOBAL")
def load_global(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(machine.load_global(frame, instr.arg))


@opcode("STORE_GLOBAL")
def store_global(machine: Any, frame: Frame, instr: Instr) -> None:
    machine.store_global(frame, instr.arg, frame.stack.pop())


@opcode("DELETE_GLOBAL")
def delete_global(machine: Any, frame: Frame, instr: Instr) -> None:
    machine.delete_global(frame, instr.arg)


@opcode("LOAD_NAME")
def load_name(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(machine.load_name(frame, instr.arg))


@opcode("STORE_NAME")
def store_name(machine: Any, frame: Frame, instr: Instr) -> None:
    machine.store_name(frame, instr.arg, frame.stack.pop())


@opcode("DELETE_NAME")
def delete_name(machine: Any, frame: Frame, instr: Instr) -> None:
    machine.delete_name(frame, instr.arg)


@opcode("LOAD_LOCALS")
def load_locals(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(frame.namespace)


@opcode("LOAD_FROM_DICT_OR_DEREF")
def load_from_dict_or_deref(machine: Any, frame: Frame, instr: Instr) -> None:
    name = instr.arg
    value = machine.find_name(frame.stack.pop(), name.removesuffix(FREE_MARK))
    if value is NULL:
        value = machine.load_cell(frame, frame.cells[name], name)
    frame.stack.append(value)


@opcode("LOAD_FROM_DICT_OR_GLOBALS")
def load_from_dict_or_globals(machine: Any, frame: Frame, instr: Instr) -> None:
    value = machine.find_name(frame.stack.pop(), instr.arg)
    frame.stack.append(machine.load_global(frame, instr.arg) if value is NULL else value)


@opcode("SETUP_ANNOTATIONS")
def setup_annotations(machine: Any, frame: Frame, instr: Instr) -> None:
    if machine.find_name(frame.namespace, "__annotations__") is NULL:
        machine.setitem(frame.namespace, "__annotations__", {})


@opcode("LOAD_BUILD_CLASS")
def load_build_class(machine: Any, frame: Frame, instr: Instr) -> None:
    if "__build_class__" not in frame.builtins:
        raise NameError("__build_class__ not found")
    frame.stack.append(frame.builtins["__build_class__"])


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(AssertionError)


@opcode("IMPORT_NAME")
def import_name(machine: Any, frame: Frame, instr: Instr) -> None:
    names = frame.stack.pop()
    frame.stack[-1] = machine.import_name(frame, instr.arg, names, frame.stack[-1])


@opcode("IMPORT_FROM")
def import_from(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(machine.import_from(frame.stack[-1], instr.arg))
