"""What compiled code knows of the classes of the program, and that it hears of their changes."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

import onegraph
from onegraph import _C
from onegraph.capture.guards.encode import encode
from onegraph.capture.heap.class_facts import AsDefined


@pytest.fixture(autouse=True)
def fresh():
    onegraph.reset()
    yield
    onegraph.reset()


class Base:
    count = 0

    def size(self) -> int:
        return 3


def made_class() -> Any:
    class Made(Base):
        def __init__(self) -> None:
            self.v = 1

        @property
        def twice(self) -> int:
            return 2 * self.v

    return Made


def replaced_bases(cls: Any) -> None:
    cls.__bases__ = (type("Other", (Base,), {}),)


CHANGES = {
    "__len__": lambda cls: setattr(cls, "__len__", lambda self: 0),
    "__bool__": lambda cls: setattr(cls, "__bool__", lambda self: False),
    "__getattr__": lambda cls: setattr(cls, "__getattr__", lambda self, name: name),
    "v": lambda cls: setattr(cls, "v", property(lambda self: "hidden")),
    "size": lambda cls: setattr(cls, "size", lambda self: 4),
    "twice": lambda cls: setattr(cls, "twice", property(lambda self: "other")),
    "bases": replaced_bases,
}


def answers(obj: Any, x: torch.Tensor) -> Any:
    return bool(obj), obj.v, obj.size(), obj.twice, getattr(obj, "missing", None), x + 1


@pytest.mark.parametrize("change", CHANGES)
def test_a_class_that_changes_is_seen(change):
    cls = made_class()
    obj, x = cls(), torch.ones(2)
    compiled = onegraph.compile(answers, backend="eager", fullgraph=True)
    assert compiled(obj, x)[:5] == answers(obj, x)[:5]
    CHANGES[change](cls)
    assert compiled(obj, x)[:5] == answers(obj, x)[:5]


def test_values_that_nobody_reads_may_change():
    graphs = []

    def counting(gm: Any, inputs: Any) -> Any:
        graphs.append(gm)
        return gm.forward

    cls = made_class()
    compiled = onegraph.compile(answers, backend=counting, fullgraph=True)
    for number in range(3):
        cls.seen = number
        compiled(cls(), torch.ones(2))
    assert len(graphs) == 1


def test_a_recompilation_names_what_has_changed():
    cls = made_class()
    compiled = onegraph.compile(answers, backend="eager", fullgraph=True, options={"recompile_limit": 1})
    compiled(cls(), torch.ones(2))
    cls.__len__ = lambda self: 0
    with pytest.raises(onegraph.RecompileLimitError, match="has changed: `__len__` is new"):
        compiled(cls(), torch.ones(2))


def test_the_difference_is_told():
    cls = made_class()
    known = AsDefined(cls)
    assert known.difference(cls) is None
    cls.count = 1
    assert known.difference(cls) == "`count` is new"
    del cls.count
    before, cls.twice = cls.__dict__["twice"], 5
    assert known.difference(cls) == "`twice` is another"
    cls.twice = before
    replaced_bases(cls)
    assert known.difference(cls) == "its bases are others"


def test_a_class_is_looked_at_again_only_when_it_has_changed():
    cls, asked = made_class(), []

    def check(kind: type) -> bool:
        asked.append(kind)
        return True

    program = encode([("CONST", 0, 0), ("FACT", 0, 1)], (cls, _C.Fact(check)))
    for _ in range(3):
        assert program.check(answers, ())
    assert asked == [cls]
    cls.seen = 1
    Base.count += 1
    try:
        for _ in range(3):
            assert program.check(answers, ())
    finally:
        Base.count = 0
    assert asked == [cls, cls]


def test_a_class_of_the_program_is_let_go():
    cls = made_class()
    compiled = onegraph.compile(answers, backend="eager", fullgraph=True)
    compiled(cls(), torch.ones(2))
    reference = weakref.ref(cls)
    del cls
    gc.collect()
    assert reference() is None


def test_a_finalizer_that_a_class_gets_later_is_not_run_for_what_a_trace_makes():
    cls, ended = made_class(), []
    obj, x = cls(), torch.ones(2)
    compiled = onegraph.compile(lambda obj, x: (obj.v, x + 1), backend="eager")
    compiled(obj, x)
    cls.__del__ = lambda self: ended.append(self.v)
    obj.v = 2
    assert compiled(obj, x)[0] == 2
    gc.collect()
    assert ended == []
    del obj
    assert ended == [2]


class Marked:
    mark = object.__new__(Base)
    names: list[str] = []


def test_what_a_library_finds_among_the_names_of_a_class_is_known_as_the_programs():
    of_library: dict[str, Any] = {"__name__": "string", "Marked": Marked, "mark": Marked.mark}
    text = "def found(name):\n    value = vars(Marked)[name]\n    return value, value is mark"
    exec(text, of_library)
    found = of_library["found"]
    compiled = onegraph.compile(lambda x: (x + 1, found("mark")), backend="eager", fullgraph=True)
    assert compiled(torch.ones(2))[1] == (Marked.mark, True)


def test_what_a_library_appends_to_among_the_names_of_a_class_is_appended_once():
    of_library: dict[str, Any] = {"__name__": "string", "Marked": Marked}
    exec("def note(name):\n    Marked.__dict__['names'].append(name)", of_library)
    note = of_library["note"]
    onegraph.compile(lambda x: (note("a"), x + 1), backend="eager")(torch.ones(2))
    try:
        assert Marked.names == ["a"]
    finally:
        Marked.names.clear()
