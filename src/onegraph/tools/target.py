"""`file.py::function` on the command line: find the function, and something to call it with."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import reduce
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.base.errors import InvalidArgument

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Target:
    """A function and the arguments of one call."""

    function: Callable[..., Any]
    args: tuple[Any, ...]


def load(spec: str, inputs: str | None = None) -> Target:
    """The function that `spec` names, with arguments from the expression `inputs` (seen from inside its file).

    Without `inputs`, the file's own `<function>_inputs` is used: a tuple, or a function that returns one.
    """
    filename, separator, name = spec.partition("::")
    if not separator or not name:
        raise InvalidArgument(f"{spec!r} does not name a function: write file.py::function")
    module = _import_file(Path(filename))
    try:
        function: Any = reduce(getattr, name.split("."), module)
    except AttributeError:
        names = ", ".join(key for key, value in vars(module).items() if callable(value) and not key.startswith("_"))
        raise InvalidArgument(f"{filename} has no '{name}'; it has: {names}") from None
    return Target(function, _arguments(module, name, function, inputs))


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidArgument(f"{path} is not a file")
    # Not under its own name: the file may be called like a module that is imported already.
    spec = importlib.util.spec_from_file_location("onegraph_target", path)
    if spec is None or spec.loader is None:
        raise InvalidArgument(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    return module


def _arguments(module: ModuleType, name: str, function: Callable[..., Any], inputs: str | None) -> tuple[Any, ...]:
    short = name.rpartition(".")[2]
    if inputs is not None:
        found = eval(inputs, dict(vars(module)))  # the user's own expression about the user's own file
    else:
        found = getattr(module, f"{short}_inputs", ())
        found = found() if callable(found) else found
    args = found if isinstance(found, tuple) else (found,)
    if not args and any(p.default is Parameter.empty and p.kind <= 1 for p in signature(function).parameters.values()):
        raise InvalidArgument(
            f"{name} needs arguments: define {short}_inputs in its file, or give --inputs 'EXPRESSION'"
        )
    return args
