"""What runs in the place of frames of torch's compiler, and of imports, where our regions run them."""

from __future__ import annotations

import importlib
from types import CodeType
from typing import Any

import torch

from onegraph import _C
from onegraph.capture.directives import hatches
from onegraph.capture.directives.foreign import (
    CONFIG_MANAGER,
    ERROR_MANAGER,
    LOCAL,
    enter_config_patch,
    enter_error_on_graph_break,
    leave_config_patch,
    leave_error_on_graph_break,
)
from onegraph.capture.residual.code import compile_residual
from onegraph.capture.resume.resumed import resumed_by

_FOLDER = torch.__path__[0]
_DISABLED = "{}(fn, {}, None)(*args, **kwargs)"
#: What frames of torch do where our regions run them, by the qualified name of their code: torch's `disable` turns off
#: torch's own frame hook only, and its managers say what they say to torch only.
_REPLACED: dict[str, tuple[str, Any]] = {
    f"DisableContext.__call__.{LOCAL}._fn": (_DISABLED.format("k0_", True), hatches.disable_function),
    f"get_nonrecursive_disable_wrapper.{LOCAL}.nonrecursive_disable_wrapper": (
        _DISABLED.format("k0_", False),
        hatches.disable_function,
    ),
    f"{ERROR_MANAGER}.__enter__": ("k0_(self)", enter_error_on_graph_break),
    f"{ERROR_MANAGER}.__exit__": ("k0_(self)", leave_error_on_graph_break),
    f"{CONFIG_MANAGER}.__enter__": ("(k0_(self), self.config_patch.__enter__())[0]", enter_config_patch),
    f"{CONFIG_MANAGER}.__exit__": (
        "(k0_(self), self.config_patch.__exit__(exc_type, exc_val, exc_tb))[0]",
        leave_config_patch,
    ),
}


#: The body of a module that is imported while a region runs is no part of the program, nor is what it calls.
_IMPORT = ("<frozen importlib._bootstrap>", "_find_and_load")
_IMPORTED = ("k0_(name, import_)", importlib._bootstrap._find_and_load)  # type: ignore[attr-defined]


def foreign_replacement(code: CodeType) -> CodeType | None:
    """What runs in the place of a frame of torch's compiler or of an import, if anything."""
    found = _REPLACED.get(code.co_qualname) if code.co_filename.startswith(_FOLDER) else None
    if (code.co_filename, code.co_qualname) == _IMPORT:
        found = _IMPORTED
    if found is None or resumed_by(code) is not None:  # which has other arguments
        return None
    expression, function = found
    replaced = compile_residual(code, [f"return {expression}"], (), (_C.disabled(function),))[0]
    return replaced.replace(co_filename=code.co_filename)  # by which tracebacks leave frames of the import out
