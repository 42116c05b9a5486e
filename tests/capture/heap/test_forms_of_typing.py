"""Forms of `typing` are objects that are used as they are, and classes with methods that a library makes."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import typing
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import pytest
import torch

import onegraph

T = TypeVar("T")


class Box(Generic[T]):
    pass


def of_local_class(x: torch.Tensor) -> Any:
    class V:
        pass

    made = typing.List[V]  # noqa: UP006 - as programs have it
    return x + 1, made.__origin__, made.__args__[0].__name__, repr(made)


def evaluated_annotations(x: torch.Tensor) -> Any:
    namespace: dict[str, Any] = {}

    def inner(y: typing.Tuple[torch.Tensor, str] = (x, "a")) -> Any:  # noqa: UP006, B008
        return y[0] + 1

    return inner(), namespace


def made_forms(x: torch.Tensor) -> Any:
    union = typing.Union[int, str]  # noqa: UP007
    return x + 1, [
        union,
        typing.Optional[int],  # noqa: UP045
        typing.Dict[str, union],  # type: ignore[valid-type]  # noqa: UP006
        typing.Callable[[int], str],
        typing.Callable[..., T],
        typing.Literal["a", 2],
        typing.Annotated[int, "unit"],
        int | str,
        dict[str, list[int]],
        list[type(x)] | None,  # type: ignore[misc]
        collections.abc.Callable[[int], str],
        Box[int],
        Box[typing.List[T]][str],  # noqa: UP006
        typing.Type[torch.Tensor] == typing.Type[torch.Tensor],  # noqa: UP006
    ]


def read_forms(x: torch.Tensor) -> Any:
    form = typing.List  # noqa: UP006
    return x + 1, form._name, typing.get_origin(form[int]), typing.get_args(typing.Dict[str, int])  # noqa: UP006


@pytest.mark.parametrize("program", [of_local_class, made_forms, read_forms, evaluated_annotations])
def test_forms_of_typing(program: Callable[[torch.Tensor], Any]) -> None:
    x = torch.ones(2)
    found = onegraph.compile(program, fullgraph=True, options={"raise_compiler_errors": True})(x)
    assert torch.equal(found[0], x + 1) and found[1:] == program(x)[1:]


def with_text(x: torch.Tensor) -> Any:
    @dataclasses.dataclass
    class P:
        a: int = 1
        other: Any = None

    p = P(2, P())
    looped = P()
    looped.other = looped
    return x + p.a, repr(p), str(looped), f"{p}", dataclasses.asdict(P(3))


def ordered(x: torch.Tensor) -> Any:
    @dataclasses.dataclass(frozen=True, order=True)
    class P:
        a: int

    return x + 1, P(1) < P(2), max(P(1), P(3)).a, hash(P(1)) == hash(P(1)), repr(P(4))


def totally_ordered(x: torch.Tensor) -> Any:
    @functools.total_ordering
    @dataclasses.dataclass
    class P:
        a: int

        def __lt__(self, other: Any) -> bool:
            return bool(self.a < other.a)

    return x + 1, P(1) >= P(2), repr(P(5))


@pytest.mark.parametrize("program", [with_text, ordered, totally_ordered])
def test_methods_that_a_library_gives_to_a_class_of_the_trace(program: Callable[[torch.Tensor], Any]) -> None:
    x = torch.ones(2)
    found = onegraph.compile(program, fullgraph=True, options={"raise_compiler_errors": True})(x)
    expected = program(x)
    assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]
