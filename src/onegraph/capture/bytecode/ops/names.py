"""Local variables, cells, globals, names of class bodies, imports."""

from __future__ import annotations

from types import CellType
from typing import Any

from onegraph.capture.bytecode.frame import NULL, Frame
from onegraph.capture.bytecode.instruction import FREE_MARK, Instr
from onegraph.capture.bytecode.opcode import opcode, operation
from onegraph.capture.bytecode.rows import read_fast, read_store_fast, write_slotted


def unbound(name: str) -> UnboundLocalError:
    return UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")


@opcode("LOAD_FAST variable: -- value", "reads", read=read_fast("LOAD_FAST"))
@opcode("LOAD_FAST_CHECK variable: -- value", "reads", read=read_fast("LOAD_FAST_CHECK"))
def load_fast(machine: Any, frame: Frame, instr: Instr) -> None:
    """`UnboundLocalError` if it is not bound."""
    try:
        frame.stack.append(frame.locals[instr.arg])
        return
    except KeyError:
        pass
    raise unbound(instr.arg)


@opcode("STORE_FAST variable: any --", "binds", "stays", read=read_store_fast)
def store_fast(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.locals[instr.arg] = frame.stack.pop()


@opcode("DELETE_FAST variable: --", "reads", "unbinds")
def delete_fast(machine: Any, frame: Frame, instr: Instr) -> None:
    if instr.arg not in frame.locals:
        raise unbound(instr.arg)
    del frame.locals[instr.arg]


@opcode("LOAD_CLOSURE variable: -- slot", "reads", "stays")
def load_closure(machine: Any, frame: Frame, instr: Instr) -> None:
    """The raw slot of a cell or free variable: its cell, or its value where an inlined comprehension uses the name."""
    name = instr.arg
    slot = frame.cells[name] if name in frame.cells else frame.locals.get(name, NULL)
    if slot is NULL:
        raise unbound(name)
    frame.stack.append(slot)


@opcode("LOAD_FAST_AND_CLEAR variable: -- slot", "reads", "unbinds", "stays")
def load_fast_and_clear(machine: Any, frame: Frame, instr: Instr) -> None:
    """The raw slot: cell, value or NULL."""
    name = instr.arg
    slots = frame.cells if name in frame.cells else frame.locals
    frame.stack.append(slots.pop(name, NULL))


@opcode("STORE_FAST_MAYBE_NULL variable: slot --", "unbinds", "stays", write=write_slotted("STORE_FAST"))
def store_fast_maybe_null(machine: Any, frame: Frame, instr: Instr) -> None:
    """A cell is stored where an inlined comprehension gives a cell variable back."""
    name, slot = instr.arg, frame.stack.pop()
    frame.cells.pop(name, None)
    frame.locals.pop(name, None)
    if type(slot) is CellType and name in frame.bytecode.code.co_cellvars + frame.bytecode.code.co_freevars:
        frame.cells[name] = slot
    elif slot is not NULL:
        frame.locals[name] = slot


@opcode("MAKE_CELL variable: --", "stays")
def make_cell(machine: Any, frame: Frame, instr: Instr) -> None:
    """Puts the slot's value into a new cell in the same slot."""
    name = instr.arg
    frame.cells[name] = machine.make_cell(frame.locals.pop(name, NULL))


@opcode("LOAD_DEREF variable: -- value", "stays")
def load_deref(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(machine.load_cell(frame, frame.cells[instr.arg], instr.arg))


@opcode("STORE_DEREF variable: value --", "stays")
def store_deref(machine: Any, frame: Frame, instr: Instr) -> None:
    machine.store_cell(frame, frame.cells[instr.arg], instr.arg, frame.stack.pop())


@opcode("DELETE_DEREF variable: --", "stays")
def delete_deref(machine: Any, frame: Frame, instr: Instr) -> None:
    machine.delete_cell(frame, frame.cells[instr.arg], instr.arg)


@opcode("LOAD_GLOBAL name: -- value", "globals")
def load_global(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(machine.load_global(frame, instr.arg))


@opcode("STORE_GLOBAL name: value --", "globals")
def store_global(machine: Any, frame: Frame, instr: Instr) -> None:
    machine.store_global(frame, instr.arg, frame.stack.pop())


@opcode("DELETE_GLOBAL name: --", "globals")
def delete_global(machine: Any, frame: Frame, instr: Instr) -> None:
    machine.delete_global(frame, instr.arg)


@opcode("LOAD_NAME name: -- value", "stays")
def load_name(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(machine.load_name(frame, instr.arg))


@opcode("STORE_NAME name: value --", "stays")
def store_name(machine: Any, frame: Frame, instr: Instr) -> None:
    machine.store_name(frame, instr.arg, frame.stack.pop())


@opcode("DELETE_NAME name: --", "stays")
def delete_name(machine: Any, frame: Frame, instr: Instr) -> None:
    machine.delete_name(frame, instr.arg)


@opcode("LOAD_LOCALS: -- mapping", "stays")
def load_locals(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(frame.namespace)


@opcode("LOAD_FROM_DICT_OR_DEREF variable: mapping -- value", "stays")
def load_from_dict_or_deref(machine: Any, frame: Frame, instr: Instr) -> None:
    name = instr.arg
    value = machine.find_name(frame.stack.pop(), name.removesuffix(FREE_MARK))
    if value is NULL:
        value = machine.load_cell(frame, frame.cells[name], name)
    frame.stack.append(value)


@opcode("LOAD_FROM_DICT_OR_GLOBALS name: mapping -- value", "stays")
def load_from_dict_or_globals(machine: Any, frame: Frame, instr: Instr) -> None:
    value = machine.find_name(frame.stack.pop(), instr.arg)
    frame.stack.append(machine.load_global(frame, instr.arg) if value is NULL else value)


@opcode("SETUP_ANNOTATIONS: --", "stays")
def setup_annotations(machine: Any, frame: Frame, instr: Instr) -> None:
    if machine.find_name(frame.namespace, "__annotations__") is NULL:
        machine.setitem(frame.namespace, "__annotations__", {})


@opcode("LOAD_BUILD_CLASS: -- function")
def load_build_class(machine: Any, frame: Frame, instr: Instr) -> None:
    if "__build_class__" not in frame.builtins:
        raise NameError("__build_class__ not found")
    frame.stack.append(frame.builtins["__build_class__"])


operation("LOAD_ASSERTION_ERROR: -- class", lambda machine, _: AssertionError)


@opcode("IMPORT_NAME name: level names -- module", "globals")
def import_name(machine: Any, frame: Frame, instr: Instr) -> None:
    names = frame.stack.pop()
    frame.stack[-1] = machine.import_name(frame, instr.arg, names, frame.stack[-1])


operation("IMPORT_FROM name: module -- module value", lambda machine, name, module: machine.import_from(module, name))
