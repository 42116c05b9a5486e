"""Python code that native code calls while tracing (sort keys, `__eq__`, `__iter__` ...) comes back to the interpreter.

The frame hook tells of every frame that starts under a native call. Its code is replaced by one of the same signature
that hands the arguments to the tracer.
"""

from __future__ import annotations

from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType
from typing import Any

from onegraph.capture.directives.skipped_code import OWN
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.residual.code import argument_names, compile_residual

_CALL, _FUNCTION = object(), object()
_TEMPLATES: dict[CodeType, CodeType] = {}


class Reentry:
    """The callback of the trace hook for one tracer."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    def __call__(self, function: FunctionType, code: CodeType, values: tuple[Any, ...]) -> CodeType:
        """The code to run for a frame: onegraph's own as it is, any other by the tracer."""
        if code.co_filename.startswith(OWN):
            return code
        if code.co_name == "__set_name__" and len(values) > 1 and isinstance(values[1], type):
            self._tracer.note_new_class(values[1])
        objects = {_CALL: self._tracer.call, _FUNCTION: function}
        made = template(code)
        return made.replace(co_consts=tuple(objects.get(c, c) if type(c) is object else c for c in made.co_consts))


def template(code: CodeType) -> CodeType:
    """Code with the signature of `code` that returns `_CALL(_FUNCTION, args, kwargs)`."""
    if code not in _TEMPLATES:
        names = argument_names(code)
        positional, named = names[: code.co_argcount], names[code.co_argcount :][: code.co_kwonlyargcount]
        rest = names[code.co_argcount + code.co_kwonlyargcount :]
        args = "".join(f"{name}, " for name in positional)
        kwargs = "".join(f"{name!r}: {name}, " for name in named)
        if code.co_flags & CO_VARARGS:
            args += f"*{rest.pop(0)}, "
        if code.co_flags & CO_VARKEYWORDS:
            kwargs += f"**{rest.pop(0)}"
        body = [f"return k0_(k1_, ({args}), {{{kwargs}}})"]
        _TEMPLATES[code], _ = compile_residual(code, body, (), (_CALL, _FUNCTION))
    return _TEMPLATES[code]
