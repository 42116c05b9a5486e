"""The code that runs in the place of a frame, of the text of its body."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS
from opcode import opmap
from types import CodeType
from typing import Any

from onegraph.base.gone import when_gone

#: Instructions for names that the program may give to something else.
OF_GLOBALS = frozenset(opmap[name] for name in ("LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME", "STORE_GLOBAL"))
_SERIAL = iter(range(1, 1 << 62))


def knows_globals(code: CodeType) -> bool:
    """Whether code knows more than its variables and constants: residual code does not."""
    return not OF_GLOBALS.isdisjoint(code.co_code[::2])


def argument_names(code: CodeType) -> list[str]:
    """The names of the arguments in slot order; names that are no identifiers (`.0`) are replaced."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    return [name if name.isidentifier() else f"a{index}_" for index, name in enumerate(code.co_varnames[:count])]


def signature_text(code: CodeType) -> str:
    """The parameter list that gives a function the same frame layout as `code`."""
    names = argument_names(code)
    positional = names[: code.co_argcount]
    keyword = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    rest = names[code.co_argcount + code.co_kwonlyargcount :]
    parts = list(positional)
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    if code.co_flags & CO_VARARGS:
        parts.append("*" + rest.pop(0))
    elif keyword:
        parts.append("*")
    parts += keyword
    if code.co_flags & CO_VARKEYWORDS:
        parts.append("**" + rest.pop(0))
    return ", ".join(parts)


def residual_text(code: CodeType, body: Sequence[str], nonlocals: Sequence[str], consts: Sequence[Any]) -> str:
    """The body as a function with the signature and free variables of `code`, within one that has these."""
    free = list(code.co_freevars)
    lines = [f"def {function_name(code)}({signature_text(code)}):"]
    if nonlocals:
        lines.append(f"    nonlocal {', '.join(nonlocals)}")
    if free:
        lines.append(f"    if 0: {', '.join(free)}")
    lines += [f"    k{index}_ = '<constant {index}>'" for index in range(len(consts))]
    lines += [f"    {line}" for line in body]
    if free:
        lines = [f"def outer_({', '.join(free)}):", *(f"    {line}" for line in lines)]
    return "\n".join(lines) + "\n"


def function_name(code: CodeType) -> str:
    return code.co_name if code.co_name.isidentifier() else "frame"


def compile_residual(
    code: CodeType, body: Sequence[str], nonlocals: Sequence[str], consts: Sequence[Any]
) -> tuple[CodeType, str]:
    """Compile the body to a code object with the signature and free variables of `code`; also its text."""
    text = residual_text(code, body, nonlocals, consts)
    filename = f"<onegraph residual of {code.co_name} #{next(_SERIAL)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    made = compile(text, filename, "exec")
    name = function_name(code)
    for wanted in ("outer_", name) if code.co_freevars else (name,):
        made = next(item for item in made.co_consts if isinstance(item, CodeType) and item.co_name == wanted)
    objects = {f"<constant {index}>": value for index, value in enumerate(consts)}
    made = made.replace(
        co_consts=tuple(objects.get(item, item) if isinstance(item, str) else item for item in made.co_consts),
        co_name=code.co_name,
        co_qualname=code.co_qualname,
    )
    assert made.co_freevars == code.co_freevars, (made.co_freevars, code.co_freevars)
    when_gone(made, linecache.cache.pop, filename, None)
    return made, text
