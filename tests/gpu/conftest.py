"""A driver for the tests of this folder, which must not complain of what they do."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from gpu.driver import StandIn


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Some tests need torch in processes of their own alone: a Python without it has none of this folder."""
    return None if find_spec("torch") else True


@pytest.fixture(scope="session")
def any_driver() -> StandIn:
    return StandIn()


@pytest.fixture
def driver(any_driver: StandIn, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Tensors that are to lie on a CUDA device lie on the CPU."""
    from onegraph.compiler.runtime import launcher  # it needs torch, which is not there for all tests

    monkeypatch.setattr(launcher, "DEVICES", ("cuda", "", *launcher.DEVICES[2:]))
    any_driver.set(devices=1, capability=80, shared=166912, any_memory=0, quiet=0)
    any_driver.forget()
    yield any_driver
    complaints = any_driver.complaints()
    any_driver.use(0)
    any_driver.forget()
    assert not complaints and any_driver.capture_mode() == 0
