"""What instances of builtin types hold, asked of the types' own members: a subclass may have others of these names."""

from __future__ import annotations

import collections
import functools
from types import TracebackType
from typing import Any, Generic, TypeVar

from onegraph._C import is_generic
from onegraph.base.dataclass import dataclass
from onegraph.capture.pyobject.exact_types import defined, dict_of, mro_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Member(Generic[T]):
    """What a native type, or a class with slots, has for what its instances hold; a function of an instance."""

    descriptor: Any

    @property
    def name(self) -> str:
        return str(self.descriptor.__name__)

    def __call__(self, value: Any) -> T:
        held: T = self.descriptor.__get__(value, type(value))
        return held

    def set(self, value: Any, contents: T) -> None:
        self.descriptor.__set__(value, contents)

    def is_hidden(self, cls: type) -> bool:
        """Whether instances of a class give something else if they are asked for an attribute of this name."""
        return defined(cls, self.name) is not self.descriptor or not is_generic(defined(cls, "__getattribute__"))


@dataclass(frozen=True, slots=True)
class HiddenMember:
    """The same, without holding a class: which of the bases of an instance's class has the member."""

    owner: str
    place: int
    name: str

    @property
    def __name__(self) -> str:
        return f"{self.owner}.{self.name}"

    def __call__(self, value: Any) -> Any:
        return dict_of(mro_of(type(value))[self.place])[self.name].__get__(value, type(value))


def hidden_member(member: Member[Any], cls: type) -> HiddenMember:
    owner = member.descriptor.__objclass__
    return HiddenMember(owner.__qualname__, mro_of(cls).index(owner), member.name)


def _members(kind: type, names: str) -> tuple[Member[Any], ...]:
    return tuple(Member(dict_of(kind)[name]) for name in names.split())


#: The function of a partial one, the arguments that it is given before others, and those by name.
FUNC_OF, ARGS_OF, KEYWORDS_OF = PARTIAL = _members(functools.partial, "func args keywords")
MAXLEN_OF, FACTORY_OF = *_members(collections.deque, "maxlen"), *_members(collections.defaultdict, "default_factory")
#: What every exception holds; a cause suppresses the context, so it comes first.
ARGUMENTS_OF, CAUSE_OF, CONTEXT_OF, SUPPRESSES_CONTEXT = EXCEPTION = _members(
    BaseException, "args __cause__ __context__ __suppress_context__"
)
TRACEBACK_OF: Member[TracebackType | None]
(TRACEBACK_OF,) = _members(BaseException, "__traceback__")
#: What wraps functions, and the members that they are.
WRAPPED = {
    kind: {member.name: member for member in _members(kind, names)}
    for kind, names in ((staticmethod, "__func__"), (classmethod, "__func__"), (property, "fget fset fdel"))
}


def wrapped_member(wrapper: Any, name: str) -> Member[Any]:
    """The member with a function that a property, a class method or a static method wraps."""
    return next(WRAPPED[kind] for kind in mro_of(type(wrapper)) if kind in WRAPPED)[name]


def wrapped_part(wrapper: Any, name: str) -> Any:
    return wrapped_member(wrapper, name)(wrapper)
