"""Room on Python's stack changes nothing but where frames lie."""

from __future__ import annotations

import sys
import threading

import pytest

from onegraph.base.stack import with_room


def depth(left: int) -> int:
    return left if left == 0 else depth(left - 1) + 1


def test_results_and_errors_come_through() -> None:
    assert with_room(divmod, 7, 2) == (3, 1)
    assert with_room(lambda: with_room(depth, 500)) == 500
    with pytest.raises(ZeroDivisionError):
        with_room(divmod, 7, 0)


def test_recursion_ends_where_it_would() -> None:
    with pytest.raises(RecursionError):
        with_room(depth, 2 * sys.getrecursionlimit())
    assert with_room(depth, 100) == 100


def test_frames_can_be_looked_at() -> None:
    callers = with_room(lambda: (sys._getframe(1), sys._getframe(2)))
    assert [frame.f_code.co_name for frame in callers] == ["_call", "with_room"]


def test_threads_have_rooms_of_their_own() -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(with_room(depth, 300))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [300] * 4
