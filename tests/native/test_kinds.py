"""What an object is, told by its type alone: nothing of the program runs, and no lie is believed."""

from __future__ import annotations

import abc
from typing import Any

import pytest

from onegraph._C import answers_itself, is_generic, is_of, look_up
from onegraph.capture.pyobject.exact_types import is_data_descriptor


class Liar:
    @property
    def __class__(self) -> Any:
        raise AssertionError("asked")


class Loud:
    def __getattribute__(self, name: str) -> Any:
        raise AssertionError("asked")


class Quiet(Loud):
    __getattribute__ = object.__getattribute__  # type: ignore[assignment]


class Strict(type):
    def __subclasscheck__(cls, kind: type) -> bool:
        return kind is int


class Numbers(metaclass=Strict):
    pass


class Abstract(abc.ABC):  # noqa: B024
    pass


Abstract.register(str)


def test_is_of() -> None:
    assert is_of(True, int)
    assert is_of(1, (str, (float, int)))
    assert is_of(1, str | int)
    assert is_of(type, type)
    assert is_of("a", Abstract)
    assert not is_of(1, ())
    assert not is_of(1, (str, float))


def test_what_is_asked() -> None:
    assert is_of(Liar(), Liar)
    assert not is_of(Liar(), int)
    assert is_of(Loud(), (int, Loud))
    assert is_of(1, Numbers)
    assert not is_of(Numbers(), Numbers)


@pytest.mark.parametrize(
    ("cls", "answer"), [(int, False), (Numbers, False), (Liar, True), (Loud, True), (Quiet, False), (Strict, False)]
)
def test_answers_itself(cls: type, answer: bool) -> None:
    assert answers_itself(cls) is answer


def test_look_up() -> None:
    assert look_up(Quiet, "__getattribute__", None) is object.__getattribute__
    assert look_up(Liar, "__class__", None) is vars(Liar)["__class__"]
    assert look_up(Strict, "mro", None) is vars(type)["mro"]
    assert look_up(Numbers, "mro", None) is None  # which its class has


class SetOnly:
    def __set__(self, obj: Any, value: Any) -> None: ...


class DeleteOnly(property):
    def __delete__(self, obj: Any) -> None: ...


@pytest.mark.parametrize(
    ("value", "writes"),
    [(1, False), (len, False), (str.upper, False), (lambda: 1, False), (Liar.__dict__["__class__"], True),
     (SetOnly(), True), (DeleteOnly(), True)],
)  # fmt: skip
def test_is_data_descriptor(value: Any, writes: bool) -> None:
    assert is_data_descriptor(value) is writes


def test_is_generic() -> None:
    for cls in (object, list, dict, BaseException, Quiet, Liar):
        assert is_generic(cls.__getattribute__) and is_generic(cls.__setattr__)
    others = (type.__getattribute__, super.__getattribute__, type.__setattr__, Loud.__getattribute__, str.upper, 1)
    for method in others:
        assert not is_generic(method)


def test_what_is_no_class() -> None:
    with pytest.raises(TypeError, match="arg 2 must be a class"):
        is_of(1, 2)
    with pytest.raises(TypeError, match="takes 2 arguments, not 1"):
        is_of(1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="takes a class, not int"):
        answers_itself(1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes a class, a name"):
        look_up(1, "real", None)  # type: ignore[arg-type]
