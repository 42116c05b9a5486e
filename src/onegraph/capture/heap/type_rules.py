"""Rules of types: all that a trace does with the values of a type, in one class. A new type is one rule.

The rules of Python's own types are in `heap/types`. A value has the rule of its class, or of the nearest base that has
one; that of `object` is for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeVar

from onegraph.base.dataclass import dataclass
from onegraph.capture.breaks import CANNOT_REBUILD, GraphBreak
from onegraph.capture.guards.source import Source
from onegraph.capture.pyobject.contents import keys_of
from onegraph.capture.pyobject.exact_types import mro_of, once_for_each_class


class Rebuilding(Protocol):
    """What a rule may ask of the residual code that it writes: expressions and statements are Python text."""

    world: Any
    #: Statements in their order, and those behind the writes.
    lines: list[str]
    late: list[str]
    nonlocals: list[str]
    outputs: list[Any]

    def const(self, value: Any) -> str: ...
    def known(self, value: Any) -> str: ...
    def value(self, value: Any) -> str: ...
    def values(self, items: Sequence[Any]) -> str: ...
    def key(self, key: Any) -> str: ...
    def source(self, source: Source) -> str: ...
    def instance_dict(self, name: str, cls: type) -> str: ...
    def number(self, node: Any) -> str: ...
    def assign(self, expression: str) -> str: ...
    def remember(self, value: Any, name: str) -> None: ...
    def settle(self, shadow: Any) -> None: ...


class TypeRule:
    """What a trace does with the values of a type. The methods take the World, or the Rebuild of residual code.

    Values from outside are *admitted*; those that the trace has made, and that outlive it, are *rebuilt*. The rest is
    for mutable containers, whose shadows have a Record: of what has changed at the end, the *writes* are replayed.
    """

    #: Whether instances of Python subclasses are admitted by this rule, too.
    admits_subclasses = False
    #: Whether native code that compares or prints a value looks into it.
    is_looked_into = False
    #: Whether native methods that look for an item compare it with the members.
    compares_members = False

    def admit(self, world: Any, real: Any, source: Source, guarded: bool) -> Any:
        """The value to use in place of a real one; if nothing else is known, it can only be handed on."""
        return admit_opaque(world, real, source, guarded)

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        """The expression that makes the value again."""
        raise GraphBreak(CANNOT_REBUILD, what=f"{type(value).__module__}.{type(value).__qualname__}")

    def blank_of(self, cls: type) -> type:
        """The native type whose `__new__` makes a blank object of a Python subclass."""
        return object

    def refill(self, rebuild: Rebuilding, name: str, value: Any) -> None:
        """Write what gives a blank object of a Python subclass the contents that the value has."""

    def members(self, value: Any) -> list[Any]:
        """What native code reaches through the value, read without running the program's code."""
        return []

    def guard_length(self, world: Any, entry: Record) -> None:
        """The program has asked for the length."""

    def fill(self, world: Any, entry: Record) -> None:
        """Fill what has not been read yet."""

    def differs(self, entry: Record) -> bool:
        """Whether the program wrote to the shadow."""
        return False

    def write(self, rebuild: Rebuilding, entry: Record) -> list[str]:
        """The statements that replay what the program wrote."""
        raise AssertionError(f"no replay for {type(entry.shadow).__name__}")


@dataclass(slots=True)
class Record:
    """What is known about one shadow container (a dict, list, set, cell, or the `__dict__` of an object)."""

    shadow: Any
    real: Any
    source: Source
    guarded: bool
    #: The contents that the shadow would have if the program had not written to it (filled slots only).
    snapshot: Any
    rule: TypeRule
    #: The keys that a dict had at first, if it is not that of an object: the key in the shadow -> the original key.
    keys: dict[Any, Any] | None = None
    #: The keys that `popitem` has taken out of a dict.
    popped: list[Any] = field(default_factory=list)
    complete: bool = False

    def original_key(self, key: Any) -> Any:
        return key if self.keys is None else self.keys.get(key, key)

    def original_keys(self) -> list[Any]:
        """The keys of a dict as the shadow had them at first."""
        return keys_of(self.real) if self.keys is None else list(self.keys)

    def differs(self) -> bool:
        """Whether the program wrote to the shadow."""
        return self.rule.differs(self)


def admit_opaque(world: Any, real: Any, source: Source, guarded: bool) -> Any:
    """A native object with state that we cannot see: it may be handed on, its methods break the graph.

    Another call may bring another one: nothing is assumed but its type.
    """
    if guarded:
        world.guard(source, "type", type(real))
    world.adopt(real, real, source)
    world.opaque[id(real)] = real
    world.unpinned.add(id(real))
    return real


RULES: dict[type, TypeRule] = {}
R = TypeVar("R", bound=type[TypeRule])


def rule_for(*kinds: type) -> Callable[[R], R]:
    """Declare the rule of these types, which have none yet."""

    def register(declared: R) -> R:
        for kind in RULES.keys() & set(kinds):  # by an import of the same module that was interrupted
            assert type(RULES[kind]).__module__ == declared.__module__, f"{kind} has two rules"
        RULES.update(dict.fromkeys(kinds, declared()))
        return declared

    return register


@once_for_each_class
def rule_of(cls: type) -> TypeRule:
    """The rule of a class, or of the nearest base that has one."""
    return next(RULES[kind] for kind in mro_of(cls) if kind in RULES)
