"""Questions that a guard asks of a value in Python, see `Guard` of kind "check"."""

from __future__ import annotations

from typing import Any

from onegraph.capture.pyobject.contents import keys_of, members_of
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.value_text import short, written_atom
from onegraph.capture.pyobject.weakly_known import Known, referred, weakly

PLAIN = frozenset({dict, set, frozenset})


class Portable:
    """A function of a value that can be kept on disk, by its attributes."""

    def __call__(self, value: Any) -> Any:
        raise NotImplementedError

    def portable(self) -> Portable:
        """The same one without what is known in this process alone."""
        return self


class Predicate(Portable):
    """What a guard of kind "check" asks of a value, in code and in words."""

    def __call__(self, value: Any) -> bool:
        raise NotImplementedError

    def text(self, *what: str) -> str:
        """The condition on values that are written like this."""
        raise NotImplementedError


def unpaired(pairs: Any, count: int) -> list[Any]:
    """The values, of which there are so many, that a guard of kind "together" gives as nested pairs."""
    values = []
    for _ in range(count - 1):
        pairs, last = pairs
        values.append(last)
    return [pairs, *reversed(values)]


class SameMembers(Predicate):
    """A dict or set has exactly these members, in this order."""

    def __init__(self, members: tuple[Any, ...]) -> None:
        self.members = tuple(map(weakly, members))

    def text(self, *what: str) -> str:
        return f"list({what[0]}) == {short(list(map(referred, self.members)))}"

    def __call__(self, container: Any) -> bool:
        found = container
        if type(container) not in PLAIN:  # which may have methods of their own
            found = keys_of(container) if isinstance(container, dict) else members_of(container)
        if len(found) != len(self.members):
            return False
        return not self.members or all(map(same_member, found, self.members))


def same_member(a: Any, b: Any) -> bool:
    """Whether a member is the other, which may be known weakly, or cannot be told apart from it."""
    if type(b) is Known:
        return b() is a
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) is tuple:
        return len(a) == len(b) and all(map(same_member, a, b))
    return type(a) in (int, float, complex, str, bytes) and written_atom(a) == written_atom(b)
