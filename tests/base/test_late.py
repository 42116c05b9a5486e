"""Modules that are imported when a function of theirs is first called."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import ModuleType

import pytest

from onegraph.base.late import late_module


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that nobody has imported."""
    (tmp_path / "late_one.py").write_text(
        "import gc\nRESTS = not gc.isenabled()\ndef double(x, times=1): return 2 * x * times\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "late_one", raising=False)
    return "late_one"


def imported(name: str) -> ModuleType:
    return sys.modules[name]


def test_a_module_is_imported_by_the_first_call(late: str) -> None:
    double = late_module(late).double
    assert late not in sys.modules
    assert double(3, times=2) == 12
    assert imported(late).double(3) == 6


def test_a_function_is_one_object(late: str) -> None:
    assert late_module(late).double is late_module(late).double
    assert late_module(late).double.__name__ == "double"


def test_a_function_that_is_replaced_is_the_new_one(late: str) -> None:
    assert late_module(late).double(1) == 2
    imported(late).double = lambda x: -x
    assert late_module(late).double(1) == -1


def test_the_garbage_collector_rests_while_it_is_imported(late: str) -> None:
    late_module(late).double(1)
    assert imported(late).RESTS
    assert gc.isenabled()


def test_what_is_not_there_is_an_error_of_the_call(late: str) -> None:
    missing = late_module(late).missing
    with pytest.raises(AttributeError, match="missing"):
        missing()
