"""Exceptions: their arguments, attributes, cause and context, and the user's part of their traceback."""

from __future__ import annotations

import contextlib
from typing import Any

from onegraph.capture.guards.source import Source, member_at
from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, rule_for
from onegraph.capture.heap.types.objects import begin_shadow, with_attributes
from onegraph.capture.heap.world import World
from onegraph.capture.interp.tracebacks import pass_through, stand_ins
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.layout import HEAP_TYPE, exception_fields, filled
from onegraph.capture.pyobject.native_members import ARGUMENTS_OF, EXCEPTION, TRACEBACK_OF, Member

#: The base of a class whose instances have its layout.
base_of = vars(type)["__base__"].__get__


@rule_for(BaseException)
class Exceptions(TypeRule):
    admits_subclasses = is_looked_into = True

    def admit(self, world: World, real: BaseException, source: Source, guarded: bool) -> Any:
        cls = type(real)
        args = world.admit(ARGUMENTS_OF(real), member_at(source, cls, ARGUMENTS_OF), guarded)
        if isinstance(real, BaseExceptionGroup):  # it looks at the exceptions when it is made
            world.realize_deep(args)
        shadow = maker_of(cls).__new__(cls, *args)
        begin_shadow(world, real, shadow, source, guarded)
        members = [*EXCEPTION, *own_fields(real)]
        for member in members:
            with contextlib.suppress(AttributeError):
                member.set(shadow, world.admit(member(real), member_at(source, cls, member), guarded))
        for member in members:  # setting one may change another
            with contextlib.suppress(AttributeError):
                world.slot_known(shadow, member.descriptor, member(shadow))
        return shadow

    def members(self, value: BaseException) -> list[Any]:
        return list(ARGUMENTS_OF(value))

    def rebuild(self, rebuild: Rebuilding, value: BaseException) -> str:
        cls = rebuild.value(type(value))
        made = rebuild.const(maker_of(type(value)).__new__)
        name = rebuild.assign(f"{made}({cls}, *{rebuild.value(ARGUMENTS_OF(value))})")
        with_attributes(rebuild, value, name)
        past = stand_ins(TRACEBACK_OF(value))
        if past:
            rebuild.lines.append(f"{rebuild.const(pass_through)}({rebuild.const(past)}, {name})")
        members = (member.descriptor for member in (*EXCEPTION[1:], *own_fields(value)))
        for member, held in filled(value, members):
            if held is not None and held is not False:
                rebuild.lines.append(f"{rebuild.const(member)}.__set__({name}, {rebuild.value(held)})")
        return str(name)


def maker_of(cls: type) -> Any:
    """The native exception whose `__new__` makes blank instances of a class, which may have one in Python."""
    while cls.__flags__ & HEAP_TYPE:
        cls = base_of(cls)
    return cls


def own_fields(error: BaseException) -> list[Member[Any]]:
    """The fields of an exception of native code. (Those of a group are its arguments.)"""
    return [] if isinstance(error, BaseExceptionGroup) else [Member(each) for _, each in exception_fields(type(error))]
