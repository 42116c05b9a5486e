"""Sources: paths to values from outside of the frame."""

from __future__ import annotations

from onegraph.capture.source import Arg, Attr, DictOf, Item


def test_a_path_is_hashed_once() -> None:
    asked = []

    class Key(str):
        def __hash__(self) -> int:
            asked.append(self)
            return 7

    source = Item(DictOf(Arg(0, "self")), Key("weight"))
    assert hash(Attr(source, "data")) == hash(Attr(source, "data"))
    assert len(asked) == 1
