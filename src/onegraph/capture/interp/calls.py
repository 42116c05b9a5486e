"""Calls: Python functions, classes, bound methods, partial objects and instances with `__call__` are interpreted.

No `from __future__` here: `compile`, called from this file, would take it for the program's.
"""

import functools
from types import CodeType, FunctionType, MethodType, MethodWrapperType, resolve_bases
from typing import Any

import onegraph.capture.interp.substitutes  # noqa: F401 - it fills the table of functions
from onegraph.capture.bytecode import Bytecode, Instr, decode, encode
from onegraph.capture.bytecode.frame import NAMESPACE, NULL, Frame
from onegraph.capture.interp.functions import row_of
from onegraph.capture.interp.lookup import NATIVE_CALLABLES, full_name, is_python, type_name
from onegraph.capture.interp.parts import Part
from onegraph.capture.interp.rests import (
    CALLED,
    LEFT,
    Rest,
    built_rest,
    constructing_rest,
    entering_rest,
    initialized,
    made_rest,
)
from onegraph.capture.pyobject.exact_types import defined, mro_of
from onegraph.capture.pyobject.native_members import ARGS_OF, FUNC_OF, KEYWORDS_OF

_VARIADIC = 0x04 | 0x08  # *args, **kwargs
_NOT_BINDING = 0x20 | 0x80 | 0x100 | 0x200  # generators and coroutines
_TEMPLATE = decode((lambda: None).__code__)


class Calls(Part):
    """The part of the machine that calls."""

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], rest: Rest | None = None) -> Any:
        """`function(*args, **kwargs)`; behind it `rest` is left of the running instruction, of None it is not known."""
        kind = type(function)
        if kind is FunctionType:
            return self.call_python(function, args, kwargs)
        if kind is MethodType:
            return self.call(function.__func__, (function.__self__, *args), kwargs, rest)
        substitute = row_of(function).substitute
        if substitute is not None:
            return substitute(self, args, kwargs)
        if kind in NATIVE_CALLABLES:
            return self.call_native(function, args, kwargs)
        if issubclass(kind, type):
            return self.call_type(function, args, kwargs, rest)
        found = self.type_lookup(kind, "__call__")
        if found is functools.partial.__call__:
            return self.call(FUNC_OF(function), (*ARGS_OF(function), *args), {**KEYWORDS_OF(function), **kwargs}, rest)
        if is_python(found):
            return self.call(self.bind_special(found, function), args, kwargs, rest)
        return self.call_native(function, args, kwargs)

    def call_of_instruction(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call of a call instruction."""
        return self.call(function, args, kwargs, CALLED)

    def call_native(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call something that is not written in Python."""
        if type(function) is MethodWrapperType:
            substitute = row_of(defined(function.__objclass__, function.__name__)).substitute
            if substitute is not None:
                return substitute(self, (function.__self__, *args), kwargs)
        return function(*args, **kwargs)

    def call_python(self, function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Interpret a Python function; of a generator function, make the generator."""
        frame = self.make_frame(decode(function.__code__), function, self.bind(function, args, kwargs))
        return self.run_frame(frame)

    def bind(self, function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The parameters by name. Wrong arguments get CPython's own error."""
        code = function.__code__
        plain = not (kwargs or code.co_kwonlyargcount or code.co_flags & _VARIADIC)
        if plain and len(args) == code.co_argcount:
            return dict(zip(code.co_varnames, args, strict=False))
        defaults, keyword_defaults = self.defaults(function)
        binder = FunctionType(binder_code(code), function.__globals__, function.__name__, defaults)
        binder.__kwdefaults__ = keyword_defaults
        binder.__qualname__ = function.__qualname__
        bound: dict[str, Any] = binder(*args, **kwargs)
        return bound

    def defaults(self, function: FunctionType) -> tuple[tuple[Any, ...] | None, dict[str, Any] | None]:
        """The default values of a function's parameters: positional, keyword-only."""
        return function.__defaults__, function.__kwdefaults__

    # ---- classes -----------------------------------------------------------------------------------------------------

    def call_type(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any], rest: Rest | None) -> Any:
        """Call a class."""
        meta = type(cls)
        caller = self.type_lookup(meta, "__call__")
        if caller is not type.__call__:
            if is_python(caller):
                return self.call(self.bind_special(caller, cls), args, kwargs, rest)
            return self.call_type_natively(cls, args, kwargs)
        if cls is type and len(args) == 1 and not kwargs:
            return type(args[0])
        return self.instantiate(cls, args, kwargs, rest)

    def instantiate(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any], rest: Rest | None) -> Any:
        """`type.__call__`: make an instance and initialise it."""
        maker = self.type_lookup(cls, "__new__")
        initializer = self.type_lookup(cls, "__init__")
        if not is_python(maker) and not is_python(initializer):
            return self.call_type_natively(cls, args, kwargs)
        if is_python(maker):
            rest_of_call = constructing_rest(cls, args, kwargs) if rest is CALLED else None
            made = self.call(self.getattr(cls, "__new__"), (cls, *args), kwargs, rest_of_call)
        elif maker is object.__new__:  # which looks at no arguments where there is an initializer in Python
            made = self.call_native(cls.__new__, (cls,), {})
        else:
            made = self.call_native(cls.__new__, (cls, *args), kwargs)
        if cls not in mro_of(type(made)):
            return made
        initializer = self.type_lookup(type(made), "__init__")
        if is_python(initializer):
            bound = self.bind_special(initializer, made)
            initialized(self.call(bound, args, kwargs, made_rest(made) if rest is CALLED else None), made)
        elif initializer is not object.__init__:  # which does nothing behind such a `__new__`
            self.call_native(initializer, (made, *args), kwargs)
        return made

    def call_type_natively(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a class that has neither `__new__` nor `__init__` in Python."""
        return cls(*args, **kwargs)

    def build_class(self, args: tuple[Any, ...], kwargs: dict[str, Any], rest: Rest | None = None) -> Any:
        """`__build_class__(body, name, *bases, metaclass=..., **kwargs)`: the statement `class`"""
        body, name, *given = args
        bases = tuple(given)
        resolved = resolve_bases(bases)
        keywords = dict(kwargs)
        meta = keywords.pop("metaclass", type(resolved[0]) if resolved else type)
        if issubclass(type(meta), type):
            meta = _most_derived(meta, resolved)
        prepare = NULL
        if meta is not type:
            try:
                prepare = self.getattr(meta, "__prepare__")
            except AttributeError:
                prepare = NULL
        namespace = {} if prepare is NULL else self.call(prepare, (name, resolved), keywords)
        if self.type_lookup(type(namespace), "__getitem__") is NULL:
            shown = meta.__name__ if issubclass(type(meta), type) else "<metaclass>"
            raise TypeError(f"{shown}.__prepare__() must return a mapping, not {type_name(type(namespace))}")
        frame = self.make_frame(decode(body.__code__), body, {NAMESPACE: namespace})
        frame.namespace = namespace
        frame.rest = built_rest(meta, name, resolved, bases, namespace, keywords) if rest is CALLED else None
        cell = self.run_frame(frame)
        if resolved is not bases:
            self.setitem(namespace, "__orig_bases__", bases)
        cls = self.call(meta, (name, resolved, namespace), keywords, rest if cell is None else None)
        if cell is not None and issubclass(type(cls), type):
            self._check_class_cell(cell, name, cls)
        return cls

    def _check_class_cell(self, cell: Any, name: str, cls: type) -> None:
        try:
            contents = cell.cell_contents
        except ValueError:
            contents = NULL
        if contents is NULL:
            raise RuntimeError(
                f"__class__ not set defining {name!r} as {cls!r}. Was __classcell__ propagated to type.__new__?"
            )
        if contents is not cls:
            raise TypeError(f"__class__ set to {contents!r} defining {name!r} as {cls!r}")

    def super_arguments(self) -> tuple[Any, Any]:
        """The arguments of `super()` in the running frame."""
        frame = self.frames[-1]
        code = frame.bytecode.code
        if not code.co_argcount:
            raise RuntimeError("super(): no arguments")
        first = code.co_varnames[0]
        obj = frame.locals.get(first, NULL)
        if obj is NULL and first in frame.cells:
            try:
                obj = self.load_cell(frame, frame.cells[first], first)
            except NameError:
                obj = NULL
        if obj is NULL:
            raise RuntimeError("super(): arg[0] deleted")
        if "__class__" not in frame.cells:
            raise RuntimeError("super(): __class__ cell not found")
        try:
            return self.load_cell(frame, frame.cells["__class__"], "__class__"), obj
        except NameError:
            pass
        raise RuntimeError("super(): empty __class__ cell")

    # ---- functions ---------------------------------------------------------------------------------------------------

    def make_function(self, frame: Frame, code: CodeType, attributes: dict[str, Any]) -> FunctionType:
        """The statement `def`, `lambda`: attributes may be closure, annotate, annotations, kwdefaults, defaults."""
        made = FunctionType(code, frame.globals, code.co_name, attributes.get("defaults"), attributes.get("closure"))
        if "kwdefaults" in attributes:
            made.__kwdefaults__ = attributes["kwdefaults"]
        if "annotate" in attributes:
            made.__annotate__ = attributes["annotate"]  # type: ignore[attr-defined]
        if "annotations" in attributes:
            pairs = attributes["annotations"]
            made.__annotations__ = pairs if type(pairs) is dict else dict(zip(pairs[::2], pairs[1::2], strict=True))
        return made

    def enter_context(self, manager: Any) -> tuple[Any, Any]:
        """`with manager`: its bound exit method, and what entering it gives."""
        cls = type(manager)
        enter, leave = self.type_lookup(cls, "__enter__"), self.type_lookup(cls, "__exit__")
        missing = f"'{type_name(cls)}' object does not support the context manager protocol"
        if enter is NULL:
            raise TypeError(missing)
        entering = self.bind_special(enter, manager)
        if leave is NULL:
            raise TypeError(f"{missing} (missed __exit__ method)")
        leaving = self.bind_special(leave, manager)
        return leaving, self.call(entering, (), {}, entering_rest(leaving))

    def special_method(self, manager: Any, name: str) -> Any:
        """The method of this name that the statement `with` calls, bound."""
        cls = type(manager)
        found = self.type_lookup(cls, name)
        if found is NULL:
            missing = f"'{full_name(cls)}' object does not support the context manager protocol (missed {name} method)"
            if all(callable(self.type_lookup(cls, other)) for other in ("__aenter__", "__aexit__")):
                missing += (
                    " but it supports the asynchronous context manager protocol. Did you mean to use 'async with'?"
                )
            raise TypeError(missing)
        return self.bind_special(found, manager)

    def leave_context(self, leave: Any, args: tuple[Any, ...], raised: BaseException) -> Any:
        """The end of a `with` block that raises; whether it is handled."""
        return self.call(leave, (*args, type(raised), raised, self.traceback_of(raised)), {}, LEFT)


def _most_derived(meta: type, bases: tuple[Any, ...]) -> type:
    winner = meta
    for base in bases:
        kind = type(base)
        if issubclass(winner, kind):
            continue
        if issubclass(kind, winner):
            winner = kind
            continue
        raise TypeError(
            "metaclass conflict: the metaclass of a derived class must be a (non-strict) subclass of the metaclasses of"
            " all its bases"
        )
    return winner


@functools.lru_cache(maxsize=4096)
def binder_code(code: CodeType) -> CodeType:
    """Code with the parameters of `code` that returns them by name."""
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    names = code.co_varnames[:count]
    instrs = (
        Instr("RESUME", 0),
        *(each for name in names for each in (Instr("LOAD_CONST", name), Instr("LOAD_FAST", name))),
        Instr("BUILD_MAP", count),
        Instr("RETURN_VALUE"),
    )
    return encode(
        Bytecode(_TEMPLATE.code, instrs, ()),
        co_argcount=code.co_argcount,
        co_posonlyargcount=code.co_posonlyargcount,
        co_kwonlyargcount=code.co_kwonlyargcount,
        co_flags=code.co_flags & ~_NOT_BINDING | 3,
        co_varnames=names,
        co_cellvars=(),
        co_freevars=(),
        co_name=code.co_name,
        co_qualname=code.co_qualname,
    )
