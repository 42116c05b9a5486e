"""What the suite looks for in the message of each graph break."""

from __future__ import annotations

import words_of_breaks

from onegraph.capture.breaks.reason import GraphBreak, Reason


def test_a_name_from_the_insides_is_found() -> None:
    assert words_of_breaks.names_insides("Unread")
    assert words_of_breaks.names_insides("a method of FakeTensor")
    assert words_of_breaks.names_insides("call of onegraph.mylib_foo_default")
    assert not words_of_breaks.names_insides("call of onegraph.graph_break with a library.FakeTensor")
    assert not words_of_breaks.names_insides("Target sizes do not match")


def test_each_break_is_looked_at() -> None:
    reason = Reason("Tests", "a-test", "use of a {kind}", "")
    GraphBreak(reason, kind="list")
    assert words_of_breaks.FOUND == []
    GraphBreak(reason, kind="Unfilled")
    assert words_of_breaks.FOUND.pop() == "a-test: use of a Unfilled"
