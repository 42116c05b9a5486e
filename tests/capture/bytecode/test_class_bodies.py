"""The body of a class as a function, whose namespace is a variable."""

from __future__ import annotations

from types import CellType, CodeType, FunctionType
from typing import Any

import pytest

from onegraph.capture.bytecode import decode, encode
from onegraph.capture.bytecode.frame import NAMESPACE
from onegraph.capture.resume.class_bodies import as_function

SOURCE = '''
G = 3

def f(free):
    class C:
        """Documented."""
        a = G
        y: int = a + 1
        for i in range(3):
            try:
                if i == 1:
                    missing
            except NameError as error:
                told = str(error), error.name, error.__context__
        try:
            del nothing
        except NameError as error:
            gone = str(error), error.name, error.__context__
        more = free + 1
        G = 4
        k = G, [v for v in range(i)], len("abc")

        def go(self):
            return __class__

        del a
    return C
'''


def body_of(space: dict[str, Any]) -> FunctionType:
    """The body of the class in SOURCE as a function of the namespace."""
    code = next(each for each in space["f"].__code__.co_consts if isinstance(each, CodeType))
    body = as_function(decode(code))
    assert body is not None
    others = (name for name in body.bytecode.code.co_varnames if name != NAMESPACE)
    made = encode(body.bytecode, co_argcount=1, co_varnames=(NAMESPACE, *others))
    return FunctionType(made, space, "C", None, tuple(CellType(5) for _ in made.co_freevars))


def test_what_it_leaves_in_the_namespace() -> None:
    space: dict[str, Any] = {"__name__": "program"}
    exec(compile(SOURCE, "program", "exec", dont_inherit=True), space)
    cls = space["f"](5)
    expected = dict(vars(cls))
    found: dict[str, Any] = {}
    cell = body_of(space)(found)
    assert isinstance(cell, CellType)
    names = [name for name in found if not name.startswith("__") and name != "go"]
    assert names == [name for name in expected if not name.startswith("__") and name != "go"]
    assert [found[name] for name in names] == [expected[name] for name in names]
    for name in ("__module__", "__qualname__", "__doc__"):
        assert found[name] == expected.get(name, "f.<locals>.C")
    assert type("C", (), found).__annotations__ == cls.__annotations__ == {"y": int}


class Noting(dict[str, Any]):
    """A namespace with methods of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Any] = []

    def __getitem__(self, key: str) -> Any:
        self.log.append(("get", key))
        if key == "free":
            raise ValueError(key)
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self.log.append(("set", key))
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self.log.append(("del", key))
        super().__delitem__(key)


def test_a_namespace_with_methods_is_asked_as_in_the_body() -> None:
    class Meta(type):
        @classmethod
        def __prepare__(cls, name: str, bases: Any, **_: Any) -> Any:
            return prepared

    space: dict[str, Any] = {"__name__": "program", "Meta": Meta}
    source = SOURCE.replace("class C:", "class C(metaclass=Meta):")
    exec(compile(source, "program", "exec", dont_inherit=True), space)
    prepared, given = Noting(), Noting()
    with pytest.raises(ValueError, match="free"):
        space["f"](5)
    with pytest.raises(ValueError, match="free"):
        body_of(space)(given)
    assert given.log == prepared.log
