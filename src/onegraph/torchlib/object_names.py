"""Names of functions, classes and modules: where a module has them, so that another process finds them again."""

from __future__ import annotations

import functools
import importlib
import sys
import types
from types import FunctionType, ModuleType
from typing import Any

from onegraph.torchlib.private import HOMES_OF_FUNCTIONS

OWN = "onegraph"
#: Exactly these say their names without running code of the program.
_SAYING = (FunctionType, functools._lru_cache_wrapper)
LIBRARIES = sys.stdlib_module_names | {"torch", "numpy"} - {"builtins", "types"}
#: Native classes that no module has under their own names.
_OF_TYPES = {id(kind): name for name, kind in vars(types).items() if isinstance(kind, type)}


def name_of(value: Any) -> tuple[str, str] | None:
    """The module that has the object, and the path to it in that: "" for the module itself. None if none has it."""
    if isinstance(value, ModuleType):
        name = vars(value).get("__name__")
        return (name, "") if type(name) is str and sys.modules.get(name) is value else None
    if isinstance(value, type):
        module, path = _of_class(value)
    else:
        module, path = _own(value, "__module__"), _own(value, "__qualname__") or _own(value, "__name__")
    if id(value) in _OF_TYPES:
        return "types", _OF_TYPES[id(value)]
    if type(module) is str and type(sys.modules.get(module)) is value:  # of a module that is an object of its own
        return module, "__class__"
    if type(path) is not str or "<locals>" in path:
        return None
    for each in (path, path.rpartition(".")[2]):  # native functions may say that they are in something without a name
        for name in (module, *HOMES_OF_FUNCTIONS):
            if type(name) is str and _find(name, each) is value:
                return name, each
    return _singleton(value)


def named(module: str, path: str) -> Any:
    """The object of a name, where its module is loaded; modules of this package are imported.

    Raises:
        LookupError: there is no such object in this process.
    """
    if module.partition(".")[0] == OWN:
        importlib.import_module(module)
    found = _find(module, path)
    if found is None:
        raise LookupError(f"{module} has no {path}" if path else f"the module {module} is not loaded")
    return found


def _singleton(value: Any) -> tuple[str, str] | None:
    """The name of an object of a library that is the only one of its kind, such as `dataclasses.MISSING`."""
    module = str(type(value).__module__)
    if module.partition(".")[0] not in LIBRARIES or module not in sys.modules:
        return None
    names = vars(sys.modules[module])
    return next(((module, name) for name, found in names.items() if found is value), None)


def _own(value: Any, name: str) -> Any:
    """What a function, or a native object, says of itself; a class of the program is not asked."""
    kind = type(value)
    home = str(kind.__module__).partition(".")[0]
    if kind not in _SAYING and kind.__flags__ & 1 << 9 and home not in (OWN, "torch"):
        return None
    return getattr(value, name, None)


def _of_class(cls: type) -> tuple[Any, Any]:
    return vars(type)["__module__"].__get__(cls), vars(type)["__qualname__"].__get__(cls)


def _find(module: str, path: str) -> Any:
    """What a module that is loaded, or a class in it, has at a path; read without running code. None: nothing."""
    found: Any = sys.modules.get(module)
    if found is None and "." in module:
        owner, _, last = module.rpartition(".")
        found = _member(sys.modules.get(owner), last)
    for part in path.split(".") if path else ():
        found = _member(found, part)
    return found


def _member(owner: Any, name: str) -> Any:
    if isinstance(owner, type):
        for base in vars(type)["__mro__"].__get__(owner):
            if name in vars(base):
                found = vars(base)[name]
                return found.__func__ if type(found) in (staticmethod, classmethod) else found
        return None
    if owner is None:
        return None
    names = vars(owner) if isinstance(owner, ModuleType) else None
    if names is not None and name in names:
        return names[name]
    return (
        getattr(owner, name, None) if type(owner).__module__.startswith("torch") or name in dir(type(owner)) else None
    )
