"""Exceptions: their arguments, attributes, cause and context, and the user's part of their traceback."""

from __future__ import annotations

import contextlib
from typing import Any

from onegraph.capture.guards.source import Attr, Source
from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, rule_for
from onegraph.capture.heap.types.objects import begin_shadow, with_attributes
from onegraph.capture.heap.world import World
from onegraph.capture.interp.tracebacks import pass_through, stand_ins
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.layout import exception_fields

#: What every exception holds; a cause suppresses the context, so it comes first.
STATE = ("args", "__cause__", "__context__", "__suppress_context__")


@rule_for(BaseException)
class Exceptions(TypeRule):
    admits_subclasses = is_looked_into = True

    def admit(self, world: World, real: BaseException, source: Source, guarded: bool) -> Any:
        args = world.admit(real.args, Attr(source, "args"), guarded)
        if isinstance(real, BaseExceptionGroup):  # it looks at the exceptions when it is made
            world.realize_deep(args)
        shadow = type(real).__new__(type(real), *args)
        begin_shadow(world, real, shadow, source, guarded)
        members = [*((name, vars(BaseException)[name]) for name in STATE), *own_fields(real)]
        for name, member in members:
            with contextlib.suppress(AttributeError):
                member.__set__(shadow, world.admit(member.__get__(real, type(real)), Attr(source, name), guarded))
        for _, member in members:  # setting one may change another
            with contextlib.suppress(AttributeError):
                world.slot_known(shadow, member, member.__get__(shadow, type(real)))
        return shadow

    def members(self, value: BaseException) -> list[Any]:
        return list(args_of(value))

    def rebuild(self, rebuild: Rebuilding, value: BaseException) -> str:
        cls = rebuild.value(type(value))
        name = rebuild.assign(f"{cls}.__new__({cls}, *{rebuild.value(value.args)})")
        with_attributes(rebuild, value, name)
        past = stand_ins(value.__traceback__)
        if past:
            rebuild.lines.append(f"{rebuild.const(pass_through)}({rebuild.const(past)}, {name})")
        fields = [field for field, _ in own_fields(value)]
        for attribute in (*STATE[1:], *fields):
            contents = getattr(value, attribute, None)
            if contents is not None and contents is not False:
                rebuild.lines.append(f"{name}.{attribute} = {rebuild.value(contents)}")
        return str(name)


def args_of(error: BaseException) -> tuple[Any, ...]:
    """The arguments, read without the code of a class."""
    return tuple(vars(BaseException)["args"].__get__(error))


def own_fields(error: BaseException) -> list[tuple[str, Any]]:
    """The fields of an exception of native code. (Those of a group are its arguments.)"""
    return [] if isinstance(error, BaseExceptionGroup) else list(exception_fields(type(error)))
