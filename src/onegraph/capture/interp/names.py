"""Names: cells, globals, namespaces of class bodies, imports."""

from __future__ import annotations

import sys
from types import CellType, ModuleType
from typing import Any

from onegraph.capture.bytecode import Instr
from onegraph.capture.bytecode.frame import NULL, Frame
from onegraph.capture.bytecode.single_instruction import run_native_instruction
from onegraph.capture.interp.parts import Part
from onegraph.capture.pyobject.exact_types import isinstance


class Names(Part):
    """The part of the machine that binds names."""

    def make_cell(self, value: Any) -> CellType:
        """A new cell with a value, or empty for NULL."""
        return CellType() if value is NULL else CellType(value)

    def load_cell(self, frame: Frame, cell: CellType, name: str) -> Any:
        """The contents of a cell."""
        try:
            return cell.cell_contents
        except ValueError:
            pass
        raise self._empty(frame, name)

    def store_cell(self, frame: Frame, cell: CellType, name: str, value: Any) -> None:
        """Set the contents of a cell."""
        cell.cell_contents = value

    def delete_cell(self, frame: Frame, cell: CellType, name: str) -> None:
        """Empty a cell."""
        self.load_cell(frame, cell, name)
        del cell.cell_contents

    def _empty(self, frame: Frame, name: str) -> NameError:
        code = frame.bytecode.code
        if name in code.co_freevars and name not in code.co_cellvars:
            return NameError(
                f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope",
                name=name,
            )
        return UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")

    def load_global(self, frame: Frame, name: str) -> Any:
        """A global or builtin name."""
        value = self.find_name(frame.globals, name)
        if value is NULL:
            value = self.find_name(frame.builtins, name)
        if value is NULL:
            raise NameError(f"name '{name}' is not defined", name=name)
        return value

    def store_global(self, frame: Frame, name: str, value: Any) -> None:
        """`global name; name = value`"""
        frame.globals[name] = value

    def delete_global(self, frame: Frame, name: str) -> None:
        """`global name; del name`"""
        if name not in frame.globals:
            raise NameError(f"name '{name}' is not defined", name=name)
        del frame.globals[name]

    def find_name(self, namespace: Any, name: str) -> Any:
        """The value of a name in a namespace, or NULL."""
        if type(namespace) is dict:
            return namespace.get(name, NULL)
        try:
            return self.getitem(namespace, name)
        except KeyError:
            return NULL

    def load_name(self, frame: Frame, name: str) -> Any:
        """A name in a class body or module."""
        value = self.find_name(frame.namespace, name)
        return self.load_global(frame, name) if value is NULL else value

    def store_name(self, frame: Frame, name: str, value: Any) -> None:
        """Bind a name in a class body or module."""
        self.setitem(frame.namespace, name, value)

    def delete_name(self, frame: Frame, name: str) -> None:
        """Unbind a name in a class body or module."""
        try:
            self.delitem(frame.namespace, name)
            return
        except KeyError:
            pass
        raise NameError(f"name '{name}' is not defined", name=name)

    def import_name(self, frame: Frame, name: str, names: Any, level: int) -> Any:
        """`import name`, `from name import names`"""
        importer = frame.builtins.get("__import__", NULL)
        if importer is NULL:
            raise ImportError("__import__ not found")
        namespace = None if frame.namespace is None else frame.namespace
        return self.call(importer, (name, frame.globals, namespace, names, level), {})

    def import_from(self, module: Any, name: str) -> Any:
        """One name of `from module import name`"""
        try:
            return self.getattr(module, name)
        except AttributeError:
            pass
        package = getattr(module, "__name__", None)
        found = sys.modules.get(f"{package}.{name}") if isinstance(package, str) else None
        if found is not None:
            return found
        return run_native_instruction(Instr("IMPORT_FROM", name), (without(module, name),), outputs=2)[1]

    def import_star(self, frame: Frame, module: Any) -> None:
        """`from module import *`"""
        if hasattr(module, "__all__"):
            names = list(self.getattr(module, "__all__"))
        else:
            names = [name for name in list(vars(module)) if not name.startswith("_")]
        for name in names:
            self.store_name(frame, name, self.getattr(module, name))


def without(module: Any, name: str) -> Any:
    """The module, or one like it that lacks the name: to the program it has none, whatever the real one has."""
    names: dict[str, Any] = vars(module) if isinstance(module, ModuleType) else {}
    if name not in names:
        return module
    like = ModuleType(module.__name__)
    vars(like).update({own: value for own, value in names.items() if own != name})
    return like
