"""Another hook in the same process: ours chains to it, in whatever order the two come and go."""

from __future__ import annotations

import importlib.util
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from native.swap import Swapper, marked, simple, swapped, twin


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    source = Path(__file__).with_name("other_hook.c")
    target = tmp_path_factory.mktemp("other_hook") / f"other_hook{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = sysconfig.get_path("include")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", f"-I{include}", str(source), "-o", str(target)], check=True)
    spec = importlib.util.spec_from_file_location("other_hook", target)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def other(built: ModuleType) -> Iterator[ModuleType]:
    built.drop_all()  # torch's compiler leaves its hook there where an operator of control flow fails
    yield built
    clean = built.is_clean()
    built.drop_all()
    assert clean, "a hook was left in the interpreter"


SWAPPED = ("swapped", 1, 2, 3)


def helper():
    return None


def in_region(function):
    return Swapper().region(function)()


def test_other_hook_around_ours(other: ModuleType) -> None:
    function = twin(simple)
    region = swapped(function, marked)
    other.install()
    before = other.count()
    assert region(1) == SWAPPED and region(1) == SWAPPED
    helper()
    assert other.count() > before
    other.uninstall()


def test_other_hook_set_and_taken_away_in_a_region(other: ModuleType) -> None:
    inner = swapped(twin(simple), marked)

    def work():
        other.install()
        before = other.count()
        assert inner(1) == SWAPPED
        helper()
        assert other.count() > before
        other.uninstall()
        return inner(1)

    assert in_region(work) == SWAPPED


def test_other_hook_left_above_ours_when_the_region_ends(other: ModuleType) -> None:
    in_region(other.install)
    region = swapped(twin(simple), marked)
    assert region(1) == SWAPPED and region(1) == SWAPPED
    helper()
    other.uninstall()
    assert region(1) == SWAPPED


def test_other_hook_below_and_above_ours_does_not_loop(other: ModuleType) -> None:
    other.install()

    def work():
        other.install()  # asks whether it is on top, is not, and takes ours for the one below
        return helper(), swapped(twin(simple), marked)(1)

    assert in_region(work) == (None, SWAPPED)
    other.drop_all()


def test_other_hook_comes_above_ours_a_second_time(other: ModuleType) -> None:
    def work():
        other.install()
        in_region(other.install)  # ours was put above it, and it takes that for the one below
        before = other.count()
        assert swapped(twin(simple), marked)(1) == SWAPPED
        helper()
        assert other.count() > before
        other.uninstall()

    in_region(work)
    assert swapped(twin(simple), marked)(1) == SWAPPED


def test_our_hook_comes_back_after_another_one_has_thrown_it_out(other: ModuleType) -> None:
    def work():
        other.drop_all()
        return swapped(twin(simple), marked)(1)

    assert in_region(work) == SWAPPED
    assert swapped(twin(simple), marked)(1) == SWAPPED
