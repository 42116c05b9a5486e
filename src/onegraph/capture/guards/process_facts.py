"""What guards ask of the process in Python: hooks for all modules, abstract classes, caches of functions.

What traces such questions is not imported where captures are found on disk.
"""

from __future__ import annotations

import abc
import functools
import gc
import sys
from dataclasses import field
from typing import Any

from torch.utils.hooks import RemovableHandle

from onegraph import _C
from onegraph.base.dataclass import dataclass
from onegraph.capture.guards.predicates import Predicate
from onegraph.capture.pyobject.weakly_known import Known
from onegraph.torchlib.private import has_global_hooks

MISSING = object()
Wrapper = functools._lru_cache_wrapper


class NoGlobalHooks(Predicate):
    """No hooks are registered for the calls of all modules, or for what all modules are given.

    Every registration takes a new `RemovableHandle` id, so that a look at the counter is enough in the usual case.
    """

    def __init__(self, seen: int | None = None) -> None:
        self.seen = RemovableHandle.next_id if seen is None else seen

    def portable(self) -> NoGlobalHooks:
        return NoGlobalHooks(seen=-1)

    def __call__(self, _: object) -> bool:
        newest = RemovableHandle.next_id
        if newest != self.seen and has_global_hooks():
            return False
        self.seen = newest
        return True

    def text(self, *what: str) -> str:
        return "no hooks are registered for all modules"


class AbstractAnswers(Predicate):
    """What abstract classes say of other classes, any of which may be registered with one of them at any time.

    Every registration changes Python's token for what such classes remember: while it is the same, nobody is asked.
    """

    def __init__(self) -> None:
        self.token: object = abc.get_cache_token()
        self.answers: dict[tuple[int, int], tuple[Known, Known, bool]] = {}

    def portable(self) -> AbstractAnswers:
        """Everybody is asked again."""
        made = AbstractAnswers()
        made.token, made.answers = None, {(n, 0): answer for n, answer in enumerate(self.answers.values())}
        return made

    def note(self, cls: type, abstract: type, answer: bool) -> None:
        self.answers[id(cls), id(abstract)] = Known(cls), Known(abstract), answer

    def __call__(self, _: object) -> bool:
        token = abc.get_cache_token()
        if token != self.token:
            for cls, abstract, answer in self.answers.values():
                one, other = cls(), abstract()
                if one is None or other is None or issubclass(one, other) is not answer:
                    return False
            self.token = token
        return True

    def text(self, *what: str) -> str:
        return "abstract classes have the subclasses that they had"


def limit_now(_: None) -> int:
    return sys.getrecursionlimit()


def _keywords() -> object:
    """The mark between arguments by position and by name in the keys of caches."""
    asked = functools.lru_cache(maxsize=None)(lambda **_: None)
    asked(name=None)
    return next(iter(gc.get_referents(asked)[1]))[0]


KEYWORDS = _keywords()


@dataclass(frozen=True, slots=True)
class Question:
    """The arguments of a call, as the program's process has them."""

    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    #: The key, and the one that is equal to it that the cache has been found to have.
    keys: list[Any] = field(default_factory=list, init=False, compare=False, repr=False)

    def key(self, typed: bool) -> Any:
        """What the cache knows the call by."""
        key = self.args
        if self.kwargs:
            key += (KEYWORDS, *(part for item in self.kwargs for part in item))
        if typed:
            key += (*map(type, self.args), *(type(value) for _, value in self.kwargs))
        return key[0] if len(key) == 1 and type(key[0]) in (int, str) else key

    def __call__(self, function: Wrapper[Any]) -> Any:
        """The result that the cache of the function has, or MISSING. The cache does not notice."""
        if not self.keys:
            self.keys.extend((self.key(function.cache_parameters()["typed"]), MISSING))
        key, known = self.keys
        found = _C.cached_result(function, key, known, MISSING)
        return self._searched(function, key) if found is MISSING else found

    def _searched(self, function: Wrapper[Any], key: Any) -> Any:
        """The result, of a cache of limited size that has an equal key.

        The cache is a dict of results or, if its size is limited, of links; an object's references are then those of
        each link, to its key, the result and its type, before that to the dict. (No key is a dict.)
        """
        _, *held = gc.get_referents(function)
        links = next(at for at in range(0, len(held), 3) if type(held[at]) is dict)
        if key not in held[links]:
            return MISSING
        results = zip(held[:links:3], held[1:links:3], strict=True)
        self.keys[1], result = next(((other, result) for other, result in results if other == key), (MISSING, MISSING))
        return result

    @property
    def __name__(self) -> str:
        return "what is cached by "


@dataclass(frozen=True, slots=True)
class HasResult(Predicate):
    """The cache of a function has the result of a call."""

    question: Question

    def __call__(self, function: Wrapper[Any]) -> bool:
        return self.question(function) is not MISSING

    def text(self, *what: str) -> str:
        given = (*map(repr, self.question.args), *(f"{name}={value!r}" for name, value in self.question.kwargs))
        return f"{what[0]}({', '.join(given)}) is cached"
